//! The moment that makes a scenario worth running. A run that never reached it is vacuous.
//!
//! A landmark speaks of the scenario's TTL and of what happened to nodes, messages and work,
//! never of what the lock did about it, so a lock that avoids the danger is judged.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim::fault::Point;
use sim::history::{Event, Release, Stored, What};
use sim::{Millis, NodeId};

use crate::facts::{Facts, Grant, Section};

/// The landmarks that a scenario can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Landmark {
    /// Client-1 stood still inside a section for longer than the TTL while another live
    /// client wanted the same key.
    WokeAfterLease,
    /// Work that takes longer than the TTL began while another client wanted the same key.
    WorkOutlivedLease,
    /// Work that takes longer than a database session may be idle began while another client
    /// wanted the same key.
    WorkOutlivedSession,
    /// Client-1, or the thread that did its work, died inside a section.
    HolderDied,
    /// Client-1's request to acquire got through and was not answered within its time-out.
    AcquireUnanswered,
    /// Client-1 was granted a lock and heard nothing of it for half a second.
    AcquireAnsweredLate,
    /// Client-1 stood still for longer than the TTL between sending its request to acquire
    /// and reading the answer, while another client wanted the key.
    AnswersAfterLease,
    /// A release of client-1 was not answered, and another client wanted the key before the
    /// retry.
    ReleaseUnanswered,
    /// A write reached the store later than a TTL after it was sent, and another client
    /// wanted the key in the meantime.
    WriteAfterLease,
    /// Client-1 was cut off from the lock's servers for longer than the TTL within a section.
    CutOutlivedLease,
    /// A server of the lock lost its data while a section was under way.
    DataLostWhileHeld,
    /// The wall clock of a server of the lock stepped while a section was under way.
    ClockSteppedWhileHeld,
    /// A fault struck a client while it waited for a lock that another one held.
    WaiterStruck,
    /// A client whose wall clock is wrong waited for a lock that another one held.
    WaitedByWrongClock,
    /// A server of the lock went down while a section was under way.
    ServerDownWhileHeld,
    /// A replica took the place of the master while a section was under way.
    MasterReplacedWhileHeld,
    /// A replica took the place of the master that did not hold what the master held.
    FailoverLostWrites,
    /// A replica became a master while the old one was up and still thought that it was it.
    TwoMasters,
}

impl Landmark {
    /// Every landmark.
    pub const ALL: &[Self] = &[
        Self::WokeAfterLease,
        Self::WorkOutlivedLease,
        Self::WorkOutlivedSession,
        Self::HolderDied,
        Self::AcquireUnanswered,
        Self::AcquireAnsweredLate,
        Self::AnswersAfterLease,
        Self::ReleaseUnanswered,
        Self::WriteAfterLease,
        Self::CutOutlivedLease,
        Self::DataLostWhileHeld,
        Self::ClockSteppedWhileHeld,
        Self::WaiterStruck,
        Self::WaitedByWrongClock,
        Self::ServerDownWhileHeld,
        Self::MasterReplacedWhileHeld,
        Self::FailoverLostWrites,
        Self::TwoMasters,
    ];

    /// Whether only those reach it who wait for a lock that another one holds.
    pub fn wants_a_waiter(self) -> bool {
        matches!(self, Self::WaiterStruck | Self::WaitedByWrongClock)
    }

