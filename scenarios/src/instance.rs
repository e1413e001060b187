//! A scenario drawn under a seed: nothing is left to chance from here on.
//!
//! The plan and the work depend on seed and scenario alone, so two algorithms under one seed
//! meet identical trouble. Every draw has a lane of its own (which fault, which of its
//! numbers; which client), so a new knob reshuffles nothing.

use std::ops::RangeInclusive;

use algorithms::Service;
use sim::fault::{Fault, Plan, Planned, When};
use sim::{Lane, Millis, NodeId, Purpose, Setup};

use crate::scenario::{FaultKind, FaultRange, Role, Scenario, WhenRange};

/// One world to play, and the work in it.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The world.
    pub setup: Setup,
    /// Every client's items, in order.
    pub work: Vec<Vec<DrawnItem>>,
    /// What the lock lives on.
    pub service: Service,
}

/// An item of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawnItem {
    /// The lock's key.
    pub key: String,
    /// The row in the store.
    pub row: u32,
    /// How long it takes.
    pub takes: Millis,
    /// How long the client rests afterwards.
    pub rest: Millis,
}

/// How long a client rests after an item.
const REST: RangeInclusive<Millis> = 0..=100;

impl Instance {
    /// Draws a scenario for a lock that lives on `service`.
    pub fn draw(scenario: &Scenario, seed: u64, service: Service) -> Self {
        let (servers, deployment) = scenario.servers(service);
        let sentinels = deployment.sentinel_count();
        let lock = service.nodes(servers);
        let faults = scenario.faults.iter().enumerate();
        let plan = faults
            .map(|(place, fault)| {
                draw_fault(fault, seed, place, |role| role.nodes(&lock, sentinels))
            })
            .collect();
        let setup = Setup {
            seed,
            clients: scenario.clients,
            servers,
            deployment,
            latency: scenario.latency.clone(),
            ends: scenario.ends,
            redis_timeout: scenario.redis_timeout,
            store_timeout: scenario.store_timeout,
            software: service.software(),
            store: sim::store::Settings {
                starts_at: scenario.work.starts_at(scenario.limit),
                ..scenario.store.clone()
            },
            plan: Plan(plan),
        };
        let work = (0..scenario.clients)
            .map(|client| draw_work(scenario, seed, client))
            .collect();
        Self {
            setup,
            work,
            service,
        }
    }

    /// The faults of the plan that hold the links from client-1 to the lock's servers, whether or
    /// not they hold the way back, too.
    pub fn cuts(&self) -> Vec<usize> {
        let lock = self.service.nodes(self.setup.servers);
        let cuts = self.setup.plan.0.iter().enumerate().filter(|(_, planned)| {
            let sides = |a: &[NodeId], b: &[NodeId]| {
                a.contains(&NodeId::Client(1)) && b.iter().any(|n| lock.contains(n))
            };
            match &planned.fault {
                Fault::Hold { a, b, .. } => sides(a, b) || sides(b, a),
                Fault::OneWay { a, b, .. } => sides(a, b),
                _ => false,
            }
        });
        cuts.map(|(place, _)| place).collect()
    }
}

fn draw_work(scenario: &Scenario, seed: u64, client: u16) -> Vec<DrawnItem> {
    let mut lane = Lane::new(seed, Purpose::Work, u64::from(client));
    let items = (0..scenario.items).map(|item| {
        let place = scenario.work.place(client, item, scenario.keys);
        let first = scenario
            .first_takes
            .as_ref()
            .filter(|_| (client, item) == (0, 0));
        let takes = lane.within(first.unwrap_or(&scenario.takes));
        let rest = lane.within(&REST);
        DrawnItem {
            key: format!("lock:{}", place.key + 1),
            row: place.row,
            takes,
            rest,
        }
    });
    items.collect()
}

fn draw_fault(
    fault: &FaultRange,
    seed: u64,
    place: usize,
    nodes: impl Fn(&Role) -> Vec<NodeId>,
) -> Planned {
    let draw = |which: u64, range: &RangeInclusive<Millis>| {
        Lane::new(seed, Purpose::Faults, (place as u64) << 8 | which).within(range)
    };
    let (when, length, strength) = (0, 1, 2);
    let draw_signed = |range: &RangeInclusive<i64>| {
        let width = range.end().abs_diff(*range.start());
        range.start() + draw(length, &(0..=width)) as i64
    };
    let drawn = match &fault.kind {
        FaultKind::Pause { node, lasts } => Fault::Pause {
            nodes: nodes(node),
            lasts: draw(length, lasts),
        },
        FaultKind::Suspend { node, lasts } => Fault::Suspend {
            nodes: nodes(node),
            lasts: draw(length, lasts),
        },
        FaultKind::Crash { node } => Fault::Crash { nodes: nodes(node) },
        FaultKind::ThreadDeath { node } => Fault::ThreadDeath { nodes: nodes(node) },
        FaultKind::PowerLoss { node } => Fault::PowerLoss { nodes: nodes(node) },
        FaultKind::Restart { node, after, data } => Fault::Restart {
            nodes: nodes(node),
            after: draw(length, after),
            data: *data,
        },
        FaultKind::Hold {
            between: (a, b),
            lasts,
        } => Fault::Hold {
            a: nodes(a),
            b: nodes(b),
            lasts: draw(length, lasts),
        },
        FaultKind::Reset { between: (a, b) } => Fault::Reset {
            a: nodes(a),
            b: nodes(b),
        },
        FaultKind::Refuse { from, to, lasts } => Fault::Refuse {
            a: nodes(from),
            b: nodes(to),
            lasts: draw(length, lasts),
        },
        FaultKind::OneWay { from, to, lasts } => Fault::OneWay {
            a: nodes(from),
            b: nodes(to),
            lasts: draw(length, lasts),
        },
        FaultKind::Slow {
            between: (a, b),
            by,
            lasts,
        } => Fault::Slow {
            a: nodes(a),
            b: nodes(b),
            by: draw(strength, by),
            lasts: draw(length, lasts),
        },
        FaultKind::Loss {
            between: (a, b),
            percent,
            lasts,
        } => Fault::Loss {
            a: nodes(a),
            b: nodes(b),
            percent: draw(strength, percent) as u32,
            lasts: draw(length, lasts),
        },
        FaultKind::DropReplies { to, from, lasts } => Fault::DropReplies {
            a: nodes(to),
            b: nodes(from),
            lasts: draw(length, lasts),
        },
        FaultKind::Failover { node } => Fault::Failover { nodes: nodes(node) },
        FaultKind::ReplicaLag { node, lasts } => Fault::ReplicaLag {
            nodes: nodes(node),
            lasts: draw(length, lasts),
        },
        FaultKind::Flush { node } => Fault::Flush { nodes: nodes(node) },
        FaultKind::Evict { node } => Fault::Evict { nodes: nodes(node) },
        FaultKind::ClockStep { node, by } => Fault::ClockStep {
            nodes: nodes(node),
            by: draw_signed(by),
        },
        FaultKind::ClockRate { node, ppm } => Fault::ClockRate {
            nodes: nodes(node),
            ppm: draw_signed(ppm),
        },
        FaultKind::ClockOffset { node, by } => Fault::ClockOffset {
            nodes: nodes(node),
            by: draw_signed(by),
        },
    };
    let when = match &fault.when {
        WhenRange::At(at) => When::At(draw(when, at)),
        WhenRange::Point { client, point, nth } => When::Point {
            client: NodeId::Client(*client),
            point: *point,
            nth: *nth,
        },
    };
    Planned { fault: drawn, when }
}
