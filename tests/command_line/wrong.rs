//! What is wrong is said: names, usage, files.

use std::fs;
use std::path::Path;

use predicates::str::contains;

use crate::{directory, expecting, fencepost, refuses, text};

#[test]
fn unknown_names_get_the_nearest_and_the_list() {
    let near = "there is no algorithm `niave`; did you mean `naive`?";
    refuses(&["run", "niave", "gc-pause"], near);
    refuses(&["matrix", "--algorithms", "redlock,niave"], near);
    refuses(&["check", "--algorithms", "niave"], near);
    let near = "there is no scenario `gc-pauze`; did you mean `gc-pause`?";
    refuses(&["run", "naive", "gc-pauze"], near);
    refuses(&["matrix", "--scenarios", "calm,gc-pauze"], near);
    refuses(&["check", "gc-pauze"], near);
    let near = "there is no engine `evnt`; did you mean `event`?";
    refuses(&["run", "naive", "calm", "--engine", "evnt"], near);
    refuses(&["run", "qqqqqq", "calm"], "There are: local-mutex, ");
    refuses(
        &["run", "naive", "calm", "--set", "tll=3s"],
        "did you mean `ttl`?",
    );
}

#[test]
fn bad_usage_ends_with_1() {
    for arguments in [
        &["run"][..],
        &["run", "naive"],
        &["bogus"],
        &["run", "naive", "calm", "--seed", "-1"],
        &["run", "naive", "calm", "--seed", "x"],
        &["run", "naive", "calm", "--bogus"],
        &["run", "naive", "calm", "--set", "ttl"],
        &["run", "naive", "calm", "--set", "=3"],
        &["matrix", "--seeds", "0"],
        &["matrix", "--jobs", "0"],
        &["check", "--seeds", "many"],
    ] {
        fencepost(arguments)
            .assert()
            .code(1)
            .stdout("")
            .stderr(contains("error: "));
    }
    fencepost(&[])
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("Usage: fencepost"));
}

#[test]
fn bad_files_end_with_1_and_point_at_the_line() {
    let directory = directory();
    let file = expecting(&directory, "ttl = \"30s\"", "tll = \"30s\"");
    for verb in [
        &["run", "naive"][..],
        &["check"],
        &["matrix", "--scenarios"],
    ] {
        let arguments = [verb, &[text(&file)]].concat();
        refuses(&arguments, "unknown field `tll`");
        refuses(&arguments, "my scenario.toml:20:1");
        refuses(&arguments, "did you mean `ttl`?");
    }
    refuses(
        &["run", "naive", "./nowhere.toml"],
        "failed to read ./nowhere.toml",
    );
    refuses(&["run", "naive", text(directory.path())], "failed to read");
}

#[test]
fn what_cannot_meet_is_said_with_the_reason() {
    refuses(
        &["run", "local-mutex", "redis-restart"],
        "local-mutex cannot meet redis-restart: it lives on no server",
    );
}

#[test]
fn two_scenarios_of_one_name_are_not_mixed_up() {
    let directory = directory();
    let file = expecting(&directory, "name", "name");
    refuses(
        &["check", "gc-pause", text(&file)],
        "are both called gc-pause",
    );
}

#[test]
fn files_that_cannot_be_written_are_noticed_before_the_work() {
    let directory = directory();
    let a_file = directory.path().join("file");
    fs::write(&a_file, "").unwrap();
    let below = a_file.join("x.svg");
    let nowhere = directory.path().join("nowhere/x.png");
    // So many seeds would take hours.
    let long = ["--seeds", "1000000000"];
    let with = |verb: &[&'static str], path: &Path| {
        let arguments: Vec<&str> = [verb, &[text(path)]].concat();
        refuses(&arguments, "failed to ");
    };
    with(&["run", "naive", "calm", "--json"], &nowhere);
    with(&["run", "naive", "calm", "--json"], directory.path());
    with(&["run", "naive", "calm", "--plot"], &nowhere);
    with(&["run", "naive", "calm", "--plot"], &below);
    with(&["matrix", long[0], long[1], "--out"], &a_file);
    with(&["matrix", long[0], long[1], "--out"], &below);
    with(&["check", long[0], long[1], "--junit"], &nowhere);
    with(&["check", long[0], long[1], "--junit"], directory.path());

    let gif = directory.path().join("x.gif");
    refuses(
        &["run", "naive", "calm", "--plot", text(&gif)],
        "must end in .svg or .png",
    );
    assert!(!gif.exists(), "nothing is left behind");
}

#[test]
fn a_file_that_could_be_written_is_left_alone_when_something_else_is_wrong() {
    let directory = directory();
    let json = directory.path().join("run.json");
    fs::write(&json, "precious").unwrap();
    refuses(
        &[
            "run",
            "naive",
            "calm",
            "--json",
            text(&json),
            "--plot",
            "/nowhere/x.svg",
        ],
        "failed to write",
    );
    assert_eq!(fs::read_to_string(json).unwrap(), "precious");
}
