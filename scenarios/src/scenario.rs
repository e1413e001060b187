//! What a scenario is: a world, clients, work, faults, and what is expected of whom.
//!
//! Ranges are drawn from the seed; see [`instance`](crate::instance).

use std::ops::RangeInclusive;

use algorithms::{Assumption, Declaration, Family, Service, Settings, Works};
use sim::engine::Engine;
use sim::fault::{Data, Point};
use sim::redis::{Deployment, Persistence, Sentinels, Shape};
use sim::{Millis, NodeId, store, weather};

use crate::landmark::Landmark;
use crate::work::WorkKind;

/// A scenario.
#[derive(Clone)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// One line.
    pub title: String,
    /// The incident, told.
    pub story: String,
    /// The moment that makes it worth running.
    pub reaches: Option<Landmark>,
    /// The most seeds that are worth their cost.
    pub seeds: Option<u64>,
    /// How many clients there are.
    pub clients: u16,
    /// How the Redis servers are set up, where that is the subject.
    pub redis: Option<RedisShape>,
    /// What they write to disk.
    pub persistence: Persistence,
    /// One-way delays.
    pub latency: RangeInclusive<Millis>,
    /// When a run ends at the latest.
    pub ends: Millis,
    /// How long a client waits before it tries to acquire again.
    pub retry: RangeInclusive<Millis>,
    /// How long a client waits for Redis.
    pub redis_timeout: Millis,
    /// How long a client waits for the store.
    pub store_timeout: Millis,
    /// How the store is set up.
    pub store: store::Settings,
    /// The lock's parameters.
    pub lock: Settings,
    /// The kind of work.
    pub work: &'static dyn WorkKind,
    /// How many lock keys the items spread over.
    pub keys: u16,
    /// How many items each client has.
    pub items: u16,
    /// How long an item takes.
    pub takes: RangeInclusive<Millis>,
    /// How long client-1's first item takes, where that is something else.
    pub first_takes: Option<RangeInclusive<Millis>>,
    /// How often the work may be done, where it says so.
    pub limit: i64,
    /// What goes wrong.
    pub faults: Vec<FaultRange>,
    /// What is expected of whom.
    pub expect: Vec<Expectation>,
}

/// How the Redis servers of a scenario are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisShape {
    /// One server.
    Single,
    /// A master and its replicas.
    Replicated {
        /// How many copy it.
        replicas: u16,
        /// Who watches over it.
        sentinels: Sentinels,
    },
}

/// For how long a server must be silent to be taken for dead, where a scenario does not say it.
const DOWN_AFTER: Millis = 2_000;

/// A fault before it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRange {
    /// What happens.
    pub kind: FaultKind,
    /// When.
    pub when: WhenRange,
}

/// When a fault strikes, before it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhenRange {
    /// At a time of the world.
    At(RangeInclusive<Millis>),
    /// At a point of a client.
    Point {
        /// Which client, counted from one.
        client: u16,
        /// Which point.
        point: Point,
        /// Which time, counted from one.
        nth: u32,
    },
}

