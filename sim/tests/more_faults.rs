//! What clients and servers see of faults, continued: clocks, suspended machines, one-way and
//! lossy networks, and servers that are emptied.
//!
//! As in `faults.rs`, segments take 5 ms each, so a request that is sent at 100 ms is executed at
//! 105 and answered at 110.

mod watch;

use sim::fault::{Data, Fault, Point, When};
use sim::history::What;
use sim::{Client, EPOCH, Lane, NodeId, Purpose};
use watch::*;

/// A client's clocks: monotonic, and wall since the epoch.
fn clocks(client: Client) -> String {
    let wall = client.wall() as i64 - EPOCH as i64;
    format!("{} {wall}", client.now())
}

/// When a server's keys were deleted.
fn deleted(seen: &Watched) -> Vec<u64> {
    seen.times(|_, what| matches!(what, What::Changed { after: None, .. }))
}

mod a_suspend {
    use super::*;

    #[test]
    fn leaves_timers_what_was_left_of_their_time() {
        let faults = [(When::At(100), suspend(FIRST, 1_000))];
        let seen = play(world(2, 1, &faults), |client, notes| {
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
        });
        assert_eq!(
            seen.notes_of(FIRST),
            [
                "1200: after 200",
                "1300: after 300",
                "1400: after 400",
                "3000: done"
            ]
        );
        assert_eq!(
            seen.notes_of(SECOND),
            [
                "200: after 200",
                "300: after 300",
                "400: after 400",
                "2000: done"
            ]
        );
    }

