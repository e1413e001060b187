//! What clients see of a master and its replicas.
//!
//! As in `faults.rs`, segments take 5 ms each. Replicas have copied everything by 25 ms; clients
//! begin at a second.

mod watch;

use sim::fault::{Data, Fault, When};
use sim::history::What;
use sim::redis::{Deployment, Persistence, Sentinels, Shape};
use sim::{Client, Millis, NodeId, Setup};
use watch::*;

const MASTER: NodeId = NodeId::Lock(1);
const REPLICA: NodeId = NodeId::Lock(2);

/// A world of a master and its replicas, without sentinels.
fn replicated(clients: u16, servers: u16, faults: &[(When, Fault)]) -> Setup {
    Setup {
        deployment: Deployment {
            shape: Shape::Replicated(Sentinels {
                number: 0,
                down_after: 2_000,
            }),
            persistence: Persistence::default(),
        },
        ..world(clients, servers, faults)
    }
}

fn failover() -> Fault {
    Fault::Failover {
        nodes: vec![MASTER],
    }
}

fn lag(lasts: Millis) -> Fault {
    Fault::ReplicaLag {
        nodes: vec![REPLICA],
        lasts,
    }
}

/// Asks the commands one after the other, and notes the answers.
async fn converse(client: Client, notes: Notes, commands: &[(Millis, &str)]) {
    for (at, command) in commands {
        until(client, *at).await;
        let answer = ask(client, command).await;
        notes.note(client, answer);
    }
}

/// As [`converse`], without notes.
async fn silently(client: Client, commands: &[(Millis, &str)]) {
    for (at, command) in commands {
        until(client, *at).await;
        assert_eq!(ask(client, command).await, "OK");
    }
}

/// What happened to a server's keys, as `time key value`, in the order of the history.
fn changes(seen: &Watched, server: NodeId) -> Vec<String> {
    let told = |event: &sim::history::Event| {
        let What::Changed { key, after, by, .. } = &event.what else {
            return None;
        };
        let value = after.as_ref().map_or("-", |stored| &stored.value);
        let by = by.map_or(String::new(), |by| format!(" by {by}"));
        (event.node == server).then(|| format!("{} {key} {value}{by}", event.at))
    };
    seen.history.events.iter().filter_map(told).collect()
}

/// When the roles of servers changed.
fn turns(seen: &Watched) -> Vec<String> {
    let told = |event: &sim::history::Event| match &event.what {
        What::Promoted => Some(format!("{} {} leads", event.at, event.node)),
        What::Follows { master } => Some(format!("{} {} follows {master}", event.at, event.node)),
        _ => None,
    };
    seen.history.events.iter().filter_map(told).collect()
}

mod a_replica {
    use super::*;

    #[test]
    fn copies_what_its_master_writes_after_it_was_answered() {
        let seen = play(replicated(1, 2, &[]), |client, notes| {
            Box::pin(converse(client, notes, &[(1_000, "SET k v PX 500")]))
        });
        assert_eq!(changes(&seen, MASTER)[0], "1035 k v by client-1");
        assert_eq!(changes(&seen, REPLICA)[0], "1040 k v");
    }

