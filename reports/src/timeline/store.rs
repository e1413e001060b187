//! The lane of the store: every read and every write, what the store made of it, sessions that it
//! dropped, and fences that it drew.

use std::collections::BTreeSet;

use scenarios::facts::Write;
use sim::fault::Point;
use sim::history::{Dropped, Event, What};
use sim::{Millis, NodeId};

use super::canvas::{Align, BLACK, Canvas, DEEP_RED, GREY, SMALL, Type, colour_of};
use super::{Layout, Picture, RIGHT, margin};
use crate::told;

/// Words below a mark, the longest first, and how much they matter.
struct Label {
    x: i32,
    rank: u8,
    texts: Vec<String>,
    of: Type,
}

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
        let mut labels: Vec<Label> = Vec::new();
        for write in shown {
            let wrong = wrong.contains(&write.event);
            self.mark(canvas, write, wrong, y);
            labels.push(self.label_of(write, wrong));
        }
        labels.extend(self.sessions_and_fences(canvas, y));
        // The wrong and the refused ones get their labels first.
        labels.sort_by_key(|label| (label.rank, label.x));
        let mut taken: Vec<Vec<(i32, i32)>> = vec![Vec::new(); ROWS];
        for label in &labels {
            place(canvas, label, y, &mut taken);
        }
        self.still(canvas, NodeId::Store, area, 6);
        self.covers_down(canvas, NodeId::Store, area, y);
    }

    /// Sessions that the store dropped, and the fences of leases, where they were drawn.
    fn sessions_and_fences(&self, canvas: &mut Canvas<'_>, y: i32) -> Vec<Label> {
        let mut labels = Vec::new();
        for Event { at, what, .. } in self.facts.events_of(NodeId::Store) {
            let x = self.x(*at);
            let (rank, texts) = match what {
                What::SessionDropped { of, why } if self.drawn(*of).is_some() => {
                    let why = match why {
                        Dropped::Idle => "idle",
                        Dropped::Unreachable => "unreachable",
                    };
                    let whose = format!("session of {of} dropped");
                    (2, vec![format!("{whose}: {why}"), whose, "dropped".into()])
                }
                What::Drawn { by, number }
                    if self.drawn(*by).is_some() && told::carries(self.facts, *by, *number) =>
                {
                    let short = format!("fence {number}");
                    (4, vec![format!("{by} draws {short}"), short])
                }
                _ => continue,
            };
            if !self.shows(*at) {
                continue;
            }
            match what {
                What::Drawn { by, .. } => {
                    let (colour, _) = colour_of(self.drawn(*by).unwrap_or(0));
                    canvas.drawn((x, y), colour);
                }
                _ => canvas.hourglass((x, y), 7),
            }
            labels.push(Label {
                x,
                rank,
                texts,
                of: SMALL,
            });
        }
        labels
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
            let foot = if self.lockless() {
                lane.middle() + 5
            } else {
                lane.bottom - 13
            };
            let from = (self.x(sent), foot);
            canvas.line(from, (self.x(write.at), y - 7), colour_of(client).0, 1);
        }
    }

    fn label_of(&self, write: &Write, wrong: bool) -> Label {
        let what = if told::is_mark(self.facts, write) {
            "mark"
        } else {
            "row"
        };
        let (by, row) = (write.by, write.row);
        let fence = write
            .fence
            .map_or(String::new(), |fence| format!(", fence {fence}"));
        let short_fence = write
            .fence
            .map_or(String::new(), |fence| format!(" f{fence}"));
        let mut texts = vec![
            format!("{by} {what} {row}{fence}"),
            format!("{by} {what} {row}{short_fence}"),
            format!("{what} {row}"),
        ];
        if !write.accepted {
            let why = told::refused_because(self.facts, write).short;
            texts[0] = format!("refused: {}{why}", texts[0]);
        }
        let bad = wrong && write.accepted;
        let of = if bad {
            SMALL.bold().colour(DEEP_RED)
        } else {
            SMALL
        };
        let rank = match (bad, write.accepted) {
            (true, _) => 0,
            (_, false) => 1,
            _ => 3,
        };
        Label {
            x: self.x(write.at),
            rank,
            texts,
            of,
        }
    }
}

/// Writes a label where there is room, if there is.
fn place(canvas: &mut Canvas<'_>, label: &Label, y: i32, taken: &mut [Vec<(i32, i32)>]) {
    for text in &label.texts {
        let half = label.of.width(text) / 2 + 3;
        let centre = label.x.clamp(super::LEFT + half, RIGHT - half);
        for (row, taken) in taken.iter_mut().enumerate() {
            let free = taken
                .iter()
                .all(|(left, right)| centre + half < *left || centre - half > *right);
            if free {
                taken.push((centre - half, centre + half));
                let at = (centre, y + 18 + 15 * row as i32);
                canvas.text(text, at, label.of, Align::Middle);
                return;
            }
        }
    }
}
