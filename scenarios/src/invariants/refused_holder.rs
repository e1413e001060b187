//! A fence that shuts out the wrong one.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// The store refused an access of the newest grant while its holder believed.
#[derive(Debug, Clone, Copy)]
pub struct RefusedHolder;

impl Invariant for RefusedHolder {
    fn name(&self) -> &'static str {
        "refused-holder"
    }

    fn summary(&self) -> &'static str {
        "the store refused the newest holder while it rightly believed"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut breaches = Vec::new();
        for write in facts.writes.iter().filter(|write| !write.accepted) {
            let Some(grant) = write.grant.map(|grant| &facts.grants[grant]) else {
                continue;
            };
            let newer = |other: &crate::facts::Grant| {
                other.key == grant.key && other.number > grant.number && other.event < write.event
            };
            let believed = facts.beliefs.iter().any(|belief| {
                belief.token == write.token
                    && (belief.event..belief.last_event).contains(&write.event)
            });
            if believed && !facts.grants.iter().any(newer) {
                let fence = write
                    .fence
                    .map_or(String::new(), |fence| format!(" with fence {fence}"));
                breaches.push(Violation {
                    invariant: self.name(),
                    at: write.at,
                    event: write.event,
                    why: format!(
                        "the store, at fence {}, refused {}{fence}, the newest holder of {}",
                        write.before.fence, write.by, grant.key,
                    ),
                });
            }
        }
        breaches
    }
}
