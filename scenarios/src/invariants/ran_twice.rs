//! What the lock was for, in a queue of jobs.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::facts::Facts;

/// A job was run by two sections, whoever wrote it down.
#[derive(Debug, Clone, Copy)]
pub struct RanTwice;

impl Invariant for RanTwice {
    fn name(&self) -> &'static str {
        "ran-twice"
    }

    fn summary(&self) -> &'static str {
        "a job was run more than once"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut ran = BTreeMap::new();
        let mut breaches = Vec::new();
        for effect in &facts.effects {
            let first = ran.entry(effect.row).or_insert(effect);
            if first.event != effect.event {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: effect.at,
                    event: effect.event,
                    why: format!(
                        "{} ran job {} that {} had run already",
                        effect.by, effect.row, first.by
                    ),
                });
            }
        }
        breaches
    }
}
