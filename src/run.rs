//! `fencepost run`: one run and its story.

use std::path::Path;

use algorithms::Algorithm;
use anyhow::{Result, anyhow, bail};
use reports::{StoryOptions, run_json, story, timeline, words};
use scenarios::verify::{FirstDifference, record, record_elsewhere};
use scenarios::{Run as Played, Scenario};
use sim::engine::Engine;

use crate::arguments::Run;
use crate::trace::Elsewhere;
use crate::{Outcome, output, pick};

/// How many seeds are tried to find one under which something is violated; fewer if the
/// scenario caps them for their cost.
const TRIED: u64 = 200;

/// Plays one run.
pub(crate) fn run(arguments: &Run) -> Result<Outcome> {
    let algorithm = pick::algorithm(&arguments.algorithm)?;
    let picked = pick::scenario(&arguments.scenario, &arguments.set)?;
    let engine = pick::engine(&arguments.engine)?;
    let scenario = &picked.scenario;
    if let Some(reason) = scenario.not_applicable(&algorithm.declares(), engine) {
        bail!(
            "{} cannot meet {}: {reason}",
            algorithm.name(),
            scenario.name
        );
    }
    for path in [&arguments.json, &arguments.plot].into_iter().flatten() {
        output::try_file(path)?;
    }
    if let Some(path) = &arguments.plot
        && !(has_extension(path, "svg") || has_extension(path, "png"))
    {
        bail!(
            "failed to draw {}: its name must end in .svg or .png",
            path.display()
        );
    }

    let (played, preface) = match arguments.seed {
        Some(seed) => (play(algorithm, scenario, seed, engine)?, String::new()),
        None => first_violation(algorithm, scenario, engine)?,
    };
    let replay = replay(arguments, &picked.argument, played.seed);
    let options = StoryOptions {
        colour: output::COLOUR,
        replay,
        whole: arguments.whole,
    };
    let mut text = story(&played, scenario, &options) + &preface;
    let mut outcome = Outcome::Done;
    if arguments.verify {
        let (verified, said) = verify(arguments, &played, algorithm, scenario, engine)?;
        outcome = verified;
        text += &said;
    }

    // Files come first: whoever reads the story may stop reading.
    if let Some(path) = &arguments.json {
        output::write_file(path, run_json(&played).as_bytes())?;
    }
    if let Some(path) = &arguments.plot {
        let svg = timeline::svg(&played, scenario);
        if has_extension(path, "svg") {
            output::write_file(path, svg.as_bytes())?;
        } else {
            output::write_file(path, &timeline::png(&svg, PICTURE_WIDTH)?)?;
        }
    }
    output::print(&text)?;
    Ok(outcome)
}

/// Twice the width of a document, for sharp print.
const PICTURE_WIDTH: u32 = 2_400;

fn play(
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    seed: u64,
    engine: &dyn Engine,
) -> Result<Played> {
    scenarios::run(algorithm, scenario, seed, engine).map_err(|failed| {
        anyhow!("the testbed failed under seed {seed}: {failed}\nSuch a run says nothing about the lock.")
    })
}

/// The first seed under which something is violated, or else the first that reached its
/// landmark; and a sentence about the choice.
fn first_violation(
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    engine: &dyn Engine,
) -> Result<(Played, String)> {
    let tried = scenario.seeds.map_or(TRIED, |cap| cap.min(TRIED));
    let mut fallback = None;
    for seed in 0..tried {
        let played = play(algorithm, scenario, seed, engine)?;
        if played.verdict.vacuous {
            continue;
        }
        if !played.verdict.violations.is_empty() {
            let preface =
                format!("Seed {seed} is the first one under which something is violated.\n");
            return Ok((played, preface));
        }
        fallback.get_or_insert(played);
    }
    match fallback {
        Some(played) => {
            let seed = played.seed;
            let preface = format!(
                "Nothing was violated under any of the seeds 0 to {}; this was seed {seed}.\n",
                tried - 1,
            );
            Ok((played, preface))
        }
        None => bail!(
            "no run of {tried} reached what {} is about; name a --seed to see one",
            scenario.name
        ),
    }
}

/// Plays a run again, here, in another thread and in another process, and compares everything
/// that happens.
fn verify(
    arguments: &Run,
    played: &Played,
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    engine: &dyn Engine,
) -> Result<(Outcome, String)> {
    let process = Elsewhere::start(arguments, played.seed)?;
    let here = record(algorithm, scenario, played.seed, engine);
    let thread = record_elsewhere(algorithm, scenario, played.seed, engine);
    let places = [
        ("in another thread", thread.trace),
        ("in another process", process.trace()?),
    ];
    let mut said = String::new();
    for (place, trace) in &places {
        if let Some(first) = FirstDifference::of(&here.trace, trace) {
            let first = first.text("here", place);
            said += &format!("NOT REPRODUCED {place}: {first}\n");
        }
    }
    let fingerprint = played.history.fingerprint;
    let again = here.outcome.map(|run| run.history.fingerprint);
    if said.is_empty() && again == Ok(fingerprint) {
        let events = fingerprint.events;
        said = format!(
            "verified: the same {events} events in another thread and in another process \
             (fingerprint {fingerprint})\n"
        );
        return Ok((Outcome::Done, said));
    }
    if said.is_empty() {
        said += "NOT REPRODUCED: it came out differently once, and not when that was looked for\n";
    }
    Ok((Outcome::NotReproduced, said))
}

/// The command that plays the run again, with everything that was changed.
fn replay(arguments: &Run, scenario: &str, seed: u64) -> String {
    let engine = &arguments.engine.name;
    let mut command = words::replay(&arguments.algorithm, scenario, seed, engine);
    for (key, value) in &arguments.set {
        command += &format!(" --set {}", words::quoted(&format!("{key}={value}")));
    }
    command
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(extension))
}
