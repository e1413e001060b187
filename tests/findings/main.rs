//! What the references say must happen, and does.
//!
//! Each expectation was worked out by hand from the published behaviour of the locks and of
//! Redis before the simulator was asked. Every failure prints the command that shows it.

mod incidents;

use std::sync::atomic::AtomicBool;

use fencepost::scenarios::matrix::{Cell, Seeds, play};
use fencepost::scenarios::{Run, Scenario, builtin};
use fencepost::sim::engine::Event;
use fencepost::sim::fault::{Fault, Plan, Planned, When};
use fencepost::sim::history::What;
use fencepost::sim::{Millis, NodeId};
use fencepost::{algorithms, scenario, scenarios, sim};

const SEEDS: Seeds = Seeds { from: 0, count: 60 };

fn algorithm(name: &str) -> &'static dyn algorithms::Algorithm {
    *algorithms::ALL
        .iter()
        .find(|algorithm| algorithm.name() == name)
        .expect("a known name")
}

fn cell(name: &str, under: &str) -> Cell {
    cell_of(name, scenario(under).expect("a known name"))
}

fn cell_of(name: &str, scenario: Scenario) -> Cell {
    let never = AtomicBool::new(false);
    let matrix = play(
        &[algorithm(name)],
        &[scenario],
        SEEDS,
        &Event,
        &|| {},
        &never,
    );
    matrix
        .cells
        .into_iter()
        .next()
        .expect("one algorithm, one scenario")
}

fn runs(name: &str, under: &str) -> impl Iterator<Item = Run> {
    let (name, scenario) = (algorithm(name), scenario(under).expect("a known name"));
    (SEEDS.from..SEEDS.from + SEEDS.count)
        .map(move |seed| fencepost::run(name, &scenario, seed).expect("the testbed works"))
        .filter(|run| !run.verdict.vacuous)
}

/// In most runs.
#[track_caller]
fn shows(name: &str, under: &str, invariants: &[&str]) {
    let cell = cell(name, under);
    for invariant in invariants {
        let rate = cell.violation(invariant).expect("a judged invariant").rate;
        assert!(
            rate.share() >= 0.1,
            "{invariant} in {} of {} runs of {name} under {under}; see: fencepost run {name} {under} --seed 0",
            rate.hits,
            rate.of,
        );
    }
}

/// In some runs, however few.
#[track_caller]
fn can_show(name: &str, under: &str, invariants: &[&str]) {
    let cell = cell(name, under);
    for invariant in invariants {
        let rate = cell.violation(invariant).expect("a judged invariant").rate;
        assert!(
            rate.hits > 0,
            "no {invariant} in {} runs of {name} under {under}",
            rate.of
        );
    }
}

/// In no run.
#[track_caller]
fn never_shows(name: &str, under: &str, invariants: &[&str]) {
    let cell = cell(name, under);
    assert!(
        cell.runs >= 50,
        "only {} runs of {name} under {under} count",
        cell.runs
    );
    for invariant in invariants {
        let violation = cell.violation(invariant).expect("a judged invariant");
        if let Some(seed) = violation.first_seed {
            panic!("{invariant}; see: fencepost run {name} {under} --seed {seed}");
        }
    }
}

/// No run violates anything.
#[track_caller]
fn is_safe(name: &str, under: &str) {
    let ordered = algorithm(name).declares().ordered;
    let scenario = scenario(under).expect("a known name");
    let names: Vec<_> = scenarios::run::judged_by(&scenario, ordered)
        .iter()
        .map(|invariant| invariant.name())
        .collect();
    never_shows(name, under, &names);
}

#[test]
fn after_a_pause_naive_writes_twice_and_frees_its_successors_lock() {
    shows("naive", "gc-pause", &["double-write", "wrong-release"]);
}

#[test]
fn after_a_pause_naive_lets_a_third_client_in() {
    // Client-1 frees the lock of whoever holds it; a third belief begins while that one's
    // still lasts.
    let third =
        runs("naive", "gc-pause").any(|run| {
            let facts = run.facts();
            let ended = run.history.ended;
            facts.beliefs.iter().any(|third| {
                let holds_then = |other: &&scenarios::facts::Belief| {
                    other.from <= third.from && other.until.unwrap_or(ended) > third.from
                };
                let stolen = facts
                    .removals
                    .iter()
                    .any(|removal| removal.by == NodeId::Client(1) && removal.event < third.event);
                stolen
                    && third.client != NodeId::Client(1)
                    && facts.beliefs.iter().filter(holds_then).any(|other| {
                        other.client != third.client && other.client != NodeId::Client(1)
                    })
            })
        });
    assert!(third, "see: fencepost run naive gc-pause");
}

