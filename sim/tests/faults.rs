//! What clients and servers see of every fault.
//!
//! Segments take 5 ms each, so a request that is sent at 100 ms is executed at 105 and answered
//! at 110.

mod watch;

use sim::engine::Event;
use sim::fault::{Data, Fault, Point, When};
use sim::history::What;
use sim::{EPOCH, NodeId};
use watch::*;

mod a_pause {
    use super::*;

    #[test]
    fn makes_timers_fire_late_and_all_at_once_in_their_order() {
        let seen = play(
            world(1, 1, &[(When::At(100), pause(FIRST, 1_000))]),
            |client, notes| {
                Box::pin(async move {
                    let tasks: Vec<_> = [400, 200, 300]
                        .map(|length| {
                            let notes = notes.clone();
                            client.spawn(async move {
                                client.sleep(length).await;
                                notes.note(client, format!("after {length}"));
                            })
                        })
                        .into();
                    client.sleep(2_000).await;
                    notes.note(client, "done");
                    drop(tasks);
                })
            },
        );
        assert_eq!(
            seen.notes_of(FIRST),
            [
                "1100: after 200",
                "1100: after 300",
                "1100: after 400",
                "2000: done"
            ]
        );
    }

    #[test]
    fn freezes_background_tasks_as_well() {
        let seen = play(
            world(1, 1, &[(When::At(100), pause(FIRST, 1_000))]),
            |client, notes| {
                Box::pin(async move {
                    let ticking = client.spawn(async move {
                        loop {
                            client.sleep(40).await;
                            notes.note(client, "tick");
                        }
                    });
                    client.sleep(1_200).await;
                    drop(ticking);
                })
            },
        );
        let expected = [
            "40: tick",
            "80: tick",
            "1100: tick",
            "1140: tick",
            "1180: tick",
        ];
        assert_eq!(seen.notes_of(FIRST), expected);
    }

    #[test]
    fn leaves_both_clocks_running() {
        let seen = play(
            world(1, 1, &[(When::At(100), pause(FIRST, 1_000))]),
            |client, notes| {
                Box::pin(async move {
                    client.sleep(150).await;
                    notes.note(client, format!("{} ms of wall", client.wall() - EPOCH));
                })
            },
        );
        assert_eq!(seen.notes_of(FIRST), ["1100: 1100 ms of wall"]);
    }

    #[test]
    fn does_not_make_an_answer_late_that_came_before_the_time_out_passed() {
        let faults = [(When::At(2_000), pause(FIRST, 5_000))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                client.store(&read(1)).await.unwrap();
                until(client, 1_998).await;
                let request = write(1, 7);
                let both =
                    futures_util::future::join(ask(client, "SET k v"), client.store(&request));
                let (set, stored) = both.await;
                notes.note(client, set);
                notes.note(client, told(stored));
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["2003: set"]);
        assert_eq!(seen.notes_of(FIRST), ["7000: OK", "7000: accepted"]);
    }

