//! The example of a lock that calls tokio itself shows what it says.

#[path = "../examples/tokio_lock.rs"]
#[allow(dead_code, reason = "`main` is for `cargo run`")]
mod tokio_lock;

use fencepost::scenarios::{run, verify};
use fencepost::sim::engine::{Event, Turmoil};
use fencepost::sim::history::What;
use tokio_lock::{TokioLock, report};

#[test]
fn its_watchdog_outlasts_slow_work_and_does_not_survive_a_pause() {
    let text = report();
    for seed in 0..4 {
        let line = format!("slow-work, seed {seed}: nothing violated");
        assert!(text.contains(&line), "{line} in\n{text}");
    }
    let paused: Vec<_> = text.lines().filter(|line| line.starts_with("gc")).collect();
    assert!(
        paused.iter().all(|line| line.contains("overlap")),
        "a holder that stands still beyond its lease renews nothing:\n{text}"
    );
    assert!(
        paused.iter().any(|line| line.contains("double-write")),
        "{text}"
    );
}

#[test]
fn its_task_renews_at_a_third_of_the_ttl_and_no_byte_leaves_in_a_pause() {
    let scenario = fencepost::scenario("gc-pause").expect("it is built in");
    let run = run(&TokioLock, &scenario, 0, &Turmoil).expect("the testbed does not fail");
    let events = &run.history.events;
    let paused = |what: &What| matches!(what, What::Paused { .. });
    let fell_asleep = events.iter().position(|event| paused(&event.what));
    let fell_asleep = fell_asleep.expect("client-1 is paused");
    let stopped = events[fell_asleep].node;
    let awake = events[fell_asleep..]
        .iter()
        .position(|event| event.node == stopped && event.what == What::Resumed);
    let awake = fell_asleep + awake.expect("and goes on");
    let executed = |events: &[fencepost::sim::history::Event]| {
        let by_it = |what: &What| matches!(what, What::Executed { by, .. } if *by == stopped);
        events.iter().filter(|event| by_it(&event.what)).count()
    };
    // What had left it before it stopped may still arrive, within the latency.
    let latest = events[fell_asleep].at + 5;
    let silent = events.partition_point(|event| event.at <= latest);
    assert_eq!(executed(&events[silent..awake]), 0);
    assert!(executed(&events[awake..]) > 0);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let scenario = fencepost::scenario("slow-work").expect("it is built in");
    let play = || run(&TokioLock, &scenario, 1, &Turmoil).expect("the testbed does not fail");
    assert_eq!(play().history, play().history);
}

#[test]
fn on_the_event_engine_it_fails_and_is_told_where_it_can_run() {
    let scenario = fencepost::scenario("slow-work").expect("it is built in");
    let failed = run(&TokioLock, &scenario, 0, &Event).expect_err("there is no tokio");
    assert!(failed.panic.contains("turmoil engine"), "{failed}");
}

#[test]
fn it_plays_the_same_again() {
    let scenario = fencepost::scenario("gc-pause").expect("it is built in");
    let verified = verify(&TokioLock, &scenario, 0, &Turmoil);
    assert!(verified.is_ok_and(|verified| verified.events() > 1_000));
}