#[test]
fn after_a_pause_a_token_prevents_the_wrong_release_but_not_the_double_write() {
    shows("tokened", "gc-pause", &["double-write"]);
    never_shows("tokened", "gc-pause", &["wrong-release"]);
}

#[test]
fn after_a_pause_a_renewing_holder_looks_and_does_not_write() {
    shows("renewing", "gc-pause", &["overlap"]);
    never_shows("renewing", "gc-pause", &["stale-write", "double-write"]);
}

#[test]
fn after_a_pause_between_look_and_write_renewing_writes_all_the_same() {
    shows("renewing", "pause-after-check", &["stale-write"]);
}

#[test]
fn a_fence_prevents_double_writes_and_still_accepts_some_stale_ones() {
    never_shows("fenced", "gc-pause", &["double-write"]);
    can_show("fenced", "gc-pause", &["stale-write", "lost-update"]);
}

#[test]
fn a_claim_prevents_double_writes_and_lost_updates() {
    never_shows("fenced-claim", "gc-pause", &["double-write", "lost-update"]);
}

#[test]
fn a_stale_write_past_a_claim_falls_between_the_grant_and_the_first_access() {
    for under in ["gc-pause", "slow-work", "delayed-write", "cut-off-holder"] {
        for run in runs("fenced-claim", under) {
            let facts = run.facts();
            let stale = run
                .verdict
                .violations
                .iter()
                .filter(|v| v.invariant == "stale-write");
            for violation in stale {
                let write = facts
                    .writes
                    .iter()
                    .find(|write| write.event == violation.event);
                let write = write.expect("a write breached it");
                let newer_access = facts.reads.iter().any(|read| {
                    let newer = facts.grant_of(&read.token) > write.grant;
                    read.row == write.row && newer && read.event < write.event
                });
                assert!(
                    !newer_access,
                    "fencepost run fenced-claim {under} --seed {}",
                    run.seed
                );
            }
        }
    }
}

#[test]
fn after_a_pause_five_servers_are_no_better_than_one() {
    shows("redlock", "gc-pause", &["double-write"]);
}

#[test]
fn a_lock_without_ttl_waits_for_the_sleeper() {
    is_safe("setnx", "gc-pause");
}

#[test]
fn when_both_read_before_either_wrote_fences_are_in_order_and_the_update_is_lost() {
    never_shows("fenced", "slow-work", &["double-write"]);
    shows("fenced", "slow-work", &["lost-update"]);
    never_shows("fenced-claim", "slow-work", &["lost-update"]);
}

#[test]
fn a_repeated_del_frees_anothers_lock_without_any_pause() {
    shows("naive", "replayed-release", &["wrong-release"]);
    is_safe("tokened", "replayed-release");
    let scenario = scenario("replayed-release").expect("a known name");
    let pauses = |fault: &scenarios::scenario::FaultRange| {
        matches!(fault.kind, scenarios::scenario::FaultKind::Pause { .. })
    };
    assert!(!scenario.faults.iter().any(pauses));
}

#[test]
fn renewing_does_not_help_against_a_delayed_write() {
    shows(
        "renewing",
        "delayed-write",
        &["stale-write", "double-write"],
    );
}

#[test]
fn redlock_survives_late_answers_and_does_not_without_its_check() {
    is_safe("redlock", "late-acquire-replies");
    shows(
        "redlock-unchecked",
        "late-acquire-replies",
        &["double-write"],
    );
}

/// The locks that need a majority of five servers.
const QUORUMS: [&str; 4] = [
    "redlock",
    "redlock-unchecked",
    "redlock-extend",
    "redisson-multi",
];

#[test]
fn one_server_of_five_breaks_a_holder_of_three() {
    for under in ["redlock-clock-step", "redlock-restart"] {
        for name in QUORUMS {
            shows(name, under, &["paid-twice", "double-write", "lost-update"]);
        }
    }
}

#[test]
fn a_holder_of_three_is_safe_when_the_server_that_forgot_stays_out() {
    for name in QUORUMS {
        is_safe(name, "redlock-delayed-restart");
    }
}