    #[test]
    fn stops_the_monotonic_clock_and_not_the_wall_clock() {
        let faults = [(When::At(100), suspend(FIRST, 1_000))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(150).await;
                notes.note(client, clocks(client));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1150: 150 1150"]);
        let told = |wanted: What| seen.times(|node, what| node == FIRST && *what == wanted);
        assert_eq!(told(What::Suspended { lasts: 1_000 }), [100]);
        assert_eq!(told(What::Resumed), [1_100]);
    }

    #[test]
    fn leaves_a_time_out_what_was_left_of_it() {
        // The client waits from 1 998 to 2 000 and again from 7 000 on.
        for (pause_of_server, note, executed) in [
            (5_900, "7905: OK", "7900: set"),
            (6_000, "7998: timed out", "8000: set"),
        ] {
            let faults = [
                (When::At(2_000), suspend(FIRST, 5_000)),
                (When::At(2_000), pause(LOCK, pause_of_server)),
            ];
            let seen = play(world(1, 1, &faults), |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 1_998).await;
                    notes.note(client, ask(client, "SET k v").await);
                })
            });
            assert_eq!(seen.notes_of(FIRST), [note]);
            assert_eq!(seen.executed_of(FIRST)[1..], [executed]);
        }
    }

    #[test]
    fn that_overlaps_another_ends_with_the_later_one() {
        let faults = [
            (When::At(100), suspend(FIRST, 1_000)),
            (When::At(600), suspend(FIRST, 1_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(200).await;
                notes.note(client, "awake");
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1700: awake"]);
        assert_eq!(seen.times(|_, what| *what == What::Resumed), [1_600]);
    }

    #[test]
    fn within_a_pause_stops_the_clock_for_its_own_time_alone() {
        let faults = [
            (When::At(100), pause(FIRST, 1_000)),
            (When::At(300), suspend(FIRST, 500)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(500).await; // due at 1 000, while it stands still
                notes.note(client, clocks(client));
                until(client, 700).await;
                notes.note(client, clocks(client));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1100: 600 1100", "1200: 700 1200"]);
        assert_eq!(seen.times(|_, what| *what == What::Resumed), [1_100]);
    }

    #[test]
    fn outlives_a_pause_within_it() {
        let faults = [
            (When::At(100), suspend(FIRST, 1_000)),
            (When::At(300), pause(FIRST, 500)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(100).await; // its time has come when it is suspended
                notes.note(client, clocks(client));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1100: 100 1100"]);
        assert_eq!(seen.times(|_, what| *what == What::Resumed), [1_100]);
    }

    #[test]
    fn of_a_server_lets_keys_expire_by_its_wall_clock() {
        let faults = [(When::At(200), suspend(LOCK, 11_000))];
        for (look, expected) in [(false, 11_300), (true, 11_205)] {
            let seen = play(world(1, 1, &faults), move |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 95).await; // executed at 100
                    assert_eq!(ask(client, "SET k v PX 10000").await, "OK");
                    until(client, 11_200).await;
                    if look {
                        notes.note(client, ask(client, "GET k").await);
                    }
                    until(client, 12_000).await;
                })
            });
            // The next of its cycles is the tenth of a second after it went on.
            assert_eq!(deleted(&seen), [expected]);
        }
    }

    #[test]
    fn is_over_when_the_process_dies() {
        let restart = Fault::Restart {
            nodes: vec![FIRST],
            after: 100,
            data: Data::Kept,
        };
        let faults = [
            (When::At(100), suspend(FIRST, 1_000)),
            (When::At(200), restart),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(500).await;
                notes.note(client, clocks(client));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["800: 700 800"]);
        assert!(seen.times(|_, what| *what == What::Resumed).is_empty());
    }
}

mod a_clock_rate {
    use super::*;

    #[test]
    fn moves_both_clocks_and_every_timer_of_the_node_and_no_other() {
        for (ppm, note) in [
            (10_000, "1991: 2000 2000"), // 1 000 ms at 1.01 are 990.1 ms of the world
            (-500_000, "3000: 2000 2000"),
            (1_000_000, "1500: 2000 2000"),
        ] {
            let faults = [(When::At(1_000), clock_rate(FIRST, ppm))];
            let seen = play(world(2, 1, &faults), |client, notes| {
                Box::pin(async move {
                    client.sleep(2_000).await;
                    notes.note(client, clocks(client));
                })
            });
            assert_eq!(seen.notes_of(FIRST), [note]);
            assert_eq!(seen.notes_of(SECOND), ["2000: 2000 2000"]);
            assert_eq!(
                seen.times(|node, what| node == FIRST && *what == What::ClockRate { ppm }),
                [1_000]
            );
        }
    }

    #[test]
    fn takes_the_place_of_the_one_before() {
        let faults = [
            (When::At(1_000), clock_rate(FIRST, 1_000_000)),
            (When::At(1_200), clock_rate(FIRST, -500_000)),
            (When::At(2_500), clock_rate(FIRST, 0)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(2_000).await;
                notes.note(client, clocks(client));
                client.sleep(100).await; // 50 until 2 500
                notes.note(client, clocks(client));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["2400: 2000 2000", "2550: 2100 2100"]);
    }

    #[test]
    fn shortens_a_time_out() {
        let faults = [
            (When::At(100), clock_rate(FIRST, 1_000_000)),
            (When::At(120), pause(LOCK, 5_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await; // at 150
                notes.note(client, ask(client, "SET k v").await);
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["650: timed out"]);
        assert_eq!(seen.executed_of(FIRST)[1..], ["5120: set"]);
    }

    #[test]
    fn of_a_server_brings_expiry_closer_or_puts_it_off_to_the_millisecond() {
        // At 500 ms, 9 600 of the key's 10 000 ms are left.
        for (ppm, readable, gone, swept) in [
            (1_000_000, 5_300, 5_301, 5_350),
            (-500_000, 19_701, 19_702, 19_900),
        ] {
            for (at, answer) in [(readable, "v"), (gone, "nil")] {
                let faults = [(When::At(500), clock_rate(LOCK, ppm))];
                let seen = play(world(1, 1, &faults), move |client, notes| {
                    Box::pin(async move {
                        connect(client).await;
                        until(client, 95).await; // executed at 100
                        assert_eq!(ask(client, "SET k v PX 10000").await, "OK");
                        until(client, at - 5).await;
                        notes.note(client, ask(client, "GET k").await);
                        until(client, 21_000).await;
                    })
                });
                assert_eq!(seen.notes_of(FIRST), [format!("{}: {answer}", at + 5)]);
                // Its cycles come every 100 ms of its own clock.
                let expected = if answer == "nil" { gone } else { swept };
                assert_eq!(deleted(&seen), [expected]);
            }
        }
    }
}

mod a_clock_offset {
    use super::*;

    #[test]
    fn is_there_before_anything_runs() {
        let faults = [(When::At(0), clock_offset(FIRST, -5_000))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                notes.note(client, clocks(client));
                client.sleep(100).await;
                notes.note(client, clocks(client));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["0: 0 -5000", "100: 100 -4900"]);
        assert_eq!(seen.notes_of(SECOND), ["0: 0 0", "100: 100 100"]);
        let first = &seen.history.events[..2];
        assert_eq!(first[0].what, What::Struck { fault: 0 });
        assert_eq!(first[1].what, What::ClockOffset { by: -5_000 });
    }

    #[test]
    fn of_a_server_changes_no_lease() {
        for by in [-40_000, 0, 40_000] {
            let faults = [(When::At(0), clock_offset(LOCK, by))];
            let seen = play(world(1, 1, &faults), |client, _| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 95).await;
                    assert_eq!(ask(client, "SET k v PX 500").await, "OK");
                    until(client, 1_000).await;
                })
            });
            assert_eq!(deleted(&seen), [700]);
        }
    }
}

mod a_one_way_hold {
    use super::*;

    #[test]
    fn of_requests_executes_them_when_it_ends_and_answers_those_who_still_wait() {
        let faults = [(When::At(100), one_way(FIRST, LOCK, 3_000))];
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
            seen.notes_of(FIRST),
            ["1200: timed out", "2200: timed out", "3105: 7"]
        );
        let crossed = &seen.executed_of(FIRST)[1..];
        assert_eq!(crossed, ["3100: set", "3100: incrby", "3100: incr"]);
    }

    #[test]
    fn of_answers_lets_requests_be_executed_at_once() {
        let faults = [(When::At(100), one_way(LOCK, FIRST, 500))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["205: set"]);
        assert_eq!(seen.notes_of(FIRST), ["600: OK"]);
    }

    #[test]
    fn also_keeps_what_is_on_its_way() {
        let faults = [(When::At(107), one_way(LOCK, FIRST, 500))];
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
    fn and_a_hold_keep_a_direction_until_both_are_over() {
        // The request waits for the hold, the answer for whichever is over last.
        for (answers, answered) in [((150, 850), 1_000), ((350, 250), 605), ((350, 700), 1_050)] {
            let faults = [
                (When::At(100), hold(FIRST, LOCK, 500)),
                (When::At(answers.0), one_way(LOCK, FIRST, answers.1)),
            ];
            let seen = play(world(1, 1, &faults), |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 200).await;
                    notes.note(client, ask(client, "SET k 1").await);
                })
            });
            assert_eq!(seen.executed_of(FIRST)[1..], ["600: set"]);
            assert_eq!(seen.notes_of(FIRST), [format!("{answered}: OK")]);
        }
    }

    #[test]
    fn either_way_makes_a_new_connection_wait() {
        // Of a connection's three segments the first goes there, the second comes back.
        for (a, b, answered) in [(FIRST, NodeId::Store, 315), (NodeId::Store, FIRST, 310)] {
            let faults = [(When::At(50), one_way(a, b, 250))];
            let seen = play(world(1, 1, &faults), |client, notes| {
                Box::pin(async move {
                    until(client, 100).await;
                    notes.note(client, told(client.store(&write(1, 5)).await));
                })
            });
            assert_eq!(seen.notes_of(FIRST), [format!("{answered}: accepted")]);
        }
    }

    #[test]
    fn keeps_the_news_of_a_crash_too() {
        let faults = [
            (When::At(90), one_way(LOCK, FIRST, 500)),
            (When::At(102), crash(LOCK)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST).len(), 1);
        assert_eq!(seen.notes_of(FIRST), ["590: dropped"]);
    }
}

