//! What the engine promises whatever goes wrong: time, order, determinism, ends and failures.

mod watch;

use std::thread;

use sim::engine::{ALL, Engine, Event};
use sim::fault::{Data, Fault, Point, When};
use sim::history::What;
use sim::trace::traced;
use sim::{History, NodeId, Setup};
use watch::*;

/// A world in which a bit of everything happens, with real delays.
fn busy(seed: u64) -> Setup {
    let restart = Fault::Restart {
        nodes: vec![NodeId::Lock(2)],
        after: 700,
        data: Data::Lost,
    };
    let faults = [
        (When::At(700), pause(FIRST, 900)),
        (When::At(900), hold(SECOND, LOCK, 800)),
        (When::At(1_500), restart),
        (When::At(2_000), drop_replies(FIRST, NodeId::Store, 1_200)),
        (When::At(2_500), clock_step(LOCK, 400)),
        (When::At(3_000), reset(SECOND, NodeId::Store)),
        (At(Point::AcquireSent, 9).when(), crash(SECOND)),
    ];
    Setup {
        seed,
        latency: 1..=40,
        ..world(3, 2, &faults)
    }
}

/// The `nth` time that client-2 is at a point.
struct At(Point, u32);

impl At {
    fn when(self) -> When {
        When::Point {
            client: SECOND,
            point: self.0,
            nth: self.1,
        }
    }
}

fn play_busy(engine: &dyn Engine, setup: &Setup) -> History {
    let history = engine.run(setup, &|client| {
        Box::pin(async move {
            for section in 1..=15 {
                client.begin_attempt(section);
                let set = format!("SET k {} NX PX 300", client.token());
                let asked = [0, 1].map(|server| ask_server(client, server, &set));
                futures_util::future::join_all(asked).await;
                client.end_attempt();
                client.point(Point::Granted, section).await;
                let _ = client.store(&write(1, i64::from(section))).await;
                client.sleep(client.draw(&(50..=250))).await;
            }
        })
    });
    history.unwrap_or_else(|failed| panic!("{failed} on {} in {setup:?}", engine.name()))
}

/// The first event in which two plays differ, in words.
fn difference(engine: &dyn Engine, setup: &Setup) -> String {
    let [one, other] = [(); 2].map(|()| traced(|| play_busy(engine, setup)).1);
    let mut pairs = one.iter().zip(&other);
    let differs = pairs.find(|(one, other)| one != other);
    let differs = differs.map(|(one, other)| format!("{one}\n{other}"));
    let name = engine.name();
    format!("on {name}, {setup:?}\n{}", differs.unwrap_or_default())
}

mod the_same_setup_and_program {
    use super::*;

    #[test]
    fn give_the_same_history_twice_and_after_other_runs() {
        for engine in ALL {
            let first = play_busy(*engine, &busy(1));
            assert!(first.events.len() > 200, "{} events", first.events.len());
            for other in 2..5 {
                play_busy(*engine, &busy(other));
            }
            let again = play_busy(*engine, &busy(1));
            assert!(again == first, "{}", difference(*engine, &busy(1)));
        }
    }

    #[test]
    fn give_the_same_history_in_other_threads_at_the_same_time() {
        for engine in ALL {
            let histories: Vec<Vec<History>> = thread::scope(|scope| {
                let play = |order: [u64; 3]| {
                    scope.spawn(move || {
                        let played = |seed| (seed, play_busy(*engine, &busy(seed)));
                        let mut histories = order.map(played);
                        histories.sort_by_key(|(seed, _)| *seed);
                        histories.map(|(_, history)| history).into()
                    })
                };
                let threads = [[1, 2, 3], [3, 1, 2], [2, 3, 1]].map(play);
                threads.map(|thread| thread.join().unwrap()).into()
            });
            let here = play_busy(*engine, &busy(1));
            let same = histories[0] == histories[1] && histories[1] == histories[2];
            assert!(
                same && histories[0][0] == here,
                "{}",
                difference(*engine, &busy(1))
            );
        }
    }

