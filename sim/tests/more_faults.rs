//! What clients and servers see of faults, continued: clocks, suspended machines, one-way and
//! lossy networks, and servers that are emptied.
//!
//! As in `faults.rs`, segments take 5 ms each, so a request that is sent at 100 ms is executed at
//! 105 and answered at 110.

mod watch;

use sim::fault::{Data, Fault, When};
use sim::history::What;
use sim::{Client, EPOCH};
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
