//! What holds or swallows segments on turmoil's links.
//!
//! turmoil has links between pairs of hosts, with a state for each direction. What a pair
//! should be follows from the faults that count on each of its two roads; [`apply`] tells it to
//! turmoil.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::task::Waker;

use turmoil::Sim;

use super::Stock;
use crate::Millis;
use crate::lanes::{Lane, Purpose};
use crate::world::{World, with};

/// All roads of a world and the connections over them.
pub(super) struct Roads {
    addresses: BTreeMap<usize, IpAddr>,
    /// How long a segment takes.
    latency: RangeInclusive<Millis>,
    /// For the answers that turmoil does not send as segments.
    lane: Lane,
    roads: BTreeMap<(usize, usize), Road>,
    /// Pairs that turmoil has not been told of.
    changed: BTreeSet<(usize, usize)>,
    /// Roads that are open, though segments on them were held together with those of the
    /// other direction.
    opened: Vec<(usize, usize)>,
    pub(super) ends: Vec<End>,
    /// Resets on their way to an end, and when they arrive.
    resets: Vec<(Millis, usize)>,
    /// Who waits for a road to be opened.
    pub(super) waiting: Vec<Waker>,
}

/// What counts against segments from one node to another.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Road {
    pub(crate) holds: u32,
    pub(crate) swallows: u32,
    pub(crate) refuses: u32,
}

/// One end of a connection.
pub(super) struct End {
    pub(super) node: usize,
    pub(super) peer: usize,
    pub(super) open: bool,
    /// A reset has arrived.
    pub(super) reset: bool,
    /// Who waits for something to read.
    pub(super) waker: Option<Waker>,
}

impl Roads {
    pub(super) fn new(seed: u64, latency: RangeInclusive<Millis>) -> Self {
        Self {
            addresses: BTreeMap::new(),
            latency,
            lane: Lane::new(seed, Purpose::Network, u64::MAX),
            roads: BTreeMap::new(),
            changed: BTreeSet::new(),
            opened: Vec::new(),
            ends: Vec::new(),
            resets: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// A node's address.
    pub(super) fn name(&mut self, node: usize, address: IpAddr) {
        self.addresses.insert(node, address);
    }

    pub(super) fn address(&self, node: usize) -> IpAddr {
        self.addresses[&node]
    }

    pub(super) fn node(&self, address: IpAddr) -> usize {
        let mut all = self.addresses.iter();
        let found = all.find(|(_, known)| **known == address);
        *found.expect("every host is a node").0
    }

    pub(super) fn road(&self, from: usize, to: usize) -> Road {
        self.roads.get(&(from, to)).copied().unwrap_or_default()
    }

    /// How long an answer takes that is no segment.
    pub(super) fn delay(&mut self) -> Millis {
        self.lane.within(&self.latency)
    }
}

impl Stock {
    /// Changes what counts against segments from `from` to `to`.
    pub(crate) fn change(&mut self, from: usize, to: usize, change: impl FnOnce(&mut Road)) {
        change(self.roads.roads.entry((from, to)).or_default());
        self.roads.changed.insert((from.min(to), from.max(to)));
    }

    /// Both ends of every connection between two nodes hear of a reset, once everything that
    /// is under way has arrived.
    pub(crate) fn reset(&mut self, now: Millis, one: usize, other: usize) {
        let arrives = now + self.roads.latency.end();
        let ends = self.roads.ends.iter().enumerate();
        let between = ends.filter(|(_, end)| {
            let ends = (end.node, end.peer);
            end.open && (ends == (one, other) || ends == (other, one))
        });
        let resets: Vec<_> = between.map(|(place, _)| (arrives, place)).collect();
        self.roads.resets.extend(resets);
    }
}

/// Tells turmoil what the changed pairs are like now. `sim` is there between two steps.
pub(super) fn apply(sim: Option<&Sim<'_>>) {
    let (changed, waiting) = with(|world| {
        let roads = &mut world.stock().roads;
        let changed = std::mem::take(&mut roads.changed);
        let waiting = if changed.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut roads.waiting)
        };
        (changed, waiting)
    });
    for (one, other) in changed {
        let ((a, b), roads) = with(|world| {
            let roads = &world.stock().roads;
            let addresses = (roads.address(one), roads.address(other));
            (
                addresses,
                [(one, other), (other, one)].map(|(from, to)| roads.road(from, to)),
            )
        });
        let any_held = roads.iter().any(|road| road.holds > 0);
        match (sim, any_held) {
            (Some(sim), true) => sim.hold(a, b),
            (None, true) => turmoil::hold(a, b),
            (Some(sim), false) => sim.release(a, b),
            (None, false) => turmoil::release(a, b),
        }
        for (road, from, to, way) in [
            (roads[0], a, b, (one, other)),
            (roads[1], b, a, (other, one)),
        ] {
            match (road, sim) {
                (Road { swallows: 1.., .. }, Some(sim)) => sim.partition_oneway(from, to),
                (Road { swallows: 1.., .. }, None) => turmoil::partition_oneway(from, to),
                (Road { holds: 1.., .. }, _) => {}
                (_, sim) if any_held => {
                    match sim {
                        Some(sim) => sim.repair_oneway(from, to),
                        None => turmoil::repair_oneway(from, to),
                    }
                    with(|world| world.stock().roads.opened.push(way));
                }
                _ => {}
            }
        }
    }
    waiting.into_iter().for_each(Waker::wake);
}

/// Does what can be done between two steps alone: lets go on what `hold` has stopped on open
/// roads, and delivers resets. Whoever is told reads first what arrives in the coming step.
pub(super) fn before_step(sim: &Sim<'_>) {
    apply(Some(sim));
    let opened = with(|world| std::mem::take(&mut world.stock().roads.opened));
    for (from, to) in opened {
        let way = with(|world| {
            let roads = &world.stock().roads;
            (roads.address(from), roads.address(to))
        });
        sim.links(|links| {
            for sent in links.flatten() {
                let (source, target) = sent.pair();
                if (source.ip(), target.ip()) == way {
                    sent.deliver();
                }
            }
        });
    }
    let wakers = with(World::deliver_resets);
    wakers.into_iter().for_each(Waker::wake);
}

impl World {
    fn deliver_resets(&mut self) -> Vec<Waker> {
        let now = self.now;
        let roads = &mut self.stock().roads;
        let resets = std::mem::take(&mut roads.resets);
        let mut wakers = Vec::new();
        for (arrives, place) in resets {
            let (node, peer) = (roads.ends[place].node, roads.ends[place].peer);
            let road = roads.road(peer, node);
            if road.swallows > 0 {
                // Whatever swallows it ends in another.
                continue;
            }
            // It waits behind what is held.
            if road.holds > 0 || arrives > now {
                roads.resets.push((arrives, place));
            } else {
                let end = &mut roads.ends[place];
                end.reset = true;
                wakers.extend(end.waker.take());
            }
        }
        wakers
    }
}

/// Whether a segment or a reset has not arrived yet.
pub(super) fn any_under_way(sim: &Sim<'_>) -> bool {
    let mut any = with(|world| !world.stock().roads.resets.is_empty());
    sim.links(|links| any |= links.flatten().next().is_some());
    any
}
