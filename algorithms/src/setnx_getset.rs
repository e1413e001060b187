//! SETNX of the time until which the lock lasts, by the client's own wall clock; who finds that this
//! time is past takes the lock over with GETSET.
//!
//! The key has no time to live: clients compare times that other hosts wrote with their own clocks, so
//! that a clock which is ahead takes locks that are held, and a time that was read long before it is
//! sent makes a lock that is over at once. Nobody's owner is checked; who deletes only looks whether
//! its own time is still to come.
//!
//! Of two who find the same time past, the one whose GETSET comes second learns that it was late, and
//! has nevertheless put its own time in the place of the other's. The documentation takes that for
//! harmless, as it is a little later than the other's.
//!
//! For grants to be told apart a token follows the time, and a GETSET that finds nothing, since the
//! key was deleted meanwhile, has taken the lock: the documentation is silent on both.
//!
//! Source: the SETNX page of the Redis documentation, "Design pattern: Locking with SETNX". That the
//! nodes' clocks judge the lease is vault#2141, that the time may be an old one ShedLock#132.

use async_trait::async_trait;
use redis::RedisResult;
use sim::Millis;
use sim::fault::Point;

use crate::declare::owner_of_key;
use crate::setnx::{delete, set_if_absent};
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct SetNxGetSet;

impl Algorithm for SetNxGetSet {
    fn name(&self) -> &'static str {
        "setnx-getset"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SETNX of a time by the client's clock, taken over with GETSET once that is past",
            source: "redis.io/commands/setnx, handling deadlocks",
            family: Family::Plain,
            service: Service::Redis,
            points: &[Point::MidAcquire],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClientClocksAgree,
                Assumption::DataIsKept,
            ],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Dated { client })
    }
}

struct Dated {
    client: Client,
}

impl Dated {
    /// Whether the time in a value is past by this client's clock.
    fn is_past(&self, value: &str) -> bool {
        let (until, _) = value.split_once(':').expect("a time and a token");
        until.parse::<Millis>().expect("a time") <= self.client.wall()
    }

    /// A command about one key that answers with a value, if there is one.
    async fn ask(&self, command: &redis::Cmd) -> Result<Option<String>, AcquireError> {
        let answer: RedisResult<Option<String>> =
            command.query_async(&mut self.client.redis(0)).await;
        answer.map_err(|_| AcquireError::Unknown)
    }
}

#[async_trait(?Send)]
impl Lock for Dated {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let until = self.client.wall() + self.client.ttl();
        let value = format!("{until}:{}", self.client.token());
        // The process may stand still here, and the time that it has read grows old.
        self.client.point(Point::MidAcquire).await;
        if set_if_absent(&self.client, key, &value).await? {
            return Ok(Lease::plain(key, value));
        }
        let found = self.ask(redis::cmd("GET").arg(key)).await?;
        if !found.is_some_and(|found| self.is_past(&found)) {
            return Err(AcquireError::Held);
        }
        let replaced = self.ask(redis::cmd("GETSET").arg(key).arg(&value)).await?;
        if replaced.is_some_and(|replaced| !self.is_past(&replaced)) {
            return Err(AcquireError::Held);
        }
        Ok(Lease::plain(key, value))
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        if self.is_past(&lease.token) {
            return Err(ReleaseError::NotOwner);
        }
        delete(&self.client, &lease.key).await
    }
}
