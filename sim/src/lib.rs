//! Deterministic worlds: nodes, clocks, a network, the lock's servers and a fenced store.
//!
//! A [`Setup`] goes into an [`Engine`](engine::Engine), together with the program that every
//! client runs, and a [`History`] comes out. The same setup and program give the same history,
//! byte for byte, on every machine. Nothing here knows what a lock is.
//!
//! ```
//! use sim::{Setup, Software, engine::{Engine, Event}, fault::Plan};
//!
//! let setup = Setup {
//!     seed: 4711,
//!     clients: 1,
//!     servers: 1,
//!     deployment: sim::redis::Deployment::default(),
//!     latency: 1..=5,
//!     ends: 60_000,
//!     redis_timeout: 1_000,
//!     store_timeout: 5_000,
//!     software: Software::Redis,
//!     store: sim::store::Settings::default(),
//!     plan: Plan::default(),
//! };
//! let history = Event.run(&setup, &|client| {
//!     Box::pin(async move {
//!         let set = redis::cmd("SET").arg("greeting").arg("hello").to_owned();
//!         let answer: String = set.query_async(&mut client.redis(0)).await.unwrap();
//!         assert_eq!(answer, "OK");
//!         client.sleep(30_000).await; // costs nothing
//!     })
//! });
//! assert!(history.unwrap().ended > 30_000);
//! ```
//!
//! Time is whole milliseconds, counted from the start of the world.

mod client;
pub mod clock;
pub mod coordination;
mod dial;
pub mod engine;
pub mod fault;
pub mod history;
mod lanes;
mod listener;
mod master;
mod net;
mod node;
#[doc(hidden)]
pub mod raw;
pub mod redis;
pub mod store;
mod timers;
pub mod trace;
pub mod weather;
mod world;

pub use client::{Client, Elapsed, RedisHandle, Spawned, StoreError};
pub use engine::{Setup, Software};
pub use history::History;
pub use lanes::{Lane, Purpose};
pub use listener::RedisListener;
pub use node::NodeId;
pub use trace::Fingerprint;

/// A time of the world, or a length of time, in whole milliseconds.
pub type Millis = u64;

/// What every wall clock shows when a world starts: 2026-01-01T00:00:00Z, in milliseconds
/// since 1970.
pub const EPOCH: Millis = 1_767_225_600_000;
