//! The same algorithm, scenario, seed and engine: the same bytes.

use std::sync::atomic::AtomicBool;

use fencepost::scenarios::matrix::{Seeds, play};
use fencepost::scenarios::{Run, builtin};
use fencepost::sim::engine::Event;
use fencepost::{algorithms, reports};

fn played(algorithm: &dyn algorithms::Algorithm, scenario: &str, seed: u64) -> Run {
    let scenario = fencepost::scenario(scenario).expect("a known name");
    fencepost::run(algorithm, &scenario, seed).expect("the testbed works")
}

#[test]
fn every_cell_plays_the_same_twice_also_in_another_thread_and_after_other_runs() {
    for scenario in builtin::all() {
        for algorithm in algorithms::ALL {
            if scenario
                .not_applicable(&algorithm.declares(), &Event)
                .is_some()
            {
                continue;
            }
            // Two hundred clients take their time; one lock of each shape is enough for them.
            let herd = scenario.clients > 10;
            if herd && !["tokened", "redlock"].contains(&algorithm.name()) {
                continue;
            }
            let first = played(*algorithm, &scenario.name, 3);
            let other = std::thread::scope(|scope| {
                let thread = scope.spawn(|| played(*algorithm, &scenario.name, 3));
                thread.join().expect("the thread ends")
            });
            let replay = format!(
                "fencepost run {} {} --seed 3 --verify",
                algorithm.name(),
                scenario.name
            );
            assert_eq!(first.history, other.history, "{replay}");
            assert_eq!(
                reports::run_json(&first),
                reports::run_json(&other),
                "{replay}"
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
