//! A queue of jobs that every client works on: each is to be run once. A row is zero until its job is
//! done, then it names who ran it. What a job does is outside of the database, and done before its
//! row is written.

use std::rc::Rc;

use algorithms::{Acts, Decision, Task};
use sim::store::Row;

use super::{Place, WorkKind};
use crate::invariants::{Invariant, RanTwice};

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Queue;

impl WorkKind for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn summary(&self) -> &'static str {
        "jobs that every client works on; each is run once, then marked as done"
    }

    fn place(&self, _client: u16, item: u16, keys: u16) -> Place {
        Place::of_item(item, keys)
    }

    fn task(&self) -> Rc<dyn Task> {
        Rc::new(Self)
    }

    fn invariant(&self) -> Option<&'static dyn Invariant> {
        Some(&RanTwice)
    }
}

impl Task for Queue {
    fn decide(&self, client: u16, row: Row) -> Decision {
        if row.value == 0 {
            Decision::Write(i64::from(client))
        } else {
            Decision::Skip
        }
    }

    fn acts(&self) -> Acts {
        Acts::BeforeWrite
    }
}
