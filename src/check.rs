//! `fencepost check`: does what happens agree with what the scenarios expect?

use anyhow::{Result, bail};
use reports::{CheckedCell, check_text, junit};
use scenarios::matrix::Checked;

use crate::arguments::Check;
use crate::sweep::{stop_on_ctrl_c, sweep};
use crate::{Outcome, output, pick};

/// Plays the scenarios and compares.
pub(crate) fn check(arguments: &Check) -> Result<Outcome> {
    let algorithms = pick::algorithms(&arguments.sweep.algorithms)?;
    let picked = pick::scenarios(&arguments.scenarios)?;
    let engine = pick::engine(&arguments.sweep.engine)?;
    let stop = stop_on_ctrl_c()?;
    if let Some(path) = &arguments.junit {
        output::try_file(path)?;
    }
    let scenarios: Vec<_> = picked
        .iter()
        .map(|picked| picked.scenario.clone())
        .collect();
    let matrix = sweep(&arguments.sweep, &algorithms, &scenarios, engine, &stop)?;
    let named: Vec<_> = picked
        .iter()
        .map(|picked| (&picked.scenario, picked.argument.as_str()))
        .collect();
    let checked = CheckedCell::all(&matrix, &algorithms, &named);
    if let Some(path) = &arguments.junit {
        output::write_file(path, junit(&checked).as_bytes())?;
    }
    output::print(&check_text(&checked, output::COLOUR))?;
    if matrix.stopped {
        bail!("stopped before the end: what was not played was not checked");
    }
    let judged = |cell: &CheckedCell<'_>| {
        !matches!(cell.checked, Checked::NotExpected | Checked::NotApplicable)
    };
    if !checked.iter().any(judged) {
        bail!("nothing was checked: no cell applies and has an [expect]");
    }
    let differs = checked
        .iter()
        .any(|cell| matches!(cell.checked, Checked::Differs(_)));
    Ok(if differs {
        Outcome::Found
    } else {
        Outcome::Done
    })
}
