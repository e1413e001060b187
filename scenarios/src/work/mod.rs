//! Kinds of work: which items every client has, and what a section does with its row.
//!
//! A new kind is a file here and a line in [`ALL`].

mod counter;
mod payout;
mod queue;
mod rate_limit;
mod read_mostly;
mod seckill;

use std::rc::Rc;

use algorithms::Task;

pub use counter::Counter;
pub use payout::Payout;
pub use queue::Queue;
pub use rate_limit::RateLimit;
pub use read_mostly::ReadMostly;
pub use seckill::Seckill;

use crate::invariants::Invariant;

/// A kind of work.
pub trait WorkKind: Sync {
    /// The name in scenario files.
    fn name(&self) -> &'static str;

    /// One line for lists.
    fn summary(&self) -> &'static str;

    /// The lock key and the row of a client's item, all counted from zero: `client` of all
    /// clients, `item` of the client's items, spread over `keys` keys.
    fn place(&self, client: u16, item: u16, keys: u16) -> Place;

    /// What a section does with its row.
    fn task(&self) -> Rc<dyn Task>;

    /// The invariant that this work alone has, if any.
    fn invariant(&self) -> Option<&'static dyn Invariant>;

    /// Whether it may be done only so often, which a scenario says.
    fn is_limited(&self) -> bool {
        false
    }

    /// What a section that has nothing to write has found or done.
    fn without_writing(&self, row: u32) -> String {
        format!("finds row {row} done already")
    }

    /// How many clients it takes at least.
    fn least_clients(&self) -> u16 {
        1
    }

    /// What every row holds at the start.
    fn starts_at(&self, _limit: i64) -> i64 {
        0
    }
}

/// Where an item lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which lock key, counted from zero.
    pub key: u16,
    /// Which row of the store, counted from one.
    pub row: u32,
}

impl Place {
    /// One row for each key, which every client works on in turn. Each begins at another one.
    fn in_turn(client: u16, item: u16, keys: u16) -> Self {
        let key = (client + item) % keys;
        Self {
            key,
            row: u32::from(key) + 1,
        }
    }

    /// A row for each item, which is everybody's.
    fn of_item(item: u16, keys: u16) -> Self {
        Self {
            key: item % keys,
            row: u32::from(item) + 1,
        }
    }
}

/// Every kind of work.
pub const ALL: &[&dyn WorkKind] = &[&Counter, &Payout, &Seckill, &RateLimit, &Queue, &ReadMostly];
