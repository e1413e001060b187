//! One run, told in a terminal: what happened, when, to whom, in plain sentences.
//!
//! Lines come from the history and the facts; what repeats itself (polling, renewals) is
//! counted, not told. A very long run is cut down to what surrounds faults and violations.

mod polling;
mod store;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scenarios::{Run, Scenario};
use sim::Millis;
use sim::fault::{Planned, When};

use crate::style::{Colour, Tone};
use crate::words::{clock, length};

/// How a story is to look.
#[derive(Debug, Clone, Default)]
pub struct StoryOptions {
    /// Whether it may use colours.
    pub colour: Colour,
    /// The command that plays the run again.
    pub replay: String,
    /// Whether every line is told, however long the story gets.
    pub whole: bool,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// What every section does.
    Detail,
    /// Who has the lock.
    Step,
    /// What is out of the ordinary.
    Notable,
    /// What goes wrong by the plan.
    Fault,
    /// What must not happen.
    Violation,
}

/// One line.
#[derive(Debug, Clone)]
struct Line {
    at: Millis,
    /// The place in the history, which orders lines of one millisecond.
    event: usize,
    weight: Weight,
    text: String,
}

/// Above so many lines details are left out.
const LONG: usize = 90;
/// How many lines are told around what matters when a story is still too long without them.
const AROUND: usize = 6;
/// How many violations of one invariant a long story tells.
const ALIKE: usize = 8;

/// Tells a run.
pub fn story(run: &Run, scenario: &Scenario, options: &StoryOptions) -> String {
    let colour = options.colour;
    let mut lines = tell::lines(run, scenario);
    let mut text = String::new();
    let heading = format!(
        "{} under {}, seed {}: {}",
        run.algorithm, run.scenario, run.seed, scenario.title
    );
    let _ = writeln!(text, "{}\n", colour.paint(Tone::Strong, &heading));

    let all = lines.len();
    if all > LONG && !options.whole {
        lines.retain(|line| line.weight > Weight::Detail);
    }
    let details = all - lines.len();
    let kept = keep(&lines, options.whole);
    let mut left_out = 0;
    let flush = |text: &mut String, left_out: &mut usize| {
        if *left_out > 0 {
            let gap = format!("{:>11}  … {left_out} more like these", "");
            let _ = writeln!(text, "{}", colour.paint(Tone::Quiet, &gap));
            *left_out = 0;
        }
    };
    for (line, kept) in lines.iter().zip(kept) {
        if !kept {
            left_out += 1;
            continue;
        }
        flush(&mut text, &mut left_out);
        let tone = match line.weight {
            Weight::Detail => Tone::Quiet,
            Weight::Step | Weight::Notable => Tone::Plain,
            Weight::Fault => Tone::Fault,
            Weight::Violation => Tone::Bad,
        };
        let _ = writeln!(
            text,
            "{:>11}  {}",
            clock(line.at),
            colour.paint(tone, &line.text)
        );
    }
    flush(&mut text, &mut left_out);
    if details > 0 {
        let gap = format!("\n{details} lines of detail are left out; --whole tells them too.");
        let _ = writeln!(text, "{}", colour.paint(Tone::Quiet, &gap));
    }
    text.push('\n');
    verdict(&mut text, run, scenario, colour);
    if !options.replay.is_empty() {
        let _ = writeln!(text, "\nAgain:  {}", options.replay);
    }
    text
}

/// Which lines of a long story are told: its beginning and its end, and what surrounds what
/// matters.
fn keep(lines: &[Line], whole: bool) -> Vec<bool> {
    if whole || lines.len() <= LONG {
        return vec![true; lines.len()];
    }
    let mut kept = vec![false; lines.len()];
    let mut keep_around = |place: usize| {
        let until = (place + AROUND / 2).min(lines.len() - 1);
        kept[place.saturating_sub(AROUND)..=until].fill(true);
    };
    keep_around(0);
    keep_around(lines.len() - 1);
    let mut violations = BTreeMap::<&str, usize>::new();
    for (place, line) in lines.iter().enumerate() {
        let known = match line.weight {
            Weight::Violation => {
                let (invariant, _) = line.text.split_once(": ").unwrap_or_default();
                let known = violations.entry(invariant).or_default();
                *known += 1;
                *known
            }
            _ => 0,
        };
        if line.weight >= Weight::Fault && known <= ALIKE {
            keep_around(place);
        }
    }
    kept
}

