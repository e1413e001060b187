//! The example of a lock of one's own shows what it says.

#[path = "../examples/own_lock.rs"]
#[allow(dead_code, reason = "`main` is for `cargo run`")]
mod own_lock;

use own_lock::{OwnLock, report};

#[test]
fn a_lock_of_ones_own_is_broken_by_a_pause_and_the_story_says_how() {
    let text = report();
    for seed in 0..10 {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("seed {seed}: ")))
            .unwrap_or_else(|| panic!("no line for seed {seed} in\n{text}"));
        assert!(line.contains("overlap"), "{line}");
    }
    for part in [
        "own-lock under gc-pause, seed ",
        "client-1 gets lock:1 (grant 1)",
        "FAULT pause: client-1 stops for ",
        "VIOLATION double-write: ",
        "invariants were violated, the worst first",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(
        !text.contains("wrong-release"),
        "the GET keeps the sleeper from deleting its successor's lock:\n{text}"
    );
}

/// Three seconds pass on the way back from a GET, and the lease ends meanwhile.
const BETWEEN_GET_AND_DEL: &str = r#"
name = "between-get-and-del"
title = "The answer to the GET is on its way while the lease ends"
story = "The network holds the holder's answers back until somebody else has the lock."

[world]
clients = 2
latency = "5ms"
ends = "60s"

[client]
retry = "50ms"
redis_timeout = "5s"
store_timeout = "5s"

[lock]
ttl = "2s"

[work]
kind = "counter"
keys = 1
items = 4
takes = "1900ms..1990ms"

[[fault]]
kind = "hold"
between = ["client-1", "lock"]
when = { client = "client-1", point = "before-release" }
lasts = "3s"
"#;

#[test]
fn a_get_before_the_del_does_not_keep_a_late_del_from_another_lock() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("between.toml");
    std::fs::write(&file, BETWEEN_GET_AND_DEL).unwrap();
    let scenario = fencepost::scenario_file(&file).unwrap();
    let runs = (0..20).map(|seed| fencepost::run(&OwnLock, &scenario, seed).unwrap());
    let breached: Vec<_> = runs.map(|run| run.verdict.breached()).collect();
    assert!(
        breached
            .iter()
            .any(|names| names.contains(&"wrong-release")),
        "{breached:?}"
    );
}