    /// The name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::WokeAfterLease => "woke-after-lease",
            Self::WorkOutlivedLease => "work-outlived-lease",
            Self::WorkOutlivedSession => "work-outlived-session",
            Self::HolderDied => "holder-died",
            Self::AcquireUnanswered => "acquire-unanswered",
            Self::AcquireAnsweredLate => "acquire-answered-late",
            Self::AnswersAfterLease => "answers-after-lease",
            Self::ReleaseUnanswered => "release-unanswered",
            Self::WriteAfterLease => "write-after-lease",
            Self::CutOutlivedLease => "cut-outlived-lease",
            Self::DataLostWhileHeld => "data-lost-while-held",
            Self::ClockSteppedWhileHeld => "clock-stepped-while-held",
            Self::WaiterStruck => "waiter-struck",
            Self::WaitedByWrongClock => "waited-by-wrong-clock",
            Self::ServerDownWhileHeld => "server-down-while-held",
            Self::MasterReplacedWhileHeld => "master-replaced-while-held",
            Self::FailoverLostWrites => "failover-lost-writes",
            Self::TwoMasters => "two-masters",
        }
    }

    /// What it means, in one line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::WokeAfterLease => "client-1 stood still in a section for longer than the ttl",
            Self::WorkOutlivedLease => "work that takes longer than the ttl began",
            Self::WorkOutlivedSession => "work that takes longer than a session may be idle began",
            Self::HolderDied => "client-1, or its thread, died in a section",
            Self::AcquireUnanswered => "an acquire of client-1 was applied and not answered",
            Self::AcquireAnsweredLate => "client-1 heard late that it had been granted a lock",
            Self::AnswersAfterLease => "client-1 read the answer to its acquire after the ttl",
            Self::ReleaseUnanswered => "a release of client-1 was not answered in time",
            Self::WriteAfterLease => "a write reached the store a ttl after it was sent",
            Self::CutOutlivedLease => "client-1 was cut off from the lock for longer than the ttl",
            Self::DataLostWhileHeld => "a lock server lost its data while somebody held",
            Self::ClockSteppedWhileHeld => "a lock server's clock stepped while somebody held",
            Self::WaiterStruck => "a fault struck a client that waited for another one",
            Self::WaitedByWrongClock => "a client with a wrong wall clock waited for another one",
            Self::ServerDownWhileHeld => "a lock server went down while somebody held",
            Self::MasterReplacedWhileHeld => "a replica became the master while somebody held",
            Self::FailoverLostWrites => "a replica that lacked a write became the master",
            Self::TwoMasters => "a replica became the master while the old one went on as one",
        }
    }

    /// Whether the run reached it. `cuts` are the faults of the plan that hold the links
    /// between client-1 and the lock's servers.
    pub fn reached(self, facts: &Facts<'_>, cuts: &[usize]) -> bool {
        match self {
            Self::WokeAfterLease => stood_still(facts, |_| true),
            Self::WorkOutlivedLease => work_outlived(facts, facts.around.ttl),
            Self::WorkOutlivedSession => {
                let idle = facts.around.idle_timeout;
                idle.is_some_and(|idle| work_outlived(facts, idle))
            }
            Self::HolderDied => indexed(facts, FIRST).any(|(index, event)| {
                matches!(event.what, What::Crashed | What::ThreadDied)
                    && section_at(facts, FIRST, index).is_some()
            }),
            Self::AcquireUnanswered => acquire_unanswered(facts),
            Self::AcquireAnsweredLate => acquire_answered_late(facts),
            Self::AnswersAfterLease => answers_after_lease(facts),
            Self::ReleaseUnanswered => release_unanswered(facts),
            Self::WriteAfterLease => write_after_lease(facts),
            Self::CutOutlivedLease => cut_outlived_lease(facts, cuts),
            Self::DataLostWhileHeld => server_event_while_held(facts, |what| {
                matches!(what, What::DataLost | What::Flushed | What::Evicted)
            }),
            Self::ClockSteppedWhileHeld => {
                server_event_while_held(facts, |what| matches!(what, What::ClockStepped { .. }))
            }
            Self::WaiterStruck => facts.history.events.iter().any(|event| {
                matches!(event.what, What::Struck { .. })
                    && waited(facts, event.node, event.at, event.at)
            }),
            Self::WaitedByWrongClock => facts.history.events.iter().any(|event| {
                matches!(event.what, What::ClockOffset { .. })
                    && waited(facts, event.node, event.at, facts.history.ended)
            }),
            Self::ServerDownWhileHeld => {
                server_event_while_held(facts, |what| *what == What::Crashed)
            }
            Self::MasterReplacedWhileHeld => {
                server_event_while_held(facts, |what| *what == What::Promoted)
            }
            Self::FailoverLostWrites => failover_lost_writes(facts),
            Self::TwoMasters => two_masters(facts),
        }
    }
}

const FIRST: NodeId = NodeId::Client(1);

/// The events of one node, with their places in the history.
fn indexed<'f>(
    facts: &'f Facts<'_>,
    node: NodeId,
) -> impl DoubleEndedIterator<Item = (usize, &'f Event)> {
    let events = facts.history.events.iter().enumerate();
    events.filter(move |(_, event)| event.node == node)
}

/// The section that a client is in at an event.
fn section_at<'f>(facts: &'f Facts<'_>, client: NodeId, event: usize) -> Option<&'f Section> {
    facts.sections.iter().find(|section| {
        section.client == client && (section.event..=section.last_event).contains(&event)
    })
}

