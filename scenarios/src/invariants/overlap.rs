//! Two who both believe.

use super::{Invariant, Violation, seconds};
use crate::facts::Facts;

/// Two clients' beliefs about one key share a whole millisecond, and not both of them hold it
/// together with others.
#[derive(Debug, Clone, Copy)]
pub struct Overlap;

impl Invariant for Overlap {
    fn name(&self) -> &'static str {
        "overlap"
    }

    fn summary(&self) -> &'static str {
        "two clients believed at the same time that they hold the lock"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut breaches = Vec::new();
        for (index, later) in facts.beliefs.iter().enumerate() {
            for earlier in &facts.beliefs[..index] {
                let apart = earlier.key != later.key || earlier.client == later.client;
                if apart || (earlier.shared && later.shared) {
                    continue;
                }
                let end = |until: Option<_>| until.unwrap_or(facts.history.ended);
                let from = earlier.from.max(later.from);
                let until = end(earlier.until).min(end(later.until));
                if until > from {
                    breaches.push(Violation {
                        invariant: self.name(),
                        at: from,
                        event: later.event,
                        why: format!(
                            "{} and {} both believed for {} that they hold {}",
                            earlier.client,
                            later.client,
                            seconds(until - from),
                            later.key,
                        ),
                    });
                }
            }
        }
        breaches
    }
}
