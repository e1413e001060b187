//! What a table does not show: what was not run, not reached or not judged, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scenarios::Scenario;
use scenarios::matrix::{Cell, Matrix, capped};

use super::{TableOptions, argument, filled};
use crate::style::Tone;
use crate::words::{list, replay};

/// What must be known beside the table: caps, vacuous runs, runs that were not judged for
/// `stuck`, faults that never struck, why cells do not apply, and runs that failed.
pub fn notes(matrix: &Matrix, scenarios: &[Scenario], options: &TableOptions) -> String {
    let mut notes: Vec<(Tone, String)> = Vec::new();
    let seeds = matrix.seeds;
    if seeds.count > 0 {
        let last = seeds.from + seeds.count - 1;
        notes.push((
            Tone::Plain,
            format!("Seeds {} to {last}, engine {}.", seeds.from, matrix.engine),
        ));
    }
    if matrix.stopped {
        notes.push((
            Tone::Bad,
            "Stopped before the end: cells hold what was done until then.".into(),
        ));
    }
    let capped: Vec<_> = scenarios
        .iter()
        .filter_map(|scenario| {
            let count = capped(scenario, seeds).count;
            (count < seeds.count).then(|| format!("{} to {count}", scenario.name))
        })
        .collect();
    if !capped.is_empty() {
        notes.push((
            Tone::Plain,
            format!("Seeds are capped for costly scenarios: {}.", list(&capped)),
        ));
    }
    let cells = |wanted: fn(&Cell) -> u64| -> Vec<String> {
        matrix
            .cells
            .iter()
            .filter(|cell| wanted(cell) > 0)
            .map(|cell| {
                format!(
                    "{} under {} ({} of {})",
                    cell.algorithm,
                    cell.scenario,
                    wanted(cell),
                    cell.seeds
                )
            })
            .collect()
    };
    let not_judged = cells(|cell| cell.stuck_not_judged);
    if !not_judged.is_empty() {
        notes.push((
            Tone::Plain,
            format!(
                "Not judged for stuck in some runs, which left too little time after their \
                 faults: {}.",
                list(&not_judged)
            ),
        ));
    }
    let half_vacuous = cells(|cell| {
        if cell.runs > 0 && cell.vacuous * 10 >= cell.seeds {
            cell.vacuous
        } else {
            0
        }
    });
    if !half_vacuous.is_empty() {
        notes.push((
            Tone::Plain,
            format!(
                "At least one run in ten never reached the scenario's moment and is not \
                 counted: {}.",
                list(&half_vacuous)
            ),
        ));
    }
    for (tone, note) in never_struck(matrix) {
        notes.push((tone, note));
    }
    for (reason, cells) in not_applicable(&matrix.cells) {
        notes.push((Tone::Quiet, format!("n/a, because {reason}: {cells}.")));
    }
    let mut text = String::new();
    for (tone, note) in notes {
        let _ = writeln!(
            text,
            "{}",
            options.colour.paint(tone, &filled(&note, options.width, 0))
        );
    }
    for cell in &matrix.cells {
        if let Some((seed, panic)) = &cell.first_failure {
            let command = replay(
                &cell.algorithm,
                argument(options, &cell.scenario),
                *seed,
                matrix.engine,
            );
            let line = format!(
                "FAILED: {} of {} runs of {} under {}: {}",
                cell.failed,
                cell.seeds,
                cell.algorithm,
                cell.scenario,
                panic.lines().next().unwrap_or_default()
            );
            let _ = writeln!(
                text,
                "{}\n  {command}",
                options.colour.paint(Tone::Bad, &line)
            );
        }
    }
    text
}

/// The faults that struck in no judged run of a cell, or not in one of ten.
fn never_struck(matrix: &Matrix) -> Vec<(Tone, String)> {
    let (mut never, mut seldom) = (BTreeMap::new(), BTreeMap::new());
    for cell in &matrix.cells {
        for (place, &runs) in &cell.never_struck {
            let fault = format!("fault {} of {}", place + 1, cell.scenario);
            let who = &cell.algorithm;
            if runs == cell.runs {
                let of: &mut Vec<_> = never.entry(fault).or_default();
                of.push(who.clone());
            } else if runs * 10 >= cell.runs {
                let of: &mut Vec<_> = seldom.entry(fault).or_default();
                of.push(format!("{who} ({runs} of {})", cell.runs));
            }
        }
    }
    let never = never.into_iter().map(|(fault, who)| {
        let who = list(&who);
        let text = format!("Nothing is known about {fault}, which never struck: {who}.");
        (Tone::Bad, text)
    });
    let seldom = seldom.into_iter().map(|(fault, who)| {
        let who = list(&who);
        (
            Tone::Plain,
            format!("Not in every run did {fault} strike: {who} went without."),
        )
    });
    never.chain(seldom).collect()
}

/// Why cells do not apply: every reason with its scenarios and algorithms.
pub(crate) fn not_applicable<'m>(
    cells: impl IntoIterator<Item = &'m Cell>,
) -> Vec<(String, String)> {
    let mut reasons: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for cell in cells {
        if let Some(reason) = &cell.not_applicable {
            let of = reasons.entry(reason).or_default();
            of.entry(&cell.scenario).or_default().push(&cell.algorithm);
        }
    }
    let said = |of: BTreeMap<&str, Vec<&str>>| {
        // Scenarios that the same algorithms cannot meet are said in one breath.
        let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
        for (scenario, algorithms) in of {
            match groups.iter_mut().find(|(_, same)| *same == algorithms) {
                Some((scenarios, _)) => scenarios.push(scenario),
                None => groups.push((vec![scenario], algorithms)),
            }
        }
        let groups = groups.iter().map(|(scenarios, algorithms)| {
            format!("{} under {}", algorithms.join(", "), list(scenarios))
        });
        groups.collect::<Vec<_>>().join("; ")
    };
    let reasons = reasons.into_iter();
    reasons
        .map(|(reason, of)| (reason.to_owned(), said(of)))
        .collect()
}
