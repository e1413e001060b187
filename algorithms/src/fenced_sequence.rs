//! A tokened lock in Redis whose fence comes from the database's sequence, which no Redis server can
//! lose.
//!
//! `fenced-sequence` draws its number before each SET NX. Whoever is slow between the two carries the
//! older number, so that the store refuses it once a later one has written. `fenced-sequence-late`
//! draws when the lock was taken: a holder that is slow there has the newer number, and wins over
//! its successor.
//!
//! Source: Martin Kleppmann, "How to do distributed locking" (2016), fencing tokens, with PostgreSQL's
//! `nextval`, which is never rolled back. Numbers drawn in vain leave gaps; a fence need not be dense.

use async_trait::async_trait;
use sim::store::{Operation, Reply, Request};

use crate::declare::owner_of_key;
use crate::tokened::{give_back, take};
use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct FencedSequence {
    /// Whether the number is drawn after the lock was taken.
    pub late: bool,
}

impl Algorithm for FencedSequence {
    fn name(&self) -> &'static str {
        if self.late {
            "fenced-sequence-late"
        } else {
            "fenced-sequence"
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: if self.late {
                "tokened, then a fence from the database's sequence: too late"
            } else {
                "a fence from the database's sequence, then tokened"
            },
            source: "Kleppmann, How to do distributed locking; PostgreSQL, nextval",
            family: Family::Fenced,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: if self.late {
                &[Assumption::StoreChecks, Assumption::SectionWithinLease]
            } else {
                &[Assumption::StoreChecks]
            },
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let late = self.late;
        standard(client.clone(), Numbered { client, late })
    }
}

struct Numbered {
    client: Client,
    late: bool,
}

#[async_trait(?Send)]
impl Lock for Numbered {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let (fence, token) = if self.late {
            let token = take(&self.client, key).await?;
            let Some(fence) = self.draw().await else {
                let _ = give_back(&self.client, key, &token).await;
                return Err(AcquireError::Unknown);
            };
            (fence, token)
        } else {
            // Nothing was asked of the lock yet.
            let fence = self.draw().await.ok_or(AcquireError::Held)?;
            (fence, take(&self.client, key).await?)
        };
        let comparator = self.client.settings().comparator;
        Ok(Lease {
            access: Access::Fenced { fence, comparator },
            ..Lease::plain(key, token)
        })
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        give_back(&self.client, &lease.key, &lease.token).await
    }
}

impl Numbered {
    /// The next number, if the store answers.
    async fn draw(&self) -> Option<u64> {
        let next = Request::new("", Operation::NextValue);
        match self.client.store(&next).await {
            Ok(Reply::Number { number }) => Some(number),
            _ => None,
        }
    }
}
