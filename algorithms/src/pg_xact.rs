//! An advisory lock that belongs to a transaction, in which its holder also reads and writes.
//!
//! The write counts when the transaction commits, which frees the lock in the same instant. When the
//! session ends first, lock and write go together: whoever lost the lock has not written.
//!
//! Source: PostgreSQL 15, explicit locking, advisory locks: `pg_try_advisory_xact_lock`.

use async_trait::async_trait;
use sim::StoreError;
use sim::store::{Operation, Reply, Request, Scope};

use crate::{
    Access, AcquireError, Algorithm, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct PgXact;

impl Algorithm for PgXact {
    fn name(&self) -> &'static str {
        "pg-xact"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "pg_try_advisory_xact_lock, and the work in the same transaction",
            source: "postgresql.org, advisory locks",
            family: Family::Transactional,
            service: Service::Store,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[],
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Transaction { client })
    }
}

struct Transaction {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for Transaction {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let session = begin(&self.client, &token).await?;
        let lock = Operation::Lock {
            key: key.to_owned(),
            scope: Scope::Transaction,
            waits: false,
        };
        let locked = self
            .client
            .store_in(session, &Request::new(&token, lock))
            .await;
        let held = match locked {
            Ok(Reply::Accepted) => {
                return Ok(Lease {
                    access: Access::Transaction { session },
                    ..Lease::plain(key, token)
                });
            }
            Ok(_) => AcquireError::Held,
            Err(_) => AcquireError::Unknown,
        };
        roll_back(&self.client, session, &token).await;
        Err(held)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        end(&self.client, lease).await
    }
}

/// Begins a transaction: its session.
pub(crate) async fn begin(client: &Client, token: &str) -> Result<u64, AcquireError> {
    let began = client.store(&Request::new(token, Operation::Begin)).await;
    let session = client.store_session();
    match (began, session) {
        (Ok(_), Some(session)) => Ok(session),
        (_, session) => {
            if let Some(session) = session {
                roll_back(client, session, token).await;
            }
            // Nothing was locked yet, and nothing will be.
            Err(AcquireError::Held)
        }
    }
}

/// Rolls a transaction back. Without an answer it is rolled back when the session hears of it, or
/// ends.
pub(crate) async fn roll_back(client: &Client, session: u64, token: &str) {
    let _ = client
        .store_in(session, &Request::new(token, Operation::Rollback))
        .await;
}

/// Ends a lease's transaction: commits what was written.
pub(crate) async fn end(client: &Client, lease: &Lease) -> Result<(), ReleaseError> {
    let Access::Transaction { session } = lease.access else {
        unreachable!("our leases are transactions")
    };
    let end = if lease.wrote.get() {
        Operation::Commit
    } else {
        Operation::Rollback
    };
    let request = Request::new(&lease.token, end);
    match client.store_in(session, &request).await {
        Ok(Reply::RolledBack) if lease.wrote.get() => Err(ReleaseError::NotOwner),
        Ok(_) => Ok(()),
        // With the session the lock is gone; of a write nobody knows.
        Err(StoreError::Disconnected) if !lease.wrote.get() => Err(ReleaseError::NotOwner),
        Err(_) => Err(ReleaseError::Unknown),
    }
}
