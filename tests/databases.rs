//! What locks in a database, and ways without a lock, must show, and do.
//!
//! Worked out by hand from PostgreSQL's behaviour before the simulator was asked, as in
//! `findings.rs`. Every failure prints the command that shows it.

use fencepost::algorithms::{self, Algorithm, Family};
use fencepost::scenarios::{self, Run, Scenario, builtin};
use fencepost::sim::engine::Event;
use fencepost::sim::history::{self, What};
use fencepost::sim::{Millis, NodeId};

const SEEDS: u64 = 30;
const A: NodeId = NodeId::Client(1);

fn algorithm(name: &str) -> &'static dyn Algorithm {
    let mut all = algorithms::ALL.iter();
    *all.find(|a| a.name() == name).expect("a known name")
}

/// A built-in scenario with some of its values changed.
fn scenario(name: &str, overrides: &[(&str, &str)]) -> Scenario {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let overrides: Vec<_> = overrides.iter().map(own).collect();
    let loaded = builtin::get(name, &overrides).expect("a known name");
    loaded.unwrap_or_else(|bad| panic!("{bad:?}"))
}

fn runs<'s>(name: &str, scenario: &'s Scenario) -> impl Iterator<Item = Run> + use<'s> {
    let algorithm = algorithm(name);
    let play = move |seed| fencepost::run(algorithm, scenario, seed).expect("the testbed works");
    (0..SEEDS).map(play).filter(|run| !run.verdict.vacuous)
}

#[track_caller]
fn never(name: &str, scenario: &Scenario, invariants: &[&str]) {
    let mut counted = 0;
    for run in runs(name, scenario) {
        counted += 1;
        for invariant in invariants {
            let replay = format!("fencepost run {name} {} --seed {}", scenario.name, run.seed);
            assert!(!run.verdict.has(invariant), "{invariant}; see: {replay}");
        }
    }
    assert!(
        counted * 2 > SEEDS,
        "{name} under {}: {counted} runs count",
        scenario.name
    );
}

/// In how many of the runs that count.
fn share(name: &str, scenario: &Scenario, invariant: &str) -> f64 {
    let (mut hits, mut of) = (0, 0);
    for run in runs(name, scenario) {
        of += 1;
        hits += u32::from(run.verdict.has(invariant));
    }
    f64::from(hits) / f64::from(of)
}

#[test]
fn a_write_in_the_locks_own_transaction_is_never_stale_double_or_lost() {
    let wrong = [
        "double-write",
        "stale-write",
        "lost-update",
        "refused-holder",
        "wrong-release",
    ];
    for scenario in builtin::all() {
        let declares = algorithm("pg-xact").declares();
        if scenario.clients < 10 && scenario.not_applicable(&declares, &Event).is_none() {
            never("pg-xact", &scenario, &wrong);
        }
    }
}

#[test]
fn when_the_server_drops_its_session_a_holder_believes_and_writes_nothing() {
    let scenario = scenario("idle-in-pool", &[]);
    assert!(share("pg-xact", &scenario, "overlap") > 0.9);
    for run in runs("pg-xact", &scenario) {
        assert_eq!(run.facts().accepted().count(), 0, "seed {}", run.seed);
    }
}

#[test]
fn after_a_power_loss_a_database_lock_is_free_when_the_keep_alive_ends() {
    let lost = [
        ("fault.kind", "power-loss"),
        ("world.store.keepalive", "60s"),
        ("world.ends", "300s"),
    ];
    let scenario = scenario("crashed-holder", &lost);
    for name in ["pg-session", "pg-xact"] {
        for run in runs(name, &scenario) {
            let facts = run.facts();
            let of = |event: &&history::Event| event.what == What::Crashed;
            let died = run
                .history
                .events
                .iter()
                .find(of)
                .expect("client-1 dies")
                .at;
            let next = facts.grants.iter().find(|grant| grant.from > died);
            let waited = next.expect("the session ends").from - died;
            // Its last word was its read, and whoever waits asks at least every 900 ms.
            let replay = format!("{name}, seed {}: {waited} ms", run.seed);
            assert!((59_900..61_500).contains(&waited), "{replay}");
            assert!(run.verdict.has("stuck"), "{replay}");
        }
    }
}

#[test]
fn after_a_crash_a_database_lock_is_free_at_once() {
    let scenario = scenario("crashed-holder", &[]);
    for name in ["pg-session", "pg-xact"] {
        for run in runs(name, &scenario) {
            let facts = run.facts();
            let until = facts.grants[0].until.expect("freed");
            let of = |event: &&history::Event| event.what == What::Crashed;
            let died = run
                .history
                .events
                .iter()
                .find(of)
                .expect("client-1 dies")
                .at;
            assert!(until - died <= 5, "{name}, seed {}", run.seed);
        }
    }
}

#[test]
fn through_a_transaction_pooler_a_session_lock_is_not_even_safe_in_calm() {
    let calm = scenario("calm", &[]);
    for invariant in ["double-write", "lost-update", "overlap"] {
        assert!(share("pg-pooled", &calm, invariant) > 0.5, "{invariant}");
        assert_eq!(share("pg-session", &calm, invariant), 0.0, "{invariant}");
    }
}

