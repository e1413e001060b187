//! What the shapes mean.

use sim::NodeId;
use sim::history::What;

use super::canvas::{Align, Area, BLACK, Canvas, GREY, PALE, SMALL, WHITE, colour_of};
use super::lanes::FaultLane;
use super::{LEFT, Picture, life};

const ROW: i32 = 20;
const COLUMN: i32 = 268;
const COLUMNS: usize = 4;

/// A shape and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Waits,
    Holds,
    Believes,
    Still,
    Expires,
    Fault,
    Moment,
    Read,
    Accepted,
    Refused,
    Violation,
    Died,
    Minority,
    Touched,
    Down,
    Master,
    Dropped,
    Drawn,
    Works,
    Acts,
}

/// A shape with what it means.
pub(super) type Entry = (Sign, &'static str);

const SIGNS: &[Entry] = &[
    (Sign::Waits, "waits for the lock"),
    (Sign::Holds, "believes that it holds, and does"),
    (Sign::Believes, "believes that it holds, wrongly"),
    (Sign::Works, "works, without a lock"),
    (Sign::Acts, "acts on the world outside"),
    (Sign::Still, "the process stands still"),
    (Sign::Expires, "the key expires"),
    (Sign::Minority, "key on too few servers"),
    (Sign::Master, "is the master"),
    (Sign::Fault, "fault"),
    (Sign::Touched, "touched by a fault"),
    (Sign::Moment, "fault, at once"),
    (Sign::Died, "the process, or its thread, dies"),
    (Sign::Down, "the process is down"),
    (Sign::Read, "read"),
    (Sign::Accepted, "write, accepted"),
    (Sign::Refused, "write, refused"),
    (Sign::Dropped, "session dropped by the store"),
    (Sign::Drawn, "fence drawn by the store"),
    (Sign::Violation, "violation"),
];

impl Picture<'_> {
    /// The shapes that this picture may hold.
    pub(super) fn signs(&self) -> Vec<Entry> {
        let happened = |wanted: fn(&What) -> bool| {
            let mut events = self.facts.history.events.iter();
            events.any(|event| self.shows(event.at) && wanted(&event.what))
        };
        let wrote = |accepted| {
            let mut writes = self.facts.writes.iter();
            writes.any(|write| self.shows(write.at) && write.accepted == accepted)
        };
        let faults = FaultLane::of(self);
        let clients = self.window.clients.iter().copied().map(NodeId::Client);
        let keeping = self.keeping().into_iter().chain([NodeId::Store]);
        let shown: Vec<NodeId> = clients.chain(keeping).collect();
        let occurs = |(sign, _): &&Entry| match sign {
            // It may have begun before what is shown.
            Sign::Still => {
                let mut events = self.facts.history.events.iter();
                events
                    .any(|event| matches!(event.what, What::Paused { .. } | What::Suspended { .. }))
            }
            Sign::Died => happened(|what| matches!(what, What::Crashed | What::ThreadDied)),
            Sign::Down => shown.iter().any(|node| {
                let down = self.down(*node);
                down.iter()
                    .any(|(from, until)| self.span(*from, *until).is_some())
            }),
            Sign::Master => self.run.around.replicated,
            Sign::Touched => faults.shades(&shown),
            Sign::Dropped => happened(|what| matches!(what, What::SessionDropped { .. })),
            Sign::Drawn => happened(|what| matches!(what, What::Drawn { .. })),
            Sign::Refused => wrote(false),
            Sign::Accepted => wrote(true),
            Sign::Read => happened(|what| matches!(what, What::Read { .. })),
            Sign::Minority => self.run.around.servers > 1 && !self.run.around.replicated,
            Sign::Expires => self.shows_expiry(),
            Sign::Fault => faults.any(true),
            Sign::Moment => faults.any(false),
            Sign::Violation => !self.run.verdict.violations.is_empty(),
            Sign::Works => self.lockless(),
            Sign::Acts => happened(|what| matches!(what, What::Effect { .. })),
            Sign::Holds | Sign::Believes => !self.lockless(),
            Sign::Waits => !self.lockless() || happened(|what| matches!(what, What::Denied { .. })),
        };
        let says = |(sign, meaning): &Entry| match sign {
            Sign::Waits if self.lockless() => (*sign, "waits for an answer"),
            _ => (*sign, *meaning),
        };
        SIGNS.iter().filter(occurs).map(says).collect()
    }
}

