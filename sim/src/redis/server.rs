//! What a server tells of itself: INFO, CONFIG, COMMAND, OBJECT.
//!
//! Only what is modelled is told, and only `notify-keyspace-events` and `min-replicas-*` can be set:
//! a limit of memory that nobody enforces would be a lie.
//! See <https://redis.io/docs/latest/commands/?group=server>.
//!
//! Deliberately absent: DEBUG, MEMORY, LATENCY, SLOWLOG, LOLWUT; the HELP of every container.

use std::fmt::Write;

use bytes::Bytes;

use super::commands::{self, Call, find};
use super::machine::DATABASES;
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;
use super::scan::matches;
use super::table::{ALL, Command, Kind};
use super::value::Value;

/// Settings that stay as they are: how this server behaves, in the words of Redis.
const FIXED: [(&str, &str); 10] = [
    ("appendonly", "no"),
    ("busy-reply-threshold", "5000"),
    ("databases", "16"),
    ("hash-max-listpack-entries", "128"),
    ("hz", "10"),
    ("lua-time-limit", "5000"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("save", ""),
    ("timeout", "0"),
];

const EVENTS: &str = "notify-keyspace-events";

/// Settings of how many replicas must be near, by both of their names.
const REPLICAS: [(&str, &str); 2] = [
    ("min-replicas-to-write", "min-slaves-to-write"),
    ("min-replicas-max-lag", "min-slaves-max-lag"),
];

/// The names are in the order of the alphabet; in Redis they are in none. A name that was asked for
/// as it is, not by a pattern, is spelt as it was in the question.
pub(crate) fn config_get(call: &mut Call<'_>) -> Reply {
    let events = call.machine.sessions.events.letters();
    let replication = &call.machine.replication;
    let numbers = [replication.needed, replication.max_lag].map(|number| number.to_string());
    let mut settings: Vec<_> = FIXED.into_iter().chain([(EVENTS, &*events)]).collect();
    for ((name, old), value) in REPLICAS.iter().zip(&numbers) {
        settings.extend([(*name, &**value), (*old, &**value)]);
    }
    settings.sort_unstable();
    let is_pattern = |word: &Bytes| word.iter().any(|byte| b"[*?".contains(byte));
    let asked = |name: &'static str| {
        call.args.iter().find_map(|word| {
            let lower = word.to_ascii_lowercase();
            match is_pattern(word) {
                true => matches(&lower, name.as_bytes()).then(|| Bytes::from(name)),
                false => (lower == name.as_bytes()).then(|| word.clone()),
            }
        })
    };
    let chosen = settings.iter().filter_map(|(name, value)| {
        let value = Reply::Bulk(Bytes::from((*value).to_owned()));
        asked(name).map(|name| (Reply::Bulk(name), value))
    });
    Reply::Map(chosen.collect())
}

/// All or nothing.
pub(crate) fn config_set(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.args.len() % 2 == 1 {
        return Err(Reply::SYNTAX_ERROR);
    }
    let failed = |name: &[u8], why: &str| {
        let start = b"ERR CONFIG SET failed (possibly related to argument '".as_slice();
        Reply::error([start, name, b"') - ", why.as_bytes()].concat())
    };
    let mut events = None;
    let mut numbers = [None; REPLICAS.len()];
    for pair in call.args.chunks_exact(2) {
        let name = pair[0].to_ascii_lowercase();
        if name == EVENTS.as_bytes() {
            if events.is_some() {
                return Err(failed(&pair[0], "duplicate parameter"));
            }
            let classes = Class::parse(&pair[1]).ok_or_else(|| {
                let why = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
                failed(EVENTS.as_bytes(), why)
            })?;
            events = Some(classes);
        } else if let Some(place) = REPLICAS
            .iter()
            .position(|(new, old)| [new, old].iter().any(|known| known.as_bytes() == name))
        {
            if numbers[place].is_some() {
                return Err(failed(&pair[0], "duplicate parameter"));
            }
            let number = parse_integer(&pair[1])
                .ok_or_else(|| failed(&pair[0], "argument couldn't be parsed into an integer"))?;
            let number = u64::try_from(number).ok().filter(|n| *n <= i32::MAX as u64);
            let why = "argument must be between 0 and 2147483647 inclusive";
            numbers[place] = Some(number.ok_or_else(|| failed(&pair[0], why))?);
        } else if FIXED.iter().any(|(fixed, _)| fixed.as_bytes() == name) {
            return Err(failed(&name, "can't set immutable config"));
        } else {
            let start = b"ERR Unknown option or number of arguments for CONFIG SET - '".as_slice();
            return Err(Reply::error([start, &pair[0], b"'"].concat()));
        }
    }
    if let Some(events) = events {
        call.machine.sessions.events = events;
    }
    let [needed, max_lag] = numbers;
    let replication = &mut call.machine.replication;
    replication.needed = needed.unwrap_or(replication.needed);
    replication.max_lag = max_lag.unwrap_or(replication.max_lag);
    if numbers.iter().any(Option::is_some) {
        replication.count_good(call.wall);
    }
    Ok(Reply::OK)
}

/// Nothing is counted.
pub(crate) fn config_resetstat(_: &mut Call<'_>) -> Reply {
    Reply::OK
}

