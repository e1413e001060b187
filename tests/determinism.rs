//! The same algorithm, scenario, seed and engine: the same bytes.

use std::hash::{Hash, Hasher};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use fencepost::algorithms::{self, Algorithm};
use fencepost::reports::{self, words};
use fencepost::scenarios::matrix::{Seeds, play};
use fencepost::scenarios::{self, Run, Scenario, builtin, verify};
use fencepost::sim::engine::{Engine, Event, Turmoil};
use rayon::prelude::*;

fn played(algorithm: &dyn algorithms::Algorithm, scenario: &str, seed: u64) -> Run {
    let scenario = fencepost::scenario(scenario).expect("a known name");
    fencepost::run(algorithm, &scenario, seed).expect("the testbed works")
}

/// Set in the process that plays everything for another one.
const FOR_ANOTHER: &str = "FENCEPOST_TEST_PLAYS_FOR_ANOTHER_PROCESS";

const TEST: &str = "every_cell_plays_the_same_in_two_threads_and_in_two_processes";

/// What is played, and played again.
struct Cell {
    engine: &'static dyn Engine,
    algorithm: &'static dyn Algorithm,
    scenario: Scenario,
    seed: u64,
}

impl Cell {
    fn replay(&self) -> String {
        let (algorithm, scenario) = (self.algorithm.name(), &self.scenario.name);
        let replay = words::replay(algorithm, scenario, self.seed, self.engine.name());
        replay + " --verify"
    }

    /// What becomes of it, in one line: everything that happened, and all that a report says.
    fn line(&self) -> String {
        let run = scenarios::run(self.algorithm, &self.scenario, self.seed, self.engine);
        let run = run.unwrap_or_else(|failed| panic!("{}: {failed}", self.replay()));
        // It has no key, and both processes are the same program.
        let mut report = std::hash::DefaultHasher::new();
        reports::run_json(&run).hash(&mut report);
        let (replay, report) = (self.replay(), report.finish());
        format!("{replay}: {} {report:016x}", run.history.fingerprint)
    }
}

/// turmoil is slow: on it, a lock of each shape is played, under troubles of several sorts.
const ON_TURMOIL: &[(&str, &str)] = &[
    ("renewing", "gc-pause"),
    ("renewing", "cut-off-holder"),
    ("fenced-claim", "redis-restart"),
    ("redlock", "redis-restart"),
];

/// Every algorithm under every scenario that applies to it.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for scenario in builtin::all() {
        for &algorithm in algorithms::ALL {
            let cell = |engine| Cell {
                engine,
                algorithm,
                scenario: scenario.clone(),
                seed: 3,
            };
            let declaration = algorithm.declares();
            if scenario.not_applicable(&declaration, &Event).is_none() {
                cells.push(cell(&Event));
            }
            if ON_TURMOIL.contains(&(algorithm.name(), &scenario.name)) {
                cells.push(cell(&Turmoil));
            }
        }
    }
    cells
}

fn lines(cells: &[Cell]) -> Vec<String> {
    cells.par_iter().map(Cell::line).collect()
}

#[test]
fn every_cell_plays_the_same_in_two_threads_and_in_two_processes() {
    let cells = cells();
    if std::env::var_os(FOR_ANOTHER).is_some() {
        println!("\n{}", lines(&cells).join("\n"));
        return;
    }
    let this = std::env::current_exe().expect("a test is a program");
    let other_process = Command::new(this)
        .args(["--exact", TEST, "--nocapture"])
        .env(FOR_ANOTHER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let in_a_pool = || {
        let pool = rayon::ThreadPoolBuilder::new().build().expect("threads");
        pool.install(|| lines(&cells))
    };
    let (here, other_thread) = (in_a_pool(), in_a_pool());
    let output = other_process.wait_with_output().expect("it ends");
    let output = String::from_utf8(output.stdout).expect("text");
    let there: Vec<_> = output
        .lines()
        .filter(|line| line.starts_with("fencepost run "))
        .collect();
    assert_eq!(
        there.len(),
        cells.len(),
        "the other process played all:\n{output}"
    );

    for (place, cell) in cells.iter().enumerate() {
        let replay = cell.replay();
        if here[place] != other_thread[place] {
            let first = verify(cell.algorithm, &cell.scenario, cell.seed, cell.engine).err();
            let first = first.map(|why| why.to_string());
            panic!("{replay}\nin another thread: {}", first.unwrap_or_default());
        }
        if here[place] != there[place] {
            // The command prints the first event that differs.
            let arguments = replay.split(' ').skip(1);
            let mut again = Command::new(env!("CARGO_BIN_EXE_fencepost"));
            let said = again.args(arguments).output().expect("it runs").stdout;
            let said = String::from_utf8_lossy(&said);
            panic!(
                "{}\nin another process: {}\n{said}",
                here[place], there[place]
            );
        }
    }
}

#[test]
fn two_algorithms_under_one_seed_meet_the_same_trouble() {
    for scenario in builtin::all()
        .into_iter()
        .filter(|scenario| scenario.clients < 10)
    {
        let plans: Vec<_> = algorithms::ALL
            .iter()
            .filter(|algorithm| algorithm.declares().service.servers() == 1)
            .filter(|algorithm| {
                scenario
                    .not_applicable(&algorithm.declares(), &Event)
                    .is_none()
            })
            .map(|algorithm| played(*algorithm, &scenario.name, 5).instance)
            .collect();
        for instance in &plans {
            assert_eq!(
                instance.setup.plan, plans[0].setup.plan,
                "{}",
                scenario.name
            );
            assert_eq!(instance.work, plans[0].work, "{}", scenario.name);
        }
    }
}

#[test]
fn another_seed_is_another_run() {
    let one = played(&algorithms::naive::Naive, "gc-pause", 1);
    let other = played(&algorithms::naive::Naive, "gc-pause", 2);
    assert_ne!(one.history, other.history);
}

#[test]
fn a_report_does_not_depend_on_threads() {
    let scenarios: Vec<_> = ["calm", "gc-pause", "redis-restart"]
        .map(|name| fencepost::scenario(name).expect("a known name"))
        .to_vec();
    let never = AtomicBool::new(false);
    let report = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads");
        let seeds = Seeds { from: 0, count: 20 };
        let matrix =
            pool.install(|| play(algorithms::ALL, &scenarios, seeds, &Event, &|| {}, &never));
        reports::report_json(&matrix, &scenarios, None)
    };
    assert_eq!(report(1), report(2));
}
