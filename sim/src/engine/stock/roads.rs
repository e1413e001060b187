//! What holds or swallows segments on turmoil's links.
//!
//! turmoil has links between pairs of hosts, with a state for each direction. What a pair
//! should be follows from the faults that count on each of its two roads; [`apply`] tells it to
//! turmoil.
//!
//! turmoil draws one latency for all that a pair sends, and has no draws of a fault's own. So a
//! pair between which it is ever slow or lossy is *guided*: turmoil holds whatever it sends, and
//! [`before_step`] lets each segment go in the millisecond that its [`Course`] says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::task::Waker;

use turmoil::{Protocol, Segment, Sim};

use super::super::Setup;
use super::super::network::Course;
use super::Stock;
use crate::fault::Fault;
use crate::lanes::{Lane, Purpose};
use crate::weather::Weather;
use crate::world::{World, with};
use crate::{Millis, NodeId};

/// All roads of a world and the connections over them.
pub(super) struct Roads {
    addresses: BTreeMap<usize, IpAddr>,
    /// How long a segment takes.
    latency: RangeInclusive<Millis>,
    /// For the answers that turmoil does not send as segments.
    lane: Lane,
    roads: BTreeMap<(usize, usize), Road>,
    guided: BTreeMap<(usize, usize), Guided>,
    /// Machines without power of which something is still under way.
    fading: BTreeSet<usize>,
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
    /// Machines without power at its ends.
    pub(crate) darks: u32,
    pub(crate) refuses: u32,
}

impl Road {
    /// Whether what is sent over it never arrives.
    pub(super) fn is_lost(self) -> bool {
        self.swallows > 0 || self.darks > 0
    }
}

