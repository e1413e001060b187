//! Every `[expect]` of every built-in scenario, held to its seeds.

use std::collections::BTreeSet;
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

/// How many seeds are played where something is expected of a lock by its name, or where it is the
/// first of its family of which nothing is: enough to insist on what must happen.
const MANY: u64 = 60;
/// And where it shares its family's expectation with that one: what must never be seen is looked for.
const FEW: u64 = 20;

#[test]
fn what_happens_is_what_the_scenarios_expect() {
    let scenarios = builtin::all();
    // By scenario and family.
    let mut represented = BTreeSet::new();
    for lock in algorithms::ALL {
        let family = lock.declares().family;
        let (many, few): (Vec<_>, Vec<_>) = scenarios.iter().cloned().partition(|scenario| {
            let is_named = scenario.expect.iter().any(|e| e.of == lock.name());
            let applies = scenario.not_applicable(&lock.declares(), &Event).is_none();
            is_named || applies && represented.insert((scenario.name.clone(), family))
        });
        are_as_expected(*lock, &many, MANY);
        are_as_expected(*lock, &few, FEW);
    }
}

fn are_as_expected(lock: &dyn Algorithm, scenarios: &[Scenario], count: u64) {
    let locks = &[lock];
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
