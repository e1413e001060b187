//! What public incident reports tell, and happens here too. `docs/incidents.md` is their index.

use fencepost::scenarios::Run;
use fencepost::sim::fault::Point;
use fencepost::sim::history::{Event, GaveUp, Release, What};
use fencepost::sim::{Millis, NodeId};

use super::{can_show, cell, is_safe, never_shows, runs, shows};

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

mod time_by_the_clients {
    use super::*;

    /// Whether client-1 was given a lease before it was ever denied one.
    fn first_attempt_succeeded(run: &Run) -> bool {
        let mut own = run.history.events.iter().filter(|e| e.node == FIRST);
        let end = own.find(|e| matches!(e.what, What::Leased { .. } | What::Denied { .. }));
        end.is_some_and(|end| matches!(end.what, What::Leased { .. }))
    }

    #[test]
    fn a_time_that_was_read_before_a_pause_makes_two_win() {
        let breached = ["double-write", "lost-update", "stale-write", "overlap"];
        shows("setnx-getset", "stale-now", &breached);
        // Whose lease the server reckons is right, wherever it stands still before asking for it.
        is_safe("setnx-expire", "stale-now");
    }

    /// It is granted what is over, and nobody who asks for it is told that it is held.
    #[test]
    fn such_a_lock_keeps_nobody_out() {
        let (mut free, mut held) = (0, 0);
        for run in runs("setnx-getset", "stale-now") {
            if !first_attempt_succeeded(&run) {
                held += 1;
                assert_eq!(run.verdict.breached(), [""; 0], "seed {}", run.seed);
                continue;
            }
            free += 1;
            let facts = run.facts();
            let mut own = facts.beliefs.iter().filter(|b| b.client == FIRST);
            let stale = own.next().expect("its first lease");
            let until = stale.until.expect("it is given back");
            let told = |event: &Event| {
                let within = (stale.from..until).contains(&event.at);
                let others = facts.grants.iter().any(|grant| {
                    grant.client == SECOND
                        && grant.key == stale.key
                        && (stale.from..event.at).contains(&grant.from)
                });
                let denied = matches!(&event.what, What::Denied { key, .. } if *key == stale.key);
                event.node == SECOND && within && denied && !others
            };
            assert_eq!(when(&run, told), [0; 0], "seed {}", run.seed);
        }
        assert!(free >= 20 && held >= 5, "{free} free, {held} held");
    }

    #[test]
    fn who_is_ahead_takes_what_is_held_and_who_was_robbed_deletes_it() {
        let breached = ["double-write", "lost-update", "overlap", "wrong-release"];
        for under in ["skewed-clients", "fair-clock-skew"] {
            shows("setnx-getset", under, &breached);
            for lock in ["naive", "tokened", "redlock", "pg-lease"] {
                is_safe(lock, under);
            }
        }
    }

    #[test]
    fn the_servers_clock_has_no_part_in_it() {
        is_safe("setnx-getset", "server-clock-step");
        never_shows("setnx-getset", "server-clock-back", &["stuck", "overlap"]);
        shows("naive", "server-clock-step", &["overlap"]);
        shows("naive", "server-clock-back", &["stuck"]);
    }

    #[test]
    fn who_releases_after_its_own_time_asks_nobody_and_deletes_nothing() {
        for run in runs("setnx-getset", "gc-pause") {
            let facts = run.facts();
            let mut own = facts.events_of(FIRST);
            let called = own
                .find(|event| matches!(event.what, What::Releasing { .. }))
                .expect("it wakes");
            let ended = own
                .find(|event| matches!(event.what, What::ReleaseEnded { .. }))
                .expect("a release ends");
            let not_owner = matches!(
                ended.what,
                What::ReleaseEnded {
                    release: Release::NotOwner,
                    ..
                }
            );
            assert!(not_owner && ended.at == called.at, "seed {}", run.seed);
        }
        shows("naive", "gc-pause", &["wrong-release"]);
    }

    /// They exclude each other all the same: the two names follow each other in the key.
    #[test]
    fn who_loses_the_race_for_a_lock_that_is_over_leaves_its_name_there() {
        let under = "lost-acquire-reply";
        can_show("setnx-getset", under, &["stale-write", "wrong-release"]);
        let excluded = [
            "paid-twice",
            "double-write",
            "lost-update",
            "overlap",
            "stuck",
        ];
        never_shows("setnx-getset", under, &excluded);
    }
}

mod forgotten_token {
    use super::*;

    fn releases_of_the_first(run: &Run) -> Vec<Release> {
        let of = |event: &Event| match event.what {
            What::ReleaseEnded { release, .. } if event.node == FIRST => Some(release),
            _ => None,
        };
        run.history.events.iter().filter_map(of).collect()
    }

    #[test]
    fn makes_one_broken_connection_hold_the_lock_for_ever() {
        always_shows("tokened-forgetful", "reset-release", &["stuck"]);
        for run in runs("tokened-forgetful", "reset-release") {
            let facts = run.facts();
            let [only] = &facts.grants[..] else {
                panic!("{} grants", facts.grants.len());
            };
            assert_eq!((only.client, only.until), (FIRST, None));
            let ended = releases_of_the_first(&run);
            assert_eq!(ended, [Release::Unknown, Release::NotOwner]);
        }
    }

    #[test]
    fn is_what_others_bring_again() {
        for lock in [
            "setnx", "naive", "tokened", "renewing", "redisson", "fenced", "redlock",
        ] {
            is_safe(lock, "reset-release");
        }
        for run in runs("tokened", "reset-release") {
            let ended = releases_of_the_first(&run);
            assert_eq!(ended[..2], [Release::Unknown, Release::Done]);
        }
    }

    /// A server that restarts from its disk knows no old connection, and one that is dead does not answer.
    #[test]
    fn is_missed_after_a_restart_that_loses_nothing_and_a_failover_that_loses_nothing() {
        for under in ["power-loss-always", "failover-to-acked-replica"] {
            shows("tokened-forgetful", under, &["stuck"]);
            is_safe("tokened", under);
        }
    }

    /// With what it remembers it is a lock without a TTL.
    #[test]
    fn costs_nothing_where_every_release_is_answered() {
        for under in [
            "gc-pause",
            "slow-work",
            "server-clock-step",
            "replayed-release",
        ] {
            is_safe("tokened-forgetful", under);
        }
        always_shows("tokened-forgetful", "crashed-holder", &["stuck"]);
    }
}
