//! The lanes of the lock's servers: whose token each shows, and until when.

use algorithms::declare::owners;
use sim::clock::Clock;
use sim::history::{Event, Stored, What};
use sim::{Millis, NodeId};

use super::canvas::{Align, Area, BLACK, Canvas, OTHERS, RED, SMALL, WHITE, colour_of};
use super::{Picture, Target, margin, window};

/// The height of a server's lane.
pub(super) fn height(picture: &Picture<'_>) -> i32 {
    let rows = picture.window.keys.len().max(1) as i32;
    if picture.run.around.servers == 1 {
        (20 * rows).max(38)
    } else {
        22 * rows
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
    /// Whether a key is seen to expire.
    pub(super) fn shows_expiry(&self) -> bool {
        let mut servers = 1..=self.run.around.servers;
        servers.any(|server| {
            let kept = |key| self.kept(server, key).into_iter();
            let mut kept = self.window.keys.iter().flat_map(|key| kept(key));
            kept.any(|kept| kept.expired && kept.until.is_some_and(|until| self.shows(until)))
        })
    }

    /// How a key of a server changed over the run.
    fn kept(&self, server: u16, wanted: &str) -> Vec<Kept> {
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
        if self.facts.events_of(NodeId::Lock(server)).any(is_tracked) {
            return self.granted(wanted);
        }
        let mut all = Vec::new();
        let mut now: Vec<Now> = Vec::new();
        let mut clock = Clock::default();
        for Event { at, what, .. } in self.facts.events_of(NodeId::Lock(server)) {
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

    /// A coordination server's keys say more than who holds, so its lane shows the grants.
    fn granted(&self, wanted: &str) -> Vec<Kept> {
        let grants = self.facts.grants.iter().enumerate();
        let of_key = grants.filter(|(_, grant)| grant.key == wanted);
        let kept = of_key.map(|(place, grant)| Kept {
            token: grant.token.clone(),
            by: Some(grant.client),
            from: grant.from,
            until: grant.until,
            expired: !self.facts.removals.iter().any(|end| end.grant == place),
        });
        kept.collect()
    }

    pub(super) fn server(&self, canvas: &mut Canvas<'_>, server: u16, area: Area) {
        margin(canvas, area, &NodeId::Lock(server).to_string());
        let keys = &self.window.keys;
        let row = (area.bottom - area.top) / keys.len().max(1) as i32;
        for (index, key) in keys.iter().enumerate() {
            let top = area.top + row * index as i32;
            let pad = if row > 30 { 8 } else { 2 };
            let bar = Area {
                top: top + pad,
                bottom: top + row - pad,
                ..area
            };
            for kept in self.kept(server, key) {
                self.keeps(canvas, server, key, &kept, bar);
            }
        }
        for Event { at, what, .. } in self.facts.events_of(NodeId::Lock(server)) {
            if self.shows(*at) && *what == What::Crashed {
                canvas.cross((self.x(*at), area.middle()), 8, 3);
            }
        }
        self.server_violations(canvas, server, area);
    }

    fn keeps(&self, canvas: &mut Canvas<'_>, server: u16, key: &str, kept: &Kept, bar: Area) {
        let Some((left, right)) = self.span(kept.from, kept.until) else {
            return;
        };
        let bar = Area { left, right, ..bar };
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
        if grant.is_some() {
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
            None => vec![format!("{who}, no majority"), who],
        };
        // A mark at the bar's beginning needs room.
        let marked = self.run.verdict.violations.iter().any(|violation| {
            self.target(violation) == Target::Server(server)
                && self.shows(violation.at)
                && (self.x(violation.at) - bar.left).abs() < 9
        });
        let indent = if marked { 13 } else { 5 };
        let room = bar.width() - indent - 3;
        let of = SMALL.colour(if grant.is_some() { ink } else { BLACK });
        if let Some(text) = texts.iter().find(|text| of.width(text) <= room) {
            let at = (bar.left + indent, bar.middle());
            if grant.is_some() {
                canvas.text(text, at, of, Align::Left);
            } else {
                canvas.label(text, at, of.size(10), Align::Left);
            }
        }
        if let Some(until) = kept
            .until
            .filter(|until| kept.expired && self.shows(*until))
        {
            let x = self.x(until);
            canvas.line((x, bar.top - 4), (x, bar.bottom + 4), BLACK, 3);
        }
    }

    /// Releases of somebody else's lock, and the time in which nobody gets it.
    fn server_violations(&self, canvas: &mut Canvas<'_>, server: u16, area: Area) {
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
                    if next.is_some() {
                        canvas.line((right, y - 5), (right, y), RED, 3);
                    }
                }
                continue;
            }
            let here = self.facts.history.events.get(violation.event);
            let here = here.is_some_and(|event| event.node == NodeId::Lock(server));
            if here && self.shows(violation.at) {
                canvas.diamond((self.x(violation.at), area.middle()), 7);
            }
        }
    }
}
