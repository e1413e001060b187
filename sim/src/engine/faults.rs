//! What each kind of fault does to a world, on every engine.

use std::task::Waker;

use super::network::pairs;
use crate::clock::Clock;
use crate::fault::{Data, Fault};
use crate::history::What;
use crate::redis::Cause;
use crate::redis::disk::Disk;
use crate::weather::Kind;
use crate::world::{self, DueWhat, World, with};
use crate::{Millis, NodeId, Software, redis};

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

    /// Lets those faults strike that are there before anything runs.
    fn strike_before_anything(&self) {
        for place in 0..with(|world| world.setup.plan.0.len()) {
            if with(|world| world.setup.plan.0[place].is_from_the_start()) {
                self.strike(place);
            }
        }
    }

    /// A fault's moment has come.
    fn strike(&self, place: usize) {
        // What was written before has left before.
        self.settle();
        let fault = with(|world| {
            let fault = world.setup.plan.0[place].fault.clone();
            world.refuse_what_no_quorum_does(&fault);
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
            Fault::Suspend { nodes, lasts } => with(|world| {
                for &node in nodes {
                    let index = world.index(node);
                    if world.nodes[index].alive && world.nodes[index].pauses.insert(place) {
                        world.nodes[index].suspends.insert(place);
                        world.record(index, What::Suspended { lasts: *lasts });
                        world.set_clock(index, |clock, now| clock.stand(now, true));
                    }
                }
            }),
            Fault::Crash { nodes } => self.each(nodes, |node| self.crash(node)),
            Fault::ThreadDeath { nodes } => self.each(nodes, |node| {
                with(|world| {
                    let client = &mut world.nodes[node];
                    // A program that has come to its end has no thread any more.
                    let works = client.alive && !client.done && client.id.is_client();
                    if works && !std::mem::replace(&mut client.thread_died, true) {
                        world.record(node, What::ThreadDied);
                    }
                });
            }),
            Fault::PowerLoss { nodes } => self.each(nodes, |node| {
                with(|world| {
                    world.darken(node, true);
                    let now = world.monotonic(node);
                    world.nodes[node].disk.lose_power(now);
                });
                self.crash(node);
                // What its kernel would still send goes nowhere.
                self.settle();
            }),
            Fault::Restart { nodes, data, .. } => self.each(nodes, |node| {
                self.crash(node);
                with(|world| world.nodes[node].restarts += 1);
                match data {
                    Data::Kept => {}
                    Data::OnDisk => redis::node::reload(node),
                    Data::Lost => with(|world| {
                        let machine = &world.nodes[node].machine;
                        let left = machine.borrow().without_data();
                        machine.replace(left);
                        world.nodes[node].disk = Disk::default();
                        world.nodes[node].database.borrow_mut().lose();
                        world.record(node, What::DataLost);
                    }),
                }
            }),
            Fault::Hold { a, b, .. } => with(|world| {
                for (one, other) in pairs(world, a, b) {
                    world.hold(one, other);
                    world.hold(other, one);
                }
            }),
            Fault::OneWay { a, b, .. } => with(|world| {
                for (from, to) in pairs(world, a, b) {
                    world.hold(from, to);
                }
            }),
            Fault::Refuse { a, b, .. } => with(|world| {
                for (from, to) in pairs(world, a, b) {
                    world.refuse(from, to);
                }
            }),
            Fault::Slow { a, b, by, .. } => worsen(place, a, b, Kind::Slow(*by)),
            Fault::Loss {
                a,
                b,
                percent,
                lasts,
            } => {
                let until = with(|world| world.now) + lasts;
                worsen(place, a, b, Kind::Loss(*percent, until));
            }
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
                    world.set_clock(node, |clock, now| clock.step(now, *by));
                    world.record(node, What::ClockStepped { by: *by });
                });
                world::wake_expiry(node);
            }),
            Fault::ClockRate { nodes, ppm } => self.each(nodes, |node| {
                with(|world| {
                    world.set_clock(node, |clock, now| clock.run_at(now, *ppm));
                    world.record(node, What::ClockRate { ppm: *ppm });
                });
            }),
            Fault::ClockOffset { nodes, by } => self.each(nodes, |node| {
                with(|world| {
                    world.set_clock(node, |clock, now| clock.step(now, *by));
                    world.record(node, What::ClockOffset { by: *by });
                });
            }),
            Fault::Flush { nodes } => self.each(nodes, |node| empty(node, Cause::Command)),
            Fault::Evict { nodes } => self.each(nodes, |node| empty(node, Cause::Eviction)),
            Fault::Failover { nodes } => fail_over(nodes),
            Fault::ReplicaLag { nodes, .. } => self.each(nodes, |node| {
                with(|world| world.nodes[node].lags.insert(place));
            }),
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
            Fault::Pause { nodes, .. } | Fault::Suspend { nodes, .. } => {
                self.each(nodes, |node| self.resume(node, place));
            }
            Fault::Restart { nodes, .. } => self.each(nodes, |node| {
                let starts = with(|world| {
                    let restarted = &mut world.nodes[node];
                    restarted.restarts -= 1;
                    if restarted.restarts == 0 {
                        restarted.incarnation += 1;
                        world.darken(node, false);
                        return true;
                    }
                    false
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
            Fault::OneWay { a, b, .. } => with(|world| {
                for (from, to) in pairs(world, a, b) {
                    world.release(from, to);
                }
            }),
            Fault::Refuse { a, b, .. } => with(|world| {
                for (from, to) in pairs(world, a, b) {
                    world.accept(from, to);
                }
            }),
            Fault::Slow { a, b, .. } | Fault::Loss { a, b, .. } => with(|world| {
                for (one, other) in pairs(world, a, b) {
                    world.clear(place, one, other);
                    world.clear(place, other, one);
                }
            }),
            Fault::DropReplies { a, b, .. } => with(|world| {
                for (asker, answerer) in pairs(world, a, b) {
                    world.unswallow(answerer, asker);
                    world.reset(asker, answerer);
                }
            }),
            Fault::ReplicaLag { nodes, .. } => self.each(nodes, |node| {
                let waker = with(|world| {
                    world.nodes[node].lags.remove(&place);
                    world.nodes[node].follower.take()
                });
                waker.into_iter().for_each(Waker::wake);
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
            if !std::mem::take(&mut world.nodes[node].suspends).is_empty() {
                world.set_clock(node, |clock, now| clock.stand(now, false));
            }
            world.record(node, What::Crashed);
        });
    }

    /// One reason less to stand still.
    fn resume(&self, node: usize, place: usize) {
        let (goes_on, moved) = with(|world| {
            // A suspend within a pause ends in its own time: the machine's clock goes on, and
            // the process stands still.
            let suspends = &mut world.nodes[node].suspends;
            let moved = suspends.remove(&place) && suspends.is_empty();
            if moved {
                world.set_clock(node, |clock, now| clock.stand(now, false));
            }
            let resumed = &mut world.nodes[node];
            // A crash has ended every pause already; a later one is not this fault's to end.
            if !resumed.pauses.remove(&place) || !resumed.pauses.is_empty() {
                return (false, moved);
            }
            let resets = std::mem::take(&mut resumed.waiting_resets);
            world.record(node, What::Resumed);
            for reset in resets {
                // Due now, but after everything that is ready has run.
                world.push(world.now, DueWhat::Reset(Box::new(reset)));
            }
            (true, moved)
        });
        if goes_on {
            self.go_on(node);
        }
        if moved {
            // The wall clock has gone on alone, which is as good as a step.
            world::wake_expiry(node);
        }
    }
}

/// A server's keys go. Its process does it: not while it stands still, and never if it is dead.
fn empty(node: usize, cause: Cause) {
    if with(|world| world.nodes[node].alive) {
        when_it_runs(node, move || redis::node::empty(node, cause));
    }
}

/// Does something in a process: at once, or as soon as it no longer stands still.
fn when_it_runs(node: usize, act: impl FnOnce() + 'static) {
    if with(|world| world.nodes[node].pauses.is_empty()) {
        act();
    } else {
        world::spawn(node, async move { act() });
    }
}

/// A replica takes the place of a master: the one that is alive and has copied most. Sentinels
/// are asked to do it; without them an operator does, tells every server, and moves the name by
/// which clients find the master. A server that is down learns of it when it starts.
fn fail_over(masters: &[NodeId]) {
    let chosen = with(|world| {
        if world.setup.deployment.sentinel_count() > 0 {
            world.forced = true;
            return None;
        }
        let servers = (1..=world.setup.servers).map(NodeId::Lock);
        let fit = servers.filter_map(|id| {
            let node = &world.nodes[world.index(id)];
            let machine = node.machine.borrow();
            let fit = node.alive && machine.is_replica() && !masters.contains(&id);
            fit.then(|| (machine.offset(), std::cmp::Reverse(id)))
        });
        fit.max().map(|(_, id)| id.0)
    });
    let Some(NodeId::Lock(number)) = chosen else {
        return;
    };
    with(|world| world.master = number);
    for id in (1..=with(|world| world.setup.servers)).map(NodeId::Lock) {
        let node = with(|world| world.index(id));
        let master = (id != NodeId::Lock(number)).then_some(NodeId::Lock(number));
        if with(|world| world.nodes[node].alive) {
            when_it_runs(node, move || redis::node::reassign(node, master));
        } else {
            redis::node::reassign(node, master);
        }
    }
}

/// A fault makes the segments between two sides late.
fn worsen(place: usize, a: &[NodeId], b: &[NodeId], kind: Kind) {
    with(|world| {
        for (one, other) in pairs(world, a, b) {
            world.worsen(place, one, other, kind);
            world.worsen(place, other, one, kind);
        }
    });
}

impl World {
    /// A coordination server loses no data, and nobody empties it.
    fn refuse_what_no_quorum_does(&self, fault: &Fault) {
        let on_lock = fault.nodes().any(|node| matches!(node, NodeId::Lock(_)));
        let loses = matches!(
            fault,
            Fault::Restart {
                data: Data::Lost,
                ..
            } | Fault::Flush { .. }
                | Fault::Evict { .. }
        );
        assert!(
            self.setup.software == Software::Redis || !on_lock || !loses,
            "a coordination server keeps its data: no {} for it",
            fault.kind()
        );
    }

    /// Changes a node's clock, and when its timers are due.
    fn set_clock(&mut self, node: usize, change: impl FnOnce(&mut Clock, Millis)) {
        let now = self.now;
        change(&mut self.nodes[node].clock, now);
        self.set_timers_anew(node);
    }
}
