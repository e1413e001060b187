//! What must hold on every machine: costs next to each other.
//!
//! `cargo bench --bench ratios [-- WORD]`, where a word picks the ratios that it occurs in. Both sides of a ratio are measured in one process, in turns,
//! so that whatever else the machine does meets both; a side is the median of its rounds. The
//! ratio against madsim is a program of its own, in `benches/madsim`: madsim wants its own `cfg`.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fencepost::algorithms::{self, Algorithm};
use fencepost::scenarios::matrix::{Seeds, play};
use fencepost::sim::engine::{Engine, Event, Turmoil};
use fencepost::sim::fault::Plan;
use fencepost::sim::history::What;
use fencepost::sim::{Setup, Software};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 9;

fn main() {
    ratio(
        "three clients that poll for 30 s: stock turmoil / event engine (at least 40)",
        || polling(&Turmoil),
        || polling(&Event),
    );
    ratio(
        "naive under gc-pause: stock turmoil / event engine (at least 200)",
        || gc_pause(&Turmoil),
        || gc_pause(&Event),
    );
    ratio(
        "a part of the matrix: one job / two jobs (at least 1.8 on two idle cores)",
        || jobs(1),
        || jobs(2),
    );
    ratio(
        "a command with 1,000 clients waiting for one lock / with 10 (at most 3)",
        || waiting(&Event, 1_000, 20_000),
        || waiting(&Event, 10, 20_000),
    );
}

/// Each side returns how many elements it has handled; what is compared is the time of one.
fn ratio(what: &str, left: impl Fn() -> usize, right: impl Fn() -> usize) {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    if !words.all(|word| what.contains(&word)) {
        return;
    }
    let mut sides = [Vec::new(), Vec::new()];
    // The first round only warms up.
    for round in 0..=ROUNDS {
        let each = [timed(&left), timed(&right)];
        if round > 0 {
            sides[0].push(each[0]);
            sides[1].push(each[1]);
        }
    }
    let [left, right] = sides.map(median);
    println!("{what}: {:.2} ({left:.0} ns / {right:.0} ns)", left / right);
}

/// Nanoseconds per element. A short side is repeated, so that both have time enough.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]
fn timed(side: impl Fn() -> usize) -> f64 {
    let mut elements = 0;
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(200) {
        elements += side();
    }
    started.elapsed().as_nanos() as f64 / elements as f64
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn polling(engine: &dyn Engine) -> usize {
    waiting(engine, 3, 30_000);
    1
}

fn gc_pause(engine: &dyn Engine) -> usize {
    let scenario = fencepost::scenario("gc-pause").expect("it is built in");
    let naive = algorithms::ALL.iter().find(|a| a.name() == "naive");
    let naive = *naive.expect("it is built in");
    let run = fencepost::scenarios::run(naive, &scenario, 1, engine);
    black_box(run.expect("the testbed works"));
    1
}

/// Plays some cells with so many threads.
fn jobs(threads: usize) -> usize {
    let scenarios = ["gc-pause", "slow-work", "server-clock-step"];
    let scenarios = scenarios.map(|name| fencepost::scenario(name).expect("it is built in"));
    let all: Vec<&dyn Algorithm> = algorithms::ALL.to_vec();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let seeds = Seeds { from: 0, count: 10 };
    let never = AtomicBool::new(false);
    let matrix = pool
        .expect("threads start")
        .install(|| play(&all, &scenarios, seeds, &Event, &|| {}, &never));
    let runs = matrix.cells.iter().map(|cell| cell.seeds);
    runs.sum::<u64>() as usize
}

/// One client has the lock, the others ask for it again and again. Returns how many commands
/// the server has executed.
fn waiting(engine: &dyn Engine, clients: u16, ends: u64) -> usize {
    let setup = Setup {
        seed: 1,
        clients,
        servers: 1,
        deployment: sim::redis::Deployment::default(),
        latency: 1..=5,
        ends,
        redis_timeout: 1_000,
        store_timeout: 5_000,
        software: Software::Redis,
        store: sim::store::Settings::default(),
        plan: Plan::default(),
    };
    let history = engine.run(&setup, &|client| {
        Box::pin(async move {
            loop {
                client.sleep(client.draw(&(200..=600))).await;
                let mut set = redis::cmd("SET");
                let set = set.arg("lock").arg(client.token()).arg("NX");
                let taken: Option<String> = set
                    .query_async(&mut client.redis(0))
                    .await
                    .expect("it answers");
                if taken.is_some() {
                    std::future::pending::<()>().await;
                }
            }
        })
    });
    let events = black_box(history.expect("the testbed works")).events;
    let executed = |what: &What| matches!(what, What::Executed { .. });
    events.iter().filter(|event| executed(&event.what)).count()
}
