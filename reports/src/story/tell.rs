//! The lines of a story, from the history and the facts.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::Service;
use scenarios::facts::{Facts, Grant};
use scenarios::{Run, Scenario};
use sim::fault::Fault;
use sim::history::{Event, GaveUp, Release, What};
use sim::{Millis, NodeId};

use super::polling::Polling;
use super::{Line, Weight};
use crate::told;
use crate::words::{clock, fault, length, list, over};

/// A lease that is heard of later than this after its grant is worth a line.
const LATE: Millis = 500;

/// Every line of a run, in order.
pub(super) fn lines(run: &Run, scenario: &Scenario) -> Vec<Line> {
    let facts = run.facts();
    let mut teller = Teller {
        run,
        scenario,
        facts: &facts,
        lines: Vec::new(),
    };
    teller.grants();
    teller.events();
    teller.violations();
    let ended = run.history.ended;
    let mut text = if ended >= run.around.ends {
        "the run ends here".to_owned()
    } else {
        "every client is done, and every fault is over".to_owned()
    };
    let held: Vec<String> = facts
        .grants
        .iter()
        .filter(|grant| grant.until.is_none())
        .map(|grant| {
            format!(
                "{} is still {}'s (grant {})",
                grant.key, grant.client, grant.number
            )
        })
        .take(3)
        .collect();
    if !held.is_empty() {
        text += &format!("; {}", list(&held));
    }
    teller.push(ended, usize::MAX, Weight::Step, text);
    teller.lines.sort_by_key(|line| (line.at, line.event));
    let polling = Polling::of(&facts);
    polling.woven_into(teller.lines)
}

pub(super) struct Teller<'r> {
    pub(super) run: &'r Run,
    scenario: &'r Scenario,
    pub(super) facts: &'r Facts<'r>,
    lines: Vec<Line>,
}

