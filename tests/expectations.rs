//! Every `[expect]` of every built-in scenario, held to its seeds.

use std::sync::atomic::AtomicBool;

use fencepost::algorithms;
use fencepost::reports::style::Colour;
use fencepost::reports::{CheckedCell, check_text};
use fencepost::scenarios::builtin;
use fencepost::scenarios::matrix::{Checked, Seeds, play};
use fencepost::sim::engine::Event;

#[test]
fn what_happens_is_what_the_scenarios_expect() {
    let scenarios = builtin::all();
    let never = AtomicBool::new(false);
    let seeds = Seeds {
        from: 1_000,
        count: 60,
    };
    let matrix = play(algorithms::ALL, &scenarios, seeds, &Event, &|| {}, &never);
    let named: Vec<_> = scenarios.iter().map(|s| (s, s.name.as_str())).collect();
    let checked = CheckedCell::all(&matrix, algorithms::ALL, &named);
    let wrong = |cell: &&CheckedCell<'_>| {
        // A lock that nothing is expected of, or a scenario that no run reaches, is a gap too.
        matches!(cell.checked, Checked::Differs(_) | Checked::NotExpected)
    };
    let text = check_text(&checked, Colour::Never);
    assert_eq!(checked.iter().filter(wrong).count(), 0, "{text}");
    for cell in &matrix.cells {
        let enough = cell.not_applicable.is_some() || cell.runs * 2 >= cell.seeds;
        assert!(
            enough,
            "{} under {} is mostly vacuous",
            cell.algorithm, cell.scenario
        );
    }
}
