//! Attempts that got nothing: they are counted, not told.

use std::collections::BTreeSet;

use scenarios::facts::Facts;
use sim::history::What;
use sim::{Millis, NodeId};

use super::{Line, Weight};
use crate::words::{clock, list, nodes};

/// Fewer attempts than this are not worth a line of their own.
const FEW: usize = 5;

/// The attempts of a run that got nothing.
pub(super) struct Polling {
    attempts: Vec<(Millis, NodeId, String)>,
    /// Who got a lease, and when.
    leased: Vec<(Millis, NodeId)>,
    /// Whether nobody asks for a lock.
    counts: bool,
}

impl Polling {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let attempts = facts.history.events.iter().filter_map(|event| {
            let What::Denied { key, .. } = &event.what else {
                return None;
            };
            Some((event.at, event.node, key.clone()))
        });
        let leased = facts
            .beliefs
            .iter()
            .map(|belief| (belief.from, belief.client));
        Self {
            attempts: attempts.collect(),
            leased: leased.collect(),
            counts: facts.around.counts(),
        }
    }

    /// Puts a line for all attempts of a while before the next line that matters.
    pub(super) fn woven_into(self, lines: Vec<Line>) -> Vec<Line> {
        let mut woven = Vec::new();
        let mut attempts = self.attempts.into_iter().peekable();
        let mut waiting: Vec<(Millis, NodeId, String)> = Vec::new();
        for line in lines {
            while let Some(attempt) = attempts.next_if(|(at, ..)| *at <= line.at) {
                waiting.push(attempt);
            }
            if waiting.len() >= FEW && line.weight >= Weight::Step {
                let who: BTreeSet<NodeId> = waiting.iter().map(|(_, who, _)| *who).collect();
                let keys: BTreeSet<&str> = waiting.iter().map(|(.., key)| key.as_str()).collect();
                let who: Vec<_> = who.into_iter().collect();
                let names = if who.len() > 4 {
                    format!("{} clients", who.len())
                } else {
                    nodes(&who)
                };
                let keys = if self.counts {
                    "an answer".to_owned()
                } else if keys.len() > 3 {
                    format!("{} locks", keys.len())
                } else {
                    list(&keys.into_iter().collect::<Vec<_>>())
                };
                let verb = if who.len() == 1 { "keeps" } else { "keep" };
                let at = waiting[waiting.len() - 1].0;
                let told = Line {
                    at,
                    event: 0,
                    weight: Weight::Detail,
                    text: format!(
                        "{names} {verb} asking for {keys}: {} attempts since {}",
                        waiting.len(),
                        clock(waiting[0].0)
                    ),
                };
                let place = woven.partition_point(|line: &Line| line.at <= at);
                woven.insert(place, told);
                waiting.clear();
            }
            // Who has got the lock has asked to some purpose.
            waiting.retain(|(at, who, _)| {
                let got = |(from, client): &(Millis, NodeId)| {
                    client == who && (*at..=line.at).contains(from)
                };
                !self.leased.iter().any(got)
            });
            woven.push(line);
        }
        woven
    }
}