mod a_refusal {
    use super::*;

    #[test]
    fn leaves_existing_connections_alone() {
        let faults = [(When::At(100), refuse(FIRST, LOCK, 1_000))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["210: OK"]);
    }

    #[test]
    fn is_heard_after_one_round_trip_and_is_over_in_its_last_millisecond() {
        // What arrives at 1 100 finds the door open again.
        for (at, note) in [
            (200, "210: disconnected"),
            (1_094, "1104: disconnected"),
            (1_095, "1115: row 0"),
        ] {
            let faults = [(When::At(100), refuse(FIRST, NodeId::Store, 1_000))];
            let seen = play(world(1, 1, &faults), move |client, notes| {
                Box::pin(async move {
                    until(client, at).await;
                    notes.note(client, told(client.store(&read(1)).await));
                })
            });
            assert_eq!(seen.notes_of(FIRST), [note]);
        }
    }

    #[test]
    fn shuts_out_whom_it_names_and_nobody_else() {
        let faults = [(When::At(100), refuse(FIRST, LOCK, 1_000))];
        let seen = play(world(2, 2, &faults), |client, notes| {
            Box::pin(async move {
                until(client, 200).await;
                let answer = ask(client, "PING").await;
                let refused = !["PONG", "timed out"].contains(&answer.as_str());
                notes.note(client, if refused { "refused" } else { "not refused" });
                assert_eq!(ask_server(client, 1, "PING").await, "PONG");
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["210: refused"]);
        assert!(seen.notes_of(SECOND)[0].ends_with(": not refused"));
    }

    #[test]
    fn keeps_a_client_out_whose_connection_was_reset() {
        let faults = [
            (When::At(100), refuse(FIRST, NodeId::Store, 1_000)),
            (When::At(150), reset(FIRST, NodeId::Store)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.store(&write(1, 5)).await.unwrap();
                for at in [120, 200, 1_100] {
                    until(client, at).await;
                    notes.note(client, told(client.store(&read(1)).await));
                }
            })
        });
        assert_eq!(
            seen.notes_of(FIRST),
            ["130: row 5", "210: disconnected", "1120: row 5"]
        );
    }
}

mod a_slow_network {
    use super::*;

