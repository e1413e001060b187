//! `fencepost serve` as other people's programs see it: `redis-benchmark`, and a Python program that
//! locks with redis-py.
//!
//! Needs Debian's packages `redis-tools` and `python3-redis`.

#![cfg(unix)] // the server is stopped by a signal

mod serving;

use std::path::Path;
use std::process::{Command, Output};

use serving::Server;

fn succeeds(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}\n{stdout}\n{stderr}");
    assert_eq!(stderr, "", "{command:?} complains");
    stdout.into_owned()
}

#[test]
fn redis_benchmark_finds_nothing_wrong() {
    let server = Server::start(&[]);
    let (host, port) = server.address();
    let kinds = "set,get,incr,lpush,hset,zadd";
    let said = succeeds(
        Command::new("redis-benchmark")
            .args(["-h", host, "-p", port, "-q", "-n", "100000", "-t", kinds]),
    );
    for kind in kinds.to_uppercase().split(',') {
        assert!(said.contains(&format!("{kind}: ")), "{kind} in\n{said}");
    }
    assert_eq!(said.matches("requests per second").count(), 6, "{said}");
    server.stop();
}

#[test]
fn redis_cli_finds_nothing_wrong() {
    let server = Server::start(&[]);
    let (host, port) = server.address();
    let ask = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        succeeds(command.args(["-h", host, "-p", port]).args(words))
    };
    assert_eq!(ask(&["SET", "lock", "me", "NX", "PX", "30000"]), "OK\n");
    assert_eq!(ask(&["-3", "GET", "lock"]), "me\n");
    assert_eq!(ask(&["COMMAND", "DOCS", "get"]).trim(), "");
    assert!(ask(&["INFO"]).contains("redis_version:7.0.15"));
}

#[test]
fn the_lock_of_redis_py_works_as_on_a_real_server() {
    let python = python();
    let server = Server::start(&[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_clients.py");
    succeeds(Command::new(python).arg(script).arg(&server.url));
}

/// A Python that has redis-py.
fn python() -> &'static str {
    let has = |python: &&str| {
        let imported = Command::new(python).args(["-c", "import redis"]).output();
        imported.is_ok_and(|imported| imported.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has);
    found.expect("redis-py is not installed: apt-get install python3-redis, or pip install redis")
}
