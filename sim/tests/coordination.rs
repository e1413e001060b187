//! The coordination server: what its state machine does, and what clients see of its node on every
//! engine.
//!
//! Segments take 5 ms each. A client that asks at 0 ms first connects, so that its request is
//! executed at 15 and answered at 20.

mod watch;

use sim::coordination::{Change, Condition, Entry, KeysOf, Machine, Reply, Request, Unanswered};
use sim::engine::{Engine, Event};
use sim::fault::{Data, Fault, Point, When};
use sim::history::What;
use sim::{Client, Setup, Software};
use watch::*;

fn open(ttl: u64) -> Request {
    Request::Open {
        ttl,
        keys: KeysOf::Deleted,
        lock_delay: 0,
    }
}

/// As Consul's sessions are.
fn open_with_delay(ttl: u64, lock_delay: u64) -> Request {
    Request::Open {
        ttl,
        keys: KeysOf::Released,
        lock_delay,
    }
}

fn put(key: &str, value: &str, session: Option<u64>) -> Change {
    Change::Put {
        key: key.into(),
        value: value.into(),
        session,
    }
}

fn transact(when: Vec<Condition>, then: Vec<Change>) -> Request {
    Request::Transact {
        when,
        then,
        read: String::new(),
    }
}

fn acquire(key: &str, session: u64) -> Request {
    let free = Condition::Free { key: key.into() };
    transact(vec![free], vec![put(key, "v", Some(session))])
}

/// Whether it succeeded, the revision, and every key.
fn state(reply: Option<Reply>) -> (bool, u64, Vec<Entry>) {
    match reply {
        Some(Reply::State {
            succeeded,
            revision,
            entries,
        }) => (succeeded, revision, entries),
        other => panic!("{other:?}"),
    }
}

mod its_state {
    use super::*;

    #[test]
    fn changes_by_all_of_a_transaction_or_nothing() {
        let mut machine = Machine::default();
        let absent = |key: &str| Condition::Absent { key: key.into() };
        let both = transact(
            vec![absent("a"), absent("b")],
            vec![put("a", "1", None), put("b", "2", None)],
        );
        let (succeeded, revision, entries) = state(machine.execute(&both, 0));
        assert!(succeeded && entries.len() == 2);
        assert!(entries.iter().all(|entry| entry.created == revision));
        let half = transact(
            vec![absent("c"), absent("a")],
            vec![put("c", "3", None), put("a", "4", None)],
        );
        assert_eq!(state(machine.execute(&half, 0)), (false, revision, entries));
    }

    #[test]
    fn keeps_who_created_a_key_and_who_changed_it_last_apart() {
        let mut machine = Machine::default();
        machine.execute(&transact(vec![], vec![put("a", "1", None)]), 0);
        machine.execute(&transact(vec![], vec![put("b", "1", None)]), 0);
        let unchanged = |modified| Condition::Unchanged {
            key: "a".into(),
            modified,
        };
        let update = |modified| transact(vec![unchanged(modified)], vec![put("a", "2", None)]);
        let (succeeded, _, entries) = state(machine.execute(&update(1), 0));
        let a = &entries[0];
        assert!(succeeded);
        assert_eq!((a.created, a.modified, a.version), (1, 3, 2));
        assert!(
            !state(machine.execute(&update(1), 0)).0,
            "it was changed since"
        );
        let gone = Change::Delete { key: "a".into() };
        machine.execute(&transact(vec![], vec![gone, put("a", "3", None)]), 0);
        let (_, revision, entries) = state(machine.execute(&transact(vec![], vec![]), 0));
        let a = &entries[0];
        assert_eq!((a.created, a.version, revision), (4, 1, 4));
    }