fn verdict(text: &mut String, run: &Run, scenario: &Scenario, colour: Colour) {
    let verdict = &run.verdict;
    if verdict.vacuous {
        let (name, meaning) = scenario
            .reaches
            .map_or(("its landmark", ""), |mark| (mark.name(), mark.summary()));
        let line = format!(
            "VACUOUS: this run counts for nothing. It never reached {name}: that {meaning}."
        );
        let _ = writeln!(text, "{}", colour.paint(Tone::Fault, &line));
    }
    let breached = verdict.breached();
    if breached.is_empty() {
        let line = if verdict.vacuous {
            "Nothing was violated, which says nothing here."
        } else {
            "Nothing was violated in this run."
        };
        let tone = if verdict.vacuous {
            Tone::Plain
        } else {
            Tone::Good
        };
        let _ = writeln!(text, "{}", colour.paint(tone, line));
    } else {
        let title = if breached.len() == 1 {
            "One invariant was violated".to_owned()
        } else {
            format!(
                "{} invariants were violated, the worst first",
                breached.len()
            )
        };
        let _ = writeln!(text, "{}", colour.paint(Tone::Bad, &title));
    }
    let width = breached.iter().map(|name| name.len()).max().unwrap_or(0);
    for name in breached {
        let mut of = verdict.violations.iter().filter(|v| v.invariant == name);
        let Some(first) = of.next() else { continue };
        let more = match of.count() {
            0 => String::new(),
            1 => " (and once more)".into(),
            more => format!(" (and {more} times more)"),
        };
        let padded = colour.paint(Tone::Bad, &format!("{name:width$}"));
        let _ = writeln!(text, "  {padded}  {}: {}{more}", clock(first.at), first.why);
    }
    for place in &verdict.never_struck {
        let Planned { fault, when } = &run.instance.setup.plan.0[*place];
        let why = match when {
            When::At(at) => format!("the run was over before {}", clock(*at)),
            When::Point { client, point, nth } => {
                format!(
                    "{client} did not reach {point} for the {} time",
                    nth_time(*nth)
                )
            }
        };
        let line = format!(
            "Fault {} ({}) never struck: {why}.",
            place + 1,
            fault.kind()
        );
        let _ = writeln!(text, "{}", colour.paint(Tone::Fault, &line));
    }
    if let Some(line) = waiting(run) {
        let _ = writeln!(text, "{line}");
    }
    if verdict.stuck_not_judged {
        let _ = writeln!(
            text,
            "Not judged for stuck: too little time was left after the faults."
        );
    }
}

/// Who waited longest, and what that was due to. Waits of less than a second are not worth a line.
fn waiting(run: &Run) -> Option<String> {
    let facts = run.facts();
    let ended = facts.history.ended;
    // Who died while it asked has stopped waiting.
    let asks = facts
        .asks
        .iter()
        .filter(|ask| ask.leased || ask.until.is_none());
    let waits = asks.map(|ask| (ask.until.unwrap_or(ended) - ask.attempts[0], ask));
    let (wait, ask) = waits.rev().max_by_key(|(wait, _)| *wait)?;
    if wait < 1_000 {
        return None;
    }
    let mut line = format!(
        "Waiting: {} waited longest for {}, {}{}.",
        ask.client,
        ask.key,
        length(wait),
        if ask.leased {
            ""
        } else {
            ", and did not get it"
        },
    );
    match run.verdict.cost.overtaken {
        0 => {}
        1 => line.push_str(" One lease went to somebody who had asked later than another."),
        more => {
            let _ = write!(
                line,
                " While one waited, {more} leases went to others who had asked later."
            );
        }
    }
    if run.verdict.cost.orphaned >= 1_000 {
        let orphaned = length(run.verdict.cost.orphaned);
        let _ = write!(
            line,
            " For {orphaned} a lock was held for nobody who still counted on it."
        );
    }
    Some(line)
}

/// `first`, `2nd`, `11th`.
fn nth_time(nth: u32) -> String {
    let ending = match (nth % 100, nth % 10) {
        (1, _) => return "first".into(),
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{nth}{ending}")
}
