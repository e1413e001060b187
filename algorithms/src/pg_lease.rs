//! A row of leases with an expiry by the database's clock, and a fence that the same row counts.
//!
//! Taking, comparing and counting are one INSERT ... ON CONFLICT DO UPDATE ... WHERE. The clients'
//! clocks do not matter, and the fence is as durable as the data that it protects.
//!
//! Source: ShedLock's JDBC provider with `usingDbTime()`, and Kleppmann's fencing tokens.

use async_trait::async_trait;
use sim::store::{Operation, Reply, Request};

use crate::declare::owner_of_key;
use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct PgLease;

impl Algorithm for PgLease {
    fn name(&self) -> &'static str {
        "pg-lease"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "a lease row that expires by the database's clock, with a fence",
            source: "ShedLock, JDBC with usingDbTime(); Kleppmann",
            family: Family::Fenced,
            service: Service::Store,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::StoreChecks],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Leased { client })
    }
}

struct Leased {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for Leased {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let lease = Lease::plain(key, self.client.token());
        let take = Operation::Lease {
            key: key.to_owned(),
            lasts: self.client.ttl(),
        };
        match self.client.store(&Request::new(&lease.token, take)).await {
            Ok(Reply::Number { number: fence }) => {
                let comparator = self.client.settings().comparator;
                let access = Access::Fenced { fence, comparator };
                Ok(Lease { access, ..lease })
            }
            Ok(_) => Err(AcquireError::Held),
            Err(_) => {
                let _ = self.release(&lease).await;
                Err(AcquireError::Unknown)
            }
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let key = lease.key.clone();
        let end = Request::new(&lease.token, Operation::EndLease { key });
        match self.client.store(&end).await {
            Ok(Reply::Accepted) => Ok(()),
            Ok(_) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}