    #[test]
    fn give_the_same_history_after_a_failed_run() {
        for engine in ALL {
            let before = play_busy(*engine, &busy(1));
            let failed = engine.run(&busy(1), &|client| {
                Box::pin(async move {
                    let asked = [0, 1].map(|server| ask_server(client, server, "PING"));
                    let answers = futures_util::future::join_all(asked).await;
                    panic!("after {answers:?}");
                })
            });
            assert!(failed.is_err());
            let after = play_busy(*engine, &busy(1));
            assert!(after == before, "{}", difference(*engine, &busy(1)));
        }
    }

    /// On both engines, what is below the history has a part in the fingerprint.
    #[test]
    fn are_traced_below_the_history() {
        for engine in ALL {
            let (history, trace) = traced(|| play_busy(*engine, &busy(1)));
            assert_eq!(trace.len() as u64, history.fingerprint.events);
            let plain = play_busy(*engine, &busy(1)).fingerprint;
            assert_eq!(plain, history.fingerprint, "tracing changes nothing");
            let count = |kind| trace.iter().filter(|event| event.kind == kind).count();
            for kind in ["polled", "timer", "sent", "arrived"] {
                assert!(
                    count(kind) > 50,
                    "{}: {kind} {}",
                    engine.name(),
                    count(kind)
                );
            }
            assert_eq!(count("ended"), 1);
            assert!(trace.is_sorted_by_key(|event| event.at));
        }
    }

    #[test]
    fn give_another_history_under_another_seed() {
        for engine in ALL {
            assert!(play_busy(*engine, &busy(1)) != play_busy(*engine, &busy(2)));
        }
    }
}

mod a_panic {
    use super::*;

    #[test]
    fn in_a_program_fails_the_run_and_spoils_no_other() {
        let failed = Event.run(&world(2, 1, &[]), &|client| {
            Box::pin(async move {
                connect(client).await;
                assert_eq!(client.number(), 1, "only client-1 is right");
            })
        });
        let panic = failed.unwrap_err().panic;
        assert!(panic.contains("only client-1 is right"), "{panic}");
        let seen = play(world(1, 1, &[]), |client, notes| {
            Box::pin(async move { notes.note(client, ask(client, "PING").await) })
        });
        assert_eq!(seen.notes[0].2, "PONG");
    }

    #[test]
    fn in_a_background_task_fails_the_run() {
        let failed = Event.run(&world(1, 1, &[]), &|client| {
            Box::pin(async move {
                let task = client.spawn(async move {
                    client.sleep(10).await;
                    panic!("in the background");
                });
                client.sleep(100).await;
                drop(task);
            })
        });
        assert_eq!(failed.unwrap_err().panic, "in the background");
    }

    #[test]
    fn while_a_program_is_made_fails_the_run_and_spoils_no_other() {
        let failed = Event.run(&world(2, 1, &[]), &|client| {
            assert_eq!(client.number(), 1, "no program for {}", client.node());
            Box::pin(async move { connect(client).await })
        });
        let panic = failed.unwrap_err().panic;
        assert!(panic.contains("no program for client-2"), "{panic}");
        let seen = play(world(1, 1, &[]), |client, notes| {
            Box::pin(async move { notes.note(client, ask(client, "PING").await) })
        });
        assert_eq!(seen.notes[0].2, "PONG");
    }
}

mod a_run_ends {
    use super::*;

    #[test]
    fn when_the_last_client_is_done() {
        let seen = play(world(3, 1, &[]), |client, _| {
            Box::pin(async move { client.sleep(100 * u64::from(client.number())).await })
        });
        assert_eq!(seen.history.ended, 300);
    }

    #[test]
    fn when_the_last_fault_is_over() {
        let faults = [(When::At(5_000), pause(LOCK, 1_000))];
        let seen = play(world(1, 1, &faults), |_, _| Box::pin(async {}));
        assert_eq!(seen.history.ended, 6_000);
    }

