//! The lanes of faults and of clients.

use sim::fault::{Data, Fault};
use sim::history::{Event, What};
use sim::{Millis, NodeId};

use super::canvas::{Align, Area, BLACK, Canvas, GREY, PALE, SMALL, WHITE, colour_of};
use super::life::{Spell, draw_down};
use super::{Picture, RIGHT, Target, margin};
use crate::words::{length, nodes, pace};

/// The height of a client's lane.
pub(super) const CLIENT: i32 = 54;
const ROW: i32 = 22;

/// A fault that struck within the window.
struct Shown {
    left: i32,
    right: i32,
    /// Whether it goes on for a while, or is over at once.
    lasting: bool,
    touches: Vec<NodeId>,
    label: String,
    row: usize,
    /// Where its label stands, and how.
    label_at: (i32, Align),
}

/// The faults, in as many rows as their labels need.
pub(super) struct FaultLane(Vec<Shown>);

impl FaultLane {
    pub(super) fn of(picture: &Picture<'_>) -> Self {
        let events = &picture.facts.history.events;
        let mut shown: Vec<Shown> = Vec::new();
        let mut ends: Vec<i32> = Vec::new();
        let mut struck: Vec<(Millis, Option<Millis>, Fault)> = Vec::new();
        for (index, Event { at, what, .. }) in events.iter().enumerate() {
            let What::Struck { fault: place } = what else {
                continue;
            };
            let fault = &picture.run.instance.setup.plan.0[*place].fault;
            let over = events[index..]
                .iter()
                .find(|event| event.what == What::Over { fault: *place })
                .map(|event| event.at);
            let last = struck.last_mut();
            let last = last.filter(|(began, ended, _)| (*began, *ended) == (*at, over));
            if last.is_none_or(|(.., last)| !strikes_more(last, fault)) {
                struck.push((*at, over, fault.clone()));
            }
        }
        for (at, over, fault) in &struck {
            let Some((left, right)) = picture.span(*at, *over) else {
                continue;
            };
            let label = label(fault);
            let wide = SMALL.width(&label);
            let lasting = fault.lasts() > 0;
            // Inside if it fits, else behind, else before.
            let (label_at, from, until) = if lasting && wide + 12 <= right - left {
                ((i32::midpoint(left, right), Align::Middle), left, right)
            } else if right + 8 + wide <= RIGHT {
                ((right + 8, Align::Left), left, right + 8 + wide)
            } else {
                ((left - 8, Align::Right), left - 8 - wide, right)
            };
            let row = ends
                .iter()
                .position(|end| *end + 12 < from)
                .unwrap_or(ends.len());
            if row == ends.len() {
                ends.push(0);
            }
            ends[row] = until;
            shown.push(Shown {
                left,
                right,
                lasting,
                // Who is down is covered.
                touches: match fault {
                    Fault::Restart { .. } => Vec::new(),
                    _ => fault.nodes().collect(),
                },
                label,
                row,
                label_at,
            });
        }
        Self(shown)
    }

    /// Whether a fault that lasts shades the lane of one of these nodes.
    pub(super) fn shades(&self, nodes: &[NodeId]) -> bool {
        let touches = |fault: &Shown| fault.touches.iter().any(|node| nodes.contains(node));
        self.0.iter().any(|fault| fault.lasting && touches(fault))
    }

    /// Whether a fault is shown that lasts, or one that does not.
    pub(super) fn any(&self, lasting: bool) -> bool {
        self.0.iter().any(|fault| fault.lasting == lasting)
    }

    pub(super) fn height(&self) -> i32 {
        let rows = self.0.iter().map(|fault| fault.row + 1).max().unwrap_or(0);
        ROW * rows.max(1) as i32
    }