    #[test]
    fn does_not_save_an_answer_that_is_not_there_when_it_ends() {
        let faults = [
            (When::At(2_000), pause(FIRST, 5_000)),
            (When::At(2_000), pause(LOCK, 6_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 1_998).await;
                notes.note(client, ask(client, "SET k v").await);
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["7000: timed out"]);
        assert_eq!(seen.executed_of(FIRST)[1..], ["8000: set"]);
    }

    #[test]
    fn of_a_server_lets_it_execute_everything_afterwards_in_the_order_of_arrival() {
        let faults = [(When::At(100), pause(LOCK, 500))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 300 - 50 * u64::from(client.number())).await;
                let command = format!("SET k {} NX", client.number());
                notes.note(client, ask(client, &command).await);
            })
        });
        assert_eq!(seen.notes_of(SECOND), ["605: OK"]);
        assert_eq!(seen.notes_of(FIRST), ["605: nil"]);
    }

    #[test]
    fn that_overlaps_another_ends_with_the_later_one() {
        let faults = [
            (When::At(100), pause(FIRST, 1_000)),
            (When::At(600), pause(FIRST, 1_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(200).await;
                notes.note(client, "awake");
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1600: awake"]);
        assert_eq!(seen.times(|_, what| *what == What::Resumed), [1_600]);
    }

    #[test]
    fn that_a_crash_has_ended_does_not_end_a_later_one() {
        let restart = Fault::Restart {
            nodes: vec![FIRST],
            after: 100,
            data: Data::Kept,
        };
        let faults = [
            (When::At(100), pause(FIRST, 1_000)),
            (When::At(200), restart),
            (When::At(500), pause(FIRST, 2_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(500).await;
                notes.note(client, "awake");
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["2500: awake"]);
    }

    #[test]
    fn cannot_stop_a_process_that_is_dead() {
        let restart = Fault::Restart {
            nodes: vec![LOCK],
            after: 200,
            data: Data::Kept,
        };
        let faults = [
            (When::At(100), restart),
            (When::At(200), pause(LOCK, 5_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                until(client, 400).await;
                connect(client).await;
                notes.note(client, "connected");
            })
        });
        assert!(
            seen.times(|_, what| matches!(what, What::Paused { .. }))
                .is_empty()
        );
        assert_eq!(seen.notes_of(FIRST).len(), 1);
        assert!(seen.notes[0].0 < 500);
    }

    #[test]
    fn at_a_point_strikes_before_anything_else_runs() {
        let faults = [(at_point(Point::Granted), pause(FIRST, 1_000))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                let background = notes.clone();
                let background = client.spawn(async move {
                    client.sleep(70).await;
                    background.note(client, "background");
                });
                // Both are due at 70 ms; this one slept first.
                client.sleep(70).await;
                client.point(Point::Granted, 1).await;
                notes.note(client, "behind the point");
                client.sleep(1).await;
                drop(background);
            })
        });
        let expected = ["1070: behind the point", "1070: background"];
        assert_eq!(seen.notes_of(FIRST), expected);
    }
}

mod a_crash {
    use super::*;

    #[test]
    fn of_a_client_leaves_its_written_request_to_be_executed() {
        let faults = [(at_point(Point::AcquireSent), crash(FIRST))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                if client.number() == 1 {
                    until(client, 100).await;
                    client.begin_attempt(1);
                    notes.note(client, ask(client, "SET k 1 NX").await);
                } else {
                    until(client, 200).await;
                    notes.note(client, ask(client, "GET k").await);
                }
            })
        });
        assert_eq!(seen.times(|_, what| *what == What::Crashed), [100]);
        assert_eq!(seen.executed_of(FIRST)[1..], ["105: set"]);
        assert_eq!(seen.notes_of(FIRST), [""; 0]);
        assert_eq!(seen.notes_of(SECOND), ["210: 1"]);
    }

    #[test]
    fn of_a_client_leaves_its_written_store_request_to_be_executed() {
        // The fault strikes at 100 ms before anything else of that millisecond.
        let faults = [(When::At(101), crash(FIRST))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 100).await;
                notes.note(client, told(client.store(&write(1, 5)).await));
            })
        });
        assert_eq!(
            seen.times(|_, what| matches!(what, What::Write { accepted: true, .. })),
            [105]
        );
        assert_eq!(seen.notes_of(FIRST), [""; 0]);
    }

    #[test]
    fn ends_every_task_of_the_process() {
        let faults = [(When::At(100), crash(FIRST))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                let ticking = client.spawn(async move {
                    loop {
                        client.sleep(40).await;
                        notes.note(client, "tick");
                    }
                });
                client.sleep(150).await;
                drop(ticking);
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["40: tick", "80: tick"]);
        assert_eq!(seen.notes_of(SECOND), ["40: tick", "80: tick", "120: tick"]);
    }

    #[test]
    fn of_a_server_drops_waiting_requests_and_fails_new_ones_without_a_wait() {
        let faults = [(When::At(102), crash(LOCK))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k v").await);
                until(client, 200).await;
                let again = ask(client, "SET k v").await;
                notes.note(
                    client,
                    if again == "timed out" {
                        again
                    } else {
                        "failed".into()
                    },
                );
            })
        });
        // The process was gone before the request arrived.
        assert_eq!(seen.executed_of(FIRST).len(), 1);
        assert_eq!(seen.notes_of(FIRST), ["107: dropped", "210: failed"]);
    }

    #[test]
    fn of_a_paused_server_forgets_what_it_has_not_read() {
        let faults = [
            (When::At(90), pause(LOCK, 1_000)),
            (When::At(120), crash(LOCK)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k v").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST).len(), 1);
        assert_eq!(seen.notes_of(FIRST), ["125: dropped"]);
    }

    #[test]
    fn of_the_store_ends_its_requests_as_disconnected() {
        let faults = [(When::At(102), crash(NodeId::Store))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 100).await;
                notes.note(client, told(client.store(&read(1)).await));
                until(client, 200).await;
                notes.note(client, told(client.store(&read(1)).await));
            })
        });
        assert_eq!(
            seen.notes_of(FIRST),
            ["107: disconnected", "210: disconnected"]
        );
    }

    #[test]
    fn of_a_client_with_unread_answers_does_not_take_back_what_it_wrote() {
        // The answer to the first request is unread when the second one has just been written.
        let faults = [
            (When::At(104), pause(FIRST, 1_000)),
            (When::At(120), crash(FIRST)),
        ];
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                let second = async move {
                    client.sleep(3).await;
                    ask(client, "INCR k").await
                };
                futures_util::future::join(ask(client, "INCR k"), second).await;
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["105: incr", "108: incr"]);
    }
}

