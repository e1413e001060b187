//! One run, told in a terminal: what happened, when, to whom, in plain sentences.
//!
//! Lines come from the history and the facts; what repeats itself (polling, renewals) is
//! counted, not told. A very long run is cut down to what surrounds faults and violations.

mod tell;

use std::fmt::Write as _;

use scenarios::{Run, Scenario};
use sim::Millis;
use sim::fault::{Planned, When};

use crate::style::{Colour, Tone};
use crate::words::clock;

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

/// Tells a run.
pub fn story(run: &Run, scenario: &Scenario, options: &StoryOptions) -> String {
    let colour = options.colour;
    let mut lines = tell::lines(run);
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
    for (place, line) in lines.iter().enumerate() {
        if line.weight >= Weight::Fault {
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
    if verdict.stuck_not_judged {
        let _ = writeln!(
            text,
            "Not judged for stuck: too little time was left after the faults."
        );
    }
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

#[cfg(test)]
mod tests {
    use scenarios::scenario::{FaultKind, Role};

    use super::*;
    use crate::sample;

    fn told(run: &Run, scenario: &Scenario) -> String {
        story(run, scenario, &StoryOptions::default())
    }

    #[test]
    fn a_story_tells_the_fault_the_expiry_the_next_holder_and_the_violation() {
        let scenario = sample::gc_pause();
        let run = sample::breach("naive", &scenario, "double-write");
        let text = told(&run, &scenario);
        for part in [
            "client-1 gets lock:1 (grant 1)",
            "FAULT pause: client-1 stops for ",
            "client-1's lease on lock:1 expires",
            "keep asking",
            "VIOLATION double-write: ",
            "client-1 goes on",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_lock_whose_key_is_taken_away_is_told_as_such() {
        let node = Role::Lock;
        for (kind, struck, gone) in [
            (
                FaultKind::Flush { node },
                "FAULT flush: after client-1's read, somebody runs FLUSHALL on lock-1",
                "client-1's lease on lock:1 is gone with the FLUSHALL, and client-1 still believes",
            ),
            (
                FaultKind::Evict { node },
                "FAULT evict: after client-1's read, lock-1 evicts every key",
                "client-1's lease on lock:1 is evicted, and client-1 still believes",
            ),
        ] {
            let scenario = sample::after_read(kind);
            let text = told(&sample::run("naive", &scenario, 0), &scenario);
            assert!(text.contains(struck), "{struck} in\n{text}");
            assert!(text.contains(gone), "{gone} in\n{text}");
        }
    }

    #[test]
    fn a_suspended_machine_is_told_and_shown_to_stand_still() {
        let (node, lasts) = (Role::Client(1), 40_000..=40_000);
        let scenario = sample::after_read(FaultKind::Suspend { node, lasts });
        let run = sample::run("naive", &scenario, 0);
        let text = told(&run, &scenario);
        for part in [
            "FAULT suspend: client-1 is suspended for 40 s, after its read",
            "client-1's lease on lock:1 expires",
            "client-1 goes on, after 40 s",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(crate::timeline::svg(&run, &scenario).contains("stands still"));
    }

    #[test]
    fn a_servers_fast_clock_is_told_and_brings_the_end_of_the_lease_closer() {
        let (node, ppm) = (Role::Lock, 1_000_000..=1_000_000);
        let scenario = sample::after_read(FaultKind::ClockRate { node, ppm });
        let run = (0..20)
            .map(|seed| sample::run("naive", &scenario, seed))
            .find(|run| run.verdict.has("overlap"))
            .unwrap();
        let text = told(&run, &scenario);
        for part in [
            "FAULT clock-rate: after client-1's read, from now on the clocks of lock-1 run 100 % too",
            "client-1's lease on lock:1 expires, and client-1 still believes",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let picture = crate::timeline::svg(&run, &scenario);
        assert!(
            picture.contains("clock-rate: lock-1 100 % too fast"),
            "{picture}"
        );
    }

    #[test]
    fn a_fault_whose_moment_never_comes_is_told() {
        let mut scenario = sample::after_read(FaultKind::Flush { node: Role::Lock });
        scenario.faults[0].when = scenarios::scenario::WhenRange::Point {
            client: 1,
            point: sim::fault::Point::AfterRead,
            nth: 99,
        };
        let text = told(&sample::run("naive", &scenario, 0), &scenario);
        let never =
            "Fault 1 (flush) never struck: client-1 did not reach after-read for the 99th time.";
        assert!(text.contains(never), "{text}");
    }

    #[test]
    fn a_refused_write_is_told() {
        let scenario = sample::gc_pause();
        let refused = (0..200)
            .map(|seed| sample::run("fenced", &scenario, seed))
            .find(|run| run.facts().writes.iter().any(|write| !write.accepted));
        let text = told(&refused.unwrap(), &scenario);
        assert!(
            text.contains("the store REFUSES client-1's write"),
            "{text}"
        );
    }

    #[test]
    fn a_run_without_a_violation_says_so() {
        let scenario = sample::calm();
        let text = told(&sample::run("tokened", &scenario, 0), &scenario);
        assert!(text.contains("Nothing was violated in this run."), "{text}");
    }

    #[test]
    fn a_vacuous_run_says_what_it_never_reached() {
        let scenario = sample::calm();
        let mut run = sample::run("tokened", &scenario, 0);
        run.verdict.vacuous = true;
        let text = told(&run, &sample::gc_pause());
        assert!(
            text.contains("It never reached woke-after-lease: that client-1 stood still"),
            "{text}"
        );
    }

    #[test]
    fn two_hundred_clients_do_not_make_a_long_story() {
        let scenario = sample::herd();
        let run = sample::run("naive", &scenario, 0);
        let text = told(&run, &scenario);
        assert!(text.lines().count() < 2 * LONG, "{text}");
    }

    #[test]
    fn the_same_run_gives_the_same_story() {
        let scenario = sample::gc_pause();
        let once = told(&sample::run("redlock", &scenario, 3), &scenario);
        assert_eq!(once, told(&sample::run("redlock", &scenario, 3), &scenario));
    }

    #[test]
    fn a_record_that_another_takes_is_told_as_taken_over() {
        let scenario = sample::gc_pause();
        let text = told(&sample::run("k8s-lease", &scenario, 0), &scenario);
        let part = "takes lock:1 over from client-1, whose lease it counts as over (grant 1)";
        assert!(text.contains(part), "{text}");
        assert!(!text.contains("expires"), "{text}");
    }

    #[test]
    fn a_session_that_ends_is_told_and_shown_as_a_lease_that_expires() {
        let scenario = sample::gc_pause();
        for name in ["etcd", "zookeeper", "consul"] {
            let run = sample::run(name, &scenario, 0);
            let text = told(&run, &scenario);
            assert!(
                text.contains("client-1's lease on lock:1 expires"),
                "{text}"
            );
            let picture = crate::timeline::svg(&run, &scenario);
            assert!(
                picture.contains("is client-1&apos;s (grant 1)"),
                "{name}: {picture}"
            );
        }
    }
}
