//! What happened in one run, in order. Everything else is computed from it.

use serde::Serialize;

use crate::clock::Clock;
use crate::fault::Point;
use crate::store::{Guard, Row};
use crate::trace::Fingerprint;
use crate::{Millis, NodeId};

/// The ordered record of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// The events, in the order in which they happened.
    pub events: Vec<Event>,
    /// The world's time when the run ended.
    pub ended: Millis,
    /// Everything that happened, also below these events. Two runs that differ in anything
    /// differ in it.
    pub fingerprint: Fingerprint,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The world's time.
    pub at: Millis,
    /// Where it happened.
    pub node: NodeId,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

impl What {
    /// What the event does to the wall clock of the node that it happened to. A suspend stops the
    /// monotonic hand alone, and is not among it.
    pub fn applied_to(&self, clock: &mut Clock, at: Millis) {
        match self {
            Self::ClockStepped { by } | Self::ClockOffset { by } => clock.step(at, *by),
            Self::ClockRate { ppm } => clock.run_at(at, *ppm),
            _ => {}
        }
    }
}

/// The key of a server, what stood there and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// The value; of a lock, its owner token.
    pub value: String,
    /// When it expires, on the server's wall clock in milliseconds since 1970.
    pub deadline: Option<Millis>,
    /// What a coordination server keeps beside it; Redis nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracked: Option<Tracked>,
}

/// What a coordination server keeps of a key, beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tracked {
    /// The revision that created it.
    pub created: u64,
    /// The session that it is bound to.
    pub session: Option<u64>,
}

/// Why a section ended without its item being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GaveUp {
    /// The store did not answer in time.
    StoreSilent,
    /// Its database session is over, and its transaction with it.
    SessionOver,
    /// The store refused an access.
    StoreRefused,
    /// The lease was lost.
    LeaseLost,
}

/// Why the store dropped a session that its client had not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dropped {
    /// It had said nothing for longer than a session may.
    Idle,
    /// Nobody at the other end answered the kernel's keep-alive.
    Unreachable,
}

/// How a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// The lock was given back.
    Done,
    /// The server said that somebody else holds it, or nobody.
    NotOwner,
    /// No answer came.
    Unknown,
}

