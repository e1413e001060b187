//! The locks, one per file, each readable beside its published description.
//!
//! An [`Algorithm`] starts a [`Worker`] for every process; the runner knows nothing else. A
//! [`Lock`] becomes a worker by the [standard section](section::standard).
//!
//! Deliberately absent: who runs them, what goes wrong, and who is right.

pub mod client;
pub mod conditional_update;
pub mod consul;
pub mod declare;
pub mod dynamodb;
pub mod etcd;
pub mod fenced;
pub mod fenced_sequence;
pub mod idempotent_outbox;
pub mod k8s_lease;
pub mod lease;
pub mod local_mutex;
pub mod naive;
mod observed;
pub mod pg_claim;
pub mod pg_lease;
pub mod pg_queue;
pub mod pg_session;
pub mod pg_xact;
pub mod redis_counter;
pub mod redisson;
pub mod redisson_multi;
pub mod redlock;
pub mod redlock_early_start;
pub mod redlock_extend;
pub mod renewing;
pub mod section;
pub mod sentinel;
mod session;
pub mod setnx;
pub mod setnx_expire;
pub mod setnx_getset;
pub mod tokened;
pub mod tokened_assuming;
pub mod tokened_forgetful;
pub mod unique_key;
pub mod zookeeper;

use async_trait::async_trait;

pub use client::{Client, Settings};
pub use declare::{Assumption, Declaration, Family, Service, Works};
pub use lease::{Access, AcquireError, Lease, LossSignal, ReleaseError};
pub use section::{Acts, Decision, Item, Outcome, Task, standard};

/// A way to do work that only one client may do at a time.
pub trait Algorithm: Sync {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// What it needs, promises and assumes.
    fn declares(&self) -> Declaration;

    /// Starts it in a client's process.
    fn start(&self, client: Client) -> Box<dyn Worker>;
}

/// An algorithm in one process. A crash forgets it.
#[async_trait(?Send)] // a world runs on one thread
pub trait Worker {
    /// Tries once to do an item; trying again is the runner's business.
    async fn perform(&mut self, item: &Item) -> Outcome;
}

/// What a client must do to hold a key alone, and to give it back.
#[async_trait(?Send)]
pub trait Lock {
    /// Tries once.
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError>;

    /// Tries once, for a section that only reads. A lock without a read side is taken as always.
    async fn acquire_shared(&mut self, key: &str) -> Result<Lease, AcquireError> {
        self.acquire(key).await
    }

    /// Gives the lock back. `Unknown` when no answer came: it may be free, or still ours.
    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError>;
}

/// Every algorithm, in the order of reports.
pub const ALL: &[&dyn Algorithm] = &[
    &local_mutex::LocalMutex,
    &setnx::SetNx,
    &setnx_expire::SetNxExpire,
    &setnx_getset::SetNxGetSet,
    &naive::Naive,
    &tokened::Tokened,
    &tokened_assuming::TokenedAssuming,
    &tokened_forgetful::TokenedForgetful,
    &renewing::Renewing::Told,
    &renewing::Renewing::Deaf,
    &renewing::Renewing::Fragile,
    &redisson::Redisson,
    &redisson::RedissonInterrupted,
    &redisson::RedissonFair,
    &redisson::RedissonRw,
    &redisson::RedissonReplicated,
    &fenced::Fenced { claims: false },
    &fenced::Fenced { claims: true },
    &fenced_sequence::FencedSequence { late: false },
    &fenced_sequence::FencedSequence { late: true },
    &redlock::Redlock {
        reckoning: redlock::Reckoning::Published,
    },
    &redlock::Redlock {
        reckoning: redlock::Reckoning::Absent,
    },
    &redlock::Redlock {
        reckoning: redlock::Reckoning::DriftAdded,
    },
    &redlock_early_start::RedlockEarlyStart,
    &redlock_extend::RedlockExtend,
    &redisson_multi::RedissonMulti,
    &etcd::Etcd,
    &zookeeper::ZooKeeper,
    &consul::Consul,
    &k8s_lease::K8sLease,
    &dynamodb::DynamoDb,
    &sentinel::Sentinel {
        waits: sentinel::Waits::Never,
    },
    &sentinel::Sentinel {
        waits: sentinel::Waits::Here,
    },
    &sentinel::Sentinel {
        waits: sentinel::Waits::Elsewhere,
    },
    &pg_session::PgSession { pooled: false },
    &pg_session::PgSession { pooled: true },
    &pg_xact::PgXact,
    &pg_lease::PgLease,
    &pg_queue::PgQueue,
    &pg_claim::PgClaim { reaped: true },
    &pg_claim::PgClaim { reaped: false },
    &conditional_update::ConditionalUpdate,
    &unique_key::UniqueKey,
    &redis_counter::RedisCounter,
    &idempotent_outbox::IdempotentOutbox,
];
