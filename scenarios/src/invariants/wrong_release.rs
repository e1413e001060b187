//! Freeing what is not yours.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// A release removed a lock that somebody else held.
#[derive(Debug, Clone, Copy)]
pub struct WrongRelease;

impl Invariant for WrongRelease {
    fn name(&self) -> &'static str {
        "wrong-release"
    }

    fn summary(&self) -> &'static str {
        "a release removed a lock that somebody else held"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let stranger =
            |removal: &&crate::facts::Removal| facts.grants[removal.grant].client != removal.by;
        let breaches = facts.removals.iter().filter(stranger).map(|removal| {
            let grant = &facts.grants[removal.grant];
            Violation {
                invariant: self.name(),
                at: removal.at,
                event: removal.event,
                why: format!(
                    "{} released {}, which {} held",
                    removal.by, grant.key, grant.client
                ),
            }
        });
        breaches.collect()
    }
}
