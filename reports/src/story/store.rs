//! What the store did: reads, writes, refusals, fences, and the ends of sessions.

use sim::history::{Dropped, Event, What};

use super::Weight;
use super::tell::Teller;
use crate::told;
use crate::words::length;

impl Teller<'_> {
    /// Tells an event, if it is one of the store's.
    pub(super) fn at_the_store(&mut self, index: usize) {
        let facts = self.facts;
        let Event { at, what, .. } = &facts.history.events[index];
        let (weight, text) = match what {
            // Whoever finds nothing free only looks whether there is still something to do.
            What::Read { token, .. } if token.is_empty() => return,
            What::Read { by, row, state, .. } => (
                Weight::Detail,
                format!(
                    "{by} reads row {row} (value {}, version {})",
                    state.value, state.version
                ),
            ),
            What::RefusedClaim {
                by,
                row,
                fence,
                state,
                ..
            } => (
                Weight::Notable,
                format!(
                    "the store REFUSES {by}'s claim of row {row}: its fence {fence} is too old, \
                     the row has seen {}",
                    state.fence
                ),
            ),
            What::RolledBack { by, row, .. } => {
                let text =
                    format!("{by}'s transaction is rolled back: its write to row {row} never was");
                // A row and its mark are undone together.
                if self.has_just_told(&text) {
                    return;
                }
                (Weight::Notable, text)
            }
            What::SessionDropped { of, why } => {
                let why = match (why, facts.around.idle_timeout) {
                    (Dropped::Idle, Some(after)) => {
                        format!("it said nothing for {}", length(after))
                    }
                    (Dropped::Idle, None) => "it said nothing for too long".into(),
                    (Dropped::Unreachable, _) => "nobody answers its keep-alive".into(),
                };
                let text = format!("the store drops the session of {of}: {why}");
                (Weight::Step, text)
            }
            What::Drawn { by, number } if told::carries(facts, *by, *number) => (
                Weight::Detail,
                format!("{by} draws fence {number} from the database's sequence"),
            ),
            What::Write { .. } => match self.write(index) {
                Some(told) => told,
                None => return,
            },
            _ => return,
        };
        self.push(*at, index, weight, text);
    }

    fn write(&self, event: usize) -> Option<(Weight, String)> {
        let facts = self.facts;
        let write = facts.writes.iter().find(|write| write.event == event)?;
        let grant = write.grant.map_or(String::new(), |grant| {
            format!(", under grant {}", facts.grants[grant].number)
        });
        let what = told::write_to(facts, write);
        if !write.accepted {
            let why = told::refused_because(facts, write).long;
            let text = format!("the store REFUSES {what}{grant}: {why}");
            return Some((Weight::Notable, text));
        }
        let fence = write
            .fence
            .map_or(String::new(), |fence| format!(", fence {fence}"));
        let values = if told::is_mark(facts, write) {
            String::new()
        } else {
            format!(" (value {}, was {})", write.value, write.before.value)
        };
        let text = format!("the store accepts {what}{grant}{fence}{values}");
        Some((Weight::Step, text))
    }
}
