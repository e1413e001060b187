//! The event engine: our own executor and virtual time over `turmoil-net` sockets.
//!
//! One first-in-first-out ready queue and one heap of what is due. When nothing is ready, the
//! network hands over what has been sent, and time jumps to the heap's head. Idle time costs
//! nothing.
//!
//! A task of a node that stands still is parked instead of polled; when the node goes on, its
//! tasks run in the order in which they were woken.

use turmoil_net::{EnterGuard, KernelConfig};

use super::faults::Ground;
use super::network::Network;
use super::{Engine, Failed, Program, Setup, process, quietly};
use crate::History;
use crate::fault::Fault;
use crate::net::address;
use crate::trace::Step;
use crate::world::{self, Due, DueWhat, Tag, World, with};

/// The event engine.
#[derive(Debug, Clone, Copy)]
pub struct Event;

/// The hosts of a world: one for each start of each node's process.
pub(crate) struct Net {
    pub(crate) hosts: Vec<Vec<turmoil_net::HostId>>,
    pub(crate) network: Network,
}

impl Engine for Event {
    fn name(&self) -> &'static str {
        "event"
    }

    fn run(&self, setup: &Setup, program: &Program<'_>) -> Result<History, Failed> {
        let played = Played::new(setup, program);
        let outcome = quietly(|| played.play());
        let history = played.end();
        outcome.map(|()| history)
    }
}

impl Net {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            hosts: Vec::new(),
            network: Network::new(setup.seed, setup.latency.clone(), setup.nodes()),
        }
    }
}

/// A world on this thread while it is played.
pub(super) struct Played<'a> {
    pub(super) guard: EnterGuard,
    program: &'a Program<'a>,
}

impl<'a> Played<'a> {
    fn new(setup: &Setup, program: &'a Program<'a>) -> Self {
        // The scheduler owns delay and loss; the sockets must never send again on their own.
        let config = KernelConfig::default().mtu(60_000).retx_threshold(u32::MAX);
        let mut sockets = turmoil_net::Net::with_config(config);
        let mut world = World::new(setup);
        for (index, node) in world.nodes.iter().enumerate() {
            let restarts = |planned: &&crate::fault::Planned| matches!(&planned.fault, Fault::Restart { nodes, .. } if nodes.contains(&node.id));
            let starts = 1 + setup.plan.0.iter().filter(restarts).count() as u32;
            let hosts = (0..starts).map(|start| sockets.add_host([address(index, start)]));
            world.net.hosts.push(hosts.collect());
        }
        let guard = sockets.enter();
        world.push_strikes();
        world::install(Some(world));
        Self { guard, program }
    }

    fn play(&self) {
        self.strike_before_anything();
        // Servers first: whoever connects at 0 ms finds them listening.
        for node in (0..with(|world| world.nodes.len())).rev() {
            self.start(node);
        }
        loop {
            self.run_ready();
            if self.is_over() {
                // A client may be gone whose last request is just being written.
                if self.egress() {
                    continue;
                }
                if self.is_over() {
                    return;
                }
            }
            let passes = |world: &mut World| world.due.peek().is_none_or(|due| due.at > world.now);
            // Before time passes, what was sent gets onto its way; it may arrive before
            // whatever was due next.
            if with(passes) && self.egress() {
                continue;
            }
            match with(World::next_due) {
                Some(due) => self.happen(due),
                None => return,
            }
        }
    }

    fn run_ready(&self) {
        while let Some(runnable) = world::next_ready() {
            let Tag { node, incarnation } = *runnable.metadata();
            let runs = with(|world| {
                if world.nodes[node].pauses.is_empty() {
                    world.fold(node, Step::Polled);
                    Some((world.host(node, incarnation), runnable))
                } else {
                    world.nodes[node].parked.push(runnable);
                    None
                }
            });
            if let Some((host, runnable)) = runs {
                turmoil_net::set_current(host);
                runnable.run();
            }
            while let Some(place) = with(|world| world.striking.pop_front()) {
                self.strike(place);
            }
        }
    }

    fn happen(&self, Due { what, order, .. }: Due) {
        match what {
            DueWhat::Timer(slot) => {
                if let Some((node, waker)) = with(|world| world.timers.fire(slot, order)) {
                    with(|world| world.fold(node, Step::Timer));
                    waker.wake();
                }
            }
            DueWhat::Segment(segment) => self.arrive(segment),
            DueWhat::Held(from, to) => self.arrive_late(from, to),
            DueWhat::Reset(reset) => self.tell_of_reset(reset),
            DueWhat::Strike(place) => self.strike(place),
            DueWhat::Over(place) => self.over(place),
        }
    }

    /// Clients are done or gone, nothing is going to go wrong any more, and everything that was
    /// sent has arrived: a late write of a dead client is a fact of this run.
    fn is_over(&self) -> bool {
        with(|world| {
            world.clients_are_over()
                && world
                    .due
                    .iter()
                    .all(|due| matches!(due.what, DueWhat::Timer(_)))
        })
    }

    /// Drops everything that runs, each in its own host, and takes the history.
    fn end(self) -> History {
        let nodes = with(|world| world.nodes.len());
        for node in 0..nodes {
            self.kill(node);
        }
        // Nothing of this run may be ready when the thread's next one begins.
        drop(world::take_ready(|_| true));
        let world = world::install(None).expect("installed when the run began");
        world::take_touched();
        world.into_history()
    }
}

impl Ground for Played<'_> {
    fn settle(&self) {
        self.egress();
    }

    fn start(&self, node: usize) {
        world::spawn(node, process(node, self.program));
    }

    fn go_on(&self, node: usize) {
        let parked = with(|world| std::mem::take(&mut world.nodes[node].parked));
        parked.into_iter().for_each(world::make_ready);
    }

    fn kill(&self, node: usize) {
        let (host, tag, tasks, parked, connections) = with(|world| {
            let host = world.host(node, world.nodes[node].incarnation);
            let killed = &mut world.nodes[node];
            killed.alive = false;
            let tag = Tag {
                node,
                incarnation: killed.incarnation,
            };
            let tasks = std::mem::take(&mut killed.tasks);
            let parked = std::mem::take(&mut killed.parked);
            (host, tag, tasks, parked, killed.connections.take())
        });
        turmoil_net::set_current(host);
        drop((tasks, parked, connections));
        drop(world::take_ready(|ready| ready == tag));
        // What a dropped request gave back.
        drop(with(|world| world.nodes[node].connections.take()));
        drop(world::take_ready(|ready| ready == tag));
    }
}

impl World {
    /// Lets time jump to what is due next, or to the run's end.
    fn next_due(&mut self) -> Option<Due> {
        let ends = self.setup.ends;
        let Some(due) = self.due.peek().filter(|due| due.at <= ends) else {
            self.now = ends;
            return None;
        };
        // Nothing happens when a timer ends that nobody waits for any more.
        if self.timers.matters(due) {
            self.now = due.at;
        }
        self.due.pop()
    }

    fn host(&self, node: usize, incarnation: u32) -> turmoil_net::HostId {
        self.net.hosts[node][incarnation as usize]
    }
}