mod a_restart {
    use super::*;

    fn restart(node: NodeId, after: u64, data: Data) -> Fault {
        let nodes = vec![node];
        Fault::Restart { nodes, after, data }
    }

    fn keys_after(data: Data) -> Watched {
        let faults = [(When::At(500), restart(LOCK, 1_000, data))];
        play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                for set in [
                    "SET stays v",
                    "SET longer v PX 9000",
                    "SET shorter v PX 900",
                ] {
                    assert_eq!(ask(client, set).await, "OK");
                }
                until(client, 1_400).await;
                let refused = ask(client, "PING").await;
                assert!(refused != "PONG" && refused != "timed out", "{refused}");
                until(client, 1_600).await;
                for get in ["GET stays", "GET longer", "GET shorter"] {
                    notes.note(client, ask(client, get).await);
                }
            })
        })
    }

    #[test]
    fn gives_kept_data_back_and_deadlines_have_run_on() {
        let seen = keys_after(Data::Kept);
        let answers: Vec<_> = seen.notes.iter().map(|note| note.2.as_str()).collect();
        assert_eq!(answers, ["v", "v", "nil"]);
        assert_eq!(
            seen.times(|node, what| node == LOCK && *what == What::Started),
            [0, 1_500]
        );
        assert!(seen.times(|_, what| *what == What::DataLost).is_empty());
    }

    #[test]
    fn gives_lost_data_not_back() {
        let seen = keys_after(Data::Lost);
        let answers: Vec<_> = seen.notes.iter().map(|note| note.2.as_str()).collect();
        assert_eq!(answers, ["nil", "nil", "nil"]);
        assert_eq!(
            seen.times(|node, what| node == LOCK && *what == What::DataLost),
            [500]
        );
    }

    #[test]
    fn of_the_store_keeps_its_rows_and_loses_them_as_told_and_its_sequence_goes_on() {
        for (data, row) in [(Data::Kept, "row 5"), (Data::Lost, "row 0")] {
            let faults = [(When::At(500), restart(NodeId::Store, 100, data))];
            let seen = play(world(1, 1, &faults), |client, notes| {
                Box::pin(async move {
                    client.store(&write(1, 5)).await.unwrap();
                    until(client, 700).await;
                    notes.note(client, told(client.store(&read(1)).await));
                    client.store(&write(1, 6)).await.unwrap();
                })
            });
            assert_eq!(seen.notes[0].2, row);
            let sequence = seen
                .history
                .events
                .iter()
                .filter_map(|event| match event.what {
                    What::Write { sequence, .. } => Some(sequence),
                    _ => None,
                });
            assert_eq!(sequence.collect::<Vec<_>>(), [1, 2]);
        }
    }

    #[test]
    fn of_a_client_starts_its_program_again_and_the_run_waits_for_it() {
        let faults = [(When::At(500), restart(FIRST, 100, Data::Kept))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                notes.note(client, client.token());
                client.sleep(400).await;
                notes.note(client, "done");
            })
        });
        let [first, done, second, again] = seen.notes_of(FIRST).try_into().unwrap();
        assert_eq!([done.as_str(), again.as_str()], ["400: done", "1000: done"]);
        assert!(second.starts_with("600: client-1:"));
        assert_ne!(first.split_once(' '), second.split_once(' '));
        assert_eq!(seen.history.ended, 1_000);
    }

    #[test]
    fn that_overlaps_another_leaves_one_process_once_both_are_over() {
        let faults = [
            (When::At(100), restart(LOCK, 500, Data::Kept)),
            (When::At(300), restart(LOCK, 1_000, Data::Kept)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                until(client, 700).await;
                assert_ne!(ask(client, "PING").await, "PONG");
                until(client, 1_400).await;
                notes.note(client, ask(client, "PING").await);
            })
        });
        assert_eq!(
            seen.times(|node, what| node == LOCK && *what == What::Started),
            [0, 1_300]
        );
        assert_eq!(seen.notes[0].2, "PONG");
    }

    #[test]
    fn resets_connections_that_were_open_to_the_old_process() {
        let faults = [(When::At(100), restart(LOCK, 50, Data::Kept))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                assert_eq!(ask(client, "SET k v").await, "OK");
                until(client, 200).await;
                notes.note(client, ask(client, "GET k").await);
            })
        });
        // An idle client heard of the end in the meantime and connects again.
        assert_eq!(seen.notes[0].2, "v");
    }
}

