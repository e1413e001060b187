//! A flash sale: everybody buys from one stock, which must not be sold out twice. A purchase looks at
//! the stock, and later lets the store take one from it: `stock = stock - 1`.

use std::rc::Rc;

use algorithms::{Decision, Task};
use sim::store::Row;

use super::{Place, WorkKind};
use crate::invariants::{Invariant, Oversold};

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Seckill;

impl WorkKind for Seckill {
    fn name(&self) -> &'static str {
        "seckill"
    }

    fn summary(&self) -> &'static str {
        "purchases from a stock of `limit`: a look at the stock, then stock - 1"
    }

    fn place(&self, client: u16, item: u16, keys: u16) -> Place {
        Place::in_turn(client, item, keys)
    }

    fn task(&self) -> Rc<dyn Task> {
        Rc::new(Self)
    }

    fn invariant(&self) -> Option<&'static dyn Invariant> {
        Some(&Oversold)
    }

    fn is_limited(&self) -> bool {
        true
    }

    fn without_writing(&self, row: u32) -> String {
        format!("finds row {row} sold out")
    }

    fn starts_at(&self, limit: i64) -> i64 {
        limit
    }
}

impl Task for Seckill {
    fn decide(&self, _client: u16, row: Row) -> Decision {
        if row.value > 0 {
            Decision::Add(-1)
        } else {
            Decision::Skip
        }
    }
}
