//! What plays a world: a setup and a program in, a history out.

mod event;
mod faults;
mod network;
pub(crate) mod stock;

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::LocalBoxFuture;

pub use event::Event;
pub(crate) use event::Net;
pub(crate) use stock::Stock;
pub use stock::Turmoil;

use crate::fault::Plan;
use crate::history::What;
use crate::redis::Deployment;
use crate::world::{Tag, with};
use crate::{Client, History, Millis, NodeId, coordination, redis, store};

/// One world before it starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where every draw comes from.
    pub seed: u64,
    /// How many clients there are.
    pub clients: u16,
    /// How many servers of the lock there are.
    pub servers: u16,
    /// How they are set up.
    pub deployment: Deployment,
    /// The one-way delay of a segment between two nodes, in milliseconds.
    pub latency: RangeInclusive<Millis>,
    /// When the run ends at the latest.
    pub ends: Millis,
    /// How long a client waits for a server of the lock, connecting included.
    pub redis_timeout: Millis,
    /// How long a client waits for the store, connecting included.
    pub store_timeout: Millis,
    /// What runs on the servers of the lock.
    pub software: Software,
    /// How the store is set up.
    pub store: store::Settings,
    /// What goes wrong.
    pub plan: Plan,
}

/// What runs on the servers of the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Software {
    /// Redis.
    #[default]
    Redis,
    /// A [coordination server](crate::coordination).
    Coordination,
}

impl Setup {
    /// How many nodes there are, sentinels and the store included.
    pub(crate) fn nodes(&self) -> usize {
        let sentinels = self.deployment.sentinel_count();
        usize::from(self.clients) + usize::from(self.servers) + usize::from(sentinels) + 1
    }
}

/// What every client runs. It is called once for each start of a client's process.
pub type Program<'a> = dyn Fn(Client) -> LocalBoxFuture<'static, ()> + 'a;

/// Plays worlds.
pub trait Engine: Sync {
    /// The name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The most clients that a world may have which it plays.
    fn most_clients(&self) -> u16 {
        u16::MAX
    }

    /// Plays one world to its end.
    fn run(&self, setup: &Setup, program: &Program<'_>) -> Result<History, Failed>;
}

/// Every engine, the default first.
pub const ALL: &[&dyn Engine] = &[&Event, &Turmoil];

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

impl From<Box<dyn std::any::Any + Send>> for Failed {
    fn from(panic: Box<dyn std::any::Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let mut text = text.unwrap_or_else(|| "?".into());
        if text.contains("context of a Tokio 1.x runtime") {
            text += "; code that calls tokio itself runs on the turmoil engine alone";
        }
        Self { panic: text }
    }
}

thread_local! {
    static PLAYING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics inside of worlds off the terminal: a run that fails says so in [`Failed`], and
/// a matrix may have thousands of them. For programs; a library should not call it.
pub fn quiet_panics() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !PLAYING.get() {
            loud(panic);
        }
    }));
}

/// Plays a part of a world; a panic in it is a failed run.
fn quietly<T>(play: impl FnOnce() -> T) -> Result<T, Failed> {
    PLAYING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(play));
    PLAYING.set(false);
    outcome.map_err(Failed::from)
}

/// Marks a node as started, and makes what its process runs.
fn process(node: usize, program: &Program<'_>) -> LocalBoxFuture<'static, ()> {
    let (id, tag, machine, database) = with(|world| {
        world.nodes[node].alive = true;
        world.nodes[node].done = false;
        world.nodes[node].thread_died = false;
        world.record(node, What::Started);
        let started = &world.nodes[node];
        let tag = Tag {
            node,
            incarnation: started.incarnation,
        };
        let machine = Rc::clone(&started.machine);
        let database = Rc::clone(&started.database);
        (started.id, tag, machine, database)
    });
    match id {
        NodeId::Client(number) => {
            let mut program = program(Client::new(number, tag));
            Box::pin(async move {
                // A dead thread drops nothing: its process has what it had.
                poll_fn(|context| {
                    if with(|world| world.nodes[node].thread_died) {
                        return Poll::Pending;
                    }
                    program.as_mut().poll(context)
                })
                .await;
                with(|world| world.nodes[node].done = true);
            })
        }
        NodeId::Lock(_) => match with(|world| world.setup.software) {
            Software::Redis => Box::pin(redis::node::serve(node, id, machine)),
            Software::Coordination => {
                let machine = with(|world| Rc::clone(&world.nodes[node].coordination));
                Box::pin(coordination::node::serve(node, id, machine))
            }
        },
        NodeId::Sentinel(number) => Box::pin(redis::sentinel::serve(node, number)),
        NodeId::Store => Box::pin(store::node::serve(node, database)),
    }
}