    #[test]
    fn without_waiting_for_a_dead_client_or_for_a_point_that_nobody_reaches() {
        let faults = [
            (When::At(500), crash(FIRST)),
            (at_point(Point::Granted), pause(FIRST, 9_000)),
        ];
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(async move { client.sleep(u64::MAX).await })
        });
        assert_eq!(seen.history.ended, 500);
    }

    #[test]
    fn at_its_end_if_a_client_never_is_done() {
        let seen = play(world(1, 1, &[]), |client, notes| {
            Box::pin(async move {
                client.sleep(60_000).await;
                notes.note(client, "still there");
                client.sleep(1).await;
                notes.note(client, "too late");
            })
        });
        assert_eq!(seen.notes_of(FIRST), ["60000: still there"]);
        assert_eq!(seen.history.ended, 60_000);
    }

    #[test]
    fn though_a_background_task_goes_on() {
        let seen = play(world(1, 1, &[]), |client, _| {
            Box::pin(async move {
                let task = client.spawn(async move { client.sleep(u64::MAX).await });
                client.sleep(10).await;
                std::mem::forget(task);
            })
        });
        assert_eq!(seen.history.ended, 10);
    }
}

mod a_time_out {
    use super::*;

    #[test]
    fn is_beaten_by_what_comes_in_the_same_millisecond() {
        let seen = play(world(1, 1, &[]), |client, notes| {
            Box::pin(async move {
                let inside = client.timeout(100, client.sleep(100)).await;
                notes.note(client, format!("{inside:?}"));
                let inside = client.timeout(100, client.sleep(101)).await;
                notes.note(client, format!("{inside:?}"));
                let inside = client.timeout(0, async {}).await;
                notes.note(client, format!("{inside:?}"));
            })
        });
        assert_eq!(
            seen.notes_of(FIRST),
            ["100: Ok(())", "200: Err(Elapsed)", "200: Ok(())"]
        );
    }

    #[test]
    fn of_redis_spans_connecting_and_keeps_the_connection() {
        let faults = [(When::At(1_000), pause(LOCK, 1_500))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                assert_eq!(ask(client, "CLIENT ID").await, "1");
                until(client, 1_200).await;
                notes.note(client, ask(client, "INCR k").await);
                notes.note(client, ask(client, "INCR k").await);
                notes.note(client, ask(client, "CLIENT ID").await);
            })
        });
        // The second answer is 2: the first request was executed, and its late answer went
        // to nobody else.
        assert_eq!(
            seen.notes_of(FIRST),
            ["2200: timed out", "2505: 2", "2515: 1"]
        );
    }

    #[test]
    fn of_the_store_keeps_the_connection_and_passes_the_late_answer_over() {
        let faults = [(When::At(1_000), pause(NodeId::Store, 1_500))];
        let seen = play(world(1, 1, &faults), |client, notes| {
            Box::pin(async move {
                notes.note(client, told(client.store(&read(1)).await));
                until(client, 1_200).await;
                notes.note(client, told(client.store(&read(1)).await));
                notes.note(client, told(client.store(&write(1, 5)).await));
                notes.note(client, told(client.store(&read(1)).await));
            })
        });
        // Connecting takes a round trip of 10 ms; only the first request needs it.
        assert_eq!(
            seen.notes_of(FIRST),
            [
                "20: row 0",
                "2200: timed out",
                "2505: accepted",
                "2515: row 5"
            ]
        );
    }
}

mod a_link {
    use super::*;

    #[test]
    fn takes_as_long_as_the_setup_says() {
        for engine in ALL {
            takes_as_long_on(*engine);
        }
    }

