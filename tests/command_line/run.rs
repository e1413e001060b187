//! `fencepost run`.

use assert_cmd::Command;
use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::{
    BINARY, built_in, directory, expecting, in_a_shell, printed, replay_line, text, verdict,
};

#[test]
fn a_run_without_a_seed_shows_the_first_that_violates_and_how_to_see_it_again() {
    let story = printed(&["run", "naive", "gc-pause"]);
    assert!(
        story.contains("is the first one under which something is violated"),
        "{story}"
    );
    assert!(verdict(&story).contains("double-write"), "{story}");
    let again = in_a_shell(replay_line(&story));
    assert!(
        story.starts_with(&again),
        "the replay tells another story:\n{story}\n{again}"
    );
}

#[test]
fn a_run_of_a_safe_lock_says_that_nothing_was_violated_and_ends_with_0() {
    let story = printed(&["run", "tokened", "calm", "--seed", "3"]);
    assert!(story.starts_with("tokened under calm, seed 3: "), "{story}");
    assert!(
        story.contains("Nothing was violated in this run."),
        "{story}"
    );
}

#[test]
fn the_search_for_a_violation_keeps_the_cap_of_a_costly_scenario() {
    let story = printed(&[
        "run",
        "tokened",
        "herd",
        "--set",
        "seeds=2",
        "--set",
        "clients=9",
    ]);
    assert!(story.contains("under any of the seeds 0 to 1"), "{story}");
}

#[test]
fn a_replay_line_repeats_what_was_set_and_gives_the_same_verdict() {
    let directory = directory();
    let file = expecting(&directory, "gc-pause", "my-scenario");
    for (scenario, set) in [
        ("gc-pause", vec!["ttl=20s", "fault.lasts=25s..30s"]),
        ("slow-work", vec!["ttl=12s", "work.items=2"]),
        (
            text(&file),
            vec!["client.retry=1s..2s", "title=It's a 'title'"],
        ),
    ] {
        let mut arguments = vec!["run", "naive", scenario, "--seed", "5"];
        arguments.extend(set.iter().flat_map(|set| ["--set", set]));
        let story = printed(&arguments);
        let again = in_a_shell(replay_line(&story));
        assert_eq!(story, again, "{}", replay_line(&story));
    }
}

#[test]
fn what_is_set_changes_the_run() {
    let short = printed(&[
        "run",
        "tokened",
        "gc-pause",
        "--seed",
        "1",
        "--set",
        "fault.lasts=1ms",
    ]);
    assert!(short.contains("VACUOUS"), "{short}");
    assert!(
        short.contains("It never reached woke-after-lease"),
        "{short}"
    );
}

#[test]
fn a_run_that_is_verified_says_so() {
    let calm = ["run", "redlock", "calm", "--seed", "2", "--verify"];
    for engine in ["event", "turmoil"] {
        let story = printed(&[&calm[..], &["--engine", engine]].concat());
        let verified = story.lines().find(|line| line.starts_with("verified: "));
        let verified = verified.unwrap_or_else(|| panic!("{story}"));
        let (events, rest) = verified.split_once(" events ").unwrap();
        let events = events.strip_prefix("verified: the same ").unwrap();
        assert!(events.parse::<u64>().unwrap() > 100, "{verified}");
        let (places, fingerprint) = rest.split_once(" (fingerprint ").unwrap();
        assert_eq!(places, "in another thread and in another process");
        let fingerprint = fingerprint.strip_suffix(')').unwrap();
        assert!(u64::from_str_radix(fingerprint, 16).is_ok(), "{verified}");
    }
}

/// The built-in locks come out the same, so here it is the scenario that changes: the other
/// process reads another file than the first one did.
#[cfg(unix)]
#[test]
fn a_run_that_does_not_come_out_the_same_names_the_first_event_and_ends_with_3() {
    use std::io::Write;
    let directory = directory();
    let slower = expecting(
        &directory,
        "latency = \"1ms..5ms\"",
        "latency = \"7ms..9ms\"",
    );
    let path = directory.path().join("changing.toml");
    Command::new("mkfifo").arg(&path).assert().success();
    let child = std::process::Command::new(BINARY)
        .args(["run", "naive", text(&path), "--seed", "1", "--verify"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // This waits until the file is being read, and it is read to its end.
    let mut first = fs::OpenOptions::new().write(true).open(&path).unwrap();
    fs::rename(&slower, &path).unwrap();
    first
        .write_all(&fs::read(built_in("gc-pause")).unwrap())
        .unwrap();
    drop(first);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let story = String::from_utf8(output.stdout).unwrap();
    let (_, said) = story
        .split_once("NOT REPRODUCED in another process: event ")
        .unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].ends_with(" differs"), "{story}");
    assert!(lines[1].starts_with("  here:  "), "{story}");
    assert!(lines[2].starts_with("  in another process:  "), "{story}");
    for line in &lines[1..3] {
        let (_, event) = line.split_once(":  ").unwrap();
        assert!(event.trim_start().starts_with("0.00"), "{story}");
        assert!(
            event.contains(" s, ") && event.contains(": arrived from "),
            "{story}"
        );
    }
    assert!(!story.contains("in another thread"), "{story}");
    assert!(!story.contains("verified"), "{story}");
}

#[test]
fn a_whole_story_leaves_nothing_out() {
    let arguments = ["run", "naive", "gc-pause", "--seed", "0", "--whole"];
    let whole = printed(&arguments);
    assert!(!whole.contains("more like these"), "{whole}");
    assert!(whole.len() >= printed(&arguments[..5]).len());
}

#[test]
fn the_files_of_a_run_are_a_history_and_a_picture() {
    let directory = directory();
    let [json, svg, png] =
        ["run.json", "run.svg", "run.PNG"].map(|name| directory.path().join(name));
    let run = ["run", "naive", "gc-pause", "--seed", "0"];
    let with = |flags: &[&str]| printed(&[&run[..], flags].concat());
    let story = with(&["--json", text(&json), "--plot", text(&svg)]);
    with(&["--plot", text(&png)]);

    let json: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(json["schema"], "fencepost.run/1");
    assert_eq!(json["algorithm"], "naive");
    assert_eq!(json["scenario"], "gc-pause");
    assert_eq!(json["seed"], 0);
    for list in ["events", "grants", "beliefs"] {
        assert!(!json[list].as_array().unwrap().is_empty(), "{list}");
    }
    let violations = json["verdict"]["violations"].as_array().unwrap().iter();
    let violations = violations.map(|v| v["invariant"].as_str().unwrap().to_owned());
    assert_eq!(violations.collect::<BTreeSet<_>>(), verdict(&story));

    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("client-1"));
    assert!(fs::read(png).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
}

#[test]
fn files_are_written_even_if_nobody_reads_the_story() {
    let directory = directory();
    let json = directory.path().join("run.json");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = std::process::Command::new(BINARY)
        .args([
            "run",
            "naive",
            "gc-pause",
            "--seed",
            "0",
            "--json",
            text(&json),
        ])
        .stdout(writer)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    assert!(json.exists());
}