#[test]
fn three_servers_break_a_holder_of_five_and_two_do_not() {
    for under in ["redlock-three-clock-steps", "redlock-three-restarts"] {
        for name in QUORUMS {
            shows(name, under, &["paid-twice", "lost-update", "overlap"]);
            let mut scenario = scenario(under).expect("a known name");
            scenario.faults.truncate(2);
            let cell = cell_of(name, scenario);
            assert!(
                cell.runs >= 50,
                "{} runs of {name} under {under}",
                cell.runs
            );
            for violation in &cell.violations {
                let (what, hits) = (violation.invariant, violation.rate.hits);
                assert_eq!(hits, 0, "{what}: {name}, two faults of {under}");
            }
        }
    }
}

#[test]
fn an_extending_holder_hears_of_it_when_no_majority_can_be_left() {
    // From 10 s on, the next extension stops it; work of 5 to 20 s is cut short in two runs of three.
    for under in ["redlock-three-clock-steps", "redlock-three-restarts"] {
        let all = runs("redlock-extend", under).count();
        let told = runs("redlock-extend", under).filter(notices).count();
        assert!(told * 2 > all, "{told} of {all} runs under {under}");
    }
    // Two servers that still hold and two that refuse might be four: it goes on, as it may until
    // its lease is over.
    for run in runs("redlock-extend", "redlock-clock-step") {
        let replay = format!("redlock-extend redlock-clock-step --seed {}", run.seed);
        assert!(!notices(&run), "fencepost run {replay}");
    }
}

/// Whether client-1 notices in its first section that its lease is lost.
fn notices(run: &Run) -> bool {
    run.history.events.iter().any(|event| {
        event.node == NodeId::Client(1) && matches!(event.what, What::NoticedLoss { section: 1 })
    })
}

#[test]
fn redissons_red_lock_believes_answers_that_are_older_than_its_lease() {
    shows("redisson-multi", "late-acquire-replies", &["double-write"]);
}

#[test]
fn a_suspended_machine_makes_the_look_at_the_lease_worthless() {
    for name in ["renewing", "redlock-extend"] {
        shows(name, "vm-suspend", &["double-write"]);
        never_shows(name, "gc-pause", &["double-write", "stale-write"]);
    }
    never_shows("fenced", "vm-suspend", &["double-write"]);
}

#[test]
fn after_a_restart_without_data_the_first_token_is_handed_out_twice() {
    shows(
        "fenced",
        "redis-restart",
        &["token-order", "refused-holder"],
    );
    for run in runs("fenced", "redis-restart") {
        let first = run
            .facts()
            .beliefs
            .iter()
            .filter(|belief| belief.fence == Some(1))
            .count();
        assert!(
            first >= 2,
            "fencepost run fenced redis-restart --seed {}",
            run.seed
        );
    }
}

/// How long `stuck` says that it lasted, in every run that counts.
fn stuck(name: &str, under: &str) -> Vec<(u64, Option<String>)> {
    let why = |run: &Run| {
        let stuck = run
            .verdict
            .violations
            .iter()
            .find(|v| v.invariant == "stuck");
        stuck.map(|violation| violation.why.clone())
    };
    runs(name, under).map(|run| (run.seed, why(&run))).collect()
}

#[test]
fn setnx_is_stuck_for_ever_when_its_holder_dies_or_never_hears() {
    for under in ["crashed-holder", "lost-acquire-reply", "server-clock-back"] {
        for (seed, why) in stuck("setnx", under) {
            let for_ever = why.is_some_and(|why| why.ends_with("until the run ended"));
            assert!(for_ever, "see: fencepost run setnx {under} --seed {seed}");
        }
    }
}

#[test]
fn setnx_expire_is_stuck_for_ever_without_its_second_command() {
    for under in ["crash-between", "lost-acquire-reply"] {
        for (seed, why) in stuck("setnx-expire", under) {
            let for_ever = why.is_some_and(|why| why.ends_with("until the run ended"));
            assert!(
                for_ever,
                "see: fencepost run setnx-expire {under} --seed {seed}"
            );
        }
    }
}

