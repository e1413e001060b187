//! Whatever goes wrong, and in whatever order: afterwards everything works again, and nothing
//! that was executed was executed twice or out of order.

mod watch;

use std::collections::BTreeMap;

use sim::engine::{ALL, Engine, Event};
use sim::fault::{Data, Fault, When};
use sim::history::What;
use sim::{Lane, Millis, NodeId, Purpose, Setup};
use watch::*;

/// Faults strike before this time.
const TROUBLE: Millis = 10_000;
/// And are over before this one, time-outs included.
const QUIET: Millis = 16_000;
const END: Millis = 20_000;

/// A world with ten faults at random. No client dies for good, and no server does.
fn troubled(seed: u64) -> Setup {
    let mut lane = Lane::new(seed, Purpose::Faults, 0);
    let mut draw = |low, high| lane.within(&(low..=high));
    let mut faults = Vec::new();
    for _ in 0..10 {
        let client = NodeId::Client(draw(1, 2) as u16);
        let server = match draw(1, 3) {
            3 => NodeId::Store,
            number => NodeId::Lock(number as u16),
        };
        let either = if draw(0, 1) == 0 { client } else { server };
        let (kind, lasts) = (draw(0, 9), draw(1, 3_000));
        let fault = match kind {
            0 => pause(either, lasts),
            1 => Fault::Restart {
                nodes: vec![either],
                after: lasts,
                data: [Data::Kept, Data::Lost][draw(0, 1) as usize],
            },
            2 => hold(client, server, lasts),
            3 => reset(client, server),
            4 => drop_replies(client, server, lasts),
            5 if draw(0, 1) == 0 => one_way(client, server, lasts),
            5 => one_way(server, client, lasts),
            6 => refuse(client, server, lasts),
            7 => slow(client, server, draw(1, 5), lasts),
            // What is lost last is sent again after as long as it has lasted.
            8 => loss(client, server, draw(1, 60) as u32, lasts / 2),
            _ => clock_step(either, lasts as i64 - 1_500),
        };
        // Half of them meet in few milliseconds.
        let crowded = [(0, TROUBLE), (5_000, 5_020)][draw(0, 1) as usize];
        faults.push((When::At(draw(crowded.0, crowded.1)), fault));
    }
    Setup {
        seed,
        latency: 1..=8,
        ends: END + 5_000,
        ..world(2, 2, &faults)
    }
}

/// Both clients talk to everybody all the time, and note whom they reach once it is quiet.
fn play_troubled(engine: &dyn Engine, seed: u64) -> Watched {
    play_on(engine, troubled(seed), |client, notes| {
        Box::pin(async move {
            let me = client.number();
            let to_servers = [0, 1].map(|server| {
                let notes = notes.clone();
                async move {
                    let mut count = 0;
                    while client.now() < END {
                        count += 1;
                        let (asked, command) = (client.now(), format!("SET from:{me} {count}"));
                        let answer = ask_server(client, server, &command).await;
                        if asked >= QUIET {
                            notes.note(client, format!("lock-{}: {answer}", server + 1));
                        }
                        client.sleep(client.draw(&(0..=60))).await;
                    }
                }
            });
            let to_store = async {
                let mut count = 0;
                while client.now() < END {
                    count += 1;
                    let asked = client.now();
                    let answer = client.store(&write(me.into(), count)).await;
                    if asked >= QUIET {
                        notes.note(client, format!("store: {}", told(answer)));
                    }
                    client.sleep(client.draw(&(0..=60))).await;
                }
            };
            let servers = futures_util::future::join_all(to_servers);
            futures_util::future::join(servers, to_store).await;
        })
    })
}

/// The first seeds on every engine; fewer where a world takes long.
fn worlds(seeds: u64) -> impl Iterator<Item = (&'static dyn Engine, u64)> {
    ALL.iter().flat_map(move |engine| {
        let costly = engine.name() != Event.name();
        let seeds = if costly { seeds / 8 } else { seeds };
        (0..seeds).map(move |seed| (*engine, seed))
    })
}

#[test]
fn everything_works_again_when_the_trouble_is_over() {
    for (engine, seed) in worlds(80) {
        let seen = play_troubled(engine, seed);
        let mut answers = BTreeMap::new();
        for (_, client, note) in &seen.notes {
            *answers.entry((*client, note.as_str())).or_insert(0) += 1;
        }
        let good = ["lock-1: OK", "lock-2: OK", "store: accepted"];
        let bad: Vec<_> = answers
            .keys()
            .filter(|key| !good.contains(&key.1))
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
        assert_eq!(answers.len(), 2 * good.len(), "{answers:?}");
        assert!(answers.values().all(|count| *count > 20), "{answers:?}");
    }
}

#[test]
fn nothing_is_executed_twice_or_out_of_order() {
    for (engine, seed) in worlds(40) {
        let seen = play_troubled(engine, seed);
        let mut last = BTreeMap::new();
        let (mut started, mut sequence) = (BTreeMap::new(), 0);
        for event in &seen.history.events {
            let (by, count) = match &event.what {
                What::Started => {
                    *started.entry(event.node).or_insert(0) += 1;
                    continue;
                }
                What::Write {
                    by,
                    value,
                    sequence: number,
                    ..
                } => {
                    assert_eq!(*number, sequence + 1);
                    sequence = *number;
                    (*by, *value)
                }
                What::Changed {
                    by: Some(by),
                    after: Some(after),
                    ..
                } => (*by, after.value.parse().unwrap()),
                _ => continue,
            };
            // A client that started again counts from one again, but what it had sent before
            // may still arrive: only within one life there is an order.
            if troubled(seed).plan.0.iter().any(|planned| {
                matches!(&planned.fault, Fault::Restart { nodes, .. } if nodes.contains(&by))
            }) {
                continue;
            }
            let before = last.insert((event.node, by), count).unwrap_or(0);
            assert!(before < count, "{} got {count} after {before}", event.node);
        }
        assert!(started.len() == 5, "{started:?}");
    }
}

#[test]
fn the_same_trouble_gives_the_same_history() {
    for (engine, seed) in worlds(10) {
        let [one, other] = [(); 2].map(|()| play_troubled(engine, seed));
        assert!(one.history == other.history, "seed {seed}");
    }
}
