//! No lock: what a message does and the mark that it was done are committed together.
//!
//! Messages are delivered at least once. Whoever handles one inserts its number and writes its effect
//! in one transaction: a second delivery finds the number and does nothing, and a handler that dies
//! in between has done neither.
//!
//! Source: the transactional outbox and the idempotent consumer (Chris Richardson, microservices.io).

use async_trait::async_trait;
use sim::fault::Point;
use sim::history::{GaveUp, What};
use sim::store::{Guard, Operation, Reply, Request};

use crate::pg_xact;
use crate::section::{begin, done, think};
use crate::{
    Access, Algorithm, Client, Declaration, Family, Item, Lease, Outcome, Service, Worker, Works,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct IdempotentOutbox;

impl Algorithm for IdempotentOutbox {
    fn name(&self) -> &'static str {
        "idempotent-outbox"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "no lock: the write and the mark of its message in one transaction",
            source: "microservices.io, transactional outbox, idempotent consumer",
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
        Box::new(Marking { client })
    }
}

struct Marking {
    client: Client,
}

#[async_trait(?Send)]
impl Worker for Marking {
    async fn perform(&mut self, item: &Item) -> Outcome {
        let client = &self.client;
        begin(client, item);
        let worked = handle(client, item).await;
        let section = item.section;
        if let Err(why) = worked {
            client.record(What::GivenUp { section, why });
        }
        client.point(Point::Released).await;
        worked.map_or_else(Outcome::GivenUp, |()| Outcome::Done)
    }
}

async fn handle(client: &Client, item: &Item) -> Result<(), GaveUp> {
    let (row, token) = (item.row, client.token());
    let lease = Lease::plain(&item.key, token.clone());
    // It reads nothing; whatever strikes at a read strikes here.
    for point in [Point::BeforeRead, Point::ReadChecked, Point::AfterRead] {
        client.point(point).await;
    }
    think(client, &lease, item, row).await?;

    let began = pg_xact::begin(client, &token).await;
    let session = began.map_err(|_| GaveUp::StoreSilent)?;
    let lease = Lease {
        access: Access::Transaction { session },
        ..lease
    };
    let value = i64::from(client.number());
    let mark = Operation::Insert {
        row,
        value,
        or_nothing: true,
    };
    client.point(Point::BeforeWrite).await;
    client.point(Point::WriteChecked).await;
    let marked = client.store_in(session, &Request::new(&token, mark)).await;
    if marked == Ok(Reply::Accepted) {
        let guard = Guard::Plain;
        let write = Operation::Write { row, value, guard };
        let wrote = client.store_in(session, &Request::new(&token, write)).await;
        lease.wrote.set(wrote == Ok(Reply::Accepted));
    }
    let ended = pg_xact::end(client, &lease).await;
    match (marked, lease.wrote.get(), ended) {
        (Ok(_), true, Ok(())) => done(client, item, row, true),
        (Ok(Reply::Refused), ..) => done(client, item, row, false),
        _ => return Err(GaveUp::StoreSilent),
    }
    client.point(Point::AfterWrite).await;
    Ok(())
}
