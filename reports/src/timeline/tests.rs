//! What must be seen in a picture.

use scenarios::scenario::{FaultKind, Role};
use sim::fault::Data;

use super::*;
use crate::sample;

#[test]
fn the_worst_violation_is_told_in_words_and_the_wrong_belief_is_shown() {
    let scenario = sample::gc_pause();
    let run = sample::breach("naive", &scenario, "double-write");
    let picture = svg(&run, &scenario);
    let worst = &run.verdict.violations[0];
    for part in [
        &format!("VIOLATION  {}  at {}", worst.invariant, clock(worst.at)),
        worst.why.as_str(),
        "still believes",
        "stands still",
        "pause: client-1 for ",
        "holds lock:1 (grant 1)",
        "The holder stops for longer than its lease",
    ] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
}

#[test]
fn a_refused_write_is_labelled_with_its_fence() {
    let scenario = sample::gc_pause();
    let run = (0..200)
        .map(|seed| sample::run("fenced", &scenario, seed))
        .find(|run| run.facts().writes.iter().any(|write| !write.accepted))
        .unwrap();
    let picture = svg(&run, &scenario);
    assert!(
        picture.contains("refused: client-1 row 1, fence 1"),
        "{picture}"
    );
}

#[test]
fn every_server_has_a_lane() {
    let scenario = sample::redis_restart();
    let picture = svg(&sample::run("redlock", &scenario, 0), &scenario);
    for server in 1..=5 {
        assert!(picture.contains(&format!("lock-{server}")), "{picture}");
    }
}

#[test]
fn who_is_left_out_is_counted() {
    let scenario = sample::herd();
    let picture = svg(&sample::run("naive", &scenario, 0), &scenario);
    assert!(
        picture.contains("194 more clients are not shown"),
        "{picture}"
    );
    assert!(picture.contains("nothing was violated"), "{picture}");
}

#[test]
fn a_lock_that_nobody_gets_any_more_is_shown_to_the_point_where_that_is_clear() {
    let scenario = sample::crashed_holder();
    let run = sample::breach("setnx", &scenario, "stuck");
    let facts = run.facts();
    let window = window::of(&run, &facts);
    assert!(window.until > run.verdict.violations[0].at);
    assert!(window.until < run.history.ended);
    assert!(svg(&run, &scenario).contains("dies"));
}

#[test]
fn the_same_run_gives_the_same_picture_in_both_formats() {
    let scenario = sample::gc_pause();
    let once = svg(&sample::run("renewing", &scenario, 1), &scenario);
    let again = svg(&sample::run("renewing", &scenario, 1), &scenario);
    assert_eq!(once, again);
    let pixels = png(&once, 600).unwrap();
    assert!(pixels.starts_with(b"\x89PNG"));
    assert_eq!(pixels, png(&again, 600).unwrap());
}

#[test]
fn what_is_no_svg_is_refused_with_a_reason() {
    let error = png("<svg", 600).unwrap_err().to_string();
    assert!(
        error.starts_with("failed to render the picture: "),
        "{error}"
    );
}

#[test]
fn a_lock_that_the_store_keeps_has_a_lane_with_its_grants() {
    for (name, under) in [
        ("pg-session", "idle-in-pool"),
        ("pg-xact", "gc-pause"),
        ("pg-lease", "gc-pause"),
        ("pg-queue", "worker-dies-mid-job"),
        ("pg-claim", "worker-dies-mid-job"),
    ] {
        let scenario = sample::built_in(under);
        let picture = svg(&sample::run(name, &scenario, 0), &scenario);
        assert!(picture.contains("store&apos;s locks"), "{name}: {picture}");
        assert!(picture.contains("&apos;s (grant "), "{name}: {picture}");
    }
    let scenario = sample::gc_pause();
    let picture = svg(&sample::run("fenced", &scenario, 0), &scenario);
    assert!(!picture.contains("store&apos;s locks"), "{picture}");
}

/// How many rows each lane of what keeps the locks has.
fn rows(name: &str, under: &str) -> Vec<usize> {
    let scenario = sample::built_in(under);
    let run = sample::run(name, &scenario, 0);
    let facts = run.facts();
    let window = window::of(&run, &facts);
    let picture = Picture {
        run: &run,
        facts: &facts,
        window: &window,
    };
    picture
        .keepers()
        .iter()
        .map(servers::Keeper::rows)
        .collect()
}

#[test]
fn whoever_holds_a_key_at_the_same_time_has_a_row_of_its_own() {
    // The pooler lends all three clients one session, to which the lock is its own.
    assert_eq!(rows("pg-pooled", "idle-in-pool"), [3]);
    assert_eq!(rows("pg-session", "idle-in-pool"), [1]);
    // Readers hold the key together.
    assert_eq!(rows("redisson-rw", "reader-starves-writer"), [5]);
    // Five rows at the most. The rest is counted: three of eight, and the first one's next grant.
    let mut many = sample::built_in("idle-in-pool");
    many.clients = 8;
    let picture = svg(&sample::run("pg-pooled", &many, 0), &many);
    assert!(
        picture.contains("4 more at the same times are not shown"),
        "{picture}"
    );
}

#[test]
fn a_session_that_the_store_drops_is_shown_where_it_drops_it() {
    let scenario = sample::built_in("idle-in-pool");
    let run = sample::run("pg-session", &scenario, 0);
    let picture = svg(&run, &scenario);
    assert!(
        picture.contains("session of client-2 dropped: idle"),
        "{picture}"
    );
    assert!(
        picture.contains("session dropped by the store"),
        "{picture}"
    );
}