    #[test]
    fn deletes_an_expired_key_when_its_master_does() {
        let seen = play(replicated(1, 2, &[]), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v PX 500"), (3_000, "GET k")],
            ))
        });
        assert_eq!(changes(&seen, MASTER)[1], "1600 k -");
        assert_eq!(changes(&seen, REPLICA)[1], "1605 k -");
    }

    #[test]
    fn copies_what_reached_it_from_a_master_that_is_dead() {
        // The answer to SET is on its way when the master loses power, and so is the copy.
        let faults = [(When::At(1_036), power_loss(MASTER))];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(client, notes, &[(1_000, "SET k v")]))
        });
        assert_eq!(seen.notes_of(FIRST), ["1040: OK"]);
        assert_eq!(changes(&seen, REPLICA), ["1040 k v"]);
    }

    #[test]
    fn that_falls_behind_and_is_promoted_never_has_what_it_did_not_read() {
        let faults = [(When::At(900), lag(5_000)), (When::At(2_000), failover())];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (3_000, "PING"), (3_500, "GET k")],
            ))
        });
        assert_eq!(changes(&seen, REPLICA), [""; 0]);
        assert_eq!(
            turns(&seen),
            ["2000 lock-1 follows lock-2", "2000 lock-2 leads"]
        );
        assert_eq!(seen.notes_of(FIRST).last().unwrap(), "3510: nil");
        // The old master gives up what the new one does not have.
        assert_eq!(changes(&seen, MASTER)[1].split(' ').nth(2), Some("-"));
    }

    #[test]
    fn that_was_behind_a_cut_copies_it_when_the_cut_ends() {
        let faults = [(When::At(900), hold(MASTER, REPLICA, 1_000))];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (2_500, "PING")],
            ))
        });
        assert_eq!(changes(&seen, REPLICA), ["1900 k v"]);
    }

    #[test]
    fn starts_again_from_what_its_master_has() {
        let restart = Fault::Restart {
            nodes: vec![REPLICA],
            after: 200,
            data: Data::Lost,
        };
        let faults = [(When::At(2_000), restart)];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (4_000, "PING")],
            ))
        });
        assert_eq!(changes(&seen, REPLICA), ["1040 k v", "2220 k v"]);
    }

    #[test]
    fn is_emptied_by_a_master_that_comes_back_without_data() {
        let restart = Fault::Restart {
            nodes: vec![MASTER],
            after: 200,
            data: Data::Lost,
        };
        let faults = [(When::At(2_000), restart)];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (5_000, "PING")],
            ))
        });
        let last = changes(&seen, REPLICA).pop().unwrap();
        assert!(last.ends_with("k -"), "{last}");
    }
}

mod wait {
    use super::*;

    #[test]
    fn returns_as_soon_as_the_replica_has_said_that_it_has_it() {
        let seen = play(replicated(1, 2, &[]), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (1_000, "WAIT 1 500")],
            ))
        });
        // SET is answered at 1 040; WAIT arrives at 1 045, its question and the answer take 10.
        assert_eq!(seen.notes_of(FIRST), ["1040: OK", "1060: 1"]);
    }

    #[test]
    fn says_how_many_have_it_when_its_time_is_up() {
        let faults = [(When::At(900), hold(MASTER, REPLICA, 10_000))];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (1_000, "WAIT 1 500")],
            ))
        });
        assert_eq!(seen.notes_of(FIRST), ["1040: OK", "1551: 0"]);
    }

    #[test]
    fn of_two_replicas_counts_the_one_that_is_near() {
        let faults = [(When::At(900), hold(MASTER, REPLICA, 10_000))];
        let seen = play(replicated(1, 3, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[
                    (1_000, "SET k v"),
                    (1_000, "WAIT 1 500"),
                    (2_000, "WAIT 2 500"),
                ],
            ))
        });
        assert_eq!(seen.notes_of(FIRST), ["1040: OK", "1060: 1", "2511: 1"]);
    }

    #[test]
    fn on_another_connection_asks_for_what_that_one_has_seen() {
        let faults = [(When::At(900), hold(MASTER, REPLICA, 10_000))];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(async move {
                until(client, 1_000).await;
                // Opened before the write, as those of a pool are.
                let mut other = client.listen(0).await.unwrap();
                notes.note(client, ask(client, "SET k v").await);
                let wait = redis::cmd("WAIT").arg(1).arg(500).to_owned();
                let count: u64 = wait.query_async(&mut other).await.unwrap();
                notes.note(client, count.to_string());
                let count: u64 = wait.query_async(&mut other).await.unwrap();
                notes.note(client, count.to_string());
            })
        });
        let notes = seen.notes_of(FIRST);
        assert!(notes[1].ends_with(": 1"), "it proves nothing: {notes:?}");
        assert!(
            notes[2].ends_with(": 0"),
            "WAIT itself has seen the write: {notes:?}"
        );
    }
}

mod a_failover {
    use super::*;