/// How much room it needs.
pub(super) fn height(signs: &[Entry]) -> i32 {
    ROW * signs.len().div_ceil(COLUMNS) as i32
}

pub(super) fn draw(canvas: &mut Canvas<'_>, top: i32, signs: &[Entry]) {
    for (index, (sign, meaning)) in signs.iter().enumerate() {
        let x = LEFT + COLUMN * (index % COLUMNS) as i32;
        let y = top + ROW * (index / COLUMNS) as i32 + ROW / 2;
        draw_sign(canvas, *sign, x, y);
        canvas.text(meaning, (x + 36, y), SMALL, Align::Left);
    }
}

fn draw_sign(canvas: &mut Canvas<'_>, sign: Sign, x: i32, y: i32) {
    let bar = |half: i32| Area {
        left: x,
        top: y - half,
        right: x + 28,
        bottom: y + half,
    };
    let colour = colour_of(1).0;
    match sign {
        Sign::Waits => {
            canvas.fill(bar(5), WHITE);
            canvas.hatch(bar(5), GREY, 6, false);
            canvas.outline(bar(5), GREY, 1);
        }
        Sign::Holds => {
            canvas.fill(bar(7), colour);
            canvas.outline(bar(7), BLACK, 1);
        }
        Sign::Believes => {
            canvas.fill(bar(7), WHITE);
            canvas.hatch(bar(7), colour, 6, true);
            canvas.hatch(bar(7), colour, 6, false);
            canvas.outline(bar(7), BLACK, 1);
        }
        Sign::Still => {
            canvas.fill(bar(4), BLACK);
            canvas.hatch(bar(4), WHITE, 5, true);
            canvas.outline(bar(4), BLACK, 1);
        }
        Sign::Expires => canvas.line((x + 14, y - 8), (x + 14, y + 8), BLACK, 3),
        Sign::Minority => {
            canvas.fill(bar(7), WHITE);
            canvas.hatch(bar(7), colour, 6, true);
            canvas.outline(bar(7), BLACK, 1);
        }
        Sign::Fault => {
            canvas.fill(bar(7), PALE);
            canvas.hatch(bar(7), GREY, 7, true);
            canvas.outline(bar(7), BLACK, 1);
        }
        Sign::Touched => {
            canvas.fill(bar(8), PALE);
            canvas.line((x, y - 8), (x, y + 8), GREY, 1);
            canvas.line((x + 28, y - 8), (x + 28, y + 8), GREY, 1);
        }
        Sign::Down => life::draw_down(canvas, bar(8)),
        Sign::Master => life::draw_master(canvas, bar(8), true),
        Sign::Dropped => canvas.hourglass((x + 14, y), 7),
        Sign::Works => {
            canvas.fill(bar(5), colour);
            canvas.outline(bar(5), BLACK, 1);
        }
        Sign::Acts => canvas.arrow((x + 14, y), colour),
        Sign::Drawn => canvas.drawn((x + 14, y), colour),
        Sign::Moment => canvas.polygon(&[(x + 7, y - 7), (x + 21, y - 7), (x + 14, y + 7)], BLACK),
        Sign::Died => canvas.cross((x + 14, y), 7, 3),
        Sign::Read => canvas.line((x + 14, y - 6), (x + 14, y + 6), colour, 2),
        Sign::Accepted => {
            canvas.circle((x + 14, y), 6, colour, true);
            canvas.circle((x + 14, y), 6, BLACK, false);
        }
        Sign::Refused => canvas.crossed((x + 14, y), 7),
        Sign::Violation => canvas.diamond((x + 14, y), 8),
    }
}