/// What an event can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    /// A process started, for the first time or again.
    Started,
    /// A process died, by itself or with its machine.
    Crashed,
    /// The thread that did a client's work died, and its process lives on.
    ThreadDied,
    /// A server's keys are gone with its process.
    DataLost,
    /// A Redis server is a master from now on.
    Promoted,
    /// A Redis server is a replica from now on, or of another master.
    Follows {
        /// The master, as it was told.
        master: String,
    },
    /// Somebody who is no client runs FLUSHALL on a server: its keys go next.
    Flushed,
    /// A server needs memory: its keys go next.
    Evicted,
    /// A process stands still.
    Paused {
        /// For how long, in milliseconds.
        lasts: Millis,
    },
    /// A machine is suspended: its process stands still, and its monotonic clock with it.
    Suspended {
        /// For how long, in milliseconds.
        lasts: Millis,
    },
    /// A process goes on.
    Resumed,
    /// A wall clock jumped.
    ClockStepped {
        /// By how many milliseconds; negative is back.
        by: i64,
    },
    /// Both clocks of a node run at another rate from now on.
    ClockRate {
        /// Parts per million faster than the world's time; negative is slower.
        ppm: i64,
    },
    /// A wall clock is wrong from the start.
    ClockOffset {
        /// By how many milliseconds; negative is behind.
        by: i64,
    },
    /// A fault of the plan struck; the node is the first one it touches.
    Struck {
        /// Its place in the plan.
        fault: usize,
    },
    /// A fault of the plan is over.
    Over {
        /// Its place in the plan.
        fault: usize,
    },

    /// A client makes one attempt to acquire.
    Asked {
        /// The lock's key.
        key: String,
        /// The section, counted from one for each client.
        section: u32,
    },
    /// The attempt failed: `held` is definite, otherwise the lock may have been taken.
    Denied {
        /// The lock's key.
        key: String,
        /// The section.
        section: u32,
        /// Whether the answer is definite.
        held: bool,
    },
    /// Acquire returned a lease. The belief begins.
    Leased {
        /// The lock's key.
        key: String,
        /// The section.
        section: u32,
        /// The owner token.
        token: String,
        /// The fence token, if the lock draws one.
        fence: Option<u64>,
        /// Whether others may hold it too, who only read as this one does.
        shared: bool,
    },
    /// A lock that lives in the process or the database granted itself.
    Granted {
        /// The lock's key.
        key: String,
        /// The owner token.
        token: String,
    },
    /// And is free again.
    Freed {
        /// The lock's key.
        key: String,
        /// The owner token.
        token: String,
    },
    /// A client reached a point.
    Reached {
        /// Which.
        point: Point,
        /// The section.
        section: u32,
    },
    /// The work under the lock began.
    Working {
        /// The section.
        section: u32,
        /// How long it is going to take.
        takes: Millis,
    },
    /// The holder noticed that its lease is lost. The belief ends.
    NoticedLoss {
        /// The section.
        section: u32,
    },
    /// A release is tried. With the first try the belief ends.
    Releasing {
        /// The lock's key.
        key: String,
        /// The section.
        section: u32,
        /// Which try, counted from one.
        attempt: u32,
    },
    /// A try ended.
    ReleaseEnded {
        /// The lock's key.
        key: String,
        /// The section.
        section: u32,
        /// How.
        release: Release,
    },
    /// A section did what no database can take back: sent an e-mail, called a bank, let a request
    /// through.
    Effect {
        /// The owner token of its lease.
        token: String,
        /// The section.
        section: u32,
        /// The item's row in the store.
        row: u32,
    },
    /// An item is done: written and acknowledged, or found done.
    ItemDone {
        /// The section.
        section: u32,
        /// The item's row in the store.
        row: u32,
        /// Whether this section wrote it.
        wrote: bool,
    },
    /// A section ended without its item being done.
    GivenUp {
        /// The section.
        section: u32,
        /// Why.
        why: GaveUp,
    },

    /// A server of the lock executed a command.
    Executed {
        /// Whose.
        by: NodeId,
        /// The command's name.
        command: &'static str,
    },
    /// A key of a server of the lock changed.
    Changed {
        /// Whose command did it; nobody's when it expired, with a session or by itself, was evicted,
        /// was flushed by somebody who is no client, or was copied from a master.
        by: Option<NodeId>,
        /// The key.
        key: String,
        /// What was there.
        before: Option<Stored>,
        /// What is there now.
        after: Option<Stored>,
    },

    /// The store answered a read.
    Read {
        /// Whose.
        by: NodeId,
        /// The owner token of its lease.
        token: String,
        /// The row's number.
        row: u32,
        /// The row as the reader saw it.
        state: Row,
    },
    /// The store dropped a client's session by itself.
    SessionDropped {
        /// Whose.
        of: NodeId,
        /// Why.
        why: Dropped,
    },
    /// The store drew a number from its sequence of fences.
    Drawn {
        /// For whom.
        by: NodeId,
        /// The number.
        number: u64,
    },
    /// A write that a transaction had made is undone: it was never seen, and has no number.
    RolledBack {
        /// Whose.
        by: NodeId,
        /// The owner token of its lease.
        token: String,
        /// The row's number.
        row: u32,
    },
    /// The store refused a claim, which is an access that would have read.
    RefusedClaim {
        /// Whose.
        by: NodeId,
        /// The owner token of its lease.
        token: String,
        /// The row's number.
        row: u32,
        /// The fence that it came with.
        fence: u64,
        /// The row as it stands.
        state: Row,
    },
    /// The store accepted or refused a write.
    Write {
        /// The store's sequence number: the truth about order.
        sequence: u64,
        /// Whose.
        by: NodeId,
        /// The owner token of its lease.
        token: String,
        /// The row's number.
        row: u32,
        /// The value it brings, or would have brought.
        value: i64,
        /// Whether the store has reckoned it from the row's own, so that nothing is overwritten.
        adds: bool,
        /// What it demands of the row.
        guard: Guard,
        /// Whether the row was changed.
        accepted: bool,
        /// The row before.
        before: Row,
    },
}
