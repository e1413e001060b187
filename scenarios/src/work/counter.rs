//! Every client increments counters of everybody: read, add one, write back.
//!
//! At the end each counter equals the increments that the store has acknowledged, unless an
//! update was lost.

use std::rc::Rc;

use algorithms::{Decision, Task};
use sim::store::Row;

use super::{Place, WorkKind};
use crate::invariants::Invariant;

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Counter;

impl WorkKind for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn summary(&self) -> &'static str {
        "each client's own increments of shared counters: read, add, write back"
    }

    fn place(&self, client: u16, item: u16, keys: u16) -> Place {
        Place::in_turn(client, item, keys)
    }

    fn task(&self) -> Rc<dyn Task> {
        Rc::new(Self)
    }

    fn invariant(&self) -> Option<&'static dyn Invariant> {
        None
    }
}

impl Task for Counter {
    fn decide(&self, _client: u16, row: Row) -> Decision {
        Decision::Write(row.value + 1)
    }
}
