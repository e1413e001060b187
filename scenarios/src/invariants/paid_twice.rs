//! What the lock was for, in payouts.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::facts::Facts;

/// A payout was paid by two sections.
#[derive(Debug, Clone, Copy)]
pub struct PaidTwice;

impl Invariant for PaidTwice {
    fn name(&self) -> &'static str {
        "paid-twice"
    }

    fn summary(&self) -> &'static str {
        "a payout was paid more than once"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut paid = BTreeMap::new();
        let mut breaches = Vec::new();
        for write in facts.accepted() {
            let first = paid.entry(write.row).or_insert(write);
            // The same holder's repeated write pays once.
            if first.token != write.token {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: write.at,
                    event: write.event,
                    why: format!(
                        "{} paid payout {} that {} had paid already",
                        write.by, write.row, first.by,
                    ),
                });
            }
        }
        breaches
    }
}
