//! `fencepost matrix`, and what it shares with `check`: jobs and Ctrl-C.

use assert_cmd::Command;
use std::collections::BTreeSet;
use std::fs;

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::{
    BINARY, built_in, directory, expecting, fencepost, in_a_shell, printed, text, verdict,
};

/// The replay lines of a matrix, each with the violations that stand beside it.
fn replay_lines(stdout: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in stdout.lines().take_while(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("      ") {
            found.last_mut().unwrap().1 += &format!(" {rest}");
        } else if line.starts_with("  fencepost run ") {
            let (command, beside) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
            found.push((command.to_owned(), beside.to_owned()));
        }
    }
    let names = |beside: String| -> Vec<String> {
        let words = beside
            .split(", ")
            .map(|item| item.split_whitespace().next().unwrap().to_owned());
        words.collect()
    };
    found
        .into_iter()
        .map(|(command, beside)| (command, names(beside)))
        .collect()
}

#[test]
fn every_replay_line_of_a_matrix_shows_the_violations_beside_it() {
    let directory = directory();
    let file = expecting(&directory, "\"gc-pause\"", "\"my-gc-pause\"");
    let scenarios = format!("gc-pause,slow-work,{}", text(&file));
    let out = directory.path().join("report");
    let arguments = [
        "matrix",
        "--algorithms",
        "naive,tokened,fenced,redlock",
        "--scenarios",
        &scenarios,
        "--seeds",
        "5",
        "--out",
        text(&out),
    ];
    for columns in ["60", "100", "400"] {
        let assert = fencepost(&arguments)
            .env("COLUMNS", columns)
            .assert()
            .success();
        let stdout = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        let lines = replay_lines(&stdout);
        assert!(lines.len() >= 12, "{stdout}");
        let torn = |line: &str| line.trim_start().starts_with('%');
        assert!(
            !stdout.lines().any(torn),
            "a rate and its sign stand in one line:\n{stdout}"
        );
        let report: Value =
            serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
        let told: usize = lines.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(
            told,
            violations(&report),
            "every first seed has its line:\n{stdout}"
        );
        if columns != "100" {
            continue;
        }
        for (line, names) in lines {
            let story = in_a_shell(&line);
            let shown = verdict(&story);
            for name in names {
                assert!(
                    shown.contains(&name),
                    "{name} is not shown by: {line}\n{story}"
                );
            }
        }
    }
}

/// How many invariants were breached, over all cells.
fn violations(report: &Value) -> usize {
    let cells = report["cells"].as_array().unwrap().iter();
    let breached = |cell: &Value| {
        let violations = cell["violations"].as_object().unwrap().values();
        violations
            .filter(|violation| violation["runs"] != 0)
            .count()
    };
    cells.map(breached).sum()
}

#[test]
fn a_matrix_writes_its_report_and_its_incidents() {
    let directory = directory();
    let out = directory.path().join("deep/report");
    let assert = fencepost(&[
        "matrix",
        "--algorithms",
        "local-mutex,naive,fenced",
        "--scenarios",
        "gc-pause,calm,redis-restart",
        "--seeds",
        "4",
        "--jobs",
        "2",
        "--out",
        text(&out),
    ])
    .assert()
    .success()
    .stdout(contains("gc-pause").and(contains("Seeds 0 to 3, engine event.")))
    .stdout(contains("report.json").not());
    let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("report.json"), "{stderr}");

    let report: Value =
        serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["schema"], "fencepost.report/1");
    assert_eq!(report["engine"], "event");
    assert_eq!(
        report["seeds"],
        serde_json::json!({ "from": 0, "count": 4 })
    );
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    for cell in cells {
        if cell["scenario"] == "redis-restart" && cell["algorithm"] == "local-mutex" {
            assert!(
                cell["not_applicable"]
                    .as_str()
                    .unwrap()
                    .contains("no server")
            );
            assert!(cell.get("runs").is_none(), "{cell}");
            continue;
        }
        let runs = cell["runs"].as_u64().unwrap();
        assert_eq!(runs + cell["vacuous"].as_u64().unwrap(), 4, "{cell}");
        assert_eq!(cell["failed"], 0, "{cell}");
        let violations = cell["violations"].as_object().unwrap();
        assert!(violations.contains_key("double-write") && violations.contains_key("stuck"));
        for (name, violation) in violations {
            let hits = violation["runs"].as_u64().unwrap();
            let [rate, low, high] =
                ["rate", "low", "high"].map(|key| violation[key].as_f64().unwrap());
            assert!(
                0.0 <= low && low <= rate && rate <= high && high <= 1.0,
                "{name}: {violation}"
            );
            assert_eq!(
                violation["first_seed"].is_u64(),
                hits > 0,
                "{name}: {violation}"
            );
        }
        for key in [
            "commands_per_section",
            "peak_commands_per_second",
            "sections",
        ] {
            assert!(cell["cost"][key].is_number(), "{key} of {cell}");
        }
        assert!(cell["cost"]["acquire_wait_ms"]["p50"].is_number(), "{cell}");
        assert!(cell["cost"]["acquire_wait_ms"]["p99"].is_number(), "{cell}");
    }

    let mut incidents = BTreeSet::new();
    let scenarios = fs::read_dir(out.join("cells")).unwrap();
    let paths = scenarios.flat_map(|entry| fs::read_dir(entry.unwrap().path()).unwrap());
    for path in paths.map(|entry| entry.unwrap().path()) {
        if path.extension().unwrap() == "json" {
            let run: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            assert!(
                !run["verdict"]["violations"].as_array().unwrap().is_empty(),
                "{path:?}"
            );
            assert!(
                path.with_extension("svg").exists(),
                "{path:?} has no picture"
            );
            incidents.insert((run["algorithm"].to_string(), run["scenario"].to_string()));
        }
    }
    for cell in cells.iter().filter(|cell| cell.get("violations").is_some()) {
        let breached = cell["violations"]
            .as_object()
            .unwrap()
            .values()
            .any(|v| v["runs"] != 0);
        let of = (cell["algorithm"].to_string(), cell["scenario"].to_string());
        assert_eq!(incidents.contains(&of), breached, "{of:?}");
    }
}

