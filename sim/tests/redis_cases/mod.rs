//! What the simulated server and a real one are both asked, and how a transcript of it is kept.
//!
//! A transcript is text. `@` begins a section: its name, the wall clock in ms at which it was
//! recorded, the numbers of its connections. `>` is a request, word by word; `!` is raw bytes, after
//! which the client stops sending; `~` is a pause in ms; `<` is what came back. `>1` and `<1` are the
//! second connection's. Words are quoted as in an inline command, so the decoder under test reads its
//! own test data.
//!
//! Replies that tell the time are compared with tolerance, and those without an order sorted; see
//! [`agree`].

pub(crate) mod examples;
pub(crate) mod streams;

use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use sim::redis::{Connection, Decoder, Machine, Reply, encode};

/// How many commands a random stream has.
pub(crate) const LENGTH: usize = 200;

/// One thing that happens to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request, on one of the section's connections.
    Request(usize, Vec<Bytes>),
    /// Bytes that need not be a request; then the end of what the client sends.
    Raw(Bytes),
    /// Time passes, in ms.
    Pause(u64),
}

impl Step {
    /// The connection it is about.
    pub(crate) fn on(&self) -> usize {
        match self {
            Self::Request(on, _) => *on,
            Self::Raw(_) | Self::Pause(_) => 0,
        }
    }
}

/// What the connections receive in one step: each its bytes, if it receives any.
pub(crate) type Received = Vec<(usize, Bytes)>;

/// What happens, one step after another, on a server that was flushed before.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Unique, for messages.
    pub(crate) name: String,
    /// In order.
    pub(crate) steps: Vec<Step>,
}

impl Section {
    /// How many connections take part.
    #[allow(dead_code, reason = "only the comparison with a real server connects")]
    pub(crate) fn connections(&self) -> usize {
        self.steps
            .iter()
            .map(|step| step.on() + 1)
            .max()
            .unwrap_or(1)
    }
}

/// What happened in one section.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Its name.
    pub(crate) name: String,
    /// The server's wall clock.
    pub(crate) wall: u64,
    /// The numbers of the connections.
    pub(crate) ids: Vec<u64>,
    /// Every step with what came back.
    pub(crate) steps: Vec<(Step, Received)>,
}

