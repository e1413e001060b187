//! The incident timeline: one run as a picture, for a design review, a postmortem or the
//! docs.
//!
//! A lane per client (waiting, believing that it holds, standing still), per lock server (who
//! holds the key, until when; of replicas which one is the master), for the locks that the store
//! keeps itself, and for the store (every write, accepted, refused or violating); faults
//! shaded, and who is down covered; the worst violation pointed at in words. Colours are those of
//! Okabe and Ito, and every meaning has a shape, a pattern or a word besides, so the picture
//! survives a grey printer.
//!
//! The picture is cropped to the incident. With many clients it shows those who take part
//! and says how many it leaves out. The same run gives the same bytes.

mod canvas;
mod lanes;
mod legend;
mod life;
mod png;
mod servers;
mod store;
#[cfg(test)]
mod tests;
mod window;

use scenarios::invariants::Violation;
use scenarios::{Run, Scenario};
use sim::history::What;
use sim::{Millis, NodeId};

use crate::words::{clock, length};
use canvas::{Align, Area, Canvas, GREY, PALE, RED, SMALL, Type, WHITE};
use window::Window;

pub use png::{NotRendered, png};

const WIDTH: i32 = 1200;
const LEFT: i32 = 112;
const RIGHT: i32 = 1180;
/// What begins or ends at the edge of the window stays clear of the lane's edge by this.
const PAD: i32 = 12;
const GAP: i32 = 6;

/// Draws a run as SVG, 1200 pixels wide.
pub fn svg(run: &Run, scenario: &Scenario) -> String {
    let facts = run.facts();
    let window = window::of(run, &facts);
    let picture = Picture {
        run,
        facts: &facts,
        window: &window,
    };
    let layout = picture.layout();
    let mut text = String::new();
    let mut canvas = Canvas::new(&mut text, WIDTH as u32, layout.height as u32);
    picture.draw(&mut canvas, &layout, scenario);
    canvas.finish();
    text
}

/// What is drawn, and what of it.
struct Picture<'r> {
    run: &'r Run,
    facts: &'r scenarios::facts::Facts<'r>,
    window: &'r Window,
}

/// Where everything goes.
struct Layout {
    callout: Option<Callout>,
    faults: lanes::FaultLane,
    fault_lane: Area,
    clients: Vec<(u16, Area)>,
    /// Where the clients that are left out are told, if any.
    left_out: Option<i32>,
    /// The lanes of what keeps locks: servers, or the store.
    keepers: Vec<(servers::Keeper, Area)>,
    store: Area,
    axis: i32,
    legend: i32,
    height: i32,
}

/// The violation in words.
struct Callout {
    box_: Area,
    title: String,
    lines: Vec<String>,
    /// What it points at.
    to: (i32, Target),
}

/// Which lane a violation happened in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Client(u16),
    /// The lane of the locks that this node keeps.
    Locks(NodeId),
    Store,
}

const CALLOUT: Type = Type {
    size: 12,
    bold: false,
    colour: canvas::BLACK,
};

