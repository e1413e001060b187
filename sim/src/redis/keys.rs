//! Commands on keys whatever they hold: deleting, expiring, counting.

use bytes::Bytes;

use super::commands::Call;
use super::machine::{Cause, DATABASES, Entry, Value};
use super::numbers::parse_integer;
use super::reply::Reply;

/// DEL, and UNLINK: freeing memory later rather than at once is not visible.
pub(crate) fn del(call: &mut Call<'_>) -> Reply {
    let db = call.connection.db;
    let mut deleted = 0;
    for key in call.args {
        // Looked at first: a key past its deadline goes by expiry and is not counted.
        if call.machine.look(db, key, call.wall).is_some() {
            call.machine.remove(db, key, Cause::Command);
            deleted += 1;
        }
    }
    Reply::Integer(deleted)
}

/// A key named twice counts twice.
pub(crate) fn exists(call: &mut Call<'_>) -> Reply {
    let db = call.connection.db;
    let mut present = 0;
    for key in call.args {
        present += i64::from(call.machine.look(db, key, call.wall).is_some());
    }
    Reply::Integer(present)
}

pub(crate) fn kind(call: &mut Call<'_>) -> Reply {
    match call
        .machine
        .look(call.connection.db, &call.args[0], call.wall)
    {
        Some(Entry {
            value: Value::String(_),
            ..
        }) => Reply::status("string"),
        None => Reply::status("none"),
    }
}

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
    let (db, key) = (call.connection.db, &call.args[0]);
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
    let Some(entry) = call.machine.look(db, key, call.wall) else {
        return Reply::ZERO;
    };
    if !conditions.allow(entry.deadline, deadline) {
        return Reply::ZERO;
    }
    match u64::try_from(deadline) {
        Ok(deadline) if deadline > call.wall => {
            let entry = Entry {
                value: entry.value.clone(),
                deadline: Some(deadline),
            };
            call.machine.put(db, key, entry);
        }
        // A deadline that is not in the future deletes, and that counts as success.
        _ => {
            call.machine.remove(db, key, Cause::Command);
        }
    }
    Reply::ONE
}

pub(crate) fn ttl(call: &mut Call<'_>) -> Reply {
    // Rounded to the nearest second, so that a fresh 10 s key shows 10.
    remaining(call, |millis| millis.saturating_add(500) / 1000)
}

pub(crate) fn pttl(call: &mut Call<'_>) -> Reply {
    remaining(call, |millis| millis)
}

fn remaining(call: &mut Call<'_>, in_unit: fn(u64) -> u64) -> Reply {
    let Some(entry) = call
        .machine
        .look(call.connection.db, &call.args[0], call.wall)
    else {
        return Reply::Integer(-2);
    };
    let Some(deadline) = entry.deadline else {
        return Reply::Integer(-1);
    };
    let remaining = in_unit(deadline.saturating_sub(call.wall));
    Reply::Integer(i64::try_from(remaining).unwrap_or(i64::MAX))
}

pub(crate) fn persist(call: &mut Call<'_>) -> Reply {
    let (db, key) = (call.connection.db, &call.args[0]);
    match call.machine.look(db, key, call.wall) {
        Some(Entry {
            value,
            deadline: Some(_),
        }) => {
            let entry = Entry {
                value: value.clone(),
                deadline: None,
            };
            call.machine.put(db, key, entry);
            Reply::ONE
        }
        _ => Reply::ZERO,
    }
}

pub(crate) fn dbsize(call: &mut Call<'_>) -> Reply {
    let size = call.machine.size(call.connection.db);
    Reply::Integer(i64::try_from(size).unwrap_or(i64::MAX))
}

pub(crate) fn flushdb(call: &mut Call<'_>) -> Reply {
    flush(call, call.connection.db..call.connection.db + 1)
}

pub(crate) fn flushall(call: &mut Call<'_>) -> Reply {
    flush(call, 0..DATABASES)
}

fn flush(call: &mut Call<'_>, databases: std::ops::Range<usize>) -> Reply {
    match call.args {
        [] => {}
        [mode] if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") => {}
        _ => return Reply::SYNTAX_ERROR,
    }
    for db in databases {
        call.machine.flush(db, Cause::Command);
    }
    Reply::OK
}
