//! `fencepost check`.

use std::fs;
use std::path::Path;

use predicates::str::contains;
use tempfile::TempDir;

use crate::{built_in, directory, expecting, fencepost, in_a_shell, text, verdict};

#[test]
fn a_check_passes_when_all_is_as_expected() {
    fencepost(&[
        "check",
        "gc-pause",
        "--algorithms",
        "naive,fenced",
        "--seeds",
        "60",
    ])
    .assert()
    .success()
    .stdout(contains("2 of 2 cells are as expected, 0 differ"))
    .stderr("");
}

#[test]
fn a_check_with_few_seeds_says_that_it_was_lenient() {
    fencepost(&["check", "gc-pause", "--algorithms", "naive", "--seeds", "5"])
        .assert()
        .success()
        .stdout(contains("fewer than 50 runs counted under gc-pause"));
}

/// Checks a file in which one expectation was made wrong: its JUnit file has one failure, and
/// its replay line leads to a run. Gives what it printed, and what the replay printed.
fn differs(file: &Path, directory: &TempDir) -> (String, String) {
    let junit = directory.path().join("results.xml");
    let assert = fencepost(&[
        "check",
        text(file),
        "--algorithms",
        "naive,tokened,fenced-claim",
        "--seeds",
        "60",
        "--junit",
        text(&junit),
    ])
    .assert()
    .code(2)
    .stderr("")
    .stdout(contains("2 of 3 cells are as expected, 1 differ"));
    let stdout = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let xml = fs::read_to_string(junit).unwrap();
    assert_eq!(xml.matches("<failure").count(), 1, "{xml}");
    assert_eq!(xml.matches("<testcase").count(), 3, "{xml}");
    assert!(xml.contains(r#"failures="1" errors="0""#), "{xml}");
    let line = stdout
        .lines()
        .find_map(|line| line.trim().split_once("fencepost run "))
        .map(|(_, rest)| format!("fencepost run {rest}"));
    let line = line.unwrap_or_else(|| panic!("no replay line in\n{stdout}"));
    assert!(
        line.starts_with("fencepost run tokened '"),
        "the path has a space: {line}"
    );
    let story = in_a_shell(&line);
    (stdout, story)
}

#[test]
fn a_violation_that_is_not_expected_fails_the_check_and_can_be_seen() {
    let directory = directory();
    let file = expecting(
        &directory,
        "[expect.tokened]\nmust = [\"double-write\", \"overlap\"]",
        "[expect.tokened]\nmust = [\"overlap\"]",
    );
    let (stdout, story) = differs(&file, &directory);
    assert!(
        stdout.starts_with("tokened under gc-pause: double-write was seen in "),
        "{stdout}"
    );
    assert!(
        stdout.contains("The scenario says of tokened: "),
        "{stdout}"
    );
    assert!(verdict(&story).contains("double-write"), "{story}");
}

#[test]
fn a_violation_that_is_expected_and_missing_fails_the_check() {
    let directory = directory();
    let file = expecting(
        &directory,
        "[expect.tokened]\nmust = [\"double-write\", \"overlap\"]",
        "[expect.tokened]\nmust = [\"double-write\", \"overlap\", \"wrong-release\"]",
    );
    let (stdout, story) = differs(&file, &directory);
    let difference = "tokened under gc-pause: wrong-release is expected in at least one run in ten";
    assert!(stdout.starts_with(difference), "{stdout}");
    assert!(!verdict(&story).contains("wrong-release"), "{story}");
}

#[test]
fn an_algorithm_of_which_nothing_is_expected_is_named_and_does_not_fail_the_check() {
    let directory = directory();
    let file = expecting(&directory, "[expect.tokened]", "[expect.redlock-unchecked]");
    fencepost(&[
        "check",
        text(&file),
        "--algorithms",
        "naive,tokened",
        "--seeds",
        "3",
    ])
    .assert()
    .success()
    .stdout(contains(
        "not checked, nothing is expected under gc-pause: tokened",
    ));
}

#[test]
fn a_check_of_nothing_is_not_passed() {
    let directory = directory();
    let path = directory.path().join("mine.toml");
    let calm = fs::read_to_string(built_in("calm")).unwrap();
    let (without, _) = calm.split_once("[expect").unwrap();
    fs::write(&path, format!("{without}[expect]\n")).unwrap();
    let nothing = "nothing was checked: no cell applies and has an [expect]";
    fencepost(&["check", text(&path), "--seeds", "1"])
        .assert()
        .code(1)
        .stderr(contains(nothing));
    fencepost(&["check", "herd", "--engine", "turmoil"])
        .assert()
        .code(1)
        .stderr(contains(nothing))
        .stdout(contains(
            "does not apply, because the turmoil engine plays at most 50 clients: ",
        ));
}
