//! Every command with too few words, with too many, and on a key of every kind.
//!
//! `redis-examples.txt` has a well-formed request of each. `<key>` stands for a key.

use bytes::Bytes;

use super::{Section, Step, section, words};

/// The keys that commands are tried on, and how each is made: one of every kind, one that
/// expires, and one that is not there.
const KEYS: [(&str, &str); 8] = [
    ("string", "SET string 5"),
    ("text", "SET text x"),
    ("hash", "HSET hash f 1"),
    ("list", "RPUSH list a b"),
    ("set", "SADD set m"),
    ("sorted", "ZADD sorted 1.5 m"),
    ("leased", "SET leased 5 PXAT 4102444800000"),
    ("none", ""),
];

const KEY: &str = "<key>";

/// The well-formed requests.
pub(crate) fn requests() -> Vec<Vec<Bytes>> {
    let lines = include_str!("../data/redis-examples.txt").lines();
    lines.map(words).collect()
}

fn with_key(request: &[Bytes], key: &'static str) -> Step {
    let word = |word: &Bytes| {
        if word == KEY {
            Bytes::from(key)
        } else {
            word.clone()
        }
    };
    Step::Request(0, request.iter().map(word).collect())
}

/// What makes the keys.
fn preparation() -> impl Iterator<Item = Step> {
    let lines = KEYS.iter().map(|(_, line)| *line);
    lines
        .filter(|line| !line.is_empty())
        .map(|line| Step::Request(0, words(line)))
}

fn is_waiting(request: &[Bytes]) -> bool {
    request[0].starts_with(b"B")
}

/// The sections about all the requests.
pub(crate) fn sections() -> Vec<Section> {
    let mut sections = Vec::new();
    for (number, request) in requests().iter().enumerate() {
        let name = String::from_utf8_lossy(&request[0]).to_ascii_lowercase();
        let mut steps = Vec::new();
        for length in 1..request.len() {
            steps.push(with_key(&request[..length], "string"));
        }
        for more in 1..=2 {
            let words = [request.as_slice(), &vec![Bytes::from("more"); more]].concat();
            steps.push(with_key(&words, "string"));
            if is_waiting(request) {
                steps.push(Step::Pause(5));
            }
        }
        sections.push(section(&format!("words of {name} ({number})"), steps));
        if !request.iter().any(|word| word == KEY) {
            continue;
        }
        let mut steps: Vec<_> = preparation().collect();
        for (key, _) in KEYS {
            steps.push(with_key(request, key));
            if is_waiting(request) {
                steps.push(Step::Pause(5));
            }
            for look in ["TYPE", "PEXPIRETIME"] {
                steps.push(Step::Request(0, words(&format!("{look} {key}"))));
            }
        }
        sections.push(section(&format!("kinds for {name} ({number})"), steps));
    }
    sections
}
