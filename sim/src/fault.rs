//! What goes wrong, as data.
//!
//! A [`Fault`] can be printed, shrunk and replayed; a [`Plan`] is all of a run's faults. The
//! engine matches on every kind, so the compiler shows where a new one must be handled.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Millis, NodeId};

/// Some nodes of a world.
pub type Nodes = Vec<NodeId>;

/// All faults of one run, in the order of the scenario file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan(pub Vec<Planned>);

/// One fault and when it strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// What happens.
    pub fault: Fault,
    /// When it happens.
    pub when: When,
}

impl Planned {
    /// Whether it is there before anything runs.
    ///
    /// # Panics
    ///
    /// If it would have to be and strikes later.
    pub fn is_from_the_start(&self) -> bool {
        let is = matches!(self.fault, Fault::ClockOffset { .. });
        let when = &self.when;
        assert!(
            !is || *when == When::At(0),
            "a clock is wrong from the start, not {when:?}"
        );
        is
    }
}

/// When a fault strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// At this time of the world.
    At(Millis),
    /// The moment `client` reaches `point` for the `nth` time in the run, counted from one.
    Point {
        /// The client whose step it is.
        client: NodeId,
        /// The step.
        point: Point,
        /// Which time.
        nth: u32,
    },
}

/// A named step of a section where a fault can be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The attempt's request to each server of the lock has been written to its socket.
    AcquireSent,
    /// Between the two steps of a lock that takes itself in two: two commands, or a look at the clock
    /// and the command that carries what it showed.
    MidAcquire,
    /// Acquire has returned a lease.
    Granted,
    /// Before the look that comes before the read.
    BeforeRead,
    /// After that look; nothing but the send follows.
    ReadChecked,
    /// The store has answered the read.
    AfterRead,
    /// The work is done; before the look that comes before the write.
    BeforeWrite,
    /// After that look; nothing but the send follows.
    WriteChecked,
    /// The store has answered the write.
    AfterWrite,
    /// Before release is called. The belief has not ended yet.
    BeforeRelease,
    /// Release has returned.
    Released,
    /// A renewer is about to refresh its lease.
    RenewDue,
}

impl Point {
    /// Every point, in the order in which a section passes them.
    pub const ALL: &[Self] = &[
        Self::AcquireSent,
        Self::MidAcquire,
        Self::Granted,
        Self::BeforeRead,
        Self::ReadChecked,
        Self::AfterRead,
        Self::BeforeWrite,
        Self::WriteChecked,
        Self::AfterWrite,
        Self::BeforeRelease,
        Self::Released,
        Self::RenewDue,
    ];

