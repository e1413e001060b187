//! A write of somebody who has been succeeded.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// The store accepted a write of grant i after grant j > i was issued.
#[derive(Debug, Clone, Copy)]
pub struct StaleWrite;

impl Invariant for StaleWrite {
    fn name(&self) -> &'static str {
        "stale-write"
    }

    fn summary(&self) -> &'static str {
        "the store accepted a write of a holder who had been succeeded"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut breaches = Vec::new();
        for write in facts.accepted() {
            let Some(grant) = write.grant.map(|grant| &facts.grants[grant]) else {
                continue;
            };
            let successor = facts.grants.iter().find(|other| {
                other.key == grant.key && other.number > grant.number && other.event < write.event
            });
            if let Some(successor) = successor {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: write.at,
                    event: write.event,
                    why: format!(
                        "{} wrote row {} under grant {} after grant {} had gone to {}",
                        write.by, write.row, grant.number, successor.number, successor.client,
                    ),
                });
            }
        }
        breaches
    }
}