    #[test]
    fn leads_clients_to_the_replica_with_what_it_has_copied() {
        let faults = [(When::At(2_000), failover())];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (3_000, "GET k"), (3_500, "SET k w")],
            ))
        });
        assert_eq!(seen.notes_of(FIRST)[1], "3040: v");
        assert_eq!(
            changes(&seen, REPLICA).pop().unwrap(),
            "3505 k w by client-1"
        );
        assert_eq!(changes(&seen, MASTER).pop().unwrap(), "3510 k w");
    }

    #[test]
    fn of_a_dead_master_makes_it_a_replica_when_it_comes_back() {
        let restart = Fault::Restart {
            nodes: vec![MASTER],
            after: 3_000,
            data: Data::Kept,
        };
        let faults = [
            (When::At(900), lag(500)),
            (When::At(1_100), restart),
            (When::At(1_200), failover()),
        ];
        let seen = play(replicated(1, 2, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET old v"), (2_000, "SET new v"), (6_000, "PING")],
            ))
        });
        let of_old = changes(&seen, MASTER);
        assert!(of_old[1].ends_with("old -"), "{of_old:?}");
        assert!(of_old[2].ends_with("new v"), "{of_old:?}");
    }

    #[test]
    fn takes_the_replica_that_has_copied_most() {
        let faults = [(When::At(900), lag(10_000)), (When::At(2_000), failover())];
        let seen = play(replicated(1, 3, &faults), |client, notes| {
            Box::pin(converse(
                client,
                notes,
                &[(1_000, "SET k v"), (3_000, "GET k")],
            ))
        });
        assert!(turns(&seen).contains(&"2000 lock-3 leads".to_owned()));
        assert_eq!(seen.notes_of(FIRST)[1], "3040: v");
    }
}

mod sentinels {
    use super::*;

    fn watched(clients: u16, servers: u16, faults: &[(When, Fault)]) -> Setup {
        Setup {
            deployment: Deployment {
                shape: Shape::Replicated(Sentinels {
                    number: 3,
                    down_after: 2_000,
                }),
                persistence: Persistence::default(),
            },
            ..world(clients, servers, faults)
        }
    }

    /// When a server was promoted, on each engine: what sentinels draw is the same, and the order
    /// within a millisecond is not.
    fn promotions(setup: &Setup) -> Vec<Vec<(Millis, NodeId)>> {
        let of = |engine: &&'static dyn sim::engine::Engine| {
            let seen = play_on(*engine, setup.clone(), |client, _| {
                Box::pin(async move { client.sleep(50_000).await })
            });
            let promoted = seen.history.events.iter();
            promoted
                .filter(|event| event.what == What::Promoted)
                .map(|event| (event.at, event.node))
                .collect()
        };
        sim::engine::ALL.iter().map(of).collect()
    }

    #[test]
    fn promote_a_replica_within_seconds_of_the_masters_death() {
        for death in [crash(MASTER), power_loss(MASTER), pause(MASTER, 40_000)] {
            let setup = watched(1, 2, &[(When::At(5_000), death)]);
            for promoted in promotions(&setup) {
                let [(at, REPLICA)] = promoted[..] else {
                    panic!("{promoted:?}")
                };
                assert!((7_000..=10_000).contains(&at), "{at}");
            }
        }
    }

    #[test]
    fn leave_a_healthy_master_alone() {
        for promoted in promotions(&watched(1, 2, &[])) {
            assert_eq!(promoted, []);
        }
    }

    #[test]
    fn leave_a_master_alone_that_only_one_of_them_cannot_reach() {
        let faults = [(When::At(5_000), hold(NodeId::Sentinel(1), MASTER, 30_000))];
        for promoted in promotions(&watched(1, 2, &faults)) {
            assert_eq!(promoted, []);
        }
    }

    #[test]
    fn lead_a_client_to_the_new_master_and_correct_the_old_one() {
        let restart = Fault::Restart {
            nodes: vec![MASTER],
            after: 10_000,
            data: Data::Kept,
        };
        let faults = [(When::At(5_000), restart)];
        for &engine in sim::engine::ALL {
            let seen = play_on(engine, watched(1, 2, &faults), |client, notes| {
                Box::pin(converse(
                    client,
                    notes,
                    &[(1_000, "SET k v"), (12_000, "GET k"), (55_000, "GET k")],
                ))
            });
            let notes = seen.notes_of(FIRST);
            assert!(
                notes[1].ends_with(": v") && notes[2].ends_with(": v"),
                "{notes:?}"
            );
            let turns = turns(&seen);
            assert_eq!(turns.len(), 2, "{turns:?}");
            assert!(turns[1].ends_with("lock-1 follows lock-2"), "{turns:?}");
        }
    }

    #[test]
    fn do_as_an_operator_asks() {
        let faults = [(When::At(5_000), failover())];
        for promoted in promotions(&watched(1, 2, &faults)) {
            let [(at, REPLICA)] = promoted[..] else {
                panic!("{promoted:?}")
            };
            assert!((5_000..=6_100).contains(&at), "{at}");
        }
    }

    #[test]
    fn promote_nobody_while_a_client_talks_to_the_only_server_left() {
        let faults = [
            (When::At(5_000), crash(MASTER)),
            (When::At(5_000), crash(REPLICA)),
        ];
        for promoted in promotions(&watched(1, 2, &faults)) {
            assert_eq!(promoted, []);
        }
    }
}