/// Whether client-1 stood still inside a section for longer than the TTL, while another client
/// wanted the same key, in a way that `matters`, given the place of the pause in the history.
fn stood_still(facts: &Facts<'_>, matters: impl Fn(usize) -> bool) -> bool {
    indexed(facts, FIRST).any(|(index, event)| {
        if !matches!(event.what, What::Paused { .. } | What::Suspended { .. }) {
            return false;
        }
        // Pauses may overlap, and a crash ends them all.
        let ends = indexed(facts, FIRST)
            .find(|(end, e)| *end > index && matches!(e.what, What::Resumed | What::Crashed));
        let until = ends.map_or(facts.history.ended, |(_, end)| end.at);
        until - event.at > facts.around.ttl
            && matters(index)
            && section_at(facts, FIRST, index).is_some_and(|section| {
                facts.wanted_by_another(FIRST, &section.key, event.at, until)
            })
    })
}

fn work_outlived(facts: &Facts<'_>, length: Millis) -> bool {
    let mut events = facts.history.events.iter().enumerate();
    events.any(|(index, Event { at, node, what })| {
        let What::Working { takes, .. } = what else {
            return false;
        };
        *takes > length
            && section_at(facts, *node, index).is_some_and(|section| {
                facts.wanted_by_another(*node, &section.key, *at, *at + *takes)
            })
    })
}

/// A lock that finds out later what it got believes in it then, and one that tries again within its
/// attempt has another lease then.
fn acquire_unanswered(facts: &Facts<'_>) -> bool {
    // Some send it again, and their attempt goes on.
    let late = facts.beliefs.iter().any(|belief| {
        let grant = facts.grant_of(&belief.token);
        let granted = grant.map(|place| facts.grants[place].from);
        let in_time = |granted| belief.from <= granted + facts.around.redis_timeout;
        belief.client == FIRST && !granted.is_none_or(in_time)
    });
    let mut own = facts.grants.iter().filter(|grant| grant.client == FIRST);
    late || own.any(|grant| {
        let mut beliefs = facts.beliefs.iter().filter(|b| b.token == grant.token);
        let belief = beliefs.next();
        indexed(facts, FIRST).any(|(index, event)| match event.what {
            What::Denied { held: false, .. } => {
                belief.is_none_or(|belief| grant.event < index && index < belief.event)
            }
            What::Leased { .. } => belief.is_none() && grant.event < index,
            _ => false,
        })
    })
}

/// How long an answer is on its way that comes late.
const LATE: Millis = 500;

fn acquire_answered_late(facts: &Facts<'_>) -> bool {
    let granted = facts.grants.iter().filter(|grant| grant.client == FIRST);
    granted.into_iter().any(|grant| {
        let mut later = indexed(facts, FIRST).filter(|(index, _)| *index > grant.event);
        let heard = later
            .find(|(_, event)| matches!(event.what, What::Leased { .. } | What::Denied { .. }));
        let at = heard.map_or(facts.history.ended, |(_, event)| event.at);
        at - grant.from >= LATE
    })
}

fn answers_after_lease(facts: &Facts<'_>) -> bool {
    // Whether the last that client-1 did before was to send its request.
    let waits_for_answer = |pause: usize| {
        let last = indexed(facts, FIRST).rev().find(|(index, event)| {
            *index < pause
                && matches!(
                    event.what,
                    What::Reached { .. }
                        | What::Asked { .. }
                        | What::Leased { .. }
                        | What::Denied { .. }
                )
        });
        last.is_some_and(|(_, event)| {
            matches!(
                event.what,
                What::Reached {
                    point: Point::AcquireSent,
                    ..
                }
            )
        })
    };
    stood_still(facts, waits_for_answer)
}

