//! A fence is only worth something while it grows.

use super::{Invariant, Violation};
use crate::facts::Facts;

/// Fence tokens did not strictly grow in grant order.
#[derive(Debug, Clone, Copy)]
pub struct TokenOrder;

impl Invariant for TokenOrder {
    fn name(&self) -> &'static str {
        "token-order"
    }

    fn summary(&self) -> &'static str {
        "fence tokens did not strictly grow in the order of the grants"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut fenced: Vec<_> = facts
            .beliefs
            .iter()
            .filter_map(|belief| {
                let grant = &facts.grants[facts.grant_of(&belief.token)?];
                Some((&belief.key, grant.number, belief.fence?, belief))
            })
            .collect();
        fenced.sort_by_key(|(key, number, ..)| (*key, *number));
        let mut breaches = Vec::new();
        let mut highest: Option<(&String, u64, u32)> = None;
        for (key, number, fence, belief) in fenced {
            let older = highest.filter(|(other, ..)| *other == key);
            // Whoever is still granted and comes back under the same fence is in order.
            let breach =
                older.filter(|(_, older, of)| fence < *older || (fence == *older && number != *of));
            if let Some((_, older, _)) = breach {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: belief.from,
                    event: belief.event,
                    why: format!(
                        "{} got fence {fence} with grant {number}, after fence {older}",
                        belief.client,
                    ),
                });
            }
            let (mut most, mut of) = (fence, number);
            if let Some((_, older, older_of)) = older.filter(|(_, older, _)| *older > fence) {
                (most, of) = (older, older_of);
            }
            highest = Some((key, most, of));
        }
        breaches
    }
}