impl Teller<'_> {
    pub(super) fn push(&mut self, at: Millis, event: usize, weight: Weight, text: String) {
        self.lines.push(Line {
            at,
            event,
            weight,
            text,
        });
    }

    /// Whether the last line says the same.
    pub(super) fn has_just_told(&self, text: &str) -> bool {
        self.lines.last().is_some_and(|line| line.text == text)
    }

    /// Who gets the lock, who hears of it late, and how each grant ends.
    fn grants(&mut self) {
        let facts = self.facts;
        let in_database = facts.around.service == Service::Store;
        for (index, grant) in facts.grants.iter().enumerate() {
            let Grant {
                key,
                number,
                client,
                ..
            } = grant;
            let place = match facts.around.servers {
                0 if in_database => " in the database".to_owned(),
                0 => " in its own process".to_owned(),
                1 => String::new(),
                // Of two masters either may grant.
                _ if facts.around.replicated => {
                    let master = facts.history.events.get(grant.event);
                    master.map_or(String::new(), |event| format!(" on {}", event.node))
                }
                _ => " on a majority of the servers".to_owned(),
            };
            let belief = facts
                .beliefs
                .iter()
                .find(|belief| belief.token == grant.token);
            let fence = belief
                .and_then(|belief| belief.fence)
                .map_or(String::new(), |fence| format!(", fence {fence}"));
            // What waited in the network is granted to somebody who has given up on it; and who
            // finds the lease used up gives it back.
            let text = match belief {
                Some(_) => format!("{client} gets {key}{place} (grant {number}{fence})"),
                None => format!(
                    "{key} goes to {client}{place} (grant {number}), which does not count on it"
                ),
            };
            self.push(grant.from, grant.event, Weight::Step, text);
            if let Some(belief) = belief.filter(|belief| belief.from > grant.from + LATE) {
                let late = length(belief.from - grant.from);
                let lost = grant.until.filter(|until| *until <= belief.from);
                let tail = lost.map_or(String::new(), |until| {
                    format!("; it was over at {}", clock(until))
                });
                let text =
                    format!("{client} hears of its grant {number} only now, {late} later{tail}");
                self.push(belief.from, belief.event, Weight::Notable, text);
            }
            self.end_of(index, grant);
        }
    }

    fn end_of(&mut self, index: usize, grant: &Grant) {
        let facts = self.facts;
        let Some(until) = grant.until else { return };
        let Grant {
            key,
            number,
            client,
            token,
            ..
        } = grant;
        let removal = facts
            .removals
            .iter()
            .find(|removal| removal.grant == index && removal.at == until);
        if let Some(removal) = removal {
            let (weight, text) = if removal.by == *client {
                let sent = facts.history.events[..removal.event].iter().rev();
                let sent = sent.clone().find(|event| {
                    event.node == *client && matches!(event.what, What::Releasing { .. })
                });
                match sent.filter(|sent| sent.at + LATE < until) {
                    Some(sent) => {
                        let late = length(until - sent.at);
                        let text = format!("{client}'s release of {key} arrives, {late} later");
                        (Weight::Notable, text)
                    }
                    None => (Weight::Step, format!("{client} releases {key}")),
                }
            } else {
                (
                    Weight::Notable,
                    format!(
                        "a command of {} removes {key}, which {client} holds (grant {number})",
                        removal.by
                    ),
                )
            };
            self.push(until, removal.event, weight, text);
            return;
        }
        if let Some(next) = told::takeover_of(facts, grant) {
            let text = format!(
                "{} takes {key} over from {client}, whose lease it counts as over (grant {number})",
                next.client
            );
            return self.push(until, next.event, Weight::Notable, text);
        }
        // What happened at that instant, if not the passing of time?
        let first = facts
            .history
            .events
            .partition_point(|event| event.at < until);
        let here = || facts.history.events[first..].iter();
        // Whatever took the lease away is told before it.
        let is_cause = |event: &Event| {
            event.at == until
                && matches!(
                    event.what,
                    What::DataLost | What::Flushed | What::Evicted | What::ClockStepped { .. }
                )
        };
        let is_freed =
            |event: &Event| matches!(&event.what, What::Freed { token: t, .. } if t == token);
        let cause = here().position(|event| is_freed(event) || is_cause(event));
        let event = first + cause.unwrap_or(0);
        let now = |wanted: fn(&What) -> bool| {
            here()
                .take_while(|event| event.at == until)
                .any(|event| wanted(&event.what))
        };
        let believes = facts.beliefs.iter().any(|belief| {
            belief.token == *token
                && belief.from <= until
                && belief.until.is_none_or(|over| over > until)
        });
        let (mut text, weight) = if facts.around.service == Service::None {
            (format!("{client} releases {key}"), Weight::Step)
        } else if now(|what| matches!(what, What::Freed { .. })) {
            (
                format!("the database frees {key}: the session in which {client} held it is over"),
                Weight::Notable,
            )
        } else if now(|what| *what == What::DataLost) {
            (
                format!("{client}'s lease on {key} is gone with the servers' data"),
                Weight::Notable,
            )
        } else if now(|what| matches!(what, What::Promoted | What::Follows { .. })) {
            (
                format!("{client}'s lease on {key} is gone with the old master"),
                Weight::Notable,
            )
        } else if now(|what| *what == What::Flushed) {
            (
                format!("{client}'s lease on {key} is gone with the FLUSHALL"),
                Weight::Notable,
            )
        } else if now(|what| *what == What::Evicted) {
            (
                format!("{client}'s lease on {key} is evicted"),
                Weight::Notable,
            )
        } else if now(|what| matches!(what, What::ClockStepped { .. })) {
            (
                format!("{client}'s lease on {key} is over at once, by the servers' clocks"),
                Weight::Notable,
            )
        } else if facts.around.servers > 1 && !facts.around.replicated && now(is_removal) {
            (
                format!("{client} holds {key} on no majority any more"),
                Weight::Step,
            )
        } else {
            (
                format!("{client}'s lease on {key} expires"),
                Weight::Notable,
            )
        };
        if believes {
            text += &format!(", and {client} still believes that it holds the lock");
        }
        self.push(until, event, weight, text);
    }

    fn events(&mut self) {
        let mut silent = BTreeSet::new();
        let mut acted = BTreeSet::new();
        let mut asks_key = BTreeMap::<NodeId, String>::new();
        let (run, facts) = (self.run, self.facts);
        for (index, Event { at, node, what }) in facts.history.events.iter().enumerate() {
            let mut tell = |weight, text| self.push(*at, index, weight, text);
            match what {
                What::Struck { fault: place } => {
                    let planned = &run.instance.setup.plan.0[*place];
                    let text = format!("FAULT {}: {}", planned.fault.kind(), fault(planned));
                    tell(Weight::Fault, text);
                }
                What::Over { fault: place } => {
                    let planned = &run.instance.setup.plan.0[*place];
                    if let Some(text) = over(&planned.fault) {
                        let lasted = planned.fault.lasts();
                        let after = match planned.fault {
                            Fault::Restart { .. } => String::new(),
                            _ => format!(", after {}", length(lasted)),
                        };
                        tell(Weight::Fault, format!("{text}{after}"));
                    }
                }
                What::Promoted => tell(
                    Weight::Notable,
                    format!("{node} takes the place of the master"),
                ),
                What::Follows { master } => tell(
                    Weight::Notable,
                    format!("{node} becomes a replica of {master}, and takes over its data"),
                ),
                What::Asked { key, .. } => {
                    asks_key.insert(*node, key.clone());
                }
                What::Denied {
                    key,
                    section,
                    held: false,
                } if silent.insert((*node, *section)) => {
                    let text = if facts.around.counts() {
                        format!(
                            "{node} gets no answer from Redis: its request may have been counted \
                             without its knowing"
                        )
                    } else {
                        format!(
                            "{node} gets no clear answer to its request for {key}: it may hold \
                             it without knowing"
                        )
                    };
                    tell(Weight::Notable, text);
                }
                What::Working { takes, .. } => {
                    tell(
                        Weight::Detail,
                        format!("{node} works for {}", length(*takes)),
                    );
                }
                What::NoticedLoss { .. } => {
                    let key = asks_key.get(node).map_or("the lock", String::as_str);
                    tell(
                        Weight::Notable,
                        format!("{node} notices that its lease on {key} is lost"),
                    );
                }
                What::GivenUp { why, .. } => {
                    let why = match why {
                        GaveUp::StoreSilent => "the store did not answer in time",
                        GaveUp::SessionOver => "its database session is over",
                        GaveUp::StoreRefused => "the store refused it",
                        GaveUp::LeaseLost => "its lease is lost",
                    };
                    tell(
                        Weight::Notable,
                        format!("{node} gives this section up, because {why}"),
                    );
                }
                What::ReleaseEnded { release, key, .. } => match release {
                    Release::Done => {}
                    Release::NotOwner => tell(
                        Weight::Notable,
                        format!(
                            "{node} wants to release {key}, and hears that it holds it no more"
                        ),
                    ),
                    Release::Unknown => tell(
                        Weight::Notable,
                        format!("{node} gets no answer to its release of {key}"),
                    ),
                },
                What::ItemDone {
                    row,
                    wrote: false,
                    section,
                } if acted.contains(&(*node, *section)) => tell(
                    Weight::Detail,
                    format!("{node} is done with its request for row {row}"),
                ),
                What::ItemDone {
                    row, wrote: false, ..
                } => {
                    let what = self.scenario.work.without_writing(*row);
                    let text = format!("{node} {what}, and writes nothing");
                    self.push(*at, index, Weight::Detail, text);
                }
                What::Effect { row, section, .. } => {
                    acted.insert((*node, *section));
                    let text = format!("{node} acts on the world outside, for row {row}");
                    tell(Weight::Step, text);
                }
                _ => self.at_the_store(index),
            }
        }
    }

    fn violations(&mut self) {
        for violation in &self.run.verdict.violations {
            let text = format!("VIOLATION {}: {}", violation.invariant, violation.why);
            self.push(violation.at, violation.event, Weight::Violation, text);
        }
    }
}

fn is_removal(what: &What) -> bool {
    matches!(
        what,
        What::Changed {
            after: None,
            by: Some(_),
            ..
        }
    )
}
