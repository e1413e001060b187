//! Links: how long a segment takes, and what holds or swallows it.
//!
//! A link is the one-way road between two nodes. It is first in, first out: `turmoil-net`
//! drops what arrives out of order, and no segment of a live connection may be lost.
//! Acknowledgements without data cross at once: no program can see when they arrive.
//!
//! A reset would make `turmoil-net` forget what its receiver has not read yet, so it waits
//! until the receiver has run. Segments to a process that is gone are answered with a reset.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use bytes::Bytes;
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

use super::event::Played;
use crate::lanes::{Lane, Purpose};
use crate::net::owner;
use crate::trace::Step;
use crate::weather::{Kind, Weather};
use crate::world::{self, DueWhat, World, with};
use crate::{Millis, NodeId};

/// All links of a world and the connections that were made over them.
pub(crate) struct Network {
    seed: u64,
    latency: RangeInclusive<Millis>,
    /// By sender and receiver: 0, or one more than the link's place in `links`.
    places: Vec<u32>,
    nodes: usize,
    links: Vec<Link>,
    /// Client end and server end.
    connections: BTreeSet<(SocketAddr, SocketAddr)>,
    outgoing: Vec<Packet>,
    /// Whether so much was sent at once that its sender may wait for an acknowledgement.
    pub(crate) bulk: bool,
}

/// Below this, a message fits into the window many times over.
const BULK: usize = 4096;

struct Link {
    course: Course,
    /// How many faults refuse connections that are made over it.
    refuses: u32,
    holds: u32,
    /// What has come to the end of the link and waits, the oldest first.
    held: VecDeque<Box<Packet>>,
    swallows: u32,
}

/// When what is sent from one node to another arrives: a FIFO.
#[derive(Debug)]
pub(super) struct Course {
    lane: Lane,
    /// When the last segment arrives.
    last: Millis,
    pub(super) weather: Weather,
}

impl Course {
    pub(super) fn new(seed: u64, from: usize, to: usize) -> Self {
        Self {
            lane: Lane::new(seed, Purpose::Network, (from as u64) << 32 | to as u64),
            last: 0,
            weather: Weather::default(),
        }
    }

    /// When a segment that leaves now arrives. `opens` says whether it opens a connection.
    pub(super) fn arrival(
        &mut self,
        now: Millis,
        latency: &RangeInclusive<Millis>,
        opens: bool,
    ) -> Millis {
        let takes = self.lane.within(latency) + self.weather.delay(now, opens);
        self.last = self.last.max(now + takes);
        self.last
    }
}

impl Network {
    pub(crate) fn new(seed: u64, latency: RangeInclusive<Millis>, nodes: usize) -> Self {
        Self {
            seed,
            latency,
            places: vec![0; nodes * nodes],
            nodes,
            links: Vec::new(),
            connections: BTreeSet::new(),
            outgoing: Vec::new(),
            bulk: false,
        }
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Link {
        let place = &mut self.places[from * self.nodes + to];
        if *place == 0 {
            self.links.push(Link {
                course: Course::new(self.seed, from, to),
                refuses: 0,
                holds: 0,
                held: VecDeque::new(),
                swallows: 0,
            });
            *place = self.links.len() as u32;
        }
        &mut self.links[*place as usize - 1]
    }

    /// When a segment that leaves now arrives. `opens` says whether it opens a connection.
    fn arrival(&mut self, now: Millis, from: usize, to: usize, opens: bool) -> Millis {
        let latency = self.latency.clone();
        self.link(from, to).course.arrival(now, &latency, opens)
    }
}

impl World {
    fn send(&mut self, segment: Packet) {
        let (from, to) = (owner(segment.src).0, owner(segment.dst).0);
        let network = &mut self.net.network;
        let TcpSegment { flags, payload, .. } = tcp(&segment);
        network.bulk |= payload.len() >= BULK;
        let arrives = network.arrival(self.now, from, to, flags.syn);
        let sent = Step::Sent {
            to: self.nodes[to].id,
            flags: kind(*flags),
            payload,
        };
        self.fold(from, sent);
        self.push(arrives, DueWhat::Segment(Box::new(segment)));
    }

