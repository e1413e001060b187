//! A lock that nobody holds and nobody gets.

use std::collections::BTreeSet;

use serde::Serialize;
use sim::Millis;

use super::{Invariant, Violation, seconds};
use crate::facts::Facts;

/// How much longer than a lease nobody may be granted.
pub const PATIENCE: Millis = 5_000;

/// The faults are over, a live client asks, no live client believes that it holds, and for
/// longer than a TTL and five seconds nobody is granted.
#[derive(Debug, Clone, Copy)]
pub struct Stuck;

/// For how long nobody got a lock that somebody wanted. One that lasts until the run ends is longer
/// than any other, for nobody knows when it would have been over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StuckFor {
    /// Whether only the end of the run ended it.
    pub to_the_end: bool,
    /// How long it lasted, in milliseconds.
    pub lasted: Millis,
}

impl Stuck {
    /// The longest breach of a run.
    pub fn longest(facts: &Facts<'_>) -> Option<StuckFor> {
        let spells = Self::spells(facts).into_iter();
        spells.map(|(.., spell)| spell).max()
    }

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
        let events = &facts.history.events;
        let breach = |(key, start, spell): (&str, Millis, StuckFor)| {
            let lasted = seconds(spell.lasted);
            let tail = if spell.to_the_end {
                ", until the run ended"
            } else {
                ""
            };
            Violation {
                invariant: self.name(),
                at: start + facts.around.ttl + PATIENCE,
                event: events
                    .partition_point(|event| event.at <= start)
                    .min(events.len() - 1),
                why: format!(
                    "nobody at work held {key} and nobody was granted it for {lasted}{tail}"
                ),
            }
        };
        Self::spells(facts).into_iter().map(breach).collect()
    }
}

impl Stuck {
    /// Which key, since when, and for how long.
    fn spells<'f>(facts: &'f Facts<'_>) -> Vec<(&'f str, Millis, StuckFor)> {
        let Some(over) = facts.faults_over.filter(|_| Self::can_judge(facts)) else {
            return Vec::new();
        };
        let keys: BTreeSet<&str> = facts.asks.iter().map(|ask| ask.key.as_str()).collect();
        let of_key = |key| {
            let spells = Self::spells_of(facts, key, over).into_iter();
            spells.map(move |(start, spell)| (key, start, spell))
        };
        keys.into_iter().flat_map(of_key).collect()
    }

    fn spells_of(facts: &Facts<'_>, key: &str, over: Millis) -> Vec<(Millis, StuckFor)> {
        let ended = facts.history.ended;
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

        let mut spells = Vec::new();
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
                let lasted = at - start;
                if lasted > facts.around.ttl + PATIENCE {
                    let to_the_end = at == ended && in_vain && !granted;
                    spells.push((start, StuckFor { to_the_end, lasted }));
                }
                since = None;
            }
            if in_vain {
                since.get_or_insert(at);
            }
        }
        spells
    }
}
