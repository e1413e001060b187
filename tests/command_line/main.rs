//! The command line as scripts and people meet it: what goes to which stream, what is written,
//! and with which status it ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use tempfile::TempDir;

mod check;
mod list;
mod matrix;
mod run;
mod streams;
mod wrong;

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
