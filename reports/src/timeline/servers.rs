//! The lanes of what keeps the locks: whose token each server shows, and until when, or to whom
//! the store has given its own locks.

use std::collections::BTreeSet;

use algorithms::Service;
use algorithms::declare::owners;
use sim::clock::Clock;
use sim::history::{Event, Stored, What};
use sim::{Millis, NodeId};

use super::canvas::{Align, Area, BLACK, Canvas, GREY, OTHERS, RED, SMALL, WHITE, colour_of};
use super::{Picture, Target, life, margin, window};
use crate::told;

/// The most holders of one key that are shown at the same time.
const MOST_AT_ONCE: usize = 5;
/// How much room is needed to say how many are left out.
const LEFT_OUT: i32 = 16;

/// A lane: what a node keeps of the keys that are shown.
pub(super) struct Keeper {
    pub(super) node: NodeId,
    /// Whether it is the only one.
    alone: bool,
    /// Whether it says who is the master.
    roles: bool,
    /// From top to bottom. Nothing overlaps within a row.
    rows: Vec<(String, Vec<Kept>)>,
    /// How many find no room.
    left_out: usize,
}

impl Keeper {
    pub(super) fn height(&self) -> i32 {
        let rows = self.rows.len().max(1) as i32;
        let bars = if self.alone {
            (20 * rows).max(38)
        } else {
            22 * rows
        };
        bars + self.above() + if self.left_out > 0 { LEFT_OUT } else { 0 }
    }

    /// Adds a key, with as many rows as it has holders at the same time.
    fn add(&mut self, key: &str, mut all: Vec<Kept>) {
        let first = self.rows.len();
        self.rows.push((key.to_owned(), Vec::new()));
        all.sort_by_key(|kept| kept.from);
        for kept in all {
            let is_free = |(_, row): &(String, Vec<Kept>)| {
                let last = row.last();
                last.is_none_or(|last| last.until.is_some_and(|over| over <= kept.from))
            };
            match self.rows[first..].iter().position(is_free) {
                Some(row) => self.rows[first + row].1.push(kept),
                None if self.rows.len() < first + MOST_AT_ONCE => {
                    self.rows.push((key.to_owned(), vec![kept]));
                }
                None => self.left_out += 1,
            }
        }
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// How far below the lane's top the bars begin.
    fn above(&self) -> i32 {
        if self.roles { life::ROLES } else { 0 }
    }
}

/// A key under one value.
struct Kept {
    token: String,
    by: Option<NodeId>,
    from: Millis,
    until: Option<Millis>,
    expired: bool,
}

/// What a server keeps under a key while its history is replayed.
struct Now {
    token: String,
    by: Option<NodeId>,
    from: Millis,
    deadline: Option<Millis>,
}

impl Now {
    /// When the key is hidden, in the world's time.
    fn hidden(&self, clock: &Clock) -> Option<Millis> {
        Some(clock.wall_shows(self.deadline? + 1))
    }

    fn over(self, at: Option<Millis>, clock: &Clock) -> Kept {
        let hidden = self.hidden(clock);
        let expired = hidden.filter(|hidden| at.is_none_or(|at| *hidden <= at));
        Kept {
            until: expired.map(|hidden| hidden.max(self.from)).or(at),
            expired: expired.is_some(),
            token: self.token,
            by: self.by,
            from: self.from,
        }
    }
}

impl Picture<'_> {
    /// Whose lanes there are: the servers of the lock, or the store where it keeps the locks.
    pub(super) fn keeping(&self) -> Vec<NodeId> {
        let around = &self.run.around;
        match around.service {
            Service::Store => vec![NodeId::Store],
            _ => (1..=around.servers).map(NodeId::Lock).collect(),
        }
    }

    /// The lanes, with everything that they show.
    pub(super) fn keepers(&self) -> Vec<Keeper> {
        let nodes = self.keeping();
        let alone = nodes.len() == 1;
        let keeper = |node| {
            let mut keeper = Keeper {
                node,
                alone,
                roles: self.run.around.replicated,
                rows: Vec::new(),
                left_out: 0,
            };
            for key in &self.keys_of(node) {
                let mut all = self.kept(node, key);
                all.retain(|kept| self.span(kept.from, kept.until).is_some());
                if alone && !self.facts.around.counts() {
                    // A hash has fields that are no owners.
                    all.retain(|kept| self.facts.grant_of(&kept.token).is_some());
                }
                keeper.add(key, all);
            }
            keeper
        };
        nodes.into_iter().map(keeper).collect()
    }

    /// Which keys a lane shows: those of locks, or where nobody holds anything the counters.
    fn keys_of(&self, node: NodeId) -> Vec<String> {
        if !self.facts.around.counts() {
            return self.window.keys.clone();
        }
        let changed = self
            .facts
            .events_of(node)
            .filter_map(|event| match &event.what {
                What::Changed { key, .. } => Some(key.clone()),
                _ => None,
            });
        let keys: BTreeSet<String> = changed.collect();
        keys.into_iter().take(window::MOST_KEYS).collect()
    }