fn release_unanswered(facts: &Facts<'_>) -> bool {
    let mut tried = None;
    for event in facts.events_of(FIRST) {
        match &event.what {
            What::Releasing { key, attempt, .. } => {
                if let Some(first) = tried.filter(|_| *attempt > 1)
                    && facts.wanted_by_another(FIRST, key, first, event.at)
                {
                    return true;
                }
                tried = Some(event.at);
            }
            What::ReleaseEnded {
                key,
                release: Release::Done | Release::NotOwner,
                ..
            } => {
                // Some send it again by themselves.
                if let Some(first) = tried.take()
                    && event.at > first + facts.around.redis_timeout
                    && facts.wanted_by_another(FIRST, key, first, event.at)
                {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn write_after_lease(facts: &Facts<'_>) -> bool {
    let writes = facts
        .writes
        .iter()
        .map(|write| (write.by, write.at, write.event));
    let mut arrived: Vec<_> = writes.chain(facts.undone.iter().copied()).collect();
    arrived.sort_by_key(|(.., event)| *event);
    arrived.iter().any(|&(by, at, event)| {
        let sent = indexed(facts, by).filter(|(index, event_then)| {
            let checked = Point::WriteChecked;
            *index < event
                && matches!(event_then.what, What::Reached { point, .. } if point == checked)
        });
        let sent: Vec<_> = sent.collect();
        let of_its_section = match token_of(facts, event).and_then(|t| section_of_token(facts, t)) {
            Some(wanted) => sent.iter().rev().find(|(_, event)| {
                matches!(event.what, What::Reached { section, .. } if section == wanted)
            }),
            // Without a lock no lease tells which section it was; writes arrive as they were sent.
            None => {
                let earlier = |other: &&(NodeId, Millis, usize)| other.0 == by && other.2 < event;
                sent.get(arrived.iter().filter(earlier).count())
            }
        };
        of_its_section.is_some_and(|(index, sent)| {
            at - sent.at > facts.around.ttl
                && section_at(facts, by, *index)
                    .is_some_and(|section| facts.wanted_by_another(by, &section.key, sent.at, at))
        })
    })
}

/// The owner token of a write, by its place in the history.
fn token_of<'f>(facts: &'f Facts<'_>, event: usize) -> Option<&'f str> {
    match &facts.history.events.get(event)?.what {
        What::Write { token, .. }
        | What::RolledBack { token, .. }
        | What::RefusedClaim { token, .. } => Some(token),
        _ => None,
    }
}

fn section_of_token(facts: &Facts<'_>, token: &str) -> Option<u32> {
    facts
        .beliefs
        .iter()
        .find(|belief| belief.token == token)
        .map(|belief| belief.section)
}

fn cut_outlived_lease(facts: &Facts<'_>, cuts: &[usize]) -> bool {
    let mut events = facts.history.events.iter().enumerate();
    events.any(|(index, event)| {
        let What::Struck { fault } = event.what else {
            return false;
        };
        let over = facts
            .history
            .events
            .iter()
            .find(|over| over.what == What::Over { fault });
        let until = over.map_or(facts.history.ended, |over| over.at);
        cuts.contains(&fault)
            && until - event.at > facts.around.ttl
            && section_at(facts, FIRST, index).is_some_and(|section| {
                facts.wanted_by_another(FIRST, &section.key, event.at, until)
            })
    })
}

/// Whether a client waited, at some time from one to another, for a key that was granted to another
/// one.
fn waited(facts: &Facts<'_>, client: NodeId, from: Millis, until: Millis) -> bool {
    facts.asks.iter().any(|ask| {
        let from = from.max(ask.attempts[0]);
        let until = until.min(ask.until.unwrap_or(until));
        let held = |grant: &Grant| {
            grant.client != client
                && grant.key == ask.key
                && grant.from <= until
                && grant.until.is_none_or(|over| over >= from)
        };
        ask.client == client && from <= until && facts.grants.iter().any(held)
    })
}

fn failover_lost_writes(facts: &Facts<'_>) -> bool {
    let mut stored = BTreeMap::<NodeId, BTreeMap<&str, &Stored>>::new();
    let mut master = NodeId::Lock(1);
    for Event { node, what, .. } in &facts.history.events {
        match what {
            What::Changed { key, after, .. } => {
                let keys = stored.entry(*node).or_default();
                match after {
                    Some(after) => keys.insert(key, after),
                    None => keys.remove(key.as_str()),
                };
            }
            What::DataLost => {
                stored.remove(node);
            }
            What::Promoted => {
                let of = |server| stored.get(&server).cloned().unwrap_or_default();
                if of(*node) != of(master) {
                    return true;
                }
                master = *node;
            }
            _ => {}
        }
    }
    false
}

fn two_masters(facts: &Facts<'_>) -> bool {
    let mut masters = BTreeMap::from([(NodeId::Lock(1), true)]);
    for Event { node, what, .. } in &facts.history.events {
        match what {
            What::Promoted => {
                if masters.values().any(|alive| *alive) {
                    return true;
                }
                masters.insert(*node, true);
            }
            What::Follows { .. } => {
                masters.remove(node);
            }
            What::Crashed | What::Started => {
                let alive = *what == What::Started;
                masters.entry(*node).and_modify(|was| *was = alive);
            }
            _ => {}
        }
    }
    false
}

fn server_event_while_held(facts: &Facts<'_>, which: impl Fn(&What) -> bool) -> bool {
    // Between the lease and the release: what a client believes is what happened to its work.
    facts
        .history
        .events
        .iter()
        .enumerate()
        .any(|(index, event)| {
            facts
                .around
                .service
                .nodes(facts.around.servers)
                .contains(&event.node)
                && which(&event.what)
                && facts
                    .beliefs
                    .iter()
                    .any(|belief| (belief.event..belief.last_event).contains(&index))
        })
}