/// What happens, before it is drawn. The kinds are those of [`sim::fault::Fault`] that an
/// engine plays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// See [`sim::fault::Fault::Pause`].
    Pause {
        /// Who.
        node: Role,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Suspend`].
    Suspend {
        /// Who.
        node: Role,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Crash`].
    Crash {
        /// Who.
        node: Role,
    },
    /// See [`sim::fault::Fault::ThreadDeath`].
    ThreadDeath {
        /// Which client's.
        node: Role,
    },
    /// See [`sim::fault::Fault::PowerLoss`].
    PowerLoss {
        /// Who.
        node: Role,
    },
    /// See [`sim::fault::Fault::Restart`].
    Restart {
        /// Who.
        node: Role,
        /// The time between crash and start.
        after: RangeInclusive<Millis>,
        /// What the disk gives back.
        data: Data,
    },
    /// See [`sim::fault::Fault::Hold`].
    Hold {
        /// The two sides.
        between: (Role, Role),
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Reset`].
    Reset {
        /// The two sides.
        between: (Role, Role),
    },
    /// See [`sim::fault::Fault::Refuse`].
    Refuse {
        /// Who connects.
        from: Role,
        /// Who refuses.
        to: Role,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::OneWay`].
    OneWay {
        /// Whose bytes are held.
        from: Role,
        /// Who waits for them.
        to: Role,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Slow`].
    Slow {
        /// The two sides.
        between: (Role, Role),
        /// The scale of what is added.
        by: RangeInclusive<Millis>,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Loss`].
    Loss {
        /// The two sides.
        between: (Role, Role),
        /// How many of a hundred transmissions are lost.
        percent: RangeInclusive<Millis>,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::DropReplies`].
    DropReplies {
        /// Who asks.
        to: Role,
        /// Whose answers are lost.
        from: Role,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Failover`].
    Failover {
        /// The master that is replaced.
        node: Role,
    },
    /// See [`sim::fault::Fault::ReplicaLag`].
    ReplicaLag {
        /// Which servers.
        node: Role,
        /// For how long.
        lasts: RangeInclusive<Millis>,
    },
    /// See [`sim::fault::Fault::Flush`].
    Flush {
        /// Which servers.
        node: Role,
    },
    /// See [`sim::fault::Fault::Evict`].
    Evict {
        /// Which servers.
        node: Role,
    },
    /// See [`sim::fault::Fault::ClockStep`].
    ClockStep {
        /// Whose clock.
        node: Role,
        /// By how much.
        by: RangeInclusive<i64>,
    },
    /// See [`sim::fault::Fault::ClockRate`].
    ClockRate {
        /// Whose clock.
        node: Role,
        /// How fast.
        ppm: RangeInclusive<i64>,
    },
    /// See [`sim::fault::Fault::ClockOffset`].
    ClockOffset {
        /// Whose clock.
        node: Role,
        /// By how much.
        by: RangeInclusive<i64>,
    },
}

/// Nodes by the part they play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// One client, counted from one.
    Client(u16),
    /// Every server that the lock lives on.
    Lock,
    /// One of them, counted from one.
    LockServer(u16),
    /// Every sentinel.
    Sentinels,
    /// One of them, counted from one.
    Sentinel(u16),
    /// The store.
    Store,
}

/// What is expected of one algorithm, or of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The family or the algorithm.
    pub of: String,
    /// Violations that at least one run in ten shows.
    pub must: Vec<&'static str>,
    /// Violations that are allowed at any rate.
    pub may: Vec<&'static str>,
    /// Why.
    pub why: String,
}

impl Role {
    /// The nodes that play it, where the lock lives on `lock` and has so many sentinels.
    pub fn nodes(self, lock: &[NodeId], sentinels: u16) -> Vec<NodeId> {
        match self {
            Self::Client(number) => vec![NodeId::Client(number)],
            Self::Lock => lock.to_vec(),
            Self::LockServer(number) => vec![NodeId::Lock(number)],
            Self::Sentinels => (1..=sentinels).map(NodeId::Sentinel).collect(),
            Self::Sentinel(number) => vec![NodeId::Sentinel(number)],
            Self::Store => vec![NodeId::Store],
        }
    }
}

impl FaultKind {
    /// Every role that it touches.
    pub fn roles(&self) -> Vec<Role> {
        match *self {
            Self::Pause { node, .. }
            | Self::Suspend { node, .. }
            | Self::ClockRate { node, .. }
            | Self::ClockOffset { node, .. }
            | Self::Crash { node }
            | Self::ThreadDeath { node }
            | Self::PowerLoss { node }
            | Self::Failover { node }
            | Self::ReplicaLag { node, .. }
            | Self::Flush { node }
            | Self::Evict { node }
            | Self::Restart { node, .. }
            | Self::ClockStep { node, .. } => vec![node],
            Self::Hold {
                between: (a, b), ..
            }
            | Self::Slow {
                between: (a, b), ..
            }
            | Self::Loss {
                between: (a, b), ..
            }
            | Self::Reset { between: (a, b) } => vec![a, b],
            Self::DropReplies { to, from, .. } => vec![to, from],
            Self::Refuse { from, to, .. } | Self::OneWay { from, to, .. } => vec![from, to],
        }
    }

