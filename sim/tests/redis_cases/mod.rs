//! What the simulated server and a real one are both asked, and how a transcript of it is kept.
//!
//! A transcript is text. `@` begins a section: its name, the wall clock in ms at which it was
//! recorded, the number of its connection. `>` is a request, word by word; `!` is raw bytes, after
//! which the client stops sending; `<` is what came back. Words are quoted as in an inline command,
//! so the decoder under test reads its own test data.
//!
//! Replies that tell the time are compared with tolerance; see [`agree`].

pub(crate) mod streams;

use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use sim::redis::{Connection, Decoder, Machine, Reply, encode};

/// One thing a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request, and one reply to it.
    Request(Vec<Bytes>),
    /// Bytes that need not be a request; then the end of what the client sends.
    Raw(Bytes),
}

/// What one connection does, on a server that was flushed before.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Unique, for messages.
    pub(crate) name: String,
    /// In order.
    pub(crate) steps: Vec<Step>,
}

/// What happened in one section.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Its name.
    pub(crate) name: String,
    /// The server's wall clock.
    pub(crate) wall: u64,
    /// The number of the connection.
    pub(crate) id: u64,
    /// Every step with what came back.
    pub(crate) steps: Vec<(Step, Bytes)>,
}

/// The handwritten sections: commands, scripts, broken requests.
pub(crate) fn handwritten() -> Vec<Section> {
    let mut sections = Vec::new();
    for paragraph in include_str!("../data/redis-commands.txt").split("\n\n") {
        let mut lines = paragraph.lines();
        let name = lines
            .next()
            .expect("a paragraph has a title")
            .trim_start_matches("# ");
        let steps = lines.map(|line| Step::Request(words(line))).collect();
        sections.push(section(name, steps));
    }
    let scripts = include_str!("../data/redis-scripts.txt").split("\n----\n");
    let eval = |script: &str| {
        let words = ["EVAL", script, "2", "key-1", "key-2", "arg-1", "arg-2"];
        Step::Request(words.map(|word| Bytes::from(word.to_owned())).to_vec())
    };
    sections.push(section("scripts", scripts.map(eval).collect()));
    for (number, line) in include_str!("../data/redis-broken.txt").lines().enumerate() {
        let [bytes] = &words(line)[..] else {
            panic!("one word: {line}")
        };
        let steps = vec![Step::Raw(bytes.clone())];
        sections.push(Section {
            name: format!("broken-{}", number + 1),
            steps,
        });
    }
    sections
}

/// A section that begins on an empty server.
pub(crate) fn section(name: &str, mut steps: Vec<Step>) -> Section {
    steps.splice(
        0..0,
        ["FLUSHALL", "SCRIPT FLUSH"].map(|line| Step::Request(words(line))),
    );
    Section {
        name: name.to_owned(),
        steps,
    }
}

/// The words of a line in the syntax of inline commands.
pub(crate) fn words(line: &str) -> Vec<Bytes> {
    let mut decoder = Decoder::new();
    decoder.feed(line.as_bytes());
    decoder.feed(b"\n");
    decoder
        .next_request()
        .expect("well formed")
        .unwrap_or_else(|| panic!("no words: {line}"))
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => write!(text, "\\{}", char::from(*byte)),
            b'\n' => write!(text, "\\n"),
            b'\r' => write!(text, "\\r"),
            b' '..=b'~' => write!(text, "{}", char::from(*byte)),
            other => write!(text, "\\x{other:02x}"),
        }
        .expect("a string grows");
    }
    text + "\""
}

/// A step as a line of a transcript.
pub(crate) fn line(step: &Step) -> String {
    match step {
        Step::Raw(bytes) => format!("! {}", quoted(bytes)),
        Step::Request(words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            format!("> {}", words.join(" "))
        }
    }
}

/// Writes a transcript.
#[allow(dead_code, reason = "only the comparison with a real server records")]
pub(crate) fn write(sections: &[Recorded]) -> String {
    let mut text = String::new();
    for Recorded {
        name,
        wall,
        id,
        steps,
    } in sections
    {
        writeln!(text, "@ {name} {wall} {id}").expect("a string grows");
        for (step, reply) in steps {
            writeln!(text, "{}\n< {}", line(step), quoted(reply)).expect("a string grows");
        }
    }
    text
}

/// Reads a transcript.
#[allow(dead_code, reason = "only the replay reads")]
pub(crate) fn read(transcript: &str) -> Vec<Recorded> {
    let mut sections: Vec<Recorded> = Vec::new();
    let mut step = None;
    for line in transcript.lines() {
        let (kind, rest) = line.split_at(2);
        match kind {
            "@ " => {
                let mut fields = rest.rsplitn(3, ' ');
                let mut field = || fields.next().expect("three fields");
                let id = field().parse().expect("a number");
                let wall = field().parse().expect("a number");
                let name = field().to_owned();
                sections.push(Recorded {
                    name,
                    wall,
                    id,
                    steps: Vec::new(),
                });
            }
            "> " => step = Some(Step::Request(words(rest))),
            "! " => step = Some(Step::Raw(words(rest)[0].clone())),
            "< " => {
                let section = sections.last_mut().expect("in a section");
                section
                    .steps
                    .push((step.take().expect("after a step"), words(rest)[0].clone()));
            }
            _ => panic!("not a line of a transcript: {line}"),
        }
    }
    sections
}

/// The simulated server's answer to a step.
pub(crate) fn simulate(
    machine: &mut Machine,
    connection: &mut Connection,
    step: &Step,
    wall: u64,
) -> Bytes {
    let mut out = BytesMut::new();
    let Step::Raw(bytes) = step else {
        let Step::Request(request) = step else {
            unreachable!()
        };
        let reply = machine.execute(request, connection, wall);
        encode(&reply, connection.protocol, &mut out);
        return out.freeze();
    };
    let mut decoder = Decoder::new();
    decoder.feed(bytes);
    loop {
        let reply = match decoder.next_request() {
            Ok(None) => break,
            Ok(Some(request)) => machine.execute(&request, connection, wall),
            Err(error) => {
                encode(&error.reply(), connection.protocol, &mut out);
                break;
            }
        };
        encode(&reply, connection.protocol, &mut out);
        if reply == Reply::Close {
            break;
        }
    }
    out.freeze()
}

/// Whether two replies to `step` say the same. A real server's clock moves on between two
/// requests, so what remains of a deadline may differ by a little, and the time by anything.
pub(crate) fn agree(step: &Step, one: &[u8], other: &[u8]) -> bool {
    let name = match step {
        Step::Request(words) => words[0].to_ascii_lowercase(),
        Step::Raw(_) => Vec::new(),
    };
    let number = |reply: &[u8]| -> Option<i64> {
        let text = std::str::from_utf8(reply).ok()?;
        text.strip_prefix(':')?.trim_end().parse().ok()
    };
    let close = |tolerance| match (number(one), number(other)) {
        (Some(one), Some(other)) => {
            one == other || one > 0 && other > 0 && one.abs_diff(other) <= tolerance
        }
        _ => one == other,
    };
    match &name[..] {
        b"ttl" => close(3),
        b"pttl" => close(3000),
        b"time" => one.starts_with(b"*2\r\n") && other.starts_with(b"*2\r\n") || one == other,
        _ => one == other,
    }
}
