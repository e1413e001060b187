//! Values between Redis and Lua, both ways.
//!
//! Redis's rules: a script's `nil` and `false` are a null reply and a null reply is `false`; a
//! number loses its fraction; a table is an array up to its first `nil` unless a field such as
//! `ok`, `err` or `map` says otherwise.

use bytes::Bytes;
use mlua::{Lua, LuaString, Table, Value};

use crate::redis::numbers::format_double;
use crate::redis::reply::{Reply, one_line, unbroken};

/// How deep a script's reply may nest.
pub(crate) const DEPTH: usize = 500;

/// The field names that give a table a meaning, made once: every table a script returns is asked
/// for each of them.
pub(super) struct Fields {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    map: LuaString,
    set: LuaString,
    big_number: LuaString,
    verbatim: LuaString,
}

impl Fields {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim: lua.create_string("verbatim_string")?,
        })
    }
}

pub(super) fn bytes(text: &LuaString) -> Bytes {
    Bytes::copy_from_slice(&text.as_bytes())
}

/// What a script returned, as a reply.
pub(super) fn to_reply(value: &Value, fields: &Fields, depth: usize) -> Reply {
    if depth > DEPTH {
        return Reply::fixed_error("ERR reached lua stack limit");
    }
    match value {
        Value::String(text) => Reply::Bulk(bytes(text)),
        Value::Integer(number) => Reply::Integer(truncate(*number as f64, Some(*number))),
        Value::Number(number) => Reply::Integer(truncate(*number, None)),
        Value::Boolean(truth) => Reply::Bool(*truth),
        Value::Table(table) => table_to_reply(table, fields, depth),
        _ => Reply::Null,
    }
}

/// The integer a C cast would give on the machines Redis runs on: whatever does not fit is the
/// smallest one.
fn truncate(number: f64, exact: Option<i64>) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        exact.unwrap_or(number as i64)
    } else {
        i64::MIN
    }
}

fn table_to_reply(table: &Table, fields: &Fields, depth: usize) -> Reply {
    let field = |name: &LuaString| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let nested = |value: &Value| to_reply(value, fields, depth + 1);
    if let Value::String(text) = field(&fields.err) {
        return Reply::Error(one_line(text.as_bytes().to_vec()));
    }
    if let Value::String(text) = field(&fields.ok) {
        return Reply::Status(one_line(text.as_bytes().to_vec()));
    }
    match field(&fields.double) {
        Value::Integer(number) => return Reply::Double(number as f64),
        Value::Number(number) => return Reply::Double(number),
        _ => {}
    }
    if let Value::Table(map) = field(&fields.map) {
        let pairs = map.pairs::<Value, Value>().flatten();
        return Reply::Map(
            pairs
                .map(|(key, value)| (nested(&key), nested(&value)))
                .collect(),
        );
    }
    if let Value::Table(set) = field(&fields.set) {
        let members = set.pairs::<Value, Value>().flatten();
        return Reply::Set(members.map(|(member, _)| nested(&member)).collect());
    }
    if let Value::String(digits) = field(&fields.big_number) {
        return Reply::BigNumber(unbroken(digits.as_bytes().to_vec()));
    }
    if let Value::Table(verbatim) = field(&fields.verbatim) {
        let part = |name| match verbatim.raw_get(name) {
            Ok(Value::String(text)) => Some(bytes(&text)),
            _ => None,
        };
        if let (Some(text), Some(format)) = (part("string"), part("format")) {
            let format = format.slice(..format.len().min(3));
            return Reply::Verbatim { format, text };
        }
    }
    let mut items = Vec::new();
    for index in 1.. {
        match table.raw_get(index) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(value) => items.push(nested(&value)),
        }
    }
    Reply::Array(items)
}

impl Reply {
    /// Gives a script's `true` and `false` the meaning they have in the version of replies that
    /// the script chose: truth in RESP3, and in RESP2 the number 1 and nothing at all.
    pub(super) fn resolve(self, resp3: bool) -> Self {
        if resp3 {
            return self;
        }
        let all = |items: Vec<Self>| items.into_iter().map(|item| item.resolve(false)).collect();
        match self {
            Self::Bool(true) => Self::ONE,
            Self::Bool(false) => Self::Null,
            Self::Array(items) => Self::Array(all(items)),
            Self::Set(items) => Self::Set(all(items)),
            Self::Map(pairs) => {
                let both = |(key, value): (Self, Self)| (key.resolve(false), value.resolve(false));
                Self::Map(pairs.into_iter().map(both).collect())
            }
            other => other,
        }
    }
}

/// A reply as a script sees it. Errors are the caller's to raise or to return.
pub(super) fn to_lua(lua: &Lua, reply: Reply, resp3: bool) -> mlua::Result<Value> {
    let single = |name: &str, value: Value| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    };
    let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    Ok(match reply {
        Reply::BigNumber(digits) if resp3 => single("big_number", text(&digits)?)?,
        Reply::Verbatim {
            format,
            text: string,
        } if resp3 => {
            let parts = lua.create_table_with_capacity(0, 2)?;
            parts.raw_set("string", text(&string)?)?;
            parts.raw_set("format", text(&format)?)?;
            single("verbatim_string", Value::Table(parts))?
        }
        Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim { text: bytes, .. } => {
            text(&bytes)?
        }
        // Lua 5.1 has only floating point numbers.
        Reply::Integer(number) => Value::Number(number as f64),
        Reply::Null | Reply::NullArray if resp3 => Value::Nil,
        Reply::Null | Reply::NullArray => Value::Boolean(false),
        Reply::Status(status) => single("ok", text(&status)?)?,
        Reply::Close => single("ok", text(b"OK")?)?,
        Reply::Error(error) => single("err", text(&error)?)?,
        Reply::Bool(truth) if resp3 => Value::Boolean(truth),
        Reply::Bool(truth) => Value::Number(f64::from(u8::from(truth))),
        Reply::Double(number) if resp3 => single("double", Value::Number(number))?,
        Reply::Double(number) => text(format_double(number).as_bytes())?,
        Reply::Map(pairs) if resp3 => {
            let map = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                map.raw_set(to_lua(lua, key, true)?, to_lua(lua, value, true)?)?;
            }
            single("map", Value::Table(map))?
        }
        Reply::Set(members) if resp3 => {
            let set = lua.create_table_with_capacity(0, members.len())?;
            for member in members {
                set.raw_set(to_lua(lua, member, true)?, true)?;
            }
            single("set", Value::Table(set))?
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (item, index) in items.into_iter().zip(1_i64..) {
                table.raw_set(index, to_lua(lua, item, resp3)?)?;
            }
            Value::Table(table)
        }
        Reply::Map(pairs) => {
            let items = pairs
                .into_iter()
                .flat_map(|(key, value)| [key, value])
                .collect();
            to_lua(lua, Reply::Array(items), resp3)?
        }
        // Only commands that a script may not call.
        Reply::Sequence(_) | Reply::In { .. } | Reply::Blocked => Value::Nil,
    })
}

/// An argument of `redis.call`, which must be a string or a number.
pub(super) fn to_argument(value: &Value) -> Option<Bytes> {
    /// Below this an integer is written without an exponent.
    const PLAIN: u64 = 100_000_000_000_000_000;
    match value {
        Value::String(text) => Some(bytes(text)),
        Value::Integer(number) if number.unsigned_abs() < PLAIN => {
            Some(Bytes::from(number.to_string()))
        }
        Value::Integer(number) => Some(Bytes::from(format_double(*number as f64))),
        Value::Number(number) => Some(Bytes::from(format_double(*number))),
        _ => None,
    }
}
