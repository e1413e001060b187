//! Which part of a run the picture shows, and whom.

use std::collections::BTreeSet;

use scenarios::Run;
use scenarios::facts::Facts;
use scenarios::invariants::{PATIENCE, Violation};
use sim::history::What;
use sim::{Millis, NodeId};

/// The most client lanes, which is how many colours there are.
const MOST: usize = 6;
/// The most lanes of keys within a server's lane.
pub(super) const MOST_KEYS: usize = 5;

/// What the picture shows.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) from: Millis,
    pub(super) until: Millis,
    /// Which clients, in order.
    pub(super) clients: Vec<u16>,
    /// How many are left out.
    pub(super) left_out: usize,
    /// Which keys.
    pub(super) keys: Vec<String>,
}

/// The violation that the picture is about: the worst.
pub(super) fn worst(run: &Run) -> Option<&Violation> {
    run.verdict.violations.first()
}

/// When it began that nobody got the lock.
pub(super) fn stuck_since(run: &Run, violation: &Violation) -> Millis {
    violation.at.saturating_sub(run.around.ttl + PATIENCE)
}

/// Chooses.
pub(super) fn of(run: &Run, facts: &Facts<'_>) -> Window {
    let ended = run.history.ended.max(1);
    let (mut from, mut until) = (0, ended);
    let mut key = None;
    if let Some(violation) = worst(run) {
        let (first, last, about) = incident(run, facts, violation);
        let span = (last - first).max(20);
        from = first.saturating_sub(span / 12);
        until = (last + span / 8).min(ended);
        key = about;
    }
    let touches = |a: Millis, b: Option<Millis>| a <= until && b.is_none_or(|b| b >= from);

    // Those who matter most come first: who breached, whom a fault touches, who held.
    let mut order: Vec<NodeId> = Vec::new();
    if let Some(violation) = worst(run) {
        order.extend(actor(facts, violation));
    }
    let planned = run.instance.setup.plan.0.iter();
    order.extend(planned.flat_map(|planned| planned.fault.nodes()));
    let on_key = |other: &str| key.as_ref().is_none_or(|key| key == other);
    let held = facts
        .grants
        .iter()
        .filter(|grant| on_key(&grant.key) && touches(grant.from, grant.until));
    order.extend(held.map(|grant| grant.client));
    let asked = facts
        .asks
        .iter()
        .filter(|ask| on_key(&ask.key) && touches(ask.attempts[0], ask.until));
    order.extend(asked.map(|ask| ask.client));
    let all = run.instance.setup.clients;
    if worst(run).is_none() || usize::from(all) <= MOST {
        order.extend((1..=all).map(NodeId::Client));
    }

    let mut clients = BTreeSet::new();
    for node in order {
        if let NodeId::Client(number) = node
            && clients.len() < MOST
        {
            clients.insert(number);
        }
    }
    let left_out = usize::from(run.instance.setup.clients).saturating_sub(clients.len());
    if worst(run).is_none() && left_out > 0 {
        // Nobody went wrong: the time of those who are shown is as good as any other.
        let shown = |client: NodeId| matches!(client, NodeId::Client(n) if clients.contains(&n));
        let sections = facts
            .sections
            .iter()
            .filter(|section| shown(section.client));
        let last = sections.filter_map(|section| section.until).max();
        until = last.map_or(until, |last| (last + last / 12 + 1).min(until));
    }
    // Where the store chooses, who asks for one key may get another.
    let asked = facts.asks.iter().map(|ask| (&ask.key, ask.client));
    let granted = facts.grants.iter().map(|grant| (&grant.key, grant.client));
    let keys: BTreeSet<&String> = asked
        .chain(granted)
        .filter(|(key, _)| on_key(key))
        .filter(|(_, who)| matches!(who, NodeId::Client(n) if clients.contains(n)))
        .map(|(key, _)| key)
        .collect();
    Window {
        from,
        until,
        left_out,
        clients: clients.into_iter().collect(),
        keys: keys.into_iter().take(MOST_KEYS).cloned().collect(),
    }
}

/// Whose deed it was.
pub(super) fn actor(facts: &Facts<'_>, violation: &Violation) -> Option<NodeId> {
    if violation.invariant == "stuck" {
        return None;
    }
    let event = facts.history.events.get(violation.event)?;
    match &event.what {
        What::Write { by, .. } | What::RefusedClaim { by, .. } | What::Read { by, .. } => Some(*by),
        What::Changed { by, .. } => *by,
        _ => Some(event.node),
    }
}

/// From when to when, and which key.
fn incident(
    run: &Run,
    facts: &Facts<'_>,
    violation: &Violation,
) -> (Millis, Millis, Option<String>) {
    let (mut first, mut last) = (violation.at, violation.at);
    let mut key = None;
    let fault_before = |at: Millis| {
        let struck = |event: &&sim::history::Event| matches!(event.what, What::Struck { .. });
        let events = facts.history.events.iter().rev();
        events
            .filter(struck)
            .map(|event| event.at)
            .find(|struck| *struck <= at)
    };
    if violation.invariant == "stuck" {
        let since = stuck_since(run, violation);
        let next = facts.grants.iter().find(|grant| grant.from > violation.at);
        last = next.map_or(facts.history.ended, |grant| grant.from);
        // Long after it is clear that nobody gets it, nothing more is to be seen.
        last = last.min(violation.at + run.around.ttl);
        let before = facts.grants.iter().rev().find(|grant| grant.from <= since);
        first = before.map_or(since, |grant| grant.from.min(since));
        key = before.map(|grant| grant.key.clone());
        if let Some(struck) = fault_before(violation.at) {
            first = first.min(struck);
        }
        return (first, last, key);
    }
    let actor = actor(facts, violation);
    let belief = facts
        .beliefs
        .iter()
        .rev()
        .find(|belief| Some(belief.client) == actor && belief.from <= violation.at);
    if let Some(belief) = belief {
        key = Some(belief.key.clone());
        first = first.min(belief.from);
        if let Some(grant) = facts.grant_of(&belief.token) {
            first = first.min(facts.grants[grant].from);
        }
        last = last.max(belief.until.unwrap_or(last).min(last + run.around.ttl / 2));
    }
    // Everybody else's beliefs and grants of that key that reach into this time.
    let others = facts.beliefs.iter().filter(|other| {
        Some(&other.key) == key.as_ref()
            && other.from <= violation.at
            && other.until.is_none_or(|until| until >= first)
    });
    if violation.invariant == "overlap" || violation.invariant == "wrong-release" {
        first = others
            .map(|other| other.from)
            .min()
            .map_or(first, |f| f.min(first));
    }
    if violation.invariant == "overlap" {
        // Until both have stopped believing, if that is soon.
        let soon = violation.at + run.around.ttl;
        let ends = |other: &scenarios::facts::Belief| other.until.unwrap_or(facts.history.ended);
        let at_once = facts.beliefs.iter().filter(|other| {
            Some(&other.key) == key.as_ref()
                && other.from <= violation.at
                && ends(other) > violation.at
        });
        last = at_once.map(ends).max().map_or(last, |end| end.min(soon));
    }
    if let Some(struck) = fault_before(violation.at) {
        // A fault long before the section that breached is not its cause.
        if struck + 2 * run.around.ttl >= first {
            first = first.min(struck);
        }
    }
    (first, last, key)
}
