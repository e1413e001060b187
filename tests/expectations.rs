//! Every `[expect]` of every built-in scenario, held to its seeds.

use std::sync::atomic::AtomicBool;

use fencepost::algorithms::{self, Algorithm};
use fencepost::reports::style::Colour;
use fencepost::reports::{CheckedCell, check_text};
use fencepost::scenarios::matrix::{Checked, Seeds, play};
use fencepost::scenarios::{Scenario, builtin};
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

/// Kinds of `redlock`, whose runs take five times as long as others'. Where no file names them and so
/// their family's expectation is theirs, a third of the seeds must do: nothing is insisted on then, and
/// what must never be seen is looked for.
const KINDS_OF_REDLOCK: &[&str] = &[
    "redlock-unchecked",
    "redlock-drift-added",
    "redlock-early-start",
    "redisson-multi",
];

#[test]
fn what_happens_is_what_the_scenarios_expect() {
    let scenarios = builtin::all();
    let names = |scenario: &Scenario, lock: &str| scenario.expect.iter().any(|e| e.of == lock);
    let mut locks = algorithms::ALL.to_vec();
    locks.retain(|lock| !KINDS_OF_REDLOCK.contains(&lock.name()));
    are_as_expected(&locks, &scenarios, 60);
    for kind in KINDS_OF_REDLOCK {
        let all = algorithms::ALL.iter().copied();
        let lock: Vec<_> = all.filter(|lock| lock.name() == *kind).collect();
        assert_eq!(lock.len(), 1, "{kind}");
        let (named, others): (Vec<_>, Vec<_>) = scenarios
            .iter()
            .cloned()
            .partition(|scenario| names(scenario, kind));
        are_as_expected(&lock, &named, 60);
        are_as_expected(&lock, &others, 20);
    }
}

fn are_as_expected(locks: &[&dyn Algorithm], scenarios: &[Scenario], count: u64) {
    let never = AtomicBool::new(false);
    let seeds = Seeds { from: 1_000, count };
    let matrix = play(locks, scenarios, seeds, &Event, &|| {}, &never);
    let named: Vec<_> = scenarios.iter().map(|s| (s, s.name.as_str())).collect();
    let checked = CheckedCell::all(&matrix, locks, &named);
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
