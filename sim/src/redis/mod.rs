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
//! Deliberately absent: hashes, lists, sets, sorted sets and streams; transactions, publish and
//! subscribe, blocking commands; persistence, replication, limits of memory; access control beyond the
//! default user without a password. A command that is absent is unknown, as in an older server.
//!
//! Known differences from a real server, beyond what is absent:
//!
//! - A command and a script take no time. `TIME` and `PTTL` therefore stand still in a script,
//!   where 7.0 lets them move, and nobody is ever told `BUSY`: a script that would run for ever is
//!   killed by an instruction budget, and its sender gets the error.
//! - The active cycle runs every 100 ms and is complete. A real server samples.
//! - `CLIENT SETINFO` is accepted (7.2 has it; 7.0.15 answers with an error that every client
//!   library ignores), and `COMMAND` lists nothing.
//! - What scripts cannot have is listed in `lua/mod.rs`.

mod commands;
mod connection;
mod keys;
mod lua;
mod machine;
pub(crate) mod node;
mod numbers;
mod reply;
mod resp;
mod scripts;
mod strings;

pub use connection::{Connection, Protocol};
pub use machine::{Cause, Change, DATABASES, Entry, Machine, Value};
pub use reply::Reply;
pub use resp::{Decoder, ProtocolError, encode};