    /// The delays of a link under the plan's first fault: Lomax with shape 1.5 and scale 4 ms,
    /// cut off at 400 ms.
    fn delays(seed: u64, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let mut lane = Lane::new(seed, Purpose::Weather, from << 16 | to);
        std::iter::repeat_with(move || {
            let uniform = (lane.bits() >> 11) as f64 / (1_u64 << 53) as f64;
            let times = libm::pow(1.0 - uniform, -1.0 / 1.5) - 1.0;
            (times * 4.0).min(400.0) as u64
        })
    }

    #[test]
    fn delays_every_segment_there_and_back_by_a_draw_of_its_own() {
        let faults = [(When::At(100), slow(FIRST, LOCK, 4, 50_000))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 200).await;
                for _ in 0..100 {
                    ask(client, "INCR k").await;
                    notes.note(client, "");
                }
            })
        });
        let (there, back) = (delays(4711, 0, 2), delays(4711, 2, 0));
        let mut now = 200;
        let expected = there.zip(back).take(100).map(|(there, back)| {
            now += 10 + there + back;
            format!("{now}: ")
        });
        assert_eq!(seen.notes_of(FIRST), expected.collect::<Vec<_>>());
        let untouched: Vec<_> = (1..=100).map(|n| format!("{}: ", 200 + 10 * n)).collect();
        assert_eq!(seen.notes_of(SECOND), untouched);
    }

    #[test]
    fn keeps_segments_in_their_order() {
        let faults = [(When::At(100), slow(FIRST, LOCK, 50, 50_000))];
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(async move {
                connect(client).await;
                let sends = (1..=200).map(|number| async move {
                    until(client, 200 + number).await;
                    ask(client, &format!("SET k {number}")).await;
                });
                futures_util::future::join_all(sends).await;
            })
        });
        let values = seen
            .history
            .events
            .iter()
            .filter_map(|event| match &event.what {
                What::Changed { after, .. } => after.as_ref()?.value.parse::<i32>().ok(),
                _ => None,
            });
        assert!(values.eq(1..=200));
    }

    #[test]
    fn delays_nothing_that_left_before_it_began_or_after_it_ended() {
        // Of the fault's draws only the first is taken, by the answer.
        let delay = delays(4711, 1, 0).next().unwrap();
        let faults = [(When::At(102), slow(FIRST, LOCK, 4, 4))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k 1").await);
                until(client, 1_000).await;
                notes.note(client, ask(client, "GET k").await);
            })
        });
        assert_eq!(
            seen.notes_of(FIRST),
            [format!("{}: OK", 110 + delay), "1010: 1".into()]
        );
    }
}

mod a_lossy_network {
    use super::*;

