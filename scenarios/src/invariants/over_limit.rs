//! What the lock was for, in a rate limiter.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::facts::Facts;

/// More requests went through than the limit allows.
#[derive(Debug, Clone, Copy)]
pub struct OverLimit;

impl Invariant for OverLimit {
    fn name(&self) -> &'static str {
        "over-limit"
    }

    fn summary(&self) -> &'static str {
        "more requests went through than the limit allows"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut through = BTreeMap::<u32, i64>::new();
        let mut breaches = Vec::new();
        for effect in &facts.effects {
            let count = through.entry(effect.row).or_default();
            *count += 1;
            if *count > facts.around.limit {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: effect.at,
                    event: effect.event,
                    why: format!(
                        "{} let request {count} through, of {} that limit {} allows",
                        effect.by, facts.around.limit, effect.row
                    ),
                });
            }
        }
        breaches
    }
}