    /// Whether a key is seen to expire.
    pub(super) fn shows_expiry(&self) -> bool {
        let keepers = self.keepers();
        keepers.iter().any(|keeper| {
            let mut kept = keeper.rows.iter().flat_map(|(_, row)| row);
            kept.any(|kept| self.expires(keeper.node, kept).is_some())
        })
    }

    /// When a key expires, if that is shown.
    fn expires(&self, node: NodeId, kept: &Kept) -> Option<Millis> {
        let until = kept.until.filter(|_| kept.expired);
        until.filter(|at| self.shows(*at) && !self.is_down(node, *at))
    }

    /// How a key of a node changed over the run.
    fn kept(&self, node: NodeId, wanted: &str) -> Vec<Kept> {
        if node == NodeId::Store {
            return self.granted(wanted);
        }
        let is_tracked = |event: &Event| {
            matches!(
                &event.what,
                What::Changed {
                    after: Some(Stored {
                        tracked: Some(_),
                        ..
                    }),
                    ..
                }
            )
        };
        if self.facts.events_of(node).any(is_tracked) {
            return self.granted(wanted);
        }
        let mut all = Vec::new();
        let mut now: Vec<Now> = Vec::new();
        let mut clock = Clock::default();
        for Event { at, what, .. } in self.facts.events_of(node) {
            match what {
                What::Changed { by, key, after, .. } if key == wanted => {
                    let tokens: Vec<String> = after.iter().flat_map(owners).collect();
                    let deadline = after.as_ref().and_then(|after| after.deadline);
                    let stays = |now: &Now| {
                        let hidden = now.hidden(&clock).is_some_and(|hidden| hidden <= *at);
                        tokens.contains(&now.token) && !hidden
                    };
                    let (mut refreshed, over): (Vec<_>, Vec<_>) = now.into_iter().partition(stays);
                    all.extend(over.into_iter().map(|now| now.over(Some(*at), &clock)));
                    for now in &mut refreshed {
                        now.deadline = deadline;
                    }
                    now = refreshed;
                    for token in tokens {
                        if now.iter().all(|now| now.token != token) {
                            let (by, from) = (*by, *at);
                            now.push(Now {
                                token,
                                by,
                                from,
                                deadline,
                            });
                        }
                    }
                }
                What::ClockStepped { .. } | What::ClockRate { .. } | What::ClockOffset { .. } => {
                    let before = clock.clone();
                    what.applied_to(&mut clock, *at);
                    now.retain(|now| {
                        let by = |clock| now.hidden(clock).filter(|hidden| hidden <= at);
                        // What a change makes expire is gone from now on, not from earlier.
                        let gone = by(&clock).map(|gone| by(&before).unwrap_or(gone));
                        all.extend(gone.map(|gone| Kept {
                            until: Some(gone),
                            expired: true,
                            token: now.token.clone(),
                            by: now.by,
                            from: now.from,
                        }));
                        gone.is_none()
                    });
                }
                What::DataLost => {
                    all.extend(now.drain(..).map(|now| now.over(Some(*at), &clock)));
                }
                _ => {}
            }
        }
        all.extend(now.into_iter().map(|now| now.over(None, &clock)));
        all
    }

    /// A coordination server's keys say more than who holds, and the store's locks are no keys, so
    /// their lanes show the grants.
    fn granted(&self, wanted: &str) -> Vec<Kept> {
        let facts = self.facts;
        let grants = facts.grants.iter().enumerate();
        let of_key = grants.filter(|(_, grant)| grant.key == wanted);
        let kept = of_key.map(|(place, grant)| Kept {
            token: grant.token.clone(),
            by: Some(grant.client),
            from: grant.from,
            until: grant.until,
            expired: !facts.removals.iter().any(|end| end.grant == place)
                && !self.is_freed(&grant.token)
                && told::takeover_of(facts, grant).is_none(),
        });
        kept.collect()
    }

    /// Whether the store has freed a lock, which is no matter of time.
    fn is_freed(&self, wanted: &str) -> bool {
        let is =
            |event: &Event| matches!(&event.what, What::Freed { token, .. } if token == wanted);
        self.facts.events_of(NodeId::Store).any(is)
    }