    fn takes_as_long_on(engine: &dyn Engine) {
        let (mut shortest, mut longest) = (u64::MAX, 0);
        for seed in 0..20 {
            let setup = Setup {
                seed,
                latency: 3..=9,
                ..world(1, 1, &[])
            };
            let seen = play_on(engine, setup, |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    for _ in 0..20 {
                        let sent = client.now();
                        ask(client, "PING").await;
                        notes.note(client, (client.now() - sent).to_string());
                    }
                })
            });
            for (_, _, took) in &seen.notes {
                let took: u64 = took.parse().unwrap();
                assert!((6..=18).contains(&took), "{took} ms");
                (shortest, longest) = (shortest.min(took), longest.max(took));
            }
        }
        assert!(shortest <= 7 && longest >= 17, "{shortest} to {longest} ms");
    }

    #[test]
    fn never_lets_a_request_overtake_another() {
        for (engine, seed) in ALL
            .iter()
            .flat_map(|engine| (0..20).map(move |seed| (engine, seed)))
        {
            let setup = Setup {
                seed,
                latency: 1..=200,
                ..world(1, 1, &[])
            };
            let seen = play_on(*engine, setup, |client, notes| {
                Box::pin(async move {
                    connect(client).await;
                    let asked = (0..20).map(|nth| {
                        let notes = notes.clone();
                        async move {
                            client.sleep(nth).await;
                            let answer = ask(client, "INCR k").await;
                            notes.note(client, format!("{} {answer}", nth + 1));
                        }
                    });
                    futures_util::future::join_all(asked).await;
                })
            });
            assert_eq!(seen.notes.len(), 20);
            for (_, _, note) in &seen.notes {
                let (sent, executed) = note.split_once(' ').unwrap();
                assert_eq!(sent, executed);
            }
        }
    }
}

#[test]
fn two_servers_know_nothing_of_each_other() {
    let faults = [(When::At(500), crash(NodeId::Lock(2)))];
    let seen = play(world(1, 2, &faults), |client, notes| {
        Box::pin(async move {
            ask_server(client, 0, "SET k one").await;
            notes.note(client, ask_server(client, 1, "GET k").await);
            ask_server(client, 1, "SET k two").await;
            until(client, 1_000).await;
            notes.note(client, ask_server(client, 0, "GET k").await);
            assert_ne!(ask_server(client, 1, "GET k").await, "two");
        })
    });
    let answers: Vec<_> = seen.notes.iter().map(|note| note.2.as_str()).collect();
    assert_eq!(answers, ["nil", "one"]);
}

mod acquire_sent {
    use super::*;

    #[test]
    fn is_reached_when_the_request_has_left_and_not_by_what_connecting_sends() {
        let seen = play(world(1, 1, &[]), |client, _| {
            Box::pin(async move {
                for section in 1..=3 {
                    client.begin_attempt(section);
                    ask(client, "SET k v NX").await;
                    ask(client, "PEXPIRE k 100").await;
                    client.end_attempt();
                    ask(client, "DEL k").await;
                }
            })
        });
        let set = |_, what: &What| matches!(what, What::Executed { command: "set", .. });
        let executed: Vec<_> = seen.times(set);
        let left: Vec<_> = executed.iter().map(|at| at - 5).collect();
        assert_eq!(left.len(), 3);
        assert_eq!(seen.reached(FIRST, Point::AcquireSent), left);
        // Connecting came before the first.
        let hello = |_, what: &What| {
            matches!(
                what,
                What::Executed {
                    command: "hello",
                    ..
                }
            )
        };
        assert!(seen.times(hello)[0] < left[0]);
    }

    #[test]
    fn waits_for_the_last_of_several_servers() {
        let faults = [(When::At(0), hold(FIRST, NodeId::Lock(3), 200))];
        let seen = play(world(1, 3, &faults), |client, _| {
            Box::pin(async move {
                client.begin_attempt(1);
                let asked = [0, 1, 2].map(|server| ask_server(client, server, "SET k v NX"));
                futures_util::future::join_all(asked).await;
                client.end_attempt();
            })
        });
        let last = seen.times(|node, what| {
            node == NodeId::Lock(3) && matches!(what, What::Executed { command: "set", .. })
        });
        assert_eq!(seen.reached(FIRST, Point::AcquireSent), [last[0] - 5]);
    }

    #[test]
    fn waits_no_longer_for_a_server_that_cannot_be_reached() {
        let faults = [(When::At(0), hold(FIRST, NodeId::Lock(2), 5_000))];
        let seen = play(world(1, 2, &faults), |client, _| {
            Box::pin(async move {
                client.begin_attempt(1);
                let asked = [0, 1]
                    .map(|server| client.timeout(300, ask_server(client, server, "SET k v NX")));
                futures_util::future::join_all(asked).await;
                client.end_attempt();
            })
        });
        assert_eq!(seen.reached(FIRST, Point::AcquireSent), [300]);
    }

