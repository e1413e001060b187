//! What Redisson's locks must show, and do: who reads and who writes, a queue that never empties, and
//! requests that are sent again.
//!
//! Worked out by hand from the library's scripts before the simulator was asked, as in
//! `findings.rs`. Every failure prints the command that shows it.

use fencepost::algorithms;
use fencepost::scenario;
use fencepost::scenarios::Run;
use fencepost::sim::NodeId;
use fencepost::sim::history::What;

const SEEDS: u64 = 30;
const WRITER: NodeId = NodeId::Client(2);

fn runs(name: &'static str, under: &'static str) -> impl Iterator<Item = Run> {
    let mut all = algorithms::ALL.iter();
    let algorithm = *all.find(|a| a.name() == name).expect("a known name");
    let scenario = scenario(under).expect("a known name");
    let play = move |seed| fencepost::run(algorithm, &scenario, seed).expect("the testbed works");
    (0..SEEDS).map(play).filter(|run| !run.verdict.vacuous)
}

fn replay(run: &Run) -> String {
    let Run {
        algorithm,
        scenario,
        seed,
        ..
    } = run;
    format!("fencepost run {algorithm} {scenario} --seed {seed}")
}

/// In how many of the runs that count.
fn share(name: &'static str, under: &'static str, invariant: &str) -> f64 {
    let hits: Vec<_> = runs(name, under)
        .map(|run| run.verdict.has(invariant))
        .collect();
    assert!(hits.len() > 20, "{} runs of {name} count", hits.len());
    hits.iter().filter(|hit| **hit).count() as f64 / hits.len() as f64
}

#[test]
fn a_writer_waits_for_longer_than_a_lease_while_readers_follow_each_other() {
    for run in runs("redisson-rw", "reader-starves-writer") {
        let facts = run.facts();
        let asks = facts.asks.iter().filter(|ask| ask.client == WRITER);
        let waits = asks.filter_map(|ask| Some(ask.until? - ask.attempts[0]));
        let longest = waits.max().expect("it asks");
        assert!(longest > run.around.ttl, "{longest} ms; {}", replay(&run));
        assert!(run.verdict.cost.overtaken >= 5, "{}", replay(&run));
        // Two readers at once are no overlap.
        let shared = |(place, belief): (usize, &fencepost::scenarios::facts::Belief)| {
            facts.beliefs[place + 1..].iter().any(|later| {
                later.shared && belief.shared && belief.until.is_none_or(|over| later.from < over)
            })
        };
        assert!(facts.beliefs.iter().enumerate().any(shared));
    }
}

#[test]
fn readers_together_are_done_sooner_than_one_by_one() {
    let together = runs("redisson-rw", "reader-starves-writer");
    let one_by_one = runs("redisson", "reader-starves-writer");
    for (together, one_by_one) in together.zip(one_by_one) {
        let (fast, slow) = (together.history.ended, one_by_one.history.ended);
        assert!(
            fast * 2 < slow,
            "{fast} ms and {slow} ms; {}",
            replay(&together)
        );
    }
}

#[test]
fn a_fence_does_not_help_who_only_reads_and_a_claim_does() {
    assert!(share("fenced", "paused-reader", "torn-read") > 0.5);
    assert!(share("redisson-rw", "paused-reader", "torn-read") > 0.5);
    assert_eq!(share("fenced-claim", "paused-reader", "torn-read"), 0.0);
    assert_eq!(share("renewing", "paused-reader", "torn-read"), 0.0);
}

#[test]
fn a_fair_queue_that_never_empties_loses_its_order_after_eleven_ttls() {
    for run in runs("redisson-fair", "reader-starves-writer") {
        let unfair = run.verdict.violations.iter();
        let first = unfair.map(|violation| violation.at).min();
        let first = first.unwrap_or_else(|| panic!("{}", replay(&run)));
        assert!(first > 11 * run.around.ttl, "{first} ms; {}", replay(&run));
    }
}

/// Whether the lock ever shows so many holds of one owner.
fn holds(run: &Run, count: u32) -> bool {
    let shows = |what: &What| match what {
        What::Changed {
            key,
            after: Some(after),
            ..
        } => key == "lock:1" && after.value.ends_with(&format!("={count}")),
        _ => false,
    };
    run.history.events.iter().any(|event| shows(&event.what))
}

#[test]
fn an_acquire_that_is_sent_again_counts_twice_and_outlives_its_release() {
    assert!(runs("redisson-replicated", "lost-acquire-reply").count() > 20);
    for run in runs("redisson-replicated", "lost-acquire-reply") {
        assert!(holds(&run, 2), "{}", replay(&run));
        // From the release to the end of the TTL.
        let orphaned = run.verdict.cost.orphaned;
        assert!(orphaned > 25_000, "{orphaned} ms; {}", replay(&run));
        assert_eq!(run.verdict.worst(), None, "{}", replay(&run));
    }
    for run in runs("redisson", "lost-acquire-reply") {
        assert!(!holds(&run, 2), "{}", replay(&run));
    }
}

#[test]
fn a_check_for_replicas_narrows_the_window_and_does_not_close_it() {
    let lost = ["overlap", "stale-write", "lost-update"];
    for invariant in lost {
        let of = |under| share("redisson-replicated", under, invariant);
        assert_eq!(of("failover-before-replication"), 0.0);
        assert_eq!(of("failover-to-acked-replica"), 0.0);
        assert!(of("failover-to-stale-replica") > 0.5);
    }
}

#[test]
fn a_dead_readers_hold_is_over_when_its_own_time_is() {
    let text = concat!(
        include_str!("../scenarios/reader-starves-writer.toml"),
        "\n[[fault]]\nkind = \"crash\"\nnode = \"client-1\"\n",
        "when = { client = \"client-1\", point = \"after-read\", nth = 1 }\n",
    );
    let scenario = fencepost::scenarios::load::load("crashed-reader.toml", text, &[]);
    let scenario = scenario.unwrap_or_else(|bad| panic!("{bad:?}"));
    let lock = algorithms::redisson::RedissonRw;
    for seed in 0..SEEDS {
        let run = fencepost::run(&lock, &scenario, seed).expect("the testbed works");
        // Others read on, refresh it with theirs, and take the lock down when they leave after that.
        assert!(!run.verdict.has("wrong-release"), "{}", replay(&run));
        let facts = run.facts();
        let dead = facts
            .grants
            .iter()
            .find(|grant| grant.client == NodeId::Client(1));
        let until = dead.and_then(|grant| grant.until);
        assert!(
            until.is_some_and(|until| until > run.around.ttl),
            "{until:?}"
        );
    }
}