/// The fences of a run's leases, in the order of the grants.
fn fences(run: &Run) -> Vec<u64> {
    let facts = run.facts();
    let fence = |grant: &scenarios::facts::Grant| {
        let of = |belief: &&scenarios::facts::Belief| belief.token == grant.token;
        facts.beliefs.iter().find(of)?.fence
    };
    facts.grants.iter().filter_map(fence).collect()
}

#[test]
fn a_fence_from_the_database_survives_the_loss_of_redis() {
    let restart = scenario("redis-restart", &[]);
    never(
        "fenced-sequence",
        &restart,
        &["token-order", "double-write", "refused-holder"],
    );
    for run in runs("fenced-sequence", &restart) {
        let mut fences = fences(&run);
        let count = fences.len();
        fences.sort_unstable();
        fences.dedup();
        assert_eq!(fences.len(), count, "seed {}", run.seed);
    }
    assert!(share("fenced", &restart, "token-order") > 0.5);
}

#[test]
fn a_number_drawn_after_the_lock_lets_the_older_holder_win() {
    let late = scenario("late-acquire-replies", &[]);
    never("fenced-sequence", &late, &["token-order", "double-write"]);
    for invariant in ["token-order", "double-write"] {
        assert!(
            share("fenced-sequence-late", &late, invariant) > 0.3,
            "{invariant}"
        );
    }
}

/// How long the job of the worker that dies waits for the next one.
fn waited(run: &Run) -> Option<Millis> {
    let facts = run.facts();
    let first = facts.beliefs.iter().find(|belief| belief.client == A)?;
    let died = first.until?;
    let next = facts
        .beliefs
        .iter()
        .filter(|belief| belief.client != A && belief.key == first.key);
    let next = next.map(|belief| belief.from).find(|from| *from > died);
    next.map(|from| from - died)
}

#[test]
fn a_dead_workers_job_is_free_at_once_or_after_its_lease_or_never() {
    let dies = scenario("worker-dies-mid-job", &[]);
    for run in runs("pg-queue", &dies) {
        // Whoever is free takes it; a job takes at most 20 s.
        assert!(
            waited(&run).is_some_and(|waited| waited < 22_000),
            "seed {}",
            run.seed
        );
    }
    for run in runs("pg-claim", &dies) {
        let waited = waited(&run);
        let waited = waited.unwrap_or_else(|| panic!("seed {}", run.seed));
        assert!(
            (26_000..52_000).contains(&waited),
            "seed {}: {waited}",
            run.seed
        );
    }
    for run in runs("pg-claim-unreaped", &dies) {
        assert_eq!(waited(&run), None, "seed {}", run.seed);
        let mut violations = run.verdict.violations.iter();
        assert!(violations.any(|violation| violation.why.ends_with("until the run ended")));
    }
}

#[test]
fn a_jobs_effect_may_happen_twice_though_its_row_is_written_once() {
    let mut dropped = scenario("idle-in-pool", &[]);
    dropped.work = &scenarios::work::Queue;
    dropped.keys = 2;
    // Shorter than some of the work, longer than the rest.
    dropped.store.idle_timeout = Some(18_000);
    assert!(share("pg-queue", &dropped, "ran-twice") > 0.3);
    for run in runs("pg-queue", &dropped) {
        for row in 1..=2 {
            let writes = run
                .facts()
                .accepted()
                .filter(|write| write.row == row)
                .count();
            assert!(writes <= 1, "seed {}", run.seed);
        }
    }
}

#[test]
fn in_a_flash_sale_a_fence_or_a_condition_keeps_the_stock_above_zero() {
    let rush = scenario("seckill-rush", &[]);
    assert!(share("naive", &rush, "oversold") > 0.5);
    for name in [
        "fenced",
        "fenced-claim",
        "pg-lease",
        "conditional-update",
        "pg-xact",
    ] {
        never(name, &rush, &["oversold"]);
    }
}

#[test]
fn ways_without_a_lock_keep_their_work_whatever_happens() {
    for scenario in builtin::all()
        .iter()
        .filter(|scenario| scenario.clients < 10)
    {
        for algorithm in algorithms::ALL {
            let declares = algorithm.declares();
            let restarts = scenario.name == "limiter-restart";
            if declares.family == Family::LockFree
                && scenario.not_applicable(&declares, &Event).is_none()
            {
                let own = [
                    "paid-twice",
                    "oversold",
                    "over-limit",
                    "ran-twice",
                    "lost-update",
                ];
                if restarts {
                    assert!(share(algorithm.name(), scenario, "over-limit") > 0.5);
                } else {
                    never(algorithm.name(), scenario, &own);
                }
            }
        }
    }
}

#[test]
fn an_algorithm_is_not_asked_for_work_that_it_cannot_do() {
    let calm = scenario("calm", &[]);
    let reason = calm.not_applicable(&algorithm("pg-queue").declares(), &Event);
    assert_eq!(reason.as_deref(), Some("it cannot do the work `counter`"));
    let restart = scenario("redis-restart", &[]);
    let reason = restart.not_applicable(&algorithm("pg-lease").declares(), &Event);
    let kept = "it lives in the database, which keeps its data";
    assert_eq!(reason.as_deref(), Some(kept));
}