mod a_hold {
    use super::*;

    #[test]
    fn lets_nothing_cross_and_then_everything_in_order_though_the_sender_gave_up() {
        let faults = [(When::At(100), hold(FIRST, LOCK, 3_000))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                if client.number() == 2 {
                    notes.note(client, ask(client, "SET other v").await);
                    return;
                }
                for command in ["SET k 1", "INCRBY k 5", "INCR k"] {
                    notes.note(client, ask(client, command).await);
                }
            })
        });
        assert_eq!(seen.notes_of(SECOND), ["210: OK"]);
        assert_eq!(
            seen.notes_of(FIRST)[..2],
            ["1200: timed out", "2200: timed out"]
        );
        let crossed = &seen.executed_of(FIRST)[1..];
        assert_eq!(crossed, ["3100: set", "3100: incrby", "3100: incr"]);
        assert_eq!(seen.notes_of(FIRST)[2], "3105: 7");
    }

    #[test]
    fn also_keeps_what_is_on_its_way() {
        let faults = [(When::At(102), hold(FIRST, LOCK, 500))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["602: set"]);
        assert_eq!(seen.notes_of(FIRST), ["607: OK"]);
    }

    #[test]
    fn also_keeps_answers() {
        let faults = [(When::At(107), hold(FIRST, LOCK, 500))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["105: set"]);
        assert_eq!(seen.notes_of(FIRST), ["607: OK"]);
    }

    #[test]
    fn delivers_the_bytes_of_a_client_that_died_in_the_meantime() {
        let faults = [
            (When::At(100), hold(FIRST, LOCK, 500)),
            (When::At(300), crash(FIRST)),
        ];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                if client.number() == 1 {
                    until(client, 200).await;
                    ask(client, "SET k 1").await;
                } else {
                    until(client, 700).await;
                    notes.note(client, ask(client, "GET k").await);
                }
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["600: set"]);
        assert_eq!(seen.notes_of(SECOND), ["710: 1"]);
    }

    #[test]
    fn delivers_the_bytes_of_a_connection_that_was_reset_in_the_meantime() {
        let faults = [
            (When::At(100), hold(FIRST, LOCK, 500)),
            (When::At(300), reset(FIRST, LOCK)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["600: set"]);
        // The news of the reset waits as well, and comes before the answer.
        assert_eq!(seen.notes_of(FIRST), ["600: dropped"]);
    }

    #[test]
    fn delivers_the_last_bytes_of_a_run_when_everybody_else_is_done() {
        let faults = [
            (When::At(100), hold(FIRST, NodeId::Store, 500)),
            (When::At(300), crash(FIRST)),
        ];
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 200).await;
                client.store(&write(1, 5)).await.unwrap();
            })
        });
        assert_eq!(
            seen.times(|_, what| matches!(what, What::Write { accepted: true, .. })),
            [600]
        );
    }

    #[test]
    fn lets_what_is_due_in_its_last_millisecond_wait_behind_what_it_has_kept() {
        let faults = [(When::At(100), hold(FIRST, LOCK, 100))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 150).await;
                let late = async move {
                    until(client, 195).await;
                    ask(client, "INCR k").await
                };
                let both = futures_util::future::join(ask(client, "SET k 1"), late);
                let (set, incremented) = both.await;
                notes.note(client, format!("{set} {incremented}"));
                notes.note(client, ask(client, "GET k").await);
            })
        });
        assert_eq!(
            seen.executed_of(FIRST)[1..],
            ["200: set", "200: incr", "210: get"]
        );
        assert_eq!(seen.notes_of(FIRST), ["205: OK 2", "215: 2"]);
    }

    #[test]
    fn that_begins_as_another_ends_keeps_what_the_other_kept() {
        let faults = [
            (When::At(100), hold(FIRST, LOCK, 100)),
            (When::At(200), hold(FIRST, LOCK, 100)),
            (When::At(250), hold(FIRST, LOCK, 150)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 150).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["400: set"]);
        assert_eq!(seen.notes_of(FIRST), ["405: OK"]);
    }

    #[test]
    fn makes_a_new_connection_wait() {
        let faults = [(When::At(0), hold(FIRST, LOCK, 300))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(100).await;
                notes.note(client, ask(client, "PING").await);
            })
        });
        assert_eq!(seen.notes.len(), 1);
        assert_eq!(seen.notes[0].2, "PONG");
        assert!((310..400).contains(&seen.notes[0].0));
    }

    #[test]
    fn longer_than_a_store_request_can_be_written_does_not_spoil_the_next_one() {
        // More than the sockets' buffers take: the time-out strikes in the middle of a frame.
        // turmoil's buffers count segments, not bytes; they have room for it.
        let faults = [(When::At(100), hold(FIRST, NodeId::Store, 3_000))];
        let seen = play_on(&Event, world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 200).await;
                let mut huge = write(1, 1);
                huge.token = "t".repeat(4_000_000);
                notes.note(client, told(client.store(&huge).await));
                until(client, 4_000).await;
                notes.note(client, told(client.store(&write(1, 2)).await));
                notes.note(client, told(client.store(&read(1)).await));
            })
        });
        assert_eq!(
            seen.notes_of(FIRST),
            ["1200: timed out", "4020: accepted", "4030: row 2"]
        );
    }
}