#[test]
fn a_ttl_lock_is_stuck_for_its_ttl_and_the_step_when_the_clock_goes_back() {
    let names = [
        "setnx-expire",
        "naive",
        "tokened",
        "renewing",
        "redisson",
        "redisson-fair",
        "fenced",
        "fenced-claim",
        "redlock",
    ];
    for name in names {
        for run in runs(name, "server-clock-back") {
            let Fault::ClockStep { by, .. } = &run.instance.setup.plan.0[0].fault else {
                panic!()
            };
            let facts = run.facts();
            let struck = run
                .history
                .events
                .iter()
                .find(|event| event.what == What::Struck { fault: 0 });
            let struck = struck.expect("the fault strikes").at;
            let first = facts.grants[0].from;
            let next = facts
                .grants
                .iter()
                .map(|grant| grant.from)
                .find(|from| *from > struck);
            let waited = next.expect("granted after the step") - first;
            let least = run.around.ttl + by.unsigned_abs();
            // Whoever waits asks at least every 900 ms, and an answer takes a few milliseconds.
            assert!(
                (least..least + 1_500).contains(&waited),
                "waited {waited} ms for {least} ms: fencepost run {name} server-clock-back --seed {}",
                run.seed,
            );
            assert!(run.verdict.has("stuck"));
        }
    }
}

/// When the last try to release of client-1's first section was over, and when the cut ended.
fn release_and_cut(run: &Run) -> (Millis, Millis) {
    let released = run.history.events.iter().find(|event| {
        event.node == NodeId::Client(1)
            && matches!(
                event.what,
                What::Reached {
                    point: sim::fault::Point::Released,
                    ..
                }
            )
    });
    let cut = run
        .history
        .events
        .iter()
        .find(|event| event.what == What::Over { fault: 0 });
    (
        released.expect("client-1 releases").at,
        cut.expect("the cut ends").at,
    )
}

#[test]
fn a_queued_setnx_sticks_in_just_those_runs_whose_cut_outlives_the_release() {
    for run in runs("setnx", "cut-off-holder") {
        let (released, cut) = release_and_cut(&run);
        // Between the release and the next attempt lies a rest of at most 100 ms.
        if released.abs_diff(cut) > 200 {
            let outlives = cut > released;
            let replay = format!("fencepost run setnx cut-off-holder --seed {}", run.seed);
            assert_eq!(run.verdict.has("stuck"), outlives, "{replay}");
        }
    }
    let stuck = |run: &Run| run.verdict.has("stuck");
    let sticking: Vec<_> = runs("setnx-expire", "cut-off-holder")
        .filter(stuck)
        .collect();
    assert!(sticking.len() >= 6, "only {} runs stick", sticking.len());
    for run in sticking {
        let (released, cut) = release_and_cut(&run);
        assert!(
            cut > released,
            "fencepost run setnx-expire cut-off-holder --seed {}",
            run.seed
        );
    }
}

#[test]
fn a_pause_across_a_renewal_lets_a_second_holder_in_and_one_after_it_does_not() {
    // T is 30 s and the renewal comes 10 s after the grant. A pause from 9.9 s to 34.9 s skips
    // it: the key expires at 30 s. One from 10.1 s to 35.1 s comes after it: the key lives
    // until 40 s, and by then the holder is awake and has refreshed again.
    for (from, second_holder) in [(9_900, true), (10_100, false)] {
        for seed in 0..20 {
            let run = paused_at(seed, from, from + 25_000);
            let facts = run.facts();
            let first = &facts.grants[0];
            let taken_over = facts
                .grants
                .iter()
                .find(|grant| grant.client != first.client);
            let taken_over = taken_over
                .map(|grant| grant.from - first.from)
                .filter(|after| *after < 40_000);
            let why = format!("seed {seed}, paused from {from} ms after the grant: {taken_over:?}");
            assert_eq!(taken_over.is_some(), second_holder, "{why}");
            // Whoever waits asks at least every 900 ms.
            assert!(
                taken_over.is_none_or(|after| (30_000..31_000).contains(&after)),
                "{why}"
            );
        }
    }
}

