//! The store: the resource that the locks protect, and a database that locks can live in.
//!
//! Rows with a value, a fence and a version, behaving as in PostgreSQL where it matters to a lock:
//! sessions and transactions, row locks, advisory locks, a sequence. Each operation's doc gives the
//! SQL that it stands for, with `$1` the row's id; `sim/tests/postgres_live.rs` sends that SQL to a
//! real PostgreSQL and compares. The store numbers every write that it accepts or refuses; this
//! sequence is the truth about order. A write inside a transaction gets its number at commit.
//!
//! Rows exist from the start, with fence and version 0.
//!
//! Deliberately absent: SQL, tables of one's own, and isolation levels other than READ COMMITTED.
//! `docs/postgres-differences.md` has the rest.

mod advisory;
mod database;
pub(crate) mod node;
mod pool;
mod wire;

use serde::{Deserialize, Serialize};

pub use database::{Database, Done, SessionId};
pub(crate) use wire::{Frames, encode};

use crate::Millis;

/// How a store is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The value that every row begins with.
    pub starts_at: i64,
    /// `idle_session_timeout` and `idle_in_transaction_session_timeout`: how long a session may say
    /// nothing before the server drops it.
    pub idle_timeout: Option<Millis>,
    /// How long a connection may be silent before the server asks whether its peer is still there,
    /// and drops it if it is not: `tcp_keepalives_idle` and the probes that follow.
    pub keepalive: Millis,
    /// How many sessions a transaction pooler in front of the store shares out: PgBouncer's
    /// `default_pool_size`.
    pub pool: usize,
}

impl Default for Settings {
    /// PostgreSQL's own: no idle time-out, and Linux's keep-alive of two hours and nine probes, 75 s
    /// apart. PgBouncer's pool of 20.
    fn default() -> Self {
        Self {
            starts_at: 0,
            idle_timeout: None,
            keepalive: 7_875_000,
            pool: 20,
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What the work reads and writes.
    pub value: i64,
    /// The highest fence that a fenced write or a claim has brought.
    pub fence: u64,
    /// Counts the accepted writes.
    pub version: u64,
}

/// When a fenced write is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparator {
    /// `fence < $2`: also refuses a second write with the same fence.
    Strict,
    /// `fence <= $2`: refuses older fences alone.
    AtLeast,
}

/// What a write demands of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "guard")]
pub enum Guard {
    /// Nothing: `UPDATE rows SET value = $3, version = version + 1 WHERE id = $1`.
    Plain,
    /// `UPDATE rows SET value = $3, fence = $2, version = version + 1 WHERE id = $1 AND fence < $2`,
    /// or `fence <= $2`.
    Fence {
        /// `$2`.
        fence: u64,
        /// Which comparison.
        comparator: Comparator,
    },
    /// The row was claimed before with this fence: `... WHERE id = $1 AND fence = $2`.
    Claimed {
        /// `$2`.
        fence: u64,
    },
    /// Nobody has written since it was read: `... WHERE id = $1 AND version = $2`.
    Version {
        /// `$2`.
        version: u64,
    },
    /// There is enough left: `... WHERE id = $1 AND value >= $2`.
    Least {
        /// `$2`.
        value: i64,
    },
    /// The row was taken by [`Operation::ClaimNext`]: `... WHERE id = $1 AND taken_by = $2`, with
    /// `$2` the request's owner token.
    Taken,
    /// Nothing stands there yet; see [`Operation::Insert`].
    Absent,
}

/// A row of the work, and the lock key that names it in the history. SQL knows nothing of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The lock's key.
    pub key: String,
    /// The row.
    pub row: u32,
}