#[test]
fn a_matrix_that_is_verified_says_so() {
    let directory = directory();
    let sweep = ["matrix", "--algorithms", "naive,fenced", "--verify"];
    for (engine, seeds, runs) in [("event", "5", 20), ("turmoil", "1", 4)] {
        let out = directory.path().join(engine);
        let rest = ["--scenarios", "calm,gc-pause", "--engine", engine];
        let rest = [&rest[..], &["--seeds", seeds, "--out", text(&out)]].concat();
        let stdout = printed(&[&sweep[..], &rest].concat());
        let said = format!(
            "\nverified: {runs} runs were played twice, in different threads, with the same events\n"
        );
        assert!(stdout.ends_with(&said), "{stdout}");
    }
}

#[test]
fn a_report_does_not_depend_on_how_many_jobs_made_it() {
    let directory = directory();
    let reports = ["1", "2"].map(|jobs| {
        let out = directory.path().join(jobs);
        let matrix = [
            "matrix",
            "--algorithms",
            "naive,redlock",
            "--scenarios",
            "gc-pause",
            "--seeds",
            "6",
        ];
        let stdout = printed(&[&matrix[..], &["--jobs", jobs, "--out", text(&out)]].concat());
        (stdout, fs::read_to_string(out.join("report.json")).unwrap())
    });
    assert_eq!(reports[0], reports[1]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_done() {
    let directory = directory();
    let out = directory.path().join("report");
    let child = std::process::Command::new(BINARY)
        .args([
            "matrix",
            "--scenarios",
            "gc-pause",
            "--seeds",
            "1000000",
            "--out",
            text(&out),
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !out.join("cells").exists() {
        std::thread::yield_now();
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("stopped early"), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("Stopped before the end"), "{stdout}");
    let report: Value =
        serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["stopped"], true);
    assert_eq!(
        report["cells"].as_array().unwrap().len(),
        fencepost::algorithms::ALL.len()
    );
}

#[cfg(unix)]
#[test]
fn a_check_that_is_interrupted_is_not_passed() {
    let directory = directory();
    let fifo = directory.path().join("results.xml");
    Command::new("mkfifo").arg(&fifo).assert().success();
    let child = std::process::Command::new(BINARY)
        .args([
            "check",
            "gc-pause",
            "--seeds",
            "1000000",
            "--junit",
            text(&fifo),
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Opens once the child tries the file, which it does after it began to listen for Ctrl-C.
    let _results = fs::File::open(&fifo).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("stopped before the end"), "{stderr}");
}

#[cfg(unix)]
fn interrupt(child: &std::process::Child) {
    Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .assert()
        .success();
}

#[test]
fn a_fault_that_never_struck_is_not_taken_for_one_that_was_survived() {
    let directory = directory();
    let path = directory.path().join("mine.toml");
    let calm = fs::read_to_string(built_in("calm")).unwrap();
    let fault = "[[fault]]\nkind = \"crash\"\nnode = \"client-1\"\n\
                 when = { client = \"client-1\", point = \"granted\", nth = 99 }\n";
    let (without, _) = calm.split_once("[expect").unwrap();
    fs::write(&path, format!("{without}{fault}[expect]\n")).unwrap();
    let out = directory.path().join("report");
    let arguments = [
        "matrix",
        "--scenarios",
        text(&path),
        "--algorithms",
        "naive,tokened",
        "--seeds",
        "2",
        "--out",
        text(&out),
    ];
    let never = "Nothing is known about fault 1 of calm, which never struck: naive and tokened.";
    fencepost(&arguments)
        .assert()
        .success()
        .stdout(contains(never));
    let report = fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["cells"][0]["never_struck"]["1"], 2);
}
