//! What the event engine costs, layer by layer, and what whole runs cost.
//!
//! `cargo bench --bench engine`. Figures are per element: a timer, a round trip, a command, a
//! run. What they are next to each other and next to peers is in `ratios.rs`.

#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fencepost::algorithms;
use fencepost::sim::engine::{Engine, Event};
use fencepost::sim::fault::Plan;
use fencepost::sim::redis::{Connection, Machine};
use fencepost::sim::{Client, NodeId, Setup, Software, raw};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const COMMANDS: u64 = 1_000;

const COMPARE_AND_DELETE: &str = r#"
    if redis.call("GET", KEYS[1]) == ARGV[1] then
        return redis.call("DEL", KEYS[1])
    end
    return 0
"#;

fn setup(clients: u16) -> Setup {
    Setup {
        seed: 1,
        clients,
        servers: 1,
        deployment: sim::redis::Deployment::default(),
        latency: 1..=5,
        ends: u64::MAX,
        redis_timeout: 1_000,
        store_timeout: 5_000,
        software: Software::Redis,
        store: sim::store::Settings::default(),
        plan: Plan::default(),
    }
}

fn play<F>(clients: u16, program: impl Fn(Client) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let history = Event.run(&setup(clients), &|client| Box::pin(program(client)));
    black_box(history.expect("the testbed works"));
}

/// Back into the ready queue, and through it.
async fn wake() {
    let mut woken = false;
    poll_fn(|context| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The last client answers, the first one asks.
async fn echo(client: Client) {
    let mut message = [0; 16];
    if client.number() == 2 {
        let mut asker = raw::accept(client).await.expect("somebody asks");
        while asker.read_exact(&mut message).await.is_ok() {
            asker.write_all(&message).await.expect("the asker waits");
        }
    } else {
        let mut echo = raw::connect(client, NodeId::Client(2))
            .await
            .expect("it listens");
        for _ in 0..COMMANDS {
            echo.write_all(&message).await.expect("it listens");
            echo.read_exact(&mut message).await.expect("it answers");
        }
    }
}

/// One client's thousand steps, so that setting the world up hardly counts.
fn layers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("layer");
    group.throughput(Throughput::Elements(COMMANDS));
    group.bench_function("wake", |bencher| {
        bencher.iter(|| {
            play(1, |_| async move {
                for _ in 0..COMMANDS {
                    wake().await;
                }
            });
        });
    });
    group.bench_function("timer", |bencher| {
        bencher.iter(|| {
            play(1, |client| async move {
                for _ in 0..COMMANDS {
                    client.sleep(1).await;
                }
            });
        });
    });
    group.bench_function("echo round trip", |bencher| bencher.iter(|| play(2, echo)));
    group.bench_function("command through the redis crate", |bencher| {
        bencher.iter(|| {
            play(1, |client| async move {
                for _ in 0..COMMANDS {
                    let ping = redis::cmd("PING");
                    let pong: String = ping.query_async(&mut client.redis(0)).await.unwrap();
                    black_box(pong);
                }
            });
        });
    });
    group.bench_function("script through the redis crate", |bencher| {
        bencher.iter(|| {
            play(1, |client| async move {
                for _ in 0..COMMANDS {
                    let mut eval = redis::cmd("EVAL");
                    let eval = eval.arg(COMPARE_AND_DELETE).arg(1).arg("lock").arg("me");
                    let gone: u64 = eval.query_async(&mut client.redis(0)).await.unwrap();
                    black_box(gone);
                }
            });
        });
    });
    group.finish();
}

/// The Redis state machine alone, without a network.
fn machine(criterion: &mut Criterion) {
    let request = |words: &[&str]| -> Vec<Bytes> {
        words
            .iter()
            .map(|word| Bytes::copy_from_slice(word.as_bytes()))
            .collect()
    };
    let mut machine = Machine::new();
    let mut connection = Connection::new(1);
    let set = request(&["SET", "lock", "me", "NX", "PX", "30000"]);
    machine.execute(&set, &mut connection, 0);
    let mut group = criterion.benchmark_group("machine");
    group.bench_function("SET NX PX on a held key", |bencher| {
        bencher.iter(|| black_box(machine.execute(&set, &mut connection, 1)));
    });
    let eval = request(&["EVAL", COMPARE_AND_DELETE, "1", "lock", "somebody else"]);
    group.bench_function("EVAL compare and delete, wrong token", |bencher| {
        bencher.iter(|| black_box(machine.execute(&eval, &mut connection, 1)));
    });
    group.finish();
}

/// Whole runs, drawn, played and judged.
fn runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("run");
    group.sample_size(20);
    for (name, scenario) in [
        ("naive", "gc-pause"),
        ("setnx", "crashed-holder"),
        ("redlock", "gc-pause"),
        ("tokened", "herd"),
    ] {
        let algorithm = algorithms::ALL
            .iter()
            .find(|algorithm| algorithm.name() == name);
        let algorithm = algorithm.expect("a known name");
        let loaded = fencepost::scenario(scenario).expect("a known name");
        group.bench_function(format!("{name} {scenario}"), |bencher| {
            let mut seed = 0;
            bencher.iter(|| {
                seed += 1;
                black_box(fencepost::run(*algorithm, &loaded, seed).expect("the testbed works"))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, layers, machine, runs);
criterion_main!(benches);
