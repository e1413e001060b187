//! An advisory lock that belongs to a database session: no TTL, freed when the session ends.
//!
//! `pg-session` has a connection of its own for lock and work; when that breaks, the next statement
//! opens another one, as database libraries do, and goes on without the lock. `pg-pooled` sends the
//! same statements through a transaction pooler, which lends it whatever session is free: the lock
//! is in a session that others use, too, and to which it is their own.
//!
//! Source: PostgreSQL 15, explicit locking, advisory locks; PgBouncer, features, which names advisory
//! locks as broken by transaction pooling; reported as authentik#23876.

use async_trait::async_trait;
use sim::store::{Operation, Reply, Request, Scope};

use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct PgSession {
    /// Whether a transaction pooler stands before the database.
    pub pooled: bool,
}

impl Algorithm for PgSession {
    fn name(&self) -> &'static str {
        if self.pooled {
            "pg-pooled"
        } else {
            "pg-session"
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: if self.pooled {
                "as pg-session, through a transaction pooler that shares sessions out"
            } else {
                "pg_try_advisory_lock, as long as the database session lives"
            },
            source: "postgresql.org, advisory locks; authentik#23876",
            family: Family::Session,
            service: Service::Store,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: if self.pooled {
                &[Assumption::OwnSession]
            } else {
                &[Assumption::SessionsLive]
            },
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let access = if self.pooled {
            Access::Pooled
        } else {
            Access::Plain
        };
        standard(client.clone(), Advisory { client, access })
    }
}

struct Advisory {
    client: Client,
    access: Access,
}

#[async_trait(?Send)]
impl Lock for Advisory {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let lease = Lease {
            access: self.access,
            ..Lease::plain(key, self.client.token())
        };
        let lock = Operation::Lock {
            key: key.to_owned(),
            scope: Scope::Session,
            waits: false,
        };
        match self.ask(&lease, lock).await {
            Ok(Reply::Accepted) => Ok(lease),
            Ok(_) => Err(AcquireError::Held),
            Err(_) => {
                let _ = self.release(&lease).await;
                Err(AcquireError::Unknown)
            }
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let key = lease.key.clone();
        match self.ask(lease, Operation::Unlock { key }).await {
            Ok(Reply::Accepted) => Ok(()),
            Ok(_) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}

impl Advisory {
    async fn ask(&self, lease: &Lease, operation: Operation) -> Result<Reply, sim::StoreError> {
        let request = Request {
            pooled: self.access == Access::Pooled,
            ..Request::new(&lease.token, operation)
        };
        self.client.store(&request).await
    }
}
