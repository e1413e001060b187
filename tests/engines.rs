//! The second opinion: every scenario that stock turmoil can play, with a lock of each sort, and the
//! everyday ones with three seeds, against what the scenarios expect. `docs/second-opinion.md` has the
//! figures of many seeds.

use std::sync::atomic::AtomicBool;

use fencepost::algorithms::{self, Algorithm};
use fencepost::reports::style::Colour;
use fencepost::reports::{CheckedCell, check_text};
use fencepost::scenarios::matrix::{Checked, Difference, Seeds, play};
use fencepost::scenarios::{Scenario, builtin};
use fencepost::sim::engine::Turmoil;

/// A lock of each sort: by what it lives on, and by what its holder does. turmoil takes about half a
/// second for a run.
const SORTS: &[&str] = &["redisson-rw", "etcd", "sentinel-wait", "pg-xact"];

/// The everyday locks, and what happens to them. The engines are compared seed by seed on these in
/// `docs/second-opinion.md`, so they are played more often.
const EVERYDAY: &[&str] = &[
    "local-mutex",
    "setnx",
    "setnx-expire",
    "naive",
    "tokened",
    "renewing",
    "renewing-deaf",
    "fenced",
    "fenced-claim",
    "redlock",
    "redlock-unchecked",
];
const INCIDENTS: &[&str] = &[
    "calm",
    "slow-work",
    "gc-pause",
    "pause-after-check",
    "delayed-write",
    "crashed-holder",
    "crash-between",
    "cut-off-holder",
    "server-clock-step",
    "server-clock-back",
    "lost-acquire-reply",
    "late-acquire-replies",
    "replayed-release",
    "redis-restart",
];

fn named(names: &[&str]) -> Vec<&'static dyn Algorithm> {
    let mut locks = algorithms::ALL.to_vec();
    locks.retain(|lock| names.contains(&lock.name()));
    assert_eq!(locks.len(), names.len());
    locks
}

/// Plays cells on turmoil, and says how many were played. None may show what is not expected.
fn agrees(locks: &[&dyn Algorithm], scenarios: &[Scenario], seeds: Seeds) -> usize {
    let never = AtomicBool::new(false);
    let matrix = play(locks, scenarios, seeds, &Turmoil, &|| {}, &never);
    let named: Vec<_> = scenarios.iter().map(|s| (s, s.name.as_str())).collect();
    let checked = CheckedCell::all(&matrix, locks, &named);
    for CheckedCell { cell, scenario, .. } in &checked {
        let too_many = cell.not_applicable.as_deref();
        let is_herd = scenario.clients == 200;
        // Work that it cannot do is another reason, and comes first.
        if too_many.is_some_and(|reason| reason.starts_with("it cannot do the work")) {
            continue;
        }
        assert_eq!(
            too_many == Some("the turmoil engine plays at most 50 clients"),
            is_herd,
            "{} under {}: {too_many:?}",
            cell.algorithm,
            cell.scenario
        );
    }
    // Few runs may never reach what their scenario is about.
    let tells = |difference: &Difference| *difference != Difference::AllVacuous;
    let wrong = |cell: &&CheckedCell<'_>| match &cell.checked {
        Checked::Differs(differences) => differences.iter().any(tells),
        _ => false,
    };
    let text = check_text(&checked, Colour::Never);
    assert_eq!(checked.iter().filter(wrong).count(), 0, "{text}");
    matrix.cells.iter().filter(|cell| cell.runs > 0).count()
}

#[test]
fn turmoil_sees_nothing_that_the_other_scenarios_do_not_expect() {
    let seeds = Seeds { from: 0, count: 1 };
    let mut scenarios = builtin::all();
    scenarios.retain(|scenario| !INCIDENTS.contains(&scenario.name.as_str()));
    let played = agrees(&named(SORTS), &scenarios, seeds);
    assert!(played >= 60, "{played} cells were played");
}

#[test]
fn turmoil_sees_the_everyday_incidents_as_the_event_engine_does() {
    let mut scenarios = builtin::all();
    scenarios.retain(|scenario| INCIDENTS.contains(&scenario.name.as_str()));
    assert_eq!(scenarios.len(), INCIDENTS.len());
    let seeds = Seeds { from: 1, count: 3 };
    let played = agrees(&named(EVERYDAY), &scenarios, seeds);
    assert!(played >= 130, "{played} cells were played");
}

#[test]
fn an_answer_that_waited_for_a_frozen_client_beats_its_time_out() {
    // Under these seeds client-1 was about to run when it froze, and does so first when it goes on:
    // before those of its tasks that read the answers.
    let lock = algorithms::redlock::Redlock {
        reckoning: algorithms::redlock::Reckoning::Absent,
    };
    let scenario = fencepost::scenario("late-acquire-replies").expect("a known name");
    for seed in [0, 16] {
        let run = fencepost::scenarios::run::run(&lock, &scenario, seed, &Turmoil);
        let run = run.expect("the testbed works");
        let replay = "redlock-unchecked late-acquire-replies --engine turmoil --seed";
        assert!(run.verdict.has("overlap"), "fencepost run {replay} {seed}");
    }
}
