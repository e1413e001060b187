//! The lane of the store: every read and every write, and what the store made of it.

use std::collections::BTreeSet;

use scenarios::facts::Write;
use sim::fault::Point;
use sim::history::What;
use sim::{Millis, NodeId};

use super::canvas::{Align, BLACK, Canvas, DEEP_RED, GREY, SMALL, colour_of};
use super::{Layout, Picture, RIGHT, margin};

/// The height of the lane.
pub(super) const HEIGHT: i32 = 78;
/// How far below its top the marks stand.
pub(super) const MARKS: i32 = 24;
const ROWS: usize = 3;

impl Picture<'_> {
    pub(super) fn store(&self, canvas: &mut Canvas<'_>, layout: &Layout) {
        let area = layout.store;
        let y = area.top + MARKS;
        margin(canvas, area, "store");
        canvas.line((area.left, y), (area.right, y), GREY, 1);
        for read in &self.facts.reads {
            if let Some(client) = self.drawn(read.by).filter(|_| self.shows(read.at)) {
                let x = self.x(read.at);
                canvas.line((x, y - 6), (x, y + 6), colour_of(client).0, 2);
            }
        }
        let wrong: BTreeSet<usize> = self
            .run
            .verdict
            .violations
            .iter()
            .map(|violation| violation.event)
            .collect();
        let shown: Vec<&Write> = self
            .facts
            .writes
            .iter()
            .filter(|write| self.shows(write.at) && self.drawn(write.by).is_some())
            .collect();
        // The wrong and the refused ones get their labels first.
        let mut order = shown.clone();
        order.sort_by_key(|write| (!wrong.contains(&write.event), write.accepted, write.at));
        let mut taken: Vec<Vec<(i32, i32)>> = vec![Vec::new(); ROWS];
        for write in order {
            self.mark(canvas, write, wrong.contains(&write.event), y);
            self.label_of(canvas, write, wrong.contains(&write.event), y, &mut taken);
        }
    }

    /// The ways of all writes; to be drawn behind everything else.
    pub(super) fn sent_writes(&self, canvas: &mut Canvas<'_>, layout: &Layout) {
        for write in &self.facts.writes {
            if self.shows(write.at) {
                self.sent(canvas, layout, write, layout.store.top + MARKS);
            }
        }
    }

    fn drawn(&self, by: NodeId) -> Option<u16> {
        match by {
            NodeId::Client(client) if self.window.clients.contains(&client) => Some(client),
            _ => None,
        }
    }

    fn mark(&self, canvas: &mut Canvas<'_>, write: &Write, wrong: bool, y: i32) {
        let x = self.x(write.at);
        let client = self.drawn(write.by).unwrap_or(0);
        if wrong && write.accepted {
            canvas.diamond((x, y), 8);
        } else if write.accepted {
            canvas.circle((x, y), 6, colour_of(client).0, true);
            canvas.circle((x, y), 6, BLACK, false);
        } else {
            canvas.crossed((x, y), 7);
        }
    }

    /// The way of a write from its client to the store, which shows how long it took.
    fn sent(&self, canvas: &mut Canvas<'_>, layout: &Layout, write: &Write, y: i32) {
        let Some(client) = self.drawn(write.by) else {
            return;
        };
        let lane = layout.clients.iter().find(|(lane, _)| *lane == client);
        let Some((_, lane)) = lane else { return };
        let checked = |what: &What| {
            matches!(
                what,
                What::Reached {
                    point: Point::WriteChecked,
                    ..
                }
            )
        };
        let sent: Option<Millis> = self
            .facts
            .events_of(write.by)
            .filter(|event| event.at <= write.at && checked(&event.what))
            .map(|event| event.at)
            .last();
        if let Some(sent) = sent.filter(|_| write.sequence.is_some()) {
            let from = (self.x(sent), lane.bottom - 13);
            canvas.line(from, (self.x(write.at), y - 7), colour_of(client).0, 1);
        }
    }

    fn label_of(
        &self,
        canvas: &mut Canvas<'_>,
        write: &Write,
        wrong: bool,
        y: i32,
        taken: &mut [Vec<(i32, i32)>],
    ) {
        let fence = write
            .fence
            .map_or(String::new(), |fence| format!(", fence {fence}"));
        let refused = if write.accepted { "" } else { "refused: " };
        let short_fence = write
            .fence
            .map_or(String::new(), |fence| format!(" f{fence}"));
        let texts = [
            format!("{refused}{} row {}{fence}", write.by, write.row),
            format!("{} row {}{short_fence}", write.by, write.row),
            format!("row {}", write.row),
        ];
        let of = if wrong && write.accepted {
            SMALL.bold().colour(DEEP_RED)
        } else {
            SMALL
        };
        let x = self.x(write.at);
        for text in &texts {
            let half = of.width(text) / 2 + 3;
            let centre = x.clamp(super::LEFT + half, RIGHT - half);
            for (row, taken) in taken.iter_mut().enumerate() {
                let free = taken
                    .iter()
                    .all(|(left, right)| centre + half < *left || centre - half > *right);
                if free {
                    taken.push((centre - half, centre + half));
                    let at = (centre, y + 18 + 15 * row as i32);
                    canvas.text(text, at, of, Align::Middle);
                    return;
                }
            }
        }
    }
}