mod a_reset {
    use super::*;

    #[test]
    fn is_seen_by_both_ends_and_the_next_request_connects_again() {
        let faults = [(When::At(106), reset(FIRST, LOCK))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(30 * u64::from(client.number() - 1)).await;
                notes.note(client, ask(client, "CLIENT ID").await);
                until(client, 103).await;
                notes.note(client, ask(client, "CLIENT ID").await);
                notes.note(client, ask(client, "CLIENT ID").await);
            })
        });
        let answers = |client| -> Vec<String> {
            let notes = seen.notes.iter().filter(|note| note.1 == client);
            notes.map(|note| note.2.clone()).collect()
        };
        assert_eq!(answers(FIRST), ["1", "dropped", "3"]);
        assert_eq!(answers(SECOND), ["2", "2", "2"]);
    }

    #[test]
    fn of_an_idle_connection_costs_the_next_request_nothing_but_the_time_to_connect() {
        let faults = [(When::At(100), reset(FIRST, LOCK))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                notes.note(client, ask(client, "CLIENT ID").await);
            })
        });
        assert_eq!(seen.notes[0].2, "2");
    }

    #[test]
    fn lets_the_server_execute_first_what_was_written_before_it() {
        let faults = [(at_point(Point::AcquireSent), reset(FIRST, LOCK))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                client.begin_attempt(1);
                notes.note(client, ask(client, "SET k v").await);
                client.end_attempt();
                notes.note(client, ask(client, "GET k").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..2], ["105: set"]);
        let answers: Vec<_> = seen.notes.iter().map(|note| note.2.as_str()).collect();
        assert_eq!(answers, ["dropped", "v"]);
    }

    #[test]
    fn waits_for_a_paused_server_to_execute_what_it_has_received() {
        let faults = [
            (When::At(90), pause(LOCK, 500)),
            (When::At(200), reset(FIRST, LOCK)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k v").await);
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["205: dropped"]);
        assert_eq!(seen.executed_of(FIRST)[1..], ["590: set"]);
    }

    #[test]
    fn that_reached_a_paused_client_is_heard_when_it_goes_on_whatever_the_network_does() {
        let faults = [
            (When::At(101), pause(FIRST, 500)),
            (When::At(110), reset(FIRST, LOCK)),
            (When::At(200), hold(FIRST, LOCK, 3_000)),
            (When::At(200), drop_replies(FIRST, LOCK, 3_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 98).await;
                let answer = client.spawn(async move {
                    let both = futures_util::future::join(
                        ask(client, "PING"),
                        client.timeout(400, std::future::pending::<()>()),
                    );
                    notes.note(client, both.await.0);
                    until(client, 602).await;
                    notes.note(client, ask(client, "PING").await);
                });
                until(client, 1_500).await;
                drop(answer);
            })
        });
        // The answer came before the reset, and was there to be read; the next request finds
        // the connection gone and cannot make a new one.
        assert_eq!(seen.notes_of(FIRST)[0], "601: PONG");
        assert_eq!(seen.executed_of(FIRST).len(), 2);
    }
}

