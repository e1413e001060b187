//! Redlock that is extended every third of its TTL while its holder works, and looks at its lease
//! before each access.
//!
//! An extension counts when a majority has extended and the time that the lease had left has not
//! passed meanwhile. One that finds too few answers is tried again; when so many servers say that
//! the token is gone that no majority can hold it, the lease is lost at once.
//!
//! Source: the Redis documentation, "Distributed Locks with Redis", "Making the algorithm more
//! reliable: extending the lock". As in redsync's `Extend`, drift is subtracted from an extended
//! lease too.
//!
//! Deliberately absent: the bound on the number of extensions that the documentation asks for, so
//! that a holder cannot keep the lock for ever. Here a section ends.

use async_trait::async_trait;
use sim::Spawned;
use sim::fault::Point;

use crate::declare::owner_by_majority;
use crate::redlock::{Majority, Reckoning};
use crate::renewing::refresh;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, LossSignal,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedlockExtend;

impl Algorithm for RedlockExtend {
    fn name(&self) -> &'static str {
        "redlock-extend"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "redlock, extended on a majority every ttl/3; looks before each access",
            source: "redis.io, Distributed Locks with Redis, extending the lock",
            family: Family::Quorum,
            service: Service::Independent(5),
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[
                Assumption::WriteAtOnce,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            works: Works::Any,
            holders: Some(owner_by_majority),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let majority = Majority {
            client: client.clone(),
            reckoning: Reckoning::Published,
        };
        standard(
            client,
            Extended {
                majority,
                extender: None,
            },
        )
    }
}

struct Extended {
    majority: Majority,
    extender: Option<Spawned>,
}

#[async_trait(?Send)]
impl Lock for Extended {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let client = self.majority.client.clone();
        let asked = client.now();
        let lease = self.majority.acquire(key).await?;
        let loss = LossSignal::new(&client, asked + self.majority.validity());
        let extender = extend(self.majority.clone(), lease.clone(), loss.clone());
        self.extender = Some(client.spawn(extender));
        Ok(Lease {
            loss: Some(loss),
            ..lease
        })
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        self.extender = None;
        self.majority.release(lease).await
    }
}

async fn extend(majority: Majority, lease: Lease, loss: LossSignal) {
    let client = &majority.client;
    let every = client.settings().renew_every.unwrap_or(client.ttl() / 3);
    loop {
        let left = loss.deadline().saturating_sub(client.now());
        client.sleep(every.min(left)).await;
        if loss.is_lost() {
            return;
        }
        client.point(Point::RenewDue).await;
        let asked = client.now();
        let answers = majority
            .on_each(|server| refresh(client, server, &lease))
            .await;
        // What was left of the lease may have passed while the servers were asked.
        if loss.is_lost() {
            return;
        }
        let count = |wanted| answers.iter().filter(|a| **a == Some(wanted)).count();
        let (extended, gone) = (count(true), count(false));
        if extended >= majority.needed() {
            loss.extend(asked + majority.validity());
        } else if answers.len() - gone < majority.needed() {
            return loss.raise();
        }
    }
}