    fn lives(&self, address: std::net::IpAddr) -> bool {
        let (node, incarnation) = owner(address);
        self.nodes[node].alive && self.nodes[node].incarnation == incarnation
    }

    /// From now on segments from `from` to `to` wait.
    pub(super) fn hold(&mut self, from: usize, to: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.change(from, to, |road| road.holds += 1);
        }
        self.net.network.link(from, to).holds += 1;
    }

    /// Whether a probe from one node comes to the other and back.
    pub(crate) fn is_reachable(&mut self, from: usize, to: usize) -> bool {
        let mut passes = |from: usize, to: usize| match &self.stock {
            Some(stock) => stock.passes(from, to),
            None => {
                let link = self.net.network.link(from, to);
                link.holds == 0 && link.swallows == 0
            }
        };
        passes(from, to) && passes(to, from) && !self.nodes[to].dark
    }

    /// One hold less; with the last, what waited arrives, in order.
    pub(super) fn release(&mut self, from: usize, to: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.change(from, to, |road| road.holds -= 1);
        }
        let link = self.net.network.link(from, to);
        link.holds -= 1;
        if link.holds == 0 {
            for _ in 0..link.held.len() {
                self.push(self.now, DueWhat::Held(from, to));
            }
        }
    }

    /// The oldest segment that waited on a link, unless a new hold has begun.
    fn let_go(&mut self, from: usize, to: usize) -> Option<Box<Packet>> {
        let link = self.net.network.link(from, to);
        if link.holds > 0 {
            return None;
        }
        link.held.pop_front()
    }

    /// Queues a segment behind those that a hold has kept: also when it is due in the very
    /// millisecond in which the hold ends. Gives it back when the way is free.
    fn queue(&mut self, segment: Box<Packet>) -> Option<Box<Packet>> {
        let (from, to) = (owner(segment.src).0, owner(segment.dst).0);
        let link = self.net.network.link(from, to);
        if link.holds == 0 && link.held.is_empty() {
            return Some(segment);
        }
        link.held.push_back(segment);
        if link.holds == 0 {
            self.push(self.now, DueWhat::Held(from, to));
        }
        None
    }

    /// A machine loses its power, or has it again.
    pub(super) fn darken(&mut self, node: usize, dark: bool) {
        if self.nodes[node].dark == dark {
            return;
        }
        self.nodes[node].dark = dark;
        if let Some(stock) = &mut self.stock {
            stock.darken(node, dark);
        }
    }

    /// From now on no connection can be made from `from` to `to`.
    pub(super) fn refuse(&mut self, from: usize, to: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.change(from, to, |road| road.refuses += 1);
        }
        self.net.network.link(from, to).refuses += 1;
    }

    /// One reason less to refuse connections.
    pub(super) fn accept(&mut self, from: usize, to: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.change(from, to, |road| road.refuses -= 1);
        }
        self.net.network.link(from, to).refuses -= 1;
    }

    /// A fault makes segments from `from` to `to` late, from now on.
    pub(super) fn worsen(&mut self, fault: usize, from: usize, to: usize, kind: Kind) {
        let seed = self.setup.seed;
        self.weather(from, to).begin(seed, fault, (from, to), kind);
    }

    /// And it no longer does.
    pub(super) fn clear(&mut self, fault: usize, from: usize, to: usize) {
        self.weather(from, to).end(fault);
    }

    fn weather(&mut self, from: usize, to: usize) -> &mut Weather {
        match &mut self.stock {
            Some(stock) => stock.weather(from, to),
            None => &mut self.net.network.link(from, to).course.weather,
        }
    }

    /// From now on segments from `from` to `to` vanish. The connections must be reset
    /// before it ends.
    pub(super) fn swallow(&mut self, from: usize, to: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.change(from, to, |road| road.swallows += 1);
        }
        self.net.network.link(from, to).swallows += 1;
    }

    /// One reason less for segments to vanish.
    pub(super) fn unswallow(&mut self, from: usize, to: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.change(from, to, |road| road.swallows -= 1);
        }
        self.net.network.link(from, to).swallows -= 1;
    }

    /// Both ends of every connection between two nodes hear of a reset.
    pub(super) fn reset(&mut self, one: usize, other: usize) {
        if let Some(stock) = &mut self.stock {
            return stock.reset(self.now, one, other);
        }
        let between = |&(client, server): &(SocketAddr, SocketAddr)| {
            let ends = (owner(client.ip()).0, owner(server.ip()).0);
            ends == (one, other) || ends == (other, one)
        };
        let (reset, kept) = std::mem::take(&mut self.net.network.connections)
            .into_iter()
            .partition(between);
        self.net.network.connections = kept;
        let reset: BTreeSet<_> = reset;
        for (client, server) in reset {
            self.send(reset_segment(client, server, 0));
            self.send(reset_segment(server, client, 0));
        }
    }
}