mod dropped_replies {
    use super::*;

    #[test]
    fn let_requests_be_executed_and_end_in_a_reset() {
        let faults = [(When::At(100), drop_replies(FIRST, LOCK, 1_500))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                if client.number() == 2 {
                    notes.note(client, ask(client, "SET other 1").await);
                    return;
                }
                notes.note(client, ask(client, "INCR k").await);
                notes.note(client, ask(client, "INCR k").await);
                until(client, 2_000).await;
                notes.note(client, ask(client, "GET k").await);
            })
        });
        assert_eq!(seen.notes_of(SECOND), ["210: OK"]);
        let executed = seen.executed_of(FIRST);
        assert_eq!(executed[1..3], ["205: incr", "1205: incr"]);
        let notes = seen.notes_of(FIRST);
        assert_eq!(notes[..2], ["1200: timed out", "1605: dropped"]);
        assert!(notes[2].ends_with(": 2"));
    }

    #[test]
    fn swallow_an_answer_that_was_on_its_way() {
        let faults = [(When::At(107), drop_replies(FIRST, LOCK, 300))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["105: set"]);
        assert_eq!(seen.notes_of(FIRST), ["412: dropped"]);
    }

    #[test]
    fn let_no_new_connection_come_about() {
        let faults = [(When::At(0), drop_replies(FIRST, LOCK, 300))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(10).await;
                let answer = ask(client, "PING").await;
                assert_ne!(answer, "PONG");
                notes.note(client, "failed");
                notes.note(client, ask(client, "PING").await);
            })
        });
        assert_eq!(seen.notes_of(FIRST)[0], "305: failed");
        assert_eq!(seen.notes[1].2, "PONG");
    }

    #[test]
    fn do_not_hide_a_reset_for_longer_than_they_last() {
        let faults = [
            (When::At(100), drop_replies(FIRST, LOCK, 300)),
            (When::At(200), reset(FIRST, LOCK)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 150).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["155: set"]);
        assert_eq!(seen.notes_of(FIRST), ["405: dropped"]);
    }

    #[test]
    fn of_the_store_let_its_writes_be_accepted() {
        let faults = [(When::At(100), drop_replies(FIRST, NodeId::Store, 1_500))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 200).await;
                notes.note(client, told(client.store(&write(1, 5)).await));
                until(client, 1_700).await;
                notes.note(client, told(client.store(&read(1)).await));
            })
        });
        assert_eq!(
            seen.times(|_, what| matches!(what, What::Write { accepted: true, .. })),
            [205]
        );
        // The reset came while nobody used the connection: the next request makes a new one.
        assert_eq!(seen.notes_of(FIRST), ["1200: timed out", "1720: row 5"]);
    }
}

mod a_clock_step {
    use super::*;

    #[test]
    fn moves_the_wall_clock_and_not_the_monotonic_one() {
        for by in [30_000, -30_000] {
            let faults = [(When::At(100), clock_step(FIRST, by))];
            let seen = play(world(2, 1, &faults), |client, notes| {
                Box::pin(async move {
                    client.sleep(200).await;
                    let wall = client.wall() as i64 - EPOCH as i64;
                    notes.note(client, format!("{} {wall}", client.now()));
                })
            });
            assert_eq!(seen.notes_of(FIRST), [format!("200: 200 {}", 200 + by)]);
            assert_eq!(seen.notes_of(SECOND), ["200: 200 200"]);
        }
    }

