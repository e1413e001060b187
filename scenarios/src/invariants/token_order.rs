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
        for pair in fenced.windows(2) {
            let [(key, _, older, _), (other, number, newer, belief)] = pair else {
                continue;
            };
            if key == other && newer <= older {
                breaches.push(Violation {
                    invariant: self.name(),
                    at: belief.from,
                    event: belief.event,
                    why: format!(
                        "{} got fence {newer} with grant {number}, after fence {older}",
                        belief.client,
                    ),
                });
            }
        }
        breaches
    }
}