    #[test]
    fn is_not_reached_by_an_attempt_of_which_nothing_left() {
        let faults = [(When::At(0), crash(LOCK))];
        let seen = play(world(1, 1, &faults), |client, _| {
            Box::pin(async move {
                client.begin_attempt(1);
                assert_ne!(ask(client, "SET k v NX").await, "OK");
                client.end_attempt();
            })
        });
        assert!(seen.reached(FIRST, Point::AcquireSent).is_empty());
    }

    #[test]
    fn is_not_reached_because_the_client_dies() {
        let faults = [
            (When::At(0), hold(FIRST, NodeId::Lock(2), 5_000)),
            (When::At(500), crash(FIRST)),
            (at_point(Point::AcquireSent), clock_step(LOCK, 1)),
        ];
        let seen = play(world(1, 2, &faults), |client, _| {
            Box::pin(async move {
                client.begin_attempt(1);
                let asked = [0, 1].map(|server| ask_server(client, server, "SET k v NX"));
                futures_util::future::join_all(asked).await;
            })
        });
        assert!(seen.reached(FIRST, Point::AcquireSent).is_empty());
        assert!(
            seen.times(|_, what| matches!(what, What::ClockStepped { .. }))
                .is_empty()
        );
    }
}

#[test]
fn a_command_that_the_simulated_redis_lacks_fails_the_run_instead_of_being_judged() {
    for (command, named) in [
        (vec!["XADD", "k", "*", "f", "v"], "XADD"),
        (vec!["CLIENT", "KILL", "ID", "7"], "CLIENT"),
        (
            vec!["EVAL", "return redis.call('XLEN', 'k')", "0"],
            "Unknown Redis command",
        ),
    ] {
        let failed = Event.run(&world(1, 1, &[]), &|client| {
            let command = command.clone();
            Box::pin(async move {
                let mut sent = redis::cmd(command[0]);
                command[1..].iter().for_each(|word| {
                    sent.arg(*word);
                });
                let _: redis::RedisResult<redis::Value> =
                    sent.query_async(&mut client.redis(0)).await;
            })
        });
        let panic = failed.expect_err("such a run must not be judged").panic;
        assert!(panic.contains("the simulated Redis cannot play"), "{panic}");
        assert!(panic.contains(named), "{panic}");
    }
}

#[test]
fn messages_larger_than_every_buffer_get_through_both_ways_also_after_a_pause() {
    let value = "x".repeat(300_000);
    let faults = [(When::At(50), pause(NodeId::Lock(1), 200))];
    let history = Event.run(&world(1, 1, &faults), &|client| {
        let value = value.clone();
        Box::pin(async move {
            let mut redis = client.redis(0);
            for round in 0..3 {
                let key = format!("k{round}");
                let set = redis::cmd("SET").arg(&key).arg(&value).to_owned();
                let _: () = set
                    .query_async(&mut redis)
                    .await
                    .expect("an answer in time");
                let get = redis::cmd("GET").arg(&key).to_owned();
                let got: String = get
                    .query_async(&mut redis)
                    .await
                    .expect("an answer in time");
                assert!(got == value, "{} bytes came back", got.len());
            }
        })
    });
    history.expect("the run works");
}

#[test]
fn what_is_sent_shortly_before_the_end_still_arrives() {
    let setup = Setup {
        ends: 1_000,
        ..world(1, 1, &[])
    };
    let history = Event.run(&setup, &|client| {
        Box::pin(async move {
            // Its time-out lies behind the end of the run, its arrival does not.
            client.sleep(500).await;
            let ping = redis::cmd("PING");
            let _: redis::RedisResult<String> = ping.query_async(&mut client.redis(0)).await;
            client.sleep(400).await;
            let echo = redis::cmd("ECHO").arg("late").to_owned();
            let _: redis::RedisResult<String> = echo.query_async(&mut client.redis(0)).await;
            client.sleep(10_000).await;
        })
    });
    let history = history.expect("the run works");
    let echoed = |event: &sim::history::Event| {
        matches!(
            event.what,
            What::Executed {
                command: "echo",
                ..
            }
        )
    };
    assert!(history.events.iter().any(echoed), "{history:?}");
}
