//! What an echo round trip over simulated TCP costs, in the event engine and in madsim.
//!
//! Both in one process, in turns: each round measures one and then the other, so that whatever
//! else the machine does meets both. The result is a ratio of medians.
//!
//! On both sides: two nodes, one connection, 16 bytes there and back, a delay for every
//! message on the way. madsim's streams are channels of whole messages; the event engine's are
//! `turmoil-net` sockets with handshakes, acknowledgements and windows.

use std::hint::black_box;
use std::time::{Duration, Instant};

use madsim::net::{TcpListener, TcpStream};
use madsim::runtime::Runtime;
use sim::engine::{Engine, Event};
use sim::fault::Plan;
use sim::{NodeId, Setup, Software};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUND_TRIPS: u32 = 20_000;
const ROUNDS: usize = 31;

fn main() {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    // The first round only warms up.
    for round in 0..=ROUNDS {
        let (event, madsim) = (timed(event), timed(madsim));
        if round > 0 {
            ours.push(event);
            theirs.push(madsim);
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("event engine {ours:>8.1} ns per echo round trip");
    println!("madsim       {theirs:>8.1} ns per echo round trip");
    println!("event engine / madsim = {:.2}", ours / theirs);
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]
fn timed(play: impl FnOnce()) -> Duration {
    let started = Instant::now();
    play();
    started.elapsed()
}

/// Nanoseconds per round trip.
fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_nanos() as f64 / f64::from(ROUND_TRIPS)
}

/// Sends back whatever comes, until the other side hangs up.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut message = [0; 16];
    while stream.read_exact(&mut message).await.is_ok() {
        stream.write_all(&message).await.expect("the asker waits");
        stream.flush().await.expect("the asker waits");
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut message = [0; 16];
    for _ in 0..ROUND_TRIPS {
        stream.write_all(&message).await.expect("connected");
        stream.flush().await.expect("connected");
        stream.read_exact(&mut message).await.expect("connected");
    }
    black_box(message);
}

fn event() {
    let setup = Setup {
        seed: 1,
        clients: 2,
        servers: 0,
        deployment: sim::redis::Deployment::default(),
        latency: 1..=10,
        ends: u64::MAX,
        redis_timeout: 1_000,
        store_timeout: 5_000,
        software: Software::Redis,
        store: sim::store::Settings::default(),
        plan: Plan::default(),
    };
    let history = Event.run(&setup, &|client| {
        Box::pin(async move {
            // The last client is started first: it listens when the other one connects.
            if client.number() == 2 {
                answer(sim::raw::accept(client).await.expect("asked")).await;
            } else {
                ask(sim::raw::connect(client, NodeId::Client(2))
                    .await
                    .expect("listening"))
                .await;
            }
        })
    });
    black_box(history.expect("the testbed works"));
}

fn madsim() {
    // Its delays are 1 to 10 ms unless configured otherwise.
    let runtime = Runtime::with_seed_and_config(1, madsim::Config::default());
    let address = "10.0.0.2:6379";
    let server = runtime.create_node().ip([10, 0, 0, 2].into()).build();
    let client = runtime.create_node().ip([10, 0, 0, 1].into()).build();
    server.spawn(async move {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let (stream, _) = listener.accept().await.expect("asked");
        answer(stream).await;
    });
    let asked = client.spawn(async move {
        // The server's task is ready, but has not run yet.
        madsim::time::sleep(Duration::from_millis(100)).await;
        ask(TcpStream::connect(address).await.expect("listening")).await;
    });
    runtime.block_on(asked).expect("the client ends");
}
