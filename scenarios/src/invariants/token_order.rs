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
        let mut highest: Option<(&String, u64)> = None;
        for (key, number, fence, belief) in fenced {
            let older = highest
                .filter(|(other, _)| *other == key)
                .map(|(_, fence)| fence);
            if let Some(older) = older.filter(|older| fence <= *older) {
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
            highest = Some((key, older.unwrap_or(0).max(fence)));
        }
        breaches
    }
}