    /// Why it cannot happen to the lock, which lives on something other than Redis.
    fn why_redis_alone(&self, service: Service) -> Option<String> {
        let on_lock = |role: &Role| matches!(role, Role::Lock | Role::LockServer(_));
        let takes_keys = match self {
            Self::Restart {
                node,
                data: Data::Lost,
                ..
            }
            | Self::Flush { node }
            | Self::Evict { node } => on_lock(node),
            _ => false,
        };
        takes_keys.then(|| match service {
            Service::Store => "it lives in the database, which keeps its data".into(),
            _ => "it lives on a quorum, which keeps its data".into(),
        })
    }

    /// How long it can go on, the last segment that it delays included; or how far it can step;
    /// or by how much it can prolong a lease of `ttl`.
    pub fn longest(&self, ttl: Millis) -> Millis {
        match self {
            Self::Pause { lasts, .. }
            | Self::Suspend { lasts, .. }
            | Self::Hold { lasts, .. }
            | Self::Refuse { lasts, .. }
            | Self::OneWay { lasts, .. }
            | Self::ReplicaLag { lasts, .. }
            | Self::DropReplies { lasts, .. } => *lasts.end(),
            Self::Restart { after, .. } => *after.end(),
            Self::ClockStep { by, .. } => by.start().unsigned_abs().max(by.end().unsigned_abs()),
            // What is sent last may arrive so much later.
            Self::Slow { by, lasts, .. } => lasts.end() + weather::TAIL * by.end(),
            Self::Loss { lasts, .. } => {
                let last = lasts.end() + weather::FIRST_RETRANSMISSION;
                lasts.end() + last.min(weather::LONGEST_RETRANSMISSION)
            }
            // A slow clock lets a lease last for longer; a wrong one measures it with itself.
            Self::ClockRate { ppm, .. } => {
                let slowest = 1_000_000_u64.saturating_add_signed(*ppm.start());
                (ttl * 1_000_000).div_ceil(slowest).saturating_sub(ttl)
            }
            Self::Crash { .. }
            | Self::ThreadDeath { .. }
            | Self::PowerLoss { .. }
            | Self::Failover { .. }
            | Self::Flush { .. }
            | Self::Evict { .. }
            | Self::Reset { .. }
            | Self::ClockOffset { .. } => 0,
        }
    }
}

/// The points of every section. `acquire-sent` is among them where there is a server to send to.
const SECTION_POINTS: &[Point] = &[
    Point::Granted,
    Point::BeforeRead,
    Point::ReadChecked,
    Point::AfterRead,
    Point::BeforeWrite,
    Point::WriteChecked,
    Point::AfterWrite,
    Point::BeforeRelease,
    Point::Released,
];

impl Scenario {
    /// Why an algorithm cannot meet this scenario, decided from what it declares: a fault
    /// names a point that it never reaches, or a server that it does not use. Or why the engine
    /// cannot play it.
    pub fn not_applicable(&self, declaration: &Declaration, engine: &dyn Engine) -> Option<String> {
        self.beyond(declaration).or_else(|| {
            let (name, most) = (engine.name(), engine.most_clients());
            let too_many = self.clients > most;
            too_many.then(|| format!("the {name} engine plays at most {most} clients"))
        })
    }