/// How long an advisory lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Until it is unlocked, or the session ends.
    Session,
    /// Until the transaction ends.
    Transaction,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum Operation {
    /// `SELECT value, fence, version FROM rows WHERE id = $1`.
    Read {
        /// `$1`.
        row: u32,
    },
    /// A section's first access installs its fence: `UPDATE rows SET fence = $2, claimed_by = $3
    /// WHERE id = $1 AND (fence < $2 OR (fence = $2 AND claimed_by = $3)) RETURNING value, fence,
    /// version`. It remembers the owner token so that its own retry passes.
    Claim {
        /// `$1`.
        row: u32,
        /// `$2`; `$3` is the request's owner token.
        fence: u64,
    },
    /// See [`Guard`].
    Write {
        /// `$1`.
        row: u32,
        /// `$3`.
        value: i64,
        /// The condition.
        guard: Guard,
    },
    /// As a write, with `value = value + $3`: the store reckons, and overwrites nothing.
    Add {
        /// `$1`.
        row: u32,
        /// `$3`.
        value: i64,
        /// The condition.
        guard: Guard,
    },
    /// `INSERT INTO marks (id, value) VALUES ($1, $3) ON CONFLICT DO NOTHING`, or without the last
    /// part, which makes of a second one an error.
    Insert {
        /// `$1`.
        row: u32,
        /// `$3`.
        value: i64,
        /// Whether a second one does nothing.
        or_nothing: bool,
    },
    /// `SELECT nextval('fences')`: a number that no one has had. It is not given back by a ROLLBACK.
    NextValue,
    /// `BEGIN`.
    Begin,
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `SELECT pg_advisory_lock(hashtextextended($1, 0))`, `pg_try_advisory_lock` unless it waits, and
    /// `pg_advisory_xact_lock` or `pg_try_advisory_xact_lock` when it belongs to the transaction.
    Lock {
        /// `$1`.
        key: String,
        /// Until when.
        scope: Scope,
        /// Whether it waits until the lock is free.
        waits: bool,
    },
    /// `SELECT pg_advisory_unlock(hashtextextended($1, 0))`.
    Unlock {
        /// `$1`.
        key: String,
    },
    /// Takes a lease that is free or over by the store's clock: `INSERT INTO leases (key, token, fence,
    /// expires) VALUES ($1, $2, 1, clock_timestamp() + $3) ON CONFLICT (key) DO UPDATE SET token = $2,
    /// fence = leases.fence + 1, expires = excluded.expires WHERE leases.expires <= clock_timestamp()
    /// RETURNING fence`.
    Lease {
        /// `$1`; `$2` is the request's owner token.
        key: String,
        /// `$3`, in milliseconds.
        lasts: Millis,
    },
    /// Gives a lease back and keeps its fence: `UPDATE leases SET expires = '-infinity' WHERE key = $1
    /// AND token = $2 AND expires > '-infinity'`.
    EndLease {
        /// `$1`; `$2` is the request's owner token.
        key: String,
    },
    /// The first row that nobody works on: `SELECT id, value, fence, version FROM rows WHERE id =
    /// ANY($1) AND value = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`.
    TakeNext {
        /// `$1`.
        of: Vec<Place>,
    },
    /// The same, and says so in the row: `UPDATE rows SET taken_by = $2, taken_until =
    /// clock_timestamp() + $3 WHERE id = (SELECT id FROM rows WHERE id = ANY($1) AND value = 0 AND
    /// (taken_until IS NULL OR taken_until <= clock_timestamp()) ORDER BY id LIMIT 1 FOR UPDATE SKIP
    /// LOCKED) RETURNING id, value, fence, version`.
    ClaimNext {
        /// `$1`; `$2` is the request's owner token.
        of: Vec<Place>,
        /// `$3`, in milliseconds; `taken_until = 'infinity'` without it.
        lasts: Option<Millis>,
    },
    /// `UPDATE rows SET taken_by = NULL, taken_until = NULL WHERE id = $1 AND taken_by = $2`.
    Unclaim {
        /// `$1`, and its key; `$2` is the request's owner token.
        of: Place,
    },
}

/// An operation and on whose behalf. The token orders nothing, and is checked only where an
/// operation says so; it tells the history which lease an access belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The owner token of the lease.
    pub token: String,
    /// Whether it goes through the transaction pooler, which chooses the session.
    #[serde(default)]
    pub pooled: bool,
    /// What to do.
    #[serde(flatten)]
    pub operation: Operation,
}

impl Request {
    /// A request over a connection of one's own.
    pub fn new(token: impl Into<String>, operation: Operation) -> Self {
        Self {
            token: token.into(),
            pooled: false,
            operation,
        }
    }
}

/// What the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// The row read or claimed.
    Row(Row),
    /// A row chosen by the store.
    Chosen {
        /// Which.
        id: u32,
        /// The row.
        row: Row,
    },
    /// A number drawn from a sequence, or with a lease.
    Number {
        /// The number.
        number: u64,
    },
    /// The write changed one row; the lock was taken or given back.
    Accepted,
    /// No row met the condition; the lock is somebody else's. Nothing changed.
    Refused,
    /// A transaction began, or was committed.
    Done,
    /// A transaction was rolled back: by ROLLBACK, or by a COMMIT after an error.
    RolledBack,
    /// An error; a transaction is aborted by it.
    Failed {
        /// Which.
        error: SqlError,
    },
}

/// Why a statement failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SqlError {
    /// 25P02: the transaction is aborted, and only its end is listened to.
    InFailedTransaction,
    /// 40P01: this one would have waited for somebody who waits for it.
    Deadlock,
    /// 23505: there is a row with this id already.
    UniqueViolation,
    /// 22003: the sum is no bigint.
    OutOfRange,
}

impl SqlError {
    /// Its SQLSTATE.
    pub fn state(self) -> &'static str {
        match self {
            Self::InFailedTransaction => "25P02",
            Self::Deadlock => "40P01",
            Self::UniqueViolation => "23505",
            Self::OutOfRange => "22003",
        }
    }
}