mod persistence {
    use super::*;

    /// A world with one server that writes to disk.
    fn writing(persistence: Persistence, faults: &[(When, Fault)]) -> Setup {
        Setup {
            deployment: Deployment {
                persistence,
                ..Deployment::default()
            },
            ..world(1, 1, faults)
        }
    }

    fn restart() -> Fault {
        Fault::Restart {
            nodes: vec![MASTER],
            after: 200,
            data: Data::OnDisk,
        }
    }

    /// What a client finds afterwards of `a`, set at 1.5 s, and `b`, set at 1.8 s.
    fn left(persistence: Persistence, faults: &[(When, Fault)]) -> Vec<String> {
        let seen = play(writing(persistence, faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                let early = [(1_500, "SET a 1 PX 60000"), (1_800, "SET b 2 PX 1000")];
                silently(client, &early).await;
                // Whatever became of the old connection.
                until(client, 2_500).await;
                let _ = ask(client, "PING").await;
                converse(client, notes, &[(3_000, "GET a"), (3_000, "GET b")]).await;
            })
        });
        let notes = seen.notes_of(FIRST);
        notes
            .iter()
            .map(|note| note.split_once(": ").unwrap().1.to_owned())
            .collect()
    }

    #[test]
    fn a_killed_server_has_what_it_had_answered_and_deadlines_run_on() {
        for how in [Persistence::EverySecond, Persistence::Always] {
            let killed = [(When::At(1_900), restart())];
            assert_eq!(left(how, &killed), ["1", "nil"], "{how:?}");
        }
        let killed = [(When::At(1_900), restart())];
        assert_eq!(left(Persistence::None, &killed), ["nil", "nil"]);
    }

    #[test]
    fn a_power_loss_takes_what_everysec_has_not_forced_to_the_disk() {
        // The first write is forced at once, the second at 2.505 s.
        for (at, how, b) in [
            (2_000, Persistence::EverySecond, "nil"),
            (2_000, Persistence::Always, "2"),
            (2_600, Persistence::EverySecond, "2"),
        ] {
            let faults = [
                (When::At(at), power_loss(MASTER)),
                (When::At(at), restart()),
            ];
            let seen = play(writing(how, &faults), |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    let early = [(1_500, "SET a 1 PX 60000"), (1_800, "SET b 2 PX 60000")];
                    silently(client, &early).await;
                    until(client, 4_000).await;
                    let _ = ask(client, "PING").await;
                    converse(client, notes, &[(6_000, "GET a"), (6_000, "GET b")]).await;
                })
            });
            let notes = seen.notes_of(FIRST);
            assert!(notes[0].ends_with(": 1"), "{how:?}: {notes:?}");
            assert!(
                notes[1].ends_with(&format!(": {b}")),
                "{at} {how:?}: {notes:?}"
            );
            let lost = seen.times(|_, what| *what == What::DataLost).len();
            assert_eq!(lost, usize::from(b == "nil"));
        }
    }
}