    /// How many Redis servers a lock has here that needs `service`, and how they are set up. One
    /// that needs one server also runs on a master with replicas.
    pub fn servers(&self, service: Service) -> (u16, Deployment) {
        let (servers, shape) = match (service, self.redis) {
            (
                Service::Redis | Service::Replicated { .. },
                Some(RedisShape::Replicated {
                    replicas,
                    sentinels,
                }),
            ) => (1 + replicas, Shape::Replicated(sentinels)),
            (Service::Replicated { sentinels, .. }, _) => {
                let sentinels = Sentinels {
                    number: sentinels,
                    down_after: DOWN_AFTER,
                };
                (service.servers(), Shape::Replicated(sentinels))
            }
            _ => (service.servers(), Shape::Independent),
        };
        let persistence = self.persistence;
        (servers, Deployment { shape, persistence })
    }

    /// What the scenario asks of an algorithm that it does not have.
    fn beyond(&self, declaration: &Declaration) -> Option<String> {
        let kind = self.work.name();
        if !declaration.works.includes(kind) {
            return Some(format!("it cannot do the work `{kind}`"));
        }
        // Where the store chooses the job, its row is the lock.
        if matches!(declaration.works, Works::Only(&["queue"])) && self.keys != self.items {
            return Some("each job is a lock of its own: it needs as many keys as items".into());
        }
        let service = declaration.service;
        let (servers, deployment) = self.servers(service);
        let of_redis = self.redis.is_some() || self.persistence != Persistence::default();
        let misfit = match (self.redis, service) {
            (_, Service::None | Service::Store | Service::Coordination) if of_redis => {
                Some("it lives on no Redis server")
            }
            (Some(_), Service::Independent(_) | Service::InTurn(_)) => {
                Some("it needs servers that know nothing of each other")
            }
            (Some(RedisShape::Single), Service::Replicated { .. }) => {
                Some("it needs a master with replicas")
            }
            _ => None,
        };
        if let Some(misfit) = misfit {
            return Some(misfit.into());
        }
        let all_at_once = declaration.family == Family::LockFree
            || declaration.assumes.contains(&Assumption::OwnSession);
        if all_at_once && self.reaches.is_some_and(Landmark::wants_a_waiter) {
            return Some("nobody waits for anybody with it".into());
        }
        self.faults.iter().find_map(|fault| {
            let missing = fault.kind.roles().into_iter().find_map(|role| match role {
                Role::Sentinels if deployment.sentinel_count() == 0 => {
                    Some("no sentinel watches over it".into())
                }
                Role::Sentinel(number) if deployment.sentinel_count() < number => {
                    Some(format!("no sentinel-{number} watches over it"))
                }
                Role::Lock if service == Service::None => Some("it lives on no server".into()),
                Role::LockServer(number) if servers < number => {
                    Some(format!("it does not use lock-{number}"))
                }
                _ => None,
            });
            let of_redis = || {
                let keeps = matches!(service, Service::Coordination | Service::Store);
                keeps.then(|| fault.kind.why_redis_alone(service))?
            };
            missing.or_else(of_redis).or_else(|| match fault.when {
                WhenRange::Point {
                    point: Point::AcquireSent,
                    ..
                } if matches!(fault.kind, FaultKind::DropReplies { .. })
                    && matches!(declaration.service, Service::InTurn(_)) =>
                {
                    Some("it has most answers before it sends its last request".into())
                }
                WhenRange::Point { point, .. } => {
                    let reaches = SECTION_POINTS.contains(&point)
                        || declaration.points.contains(&point)
                        || (point == Point::AcquireSent && declaration.service != Service::None);
                    (!reaches).then(|| format!("it never reaches {point}"))
                }
                WhenRange::At(_) => None,
            })
        })
    }

    /// What is expected of an algorithm: by its name, or else by its family.
    pub fn expectation(&self, name: &str, declaration: &Declaration) -> Option<&Expectation> {
        let of = |subject: &str| {
            self.expect
                .iter()
                .find(|expectation| expectation.of == subject)
        };
        of(name).or_else(|| of(declaration.family.name()))
    }
}
