//! The simulated server gives the replies that a real one gave.
//!
//! The transcript was recorded from redis-server 7.0.15 by `redis_live.rs`, so this comparison
//! needs no server.

mod redis_cases;

use std::collections::BTreeSet;

use redis_cases::{Simulated, Step, agree, handwritten, line, read, words};
use sim::redis::{Connection, Machine, Reply};

#[test]
fn replies_are_those_of_a_real_server() {
    let mut machine = Machine::new();
    let mut differences = Vec::new();
    let sections = read(include_str!("data/redis-7.0.15.txt"));
    assert!(sections.len() > 50, "the transcript is not there");
    for section in &sections {
        let mut simulated = Simulated::new(&mut machine, &section.ids);
        let mut wall = section.wall;
        for (step, expected) in &section.steps {
            if let Step::Pause(millis) = step {
                wall += millis;
            }
            let actual = simulated.receive(step, wall);
            let same = expected.len() == actual.len()
                && expected
                    .iter()
                    .zip(&actual)
                    .all(|((on, real), (to, simulated))| {
                        on == to && agree(step, *on, real, simulated)
                    });
            if !same {
                differences.push(format!(
                    "{}: {}\n  real      {expected:?}\n  simulated {actual:?}",
                    section.name,
                    line(step),
                ));
            }
        }
    }
    let count = differences.len();
    differences.truncate(20);
    assert!(
        count == 0,
        "{count} replies differ, the first:\n{}",
        differences.join("\n")
    );
}

#[test]
fn the_transcript_asks_what_is_handwritten() {
    let recorded = read(include_str!("data/redis-7.0.15.txt"));
    for section in handwritten() {
        let found = recorded
            .iter()
            .find(|recorded| recorded.name == section.name);
        let steps: Option<Vec<_>> =
            found.map(|found| found.steps.iter().map(|(step, _)| step.clone()).collect());
        assert!(
            steps.as_ref() == Some(&section.steps),
            "section {:?} changed since the transcript was recorded; with a redis-server 7.0.15:\n  \
             RECORD=1 cargo test --workspace --test redis_live",
            section.name,
        );
    }
}

#[test]
fn the_transcript_holds_the_streams_of_its_seeds() {
    let recorded = read(include_str!("data/redis-7.0.15.txt"));
    for section in recorded {
        let Some(seed) = section.name.strip_prefix("stream-") else {
            continue;
        };
        let drawn = redis_cases::streams::stream(seed.parse().unwrap(), redis_cases::LENGTH);
        let recorded = section.steps.iter().map(|(step, _)| step);
        assert!(drawn.steps.iter().eq(recorded));
    }
}

/// The names of the commands that there are.
fn commands() -> Vec<String> {
    let mut machine = Machine::new();
    let listed = machine.execute(&words("COMMAND LIST"), &mut Connection::new(1), 0);
    let Reply::Array(names) = listed else {
        panic!("not a list of names")
    };
    let name = |name| match name {
        Reply::Bulk(name) => String::from_utf8(name.to_vec()).unwrap(),
        other => panic!("not a name: {other:?}"),
    };
    names.into_iter().map(name).collect()
}

/// A command without an example would be compared by chance alone.
#[test]
fn every_command_is_asked() {
    let asked: BTreeSet<_> = handwritten()
        .iter()
        .flat_map(|section| section.steps.iter())
        .filter_map(|step| match step {
            Step::Request(_, words) => Some(words[0].to_ascii_lowercase()),
            Step::Raw(_) | Step::Pause(_) => None,
        })
        .collect();
    // These change what a server is to others; `redis_live.rs` asks a pair of servers.
    let of_replicas = ["psync", "replconf", "replicaof", "slaveof"];
    for name in commands() {
        if of_replicas.contains(&name.as_str()) {
            continue;
        }
        assert!(asked.contains(name.as_bytes()), "{name} is never asked");
    }
}

#[test]
fn the_documentation_names_every_command() {
    let text = include_str!("../../docs/redis-differences.md");
    for name in commands() {
        let name = name.to_ascii_uppercase();
        assert!(text.contains(&format!("`{name}")), "{name} is not named");
    }
}