impl Picture<'_> {
    /// Where a time stands; times outside the window stand at its edges.
    fn x(&self, at: Millis) -> i32 {
        let Window { from, until, .. } = *self.window;
        let at = at.clamp(from, until) - from;
        let width = (RIGHT - LEFT - 2 * PAD) as Millis;
        LEFT + PAD + (at * width / (until - from).max(1)) as i32
    }

    fn shows(&self, at: Millis) -> bool {
        (self.window.from..=self.window.until).contains(&at)
    }

    /// A span of time, if any of it is shown. Never narrower than two pixels; what begins
    /// before the window or goes on after it reaches the lane's edge.
    fn span(&self, from: Millis, until: Option<Millis>) -> Option<(i32, i32)> {
        let until = until.unwrap_or(Millis::MAX);
        if until < self.window.from || from > self.window.until {
            return None;
        }
        let left = if from < self.window.from {
            LEFT
        } else {
            self.x(from)
        };
        let right = if until > self.window.until {
            RIGHT
        } else {
            self.x(until)
        };
        Some((left, right.max(left + 2)))
    }

    fn layout(&self) -> Layout {
        let mut top = 62;
        let lane = |top: &mut i32, height: i32| {
            let area = Area {
                left: LEFT,
                top: *top,
                right: RIGHT,
                bottom: *top + height,
            };
            *top += height + GAP;
            area
        };
        let callout = window::worst(self.run).map(|violation| self.callout(violation, &mut top));
        let faults = lanes::FaultLane::of(self);
        let fault_lane = lane(&mut top, faults.height());
        let clients = self
            .window
            .clients
            .iter()
            .map(|client| (*client, lane(&mut top, lanes::CLIENT)))
            .collect();
        let left_out = (self.window.left_out > 0).then(|| lane(&mut top, 12).middle());
        top += GAP;
        let keepers = self.keepers().into_iter();
        let keepers = keepers
            .map(|keeper| {
                let area = lane(&mut top, keeper.height());
                (keeper, area)
            })
            .collect();
        top += GAP;
        let store = lane(&mut top, store::HEIGHT);
        let axis = top;
        let legend = axis + 48;
        Layout {
            callout,
            faults,
            fault_lane,
            clients,
            left_out,
            keepers,
            store,
            axis,
            legend,
            height: legend + legend::height(&self.signs()) + 10,
        }
    }

    fn callout(&self, violation: &Violation, top: &mut i32) -> Callout {
        let title = format!(
            "VIOLATION  {}  at {}",
            violation.invariant,
            clock(violation.at)
        );
        let mut lines = CALLOUT.wrapped(&format!("{}.", violation.why), 560);
        let mut others: Vec<&str> = self
            .run
            .verdict
            .breached()
            .into_iter()
            .filter(|name| *name != violation.invariant)
            .collect();
        others.dedup();
        if !others.is_empty() {
            lines
                .extend(CALLOUT.wrapped(&format!("In this run also: {}.", others.join(", ")), 560));
        }
        let width = lines
            .iter()
            .map(|line| CALLOUT.width(line))
            .max()
            .unwrap_or(0);
        let width = width.max(CALLOUT.size(13).bold().width(&title)) + 20;
        let x = self.x(violation.at);
        let left = (x - width / 2).clamp(LEFT, RIGHT - width);
        let box_ = Area {
            left,
            top: *top,
            right: left + width,
            bottom: *top + 30 + 17 * lines.len() as i32,
        };
        *top = box_.bottom + 18;
        Callout {
            box_,
            title,
            lines,
            to: (x, self.target(violation)),
        }
    }

    fn target(&self, violation: &Violation) -> Target {
        let first_server = self.keeping().first().copied();
        let first_server = first_server.map_or(Target::Store, Target::Locks);
        if violation.invariant == "stuck" {
            return first_server;
        }
        let Some(event) = self.facts.history.events.get(violation.event) else {
            return Target::Store;
        };
        match (event.node, &event.what) {
            (_, What::Write { .. } | What::RefusedClaim { .. } | What::Read { .. }) => {
                Target::Store
            }
            (NodeId::Client(client), _) if self.window.clients.contains(&client) => {
                Target::Client(client)
            }
            (NodeId::Lock(_), _) => Target::Locks(event.node),
            _ => first_server,
        }
    }

    fn draw(&self, canvas: &mut Canvas<'_>, layout: &Layout, scenario: &Scenario) {
        self.heading(canvas, scenario);
        self.axis(canvas, layout);
        let lanes = layout
            .clients
            .iter()
            .map(|(client, area)| (NodeId::Client(*client), *area))
            .chain(
                layout
                    .keepers
                    .iter()
                    .map(|(keeper, area)| (keeper.node, *area)),
            )
            .chain([(NodeId::Store, layout.store)]);
        for (node, area) in lanes {
            canvas.fill(area, canvas::GROUND);
            layout.faults.shade(canvas, node, area);
        }
        self.grid(canvas, layout);
        self.sent_writes(canvas, layout);
        if let Some(callout) = &layout.callout {
            // Behind the bars, so that their labels stay whole.
            let (x, y) = (callout.to.0, self.foot(layout, callout));
            canvas.dashed((x, callout.box_.bottom), (x, y - 9), RED, 2);
        }
        layout.faults.draw(canvas, layout.fault_lane);
        for (client, area) in &layout.clients {
            self.client(canvas, *client, *area);
        }
        if let Some(y) = layout.left_out {
            let text = format!("{} more clients are not shown", self.window.left_out);
            canvas.text(&text, (LEFT, y), SMALL.colour(GREY), Align::Left);
        }
        for (keeper, area) in &layout.keepers {
            self.keeper(canvas, keeper, *area);
        }
        self.store(canvas, layout);
        if let Some(callout) = &layout.callout {
            self.point_at(canvas, layout, callout);
        }
        legend::draw(canvas, layout.legend, &self.signs());
    }

    fn heading(&self, canvas: &mut Canvas<'_>, scenario: &Scenario) {
        let Run {
            algorithm,
            scenario: name,
            seed,
            ..
        } = self.run;
        let title = format!("{algorithm} under {name}");
        let of = SMALL.size(20).bold();
        canvas.text(&of.cut(&title, WIDTH - 40), (20, 24), of, Align::Left);
        let Window { from, until, .. } = *self.window;
        let part = if from == 0 && until == self.run.history.ended {
            "the whole run".to_owned()
        } else {
            format!(
                "shown is {} to {} of a run of {}",
                clock(from),
                clock(until),
                clock(self.run.history.ended)
            )
        };
        let vacuous = if self.run.verdict.vacuous {
            "  ·  VACUOUS: the run never reached what the scenario is about"
        } else if self.run.verdict.violations.is_empty() {
            "  ·  nothing was violated"
        } else {
            ""
        };
        let line = format!(
            "{}  ·  seed {seed}  ·  a lease lasts {}  ·  {part}{vacuous}",
            scenario.title,
            length(self.run.around.ttl)
        );
        let of = SMALL.size(12).colour(GREY);
        canvas.text(&of.cut(&line, WIDTH - 40), (20, 47), of, Align::Left);
    }

    /// Times that get a mark, and how far apart they are.
    fn ticks(&self) -> (Vec<Millis>, Millis) {
        let Window { from, until, .. } = *self.window;
        let span = (until - from).max(1);
        let mut step = 1;
        'found: for power in [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
            for digit in [1, 2, 5] {
                step = power * digit;
                if span / step <= 12 {
                    break 'found;
                }
            }
        }
        let first = from.div_ceil(step) * step;
        let ticks = (first..=until).step_by(step as usize).collect();
        (ticks, step)
    }

    fn axis(&self, canvas: &mut Canvas<'_>, layout: &Layout) {
        let y = layout.axis;
        canvas.line((LEFT, y), (RIGHT, y), GREY, 1);
        let (ticks, step) = self.ticks();
        for at in ticks {
            let x = self.x(at);
            canvas.line((x, y), (x, y + 5), GREY, 1);
            let text = if step >= 1_000 {
                format!("{}", at / 1_000)
            } else {
                let text = format!("{}.{:03}", at / 1_000, at % 1_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            canvas.text(&text, (x, y + 14), SMALL, Align::Middle);
        }
        canvas.text("seconds", (RIGHT, y + 30), SMALL.colour(GREY), Align::Right);
    }

    fn grid(&self, canvas: &mut Canvas<'_>, layout: &Layout) {
        for at in self.ticks().0 {
            let x = self.x(at);
            canvas.line((x, layout.fault_lane.top), (x, layout.axis), PALE, 1);
        }
    }

    /// How far down the callout points.
    fn foot(&self, layout: &Layout, callout: &Callout) -> i32 {
        let (_, target) = callout.to;
        match target {
            Target::Client(client) => {
                let mut lanes = layout.clients.iter();
                lanes.find(|(lane, _)| *lane == client).map(|(_, at)| *at)
            }
            Target::Locks(node) => {
                let mut lanes = layout.keepers.iter();
                lanes.find(|(lane, _)| lane.node == node).map(|(_, at)| *at)
            }
            Target::Store => Some(layout.store),
        }
        .map_or(layout.axis, |area| {
            if target == Target::Store {
                area.top + store::MARKS
            } else {
                area.middle()
            }
        })
    }

    fn point_at(&self, canvas: &mut Canvas<'_>, layout: &Layout, callout: &Callout) {
        let (x, y) = (callout.to.0, self.foot(layout, callout));
        canvas.polygon(&[(x - 5, y - 16), (x + 5, y - 16), (x, y - 8)], RED);
        canvas.diamond((x, y), 8);
        canvas.fill(callout.box_, WHITE);
        canvas.outline(callout.box_, RED, 2);
        let (left, top) = (callout.box_.left + 10, callout.box_.top);
        canvas.text(
            &callout.title,
            (left, top + 15),
            CALLOUT.size(13).bold().colour(canvas::DEEP_RED),
            Align::Left,
        );
        for (index, line) in callout.lines.iter().enumerate() {
            let y = top + 34 + 17 * index as i32;
            canvas.text(line, (left, y), CALLOUT, Align::Left);
        }
    }
}

/// A lane's name in the margin.
fn margin(canvas: &mut Canvas<'_>, area: Area, name: &str) {
    let at = (LEFT - 10, area.middle());
    canvas.text(name, at, SMALL.size(12).bold(), Align::Right);
}