    /// What the only client sees and the server does under losses of every transmission from one
    /// time to another, when it sends a request at 150 ms.
    fn asks_at_150(from: u64, until_: u64) -> (Vec<String>, Vec<String>) {
        let faults = [(When::At(from), loss(FIRST, LOCK, 100, until_ - from))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 150).await;
                notes.note(client, ask(client, "SET k 1").await);
            })
        });
        (seen.notes_of(FIRST), seen.executed_of(FIRST)[1..].to_vec())
    }

    #[test]
    fn sends_again_after_200_ms_and_twice_as_long_each_time() {
        // At 150, 350, 750, 1 550.
        for (until, executed) in [(150, 155), (151, 355), (350, 355), (351, 755), (750, 755)] {
            let (notes, commands) = asks_at_150(100, until);
            assert_eq!(commands, [format!("{executed}: set")]);
            assert_eq!(notes, [format!("{}: OK", executed + 5)]);
        }
        let (notes, commands) = asks_at_150(100, 751);
        assert_eq!(commands, ["1555: set"]);
        assert_eq!(notes, ["1150: timed out"]);
    }

    #[test]
    fn loses_answers_too() {
        // The request is on its way when it begins; the answer leaves at 155 and 355.
        let (notes, commands) = asks_at_150(152, 300);
        assert_eq!(commands, ["155: set"]);
        assert_eq!(notes, ["360: OK"]);
    }

    #[test]
    fn makes_what_follows_wait_for_what_is_sent_again() {
        let faults = [(When::At(100), loss(FIRST, LOCK, 100, 300))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 150).await;
                let late = async move {
                    until(client, 500).await;
                    ask(client, "INCR k").await
                };
                let key = format!("SET k {}", client.number());
                let (set, incremented) = futures_util::future::join(ask(client, &key), late).await;
                notes.note(client, format!("{set} {incremented}"));
            })
        });
        // Sent at 150, 350, 750: until 755 nothing behind it arrives.
        assert_eq!(seen.executed_of(FIRST)[1..], ["755: set", "755: incr"]);
        assert_eq!(seen.notes_of(FIRST), ["760: OK 2"]);
        assert_eq!(seen.executed_of(SECOND)[1..], ["155: set", "505: incr"]);
    }

    #[test]
    fn opens_a_connection_at_the_second_attempt_a_second_later() {
        let faults = [(When::At(100), loss(FIRST, NodeId::Store, 100, 500))];
        let mut setup = world(1, 1, &faults);
        setup.store_timeout = 5_000;
        let seen = play(setup, |client, notes| {
            Box::pin(async move {
                until(client, 150).await;
                notes.note(client, told(client.store(&read(1)).await));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1170: row 0"]);
    }
}

mod a_thread_death {
    use super::*;

    #[test]
    fn leaves_the_process_what_runs_beside_and_what_is_open() {
        let faults = [(at_point(Point::AfterRead), thread_death(FIRST))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                if client.number() == 1 {
                    let renewer = {
                        let notes = notes.clone();
                        client.spawn(async move {
                            until(client, 300).await;
                            notes.note(client, ask(client, "SET k 1").await);
                        })
                    };
                    until(client, 100).await;
                    client.point(Point::AfterRead, 1).await;
                    notes.note(client, "goes on");
                    drop(renewer);
                } else {
                    until(client, 400).await;
                    notes.note(client, ask(client, "GET k").await);
                }
            })
        });
        assert_eq!(seen.times(|_, what| *what == What::ThreadDied), [100]);
        assert_eq!(seen.notes_of(FIRST), ["310: OK"]);
        // The same connection.
        assert_eq!(seen.executed_of(FIRST)[1..], ["305: set"]);
        assert_eq!(seen.notes_of(SECOND), ["410: 1"]);
    }

    #[test]
    fn is_over_when_the_process_starts_again() {
        let again = Fault::Restart {
            nodes: vec![FIRST],
            after: 50,
            data: Data::Kept,
        };
        let faults = [(When::At(100), thread_death(FIRST)), (When::At(200), again)];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(150).await;
                notes.note(client, "goes on");
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["400: goes on"]);
    }

    #[test]
    fn is_none_where_no_thread_works() {
        let faults = [
            (When::At(200), thread_death(FIRST)),
            (When::At(300), thread_death(LOCK)),
        ];
        // The program has come to its end by then, and a server has no thread of its own.
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(until(client, 100))
        });
        assert_eq!(seen.times(|_, what| *what == What::ThreadDied), [0; 0]);
    }
}

