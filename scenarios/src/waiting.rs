//! What waiting cost: who was overtaken, and for how long a lock was of use to nobody.

use std::collections::BTreeSet;

use sim::history::What;
use sim::{Millis, NodeId};

use crate::facts::{Ask, Facts, Grant};

/// From when to when.
type Span = (Millis, Millis);

/// The most leases that others got, who had asked later, while one section waited. A client that
/// died meanwhile is left out.
pub fn overtaken(facts: &Facts<'_>) -> u64 {
    let ended = facts.history.ended;
    let waited = |ask: &&Ask| ask.leased || ask.until.is_none();
    let count = |(place, ask): (usize, &Ask)| {
        let over = ask.until.unwrap_or(ended);
        let before = |other: &&Ask| {
            let sooner = other.until.is_some_and(|until| until < over);
            other.key == ask.key && other.leased && sooner
        };
        waited(&ask).then(|| facts.asks[place + 1..].iter().filter(before).count() as u64)
    };
    let counts = facts.asks.iter().enumerate().filter_map(count);
    counts.max().unwrap_or(0)
}

/// The longest time that a lock was free while somebody waited for it.
pub fn idle(facts: &Facts<'_>) -> Millis {
    let ended = facts.history.ended;
    let keys: BTreeSet<_> = facts.asks.iter().map(|ask| &ask.key).collect();
    let longest = keys.into_iter().map(|key| {
        let granted = facts.grants.iter().filter(|grant| &grant.key == key);
        let granted = granted.map(|grant| (grant.from, grant.until.unwrap_or(ended)));
        let mut free = Vec::new();
        let mut since = 0;
        for (from, until) in union(granted.collect()) {
            free.push((since, from));
            since = until;
        }
        free.push((since, ended));
        let wanted = wanted(facts, key, None);
        let within = |span| longest_within(span, &wanted);
        free.into_iter().map(within).max().unwrap_or(0)
    });
    longest.max().unwrap_or(0)
}

/// The longest time that a lock was held for somebody who did not believe in it any more, or had
/// given up before hearing of it, or was dead, while another one waited.
pub fn orphaned(facts: &Facts<'_>) -> Millis {
    let longest = facts.grants.iter().map(|grant| {
        let until = grant.until.unwrap_or(facts.history.ended);
        let Some(from) = forsaken(facts, grant).filter(|from| *from < until) else {
            return 0;
        };
        let wanted = wanted(facts, &grant.key, Some(grant.client));
        longest_within((from, until), &wanted)
    });
    longest.max().unwrap_or(0)
}

/// From when on the holder of a grant does nothing with it any more.
fn forsaken(facts: &Facts<'_>, grant: &Grant) -> Option<Millis> {
    let mut beliefs = facts.beliefs.iter();
    if let Some(belief) = beliefs.find(|belief| belief.token == grant.token) {
        return belief.until;
    }
    let later = facts.history.events[grant.event..].iter();
    let gives_up =
        |what: &What| matches!(what, What::Denied { .. } | What::Crashed | What::ThreadDied);
    later
        .filter(|event| event.node == grant.client)
        .find(|event| gives_up(&event.what))
        .map(|event| event.at)
}

/// When a lock was wanted, by anybody but one.
fn wanted(facts: &Facts<'_>, key: &str, but: Option<NodeId>) -> Vec<Span> {
    let asks = facts.asks.iter();
    let asks = asks.filter(|ask| ask.key == key && Some(ask.client) != but);
    let span = |ask: &Ask| (ask.attempts[0], ask.until.unwrap_or(facts.history.ended));
    union(asks.map(span).collect())
}

/// The same times, in order and without overlaps.
fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (from, until) in spans {
        match joined.last_mut() {
            Some((_, last)) if from <= *last => *last = until.max(*last),
            _ => joined.push((from, until)),
        }
    }
    joined
}

fn longest_within((from, until): Span, spans: &[Span]) -> Millis {
    let common = |span: &Span| until.min(span.1).saturating_sub(from.max(span.0));
    spans.iter().map(common).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::told::{A, B, C, Told};

    #[track_caller]
    fn figures(told: Told, expected: (u64, Millis, Millis)) {
        let found = told.ended(60_000, |facts| {
            (overtaken(facts), idle(facts), orphaned(facts))
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn who_takes_turns_wastes_the_time_of_a_hand_over() {
        let told = Told::of_one()
            .takes(A, "a")
            .at(10)
            .asks(B)
            .at(100)
            .releasing(A, 1)
            .at(103)
            .deletes(A)
            .at(110)
            .sets(B, "b")
            .at(115)
            .leased(B, "b", None);
        figures(told, (0, 7, 3));
    }

    #[test]
    fn everybody_who_asked_later_and_got_it_sooner_counts() {
        let told = Told::of_one()
            .takes(A, "a")
            .at(10)
            .asks(B)
            .at(100)
            .gives_back(A)
            .at(100)
            .takes(C, "c")
            .gives_back(C)
            .takes(A, "again")
            .gives_back(A)
            .at(110)
            .sets(B, "b")
            .leased(B, "b", None);
        figures(told, (2, 10, 0));
    }

    #[test]
    fn a_dead_holders_lock_is_orphaned_until_it_expires() {
        let told = Told::of_one()
            .takes(A, "a")
            .at(500)
            .asks(B)
            .at(2_000)
            .crashes(A)
            .at(10_400)
            .takes(B, "b");
        // The key is hidden from 10,001 ms on.
        figures(told, (0, 399, 8_001));
    }

    #[test]
    fn a_lock_whose_taker_never_heard_of_it_is_orphaned() {
        let told = Told::of_one()
            .asks(A)
            .at(5)
            .sets(A, "a")
            .at(1_000)
            .denied(A, false)
            .crashes(A)
            .asks(B)
            .at(10_101)
            .takes(B, "b");
        figures(told, (0, 95, 9_006));
    }

    #[test]
    fn what_nobody_wants_costs_nothing() {
        let told = Told::of_one().takes(A, "a").at(100).crashes(A);
        figures(told, (0, 0, 0));
    }
}
