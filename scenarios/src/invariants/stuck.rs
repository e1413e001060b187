//! A lock that nobody holds and nobody gets.

use std::collections::BTreeSet;

use sim::Millis;

use super::{Invariant, Violation, seconds};
use crate::facts::Facts;

/// How much longer than a lease nobody may be granted.
pub const PATIENCE: Millis = 5_000;

/// The faults are over, a live client asks, no live client believes that it holds, and for
/// longer than a TTL and five seconds nobody is granted.
#[derive(Debug, Clone, Copy)]
pub struct Stuck;

impl Stuck {
    /// Whether a run leaves enough time after its faults to judge this.
    pub fn can_judge(facts: &Facts<'_>) -> bool {
        let around = facts.around;
        let needs = |over: Millis| over + around.ttl + PATIENCE < around.ends;
        // A run whose clients got everything done was not stuck, however short.
        facts
            .faults_over
            .is_some_and(|over| needs(over) || facts.history.ended < around.ends)
    }
}

impl Invariant for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn summary(&self) -> &'static str {
        "after the faults somebody asked, nobody held, and nobody was granted for ttl + 5 s"
    }

    fn check(&self, facts: &Facts<'_>) -> Vec<Violation> {
        let Some(over) = facts.faults_over.filter(|_| Self::can_judge(facts)) else {
            return Vec::new();
        };
        let keys: BTreeSet<_> = facts.asks.iter().map(|ask| &ask.key).collect();
        keys.into_iter()
            .flat_map(|key| self.check_key(facts, key, over))
            .collect()
    }
}

impl Stuck {
    fn check_key(&self, facts: &Facts<'_>, key: &str, over: Millis) -> Vec<Violation> {
        let (ended, events) = (facts.history.ended, &facts.history.events);
        let asks: Vec<_> = facts.asks.iter().filter(|ask| ask.key == key).collect();
        let beliefs: Vec<_> = facts
            .beliefs
            .iter()
            .filter(|belief| belief.key == key)
            .collect();
        let grants: Vec<_> = facts
            .grants
            .iter()
            .filter(|grant| grant.key == key)
            .collect();
        let within = |from: Millis, until: Option<Millis>, at: Millis| {
            from <= at && until.is_none_or(|until| at < until)
        };

        // Whether anybody waits in vain can only change at these times.
        let mut times = BTreeSet::from([over, ended]);
        times.extend(
            asks.iter()
                .flat_map(|ask| [Some(ask.attempts[0]), ask.until])
                .flatten(),
        );
        times.extend(
            beliefs
                .iter()
                .flat_map(|b| [Some(b.from), b.until])
                .flatten(),
        );
        times.extend(grants.iter().map(|grant| grant.from));

        let mut breaches = Vec::new();
        let mut since = None;
        for at in times.range(over..=ended).copied() {
            let granted = grants.iter().any(|grant| grant.from == at);
            let asked = asks
                .iter()
                .any(|ask| within(ask.attempts[0], ask.until, at));
            let believed = beliefs
                .iter()
                .any(|belief| within(belief.from, belief.until, at));
            let in_vain = asked && !believed;
            if let Some(start) = since
                && (granted || !in_vain || at == ended)
            {
                let length = at - start;
                if length > facts.around.ttl + PATIENCE {
                    let for_ever = at == ended && in_vain && !granted;
                    let long = if for_ever {
                        "for ever".into()
                    } else {
                        format!("for {}", seconds(length))
                    };
                    breaches.push(Violation {
                        invariant: self.name(),
                        at: start + facts.around.ttl + PATIENCE,
                        event: events
                            .partition_point(|event| event.at <= start)
                            .min(events.len() - 1),
                        why: format!("no live client held {key} and nobody was granted it, {long}"),
                    });
                }
                since = None;
            }
            if in_vain {
                since.get_or_insert(at);
            }
        }
        breaches
    }
}
