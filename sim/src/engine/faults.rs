//! What each kind of fault does to a world, on every engine.

use super::network::pairs;
use crate::fault::{Data, Fault};
use crate::history::What;
use crate::world::{self, DueWhat, with};
use crate::{NodeId, redis};

/// What an engine does for the faults. Links are the world's business, see [`World::hold`]
/// and its neighbours.
///
/// [`World::hold`]: crate::world::World::hold
pub(super) trait Ground {
    /// Puts onto its way what has been written.
    fn settle(&self);

    /// Drops a process: its tasks and connections go, its sockets are closed by the kernel.
    fn kill(&self, node: usize);

    /// Starts a node's process.
    fn start(&self, node: usize);

    /// A node no longer stands still: its tasks run on, in the order in which they were woken.
    fn go_on(&self, node: usize);

    /// A fault's moment has come.
    fn strike(&self, place: usize) {
        // What was written before has left before.
        self.settle();
        let fault = with(|world| {
            let fault = world.setup.plan.0[place].fault.clone();
            let first = fault.nodes().next().map_or(0, |node| world.index(node));
            world.record(first, What::Struck { fault: place });
            world.active += 1;
            fault
        });
        match &fault {
            Fault::Pause { nodes, lasts } => with(|world| {
                for &node in nodes {
                    let index = world.index(node);
                    // A dead process cannot stand still.
                    if world.nodes[index].alive && world.nodes[index].pauses.insert(place) {
                        world.record(index, What::Paused { lasts: *lasts });
                    }
                }
            }),
            Fault::Crash { nodes } => self.each(nodes, |node| self.crash(node)),
            Fault::Restart { nodes, data, .. } => self.each(nodes, |node| {
                self.crash(node);
                with(|world| {
                    world.nodes[node].restarts += 1;
                    if *data == Data::Lost {
                        world.nodes[node].machine.replace(redis::Machine::new());
                        world.nodes[node].table.borrow_mut().lose();
                        world.record(node, What::DataLost);
                    }
                });
            }),
            Fault::Hold { a, b, .. } => with(|world| {
                for (one, other) in pairs(world, a, b) {
                    world.hold(one, other);
                    world.hold(other, one);
                }
            }),
            Fault::DropReplies { a, b, .. } => with(|world| {
                for (asker, answerer) in pairs(world, a, b) {
                    world.swallow(answerer, asker);
                }
            }),
            Fault::Reset { a, b } => with(|world| {
                for (one, other) in pairs(world, a, b) {
                    world.reset(one, other);
                }
            }),
            Fault::ClockStep { nodes, by } => self.each(nodes, |node| {
                with(|world| {
                    world.nodes[node].wall_offset += by;
                    world.record(node, What::ClockStepped { by: *by });
                });
                world::wake_expiry(node);
            }),
            Fault::Suspend { .. }
            | Fault::PowerLoss { .. }
            | Fault::Refuse { .. }
            | Fault::OneWay { .. }
            | Fault::Slow { .. }
            | Fault::Loss { .. }
            | Fault::ClockRate { .. }
            | Fault::ClockOffset { .. }
            | Fault::Failover { .. }
            | Fault::ReplicaLag { .. }
            | Fault::Flush { .. }
            | Fault::Evict { .. } => panic!(
                "a plan holds a {} fault, which no engine plays yet",
                fault.kind()
            ),
        }
        with(|world| world.push(world.now + fault.lasts(), DueWhat::Over(place)));
    }

    /// A fault has lasted.
    fn over(&self, place: usize) {
        self.settle();
        let fault = with(|world| {
            world.active -= 1;
            world.setup.plan.0[place].fault.clone()
        });
        match &fault {
            Fault::Pause { nodes, .. } => self.each(nodes, |node| self.resume(node, place)),
            Fault::Restart { nodes, .. } => self.each(nodes, |node| {
                let starts = with(|world| {
                    let restarted = &mut world.nodes[node];
                    restarted.restarts -= 1;
                    if restarted.restarts == 0 {
                        restarted.incarnation += 1;
                    }
                    restarted.restarts == 0
                });
                if starts {
                    self.start(node);
                }
            }),
            Fault::Hold { a, b, .. } => with(|world| {
                for (one, other) in pairs(world, a, b) {
                    world.release(one, other);
                    world.release(other, one);
                }
            }),
            Fault::DropReplies { a, b, .. } => with(|world| {
                for (asker, answerer) in pairs(world, a, b) {
                    world.unswallow(answerer, asker);
                    world.reset(asker, answerer);
                }
            }),
            _ => {}
        }
        with(|world| {
            let first = fault.nodes().next().map_or(0, |node| world.index(node));
            world.record(first, What::Over { fault: place });
        });
    }

    /// Does something to every one of some nodes.
    fn each(&self, nodes: &[NodeId], mut act: impl FnMut(usize)) {
        for &node in nodes {
            act(with(|world| world.index(node)));
        }
    }

    /// Kills a process, if there is one.
    fn crash(&self, node: usize) {
        if !with(|world| world.nodes[node].alive) {
            return;
        }
        self.kill(node);
        with(|world| {
            world.nodes[node].pauses.clear();
            world.nodes[node].waiting_resets.clear();
            world.record(node, What::Crashed);
        });
    }

    /// One reason less to stand still.
    fn resume(&self, node: usize, place: usize) {
        let goes_on = with(|world| {
            let resumed = &mut world.nodes[node];
            // A crash has ended every pause already; a later one is not this fault's to end.
            if !resumed.pauses.remove(&place) || !resumed.pauses.is_empty() {
                return false;
            }
            let resets = std::mem::take(&mut resumed.waiting_resets);
            world.record(node, What::Resumed);
            for reset in resets {
                // Due now, but after everything that is ready has run.
                world.push(world.now, DueWhat::Reset(Box::new(reset)));
            }
            true
        });
        if goes_on {
            self.go_on(node);
        }
    }
}
