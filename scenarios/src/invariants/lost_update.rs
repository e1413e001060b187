//! A write on top of something its writer has not seen.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// An accepted read-modify-write overwrote a state that it had not read.
#[derive(Debug, Clone, Copy)]
pub struct LostUpdate;

impl Invariant for LostUpdate {
    fn name(&self) -> &'static str {
        "lost-update"
    }

    fn summary(&self) -> &'static str {
        "an accepted read-modify-write overwrote a state that it had not read"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut breaches = Vec::new();
        for write in facts.accepted().filter(|write| !write.adds) {
            let of_this_section = |read: &&crate::facts::Read| {
                read.event < write.event
                    && (read.by, &read.token, read.row) == (write.by, &write.token, write.row)
            };
            let Some(read) = facts.reads.iter().rev().find(of_this_section) else {
                continue;
            };
            if read.state.version == write.before.version {
                continue;
            }
            let lost = facts.accepted().filter(|other| {
                other.row == write.row && (read.event..write.event).contains(&other.event)
            });
            // The same holder's own write, repeated, loses nothing.
            let Some(lost) = lost.filter(|other| other.token != write.token).last() else {
                continue;
            };
            breaches.push(Violation {
                invariant: self.name(),
                at: write.at,
                event: write.event,
                why: format!(
                    "{} wrote row {} without having read what {} wrote there",
                    write.by, write.row, lost.by,
                ),
            });
        }
        breaches
    }
}
