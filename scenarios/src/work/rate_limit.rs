//! So many requests may go through and no more. A row holds how many are left: read it, and write back
//! one less, then let the request through.

use std::rc::Rc;

use algorithms::{Acts, Decision, Task};
use sim::store::Row;

use super::{Place, WorkKind};
use crate::invariants::{Invariant, OverLimit};

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit;

impl WorkKind for RateLimit {
    fn name(&self) -> &'static str {
        "rate-limit"
    }

    fn summary(&self) -> &'static str {
        "requests of which `limit` may go through: read what is left, write one less"
    }

    fn place(&self, client: u16, item: u16, keys: u16) -> Place {
        Place::in_turn(client, item, keys)
    }

    fn task(&self) -> Rc<dyn Task> {
        Rc::new(Self)
    }

    fn invariant(&self) -> Option<&'static dyn Invariant> {
        Some(&OverLimit)
    }

    fn is_limited(&self) -> bool {
        true
    }

    fn without_writing(&self, row: u32) -> String {
        format!("finds row {row} used up")
    }

    fn starts_at(&self, limit: i64) -> i64 {
        limit
    }
}

impl Task for RateLimit {
    fn decide(&self, _client: u16, row: Row) -> Decision {
        if row.value > 0 {
            Decision::Write(row.value - 1)
        } else {
            Decision::Skip
        }
    }

    fn acts(&self) -> Acts {
        Acts::AfterWrite
    }
}
