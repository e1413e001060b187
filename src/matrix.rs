//! `fencepost matrix`: the main job.

use std::fs;
use std::path::Path;

use algorithms::Algorithm;
use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use reports::{TableOptions, report_json, run_json, table, timeline, verified_text};
use scenarios::Scenario;
use scenarios::matrix::Cell;
use sim::engine::Engine;

use crate::arguments::Matrix;
use crate::sweep::{stop_on_ctrl_c, sweep, sweep_twice};
use crate::{Outcome, output, pick};

/// Plays a matrix and writes its report.
pub(crate) fn matrix(arguments: &Matrix) -> Result<Outcome> {
    let algorithms = pick::algorithms(&arguments.sweep.algorithms)?;
    let picked = pick::scenarios(&arguments.scenarios)?;
    let engine = pick::engine(&arguments.sweep.engine)?;
    let stop = stop_on_ctrl_c()?;
    let cells = arguments.out.join("cells");
    fs::create_dir_all(&cells).with_context(|| format!("failed to create {}", cells.display()))?;
    let report = arguments.out.join("report.json");
    output::try_file(&report)?;

    let named = picked
        .iter()
        .map(|picked| (picked.scenario.name.clone(), picked.argument.clone()));
    let table_options = TableOptions {
        width: output::width(),
        colour: output::COLOUR,
        arguments: named.collect(),
    };
    let scenarios: Vec<_> = picked.into_iter().map(|picked| picked.scenario).collect();
    let (matrix, verification) = if arguments.verify {
        let played = sweep_twice(&arguments.sweep, &algorithms, &scenarios, engine, &stop)?;
        (played.0, Some(played.1))
    } else {
        let matrix = sweep(&arguments.sweep, &algorithms, &scenarios, engine, &stop)?;
        (matrix, None)
    };
    output::write_file(&report, report_json(&matrix, &scenarios, None).as_bytes())?;
    let write = |cell| write_incident(&cells, cell, &algorithms, &scenarios, engine);
    matrix.cells.par_iter().try_for_each(write)?;
    output::print(&table(&matrix, &scenarios, &table_options))?;
    output::remark(&format!(
        "The report is {}; a history and a picture of each cell's worst incident are in {}.",
        report.display(),
        cells.display(),
    ));
    let mut outcome = Outcome::Done;
    if let Some(verification) = &verification {
        let text = verified_text(verification, engine.name(), &table_options.arguments);
        output::print(&format!("\n{text}"))?;
        if !verification.differing.is_empty() {
            outcome = Outcome::NotReproduced;
        }
    }
    if matrix.stopped && outcome == Outcome::Done {
        bail!("stopped early: the report holds what was done");
    }
    Ok(outcome)
}

/// The history and the picture of the first run that shows a cell's worst violation.
fn write_incident(
    directory: &Path,
    cell: &Cell,
    algorithms: &[&dyn Algorithm],
    scenarios: &[Scenario],
    engine: &dyn Engine,
) -> Result<()> {
    let directory = directory.join(&cell.scenario);
    let file = |extension| directory.join(format!("{}.{extension}", cell.algorithm));
    let Some(seed) = cell.worst().and_then(|worst| worst.first_seed) else {
        // An incident of an earlier report would look like one of this.
        let _ = fs::remove_file(file("json"));
        let _ = fs::remove_file(file("svg"));
        return Ok(());
    };
    let algorithm = algorithms
        .iter()
        .find(|algorithm| algorithm.name() == cell.algorithm);
    let scenario = scenarios
        .iter()
        .find(|scenario| scenario.name == cell.scenario);
    let (Some(algorithm), Some(scenario)) = (algorithm, scenario) else {
        return Ok(());
    };
    let run = scenarios::run(*algorithm, scenario, seed, engine)?;
    fs::create_dir_all(&directory)
        .with_context(|| format!("failed to create {}", directory.display()))?;
    output::write_file(&file("json"), run_json(&run).as_bytes())?;
    output::write_file(&file("svg"), timeline::svg(&run, scenario).as_bytes())
}
