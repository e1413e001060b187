//! The other commands on strings: reading and writing several at once, lengthening them, reading
//! one and changing its deadline.
//! See <https://redis.io/docs/latest/commands/?group=string>.
//!
//! Deliberately absent: GETRANGE, SETRANGE, INCRBYFLOAT, LCS.

use bytes::Bytes;

use super::commands::{Call, wrong_arity};
use super::machine::Cause;
use super::notify::Class;
use super::reply::Reply;
use super::strings::{Expiry, Options, deadline, string};
use super::value::Value;

pub(crate) fn strlen(call: &mut Call<'_>) -> Result<Reply, Reply> {
    Ok(match call.read(&call.args[0]) {
        Some(entry) => Reply::count(string(entry)?.len()),
        None => Reply::ZERO,
    })
}

pub(crate) fn append(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, more) = (&call.args[0], &call.args[1]);
    let (text, deadline) = match call.look(key) {
        Some(entry) => (string(entry)?.clone(), entry.deadline),
        None => (Bytes::new(), None),
    };
    let text = Bytes::from([text, more.clone()].concat());
    let length = text.len();
    call.put(key, Value::String(text), deadline);
    call.notify(Class::STRING, "append", key);
    Ok(Reply::count(length))
}

pub(crate) fn getset(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, value) = (&call.args[0], &call.args[1]);
    let old = match call.read(key) {
        Some(entry) => Reply::Bulk(string(entry)?.clone()),
        None => Reply::Null,
    };
    call.put(key, Value::String(value.clone()), None);
    call.notify(Class::STRING, "set", key);
    Ok(old)
}

pub(crate) fn getdel(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let Some(entry) = call.read(key) else {
        return Ok(Reply::Null);
    };
    let value = string(entry)?.clone();
    call.machine.remove(call.connection.db, key, Cause::Command);
    call.notify(Class::GENERIC, "del", key);
    Ok(Reply::Bulk(value))
}

/// The time is checked after the key: a wrong one is no error if there is no key.
pub(crate) fn getex(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let options = Options::parse(&call.args[1..], true).ok_or(Reply::SYNTAX_ERROR)?;
    let Some(entry) = call.read(key) else {
        return Ok(Reply::Null);
    };
    let (value, before) = (string(entry)?.clone(), entry.deadline);
    let after = match &options.expiry {
        Expiry::Unsaid => return Ok(Reply::Bulk(value)),
        Expiry::Word => None,
        Expiry::At { unit, time } => Some(deadline("getex", *unit, time, call.wall)?),
    };
    let stored = Value::String(value.clone());
    match after {
        Some(deadline) if deadline > call.wall => {
            call.put(key, stored, after);
            call.notify(Class::GENERIC, "expire", key);
        }
        Some(_) => {
            call.machine.remove(call.connection.db, key, Cause::Command);
            call.notify(Class::GENERIC, "del", key);
        }
        None if before.is_some() => {
            call.put(key, stored, None);
            call.notify(Class::GENERIC, "persist", key);
        }
        None => {}
    }
    Ok(Reply::Bulk(value))
}

/// A key that is no string counts as absent.
pub(crate) fn mget(call: &mut Call<'_>) -> Reply {
    let mut values = Vec::with_capacity(call.args.len());
    for key in call.args {
        let value = call.read(key).and_then(|entry| string(entry).ok().cloned());
        values.push(Reply::maybe(value));
    }
    Reply::Array(values)
}

fn set_all(call: &mut Call<'_>) {
    for pair in call.args.chunks_exact(2) {
        call.look(&pair[0]);
        call.put(&pair[0], Value::String(pair[1].clone()), None);
        call.notify(Class::STRING, "set", &pair[0]);
    }
}

pub(crate) fn mset(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.args.len() % 2 == 1 {
        return Err(wrong_arity(call.name));
    }
    set_all(call);
    Ok(Reply::OK)
}

/// All or nothing.
pub(crate) fn msetnx(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.args.len() % 2 == 1 {
        return Err(wrong_arity(call.name));
    }
    for pair in call.args.chunks_exact(2) {
        if call.look(&pair[0]).is_some() {
            return Ok(Reply::ZERO);
        }
    }
    set_all(call);
    Ok(Reply::ONE)
}
