//! The second opinion: every cell that stock turmoil can play, by a few seeds, against what the
//! scenarios expect. `docs/second-opinion.md` has the figures of many.

use std::sync::atomic::AtomicBool;

use fencepost::algorithms;
use fencepost::reports::style::Colour;
use fencepost::reports::{CheckedCell, check_text};
use fencepost::scenarios::builtin;
use fencepost::scenarios::matrix::{Checked, Seeds, play};
use fencepost::sim::engine::Turmoil;

#[test]
fn turmoil_sees_nothing_that_the_scenarios_do_not_expect() {
    let scenarios = builtin::all();
    let never = AtomicBool::new(false);
    let seeds = Seeds { from: 0, count: 3 };
    let matrix = play(algorithms::ALL, &scenarios, seeds, &Turmoil, &|| {}, &never);
    let named: Vec<_> = scenarios.iter().map(|s| (s, s.name.as_str())).collect();
    let checked = CheckedCell::all(&matrix, algorithms::ALL, &named);
    for CheckedCell { cell, scenario, .. } in &checked {
        let too_many = cell.not_applicable.as_deref();
        let is_herd = scenario.clients == 200;
        assert_eq!(
            too_many == Some("the turmoil engine plays at most 50 clients"),
            is_herd,
            "{} under {}: {too_many:?}",
            cell.algorithm,
            cell.scenario
        );
    }
    let wrong = |cell: &&CheckedCell<'_>| matches!(cell.checked, Checked::Differs(_));
    let text = check_text(&checked, Colour::Never);
    assert_eq!(checked.iter().filter(wrong).count(), 0, "{text}");
    let played = matrix.cells.iter().filter(|cell| cell.runs > 0).count();
    assert!(played >= 130, "{played} cells were played");
}