    #[test]
    fn loses_the_keys_of_a_session_at_the_millisecond_of_its_ttl() {
        let mut machine = Machine::default();
        assert_eq!(
            machine.execute(&open(1_000), 5),
            Some(Reply::Opened { session: 1 })
        );
        machine.execute(&transact(vec![], vec![put("a", "1", Some(1))]), 10);
        machine.execute(&Request::KeepAlive { session: 1 }, 600);
        assert_eq!(machine.next_deadline(), Some(1_600));
        machine.take_changes();
        machine.expire(1_599);
        assert_eq!(machine.take_changes(), []);
        machine.expire(1_600);
        let changes = machine.take_changes();
        assert!(changes.len() == 1 && changes[0].after.is_none());
        let late = machine.execute(&Request::KeepAlive { session: 1 }, 1_601);
        assert_eq!(late, Some(Reply::NoSession));
        let under_it = transact(vec![], vec![put("a", "1", Some(1))]);
        assert_eq!(machine.execute(&under_it, 1_601), Some(Reply::NoSession));
    }

    #[test]
    fn counts_the_children_of_a_parent_also_when_they_are_gone() {
        let mut machine = Machine::default();
        machine.execute(&open(1_000), 0);
        let next = |name: &str| Change::PutNext {
            parent: "p/".into(),
            name: name.into(),
            value: String::new(),
            session: 1,
        };
        machine.execute(&transact(vec![], vec![next("z-")]), 0);
        let gone = Change::Delete {
            key: "p/z-0000000000".into(),
        };
        let (_, _, entries) = state(machine.execute(&transact(vec![], vec![gone, next("a-")]), 0));
        let names: Vec<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(names, ["p/a-0000000001"]);
    }

    #[test]
    fn keeps_a_key_back_after_its_session_ended_and_not_after_a_release() {
        let mut machine = Machine::default();
        machine.execute(&open_with_delay(1_000, 500), 0);
        machine.execute(&open_with_delay(9_000, 500), 0);
        assert!(state(machine.execute(&acquire("k", 1), 0)).0);
        assert!(!state(machine.execute(&acquire("k", 2), 0)).0, "it is held");
        let own = Condition::HeldBy {
            key: "k".into(),
            session: 1,
        };
        let release = transact(vec![own], vec![put("k", "v", None)]);
        assert!(state(machine.execute(&release, 10)).0);
        assert!(state(machine.execute(&acquire("k", 1), 10)).0, "it is free");
        machine.expire(1_000);
        let (succeeded, _, entries) = state(machine.execute(&acquire("k", 2), 1_499));
        assert!(!succeeded, "it is kept back");
        assert_eq!((entries.len(), entries[0].session), (1, None));
        assert!(state(machine.execute(&acquire("k", 2), 1_500)).0);
    }

    #[test]
    fn answers_a_wait_once_the_key_has_changed_after_the_revision() {
        let mut machine = Machine::default();
        machine.execute(&transact(vec![], vec![put("a", "1", None)]), 0);
        let wait = |after| Request::Await {
            key: "a".into(),
            after,
        };
        assert!(machine.execute(&wait(0), 0).is_some(), "it has changed");
        assert_eq!(machine.execute(&wait(1), 0), None);
        machine.execute(&transact(vec![], vec![put("ab", "1", None)]), 0);
        assert_eq!(machine.awaited("a", 1), None, "another key");
        let gone = Change::Delete { key: "a".into() };
        machine.execute(&transact(vec![], vec![gone]), 0);
        assert_eq!(state(machine.awaited("a", 1)), (true, 3, vec![]));
    }
}

fn quorum(clients: u16, faults: &[(When, Fault)]) -> Setup {
    Setup {
        software: Software::Coordination,
        ..world(clients, 1, faults)
    }
}

/// Client-1 opens a session of a second, puts a key under it, and keeps it alive once, at 500 ms.
async fn hold_key(client: Client) -> u64 {
    let Ok(Reply::Opened { session }) = client.coordinate(&open(1_000)).await else {
        panic!("no session");
    };
    let key = transact(vec![], vec![put("k", "v", Some(session))]);
    assert!(matches!(
        client.coordinate(&key).await,
        Ok(Reply::State { .. })
    ));
    until(client, 500).await;
    let _ = client.coordinate(&Request::KeepAlive { session }).await;
    session
}