    /// Shades a lane where a fault touches its node.
    pub(super) fn shade(&self, canvas: &mut Canvas<'_>, node: NodeId, area: Area) {
        for fault in self.0.iter().filter(|fault| fault.touches.contains(&node)) {
            if fault.lasting {
                let (left, right) = (fault.left, fault.right);
                canvas.fill(
                    Area {
                        left,
                        right,
                        ..area
                    },
                    PALE,
                );
                canvas.line((left, area.top), (left, area.bottom), GREY, 1);
                canvas.line((right, area.top), (right, area.bottom), GREY, 1);
            } else {
                canvas.dashed((fault.left, area.top), (fault.left, area.bottom), BLACK, 1);
            }
        }
    }

    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, area: Area) {
        margin(canvas, area, "faults");
        if self.0.is_empty() {
            let at = (area.left, area.middle());
            canvas.text("none in this window", at, SMALL.colour(GREY), Align::Left);
        }
        for fault in &self.0 {
            let top = area.top + ROW * fault.row as i32;
            let middle = top + ROW / 2;
            let bar = Area {
                left: fault.left,
                top: top + 2,
                right: fault.right,
                bottom: top + ROW - 3,
            };
            if fault.lasting {
                canvas.fill(bar, PALE);
                canvas.hatch(bar, GREY, 7, true);
                canvas.outline(bar, BLACK, 1);
            } else {
                let x = fault.left;
                canvas.polygon(
                    &[(x - 7, top + 3), (x + 7, top + 3), (x, top + ROW - 3)],
                    BLACK,
                );
            }
            let (x, align) = fault.label_at;
            canvas.label(&fault.label, (x, middle), SMALL, align);
        }
    }
}

/// Several nodes that fail at once, or that one side is cut off from, are one fault in the picture:
/// whether this one is more of the other.
fn strikes_more(fault: &mut Fault, more: &Fault) -> bool {
    match (fault, more) {
        (
            Fault::Hold { a, b, .. },
            Fault::Hold {
                a: same, b: more, ..
            },
        ) if a == same => {
            b.extend(more);
        }
        (Fault::Crash { nodes }, Fault::Crash { nodes: more })
        | (Fault::PowerLoss { nodes }, Fault::PowerLoss { nodes: more }) => nodes.extend(more),
        _ => return false,
    }
    true
}

/// A fault in a few words.
fn label(fault: &Fault) -> String {
    let whom: Vec<NodeId> = fault.nodes().collect();
    let kind = fault.kind();
    match fault {
        Fault::Hold { a, b, lasts } => format!(
            "{kind}: nothing passes between {} and {} for {}",
            nodes(a),
            nodes(b),
            length(*lasts)
        ),
        Fault::OneWay { a, b, lasts } => format!(
            "{kind}: nothing passes from {} to {} for {}",
            nodes(a),
            nodes(b),
            length(*lasts)
        ),
        Fault::Refuse { a, b, lasts } => format!(
            "{kind}: {} cannot connect to {} for {}",
            nodes(a),
            nodes(b),
            length(*lasts)
        ),
        Fault::Slow { a, b, by, lasts } => format!(
            "{kind}: {} between {} and {} for {}",
            length(*by),
            nodes(a),
            nodes(b),
            length(*lasts)
        ),
        Fault::Loss {
            a,
            b,
            percent,
            lasts,
        } => format!(
            "{kind}: {percent} % between {} and {} for {}",
            nodes(a),
            nodes(b),
            length(*lasts)
        ),
        Fault::DropReplies { a, b, lasts } => format!(
            "{kind}: answers of {} to {} are lost for {}",
            nodes(b),
            nodes(a),
            length(*lasts)
        ),
        Fault::ClockStep { by, .. } => format!(
            "{kind}: {} {}{}",
            nodes(&whom),
            if *by < 0 { "−" } else { "+" },
            length(by.unsigned_abs())
        ),
        Fault::ClockOffset { by, .. } => format!(
            "{kind}: {} {}{}",
            nodes(&whom),
            if *by < 0 { "−" } else { "+" },
            length(by.unsigned_abs())
        ),
        Fault::ClockRate { ppm, .. } => format!("{kind}: {} {}", nodes(&whom), pace(*ppm)),
        Fault::Restart { after, data, .. } => {
            let with = match data {
                Data::Kept => "with its data",
                Data::OnDisk => "with what is on its disk",
                Data::Lost => "without its data",
            };
            let after = length(*after);
            format!("{kind}: {}, back after {after} {with}", nodes(&whom))
        }
        _ if fault.lasts() > 0 => {
            format!("{kind}: {} for {}", nodes(&whom), length(fault.lasts()))
        }
        _ => format!("{kind}: {}", nodes(&whom)),
    }
}

