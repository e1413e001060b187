//! What public incident reports tell, and happens here too. `docs/incidents.md` is their index.

use fencepost::scenarios::Run;
use fencepost::sim::fault::Point;
use fencepost::sim::history::{Event, GaveUp, What};
use fencepost::sim::{Millis, NodeId};

use super::{cell, is_safe, never_shows, runs, shows};

const FIRST: NodeId = NodeId::Client(1);
const SECOND: NodeId = NodeId::Client(2);
const TTL: Millis = 30_000;

/// In every run.
#[track_caller]
fn always_shows(name: &str, under: &str, invariants: &[&str]) {
    let cell = cell(name, under);
    assert!(cell.runs >= 50, "{} runs count", cell.runs);
    for invariant in invariants {
        let rate = cell.violation(invariant).expect("a judged invariant").rate;
        assert_eq!(
            rate.hits, rate.of,
            "{invariant} under {under}; see: fencepost matrix --algorithms {name} --scenarios {under}",
        );
    }
}

fn when(run: &Run, is: impl Fn(&Event) -> bool) -> Vec<Millis> {
    let events = run.history.events.iter().filter(|event| is(event));
    events.map(|event| event.at).collect()
}

mod dead_thread {
    use super::*;

    #[test]
    fn what_a_process_renews_in_the_background_is_held_for_ever() {
        for lock in [
            "renewing",
            "renewing-deaf",
            "redisson",
            "redisson-fair",
            "redisson-rw",
            "redlock-extend",
            "etcd",
            "zookeeper",
            "consul",
            "k8s-lease",
            "dynamodb",
        ] {
            always_shows(lock, "dead-thread", &["stuck"]);
        }
    }

    #[test]
    fn a_database_session_lasts_as_long_as_its_connection() {
        for lock in ["pg-session", "pg-xact"] {
            always_shows(lock, "dead-thread", &["stuck"]);
        }
    }

    #[test]
    fn the_death_of_the_whole_process_frees_the_same_locks() {
        for lock in ["renewing", "redisson", "redlock-extend", "etcd", "pg-xact"] {
            is_safe(lock, "crashed-holder");
        }
    }

    /// A lease ends at its TTL after the acquire, and whoever polls comes within 900 ms.
    #[test]
    fn a_lease_that_nobody_renews_ends_with_its_ttl() {
        for lock in ["tokened", "fenced", "redlock", "pg-lease"] {
            is_safe(lock, "dead-thread");
            for run in runs(lock, "dead-thread") {
                let facts = run.facts();
                let later = facts.grants[1].from - facts.grants[0].from;
                assert!((TTL..TTL + 1_000).contains(&later), "{lock}: {later} ms");
            }
        }
    }

    #[test]
    fn nothing_of_the_dead_thread_is_heard_again() {
        for run in runs("renewing", "dead-thread") {
            let died = when(&run, |event| event.what == What::ThreadDied);
            assert_eq!(died.len(), 1);
            let acts = |event: &Event| {
                event.node == FIRST
                    && event.at > died[0]
                    && !matches!(
                        event.what,
                        What::Reached {
                            point: Point::RenewDue,
                            ..
                        }
                    )
            };
            assert_eq!(when(&run, acts), [0; 0]);
            let renewed = when(&run, |event| event.node == FIRST && event.at > died[0]);
            // Every 10 s until the run ends after 150.
            assert!(renewed.len() >= 13, "{renewed:?}");
        }
    }
}

mod failed_renewal {
    use super::*;

    #[test]
    fn who_ends_its_renewal_with_one_failure_pays_twice() {
        let breached = ["paid-twice", "double-write", "lost-update", "overlap"];
        always_shows("renewing-fragile", "failed-renewal", &breached);
    }

    #[test]
    fn who_tries_again_has_lost_nothing() {
        for lock in [
            "renewing",
            "renewing-deaf",
            "redisson",
            "redlock-extend",
            "etcd",
            "zookeeper",
            "k8s-lease",
            "dynamodb",
        ] {
            is_safe(lock, "failed-renewal");
        }
    }

    /// The fault strikes at the first due time, a third of the TTL after the acquire.
    #[test]
    fn the_first_refresh_that_fails_is_the_last_of_its_section() {
        let first_section = |run: &Run| {
            let due = |event: &Event| {
                let first = What::Reached {
                    point: Point::RenewDue,
                    section: event_section(event),
                };
                event.node == FIRST && event.what == first && event_section(event) <= 1
            };
            when(run, due).len()
        };
        for run in runs("renewing-fragile", "failed-renewal") {
            assert_eq!(first_section(&run), 1);
        }
        for run in runs("renewing-deaf", "failed-renewal") {
            assert!(first_section(&run) >= 5, "60 s of work at the least");
        }
    }

    fn event_section(event: &Event) -> u32 {
        match event.what {
            What::Reached { section, .. } => section,
            _ => u32::MAX,
        }
    }

