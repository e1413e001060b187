//! What plays a world: a setup and a program in, a history out.

mod event;
mod faults;
mod network;

use std::fmt;
use std::ops::RangeInclusive;

use futures_util::future::LocalBoxFuture;

pub(crate) use event::Net;
pub use event::{Event, quiet_panics};

use crate::fault::Plan;
use crate::{Client, History, Millis};

/// One world before it starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where every draw comes from.
    pub seed: u64,
    /// How many clients there are.
    pub clients: u16,
    /// How many independent Redis servers there are.
    pub servers: u16,
    /// The one-way delay of a segment between two nodes, in milliseconds.
    pub latency: RangeInclusive<Millis>,
    /// When the run ends at the latest.
    pub ends: Millis,
    /// How long a client waits for Redis, connecting included.
    pub redis_timeout: Millis,
    /// How long a client waits for the store, connecting included.
    pub store_timeout: Millis,
    /// What goes wrong.
    pub plan: Plan,
}

/// What every client runs. It is called once for each start of a client's process.
pub type Program<'a> = dyn Fn(Client) -> LocalBoxFuture<'static, ()> + 'a;

/// Plays worlds.
pub trait Engine: Sync {
    /// The name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// Plays one world to its end.
    fn run(&self, setup: &Setup, program: &Program<'_>) -> Result<History, Failed>;
}

/// Every engine, the default first.
pub const ALL: &[&dyn Engine] = &[&Event];

/// The testbed itself went wrong: a task panicked. Such a run says nothing about a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What the panic said.
    pub panic: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the simulation failed: {}", self.panic)
    }
}

impl std::error::Error for Failed {}
