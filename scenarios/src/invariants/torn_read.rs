//! What the lock was for, where sections read.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// A section read a row twice under one lease, and another one had written it in between. Databases
/// call it a non-repeatable read.
#[derive(Debug, Clone, Copy)]
pub struct TornRead;

impl Invariant for TornRead {
    fn name(&self) -> &'static str {
        "torn-read"
    }

    fn summary(&self) -> &'static str {
        "a row changed between two reads of a section that held the lock"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut breaches = Vec::new();
        for (place, again) in facts.reads.iter().enumerate() {
            let of_this_section = |read: &&crate::facts::Read| {
                (read.by, &read.token, read.row) == (again.by, &again.token, again.row)
            };
            let Some(first) = facts.reads[..place].iter().rev().find(of_this_section) else {
                continue;
            };
            let changed = facts.accepted().filter(|write| {
                write.row == again.row
                    && write.token != again.token
                    && (first.event..again.event).contains(&write.event)
            });
            let Some(write) = changed.last() else {
                continue;
            };
            breaches.push(Violation {
                invariant: self.name(),
                at: again.at,
                event: again.event,
                why: format!(
                    "{} read row {} twice under one lease and saw {}, then {}, which {} had written",
                    again.by, again.row, first.state.value, again.state.value, write.by,
                ),
            });
        }
        breaches
    }
}