/// When the key of client-1 vanished.
fn vanished(faults: &[(When, Fault)]) -> Vec<u64> {
    let seen = play(quorum(1, faults), |client, _| {
        Box::pin(async move {
            hold_key(client).await;
            client.sleep(20_000).await;
        })
    });
    seen.times(|_, what| {
        matches!(
            what,
            What::Changed {
                by: None,
                after: None,
                ..
            }
        )
    })
}

#[test]
fn a_session_lasts_for_its_ttl_from_when_the_last_keep_alive_arrived() {
    assert_eq!(vanished(&[]), [1_505]);
}

#[test]
fn a_step_of_the_wall_clock_ends_no_session_and_prolongs_none() {
    for by in [60_000, -60_000] {
        assert_eq!(vanished(&[(When::At(300), clock_step(LOCK, by))]), [1_505]);
    }
}

#[test]
fn a_slow_clock_of_the_server_prolongs_a_session() {
    // By half: 1 000 ms of its own last twice as long, and end with a half millisecond of it.
    let slow = (When::At(0), clock_rate(LOCK, -500_000));
    assert_eq!(vanished(&[slow]), [504 + 2_000]);
}

#[test]
fn after_a_restart_every_session_has_its_full_ttl_again() {
    let restart = Fault::Restart {
        nodes: vec![LOCK],
        after: 400,
        data: Data::Kept,
    };
    assert_eq!(vanished(&[(When::At(700), restart)]), [2_100]);
}

#[test]
fn a_server_that_stood_still_for_an_election_gives_every_session_its_full_ttl_again() {
    assert_eq!(vanished(&[(When::At(700), pause(LOCK, 3_000))]), [4_700]);
    // Shorter than that, a session that is over by then is over.
    assert_eq!(vanished(&[(When::At(1_000), pause(LOCK, 900))]), [1_900]);
}

#[test]
fn what_was_answered_stays_over_a_power_loss_and_revisions_go_on() {
    let restart = Fault::Restart {
        nodes: vec![LOCK],
        after: 100,
        data: Data::Kept,
    };
    let faults = [(When::At(100), power_loss(LOCK)), (When::At(300), restart)];
    let seen = play(quorum(1, &faults), |client, notes| {
        Box::pin(async move {
            let write = || async move {
                let asked = transact(vec![], vec![put("k", "v", None)]);
                match client.coordinate(&asked).await {
                    Ok(Reply::State { revision, .. }) => format!("revision {revision}"),
                    other => format!("{other:?}"),
                }
            };
            notes.note(client, write().await);
            until(client, 500).await;
            // The machine knows its connection no more.
            notes.note(client, write().await);
            notes.note(client, write().await);
        })
    });
    let expected = [
        "20: revision 1",
        "510: Err(Disconnected)",
        "530: revision 2",
    ];
    assert_eq!(seen.notes_of(FIRST), expected);
}

#[test]
fn whoever_waits_is_told_and_other_requests_go_past_the_wait() {
    let seen = play(quorum(2, &[]), |client, notes| {
        Box::pin(async move {
            if client.node() == FIRST {
                hold_key(client).await;
                client.sleep(5_000).await;
                return;
            }
            until(client, 100).await;
            let watching = client.spawn({
                let notes = notes.clone();
                async move {
                    let gone = client.changed("k", 1).await;
                    let gone =
                        matches!(gone, Ok(Reply::State { entries, .. }) if entries.is_empty());
                    notes.note(client, format!("gone: {gone}"));
                }
            });
            until(client, 300).await;
            let prefix = "k".to_owned();
            let read = client.coordinate(&Request::Read { prefix }).await;
            notes.note(client, format!("read: {}", read.is_ok()));
            until(client, 3_000).await;
            drop(watching);
        })
    });
    assert_eq!(
        seen.notes_of(SECOND),
        ["310: read: true", "1510: gone: true"]
    );
}

