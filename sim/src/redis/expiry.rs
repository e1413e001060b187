//! Commands on deadlines of keys. See <https://redis.io/docs/latest/commands/expire/>.

use bytes::Bytes;

use super::commands::Call;
use super::machine::{Cause, Entry};
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;

pub(crate) fn expire(call: &mut Call<'_>) -> Reply {
    set_deadline(call, 1000, call.wall)
}

pub(crate) fn pexpire(call: &mut Call<'_>) -> Reply {
    set_deadline(call, 1, call.wall)
}

pub(crate) fn expireat(call: &mut Call<'_>) -> Reply {
    set_deadline(call, 1000, 0)
}

pub(crate) fn pexpireat(call: &mut Call<'_>) -> Reply {
    set_deadline(call, 1, 0)
}

/// When the EXPIRE family may act.
#[derive(Default)]
struct Conditions {
    without_deadline: bool,
    with_deadline: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(words: &[Bytes]) -> Result<Self, Reply> {
        let mut conditions = Self::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => conditions.without_deadline = true,
                b"xx" => conditions.with_deadline = true,
                b"gt" => conditions.later = true,
                b"lt" => conditions.earlier = true,
                _ => return Err(Reply::error([b"ERR Unsupported option ", &**word].concat())),
            }
        }
        let Self {
            without_deadline,
            with_deadline,
            later,
            earlier,
        } = conditions;
        if without_deadline && (with_deadline || later || earlier) {
            return Err(Reply::fixed_error(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if later && earlier {
            return Err(Reply::fixed_error(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// A key without a deadline counts as one that never ends.
    fn allow(&self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|deadline| i64::try_from(deadline).unwrap_or(i64::MAX));
        !(self.without_deadline && old.is_some()
            || self.with_deadline && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

/// The EXPIRE family: `args[1]` times `unit` milliseconds after `base`.
fn set_deadline(call: &mut Call<'_>, unit: i64, base: u64) -> Reply {
    let key = &call.args[0];
    let conditions = match Conditions::parse(&call.args[2..]) {
        Ok(conditions) => conditions,
        Err(error) => return error,
    };
    let Some(time) = parse_integer(&call.args[1]) else {
        return Reply::NOT_AN_INTEGER;
    };
    let base = i64::try_from(base).unwrap_or(i64::MAX);
    let Some(deadline) = time
        .checked_mul(unit)
        .and_then(|millis| millis.checked_add(base))
    else {
        return Reply::error(format!(
            "ERR invalid expire time in '{}' command",
            call.name
        ));
    };
    let wall = call.wall;
    let Some(entry) = call.look(key) else {
        return Reply::ZERO;
    };
    if !conditions.allow(entry.deadline, deadline) {
        return Reply::ZERO;
    }
    match u64::try_from(deadline) {
        Ok(deadline) if deadline > wall => {
            let value = entry.value.clone();
            call.put(key, value, Some(deadline));
            call.notify(Class::GENERIC, "expire", key);
        }
        // A deadline that is not in the future deletes, and that counts as success.
        _ => {
            call.machine.remove(call.connection.db, key, Cause::Command);
            call.notify(Class::GENERIC, "del", key);
        }
    }
    Reply::ONE
}

/// What is answered of a deadline: -2 if there is no key, -1 if it has none.
fn tell(call: &mut Call<'_>, in_unit: fn(deadline: u64, wall: u64) -> u64) -> Reply {
    let wall = call.wall;
    match call.read(&call.args[0]).map(|entry| entry.deadline) {
        None => Reply::Integer(-2),
        Some(None) => Reply::Integer(-1),
        Some(Some(deadline)) => {
            Reply::Integer(i64::try_from(in_unit(deadline, wall)).unwrap_or(i64::MAX))
        }
    }
}

/// Rounded to the nearest second, so that a fresh 10 s key shows 10.
fn seconds(millis: u64) -> u64 {
    millis.saturating_add(500) / 1000
}

pub(crate) fn ttl(call: &mut Call<'_>) -> Reply {
    tell(call, |deadline, wall| {
        seconds(deadline.saturating_sub(wall))
    })
}

pub(crate) fn pttl(call: &mut Call<'_>) -> Reply {
    tell(call, u64::saturating_sub)
}

pub(crate) fn expiretime(call: &mut Call<'_>) -> Reply {
    tell(call, |deadline, _| seconds(deadline))
}

pub(crate) fn pexpiretime(call: &mut Call<'_>) -> Reply {
    tell(call, |deadline, _| deadline)
}

pub(crate) fn persist(call: &mut Call<'_>) -> Reply {
    let key = &call.args[0];
    match call.look(key) {
        Some(Entry {
            value,
            deadline: Some(_),
        }) => {
            let value = value.clone();
            call.put(key, value, None);
            call.notify(Class::GENERIC, "persist", key);
            Reply::ONE
        }
        _ => Reply::ZERO,
    }
}
