//! No lock: the write itself says under which condition it holds.
//!
//! A value that was reckoned from a read is written only while the row's version is the one that was
//! read; a value that the store adds to is only changed while there is enough left.
//!
//! Source: optimistic locking with a version column; `UPDATE ... SET stock = stock - 1 WHERE stock >= 1`.

use async_trait::async_trait;

use crate::section::without_lock;
use crate::{
    Access, Algorithm, Client, Declaration, Family, Item, Lease, Outcome, Service, Worker, Works,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct ConditionalUpdate;

impl Algorithm for ConditionalUpdate {
    fn name(&self) -> &'static str {
        "conditional-update"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "no lock: UPDATE ... WHERE version = $k, or WHERE stock >= $k",
            source: "optimistic locking with a version column",
            family: Family::LockFree,
            service: Service::None,
            points: &[],
            ordered: false,
            // What a job does to the outside is done before anything is compared.
            works: Works::Only(&["counter", "payout", "seckill", "rate-limit"]),
            assumes: &[],
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        Box::new(Optimistic { client })
    }
}

struct Optimistic {
    client: Client,
}

#[async_trait(?Send)]
impl Worker for Optimistic {
    async fn perform(&mut self, item: &Item) -> Outcome {
        let lease = Lease {
            access: Access::Unlocked,
            ..Lease::plain(&item.key, self.client.token())
        };
        without_lock(&self.client, &lease, item).await
    }
}
