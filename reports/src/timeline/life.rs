//! When a node was up, and who of a master and its replicas was the master.

use sim::history::{Event, What};
use sim::{Millis, NodeId};

use super::Picture;
use super::canvas::{Align, Area, BLACK, Canvas, GREY, OTHERS, SMALL, WHITE};
use crate::words::length;

/// How much room a lane needs to say who is the master.
pub(super) const ROLES: i32 = 15;

/// A time: from when, and until when if not to the end of the run.
pub(super) type Spell = (Millis, Option<Millis>);

impl Picture<'_> {
    /// When a node was down: from its crash until it started again.
    pub(super) fn down(&self, node: NodeId) -> Vec<Spell> {
        let mut down: Vec<Spell> = Vec::new();
        for Event { at, what, .. } in self.facts.events_of(node) {
            let open = down.last_mut().filter(|(_, until)| until.is_none());
            match (what, open) {
                (What::Crashed, None) => down.push((*at, None)),
                (What::Started, Some((_, until))) => *until = Some(*at),
                _ => {}
            }
        }
        down
    }

    pub(super) fn is_down(&self, node: NodeId, at: Millis) -> bool {
        let within = |(from, until): &Spell| *from <= at && until.is_none_or(|until| at < until);
        self.down(node).iter().any(within)
    }

    /// The parts of a time in which a node was up.
    pub(super) fn up_within(
        &self,
        node: NodeId,
        since: Millis,
        until: Option<Millis>,
    ) -> Vec<Spell> {
        let (mut from, end) = (since, until.unwrap_or(Millis::MAX));
        let mut parts = Vec::new();
        for (crashed, back) in self.down(node) {
            if crashed >= end {
                break;
            }
            if crashed > from {
                parts.push((from, Some(crashed)));
            }
            let Some(back) = back else { return parts };
            from = from.max(back);
        }
        // What ends with the restart was over before.
        if from < end || from == since {
            parts.push((from, until));
        }
        parts
    }

    /// Covers a lane while its node is down; `y` is where the label stands.
    pub(super) fn covers_down(&self, canvas: &mut Canvas<'_>, node: NodeId, area: Area, y: i32) {
        for (from, until) in self.down(node) {
            let Some((left, right)) = self.span(from, until) else {
                continue;
            };
            draw_down(
                canvas,
                Area {
                    left,
                    right,
                    ..area
                },
            );
            let died = self.shows(from);
            if died {
                canvas.cross((left, y), 8, 3);
            }
            let long = match until {
                Some(until) => format!("down for {}", length(until - from)),
                None => "down to the end of the run".into(),
            };
            let left = left + if died { 12 } else { 4 };
            let mut texts = [long.as_str(), "down"].into_iter();
            if let Some(text) = texts.find(|text| SMALL.width(text) + 8 <= right - left) {
                let at = (i32::midpoint(left, right), y);
                canvas.label(text, at, SMALL, Align::Middle);
            }
        }
    }

    /// Since when a replicated server was what: whether the master, and if not whose replica.
    fn turns(&self, node: NodeId) -> Vec<(Millis, Option<String>)> {
        let first = match node {
            NodeId::Lock(1) => None,
            _ => Some("lock-1".to_owned()),
        };
        let events = self.facts.events_of(node);
        let turns = events.filter_map(|Event { at, what, .. }| match what {
            What::Promoted => Some((*at, None)),
            What::Follows { master } => Some((*at, Some(master.clone()))),
            _ => None,
        });
        [(0, first)].into_iter().chain(turns).collect()
    }

    /// Who is the master from when to when, in a strip above the bars.
    pub(super) fn roles(&self, canvas: &mut Canvas<'_>, node: NodeId, strip: Area) {
        let turns = self.turns(node);
        for (place, (from, master)) in turns.iter().enumerate() {
            let until = turns.get(place + 1).map(|(at, _)| *at);
            for (from, until) in self.up_within(node, *from, until) {
                let Some((left, right)) = self.span(from, until) else {
                    continue;
                };
                let part = Area {
                    left,
                    right,
                    ..strip
                };
                let (text, colour) = match master {
                    None => ("master".to_owned(), BLACK),
                    Some(master) => (format!("replica of {master}"), GREY),
                };
                if master.is_none() {
                    draw_master(canvas, part, self.shows(from));
                }
                let of = SMALL.size(10).colour(colour);
                if of.width(&text) + 16 <= part.width() {
                    let at = (left + 8, strip.middle());
                    let of = if master.is_none() { of.bold() } else { of };
                    canvas.label(&text, at, of, Align::Left);
                }
            }
        }
    }
}

/// What covers a lane whose node is down.
pub(super) fn draw_down(canvas: &mut Canvas<'_>, area: Area) {
    canvas.fill(area, WHITE);
    for y in (area.top + 2..area.bottom).step_by(4) {
        canvas.line((area.left, y), (area.right, y), OTHERS, 1);
    }
    canvas.outline(area, GREY, 1);
}

/// The line of a master, with an upright where it becomes one, if that is shown.
pub(super) fn draw_master(canvas: &mut Canvas<'_>, area: Area, becomes: bool) {
    let y = area.middle();
    canvas.line((area.left, y), (area.right, y), BLACK, 3);
    if becomes {
        let (top, bottom) = (area.top + 2, area.bottom - 2);
        canvas.line((area.left, top), (area.left, bottom), BLACK, 3);
    }
}
