//! Overtaken in a queue that promises order.

use std::collections::BTreeMap;

use sim::NodeId;
use sim::history::{Event, What};

use super::{Invariant, Violation};
use crate::facts::{Facts, Grant};

/// A client was granted a key while the attempt of another was under way whose first command the
/// lock's servers had executed earlier. An attempt that was denied has left, and comes anew with
/// the next. Judged only where order is promised.
#[derive(Debug, Clone, Copy)]
pub struct Unfair;

/// What nobody asks for a lock with: introducing oneself, and what an earlier release still deletes.
const NOT_ASKING: &[&str] = &["hello", "client", "del"];

/// An attempt under way.
struct Attempt<'a> {
    key: &'a str,
    /// The place in the history of its first command, once it was executed.
    came: Option<usize>,
}

impl Invariant for Unfair {
    fn name(&self) -> &'static str {
        "unfair"
    }

    fn summary(&self) -> &'static str {
        "a lock that promises order was given to a client before one that had come earlier"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let mut breaches = Vec::new();
        if !facts.around.ordered {
            return breaches;
        }
        let mut grants = BTreeMap::<usize, Vec<&Grant>>::new();
        for grant in &facts.grants {
            grants.entry(grant.event).or_default().push(grant);
        }
        let on_no_server = facts.around.servers == 0;
        let mut waiting = BTreeMap::<NodeId, Attempt<'_>>::new();
        for (place, Event { node, what, .. }) in facts.history.events.iter().enumerate() {
            match (node, what) {
                (client, What::Asked { key, .. }) => {
                    let came = on_no_server.then_some(place);
                    waiting.insert(*client, Attempt { key, came });
                }
                (NodeId::Lock(_), What::Executed { by, command })
                    if !NOT_ASKING.contains(command) =>
                {
                    if let Some(attempt) = waiting.get_mut(by) {
                        attempt.came.get_or_insert(place);
                    }
                }
                (
                    client,
                    What::Denied { .. } | What::Leased { .. } | What::Crashed | What::ThreadDied,
                ) => {
                    waiting.remove(client);
                }
                _ => {}
            }
            for grant in grants.get(&place).into_iter().flatten() {
                let own = waiting.remove(&grant.client);
                let came = own.and_then(|own| own.came).unwrap_or(place);
                let earlier = |attempt: &Attempt<'_>| {
                    attempt.key == grant.key && attempt.came.is_some_and(|other| other < came)
                };
                let overtaken: Vec<String> = waiting
                    .iter()
                    .filter(|(_, attempt)| earlier(attempt))
                    .map(|(client, _)| client.to_string())
                    .collect();
                if !overtaken.is_empty() {
                    breaches.push(Violation {
                        invariant: self.name(),
                        at: grant.from,
                        event: place,
                        why: format!(
                            "{} got {} before {}, who had come earlier",
                            grant.client,
                            grant.key,
                            overtaken.join(" and "),
                        ),
                    });
                }
            }
        }
        breaches
    }
}
