//! What must be told in a story.

use scenarios::scenario::{FaultKind, Role};

use super::*;
use crate::sample;

fn told(run: &Run, scenario: &Scenario) -> String {
    story(run, scenario, &StoryOptions::default())
}

#[test]
fn a_story_tells_the_fault_the_expiry_the_next_holder_and_the_violation() {
    let scenario = sample::gc_pause();
    let run = sample::breach("naive", &scenario, "double-write");
    let text = told(&run, &scenario);
    for part in [
        "client-1 gets lock:1 (grant 1)",
        "FAULT pause: client-1 stops for ",
        "client-1's lease on lock:1 expires",
        "keep asking",
        "VIOLATION double-write: ",
        "client-1 goes on",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_lock_whose_key_is_taken_away_is_told_as_such() {
    let node = Role::Lock;
    for (kind, struck, gone) in [
        (
            FaultKind::Flush { node },
            "FAULT flush: after client-1's read, somebody runs FLUSHALL on lock-1",
            "client-1's lease on lock:1 is gone with the FLUSHALL, and client-1 still believes",
        ),
        (
            FaultKind::Evict { node },
            "FAULT evict: after client-1's read, lock-1 evicts every key",
            "client-1's lease on lock:1 is evicted, and client-1 still believes",
        ),
    ] {
        let scenario = sample::after_read(kind);
        let text = told(&sample::run("naive", &scenario, 0), &scenario);
        assert!(text.contains(struck), "{struck} in\n{text}");
        assert!(text.contains(gone), "{gone} in\n{text}");
    }
}

#[test]
fn a_suspended_machine_is_told_and_shown_to_stand_still() {
    let (node, lasts) = (Role::Client(1), 40_000..=40_000);
    let scenario = sample::after_read(FaultKind::Suspend { node, lasts });
    let run = sample::run("naive", &scenario, 0);
    let text = told(&run, &scenario);
    for part in [
        "FAULT suspend: client-1 is suspended for 40 s, after its read",
        "client-1's lease on lock:1 expires",
        "client-1 goes on, after 40 s",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(crate::timeline::svg(&run, &scenario).contains("stands still"));
}

#[test]
fn a_servers_fast_clock_is_told_and_brings_the_end_of_the_lease_closer() {
    let (node, ppm) = (Role::Lock, 1_000_000..=1_000_000);
    let scenario = sample::after_read(FaultKind::ClockRate { node, ppm });
    let run = (0..20)
        .map(|seed| sample::run("naive", &scenario, seed))
        .find(|run| run.verdict.has("overlap"))
        .unwrap();
    let text = told(&run, &scenario);
    for part in [
        "FAULT clock-rate: after client-1's read, from now on the clocks of lock-1 run 100 % too",
        "client-1's lease on lock:1 expires, and client-1 still believes",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let picture = crate::timeline::svg(&run, &scenario);
    assert!(
        picture.contains("clock-rate: lock-1 100 % too fast"),
        "{picture}"
    );
}

#[test]
fn a_fault_whose_moment_never_comes_is_told() {
    let mut scenario = sample::after_read(FaultKind::Flush { node: Role::Lock });
    scenario.faults[0].when = scenarios::scenario::WhenRange::Point {
        client: 1,
        point: sim::fault::Point::AfterRead,
        nth: 99,
    };
    let text = told(&sample::run("naive", &scenario, 0), &scenario);
    let never =
        "Fault 1 (flush) never struck: client-1 did not reach after-read for the 99th time.";
    assert!(text.contains(never), "{text}");
}

#[test]
fn a_refused_write_is_told() {
    let scenario = sample::gc_pause();
    let refused = (0..200)
        .map(|seed| sample::run("fenced", &scenario, seed))
        .find(|run| run.facts().writes.iter().any(|write| !write.accepted));
    let text = told(&refused.unwrap(), &scenario);
    assert!(
        text.contains("the store REFUSES client-1's write"),
        "{text}"
    );
}

#[test]
fn a_run_without_a_violation_says_so() {
    let scenario = sample::calm();
    let text = told(&sample::run("tokened", &scenario, 0), &scenario);
    assert!(text.contains("Nothing was violated in this run."), "{text}");
}

#[test]
fn a_vacuous_run_says_what_it_never_reached() {
    let scenario = sample::calm();
    let mut run = sample::run("tokened", &scenario, 0);
    run.verdict.vacuous = true;
    let text = told(&run, &sample::gc_pause());
    assert!(
        text.contains("It never reached woke-after-lease: that client-1 stood still"),
        "{text}"
    );
}

#[test]
fn two_hundred_clients_do_not_make_a_long_story() {
    let scenario = sample::herd();
    let run = sample::run("naive", &scenario, 0);
    let text = told(&run, &scenario);
    assert!(text.lines().count() < 2 * LONG, "{text}");
}

#[test]
fn the_same_run_gives_the_same_story() {
    let scenario = sample::gc_pause();
    let once = told(&sample::run("redlock", &scenario, 3), &scenario);
    assert_eq!(once, told(&sample::run("redlock", &scenario, 3), &scenario));
}

#[test]
fn a_record_that_another_takes_is_told_as_taken_over() {
    let scenario = sample::gc_pause();
    let text = told(&sample::run("k8s-lease", &scenario, 0), &scenario);
    let part = "takes lock:1 over from client-1, whose lease it counts as over (grant 1)";
    assert!(text.contains(part), "{text}");
    assert!(!text.contains("expires"), "{text}");
}

#[test]
fn a_session_that_ends_is_told_and_shown_as_a_lease_that_expires() {
    let scenario = sample::gc_pause();
    for name in ["etcd", "zookeeper", "consul"] {
        let run = sample::run(name, &scenario, 0);
        let text = told(&run, &scenario);
        assert!(
            text.contains("client-1's lease on lock:1 expires"),
            "{text}"
        );
        let picture = crate::timeline::svg(&run, &scenario);
        assert!(
            picture.contains("is client-1&apos;s (grant 1)"),
            "{name}: {picture}"
        );
    }
}

#[test]
fn a_refused_write_says_which_condition_was_not_met() {
    let said = |name: &str, scenario: &Scenario, part: &str| {
        let told = |seed| told(&sample::run(name, scenario, seed), scenario);
        let all: Vec<String> = (0..20).map(told).collect();
        assert!(
            all.iter().any(|text| text.contains(part)),
            "{part} in\n{}",
            all[0]
        );
    };
    let pause = sample::gc_pause();
    said(
        "fenced",
        &pause,
        "under grant 1: its fence 1 is not newer than the 2 that the row has",
    );
    said(
        "conditional-update",
        &pause,
        ": it has read version 0, and the row has version 1 by now",
    );
    said(
        "unique-key",
        &pause,
        "the store REFUSES client-1's insert of row 1: there is one",
    );
    said(
        "idempotent-outbox",
        &pause,
        "client-1's mark that row 1 is done: there is one already",
    );
    let rush = sample::built_in("seckill-rush");
    said(
        "conditional-update",
        &rush,
        ": it needs at least 1, and the row has 0 left",
    );
    let dies = sample::built_in("slow-work");
    let mut queue = dies.clone();
    queue.work = &scenarios::work::Queue;
    said("pg-claim", &queue, ": the row is not taken by it any more");
}

#[test]
fn a_mark_is_told_as_a_mark_and_an_insert_alone_as_an_insert() {
    let scenario = sample::gc_pause();
    let text = told(&sample::run("idempotent-outbox", &scenario, 0), &scenario);
    assert!(
        text.contains("accepts client-3's mark that row 1 is done\n"),
        "{text}"
    );
    assert_eq!(
        text.matches("accepts client-3's write to row 1").count(),
        1,
        "{text}"
    );
    let text = told(&sample::run("unique-key", &scenario, 0), &scenario);
    assert!(text.contains("insert of row 1 (value "), "{text}");
    assert!(!text.contains("mark that"), "{text}");
}

#[test]
fn what_there_is_nothing_left_of_is_not_called_done() {
    let rush = sample::built_in("seckill-rush");
    let text = told(&sample::run("conditional-update", &rush, 0), &rush);
    assert!(
        text.contains("finds row 1 sold out, and writes nothing"),
        "{text}"
    );
    assert!(!text.contains("done already"), "{text}");
    let reads = sample::built_in("paused-reader");
    let text = told(&sample::run("redisson-rw", &reads, 0), &reads);
    assert!(text.contains(" twice, and writes nothing"), "{text}");
    assert!(!text.contains("done already"), "{text}");
    let limit = sample::built_in("limiter-restart");
    let run = sample::run("redis-counter", &limit, 0);
    let options = StoryOptions {
        whole: true,
        ..StoryOptions::default()
    };
    let text = story(&run, &limit, &options);
    assert!(
        text.contains("is done with its request for row 1"),
        "{text}"
    );
    assert!(
        text.contains("finds row 1 used up, and writes nothing"),
        "{text}"
    );
}

#[test]
fn a_counter_that_does_not_answer_is_not_called_the_store_and_is_asked_again_after_a_while() {
    let limit = sample::built_in("limiter-restart");
    for seed in 0..20 {
        let run = sample::run("redis-counter", &limit, seed);
        let text = told(&run, &limit);
        assert!(!text.contains("the store did not answer"), "{text}");
        let denied = |event: &&sim::history::Event| {
            matches!(event.what, sim::history::What::Denied { held: false, .. })
        };
        let denied = run.history.events.iter().filter(denied).count();
        // Down for a second at the most, and each of three clients waits 200 ms or more.
        assert!(denied <= 15, "{denied} attempts in\n{text}");
        assert_eq!(
            denied > 0,
            text.contains("gets no answer from Redis: its request may")
        );
        assert!(!text.contains("lock:1"), "{text}");
    }
}

#[test]
fn a_session_that_the_store_drops_is_told_with_its_reason() {
    let scenario = sample::built_in("idle-in-pool");
    let text = told(&sample::run("pg-session", &scenario, 0), &scenario);
    let part = "the store drops the session of client-1: it said nothing for 10 s\n   10.014 s  the \
                database frees lock:1";
    assert!(text.contains(part), "{text}");
}

#[test]
fn a_run_that_ends_before_anybody_gets_the_lock_says_so_and_for_how_long() {
    let scenario = sample::crashed_holder();
    let text = told(&sample::breach("setnx", &scenario, "stuck"), &scenario);
    assert!(text.contains(" s, until the run ended\n"), "{text}");
}

#[test]
fn a_long_story_tells_the_first_violations_of_an_invariant_and_a_whole_one_all() {
    let scenario = sample::built_in("reader-starves-writer");
    let run = sample::run("local-mutex", &scenario, 0);
    let overlaps = |text: &str| text.matches("VIOLATION overlap: ").count();
    let all = run.verdict.violations.iter();
    let all = all
        .filter(|violation| violation.invariant == "overlap")
        .count();
    let short = told(&run, &scenario);
    assert!((ALIKE..all).contains(&overlaps(&short)), "{short}");
    assert!(short.lines().count() < 250, "{short}");
    let options = StoryOptions {
        whole: true,
        ..StoryOptions::default()
    };
    assert_eq!(overlaps(&story(&run, &scenario, &options)), all);
}
