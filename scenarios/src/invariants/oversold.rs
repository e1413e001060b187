//! What the lock was for, in a flash sale.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// A purchase took the stock below zero.
#[derive(Debug, Clone, Copy)]
pub struct Oversold;

impl Invariant for Oversold {
    fn name(&self) -> &'static str {
        "oversold"
    }

    fn summary(&self) -> &'static str {
        "more was sold than there was"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let below = facts.accepted().filter(|write| write.value < 0);
        let breaches = below.map(|write| Violation {
            invariant: self.name(),
            at: write.at,
            event: write.event,
            why: format!(
                "{} bought from row {}, which had {} left",
                write.by, write.row, write.before.value
            ),
        });
        breaches.collect()
    }
}
