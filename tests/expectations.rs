//! Every `[expect]` of every built-in scenario, held to its seeds.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use fencepost::algorithms::{self, Algorithm};
use fencepost::reports::style::Colour;
use fencepost::reports::{CheckedCell, check_text};
use fencepost::scenarios::matrix::{Cell, Checked, Difference, Seeds, play};
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

/// How many seeds are played where something must happen, by the lock's name or as the first of its
/// family: enough to insist on it.
const MANY: u64 = 56;
/// And everywhere else, where what must never be seen is looked for. `fencepost check` plays more.
const FEW: u64 = 8;
/// Runs of these take many times as long as others'.
const COSTLY: &[&str] = &["power-loss-everysec", "reader-starves-writer"];

#[test]
fn what_happens_is_what_the_scenarios_expect() {
    let scenarios = builtin::all();
    // By scenario and family.
    let mut represented = BTreeSet::new();
    for lock in algorithms::ALL {
        let declaration = lock.declares();
        let (many, few): (Vec<_>, Vec<_>) = scenarios.iter().cloned().partition(|scenario| {
            let expected = scenario.expectation(lock.name(), &declaration);
            let insists = expected.is_some_and(|e| !e.must.is_empty());
            let is_named = expected.is_some_and(|e| e.of == lock.name());
            let applies = scenario.not_applicable(&declaration, &Event).is_none();
            let family = (scenario.name.clone(), declaration.family);
            insists
                && !COSTLY.contains(&scenario.name.as_str())
                && (is_named || applies && represented.insert(family))
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
    let is_seldom =
        |cell: &Cell| SELDOM.contains(&(cell.algorithm.as_str(), cell.scenario.as_str()));
    // A lock that nothing is expected of, or a scenario that no run reaches, is a gap too. Few seeds of
    // what is seldom reached may all miss it.
    let wrong = |checked: &&CheckedCell<'_>| match &checked.checked {
        Checked::Differs(differences) => {
            count == MANY || !is_seldom(checked.cell) || *differences != [Difference::AllVacuous]
        }
        Checked::NotExpected => true,
        _ => false,
    };
    let text = check_text(&checked, Colour::Never);
    assert_eq!(checked.iter().filter(wrong).count(), 0, "{text}");
    for cell in &matrix.cells {
        let enough = is_seldom(cell)
            || cell.not_applicable.is_some()
            || count == FEW
            || cell.runs * 2 >= cell.seeds;
        assert!(
            enough,
            "{} under {} is mostly vacuous",
            cell.algorithm, cell.scenario
        );
    }
}
