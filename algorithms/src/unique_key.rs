//! No lock: a unique key lets the second one in as a conflict.
//!
//! The payout is a row whose key is the payout's number. Whoever inserts it has paid; whoever comes
//! second inserts nothing.
//!
//! Source: PostgreSQL 15, INSERT, "ON CONFLICT Clause"; idempotency keys.

use async_trait::async_trait;
use sim::fault::Point;
use sim::history::{GaveUp, What};
use sim::store::{Operation, Reply, Request};

use crate::section::{begin, done, think};
use crate::{Algorithm, Client, Declaration, Family, Item, Lease, Outcome, Service, Worker, Works};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct UniqueKey;

impl Algorithm for UniqueKey {
    fn name(&self) -> &'static str {
        "unique-key"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "no lock: INSERT ... ON CONFLICT DO NOTHING",
            source: "postgresql.org, INSERT, ON CONFLICT",
            family: Family::LockFree,
            service: Service::None,
            points: &[],
            ordered: false,
            works: Works::Only(&["payout"]),
            assumes: &[],
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        Box::new(Inserting { client })
    }
}

struct Inserting {
    client: Client,
}

#[async_trait(?Send)]
impl Worker for Inserting {
    async fn perform(&mut self, item: &Item) -> Outcome {
        let client = &self.client;
        begin(client, item);
        let lease = Lease::plain(&item.key, client.token());
        let worked = insert(client, &lease, item).await;
        let section = item.section;
        if let Err(why) = worked {
            client.record(What::GivenUp { section, why });
        }
        client.point(Point::Released).await;
        worked.map_or_else(Outcome::GivenUp, |()| Outcome::Done)
    }
}

async fn insert(client: &Client, lease: &Lease, item: &Item) -> Result<(), GaveUp> {
    let row = item.row;
    // It reads nothing; whatever strikes at a read strikes here.
    for point in [Point::BeforeRead, Point::ReadChecked, Point::AfterRead] {
        client.point(point).await;
    }
    think(client, lease, item, row).await?;
    client.point(Point::BeforeWrite).await;
    client.point(Point::WriteChecked).await;
    let insert = Operation::Insert {
        row,
        value: i64::from(client.number()),
        or_nothing: true,
    };
    match client.store(&Request::new(&lease.token, insert)).await {
        Ok(reply) => done(client, item, row, reply == Reply::Accepted),
        Err(_) => return Err(GaveUp::StoreSilent),
    }
    client.point(Point::AfterWrite).await;
    Ok(())
}