#[test]
fn who_waits_hears_that_the_connection_broke() {
    let faults = [(When::At(200), reset(FIRST, LOCK))];
    let seen = play(quorum(1, &faults), |client, notes| {
        Box::pin(async move {
            let waits = [true, false].map(|for_a_key| {
                let notes = notes.clone();
                client.spawn(async move {
                    if for_a_key {
                        let changed = client.changed("k", 0).await;
                        notes.note(client, format!("{changed:?}"));
                    } else {
                        client.disconnected().await;
                        notes.note(client, "disconnected");
                    }
                })
            });
            client.sleep(1_000).await;
            drop(waits);
        })
    });
    let mut notes = seen.notes_of(FIRST);
    notes.sort();
    let broken = Err::<(), _>(Unanswered::Disconnected);
    assert_eq!(
        notes,
        [format!("205: {broken:?}"), "205: disconnected".into()]
    );
}

#[test]
fn a_request_that_was_given_up_on_is_executed_later_and_its_answer_passed_over() {
    let faults = [(When::At(100), hold(FIRST, LOCK, 2_000))];
    let seen = play(quorum(1, &faults), |client, notes| {
        Box::pin(async move {
            let write = |value: &'static str| async move {
                let asked = transact(vec![], vec![put("k", value, None)]);
                match client.coordinate(&asked).await {
                    Ok(Reply::State { entries, .. }) => entries[0].value.clone(),
                    other => format!("{other:?}"),
                }
            };
            notes.note(client, write("a").await);
            until(client, 200).await;
            notes.note(client, write("b").await);
            until(client, 2_000).await;
            notes.note(client, write("c").await);
        })
    });
    let expected = ["20: a", "1200: Err(TimedOut)", "2105: c"];
    assert_eq!(seen.notes_of(FIRST), expected);
    let executed = seen.executed_of(FIRST);
    assert_eq!(
        executed,
        ["15: transact", "2100: transact", "2100: transact"]
    );
}

#[test]
fn the_first_request_that_puts_something_is_the_attempt() {
    let seen = play(quorum(1, &[]), |client, _| {
        Box::pin(async move {
            client.begin_attempt(1);
            let _ = client.coordinate(&open(1_000)).await;
            let prefix = String::new();
            let _ = client.coordinate(&Request::Read { prefix }).await;
            until(client, 100).await;
            for value in ["a", "b"] {
                let _ = client
                    .coordinate(&transact(vec![], vec![put("k", value, None)]))
                    .await;
            }
            client.end_attempt();
        })
    });
    assert_eq!(seen.reached(FIRST, Point::AcquireSent), [100]);
}

#[test]
fn a_server_that_cannot_be_reached_is_tried_again_with_every_request() {
    let restart = Fault::Restart {
        nodes: vec![LOCK],
        after: 2_500,
        data: Data::Kept,
    };
    let faults = [(When::At(0), power_loss(LOCK)), (When::At(1), restart)];
    let seen = play(quorum(1, &faults), |client, notes| {
        Box::pin(async move {
            for at in [100, 1_200, 3_000] {
                until(client, at).await;
                let read = client
                    .coordinate(&Request::Read { prefix: "k".into() })
                    .await;
                notes.note(client, format!("{:?}", read.map(|_| ())));
            }
        })
    });
    let timed_out = Err::<(), _>(Unanswered::TimedOut);
    let expected = [
        format!("1100: {timed_out:?}"),
        format!("2200: {timed_out:?}"),
        "3020: Ok(())".into(),
    ];
    assert_eq!(seen.notes_of(FIRST), expected);
}

#[test]
fn a_fault_that_no_quorum_knows_fails_the_run_by_name() {
    let lost = Fault::Restart {
        nodes: vec![LOCK],
        after: 100,
        data: Data::Lost,
    };
    for (fault, kind) in [
        (lost, "restart"),
        (flush(LOCK), "flush"),
        (evict(LOCK), "evict"),
    ] {
        let setup = quorum(1, &[(When::At(10), fault)]);
        let failed = Event.run(&setup, &|client| {
            Box::pin(async move { client.sleep(50).await })
        });
        let panic = failed.expect_err("no such fault").panic;
        let expected = format!("a coordination server keeps its data: no {kind} for it");
        assert!(panic.contains(&expected), "{panic}");
    }
}
