//! A queue in the database: a job is claimed and committed at once, and run outside of any
//! transaction.
//!
//! `pg-claim` claims for the length of a lease; a claim that is over may be taken by another worker.
//! `pg-claim-unreaped` claims for ever: a worker that dies leaves its job "running". Either way a
//! finished job is only written down by whoever's claim stands.
//!
//! Source: the queue pattern of job libraries; reported without a reaper as prisma/web#8080.

use async_trait::async_trait;
use sim::store::{Operation, Place, Reply, Request};

use crate::declare::owner_of_key;
use crate::pg_queue::is_done;
use crate::section::section;
use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Item, Lease, Lock,
    Outcome, ReleaseError, Service, Worker, Works,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct PgClaim {
    /// Whether a claim is over after its lease.
    pub reaped: bool,
}

impl Algorithm for PgClaim {
    fn name(&self) -> &'static str {
        if self.reaped {
            "pg-claim"
        } else {
            "pg-claim-unreaped"
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: if self.reaped {
                "a job is claimed for a lease, and run outside of the transaction"
            } else {
                "a job is claimed for ever, and run outside of the transaction"
            },
            source: "job queues in a table; prisma/web#8080",
            family: Family::Claimed,
            service: Service::Store,
            points: &[],
            ordered: false,
            works: Works::Only(&["queue"]),
            assumes: if self.reaped {
                &[Assumption::SectionWithinLease]
            } else {
                &[Assumption::HoldersLive]
            },
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let lock = Claim {
            client: client.clone(),
            reaped: self.reaped,
            item: None,
        };
        Box::new(Queue { client, lock })
    }
}

struct Queue {
    client: Client,
    lock: Claim,
}

#[async_trait(?Send)]
impl Worker for Queue {
    async fn perform(&mut self, item: &Item) -> Outcome {
        self.lock.item = Some(item.clone());
        let outcome = section(&self.client, &mut self.lock, item).await;
        if outcome == Outcome::Denied(AcquireError::Held) && is_done(&self.client, item).await {
            return Outcome::Done;
        }
        outcome
    }
}

struct Claim {
    client: Client,
    reaped: bool,
    item: Option<Item>,
}

#[async_trait(?Send)]
impl Lock for Claim {
    async fn acquire(&mut self, _key: &str) -> Result<Lease, AcquireError> {
        let item = self.item.as_ref().expect("set for every item");
        let token = self.client.token();
        let claim = Operation::ClaimNext {
            of: item.all.to_vec(),
            lasts: self.reaped.then(|| self.client.ttl()),
        };
        match self.client.store(&Request::new(&token, claim)).await {
            Ok(Reply::Chosen { id, .. }) => Ok(Lease {
                access: Access::Taken,
                row: Some(id),
                ..Lease::plain(item.key_of(id), token)
            }),
            Ok(_) => Err(AcquireError::Held),
            // Which row it has taken, nobody knows.
            Err(_) => Err(AcquireError::Unknown),
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let (key, row) = (lease.key.clone(), lease.row.expect("chosen by the store"));
        let of = Place { key, row };
        let unclaim = Request::new(&lease.token, Operation::Unclaim { of });
        match self.client.store(&unclaim).await {
            Ok(Reply::Accepted) => Ok(()),
            Ok(_) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}
