//! One client's writes among everybody else's reads: client-2 changes the rows, all others only read
//! them, twice each, and what they read must not change in between.
//!
//! A lock with a read side lets the readers in together. Any other one lets them in one by one.

use std::rc::Rc;

use algorithms::{Decision, Task};
use sim::store::Row;

use super::{Place, WorkKind};
use crate::invariants::{Invariant, TornRead};

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub struct ReadMostly;

/// Who writes. Client-1, which faults name, is the first to read.
const WRITER: u16 = 2;

impl WorkKind for ReadMostly {
    fn name(&self) -> &'static str {
        "read-mostly"
    }

    fn summary(&self) -> &'static str {
        "client-2 increments shared counters; all others read them, twice in a section"
    }

    fn place(&self, client: u16, item: u16, keys: u16) -> Place {
        Place::in_turn(client, item, keys)
    }

    fn least_clients(&self) -> u16 {
        WRITER
    }

    fn task(&self) -> Rc<dyn Task> {
        Rc::new(Self)
    }

    fn invariant(&self) -> Option<&'static dyn Invariant> {
        Some(&TornRead)
    }

    fn without_writing(&self, row: u32) -> String {
        format!("has read row {row} twice")
    }
}

impl Task for ReadMostly {
    fn decide(&self, client: u16, row: Row) -> Decision {
        match client {
            WRITER => Decision::Write(row.value + 1),
            _ => Decision::Reread,
        }
    }

    fn only_reads(&self, client: u16) -> bool {
        client != WRITER
    }
}
