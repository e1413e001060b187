//! Commands on strings: SET and its kin, and the counters.

use bytes::Bytes;

use super::commands::Call;
use super::machine::{Entry, Value};
use super::numbers::parse_integer;
use super::reply::Reply;

/// What a key held, if it can be used as a string.
fn string(entry: &Entry) -> &Bytes {
    match &entry.value {
        Value::String(value) => value,
    }
}

pub(crate) fn get(call: &mut Call<'_>) -> Reply {
    match call
        .machine
        .look(call.connection.db, &call.args[0], call.wall)
    {
        Some(entry) => Reply::Bulk(string(entry).clone()),
        None => Reply::Null,
    }
}

/// The options of SET, once they are known to go together.
#[derive(Default)]
struct Options {
    only_if: Option<Presence>,
    get: bool,
    expiry: Expiry,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Absent,
    Present,
}

/// What becomes of the key's deadline. The four ways to set one are told apart because giving one
/// of them twice is allowed and giving two of them is not.
#[derive(Default, Clone, PartialEq, Eq)]
enum Expiry {
    #[default]
    Clear,
    Keep,
    At {
        unit: Unit,
        time: Bytes,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
    UnixSeconds,
    UnixMillis,
}

impl Options {
    fn parse(mut words: &[Bytes]) -> Option<Self> {
        let mut options = Self::default();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            let mut lower = [0; 8];
            let lower = lower.get_mut(..word.len())?;
            lower.copy_from_slice(word);
            lower.make_ascii_lowercase();
            let unit = match &*lower {
                b"nx" => {
                    options.require(Presence::Absent)?;
                    continue;
                }
                b"xx" => {
                    options.require(Presence::Present)?;
                    continue;
                }
                b"get" => {
                    options.get = true;
                    continue;
                }
                b"keepttl" => {
                    if matches!(options.expiry, Expiry::At { .. }) {
                        return None;
                    }
                    options.expiry = Expiry::Keep;
                    continue;
                }
                b"ex" => Unit::Seconds,
                b"px" => Unit::Millis,
                b"exat" => Unit::UnixSeconds,
                b"pxat" => Unit::UnixMillis,
                _ => return None,
            };
            let (time, rest) = words.split_first()?;
            words = rest;
            match &options.expiry {
                Expiry::Clear => {}
                Expiry::At { unit: given, .. } if *given == unit => {}
                Expiry::Keep | Expiry::At { .. } => return None,
            }
            options.expiry = Expiry::At {
                unit,
                time: time.clone(),
            };
        }
        Some(options)
    }

    fn require(&mut self, presence: Presence) -> Option<()> {
        match self.only_if.replace(presence) {
            Some(other) if other != presence => None,
            _ => Some(()),
        }
    }
}

/// The deadline that SET is asked for.
fn deadline(unit: Unit, time: &[u8], wall: u64) -> Result<u64, Reply> {
    let invalid = || Reply::fixed_error("ERR invalid expire time in 'set' command");
    let time = parse_integer(time).ok_or(Reply::NOT_AN_INTEGER)?;
    if time <= 0 {
        return Err(invalid());
    }
    let millis = match unit {
        Unit::Seconds | Unit::UnixSeconds => time.checked_mul(1000).ok_or_else(invalid)?,
        Unit::Millis | Unit::UnixMillis => time,
    };
    let deadline = match unit {
        Unit::Seconds | Unit::Millis => i64::try_from(wall)
            .ok()
            .and_then(|wall| wall.checked_add(millis))
            .ok_or_else(invalid)?,
        Unit::UnixSeconds | Unit::UnixMillis => millis,
    };
    u64::try_from(deadline).map_err(|_| invalid())
}

pub(crate) fn set(call: &mut Call<'_>) -> Reply {
    let (key, value) = (&call.args[0], &call.args[1]);
    let Some(options) = Options::parse(&call.args[2..]) else {
        return Reply::SYNTAX_ERROR;
    };
    // The time is checked before the key is looked at: a wrong one fails whatever the key is.
    let deadline = match &options.expiry {
        Expiry::At { unit, time } => match deadline(*unit, time, call.wall) {
            Ok(deadline) => Some(deadline),
            Err(error) => return error,
        },
        Expiry::Clear | Expiry::Keep => None,
    };
    let db = call.connection.db;
    let before = call.machine.look(db, key, call.wall);
    let present = before.is_some();
    let kept = before
        .and_then(|entry| entry.deadline)
        .filter(|_| options.expiry == Expiry::Keep);
    let old = match before {
        Some(entry) if options.get => Reply::Bulk(string(entry).clone()),
        _ => Reply::Null,
    };
    let refused = match options.only_if {
        Some(Presence::Absent) => present,
        Some(Presence::Present) => !present,
        None => false,
    };
    if refused {
        return old;
    }
    let value = Value::String(value.clone());
    call.machine.put(
        db,
        key,
        Entry {
            value,
            deadline: deadline.or(kept),
        },
    );
    if options.get { old } else { Reply::OK }
}

pub(crate) fn setnx(call: &mut Call<'_>) -> Reply {
    let (key, value) = (&call.args[0], &call.args[1]);
    let db = call.connection.db;
    if call.machine.look(db, key, call.wall).is_some() {
        return Reply::ZERO;
    }
    call.machine.put(
        db,
        key,
        Entry {
            value: Value::String(value.clone()),
            deadline: None,
        },
    );
    Reply::ONE
}

pub(crate) fn incr(call: &mut Call<'_>) -> Reply {
    add(call, 1)
}

pub(crate) fn decr(call: &mut Call<'_>) -> Reply {
    add(call, -1)
}

pub(crate) fn incrby(call: &mut Call<'_>) -> Reply {
    match parse_integer(&call.args[1]) {
        Some(amount) => add(call, amount),
        None => Reply::NOT_AN_INTEGER,
    }
}

pub(crate) fn decrby(call: &mut Call<'_>) -> Reply {
    match parse_integer(&call.args[1]) {
        Some(i64::MIN) => Reply::fixed_error("ERR decrement would overflow"),
        Some(amount) => add(call, -amount),
        None => Reply::NOT_AN_INTEGER,
    }
}

/// Counts from 0 if the key is absent, and leaves its deadline alone.
fn add(call: &mut Call<'_>, amount: i64) -> Reply {
    let (db, key) = (call.connection.db, &call.args[0]);
    let (number, deadline) = match call.machine.look(db, key, call.wall) {
        Some(entry) => match parse_integer(string(entry)) {
            Some(number) => (number, entry.deadline),
            None => return Reply::NOT_AN_INTEGER,
        },
        None => (0, None),
    };
    let Some(sum) = number.checked_add(amount) else {
        return Reply::fixed_error("ERR increment or decrement would overflow");
    };
    let value = Value::String(Bytes::from(sum.to_string()));
    call.machine.put(db, key, Entry { value, deadline });
    Reply::Integer(sum)
}
