//! A simulated Redis server, as a state machine without I/O.
//!
//! [`Machine`] is one server's memory: it executes a request at a given wall clock time and
//! answers with a [`Reply`]. It reads no clock, draws no randomness and opens no socket, so the
//! same requests at the same times give the same replies on every machine, and it can be compared
//! with a real server command by command. [`Decoder`] and [`encode`] speak its wire format.
//!
//! The version copied is Redis 7.0.15, texts of errors included: client libraries and scripts
//! decide by those texts.
//!
//! ```
//! use bytes::Bytes;
//! use sim::redis::{Connection, Machine, Reply};
//!
//! let mut machine = Machine::new();
//! let mut connection = Connection::new(1);
//! let set = ["SET", "lock", "me", "NX", "PX", "30000"].map(Bytes::from);
//!
//! assert_eq!(machine.execute(&set, &mut connection, 0), Reply::OK);
//! assert_eq!(machine.execute(&set, &mut connection, 30_000), Reply::Null);
//! assert_eq!(machine.execute(&set, &mut connection, 30_001), Reply::OK);
//! ```
//!
//! A connection that waits, and one that is sent a message, hear of it by
//! [`Machine::take_messages`]. [`Process`] and [`Session`] see to that, and to what a server does in
//! the background; whoever has them brings bytes and the time.
//!
//! Deliberately absent: streams, bitmaps, HyperLogLogs and positions on earth; functions, modules,
//! cluster, access control beyond the default user without a password; limits of memory. A command
//! that is absent is unknown, as in an older server.
//!
//! Every command that is modelled and every known difference from a real server is listed in
//! `docs/redis-differences.md`; what scripts cannot have, in `lua/mod.rs`.

mod blocking;
mod call;
mod clients;
mod commands;
mod connection;
mod deployment;
pub(crate) mod disk;
mod effects;
mod expiry;
pub(crate) mod follow;
mod hashes;
mod keys;
mod lists;
mod lua;
mod machine;
pub(crate) mod node;
mod notify;
mod numbers;
mod process;
mod pubsub;
mod replication;
mod reply;
mod resp;
mod scan;
mod scripts;
pub(crate) mod sentinel;
mod server;
mod sessions;
mod sets;
mod strings;
mod table;
mod texts;
mod transactions;
mod value;
mod zranges;
mod zsets;

pub use connection::{Connection, Protocol};
pub use deployment::{Deployment, Persistence, Sentinels, Shape};
pub use machine::{Cause, Change, DATABASES, Entry, Machine};
pub use process::{Agenda, Executed, Process, Session};
pub use reply::Reply;
pub use resp::{Decoder, ProtocolError, encode};
pub use value::{Hash, List, Set, Sorted, Value, parts};
