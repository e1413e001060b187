//! The same payouts are redelivered to every client; each is to be paid once. A row is zero
//! until it is paid, then it names who paid.

use std::rc::Rc;

use algorithms::{Decision, Task};
use sim::store::Row;

use super::{Place, WorkKind};
use crate::invariants::{Invariant, PaidTwice};

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Payout;

impl WorkKind for Payout {
    fn name(&self) -> &'static str {
        "payout"
    }

    fn summary(&self) -> &'static str {
        "the same payouts are redelivered to every client; each is paid once"
    }

    fn place(&self, _client: u16, item: u16, keys: u16) -> Place {
        Place::of_item(item, keys)
    }

    fn task(&self) -> Rc<dyn Task> {
        Rc::new(Self)
    }

    fn invariant(&self) -> Option<&'static dyn Invariant> {
        Some(&PaidTwice)
    }
}

impl Task for Payout {
    fn decide(&self, client: u16, row: Row) -> Decision {
        if row.value == 0 {
            Decision::Write(i64::from(client))
        } else {
            Decision::Skip
        }
    }
}