/// The sections that were asked for, all of them without arguments. Unknown ones are passed over.
pub(crate) fn info(call: &mut Call<'_>) -> Reply {
    let everything = ["all", "default", "everything"];
    let is = |word: &Bytes, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let all = call.args.is_empty()
        || call
            .args
            .iter()
            .any(|word| everything.iter().any(|name| is(word, name)));
    let mut text = String::new();
    for (name, section) in [
        ("Server", server(call)),
        ("Clients", clients(call)),
        ("Replication", call.machine.replication.info(call.wall)),
        ("Keyspace", keyspace(call)),
    ] {
        if all || call.args.iter().any(|word| is(word, name)) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            write!(text, "{gap}# {name}\r\n{section}").expect("a string grows");
        }
    }
    Reply::Verbatim {
        format: Bytes::from_static(b"txt"),
        text: text.into(),
    }
}

fn server(call: &Call<'_>) -> String {
    let micros = call.wall.saturating_mul(1000);
    format!(
        "redis_version:7.0.15\r\nredis_mode:standalone\r\nserver_time_usec:{micros}\r\nhz:10\r\n"
    )
}

fn clients(call: &Call<'_>) -> String {
    format!(
        "blocked_clients:{}\r\n",
        call.machine.sessions.blocked.len()
    )
}

fn keyspace(call: &Call<'_>) -> String {
    let mut text = String::new();
    for db in 0..DATABASES {
        let keys = call.machine.size(db);
        if keys > 0 {
            let entries = call.machine.entries_of(db);
            let expires = entries
                .filter(|(_, entry)| entry.deadline.is_some())
                .count();
            writeln!(text, "db{db}:keys={keys},expires={expires},avg_ttl=0\r")
                .expect("a string grows");
        }
    }
    text
}

/// What client libraries and redis-cli ask when they connect.
pub(crate) fn command(call: &mut Call<'_>) -> Reply {
    let Some((word, names)) = call.args.split_first() else {
        return Reply::Array(ALL.iter().map(describe).collect());
    };
    let name = word.to_ascii_lowercase();
    match (&*name, names) {
        (b"count", []) => Reply::count(ALL.len()),
        (b"count", _) => commands::wrong_arity("command|count"),
        (b"docs", _) => Reply::Map(Vec::new()),
        (b"info", []) => Reply::Array(ALL.iter().map(describe).collect()),
        (b"info", names) => {
            let found = names.iter().map(|name| find(ALL, "", name));
            Reply::Array(
                found
                    .map(|found| found.map_or(Reply::NullArray, describe))
                    .collect(),
            )
        }
        (b"list", []) => {
            let name = |command: &Command| Reply::bulk(command.name);
            Reply::Array(ALL.iter().map(name).collect())
        }
        (b"list", _) => Reply::SYNTAX_ERROR,
        _ => commands::unknown_subcommand(word, "command", false),
    }
}

/// Name, arity and flags; keys and everything after them are not described.
fn describe(command: &Command) -> Reply {
    let flags: &[&'static str] = match command.kind {
        Kind::Read => &["readonly"],
        Kind::Write => &["write"],
        Kind::Publish => &[],
        Kind::NoScript | Kind::Script => &["noscript"],
        Kind::Take => &["write", "noscript"],
    };
    let empty = || Reply::Array(Vec::new());
    Reply::Array(vec![
        Reply::bulk(command.name),
        Reply::Integer(command.arity.into()),
        Reply::Set(flags.iter().copied().map(Reply::status).collect()),
        Reply::ZERO,
        Reply::ZERO,
        Reply::ZERO,
        Reply::Set(Vec::new()),
        empty(),
        empty(),
        empty(),
    ])
}

/// As Redis would keep a value that was written in one piece.
pub(crate) fn object_encoding(call: &mut Call<'_>) -> Reply {
    /// The longest string that Redis keeps beside its header.
    const EMBEDDED: usize = 44;
    /// How many members, and how long, a compact collection may have.
    const COMPACT: (usize, usize) = (128, 64);
    let compact = |count: usize, mut texts: Box<dyn Iterator<Item = &Bytes> + '_>| {
        count <= COMPACT.0 && texts.all(|text| text.len() <= COMPACT.1)
    };
    let Some(entry) = call.look(&call.args[0]) else {
        return Reply::Null;
    };
    Reply::bulk(match &entry.value {
        Value::String(text) if parse_integer(text).is_some() => "int",
        Value::String(text) if text.len() <= EMBEDDED => "embstr",
        Value::String(_) => "raw",
        Value::List(_) => "quicklist",
        Value::Set(set) if set.integers => "intset",
        Value::Set(_) => "hashtable",
        Value::Hash(hash) => {
            let texts = hash.fields().flat_map(|(field, value)| [field, value]);
            let compact = compact(hash.fields.len(), Box::new(texts));
            if compact { "listpack" } else { "hashtable" }
        }
        Value::Sorted(sorted) => {
            let texts = sorted.members().map(|(member, _)| member);
            let compact = compact(sorted.members.len(), Box::new(texts));
            if compact { "listpack" } else { "skiplist" }
        }
    })
}
