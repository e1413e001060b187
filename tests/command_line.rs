//! The command line as scripts and people meet it: what goes to which stream, what is written,
//! and with which status it ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_fencepost");

/// The program, in a directory and a terminal of no properties of their own.
fn fencepost(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).env("COLUMNS", "100");
    for variable in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"] {
        command.env_remove(variable);
    }
    command
}

/// What it prints when all is well.
fn printed(arguments: &[&str]) -> String {
    let assert = fencepost(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// It must end with status 1, say so once and print no result.
fn refuses(arguments: &[&str], complaint: &str) {
    fencepost(arguments)
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicate::str::starts_with("error: ").and(contains(complaint)));
}

/// Runs a line as printed, in a shell, with our binary behind the name; what it printed.
fn in_a_shell(line: &str) -> String {
    let path = Path::new(BINARY).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let paths = [path].into_iter().chain(std::env::split_paths(&others));
    let output = Command::new("sh")
        .args(["-c", line])
        .env("PATH", std::env::join_paths(paths).unwrap())
        .assert()
        .success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

/// The invariants that a story's verdict names.
fn verdict(story: &str) -> BTreeSet<String> {
    let lines = story.lines().skip_while(|line| !line.contains("violated"));
    let named = lines.skip(1).take_while(|line| line.starts_with("  "));
    named
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

/// The command that a story ends with.
fn replay_line(story: &str) -> &str {
    let line = story.lines().find_map(|line| line.strip_prefix("Again:  "));
    line.unwrap_or_else(|| panic!("no replay line in\n{story}"))
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn built_in(name: &str) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("scenarios").join(format!("{name}.toml"))
}

/// A copy of gc-pause in which something else is expected.
fn expecting(directory: &TempDir, from: &str, to: &str) -> PathBuf {
    let file = fs::read_to_string(built_in("gc-pause")).unwrap();
    assert!(file.contains(from), "{from} in gc-pause");
    let path = directory.path().join("my scenario.toml");
    fs::write(&path, file.replacen(from, to, 1)).unwrap();
    path
}

// list

#[test]
fn list_names_everything() {
    let list = printed(&["list"]);
    let algorithms = fencepost::algorithms::ALL
        .iter()
        .map(|a| a.name().to_owned());
    let scenarios = fencepost::scenarios::builtin::FILES
        .iter()
        .map(|(name, _)| (*name).to_owned());
    let invariants = fencepost::scenarios::invariants::ALL
        .iter()
        .map(|i| i.name().to_owned());
    let works = fencepost::scenarios::work::ALL
        .iter()
        .map(|w| w.name().to_owned());
    for name in algorithms.chain(scenarios).chain(invariants).chain(works) {
        let line = list
            .lines()
            .find(|line| line.trim().starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in\n{list}"));
        assert!(line.trim().len() > name.len() + 10, "no summary: {line}");
    }
    for word in ["woke-after-lease", "power-loss", "before-write"] {
        assert!(list.contains(word), "{word} is not in\n{list}");
    }
    assert!(
        !list.contains("failover"),
        "what is not built is not listed:\n{list}"
    );
}

#[test]
fn list_as_json_is_complete() {
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(list["schema"], "fencepost.list/1");
    let names = |key: &str| -> Vec<String> {
        let items = list[key].as_array().unwrap_or_else(|| panic!("no {key}"));
        let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
        items.iter().map(name).collect()
    };
    let algorithms = fencepost::algorithms::ALL.iter().map(|a| a.name());
    assert!(names("algorithms").iter().eq(algorithms));
    let scenarios = fencepost::scenarios::builtin::FILES
        .iter()
        .map(|(name, _)| name);
    assert!(names("scenarios").iter().eq(scenarios));
    let invariants = fencepost::scenarios::invariants::ALL
        .iter()
        .map(|i| i.name());
    assert!(names("invariants").iter().eq(invariants));
    for algorithm in list["algorithms"].as_array().unwrap() {
        for key in ["summary", "source", "family"] {
            let value = algorithm[key].as_str().unwrap();
            assert!(!value.is_empty(), "{key} of {algorithm}");
        }
        assert!(
            algorithm["servers"].is_u64() && algorithm["assumes"].is_array(),
            "{algorithm}"
        );
    }
    for key in ["work", "landmarks", "faults", "points"] {
        assert!(!list[key].as_array().unwrap().is_empty(), "{key}");
    }
}

// run

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

// matrix

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

// check

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
    let file = expecting(&directory, "[expect.tokened]", "[expect.session]");
    fencepost(&[
        "check",
        text(&file),
        "--algorithms",
        "tokened",
        "--seeds",
        "3",
    ])
    .assert()
    .success()
    .stdout(contains(
        "not checked, nothing is expected under gc-pause: tokened",
    ));
}

// what is wrong is said

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

// streams

#[test]
fn every_help_has_examples() {
    for verb in [
        &["--help"][..],
        &["list", "--help"],
        &["run", "--help"],
        &["matrix", "--help"],
        &["check", "--help"],
    ] {
        let help = printed(verb);
        let name = verb[0].trim_start_matches("--help");
        assert!(
            help.contains(&format!("Examples:\n  fencepost {name}")),
            "{verb:?}:\n{help}"
        );
    }
    assert!(printed(&["--version"]).starts_with("fencepost "));
    assert!(printed(&["--help"]).contains("Exit status: 0"));
}

#[test]
fn the_examples_of_every_help_can_be_run() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    fs::copy(built_in("calm"), path("my-scenario.toml")).unwrap();
    for verb in [&["--help"][..], &["run", "--help"], &["list", "--help"]] {
        let help = printed(verb);
        let examples = help.lines().filter(|line| line.starts_with("  fencepost "));
        let plays = |line: &&str| line.contains(" run ") || line.contains(" list");
        for example in examples.filter(plays) {
            let command = example.split("   ").next().unwrap().trim();
            in_a_shell(&format!("cd {} && {command}", text(directory.path())));
        }
    }
    assert!(path("incident.svg").exists() && path("clocks.png").exists());
}

#[test]
fn colours_are_for_those_who_see_them() {
    const ESCAPE: &str = "\u{1b}[";
    let directory = directory();
    let bad = expecting(&directory, "ttl = \"30s\"", "tll = \"30s\"");
    let out = directory.path().join("out");
    let commands: [&[&str]; 5] = [
        &["run", "naive", "gc-pause", "--seed", "0"],
        &[
            "matrix",
            "--algorithms",
            "naive",
            "--scenarios",
            "gc-pause",
            "--seeds",
            "2",
            "--out",
            text(&out),
        ],
        &["check", "gc-pause", "--algorithms", "naive", "--seeds", "2"],
        &["check", text(&bad)],
        &["bogus"],
    ];
    for arguments in commands {
        let run = |variables: &[(&str, &str)]| {
            let output = fencepost(arguments)
                .envs(variables.iter().copied())
                .output()
                .unwrap();
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        let piped = run(&[]);
        assert!(!piped.contains(ESCAPE), "{piped}");
        let forced = run(&[("CLICOLOR_FORCE", "1")]);
        assert!(forced.contains(ESCAPE), "{forced}");
        assert_eq!(run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), piped);
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let directory = directory();
    let out = directory.path().join("out");
    let commands: [&[&str]; 5] = [
        &["list"],
        &["--help"],
        &["run", "naive", "gc-pause", "--seed", "0"],
        &[
            "matrix",
            "--algorithms",
            "naive",
            "--scenarios",
            "gc-pause",
            "--seeds",
            "2",
            "--out",
            text(&out),
        ],
        &["check", "gc-pause", "--algorithms", "naive", "--seeds", "2"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(BINARY)
            .args(arguments)
            .stdout(writer)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        assert!(
            !stderr.contains("error") && !stderr.contains("panic"),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn nobody_has_to_listen_to_stderr() {
    let directory = directory();
    let out = directory.path().join("out");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = std::process::Command::new(BINARY)
        .args([
            "matrix",
            "--algorithms",
            "naive",
            "--scenarios",
            "calm",
            "--seeds",
            "1",
            "--out",
            text(&out),
        ])
        .stdout(std::process::Stdio::null())
        .stderr(writer)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
