//! The headline number.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::facts::Facts;

/// The store accepted a write of grant i after it had accepted a write of grant j > i to the
/// same row.
#[derive(Debug, Clone, Copy)]
pub struct DoubleWrite;

impl Invariant for DoubleWrite {
    fn name(&self) -> &'static str {
        "double-write"
    }

    fn summary(&self) -> &'static str {
        "the store accepted an older holder's write after a newer holder's write to the same row"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        // By row and key: the newest grant that has written.
        let mut newest = BTreeMap::new();
        let mut breaches = Vec::new();
        for write in facts.accepted() {
            let Some(grant) = write.grant.map(|grant| &facts.grants[grant]) else {
                continue;
            };
            let newest = newest.entry((write.row, &grant.key)).or_insert(grant);
            if grant.number < newest.number {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: write.at,
                    event: write.event,
                    why: format!(
                        "{} wrote row {} under grant {} after {} had written it under grant {}",
                        write.by, write.row, grant.number, newest.client, newest.number,
                    ),
                });
            } else {
                *newest = grant;
            }
        }
        breaches
    }
}
