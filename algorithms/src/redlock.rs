//! Redlock: a lock that is held while a majority of independent servers holds its token.
//!
//! `redlock` follows the published steps: every server has a time-out far below the TTL, and
//! the time that the acquire took and the clocks' drift are subtracted from the lease.
//! `redlock-unchecked` leaves both out, as node-redlock#369 reports of a library.
//! `redlock-drift-added` subtracts twice, `ttl - (elapsed - drift)`, so that the drift makes the lease
//! longer: redlock-py did so until redlock-py#3.
//!
//! Source: the Redis documentation, "Distributed Locks with Redis", the Redlock algorithm.
//! The per-server time-out is the documentation's 50 ms for 10 s; the drift of 1 % and 2 ms
//! is what redlock-py, node-redlock, RedLock.net and others subtract.

use async_trait::async_trait;
use futures_util::future::join_all;
use sim::Millis;

use crate::declare::owner_by_majority;
use crate::naive::set_with_ttl;
use crate::tokened::compare_and_delete;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Redlock {
    /// How it reckons what is left of a lease.
    pub reckoning: Reckoning,
}

/// How much of a lease is left when a majority has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reckoning {
    /// Elapsed time and drift are subtracted, and each server has its time-out.
    Published,
    /// Nobody looks at the time, and no server has a time-out.
    Absent,
    /// Elapsed time is subtracted and the drift is added.
    DriftAdded,
}

impl Algorithm for Redlock {
    fn name(&self) -> &'static str {
        match self.reckoning {
            Reckoning::Published => "redlock",
            Reckoning::Absent => "redlock-unchecked",
            Reckoning::DriftAdded => "redlock-drift-added",
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: match self.reckoning {
                Reckoning::Published => {
                    "a majority of five servers; elapsed time and drift are subtracted"
                }
                Reckoning::Absent => "as redlock, without looking at the time",
                Reckoning::DriftAdded => "as redlock, with the drift added where it is subtracted",
            },
            source: match self.reckoning {
                Reckoning::Published => {
                    "redis.io, Distributed Locks with Redis, the Redlock algorithm"
                }
                Reckoning::Absent => "node-redlock#369",
                Reckoning::DriftAdded => "redlock-py#3",
            },
            family: Family::Quorum,
            service: Service::Independent(5),
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            holders: Some(owner_by_majority),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(
            client.clone(),
            Majority {
                client,
                reckoning: self.reckoning,
            },
        )
    }
}

#[derive(Clone)]
pub(crate) struct Majority {
    pub(crate) client: Client,
    pub(crate) reckoning: Reckoning,
}

#[async_trait(?Send)]
impl Lock for Majority {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let started = self.client.now();
        let answers = self
            .on_each(|server| set_with_ttl(&self.client, server, key, &token))
            .await;
        let elapsed = self.client.now() - started;

        let checked = self.reckoning != Reckoning::Absent;
        let in_time = !checked || elapsed < self.validity();
        let taken = answers
            .iter()
            .filter(|answer| **answer == Some(true))
            .count();
        if taken >= self.needed() && in_time {
            return Ok(Lease::plain(key, token));
        }
        let answers = self.delete(key, &token).await;
        if answers.iter().all(Option::is_some) {
            Err(AcquireError::Held)
        } else {
            Err(AcquireError::Unknown)
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let answers = self.delete(&lease.key, &lease.token).await;
        let answered = answers.iter().flatten().count();
        if answered < self.needed() {
            Err(ReleaseError::Unknown)
        } else if answers.contains(&Some(true)) {
            Ok(())
        } else {
            Err(ReleaseError::NotOwner)
        }
    }
}

impl Majority {
    /// How many servers are a majority.
    pub(crate) fn needed(&self) -> usize {
        self.client.servers() / 2 + 1
    }

    /// How long a lease is valid, counted from before it was asked for: its TTL less the drift of
    /// the clocks.
    pub(crate) fn validity(&self) -> Millis {
        let ttl = self.client.ttl();
        let drift = ttl / 100 + 2;
        match self.reckoning {
            Reckoning::DriftAdded => ttl + drift,
            _ => ttl.saturating_sub(drift),
        }
    }

    async fn delete(&self, key: &str, token: &str) -> Vec<Option<bool>> {
        self.on_each(|server| compare_and_delete(&self.client, server, key, token))
            .await
    }

    /// Asks every server at once: each one's answer, or none in time.
    pub(crate) async fn on_each<F>(&self, ask: impl Fn(usize) -> F) -> Vec<Option<bool>>
    where
        F: Future<Output = redis::RedisResult<bool>>,
    {
        let settings = self.client.settings();
        // 50 ms for a TTL of 10 s.
        let limit = settings.server_timeout.unwrap_or(settings.ttl / 200);
        let limit = match self.reckoning {
            Reckoning::Absent => Millis::MAX,
            _ => limit,
        };
        let asked = (0..self.client.servers()).map(|server| {
            let asked = ask(server);
            async move { self.client.timeout(limit, asked).await.ok()?.ok() }
        });
        join_all(asked).await
    }
}