    /// Its renewal has been mended since. Its monitor takes a broken connection for a lost lock.
    #[test]
    fn consul_gives_up_what_it_holds_and_nobody_gets_it_for_two_ttls() {
        always_shows("consul", "failed-renewal", &["stuck"]);
        never_shows("consul", "failed-renewal", &["paid-twice", "overlap"]);
    }
}

mod refused_acquire {
    use super::*;

    #[test]
    fn who_takes_an_error_for_the_lock_works_beside_its_holder() {
        let breached = ["paid-twice", "lost-update", "overlap"];
        always_shows("tokened-assuming", "refused-acquire", &breached);
        is_safe("tokened", "refused-acquire");
    }

    #[test]
    fn nobody_has_granted_what_it_believes_in() {
        for run in runs("tokened-assuming", "refused-acquire") {
            let facts = run.facts();
            let assumed = facts
                .beliefs
                .iter()
                .find(|belief| belief.client == SECOND && facts.grant_of(&belief.token).is_none());
            let from = assumed.expect("an error taken for a lock").from;
            assert!((2_000..4_000).contains(&from), "at {from} ms");
        }
    }

    #[test]
    fn where_only_the_answer_was_lost_it_is_right_without_knowing() {
        is_safe("tokened-assuming", "lost-acquire-reply");
    }
}

mod interrupted_acquire {
    use super::*;

    #[test]
    fn a_watchdog_that_is_armed_too_late_renews_for_nobody() {
        always_shows("redisson-interrupted", "interrupted-acquire", &["stuck"]);
        for run in runs("redisson-interrupted", "interrupted-acquire") {
            let facts = run.facts();
            let [only] = &facts.grants[..] else {
                panic!("{} grants", facts.grants.len());
            };
            assert_eq!((only.client, only.until), (FIRST, None));
            assert!(facts.beliefs.is_empty());
        }
    }

    #[test]
    fn who_waits_for_the_answer_has_the_lock() {
        for lock in ["redisson", "redisson-fair", "tokened", "redlock"] {
            is_safe(lock, "interrupted-acquire");
        }
    }
}

mod drift {
    use super::*;

    #[test]
    fn added_to_the_lease_makes_a_lock_of_one_that_is_over() {
        let breached = ["lost-update", "stale-write", "overlap"];
        always_shows("redlock-drift-added", "barely-late-replies", &breached);
    }

    /// The two began within a second of each other, and work for 5 to 20 s: either may finish first.
    #[test]
    fn added_to_the_lease_lets_the_older_holder_write_last_in_about_half_of_the_runs() {
        let cell = cell("redlock-drift-added", "barely-late-replies");
        let rate = cell.violation("double-write").expect("judged").rate;
        assert!((0.3..0.7).contains(&rate.share()), "{rate:?}");
    }

    #[test]
    fn subtracted_from_the_lease_is_enough() {
        is_safe("redlock", "barely-late-replies");
        shows(
            "redlock-unchecked",
            "barely-late-replies",
            &["double-write"],
        );
    }

    /// 302 ms of 30 s.
    #[test]
    fn matters_for_no_longer_than_it_lasts() {
        is_safe("redlock-drift-added", "late-acquire-replies");
    }
}

mod early_start {
    use super::*;

    /// Sections that were given up, with how long each had believed.
    fn given_up(run: &Run) -> Vec<Millis> {
        let facts = run.facts();
        let lost = |event: &&Event| matches!(event.what, What::GivenUp { why, .. } if why == GaveUp::LeaseLost);
        let events = run.history.events.iter().filter(lost);
        let believed = |event: &Event| {
            let mut own = facts.beliefs.iter().rev();
            let belief = own.find(|b| b.client == event.node && b.from <= event.at);
            event.at - belief.expect("it had a lease").from
        };
        events.map(believed).collect()
    }

    #[test]
    fn a_lease_counted_from_the_first_try_may_be_over_when_it_comes() {
        let runs: Vec<_> = runs("redlock-early-start", "short-lease").collect();
        let at_once = |run: &&Run| given_up(run).contains(&0);
        let affected = runs.iter().filter(at_once).count();
        assert!(
            affected * 10 >= runs.len() * 9,
            "{affected} of {}",
            runs.len()
        );
        for run in super::runs("redlock", "short-lease") {
            assert_eq!(given_up(&run), [0; 0]);
        }
    }

    #[test]
    fn it_errs_on_the_safe_side_and_costs_commands() {
        is_safe("redlock-early-start", "short-lease");
        is_safe("redlock", "short-lease");
        // Every section that is given up has taken the lock and given it back for nothing.
        let per_item = |name| {
            let runs: Vec<_> = runs(name, "short-lease").collect();
            let count = |which: fn(&What) -> bool| {
                let events = runs.iter().flat_map(|run| &run.history.events);
                events.filter(|event| which(&event.what)).count()
            };
            let taken = count(|what| matches!(what, What::Leased { .. }));
            let done = count(|what| matches!(what, What::ItemDone { .. }));
            taken as f64 / done as f64
        };
        assert!((per_item("redlock") - 1.0).abs() < 1e-9);
        let wasted = per_item("redlock-early-start");
        assert!(wasted > 1.1, "{wasted} leases for an item");
    }
}
