//! Every `[expect]` of every built-in scenario, held to its seeds.

use std::sync::atomic::AtomicBool;

use fencepost::algorithms;
use fencepost::reports::style::Colour;
use fencepost::reports::{CheckedCell, check_text};
use fencepost::scenarios::builtin;
use fencepost::scenarios::matrix::{Checked, Seeds, play};
use fencepost::sim::engine::Event;

/// Cells that seldom reach what their scenario is about. Who shares a session hardly waits for anybody,
/// and these ask for a lock only when it looks free, or ask some servers later than others.
const SELDOM: &[(&str, &str)] = &[
    ("pg-pooled", "replayed-release"),
    ("redisson-multi", "dead-fair-waiter"),
    ("consul", "dead-fair-waiter"),
    ("k8s-lease", "dead-fair-waiter"),
    ("dynamodb", "dead-fair-waiter"),
];

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
        let seldom = SELDOM.contains(&(cell.algorithm.as_str(), cell.scenario.as_str()));
        let enough = seldom || cell.not_applicable.is_some() || cell.runs * 2 >= cell.seeds;
        assert!(
            enough,
            "{} under {} is mostly vacuous",
            cell.algorithm, cell.scenario
        );
    }
}