/// `renewing` with work of 40 s, and client-1 paused between two times after its grant.
fn paused_at(seed: u64, from: Millis, until: Millis) -> Run {
    let calm = include_str!("../../scenarios/slow-work.toml");
    let overrides = [
        ("work.takes", "40s"),
        ("work.items", "1"),
        ("reaches", "\"work-outlived-lease\""),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut scenario = scenarios::load("slow-work.toml", calm, &overrides).expect("it loads");
    let undisturbed = fencepost::run(algorithm("renewing"), &scenario, seed).expect("it runs");
    let granted = undisturbed.facts().grants[0].from;
    let lasts = until - from;
    scenario.faults = vec![scenarios::scenario::FaultRange {
        kind: scenarios::scenario::FaultKind::Pause {
            node: scenarios::scenario::Role::Client(1),
            lasts: lasts..=lasts,
        },
        when: scenarios::scenario::WhenRange::At(granted + from..=granted + from),
    }];
    let run = fencepost::run(algorithm("renewing"), &scenario, seed).expect("it runs");
    let pause = Fault::Pause {
        nodes: vec![NodeId::Client(1)],
        lasts,
    };
    let when = When::At(granted + from);
    assert_eq!(
        run.instance.setup.plan,
        Plan(vec![Planned { fault: pause, when }])
    );
    assert_eq!(
        run.facts().grants[0].from,
        granted,
        "the pause changes nothing before it"
    );
    run
}

#[test]
fn redisson_never_frees_a_strangers_lock() {
    for name in ["redisson", "redisson-fair"] {
        for scenario in builtin::all() {
            let applies = scenario.not_applicable(&algorithm(name).declares(), &Event);
            if applies.is_none() && scenario.clients < 100 {
                for seed in 0..10 {
                    let run = fencepost::run(algorithm(name), &scenario, seed);
                    let run = run.expect("the testbed works");
                    assert!(
                        !run.verdict.has("wrong-release"),
                        "fencepost run {name} {} --seed {seed}",
                        scenario.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_watchdog_keeps_the_lock_through_slow_work() {
    is_safe("redisson", "slow-work");
    is_safe("redisson-fair", "slow-work");
}

#[test]
fn a_watchdog_tells_nobody_that_the_lock_is_lost() {
    for under in ["gc-pause", "server-clock-step", "redis-restart"] {
        shows("redisson", under, &["double-write", "overlap"]);
    }
    // Order is kept here, but the other one had read before.
    shows(
        "redisson",
        "cut-off-holder",
        &["stale-write", "lost-update"],
    );
}

#[test]
fn a_message_that_is_missed_costs_the_rest_of_a_lease_and_polling_costs_a_retry() {
    for name in ["redisson", "redisson-fair"] {
        is_safe(name, "missed-wake-up");
        for run in runs(name, "missed-wake-up") {
            let facts = run.facts();
            let freed = facts.removals[0].at;
            // Client-2 has last asked within its first fraction of a second, when the lock was to
            // last for 30 s.
            let next = facts.grants[1].from;
            let replay = format!("fencepost run {name} missed-wake-up --seed {}", run.seed);
            assert!((29_900..30_500).contains(&next), "{next}: {replay}");
            assert_eq!(run.verdict.cost.idle, next - freed, "{replay}");
        }
    }
    for run in runs("tokened", "missed-wake-up") {
        assert!(run.verdict.cost.idle < 2_000, "seed {}", run.seed);
    }
}

#[test]
fn a_queue_keeps_its_order_until_somebodys_clock_is_wrong() {
    for under in [
        "calm",
        "slow-work",
        "gc-pause",
        "crashed-holder",
        "cut-off-holder",
    ] {
        never_shows("redisson-fair", under, &["unfair"]);
    }
    for under in ["fair-clock-skew", "skewed-clients"] {
        shows("redisson-fair", under, &["unfair"]);
        never_shows(
            "redisson-fair",
            under,
            &["overlap", "double-write", "lost-update"],
        );
    }
    // In the queue of somebody else nobody promised an order, and nobody measures time by it.
    is_safe("redisson", "fair-clock-skew");
    is_safe("redisson", "skewed-clients");
}

#[test]
fn a_dead_waiter_is_waited_for_for_eleven_ttls() {
    for run in runs("redisson-fair", "dead-fair-waiter") {
        let grants = run.facts().grants;
        let replay = format!(
            "fencepost run redisson-fair dead-fair-waiter --seed {}",
            run.seed
        );
        let ttl = run.around.ttl;
        // It told its time by its clock as it set out, up to 40 ms before it came.
        assert_eq!(grants[1].client, NodeId::Client(3), "{replay}");
        let waited = grants[1].from - grants[0].from;
        assert!(
            (11 * ttl - 50..11 * ttl + 50).contains(&waited),
            "{waited}: {replay}"
        );
    }
    is_safe("redisson", "dead-fair-waiter");
}

#[test]
fn after_a_pause_two_believe_in_a_sessions_lock_and_its_revision_keeps_their_writes_in_order() {
    for name in ["etcd", "zookeeper", "consul"] {
        for under in ["gc-pause", "pause-after-check"] {
            shows(name, under, &["overlap"]);
            never_shows(
                name,
                under,
                &["double-write", "token-order", "wrong-release"],
            );
        }
    }
}

#[test]
fn a_lost_holders_lock_goes_on_after_a_ttl_and_with_a_lock_delay_after_two() {
    // Whoever watches a record asks at least every 900 ms, and may see its last change so late.
    let waits = [
        ("etcd", 29_900..30_100),
        ("zookeeper", 29_900..30_100),
        ("consul", 60_000..60_200),
        ("k8s-lease", 30_000..31_900),
        ("dynamodb", 30_000..31_900),
    ];
    for under in ["cut-off-holder", "crashed-holder", "server-clock-back"] {
        for (name, expected) in &waits {
            for run in runs(name, under) {
                let facts = run.facts();
                let next = &facts.grants[1];
                let waited = next.from - facts.grants[0].from;
                assert_ne!(next.client, NodeId::Client(1));
                assert!(
                    expected.contains(&waited),
                    "waited {waited} ms: fencepost run {name} {under} --seed {}",
                    run.seed,
                );
            }
        }
    }
}

#[test]
fn no_lock_of_a_coordination_server_minds_a_step_of_the_wall_clock() {
    for name in ["etcd", "zookeeper", "consul", "k8s-lease", "dynamodb"] {
        is_safe(name, "server-clock-step");
    }
}

#[test]
fn an_old_leader_acts_on_until_its_updates_have_failed_for_the_renew_deadline() {
    for under in ["gc-pause", "suspended-holder"] {
        shows("k8s-lease", under, &["double-write", "stale-write"]);
    }
    // Where its updates fail while it is awake, it stops in time.
    is_safe("k8s-lease", "cut-off-holder");
    is_safe("k8s-lease", "slow-work");
}

#[test]
fn asking_ones_own_clock_helps_against_a_pause_and_not_against_a_suspended_machine() {
    never_shows("dynamodb", "gc-pause", &["stale-write", "double-write"]);
    shows(
        "dynamodb",
        "suspended-holder",
        &["double-write", "stale-write"],
    );
}

#[test]
fn a_keep_alive_that_is_read_late_counts_as_fresh_with_etcd_and_the_fence_is_for_that() {
    shows("etcd", "late-acquire-replies", &["overlap"]);
    never_shows("etcd", "late-acquire-replies", &["double-write"]);
    is_safe("zookeeper", "late-acquire-replies");
}

#[test]
fn a_change_of_the_leader_takes_nobodys_lock_away() {
    for name in ["etcd", "zookeeper", "k8s-lease"] {
        for run in runs(name, "leader-change") {
            let facts = run.facts();
            let ends = facts.removals.iter().find(|end| end.grant == 0);
            let replay = format!("fencepost run {name} leader-change --seed {}", run.seed);
            assert_eq!(ends.map(|end| end.by), Some(NodeId::Client(1)), "{replay}");
        }
    }
    // Consul's holder gives it up all the same, and the lock-delay does the rest.
    shows("consul", "leader-change", &["stuck"]);
}

/// The holder is cut off from its lock, and something is wrong with the clock of who waits for it.
fn cut_off_with_clock(name: &str, kind: scenarios::scenario::FaultKind) -> usize {
    let mut scenario = scenario("cut-off-holder").expect("a known name");
    let when = scenarios::scenario::WhenRange::At(0..=0);
    let wrong = scenarios::scenario::FaultRange { kind, when };
    scenario.faults.push(wrong);
    let runs = (0..20).map(|seed| fencepost::run(algorithm(name), &scenario, seed));
    let overlaps = runs.filter(|run| {
        let run = run.as_ref().expect("the testbed works");
        run.verdict.has("overlap")
    });
    overlaps.count()
}

#[test]
fn a_record_is_watched_by_a_clock_whose_rate_matters_and_whose_time_does_not() {
    use scenarios::scenario::{FaultKind, Role};
    let node = Role::Client(2);
    for by in [-3_600_000, 3_600_000] {
        let skewed = FaultKind::ClockOffset { node, by: by..=by };
        assert_eq!(cut_off_with_clock("k8s-lease", skewed), 0);
    }
    // Twice as fast, 30 s are over in 15, and the leader stops after 24.
    let (least, most) = (1_000_000, 1_000_000);
    let fast = || FaultKind::ClockRate {
        node,
        ppm: least..=most,
    };
    assert_eq!(cut_off_with_clock("k8s-lease", fast()), 20);
    // A session is measured by its server.
    assert_eq!(cut_off_with_clock("zookeeper", fast()), 0);
}

#[test]
fn after_a_failover_before_replication_two_clients_hold_a_lock() {
    let under = "failover-before-replication";
    for name in ["naive", "tokened", "sentinel", "sentinel-wait-elsewhere"] {
        shows(name, under, &["overlap", "stale-write", "lost-update"]);
    }
    is_safe("sentinel-wait", under);
}

#[test]
fn wait_helps_only_where_the_replica_that_acknowledged_is_promoted() {
    is_safe("sentinel-wait", "failover-to-acked-replica");
    is_safe("tokened", "failover-to-acked-replica");
    let stale = "failover-to-stale-replica";
    shows(
        "sentinel-wait",
        stale,
        &["overlap", "stale-write", "lost-update"],
    );
}

/// `failover-before-replication` with another comparator.
fn failed_over(name: &str, comparator: &str) -> impl Iterator<Item = Run> {
    let overrides = [("comparator".to_owned(), comparator.to_owned())];
    let under = "failover-before-replication";
    let scenario = builtin::get(under, &overrides)
        .expect("a known name")
        .expect("a good scenario");
    let name = algorithm(name);
    (SEEDS.from..SEEDS.from + SEEDS.count)
        .map(move |seed| fencepost::run(name, &scenario, seed).expect("the testbed works"))
        .filter(|run| !run.verdict.vacuous)
}

#[test]
fn a_failover_hands_out_the_same_fence_twice_and_neither_comparator_helps() {
    let mut twice = 0;
    let (mut refused, mut double) = (0, 0);
    for comparator in ["strict", "at-least"] {
        for run in failed_over("fenced", comparator) {
            let facts = run.facts();
            let first = facts.beliefs.iter().find(|b| b.client == NodeId::Client(1));
            let first = first.expect("client-1 holds when the master dies");
            let same = facts
                .beliefs
                .iter()
                .any(|belief| belief.client != first.client && belief.fence == first.fence);
            twice += u32::from(same);
            if comparator == "strict" {
                // Whoever writes second is refused; if that is the new holder, unjustly.
                assert!(!run.verdict.has("double-write"), "seed {}", run.seed);
                refused += u32::from(run.verdict.has("refused-holder"));
            } else {
                assert!(!run.verdict.has("refused-holder"), "seed {}", run.seed);
                double += u32::from(run.verdict.has("double-write"));
            }
        }
    }
    assert!(twice >= 100, "the same fence twice in {twice} of 120 runs");
    assert!(
        refused >= 20,
        "strict refuses the new holder in {refused} of 60 runs"
    );
    assert!(
        double > 0,
        "at-least lets the old holder write after the new one"
    );
}

#[test]
fn an_isolated_master_grants_what_is_thrown_away_later() {
    shows("tokened", "isolated-master", &["overlap", "paid-twice"]);
    let harm = ["overlap", "double-write", "lost-update", "paid-twice"];
    never_shows("sentinel-wait", "isolated-master", &harm);
    for run in runs("tokened", "isolated-master").take(10) {
        let events = &run.history.events;
        let follows = events.iter().find(|event| {
            event.node == NodeId::Lock(1) && matches!(event.what, What::Follows { .. })
        });
        // It is corrected when the partition ends; by then the clients may be done.
        let corrected = follows.map_or(run.history.ended, |event| event.at);
        let facts = run.facts();
        let granted = |client| {
            let grants = facts.grants.iter();
            grants
                .filter(|g| g.client == NodeId::Client(client) && g.from < corrected)
                .count()
        };
        assert!(granted(1) >= 2 && granted(2) >= 1, "seed {}", run.seed);
    }
}

#[test]
fn after_a_failover_the_counter_of_fences_goes_back() {
    shows(
        "fenced",
        "counter-rollback",
        &["token-order", "refused-holder"],
    );
    let went_back = runs("fenced", "counter-rollback").filter(|run| {
        let fences: Vec<_> = run.facts().beliefs.iter().filter_map(|b| b.fence).collect();
        fences.windows(2).any(|pair| pair[1] + 1 < pair[0])
    });
    assert!(went_back.count() >= 20);
}