fn reset_segment(from: SocketAddr, to: SocketAddr, seq: u32) -> Packet {
    let flags = TcpFlags {
        rst: true,
        ..TcpFlags::default()
    };
    let segment = TcpSegment {
        src_port: from.port(),
        dst_port: to.port(),
        seq,
        ack: 0,
        flags,
        window: 0,
        payload: Bytes::new(),
    };
    Packet {
        src: from.ip(),
        dst: to.ip(),
        ttl: 64,
        payload: Transport::Tcp(segment),
    }
}

fn tcp(packet: &Packet) -> &TcpSegment {
    let Transport::Tcp(segment) = &packet.payload else {
        unreachable!("nodes speak TCP alone");
    };
    segment
}

/// What a segment is for, beside its payload.
fn kind(flags: TcpFlags) -> &'static str {
    match flags {
        TcpFlags { rst: true, .. } => "RST",
        TcpFlags {
            syn: true,
            ack: true,
            ..
        } => "SYN-ACK",
        TcpFlags { syn: true, .. } => "SYN",
        TcpFlags { fin: true, .. } => "FIN",
        TcpFlags { .. } => "",
    }
}

impl Played<'_> {
    /// Takes what the sockets have sent and puts it onto its way. Says whether a task is
    /// ready because of it.
    pub(super) fn egress(&self) -> bool {
        if !world::take_touched() {
            return world::any_ready();
        }
        let mut outgoing = with(|world| std::mem::take(&mut world.net.network.outgoing));
        loop {
            self.guard.egress_all(&mut outgoing);
            let mut leaving = outgoing.drain(..);
            while let Some(packet) = leaving.next() {
                if with(|world| world.nodes[owner(packet.src).0].dark) {
                    // What has not left a machine before it loses power never does.
                } else if !is_bare_ack(&packet) {
                    with(|world| world.send(packet));
                } else if !is_superseded(&packet, leaving.as_slice())
                    && with(|world| world.lives(packet.dst))
                {
                    self.guard.deliver(packet);
                    // A sender that has filled its window goes on when it is acknowledged.
                    if with(|world| world.net.network.bulk) {
                        world::touch();
                    }
                }
            }
            drop(leaving);
            if !world::take_touched() {
                break;
            }
        }
        with(|world| world.net.network.outgoing = outgoing);
        world::any_ready()
    }

    /// A segment has come to the end of its link.
    pub(super) fn arrive(&self, segment: Box<Packet>) {
        if let Some(segment) = with(|world| world.queue(segment)) {
            self.hand_over(segment);
        }
    }

    /// A hold has ended, and the turn of its next segment has come.
    pub(super) fn arrive_late(&self, from: usize, to: usize) {
        if let Some(segment) = with(|world| world.let_go(from, to)) {
            self.hand_over(segment);
        }
    }

    /// Gives a segment to its receiver, unless a fault swallows it or the process is gone.
    fn hand_over(&self, packet: Box<Packet>) {
        let (from, to) = (owner(packet.src).0, owner(packet.dst).0);
        let segment = tcp(&packet);
        let TcpFlags { syn, ack, rst, .. } = segment.flags;
        let source = SocketAddr::new(packet.src, segment.src_port);
        let target = SocketAddr::new(packet.dst, segment.dst_port);
        let deliver = with(|world| {
            if world.net.network.link(from, to).swallows > 0 {
                if rst {
                    // Whatever swallows it ends in a reset: then it must reach this one too.
                    world.net.network.connections.insert((target, source));
                }
                return None;
            }
            if !world.lives(packet.dst) {
                if !rst && !world.nodes[to].dark {
                    let seq = if ack { segment_ack(&packet) } else { 0 };
                    world.send(reset_segment(target, source, seq));
                }
                return None;
            }
            if syn && !ack {
                if world.net.network.link(from, to).refuses > 0 {
                    world.send(reset_segment(target, source, 0));
                    return None;
                }
                world.net.network.connections.insert((source, target));
            }
            Some(packet)
        });
        match deliver {
            Some(packet) if rst => self.tell_of_reset(packet),
            Some(packet) => self.deliver(packet),
            None => {}
        }
    }

    /// Tells a process that a connection is reset, once it can hear.
    pub(super) fn tell_of_reset(&self, reset: Box<Packet>) {
        let to = owner(reset.dst).0;
        let deliver = with(|world| {
            let lives = world.lives(reset.dst);
            if lives && !world.nodes[to].pauses.is_empty() {
                world.nodes[to].waiting_resets.push(*reset);
                return None;
            }
            lives.then_some(reset)
        });
        if let Some(reset) = deliver {
            self.deliver(reset);
        }
    }

    fn deliver(&self, packet: Box<Packet>) {
        let TcpFlags { syn, fin, rst, .. } = tcp(&packet).flags;
        let (from, to) = (owner(packet.src).0, owner(packet.dst).0);
        with(|world| {
            let arrived = Step::Arrived {
                from: world.nodes[from].id,
                flags: kind(tcp(&packet).flags),
                length: tcp(&packet).payload.len(),
            };
            world.fold(to, arrived);
        });
        self.guard.deliver(*packet);
        // Data alone is only acknowledged; that may wait until somebody sends something, save
        // where a sender waits for it.
        if syn || fin || rst || with(|world| world.net.network.bulk) {
            world::touch();
        }
    }
}

