//! A queue in the database: FOR UPDATE SKIP LOCKED, and the job is run inside the transaction.
//!
//! The store chooses a job that nobody works on. The row's lock is the claim: it is gone with the
//! session, so that a dead worker's job is free as soon as the database hears of the death. The row is
//! written once. What the job does to the outside is not part of the transaction, and may be done
//! twice.
//!
//! Source: PostgreSQL 15, SELECT, "The Locking Clause", which names queue-like tables.

use async_trait::async_trait;
use sim::store::{Operation, Reply, Request};

use crate::pg_xact::{begin, end, roll_back};
use crate::section::{done, section};
use crate::{
    Access, AcquireError, Algorithm, Client, Decision, Declaration, Family, Item, Lease, Lock,
    Outcome, ReleaseError, Service, Worker, Works,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct PgQueue;

impl Algorithm for PgQueue {
    fn name(&self) -> &'static str {
        "pg-queue"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "FOR UPDATE SKIP LOCKED, and the job inside the transaction",
            source: "postgresql.org, SELECT, the locking clause",
            family: Family::Transactional,
            service: Service::Store,
            points: &[],
            ordered: false,
            works: Works::Only(&["queue"]),
            assumes: &[],
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let lock = RowLock {
            client: client.clone(),
            item: None,
        };
        Box::new(Queue { client, lock })
    }
}

struct Queue {
    client: Client,
    lock: RowLock,
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

/// Nothing is free to be taken: whether that is so because this item is done.
pub(crate) async fn is_done(client: &Client, item: &Item) -> bool {
    let read = Request::new("", Operation::Read { row: item.row });
    let Ok(Reply::Row(row)) = client.store(&read).await else {
        return false;
    };
    let is_done = item.task.decide(client.number(), row) == Decision::Skip;
    if is_done {
        done(client, item, item.row, false);
    }
    is_done
}

struct RowLock {
    client: Client,
    item: Option<Item>,
}

#[async_trait(?Send)]
impl Lock for RowLock {
    async fn acquire(&mut self, _key: &str) -> Result<Lease, AcquireError> {
        let item = self.item.as_ref().expect("set for every item");
        let token = self.client.token();
        let session = begin(&self.client, &token).await?;
        let of = item.all.to_vec();
        let take = Request::new(&token, Operation::TakeNext { of });
        let failed = match self.client.store_in(session, &take).await {
            Ok(Reply::Chosen { id, .. }) => {
                let key = item.key_of(id);
                return Ok(Lease {
                    access: Access::Transaction { session },
                    row: Some(id),
                    ..Lease::plain(key, token)
                });
            }
            Ok(_) => AcquireError::Held,
            Err(_) => AcquireError::Unknown,
        };
        roll_back(&self.client, session, &token).await;
        Err(failed)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        end(&self.client, lease).await
    }
}