#[test]
fn the_master_is_named_from_its_promotion_and_a_dead_server_covered() {
    let scenario = sample::built_in("failover-before-replication");
    let run = sample::breach("sentinel", &scenario, "overlap");
    let picture = svg(&run, &scenario);
    for part in [
        ">\nmaster\n<",
        ">\nreplica of lock-1\n<",
        ">\nreplica of lock-2\n<",
        ">\ndown to the end of the run\n<",
        "is the master",
        "the process is down",
        "touched by a fault",
    ] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
}

#[test]
fn a_server_that_comes_back_was_down_until_then() {
    let (node, after, data) = (Role::Lock, 10_000..=10_000, Data::Kept);
    let scenario = sample::after_read(FaultKind::Restart { node, after, data });
    let picture = svg(&sample::run("naive", &scenario, 0), &scenario);
    for part in [
        "down for 10 s",
        "restart: lock-1, back after 10 s with its data",
    ] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
}

#[test]
fn times_are_split_where_a_node_was_down() {
    let scenario = sample::redis_restart();
    let run = sample::run("naive", &scenario, 0);
    let facts = run.facts();
    let window = window::of(&run, &facts);
    let picture = Picture {
        run: &run,
        facts: &facts,
        window: &window,
    };
    let server = NodeId::Lock(1);
    let [(from, Some(until))] = picture.down(server)[..] else {
        panic!("{:?}", picture.down(server));
    };
    let all = picture.up_within(server, 0, None);
    assert_eq!(all, [(0, Some(from)), (until, None)]);
    assert_eq!(picture.up_within(server, from, Some(until)), []);
    assert_eq!(
        picture.up_within(server, until, Some(until + 1)),
        [(until, Some(until + 1))]
    );
    assert!(picture.is_down(server, from) && !picture.is_down(server, until));
}

#[test]
fn a_fence_of_the_store_is_shown_where_it_was_drawn_if_a_lease_carries_it() {
    let scenario = sample::gc_pause();
    let run = sample::run("fenced-sequence", &scenario, 0);
    let picture = svg(&run, &scenario);
    assert!(picture.contains("draws fence 1"), "{picture}");
    // Whoever is denied has drawn one, too, and it is nobody's.
    let drawn = |event: &sim::history::Event| matches!(event.what, What::Drawn { .. });
    let all = run
        .history
        .events
        .iter()
        .filter(|event| drawn(event))
        .count();
    let leases = run.facts().beliefs.len();
    assert!(all > leases, "{all} drawn for {leases} leases");
    assert!(picture.matches("draws fence").count() <= leases);
}

#[test]
fn a_mark_is_no_second_write() {
    let scenario = sample::gc_pause();
    let run = sample::run("idempotent-outbox", &scenario, 0);
    let picture = svg(&run, &scenario);
    assert!(picture.contains("client-3 mark 1"), "{picture}");
    assert_eq!(picture.matches("client-3 row 1").count(), 1, "{picture}");
}

#[test]
fn a_side_that_is_cut_off_from_several_nodes_at_once_is_one_fault() {
    let scenario = sample::built_in("isolated-master");
    let run = sample::breach("sentinel", &scenario, "overlap");
    let planned = run.instance.setup.plan.0.len();
    let picture = svg(&run, &scenario);
    let drawn = picture.matches("hold: nothing passes between").count();
    assert_eq!((planned, drawn), (7, 2), "{picture}");
}

#[test]
fn without_a_lock_nobody_waits_and_a_counter_is_shown_with_its_value() {
    let scenario = sample::built_in("limiter-restart");
    let run = sample::breach("redis-counter", &scenario, "over-limit");
    let picture = svg(&run, &scenario);
    for part in [
        "works, without a lock",
        "acts on the world outside",
        "limit:1 is ",
        "down",
    ] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
    assert!(!picture.contains("believes that it holds"), "{picture}");
}

#[test]
fn of_many_clients_only_those_who_take_part_have_lanes() {
    let scenario = sample::built_in("herd");
    let run = sample::breach("pg-pooled", &scenario, "overlap");
    let facts = run.facts();
    let window = window::of(&run, &facts);
    for client in &window.clients {
        let client = NodeId::Client(*client);
        let takes_part = facts.sections.iter().any(|section| {
            let over = section.until.unwrap_or(run.history.ended);
            section.client == client && section.from <= window.until && over >= window.from
        });
        assert!(takes_part, "{client} in {window:?}");
    }
}

#[test]
fn a_record_that_another_one_takes_over_has_not_expired() {
    let scenario = sample::gc_pause();
    let picture = |name| svg(&sample::run(name, &scenario, 0), &scenario);
    assert!(!picture("k8s-lease").contains("the key expires"));
    assert!(picture("etcd").contains("the key expires"));
}

#[test]
fn a_server_that_stands_still_is_shown_to_do_so() {
    let (node, lasts) = (Role::Lock, 10_000..=10_000);
    let mut scenario = sample::calm();
    let plain = svg(&sample::run("naive", &scenario, 0), &scenario);
    scenario.faults = sample::after_read(FaultKind::Pause { node, lasts }).faults;
    let picture = svg(&sample::run("naive", &scenario, 0), &scenario);
    // The strip, and the one of the legend.
    let dark = |picture: &str| picture.matches("fill=\"#222222\" stroke=\"none\"").count();
    assert!(dark(&picture) >= dark(&plain) + 2, "{picture}");
    assert!(picture.contains("the process stands still"), "{picture}");
}