mod a_power_loss {
    use super::*;

    #[test]
    fn of_a_client_lets_arrive_what_has_left_it() {
        let faults = [(at_point(Point::AcquireSent), power_loss(FIRST))];
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

    /// How many writes the store accepts of a client that has written twice as much as the store's
    /// window takes, while the store stood still, when something happens to it.
    fn writes_accepted(fault: Fault) -> usize {
        let faults = [
            (When::At(100), pause(NodeId::Store, 2_900)),
            (When::At(1_500), fault),
        ];
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 200).await;
                for value in [1, 2] {
                    let mut long = write(1, value);
                    long.token = "t".repeat(40_000);
                    let _ = client.store(&long).await;
                }
            })
        });
        let accepted = |what: &What| matches!(what, What::Write { accepted: true, .. });
        seen.times(|_, what| accepted(what)).len()
    }

    #[test]
    fn of_a_client_loses_what_its_kernel_had_not_sent_yet() {
        assert_eq!(writes_accepted(pause(FIRST, 1)), 2);
        assert_eq!(writes_accepted(power_loss(FIRST)), 1);
    }

    #[test]
    fn of_a_server_is_silence_for_those_who_are_connected_and_for_those_who_are_not() {
        let faults = [(When::At(102), power_loss(LOCK))];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                if client.number() == 1 {
                    connect(client).await;
                }
                until(client, 100).await;
                for _ in 0..2 {
                    notes.note(client, ask(client, "SET k v").await);
                }
            })
        });
        // The request of 100 ms was on its way.
        let timed_out = ["1100: timed out", "2100: timed out"];
        assert_eq!(seen.notes_of(FIRST), timed_out);
        assert_eq!(seen.notes_of(SECOND), timed_out);
        assert_eq!(seen.executed_of(FIRST).len(), 1);
        assert_eq!(seen.executed_of(SECOND), [""; 0]);
    }

    #[test]
    fn of_a_server_is_silence_also_while_an_answer_of_it_is_held() {
        let faults = [
            (When::At(50), one_way(LOCK, FIRST, 3_000)),
            (When::At(102), power_loss(LOCK)),
        ];
        let seen = play(world(2, 1, &faults), |client, notes| {
            Box::pin(async move {
                if client.number() == 1 {
                    connect(client).await;
                    until(client, 60).await;
                } else {
                    until(client, 100).await;
                }
                notes.note(client, ask(client, "SET k v").await);
            })
        });
        // The second one's first segment is on its way when the power goes.
        assert_eq!(seen.notes_of(FIRST), ["1060: timed out"]);
        assert_eq!(seen.notes_of(SECOND), ["1100: timed out"]);
    }

    #[test]
    fn of_a_server_lets_its_last_answers_arrive() {
        let faults = [(When::At(107), power_loss(LOCK))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                notes.note(client, ask(client, "SET k v").await);
                notes.note(client, ask(client, "GET k").await);
            })
        });
        assert_eq!(seen.executed_of(FIRST)[1..], ["105: set"]);
        assert_eq!(seen.notes_of(FIRST), ["110: OK", "1110: timed out"]);
    }

    #[test]
    fn of_the_store_times_its_requests_out() {
        let faults = [(When::At(102), power_loss(NodeId::Store))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.store(&read(1)).await.unwrap();
                until(client, 100).await;
                notes.note(client, told(client.store(&read(1)).await));
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["1100: timed out"]);
    }

    #[test]
    fn ends_a_pause_and_a_suspend() {
        let faults = [
            (When::At(100), pause(FIRST, 500)),
            (When::At(150), suspend(FIRST, 500)),
            (When::At(200), power_loss(FIRST)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                client.sleep(300).await;
                notes.note(client, "awake");
            })
        });
        assert_eq!(seen.notes_of(FIRST), [""; 0]);
        assert!(seen.times(|_, what| *what == What::Resumed).is_empty());
        assert_eq!(seen.history.ended, 650);
    }

    #[test]
    fn is_over_with_a_restart_which_knows_no_old_connection() {
        let restart = Fault::Restart {
            nodes: vec![LOCK],
            after: 500,
            data: Data::Kept,
        };
        let faults = [(When::At(150), power_loss(LOCK)), (When::At(500), restart)];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                connect(client).await;
                until(client, 100).await;
                assert_eq!(ask(client, "SET k v").await, "OK");
                until(client, 200).await;
                for _ in 0..3 {
                    notes.note(client, ask(client, "GET k").await);
                }
            })
        });
        assert_eq!(
            seen.times(|node, what| node == LOCK && *what == What::Started),
            [0, 1_000]
        );
        let notes = seen.notes_of(FIRST);
        assert_eq!(notes[..2], ["1200: timed out", "1210: dropped"]);
        assert!(notes[2].ends_with(": v"), "{notes:?}");
    }

    #[test]
    fn of_a_machine_whose_process_is_dead_silences_it() {
        let faults = [
            (When::At(100), crash(NodeId::Store)),
            (When::At(300), power_loss(NodeId::Store)),
        ];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                for at in [200, 400] {
                    until(client, at).await;
                    notes.note(client, told(client.store(&read(1)).await));
                }
            })
        });
        assert_eq!(
            seen.notes_of(FIRST),
            ["210: disconnected", "1400: timed out"]
        );
        assert_eq!(seen.times(|_, what| *what == What::Crashed), [100]);
    }
}

