//! A matrix for a terminal: scenarios downwards, algorithms across, in as many blocks as the
//! width asks for.
//!
//! A cell shows its worst violation with its rate, and after a slash the rate of `double-write` where
//! that is not the worst itself; of `stuck` also the longest. What no run broke shows how often it
//! could break all the same: the upper bound of its interval.

mod notes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{Cell as Field, CellAlignment, ContentArrangement, Table, presets};
use scenarios::Scenario;
use scenarios::invariants::{self, StuckFor};
use scenarios::matrix::{Cell, CellViolation, Matrix, Rate};

pub(crate) use notes::not_applicable;
pub use notes::notes;

use crate::style::{Colour, Tone};
use crate::words::{bare_percent, length, percent, replay};

/// How a table is to look.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// How many columns the terminal has.
    pub width: u16,
    /// Whether it may use colours.
    pub colour: Colour,
    /// What the user types for a scenario whose name is not enough: the path of its file.
    pub arguments: BTreeMap<String, String>,
}

/// Everything that `matrix` prints: a replay line for every violation, the table, its legend
/// and what else must be known. The table comes last, where a terminal shows it.
pub fn table(matrix: &Matrix, scenarios: &[Scenario], options: &TableOptions) -> String {
    let parts = [
        replays(matrix, options),
        grid(matrix, options),
        legend(matrix, options),
        notes(matrix, scenarios, options),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// For every cell with violations the commands that show them, each with the violations that
/// its seed is the first to show.
pub fn replays(matrix: &Matrix, options: &TableOptions) -> String {
    let mut text = String::new();
    let mut scenario = "";
    for cell in &matrix.cells {
        let mut by_seed = BTreeMap::<u64, Vec<String>>::new();
        for violation in &cell.violations {
            if let Some(seed) = violation.first_seed {
                by_seed.entry(seed).or_default().push(format!(
                    "{} {}{}",
                    violation.invariant,
                    percent(violation.rate.share()),
                    stuck_for(cell, violation)
                ));
            }
        }
        for (seed, violations) in by_seed {
            if text.is_empty() {
                text += &options.colour.paint(
                    Tone::Strong,
                    "The first seed of every violation, and in how many runs it was seen",
                );
                text.push('\n');
            }
            if scenario != cell.scenario {
                scenario = &cell.scenario;
                let _ = writeln!(text, "{}", options.colour.paint(Tone::Strong, scenario));
            }
            let command = replay(
                &cell.algorithm,
                argument(options, scenario),
                seed,
                matrix.engine,
            );
            text += &wrapped(&format!("  {command}  "), &violations, options.width);
        }
    }
    text
}

/// How long it was stuck at the longest, where that is what was violated.
fn stuck_for(cell: &Cell, violation: &CellViolation) -> String {
    match cell.stuck_for.filter(|_| violation.invariant == STUCK) {
        None => String::new(),
        Some(StuckFor { to_the_end, lasted }) => {
            let tail = if to_the_end {
                " to the end of the run"
            } else {
                ""
            };
            format!(" (up to {}{tail})", length(lasted))
        }
    }
}

/// A head with its items behind it, or below it if they do not fit.
fn wrapped(head: &str, items: &[String], width: u16) -> String {
    let joined = items.join(", ");
    if head.chars().count() + joined.chars().count() <= usize::from(width) {
        return format!("{head}{joined}\n");
    }
    // Lines break between items, so that a name, its rate and the sign stay together.
    let below = filled_with(joined.split_inclusive(',').map(str::trim), width, 6);
    format!("{}\n      {below}\n", head.trim_end())
}

/// The table itself.
pub fn grid(matrix: &Matrix, options: &TableOptions) -> String {
    let mut algorithms: Vec<&str> = Vec::new();
    let mut scenarios: Vec<&str> = Vec::new();
    for cell in &matrix.cells {
        if !algorithms.contains(&cell.algorithm.as_str()) {
            algorithms.push(&cell.algorithm);
        }
        if !scenarios.contains(&cell.scenario.as_str()) {
            scenarios.push(&cell.scenario);
        }
    }
    let find = |algorithm: &str, scenario: &str| {
        let is = |cell: &&Cell| cell.algorithm == algorithm && cell.scenario == scenario;
        matrix.cells.iter().find(is)
    };
    let text_of = |algorithm: &str, scenario: &str| {
        find(algorithm, scenario).map_or(("".into(), Tone::Plain), summary)
    };

    let first = scenarios.iter().map(|name| name.len()).max().unwrap_or(0);
    let widths: Vec<usize> = algorithms
        .iter()
        .map(|algorithm| {
            let cells = scenarios
                .iter()
                .map(|scenario| text_of(algorithm, scenario).0.chars().count());
            cells.chain([algorithm.len()]).max().unwrap_or(0)
        })
        .collect();
    let blocks = blocks(first, &widths, usize::from(options.width));

    let mut text = String::new();
    let mut from = 0;
    for count in blocks {
        let shown = &algorithms[from..from + count];
        from += count;
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        let paint = |text: &str, tone| Field::new(options.colour.paint(tone, text));
        let heads = shown.iter().map(|name| paint(name, Tone::Strong));
        table.set_header([Field::new("")].into_iter().chain(heads));
        for scenario in &scenarios {
            let cells = shown.iter().map(|algorithm| {
                let (text, tone) = text_of(algorithm, scenario);
                paint(&text, tone)
            });
            let row = [paint(scenario, Tone::Strong)].into_iter().chain(cells);
            table.add_row(row);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { 0 } else { 2 }, 0));
            column.set_cell_alignment(CellAlignment::Left);
        }
        for line in table.lines() {
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }
    text.pop();
    text
}

/// How many columns go into each block: as few blocks as fit, all about equally wide.
fn blocks(first: usize, widths: &[usize], width: usize) -> Vec<usize> {
    let fits = |columns: &[usize]| {
        columns.len() == 1 || first + columns.iter().map(|w| w + 2).sum::<usize>() <= width
    };
    for blocks in 1..=widths.len() {
        let most = widths.len().div_ceil(blocks);
        let chunks = widths.chunks(most);
        if chunks.clone().all(fits) {
            return chunks.map(<[usize]>::len).collect();
        }
    }
    vec![1; widths.len()]
}

/// What a cell shows.
fn summary(cell: &Cell) -> (String, Tone) {
    if cell.not_applicable.is_some() {
        return ("n/a".into(), Tone::Quiet);
    }
    let (text, tone) = if let Some(worst) = cell.worst() {
        let mut text = format!(
            "{} {}",
            short(worst.invariant),
            bare_percent(worst.rate.share())
        );
        if let Some(double) = cell
            .violation(DOUBLE_WRITE)
            .filter(|double| double.rate.hits > 0 && worst.invariant != DOUBLE_WRITE)
        {
            let _ = write!(text, "/{}", bare_percent(double.rate.share()));
        }
        text.push('%');
        if let Some(long) = cell.stuck_for.filter(|_| worst.invariant == STUCK) {
            let _ = write!(text, " {}", short_stuck(long));
        }
        (text, Tone::Bad)
    } else if cell.runs > 0 {
        (format!("safe <{}%", bound(cell)), Tone::Good)
    } else if cell.vacuous > 0 {
        ("vacuous".into(), Tone::Fault)
    } else if cell.failed > 0 {
        (String::new(), Tone::Bad)
    } else {
        ("not run".into(), Tone::Quiet)
    };
    if cell.failed > 0 {
        let text = format!("!{} FAILED {text}", cell.failed);
        return (text.trim_end().to_owned(), Tone::Bad);
    }
    (text, tone)
}

const DOUBLE_WRITE: &str = "double-write";
const STUCK: &str = "stuck";

/// Whole seconds, rounded up, or that only the end of the run ended it.
fn short_stuck(long: StuckFor) -> String {
    if long.to_the_end {
        "end".into()
    } else {
        format!("{}s", long.lasted.div_ceil(1_000))
    }
}

/// The upper bound of what was never seen in so many runs, rounded up.
fn bound(cell: &Cell) -> String {
    let unseen = Rate {
        hits: 0,
        of: cell.runs,
    };
    let high = (unseen.interval().1 * 1_000.0).ceil() / 10.0;
    let text = if high < 10.0 {
        format!("{high:.1}")
    } else {
        format!("{:.0}", high.ceil())
    };
    text.trim_end_matches(".0").to_owned()
}

/// A name that fits into a column.
fn short(invariant: &'static str) -> &'static str {
    match invariant {
        "double-write" => "dbl-write",
        "lost-update" => "lost-upd",
        "token-order" => "tok-order",
        "refused-holder" => "refused",
        "wrong-release" => "wrong-rel",
        "stale-write" => "stale",
        other => other,
    }
}

/// What the cells' words mean; only those that occur.
pub fn legend(matrix: &Matrix, options: &TableOptions) -> String {
    let mut text = String::new();
    let mut entries: Vec<(String, String)> = Vec::new();
    let applicable = || {
        matrix
            .cells
            .iter()
            .filter(|cell| cell.not_applicable.is_none())
    };
    for invariant in invariants::ALL {
        let name = invariant.name();
        let shown = matrix
            .cells
            .iter()
            .any(|cell| cell.worst().is_some_and(|worst| worst.invariant == name));
        if shown {
            let long = if short(name) == name {
                String::new()
            } else {
                format!("{name}: ")
            };
            entries.push((short(name).into(), format!("{long}{}", invariant.summary())));
        }
    }
    if !entries.is_empty() {
        entries.insert(
            0,
            (
                "name 97/36%".into(),
                "the worst violation and its share of the runs / double-write's share, if seen"
                    .into(),
            ),
        );
    }
    let stuck = applicable().filter(|cell| cell.worst().is_some_and(|w| w.invariant == STUCK));
    let stuck: Vec<_> = stuck.filter_map(|cell| cell.stuck_for).collect();
    let for_a_while = stuck.iter().find(|long| !long.to_the_end);
    let to_the_end = stuck.iter().find(|long| long.to_the_end);
    for (long, meaning) in [
        (
            for_a_while,
            "so long did it take at the most until somebody got the lock",
        ),
        (
            to_the_end,
            "nobody got the lock any more until the run ended",
        ),
    ] {
        entries.extend(long.map(|long| {
            let word = format!("stuck 97% {}", short_stuck(*long));
            (word, meaning.to_owned())
        }));
    }
    // Most cells have been run as often as this one.
    let safe = applicable().filter(|cell| cell.runs > 0 && cell.worst().is_none());
    if let Some(cell) = safe.max_by_key(|cell| cell.runs) {
        entries.push((
            format!("safe <{}%", bound(cell)),
            format!(
                "no violation in any of {} runs; with 95 % confidence rarer than this",
                cell.runs
            ),
        ));
    }
    if applicable().count() < matrix.cells.len() {
        entries.push((
            "n/a".into(),
            "the algorithm cannot meet the scenario, so nothing was run".into(),
        ));
    }
    if applicable().any(|cell| cell.runs == 0 && cell.vacuous > 0) {
        entries.push((
            "vacuous".into(),
            "no run reached the moment that the scenario is about: nothing is known".into(),
        ));
    }
    if applicable().any(|cell| cell.seeds == 0) {
        entries.push(("not run".into(), "stopped before this cell".into()));
    }
    if applicable().any(|cell| cell.failed > 0) {
        entries.push((
            "!2 FAILED".into(),
            "the testbed itself failed in 2 runs: a bug in fencepost".into(),
        ));
    }
    let width = entries
        .iter()
        .map(|(word, _)| word.len())
        .max()
        .unwrap_or(0);
    for (word, meaning) in entries {
        let padded = format!("{word:width$}");
        let head = options.colour.paint(Tone::Strong, &padded);
        let wrapped = filled(&meaning, options.width, width + 2);
        let _ = writeln!(text, "{head}  {wrapped}");
    }
    text
}

/// Breaks a text into lines; those after the first are indented.
fn filled(text: &str, width: u16, indent: usize) -> String {
    filled_with(text.split_whitespace(), width, indent)
}

/// Fills lines with pieces that are not broken.
fn filled_with<'t>(pieces: impl Iterator<Item = &'t str>, width: u16, indent: usize) -> String {
    let room = usize::from(width).saturating_sub(indent).max(20);
    let mut lines = vec![String::new()];
    for word in pieces {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            *line = word.to_owned();
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}

fn argument<'a>(options: &'a TableOptions, scenario: &'a str) -> &'a str {
    options
        .arguments
        .get(scenario)
        .map_or(scenario, String::as_str)
}