    /// The answers to GETs that arrive so many milliseconds after a key with 10 s to live.
    fn read_after(faults: &[(When, Fault)], after: &'static [u64]) -> Vec<String> {
        let seen = play(world(1, 1, faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 95).await; // executed at 100
                assert_eq!(ask(client, "SET k v PX 10000").await, "OK");
                for after in after {
                    until(client, 95 + after).await;
                    notes.note(client, ask(client, "GET k").await);
                }
            })
        });
        seen.notes.iter().map(|note| note.2.clone()).collect()
    }

    #[test]
    fn or_none_a_key_can_be_read_at_its_deadline_and_not_a_millisecond_later() {
        assert_eq!(read_after(&[], &[9_990, 10_000]), ["v", "v"]);
        assert_eq!(read_after(&[], &[9_990, 10_001]), ["v", "nil"]);
    }

    #[test]
    fn forward_brings_expiry_closer_to_the_millisecond() {
        let faults = [(When::At(500), clock_step(LOCK, 4_000))];
        assert_eq!(read_after(&faults, &[6_000]), ["v"]);
        assert_eq!(read_after(&faults, &[6_001]), ["nil"]);
    }

    #[test]
    fn back_puts_expiry_off_to_the_millisecond() {
        let faults = [(When::At(500), clock_step(LOCK, -4_000))];
        assert_eq!(read_after(&faults, &[14_000]), ["v"]);
        assert_eq!(read_after(&faults, &[14_001]), ["nil"]);
    }

    #[test]
    fn of_a_client_moves_no_server() {
        let faults = [(When::At(500), clock_step(FIRST, 40_000))];
        assert_eq!(read_after(&faults, &[10_000]), ["v"]);
    }

    #[test]
    fn forward_and_back_at_once_revives_a_key_that_nobody_has_deleted() {
        let faults = [
            (When::At(510), clock_step(LOCK, 20_000)),
            (When::At(560), clock_step(LOCK, -20_000)),
        ];
        assert_eq!(read_after(&faults, &[1_000]), ["v"]);
    }

    #[test]
    fn forward_lets_the_next_cycle_delete_the_key_for_good() {
        // Redis looks for expired keys ten times a second.
        let faults = [
            (When::At(510), clock_step(LOCK, 20_000)),
            (When::At(650), clock_step(LOCK, -20_000)),
        ];
        assert_eq!(read_after(&faults, &[1_000]), ["nil"]);
    }
}

#[test]
fn a_key_that_expires_before_older_ones_is_deleted_in_its_own_time() {
    let seen = play(world(1, 1, &[]), |client, _| {
        Box::pin(async move {
            connect(client).await;
            until(client, 95).await;
            assert_eq!(ask(client, "SET long v PX 5000").await, "OK");
            assert_eq!(ask(client, "SET short v PX 500").await, "OK");
            until(client, 6_000).await;
        })
    });
    let deleted = seen.times(|_, what| matches!(what, What::Changed { after: None, .. }));
    assert_eq!(deleted, [700, 5_200]);
}

#[test]
fn a_fault_at_a_point_strikes_the_nth_time_the_client_it_names_is_there() {
    let when = When::Point {
        client: SECOND,
        point: Point::AfterRead,
        nth: 2,
    };
    let seen = play(world(2, 1, &[(when, pause(LOCK, 10))]), |client, _| {
        Box::pin(async move {
            client.sleep(u64::from(client.number())).await;
            for section in 1..=3 {
                client.sleep(100).await;
                client.point(Point::BeforeRead, section).await;
                client.point(Point::AfterRead, section).await;
            }
        })
    });
    let struck = seen.times(|node, what| node == LOCK && matches!(what, What::Paused { .. }));
    assert_eq!(struck, [202]);
}

#[test]
fn a_fault_at_a_time_strikes_before_anything_else_of_that_time() {
    let seen = play(
        world(1, 1, &[(When::At(100), crash(FIRST))]),
        |client, notes| {
            Box::pin(async move {
                client.sleep(100).await;
                notes.note(client, "too late");
            })
        },
    );
    assert_eq!(seen.notes_of(FIRST), [""; 0]);
}

#[test]
fn faults_at_one_point_strike_in_the_order_of_the_plan() {
    let point = at_point(Point::Granted);
    let faults = [
        (point.clone(), clock_step(FIRST, 7)),
        (point, pause(FIRST, 10)),
    ];
    let seen = play(world(1, 1, &faults), |client, _| {
        Box::pin(async move { client.point(Point::Granted, 1).await })
    });
    let struck = seen
        .history
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Struck { fault } => Some(fault),
            _ => None,
        });
    assert_eq!(struck.collect::<Vec<_>>(), [0, 1]);
    assert_eq!(seen.history.ended, 10);
}
