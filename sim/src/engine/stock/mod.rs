//! The turmoil engine: the same worlds on stock [`turmoil::Sim`], by other
//! people's scheduler and network.
//!
//! Every node is a turmoil host with a tokio runtime of its own. A step of the simulation is a
//! millisecond, and every host is run in every step, idle or not: that is what this engine
//! costs. Code that calls `tokio::time` and `tokio::spawn` itself runs on it unchanged.
//!
//! Faults map to what turmoil offers: a hold is `hold` and `release`, a road that swallows what
//! comes is `partition_oneway`. A pair of nodes between which it is ever slow or lossy is held for
//! the whole run, and each of its segments is let go in its own time. turmoil cannot reset a connection, refuse one, or make the
//! answer to a SYN cross a link; those few things are done where our sockets meet its own,
//! see [`wire`].
//!
//! Deliberately absent: `Sim::crash` and `Sim::bounce`. They act between steps, and a crashed
//! host no longer answers with resets; here a process dies and starts inside its host.

mod hosts;
mod roads;
mod wire;

use std::time::Duration;
#[expect(clippy::disallowed_types, reason = "a fixed epoch for turmoil's clock")]
use std::time::SystemTime;

use turmoil::{Builder, Sim};

pub(crate) use hosts::{Nap, spawn, stands, strike_here};
pub(crate) use wire::{Wire, WireListener};

use super::faults::Ground;
use super::{Engine, Failed, Program, Setup, process, quietly};
use crate::world::{self, DueWhat, World, with};
use crate::{EPOCH, History, NodeId};

/// The turmoil engine.
#[derive(Debug, Clone, Copy)]
pub struct Turmoil;

/// What is under a world on this engine.
pub(crate) struct Stock {
    hosts: Vec<hosts::Host>,
    roads: roads::Roads,
    naps: u64,
    /// What a task panicked with.
    failed: Option<Failed>,
}

impl Engine for Turmoil {
    fn name(&self) -> &'static str {
        "turmoil"
    }

    fn most_clients(&self) -> u16 {
        MOST_CLIENTS
    }

    fn run(&self, setup: &Setup, program: &Program<'_>) -> Result<History, Failed> {
        let mut world = World::new(setup);
        world.push_strikes();
        let hosts = world.nodes.iter().map(|_| hosts::Host::default()).collect();
        let roads = roads::Roads::new(setup, |node| world.index(node));
        world.stock = Some(Box::new(Stock {
            hosts,
            roads,
            naps: 0,
            failed: None,
        }));
        world::install(Some(world));
        let outcome = quietly(|| play(program));
        end_processes();
        let mut world = world::install(None).expect("installed above");
        let failed = world.stock.take().and_then(|stock| stock.failed);
        outcome?;
        match failed {
            Some(failed) => Err(failed),
            None => Ok(world.into_history()),
        }
    }
}

/// In every step turmoil runs every host and looks at the link of every pair: with two hundred clients
/// that is two minutes for a run.
const MOST_CLIENTS: u16 = 50;

/// More segments than any program of ours has under way on one connection, and more
/// connections than it opens at once.
const CAPACITY: usize = 1 << 16;

/// turmoil draws the place of a latency in its range from an exponential distribution and cuts
/// it off at the end. With this rate the mean is the middle of the range, as on the event engine:
/// (1 - e^-r) / r = 1/2.
const CURVE: f64 = 1.593_624;

fn build(setup: &Setup) -> Sim<'static> {
    #[expect(clippy::disallowed_types, reason = "a fixed epoch for turmoil's clock")]
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_millis(EPOCH);
    Builder::new()
        .epoch(epoch)
        .rng_seed(setup.seed)
        .tick_duration(Duration::from_millis(1))
        .simulation_duration(Duration::MAX)
        .min_message_latency(Duration::from_millis(*setup.latency.start()))
        .max_message_latency(Duration::from_millis(*setup.latency.end()))
        .tcp_capacity(CAPACITY)
        .build()
}

fn play(program: &Program<'_>) {
    let setup = with(|world| world.setup.clone());
    let mut sim = build(&setup);
    sim.set_message_latency_curve(CURVE);
    let ground = Outside(program);
    ground.strike_before_anything();
    let ids: Vec<NodeId> = with(|world| world.nodes.iter().map(|node| node.id).collect());
    // Servers first: whoever connects at 0 ms finds them listening.
    let (clients, servers): (Vec<_>, Vec<_>) = ids
        .into_iter()
        .enumerate()
        .partition(|(_, id)| id.is_client());
    for (node, id) in servers.into_iter().chain(clients) {
        ground.start(node);
        sim.host(id.to_string(), move || hosts::run(node));
        let address = sim.lookup(id.to_string());
        with(|world| world.stock().roads.name(node, address));
    }
    let mut quiet_steps = 0;
    for now in 0..=setup.ends {
        with(|world| world.now = now);
        while let Some(what) = with(|world| world.take_due()) {
            match what {
                DueWhat::Strike(place) => ground.strike(place),
                DueWhat::Over(place) => ground.over(place),
                _ => unreachable!("on this engine only faults are due"),
            }
        }
        roads::before_step(&sim);
        sim.step().expect("our hosts' software returns no errors");
        roads::after_step(&sim);
        if with(|world| world.stock().failed.is_some()) {
            return;
        }
        let quiet = with(|world| world.clients_are_over() && world.due.is_empty())
            && !roads::any_under_way(&sim);
        quiet_steps = if quiet { quiet_steps + 1 } else { 0 };
        // What arrived in the last step has been executed in it or is in the next.
        if quiet_steps == 2 {
            return;
        }
    }
}

/// What the engine does between two steps.
struct Outside<'a>(&'a Program<'a>);

impl Ground for Outside<'_> {
    fn settle(&self) {}

    fn kill(&self, node: usize) {
        hosts::kill(node);
    }

    fn start(&self, node: usize) {
        let process = process(node, self.0);
        hosts::start(node, process);
    }

    fn go_on(&self, node: usize) {
        hosts::go_on(node);
    }
}

/// What it does while a host runs: for faults at a point.
struct Inside;

impl Ground for Inside {
    fn settle(&self) {}

    fn kill(&self, node: usize) {
        hosts::kill(node);
    }

    fn start(&self, _: usize) {
        unreachable!("a fault's end is never at a point");
    }

    fn go_on(&self, node: usize) {
        hosts::go_on(node);
    }
}

/// Drops what the simulation has left behind while the world can still be asked.
fn end_processes() {
    for node in 0..with(|world| world.nodes.len()) {
        hosts::end(node);
    }
}

impl World {
    fn stock(&mut self) -> &mut Stock {
        self.stock
            .as_mut()
            .expect("this world is played by turmoil")
    }

    /// What is due now, the oldest first.
    fn take_due(&mut self) -> Option<DueWhat> {
        let is_due = self.due.peek().is_some_and(|due| due.at <= self.now);
        is_due.then(|| self.due.pop().expect("peeked above").what)
    }
}

impl Stock {
    /// Stops a task.
    pub(crate) fn cancel(&mut self, node: usize, number: u64) {
        self.hosts[node].cancel(number);
    }
}