mod keys_that_are_taken_away {
    use super::*;

    /// Both ways: by an operator's FLUSHALL, and by memory pressure.
    fn both_ways() -> [(Fault, What); 2] {
        [(flush(LOCK), What::Flushed), (evict(LOCK), What::Evicted)]
    }

    #[test]
    fn are_gone_at_once_and_by_nobodys_command_and_connections_live_on() {
        for (fault, what) in both_ways() {
            let seen = play(world(1, 2, &[(When::At(500), fault)]), |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 100).await;
                    for set in ["SET j v", "SET k v PX 9000"] {
                        assert_eq!(ask(client, set).await, "OK");
                    }
                    assert_eq!(ask_server(client, 1, "SET j v").await, "OK");
                    until(client, 600).await;
                    notes.note(client, ask(client, "GET j").await);
                    notes.note(client, ask(client, "SET k w NX").await);
                    notes.note(client, ask_server(client, 1, "GET j").await);
                })
            });
            assert_eq!(seen.notes_of(FIRST), ["610: nil", "620: OK", "630: v"]);
            assert_eq!(
                seen.times(|node, told| node == LOCK && *told == what),
                [500]
            );
            let taken = seen
                .history
                .events
                .iter()
                .filter_map(|event| match &event.what {
                    What::Changed {
                        by,
                        key,
                        after: None,
                        ..
                    } => Some((event.at, event.node, *by, key.as_str())),
                    _ => None,
                });
            let expected = [(500, LOCK, None, "j"), (500, LOCK, None, "k")];
            assert_eq!(taken.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn of_a_server_that_stands_still_go_when_it_goes_on_in_the_order_of_arrival() {
        for (fault, what) in both_ways() {
            let faults = [(When::At(400), pause(LOCK, 500)), (When::At(500), fault)];
            let seen = play(world(1, 1, &faults), |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 100).await;
                    assert_eq!(ask(client, "SET k 1").await, "OK");
                    until(client, 450).await;
                    notes.note(client, ask(client, "INCR k").await);
                    notes.note(client, ask(client, "INCR k").await);
                })
            });
            assert_eq!(seen.times(|_, told| *told == what), [900]);
            assert_eq!(seen.notes_of(FIRST), ["905: 2", "915: 1"]);
        }
    }

    #[test]
    fn are_not_if_the_server_is_down() {
        for (fault, what) in both_ways() {
            let restart = Fault::Restart {
                nodes: vec![LOCK],
                after: 300,
                data: Data::Kept,
            };
            let faults = [(When::At(400), restart), (When::At(500), fault)];
            let seen = play(world(1, 1, &faults), |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    until(client, 100).await;
                    assert_eq!(ask(client, "SET k v").await, "OK");
                    until(client, 800).await;
                    notes.note(client, ask(client, "GET k").await);
                })
            });
            assert!(seen.times(|_, told| *told == what).is_empty());
            assert_eq!(seen.notes[0].2, "v");
        }
    }
}