/// An acknowledgement that carries nothing else.
fn is_bare_ack(packet: &Packet) -> bool {
    let TcpFlags {
        syn, ack, fin, rst, ..
    } = tcp(packet).flags;
    ack && !syn && !fin && !rst && tcp(packet).payload.is_empty()
}

/// Whether one of the segments that leave behind a bare acknowledgement carries it too. A
/// handshake's last acknowledgement is not superseded: data that came instead would be lost.
fn is_superseded(ack: &Packet, later: &[Packet]) -> bool {
    let way = |packet: &Packet| {
        let TcpSegment {
            src_port, dst_port, ..
        } = *tcp(packet);
        (packet.dst, dst_port, src_port, packet.src)
    };
    tcp(ack).seq & ISN_STEP_MASK != 1
        && later
            .iter()
            .take(LOOK_AHEAD)
            .any(|next| way(next) == way(ack) && tcp(next).flags.ack)
}

/// `turmoil-net` begins every connection at a multiple of this step, so that the handshake's
/// last acknowledgement is one above it.
const ISN_STEP_MASK: u32 = 0xffff;

/// How far behind an acknowledgement data is looked for: what a client that asks many servers
/// at once sends in one go.
const LOOK_AHEAD: usize = 16;

fn segment_ack(packet: &Packet) -> u32 {
    tcp(packet).ack
}

/// Every ordered pair of a node of `a` and a node of `b`.
pub(super) fn pairs(world: &World, a: &[NodeId], b: &[NodeId]) -> Vec<(usize, usize)> {
    let other = |&one: &NodeId| b.iter().map(move |&other| (one, other));
    let pairs = a.iter().flat_map(other).filter(|(one, other)| one != other);
    pairs
        .map(|(one, other)| (world.index(one), world.index(other)))
        .collect()
}
