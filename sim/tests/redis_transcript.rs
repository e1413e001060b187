//! The simulated server gives the replies that a real one gave.
//!
//! The transcript was recorded from redis-server 7.0.15 by `redis_live.rs`, so this comparison
//! needs no server.

mod redis_cases;

use redis_cases::{agree, line, read, simulate};
use sim::redis::{Connection, Machine};

#[test]
fn replies_are_those_of_a_real_server() {
    let mut machine = Machine::new();
    let mut differences = Vec::new();
    let sections = read(include_str!("data/redis-7.0.15.txt"));
    assert!(sections.len() > 50, "the transcript is not there");
    for section in &sections {
        let mut connection = Connection::new(section.id);
        for (step, expected) in &section.steps {
            let actual = simulate(&mut machine, &mut connection, step, section.wall);
            if !agree(step, expected, &actual) {
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
    for section in redis_cases::handwritten() {
        let found = recorded
            .iter()
            .find(|recorded| recorded.name == section.name);
        let steps: Option<Vec<_>> =
            found.map(|found| found.steps.iter().map(|(step, _)| step.clone()).collect());
        assert!(
            steps.as_ref() == Some(&section.steps),
            "section {:?} changed since the transcript was recorded; with a redis-server 7.0.15:\n  \
             RECORD=1 cargo test -p fencepost-sim --features real-servers --test redis_live",
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
        let drawn = redis_cases::streams::stream(seed.parse().unwrap(), section.steps.len() - 2);
        assert!(
            drawn
                .steps
                .iter()
                .eq(section.steps.iter().map(|(step, _)| step))
        );
    }
}