    /// The name in scenario files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AcquireSent => "acquire-sent",
            Self::MidAcquire => "mid-acquire",
            Self::Granted => "granted",
            Self::BeforeRead => "before-read",
            Self::ReadChecked => "read-checked",
            Self::AfterRead => "after-read",
            Self::BeforeWrite => "before-write",
            Self::WriteChecked => "write-checked",
            Self::AfterWrite => "after-write",
            Self::BeforeRelease => "before-release",
            Self::Released => "released",
            Self::RenewDue => "renew-due",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a restarted server still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Everything it had.
    Kept,
    /// What a Redis server had written to its disk; see [`Persistence`](crate::redis::Persistence).
    OnDisk,
    /// Nothing.
    Lost,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Fault {
    /// The nodes' code stands still; their clocks and sockets do not. As a stop-the-world
    /// garbage collection, or SIGSTOP.
    Pause {
        /// Who stands still.
        nodes: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// As a pause, but the monotonic clock stands still too, as in a suspended VM. The wall clock
    /// goes on, and so do the sockets. Timers wait for what was left of their time.
    Suspend {
        /// Who is suspended.
        nodes: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// The processes are killed: code is gone, the kernel sends what was written and closes
    /// the connections.
    Crash {
        /// Who dies.
        nodes: Nodes,
    },
    /// The threads that do the clients' work die, and their processes live on: they never go on
    /// with what they did and give nothing back. What they have started runs on, and connections
    /// stay open.
    ThreadDeath {
        /// Clients.
        nodes: Nodes,
    },
    /// The machines lose power: nobody is told. What has left them arrives; what comes to them
    /// vanishes, and so does what they had not sent yet. A restart that ends later brings them
    /// back.
    PowerLoss {
        /// Who goes silent.
        nodes: Nodes,
    },
    /// A crash, and the processes start again.
    Restart {
        /// Who restarts.
        nodes: Nodes,
        /// The time between crash and start.
        after: Millis,
        /// What the disk gives back.
        data: Data,
    },
    /// Bytes between `a` and `b` arrive when it ends, in order: a partition shorter than
    /// the TCP time-out.
    Hold {
        /// One side.
        a: Nodes,
        /// The other side.
        b: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// Every connection between `a` and `b` is reset.
    Reset {
        /// One side.
        a: Nodes,
        /// The other side.
        b: Nodes,
    },
    /// No new connection from `a` to `b`: whoever tries is told so at once. Those that exist live
    /// on.
    Refuse {
        /// Who connects.
        a: Nodes,
        /// Who refuses.
        b: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// A hold of the direction from `a` to `b` alone.
    OneWay {
        /// Whose bytes are held.
        a: Nodes,
        /// Who waits for them.
        b: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// Segments between `a` and `b` take longer, with a heavy tail: half of them by more than 0.59
    /// times `by`, one in 37 by more than ten times, none by more than a hundred.
    Slow {
        /// One side.
        a: Nodes,
        /// The other side.
        b: Nodes,
        /// The scale of what is added, in milliseconds.
        by: Millis,
        /// For how long.
        lasts: Millis,
    },
    /// Segments between `a` and `b` are lost and sent again, after 200 ms and then after twice as
    /// long each time.
    Loss {
        /// One side.
        a: Nodes,
        /// The other side.
        b: Nodes,
        /// How many of a hundred transmissions are lost.
        percent: u32,
        /// For how long.
        lasts: Millis,
    },
    /// Requests of `a` get through to `b`, every answer is swallowed, and when it ends the
    /// connections are reset.
    DropReplies {
        /// Who asks.
        a: Nodes,
        /// Whose answers are lost.
        b: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// The wall clocks jump.
    ClockStep {
        /// Whose clock.
        nodes: Nodes,
        /// By how many milliseconds; negative is back.
        by: i64,
    },
    /// The clocks, wall and monotonic, run fast or slow from here on, whatever their rate was
    /// before.
    ClockRate {
        /// Whose clock.
        nodes: Nodes,
        /// Parts per million faster, one of [`RATES`](crate::clock::RATES); negative is slower.
        ppm: i64,
    },
    /// The wall clocks are wrong from the start. It strikes at 0 ms, before anything runs.
    ClockOffset {
        /// Whose clock.
        nodes: Nodes,
        /// By how many milliseconds.
        by: i64,
    },
    /// An operator lets a replica take the place of the master. Where there are sentinels one of
    /// them is asked to do it, as by SENTINEL FAILOVER; without them it is done at once.
    Failover {
        /// The master.
        nodes: Nodes,
    },
    /// Replicas fall behind: what their master sends waits in their sockets, and they tell it
    /// nothing. When it ends they copy it, unless they have been promoted meanwhile: then it is lost.
    ReplicaLag {
        /// The replicas.
        nodes: Nodes,
        /// For how long.
        lasts: Millis,
    },
    /// Somebody who is no client runs FLUSHALL. A server that stands still executes it when it
    /// goes on, and one that is down never.
    Flush {
        /// On these servers.
        nodes: Nodes,
    },
    /// Memory pressure evicts every key, as it may under an `allkeys` policy: those of locks are
    /// keys like any other. When, is as for a flush.
    Evict {
        /// On these servers.
        nodes: Nodes,
    },
}

/// The kinds of faults by their names in scenario files.
pub const KINDS: &[&str] = &[
    "pause",
    "suspend",
    "crash",
    "thread-death",
    "power-loss",
    "restart",
    "hold",
    "reset",
    "refuse",
    "one-way",
    "slow",
    "loss",
    "drop-replies",
    "clock-step",
    "clock-rate",
    "clock-offset",
    "failover",
    "replica-lag",
    "flush",
    "evict",
];

impl Fault {
    /// The kind's name in scenario files and reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause",
            Self::Suspend { .. } => "suspend",
            Self::Crash { .. } => "crash",
            Self::ThreadDeath { .. } => "thread-death",
            Self::PowerLoss { .. } => "power-loss",
            Self::Restart { .. } => "restart",
            Self::Hold { .. } => "hold",
            Self::Reset { .. } => "reset",
            Self::Refuse { .. } => "refuse",
            Self::OneWay { .. } => "one-way",
            Self::Slow { .. } => "slow",
            Self::Loss { .. } => "loss",
            Self::DropReplies { .. } => "drop-replies",
            Self::ClockStep { .. } => "clock-step",
            Self::ClockRate { .. } => "clock-rate",
            Self::ClockOffset { .. } => "clock-offset",
            Self::Failover { .. } => "failover",
            Self::ReplicaLag { .. } => "replica-lag",
            Self::Flush { .. } => "flush",
            Self::Evict { .. } => "evict",
        }
    }

    /// How long it goes on after it has struck: zero for a fault that is over at once or has
    /// no end.
    pub fn lasts(&self) -> Millis {
        match *self {
            Self::Pause { lasts, .. }
            | Self::Suspend { lasts, .. }
            | Self::Hold { lasts, .. }
            | Self::Refuse { lasts, .. }
            | Self::OneWay { lasts, .. }
            | Self::Slow { lasts, .. }
            | Self::Loss { lasts, .. }
            | Self::DropReplies { lasts, .. }
            | Self::ReplicaLag { lasts, .. } => lasts,
            Self::Restart { after, .. } => after,
            Self::Crash { .. }
            | Self::ThreadDeath { .. }
            | Self::PowerLoss { .. }
            | Self::Reset { .. }
            | Self::ClockStep { .. }
            | Self::ClockRate { .. }
            | Self::ClockOffset { .. }
            | Self::Failover { .. }
            | Self::Flush { .. }
            | Self::Evict { .. } => 0,
        }
    }

    /// Every node it touches.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let none: &[NodeId] = &[];
        let (a, b) = match self {
            Self::Pause { nodes, .. }
            | Self::Suspend { nodes, .. }
            | Self::Crash { nodes }
            | Self::ThreadDeath { nodes }
            | Self::PowerLoss { nodes }
            | Self::Restart { nodes, .. }
            | Self::ClockStep { nodes, .. }
            | Self::ClockRate { nodes, .. }
            | Self::ClockOffset { nodes, .. }
            | Self::Failover { nodes }
            | Self::ReplicaLag { nodes, .. }
            | Self::Flush { nodes }
            | Self::Evict { nodes } => (nodes.as_slice(), none),
            Self::Hold { a, b, .. }
            | Self::Reset { a, b }
            | Self::Refuse { a, b, .. }
            | Self::OneWay { a, b, .. }
            | Self::Slow { a, b, .. }
            | Self::Loss { a, b, .. }
            | Self::DropReplies { a, b, .. } => (a.as_slice(), b.as_slice()),
        };
        a.iter().chain(b).copied()
    }
}