impl Picture<'_> {
    pub(super) fn client(&self, canvas: &mut Canvas<'_>, client: u16, area: Area) {
        let node = NodeId::Client(client);
        let (colour, _) = colour_of(client);
        margin(canvas, area, &node.to_string());
        canvas.fill(
            Area {
                left: area.left - 6,
                right: area.left - 1,
                ..area
            },
            colour,
        );
        for (from, until) in self.down(node) {
            if let Some((left, right)) = self.span(from, until) {
                draw_down(
                    canvas,
                    Area {
                        left,
                        right,
                        ..area
                    },
                );
            }
        }
        self.waiting(canvas, node, area);
        self.beliefs(canvas, client, area);
        self.still(canvas, node, area, 11);
        for violation in &self.run.verdict.violations {
            if self.target(violation) == Target::Client(client) && self.shows(violation.at) {
                canvas.diamond((self.x(violation.at), area.middle()), 7);
            }
        }
        for Event { at, what, .. } in self.facts.events_of(node) {
            if !self.shows(*at) {
                continue;
            }
            let x = self.x(*at);
            match what {
                What::Crashed | What::ThreadDied => {
                    let text = match what {
                        What::Crashed => "dies",
                        _ => "its thread dies",
                    };
                    canvas.cross((x, area.middle()), 9, 3);
                    canvas.label(text, (x + 14, area.middle()), SMALL, Align::Left);
                }
                What::NoticedLoss { .. } => {
                    canvas.circle((x, area.top + 9), 5, WHITE, true);
                    canvas.circle((x, area.top + 9), 5, BLACK, false);
                    let text = "notices the loss";
                    if x + 10 + SMALL.width(text) < RIGHT {
                        canvas.text(text, (x + 10, area.top + 8), SMALL, Align::Left);
                    }
                }
                What::Effect { .. } => canvas.arrow((x, area.top + 8), colour),
                _ => {}
            }
        }
    }

    /// From a section's first attempt to its lease; without any lock, to the attempt that was
    /// answered.
    fn waiting(&self, canvas: &mut Canvas<'_>, node: NodeId, area: Area) {
        for ask in self.facts.asks.iter().filter(|ask| ask.client == node) {
            let (first, mut until) = (ask.attempts[0], ask.until);
            if self.lockless() {
                let last = ask.attempts[ask.attempts.len() - 1];
                self.works(canvas, node, area, (last, until));
                if last == first {
                    continue;
                }
                until = Some(last);
            }
            let Some((left, right)) = self.span(first, until) else {
                continue;
            };
            let bar = Area {
                left,
                top: area.middle() - 5,
                right,
                bottom: area.middle() + 5,
            };
            canvas.fill(bar, WHITE);
            canvas.hatch(bar, GREY, 6, false);
            canvas.outline(bar, GREY, 1);
            let text = "waits";
            if bar.width() > SMALL.width(text) + 30 {
                let at = (i32::midpoint(left, right), area.middle());
                canvas.label(text, at, SMALL, Align::Middle);
            }
        }
    }

    /// Whether nobody holds anything in this run, because there is no lock.
    pub(super) fn lockless(&self) -> bool {
        let facts = self.facts;
        facts.around.holders.is_none() && facts.grants.is_empty() && facts.beliefs.is_empty()
    }

    /// A section without a lock.
    fn works(&self, canvas: &mut Canvas<'_>, node: NodeId, area: Area, (from, until): Spell) {
        let (NodeId::Client(client), Some((left, right))) = (node, self.span(from, until)) else {
            return;
        };
        let bar = Area {
            left,
            top: area.middle() - 5,
            right,
            bottom: area.middle() + 5,
        };
        canvas.fill(bar, colour_of(client).0);
        canvas.outline(bar, BLACK, 1);
        let text = "works";
        if bar.width() > SMALL.width(text) + 30 {
            let at = (i32::midpoint(left, right), area.middle());
            canvas.label(text, at, SMALL, Align::Middle);
        }
    }

    /// Solid while the lock service agrees; cross-hatched when only the client believes.
    fn beliefs(&self, canvas: &mut Canvas<'_>, client: u16, area: Area) {
        let (colour, ink) = colour_of(client);
        let own = self
            .facts
            .beliefs
            .iter()
            .filter(|belief| belief.client == NodeId::Client(client));
        for belief in own {
            let Some((left, right)) = self.span(belief.from, belief.until) else {
                continue;
            };
            let bar = Area {
                left,
                top: area.top + 15,
                right,
                bottom: area.bottom - 13,
            };
            let grant = self
                .facts
                .grant_of(&belief.token)
                .map(|grant| &self.facts.grants[grant]);
            // Who was never granted believes wrongly from the beginning.
            let over: Option<Millis> = grant.map_or(Some(belief.from), |grant| grant.until);
            let split = match over {
                Some(over) if over <= self.window.until => self.x(over).clamp(left, right),
                _ => right,
            };
            let (held, left_over) = (
                Area {
                    right: split,
                    ..bar
                },
                Area { left: split, ..bar },
            );
            if held.width() > 0 {
                canvas.fill(held, colour);
            }
            if left_over.width() > 1 {
                canvas.fill(left_over, WHITE);
                canvas.hatch(left_over, colour, 6, true);
                canvas.hatch(left_over, colour, 6, false);
            }
            canvas.outline(bar, BLACK, 1);
            let number = grant.map_or("no grant".to_owned(), |grant| {
                format!("grant {}", grant.number)
            });
            let fence = belief
                .fence
                .map_or(String::new(), |fence| format!(", fence {fence}"));
            let texts = [
                format!("holds {} ({number}{fence})", belief.key),
                format!("holds ({number}{fence})"),
                format!("{number}{fence}"),
                grant.map_or(String::new(), |grant| grant.number.to_string()),
            ];
            let of = SMALL.colour(ink);
            if let Some(text) = texts
                .iter()
                .find(|text| of.width(text) + 18 <= held.width())
            {
                // A mark at the bar's beginning needs room.
                let marked = self
                    .run
                    .verdict
                    .violations
                    .iter()
                    .any(|violation| violation.event == belief.event);
                let left = held.left + if marked { 13 } else { 5 };
                canvas.text(text, (left, bar.middle()), of, Align::Left);
            }
            let texts = match grant {
                Some(_) => [
                    format!("still believes ({number} is over)"),
                    format!("believes ({number} is over)"),
                    "still believes".to_owned(),
                ],
                None => [
                    format!("believes that it holds {} ({number})", belief.key),
                    format!("believes ({number})"),
                    "believes".to_owned(),
                ],
            };
            let fits = texts
                .iter()
                .find(|text| SMALL.width(text) + 16 <= left_over.width());
            if let Some(text) = fits {
                let at = (i32::midpoint(left_over.left, left_over.right), bar.middle());
                canvas.label(text, at, SMALL, Align::Middle);
            }
        }
    }

    /// A dark strip, so high, at the foot of the lane while the process stands still.
    pub(super) fn still(&self, canvas: &mut Canvas<'_>, node: NodeId, area: Area, high: i32) {
        for Event { at, what, .. } in self.facts.events_of(node) {
            let (What::Paused { lasts } | What::Suspended { lasts }) = what else {
                continue;
            };
            let Some((left, right)) = self.span(*at, Some(at + lasts)) else {
                continue;
            };
            let strip = Area {
                left,
                top: area.bottom - high,
                right,
                bottom: area.bottom - 2,
            };
            canvas.fill(strip, BLACK);
            canvas.hatch(strip, WHITE, 5, true);
            canvas.outline(strip, BLACK, 1);
            let text = "stands still";
            if high > 9 && strip.width() > SMALL.width(text) + 20 {
                let at = (i32::midpoint(left, right), strip.middle() - 1);
                canvas.label(text, at, SMALL.size(10), Align::Middle);
            }
        }
    }
}