    pub(super) fn keeper(&self, canvas: &mut Canvas<'_>, keeper: &Keeper, area: Area) {
        let node = keeper.node;
        match node {
            NodeId::Store => margin(canvas, area, "store's locks"),
            _ => margin(canvas, area, &node.to_string()),
        }
        let mut top = area.top + keeper.above();
        if keeper.roles {
            let strip = Area {
                bottom: top,
                ..area
            };
            self.roles(canvas, node, strip);
        }
        let mut bottom = area.bottom;
        if keeper.left_out > 0 {
            bottom -= LEFT_OUT;
            let at = (area.left + 5, bottom + LEFT_OUT / 2 - 1);
            let text = format!("{} more at the same times are not shown", keeper.left_out);
            canvas.text(&text, at, SMALL.colour(GREY), Align::Left);
        }
        let row = (bottom - top) / keeper.rows.len().max(1) as i32;
        let pad = if row > 30 { 8 } else { 2 };
        for (key, all) in &keeper.rows {
            let bar = Area {
                top: top + pad,
                bottom: top + row - pad,
                ..area
            };
            for kept in all {
                self.keeps(canvas, node, key, kept, bar);
            }
            top += row;
        }
        self.still(canvas, node, area, 6);
        self.covers_down(canvas, node, area, area.middle() + keeper.above() / 2);
        self.server_violations(canvas, node, area);
    }

    /// A bar for each time in which the node is up.
    fn keeps(&self, canvas: &mut Canvas<'_>, node: NodeId, key: &str, kept: &Kept, bar: Area) {
        for (from, until) in self.up_within(node, kept.from, kept.until) {
            if let Some((left, right)) = self.span(from, until) {
                self.bar(canvas, node, key, kept, Area { left, right, ..bar });
            }
        }
        if let Some(at) = self.expires(node, kept) {
            let x = self.x(at);
            canvas.line((x, bar.top - 4), (x, bar.bottom + 4), BLACK, 3);
        }
    }

    fn bar(&self, canvas: &mut Canvas<'_>, node: NodeId, key: &str, kept: &Kept, bar: Area) {
        let grant = self
            .facts
            .grant_of(&kept.token)
            .map(|grant| &self.facts.grants[grant]);
        let client = match grant.map(|grant| grant.client).or(kept.by) {
            Some(NodeId::Client(client)) => client,
            _ => 0,
        };
        let (colour, ink) = if self.window.clients.contains(&client) {
            colour_of(client)
        } else {
            (OTHERS, BLACK)
        };
        let counts = self.facts.around.counts();
        let solid = grant.is_some() || counts;
        if solid {
            canvas.fill(bar, colour);
        } else {
            // A token that a minority of the servers shows grants nothing.
            canvas.fill(bar, WHITE);
            canvas.hatch(bar, colour, 6, true);
        }
        canvas.outline(bar, BLACK, 1);
        let who = format!("client-{client}");
        let texts = match grant {
            Some(grant) => {
                let forever = kept.until.is_none() && self.window.until == self.run.history.ended;
                let tail = if forever {
                    ", to the end of the run"
                } else {
                    ""
                };
                vec![
                    format!("{key} is {who}'s (grant {}){tail}", grant.number),
                    format!("{who} (grant {})", grant.number),
                    format!("{who} ({})", grant.number),
                    format!("grant {}", grant.number),
                    grant.number.to_string(),
                ]
            }
            None if counts => vec![
                format!("{key} is {} ({who})", kept.token),
                format!("{key} is {}", kept.token),
                kept.token.clone(),
            ],
            None => vec![format!("{who}, no majority"), who],
        };
        // A mark at the bar's beginning needs room.
        let marked = self.run.verdict.violations.iter().any(|violation| {
            self.target(violation) == Target::Locks(node)
                && self.shows(violation.at)
                && (self.x(violation.at) - bar.left).abs() < 9
        });
        let indent = if marked { 13 } else { 5 };
        let room = bar.width() - indent - 3;
        let of = SMALL.colour(if solid { ink } else { BLACK });
        if let Some(text) = texts.iter().find(|text| of.width(text) <= room) {
            let at = (bar.left + indent, bar.middle());
            if solid {
                canvas.text(text, at, of, Align::Left);
            } else {
                canvas.label(text, at, of.size(10), Align::Left);
            }
        }
    }

    /// Releases of somebody else's lock, and the time in which nobody gets it.
    fn server_violations(&self, canvas: &mut Canvas<'_>, node: NodeId, area: Area) {
        for violation in &self.run.verdict.violations {
            if violation.invariant == "stuck" {
                let since = window::stuck_since(self.run, violation);
                let next = self
                    .facts
                    .grants
                    .iter()
                    .map(|grant| grant.from)
                    .find(|from| *from > violation.at);
                if let Some((left, right)) = self.span(since, next) {
                    let y = area.bottom - 2;
                    canvas.line((left, y), (right, y), RED, 3);
                    canvas.line((left, y - 5), (left, y), RED, 3);
                    if next.is_some_and(|next| self.shows(next)) {
                        canvas.line((right, y - 5), (right, y), RED, 3);
                    }
                }
                continue;
            }
            let here = self.target(violation) == Target::Locks(node);
            if here && self.shows(violation.at) {
                canvas.diamond((self.x(violation.at), area.middle()), 7);
            }
        }
    }
}