/// The handwritten sections: commands, scripts, broken requests.
pub(crate) fn handwritten() -> Vec<Section> {
    let files = [
        include_str!("../data/redis-commands.txt"),
        include_str!("../data/redis-collections.txt"),
        include_str!("../data/redis-sessions.txt"),
    ];
    let mut sections = Vec::new();
    for paragraph in files.iter().flat_map(|file| file.trim_end().split("\n\n")) {
        let mut lines = paragraph.lines();
        let name = lines
            .next()
            .expect("a paragraph has a title")
            .trim_start_matches("# ");
        let steps = lines.map(handwritten_step).collect();
        sections.push(section(name, steps));
    }
    sections.extend(examples::sections());
    let scripts = include_str!("../data/redis-scripts.txt").split("\n----\n");
    let eval = |script: &str| {
        let words = ["EVAL", script, "2", "key-1", "key-2", "arg-1", "arg-2"];
        Step::Request(0, words.map(|word| Bytes::from(word.to_owned())).to_vec())
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

/// A line is a request, on another connection than the first after its number and `>`; or a
/// pause after `~`.
fn handwritten_step(line: &str) -> Step {
    if let Some(millis) = line.strip_prefix("~ ") {
        return Step::Pause(millis.parse().expect("a number of milliseconds"));
    }
    match line.split_once("> ") {
        Some((on, line)) if on.len() == 1 => {
            Step::Request(on.parse().expect("the number of a connection"), words(line))
        }
        _ => Step::Request(0, words(line)),
    }
}

/// What every section begins with.
const BEGINNING: [&str; 3] = [
    "FLUSHALL",
    "SCRIPT FLUSH",
    "CONFIG SET notify-keyspace-events \"\"",
];

/// A section that begins on an empty server.
pub(crate) fn section(name: &str, mut steps: Vec<Step>) -> Section {
    steps.splice(0..0, BEGINNING.map(|line| Step::Request(0, words(line))));
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

/// The number of a connection, as it stands behind a mark.
fn on(number: usize) -> String {
    if number == 0 {
        String::new()
    } else {
        number.to_string()
    }
}

/// A step as a line of a transcript.
pub(crate) fn line(step: &Step) -> String {
    match step {
        Step::Raw(bytes) => format!("! {}", quoted(bytes)),
        Step::Pause(millis) => format!("~ {millis}"),
        Step::Request(number, words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            format!(">{} {}", on(*number), words.join(" "))
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
        ids,
        steps,
    } in sections
    {
        let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
        writeln!(text, "@ {name} {wall} {}", ids.join(",")).expect("a string grows");
        for (step, received) in steps {
            writeln!(text, "{}", line(step)).expect("a string grows");
            for (number, bytes) in received {
                writeln!(text, "<{} {}", on(*number), quoted(bytes)).expect("a string grows");
            }
        }
    }
    text
}

/// Reads a transcript.
#[allow(dead_code, reason = "the comparison with a real server reads none")]
pub(crate) fn read(text: &str) -> Vec<Recorded> {
    let mut sections: Vec<Recorded> = Vec::new();
    for line in text.lines() {
        let (mark, rest) = line.split_once(' ').expect("a mark and what it marks");
        let (mark, number) = mark.split_at(1);
        let number = if number.is_empty() {
            0
        } else {
            number.parse().expect("a number")
        };
        if mark == "@" {
            let mut parts = rest.rsplitn(3, ' ');
            let mut part = || parts.next().expect("a name, a time and numbers");
            let ids = part()
                .split(',')
                .map(|id| id.parse().expect("a number"))
                .collect();
            let wall = part().parse().expect("a time");
            let (name, steps) = (part().to_owned(), Vec::new());
            sections.push(Recorded {
                name,
                wall,
                ids,
                steps,
            });
            continue;
        }
        let steps = &mut sections.last_mut().expect("in a section").steps;
        let step = match mark {
            ">" => Step::Request(number, words(rest)),
            "!" => Step::Raw(words(rest)[0].clone()),
            "~" => Step::Pause(rest.parse().expect("a number")),
            "<" => {
                let (_, received) = steps.last_mut().expect("after a step");
                received.push((number, words(rest)[0].clone()));
                continue;
            }
            _ => panic!("not a line of a transcript: {line}"),
        };
        steps.push((step, Vec::new()));
    }
    sections
}

/// The simulated server with the connections of one section.
pub(crate) struct Simulated<'a> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) connections: Vec<Connection>,
    /// Requests that wait for the end of a pause, as they came.
    held: Vec<(usize, Vec<Bytes>)>,
}

impl<'a> Simulated<'a> {
    pub(crate) fn new(machine: &'a mut Machine, ids: &[u64]) -> Self {
        let connections = ids.iter().map(|id| Connection::new(*id)).collect();
        Self {
            machine,
            connections,
            held: Vec::new(),
        }
    }

    /// Whether a connection waits and can do nothing.
    pub(crate) fn waits(&self, on: usize) -> bool {
        let held = self.held.iter().any(|(held, _)| *held == on);
        held || self.machine.is_blocked(self.connections[on].id)
    }

    /// Whether the connection of the step waits and can do nothing.
    pub(crate) fn is_blocked(&self, step: &Step) -> bool {
        !matches!(step, Step::Pause(_)) && self.waits(step.on())
    }

    /// What is received in a step.
    pub(crate) fn receive(&mut self, step: &Step, wall: u64) -> Received {
        let mut out = vec![BytesMut::new(); self.connections.len()];
        if self.is_blocked(step) {
            return Vec::new();
        }
        match step {
            Step::Pause(_) => self.machine.time_out(wall),
            Step::Request(on, request) => self.execute(*on, request.clone(), wall, &mut out[*on]),
            Step::Raw(bytes) => self.receive_raw(bytes, wall, &mut out[0]),
        }
        for (on, request) in std::mem::take(&mut self.held) {
            self.execute(on, request, wall, &mut out[on]);
        }
        for (to, message) in self.machine.take_messages() {
            let to = self
                .connections
                .iter()
                .position(|connection| connection.id == to);
            let to = to.expect("a connection of this section");
            encode(&message, self.connections[to].protocol, &mut out[to]);
        }
        let received = out.into_iter().map(BytesMut::freeze).enumerate();
        received.filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    /// Executes a request, or holds it until a pause is over.
    fn execute(&mut self, on: usize, request: Vec<Bytes>, wall: u64, out: &mut BytesMut) {
        let connection = &mut self.connections[on];
        if self
            .machine
            .held_until(&request, connection, wall)
            .is_some()
        {
            self.held.push((on, request));
            return;
        }
        let reply = self.machine.execute(&request, connection, wall);
        encode(&reply, connection.protocol, out);
    }

    fn receive_raw(&mut self, bytes: &[u8], wall: u64, out: &mut BytesMut) {
        let connection = &mut self.connections[0];
        let mut decoder = Decoder::new();
        decoder.feed(bytes);
        loop {
            let reply = match decoder.next_request() {
                Ok(None) => break,
                Ok(Some(request)) => self.machine.execute(&request, connection, wall),
                Err(error) => {
                    encode(&error.reply(), connection.protocol, out);
                    break;
                }
            };
            encode(&reply, connection.protocol, out);
            if reply == Reply::Close {
                break;
            }
        }
    }
}

impl Drop for Simulated<'_> {
    fn drop(&mut self) {
        for connection in &mut self.connections {
            self.machine.disconnect(connection);
        }
    }
}

/// How long the first reply in `bytes` is, if it is complete.
pub(crate) fn reply_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let text = std::str::from_utf8(&bytes[1..end - 2]);
    let number = || text.expect("a length").parse::<i64>().expect("a length");
    let (bulk, items) = match bytes[0] {
        b'$' | b'=' => (number().max(-2) + 2, 0),
        b'*' | b'~' | b'>' => (0, number()),
        b'%' => (0, number() * 2),
        _ => (0, 0),
    };
    // A null bulk string has no line of its own.
    let bulk = if bulk == 1 { 0 } else { bulk };
    let mut length = end + usize::try_from(bulk).expect("not negative");
    for _ in 0..items {
        length += reply_length(bytes.get(length..)?)?;
    }
    (length <= bytes.len()).then_some(length)
}

/// The replies and messages in `bytes`, one by one.
pub(crate) fn units(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while let Some(length) = reply_length(bytes).filter(|length| *length > 0) {
        let (unit, rest) = bytes.split_at(length);
        units.push(unit);
        bytes = rest;
    }
    if !bytes.is_empty() {
        units.push(bytes);
    }
    units
}

fn sorted(mut items: Vec<&[u8]>) -> Vec<&[u8]> {
    items.sort_unstable();
    items
}

fn has_message(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    lines.any(|line| line == b"message\r" || line == b"pmessage\r")
}

fn sorted_lines(bytes: &[u8]) -> Vec<&[u8]> {
    sorted(bytes.split(|byte| *byte == b'\n').collect())
}

/// Whether a connection received the same in both cases. A message may reach several of its
/// patterns, in any order, and a transaction that was held up may tell what a hash table holds.
pub(crate) fn agree(step: &Step, on: usize, one: &[u8], other: &[u8]) -> bool {
    if one == other {
        return true;
    }
    match step {
        Step::Request(number, words) if *number == on => agree_on(words, one, other),
        _ => sorted_lines(one) == sorted_lines(other),
    }
}

/// Whether two replies to a request say the same. A real server's clock moves on between two
/// requests, so what remains of a deadline may differ by a little, and the time by anything. What
/// stands in a hash table comes in any order.
fn agree_on(words: &[Bytes], one: &[u8], other: &[u8]) -> bool {
    let number = |reply: &[u8]| -> Option<i64> {
        let text = std::str::from_utf8(reply).ok()?;
        text.strip_prefix(':')?.trim_end().parse().ok()
    };
    let close = |tolerance| match (number(one), number(other)) {
        (Some(one), Some(other)) => {
            one == other || one > 0 && other > 0 && one.abs_diff(other) <= tolerance
        }
        _ => false,
    };
    match &words[0].to_ascii_lowercase()[..] {
        b"ttl" | b"expiretime" => close(3),
        b"pttl" | b"pexpiretime" => close(3000),
        b"time" => one.starts_with(b"*2\r\n") && other.starts_with(b"*2\r\n"),
        // The count that each answer carries goes with the order.
        b"unsubscribe" | b"punsubscribe" if words.len() == 1 => {
            units(one).len() == units(other).len()
        }
        // A table of Lua's keeps no order.
        b"eval" if words[1].ends_with(b"redis.pcall('hgetall', KEYS[1])") => {
            sorted_lines(one) == sorted_lines(other)
        }
        // A message to whoever causes it stands in the midst of a real server's longer reply.
        _ if has_message(one) && has_message(other) => sorted_lines(one) == sorted_lines(other),
        b"config" | b"exec" | b"keys" | b"pubsub" | b"scan" | b"smembers" | b"spop"
        | b"srandmember" | b"sscan" => sorted_lines(one) == sorted_lines(other),
        _ => sorted(units(one)) == sorted(units(other)),
    }
}