/// The segments of a road that are let go one by one.
struct Guided {
    course: Course,
    /// When those arrive that turmoil holds, the oldest first.
    arrivals: VecDeque<Millis>,
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
    /// The roads of a world. `index` says which node is which.
    pub(super) fn new(setup: &Setup, index: impl Fn(NodeId) -> usize) -> Self {
        let mut guided = BTreeMap::new();
        for planned in &setup.plan.0 {
            let (Fault::Slow { a, b, .. } | Fault::Loss { a, b, .. }) = &planned.fault else {
                continue;
            };
            let pairs = a
                .iter()
                .flat_map(|one| b.iter().map(move |other| (one, other)));
            for (one, other) in pairs.filter(|(one, other)| one != other) {
                let (one, other) = (index(*one), index(*other));
                for (from, to) in [(one, other), (other, one)] {
                    guided.entry((from, to)).or_insert_with(|| Guided {
                        course: Course::new(setup.seed, from, to),
                        arrivals: VecDeque::new(),
                    });
                }
            }
        }
        Self {
            addresses: BTreeMap::new(),
            latency: setup.latency.clone(),
            lane: Lane::new(setup.seed, Purpose::Network, u64::MAX),
            roads: BTreeMap::new(),
            // turmoil hears of them before the first step.
            changed: guided.keys().filter(|(a, b)| a < b).copied().collect(),
            guided,
            fading: BTreeSet::new(),
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

    /// How long the answer to a SYN takes, which is no segment.
    pub(super) fn answers(&mut self, now: Millis, from: usize, to: usize) -> Millis {
        match self.guided.get_mut(&(from, to)) {
            Some(guided) => guided.course.arrival(now, &self.latency, true) - now,
            None => self.lane.within(&self.latency),
        }
    }

    /// Says for every segment that turmoil holds on a guided road whether it has come to its
    /// end. Segments must be asked for in the order in which they were sent, from the oldest on:
    /// `place` counts them. One that was not asked for before has just been sent.
    fn has_come(&mut self, way: (usize, usize), place: usize, now: Millis, opens: bool) -> bool {
        let holds = self.road(way.0, way.1).holds > 0;
        let Some(guided) = self.guided.get_mut(&way) else {
            return false;
        };
        if place == guided.arrivals.len() {
            let arrives = guided.course.arrival(now, &self.latency, opens);
            guided.arrivals.push_back(arrives);
        }
        !holds && guided.arrivals[place] <= now
    }
}

impl Stock {
    /// The weather on a guided road.
    pub(crate) fn weather(&mut self, from: usize, to: usize) -> &mut Weather {
        let guided = self.roads.guided.get_mut(&(from, to));
        &mut guided
            .expect("the plan says where it is slow")
            .course
            .weather
    }

    /// A machine has lost its power, or has it again: whatever is sent to it is lost, and later
    /// what its dead process sends when it is dropped.
    pub(crate) fn darken(&mut self, node: usize, dark: bool) {
        let others = (0..self.hosts.len()).filter(|other| *other != node);
        let was_fading = self.roads.fading.remove(&node);
        for other in others {
            if dark {
                self.change(other, node, |road| road.darks += 1);
                continue;
            }
            self.change(other, node, |road| road.darks -= 1);
            if !was_fading {
                self.change(node, other, |road| road.darks -= 1);
            }
        }
        if dark {
            self.roads.fading.insert(node);
        }
    }

    /// Nothing more comes from a machine without power.
    fn shut(&mut self, node: usize) {
        self.roads.fading.remove(&node);
        for other in (0..self.hosts.len()).filter(|other| *other != node) {
            self.change(node, other, |road| road.darks += 1);
        }
        self.hosts[node].wake();
    }

    /// Whether a machine has lost its power, and something is still under way that it has sent.
    pub(super) fn is_fading(&self, node: usize) -> bool {
        self.roads.fading.contains(&node)
    }

    /// Whether what is sent from one node to another arrives now.
    pub(crate) fn passes(&self, from: usize, to: usize) -> bool {
        let road = self.roads.road(from, to);
        road.holds == 0 && !road.is_lost()
    }

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
        let guided = with(|world| world.stock().roads.guided.contains_key(&(one, other)));
        let any_held = guided || roads.iter().any(|road| road.holds > 0);
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
                (road, Some(sim)) if road.is_lost() => sim.partition_oneway(from, to),
                (road, None) if road.is_lost() => turmoil::partition_oneway(from, to),
                (Road { holds: 1.., .. }, _) => {}
                (_, sim) if any_held && !guided => {
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
    guide(sim, true);
    fade(sim);
    let wakers = with(World::deliver_resets);
    wakers.into_iter().for_each(Waker::wake);
}

/// Draws how long those segments take that have been sent in a step.
pub(super) fn after_step(sim: &Sim<'_>) {
    guide(sim, false);
}

/// Looks after guided roads, and lets go what has come to their ends.
fn guide(sim: &Sim<'_>, lets_go: bool) {
    if with(|world| world.stock().roads.guided.is_empty()) {
        return;
    }
    let mut places: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    sim.links(|links| {
        for sent in links.flatten() {
            let (source, target) = sent.pair();
            let opens = matches!(sent.protocol(), Protocol::Tcp(Segment::Syn(_)));
            let goes = with(|world| {
                let now = world.now;
                let roads = &mut world.stock().roads;
                let way = (roads.node(source.ip()), roads.node(target.ip()));
                let (place, gone) = places.entry(way).or_default();
                let goes = roads.has_come(way, *place, now, opens) && lets_go;
                *place += 1;
                *gone += usize::from(goes);
                goes
            });
            if goes {
                sent.deliver();
            }
        }
    });
    with(|world| {
        let guided = &mut world.stock().roads.guided;
        for (way, (_, gone)) in places {
            if let Some(guided) = guided.get_mut(&way) {
                guided.arrivals.drain(..gone);
            }
        }
    });
}

/// Shuts the roads that lead away from a machine without power, once everything has arrived that
/// had left it: turmoil loses what is under way on a road that is shut.
fn fade(sim: &Sim<'_>) {
    let mut silent = with(|world| world.stock().roads.fading.clone());
    if silent.is_empty() {
        return;
    }
    sim.links(|links| {
        for sent in links.flatten() {
            let (source, _) = sent.pair();
            silent.remove(&with(|world| world.stock().roads.node(source.ip())));
        }
    });
    for node in silent {
        with(|world| world.stock().shut(node));
    }
    apply(Some(sim));
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
            if road.is_lost() {
                // Whatever swallows it ends in another, and nobody is told of a power loss.
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
