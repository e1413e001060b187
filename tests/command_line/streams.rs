//! Help, colours, pipes.

use std::fs;

use crate::{BINARY, built_in, directory, expecting, fencepost, in_a_shell, printed, text};

#[test]
fn every_help_has_examples() {
    for verb in [
        &["--help"][..],
        &["list", "--help"],
        &["run", "--help"],
        &["matrix", "--help"],
        &["check", "--help"],
        &["serve", "--help"],
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
