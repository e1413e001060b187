//! Commands on strings: SET and its kin, and the counters. The others are in `texts.rs`.
//!
//! See <https://redis.io/docs/latest/commands/set/> and <https://redis.io/docs/latest/commands/incr/>.

use bytes::Bytes;

use super::commands::Call;
use super::machine::Entry;
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;
use super::value::Value;

/// What a key holds, if it can be used as a string.
pub(crate) fn string(entry: &Entry) -> Result<&Bytes, Reply> {
    match &entry.value {
        Value::String(value) => Ok(value),
        _ => Err(Reply::WRONG_TYPE),
    }
}

pub(crate) fn get(call: &mut Call<'_>) -> Result<Reply, Reply> {
    Ok(match call.read(&call.args[0]) {
        Some(entry) => Reply::Bulk(string(entry)?.clone()),
        None => Reply::Null,
    })
}

/// The options of SET or GETEX, once they are known to go together.
#[derive(Default)]
pub(crate) struct Options {
    only_if: Option<Presence>,
    get: bool,
    pub(crate) expiry: Expiry,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Absent,
    Present,
}

/// What becomes of the key's deadline. The four ways to set one are told apart because giving one
/// of them twice is allowed and giving two of them is not.
#[derive(Default, Clone, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Nothing was said: SET clears it, GETEX leaves it.
    #[default]
    Unsaid,
    /// KEEPTTL of SET, PERSIST of GETEX: the word that excludes a time.
    Word,
    At {
        unit: Unit,
        time: Bytes,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    UnixSeconds,
    UnixMillis,
}

impl Options {
    /// `getex` has a word of its own, and only the times in common with SET.
    pub(crate) fn parse(mut words: &[Bytes], getex: bool) -> Option<Self> {
        let mut options = Self::default();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            let mut lower = [0; 8];
            let lower = lower.get_mut(..word.len())?;
            lower.copy_from_slice(word);
            lower.make_ascii_lowercase();
            let unit = match &*lower {
                b"nx" if !getex => {
                    options.require(Presence::Absent)?;
                    continue;
                }
                b"xx" if !getex => {
                    options.require(Presence::Present)?;
                    continue;
                }
                b"get" if !getex => {
                    options.get = true;
                    continue;
                }
                b"keepttl" | b"persist" if getex == (lower[0] == b'p') => {
                    if matches!(options.expiry, Expiry::At { .. }) {
                        return None;
                    }
                    options.expiry = Expiry::Word;
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
                Expiry::Unsaid => {}
                Expiry::At { unit: given, .. } if *given == unit => {}
                Expiry::Word | Expiry::At { .. } => return None,
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

/// The deadline that a command is asked for.
pub(crate) fn deadline(name: &str, unit: Unit, time: &[u8], wall: u64) -> Result<u64, Reply> {
    let invalid = || Reply::error(format!("ERR invalid expire time in '{name}' command"));
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

pub(crate) fn set(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, value) = (&call.args[0], &call.args[1]);
    let options = Options::parse(&call.args[2..], false).ok_or(Reply::SYNTAX_ERROR)?;
    // The time is checked before the key is looked at: a wrong one fails whatever the key is.
    let deadline = match &options.expiry {
        Expiry::At { unit, time } => Some(deadline("set", *unit, time, call.wall)?),
        Expiry::Unsaid | Expiry::Word => None,
    };
    let before = if options.get {
        call.read(key)
    } else {
        call.look(key)
    };
    let present = before.is_some();
    let kept = before
        .and_then(|entry| entry.deadline)
        .filter(|_| options.expiry == Expiry::Word);
    let old = match before {
        Some(entry) if options.get => Reply::Bulk(string(entry)?.clone()),
        _ => Reply::Null,
    };
    let refused = match options.only_if {
        Some(Presence::Absent) => present,
        Some(Presence::Present) => !present,
        None => false,
    };
    if refused {
        return Ok(old);
    }
    call.put(key, Value::String(value.clone()), deadline.or(kept));
    call.notify(Class::STRING, "set", key);
    if deadline.is_some() {
        call.notify(Class::GENERIC, "expire", key);
    }
    Ok(if options.get { old } else { Reply::OK })
}

pub(crate) fn setnx(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, value) = (&call.args[0], &call.args[1]);
    if call.look(key).is_some() {
        return Ok(Reply::ZERO);
    }
    call.put(key, Value::String(value.clone()), None);
    call.notify(Class::STRING, "set", key);
    Ok(Reply::ONE)
}

fn set_for(call: &mut Call<'_>, unit: Unit) -> Result<Reply, Reply> {
    let (key, value) = (&call.args[0], &call.args[2]);
    let deadline = deadline(call.name, unit, &call.args[1], call.wall)?;
    // As SET does, which looks whether the key is there.
    call.look(key);
    call.put(key, Value::String(value.clone()), Some(deadline));
    call.notify(Class::STRING, "set", key);
    call.notify(Class::GENERIC, "expire", key);
    Ok(Reply::OK)
}

pub(crate) fn setex(call: &mut Call<'_>) -> Result<Reply, Reply> {
    set_for(call, Unit::Seconds)
}

pub(crate) fn psetex(call: &mut Call<'_>) -> Result<Reply, Reply> {
    set_for(call, Unit::Millis)
}

pub(crate) fn incr(call: &mut Call<'_>) -> Result<Reply, Reply> {
    add(call, 1)
}

pub(crate) fn decr(call: &mut Call<'_>) -> Result<Reply, Reply> {
    add(call, -1)
}

pub(crate) fn incrby(call: &mut Call<'_>) -> Result<Reply, Reply> {
    add(call, call.integer(1)?)
}

pub(crate) fn decrby(call: &mut Call<'_>) -> Result<Reply, Reply> {
    match call.integer(1)?.checked_neg() {
        Some(amount) => add(call, amount),
        None => Err(Reply::fixed_error("ERR decrement would overflow")),
    }
}

/// Counts from 0 if the key is absent, and leaves its deadline alone.
fn add(call: &mut Call<'_>, amount: i64) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let (number, deadline) = match call.look(key) {
        Some(entry) => {
            let number = parse_integer(string(entry)?).ok_or(Reply::NOT_AN_INTEGER)?;
            (number, entry.deadline)
        }
        None => (0, None),
    };
    let sum = number.checked_add(amount).ok_or(Reply::fixed_error(
        "ERR increment or decrement would overflow",
    ))?;
    let value = Value::String(Bytes::from(sum.to_string()));
    call.put(key, value, deadline);
    call.notify(Class::STRING, "incrby", key);
    Ok(Reply::Integer(sum))
}
