//! Commands on keys whatever they hold: deleting, renaming, copying, counting.
//! See <https://redis.io/docs/latest/commands/?group=generic>.

use super::commands::Call;
use super::connection::database;
use super::machine::{Cause, DATABASES};
use super::notify::{self, Class};
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
            call.notify(Class::GENERIC, "del", key);
            deleted += 1;
        }
    }
    Reply::Integer(deleted)
}

/// EXISTS, and TOUCH: when a key was last used is not kept. A key named twice counts twice.
pub(crate) fn exists(call: &mut Call<'_>) -> Reply {
    let mut present = 0;
    for key in call.args {
        present += i64::from(call.read(key).is_some());
    }
    Reply::Integer(present)
}

pub(crate) fn kind(call: &mut Call<'_>) -> Reply {
    let entry = call.read(&call.args[0]);
    Reply::status(entry.map_or("none", |entry| entry.value.type_name()))
}

/// The deadline goes with the value.
fn move_key(call: &mut Call<'_>, only_to_absent: bool) -> Result<Reply, Reply> {
    let (db, key, new) = (call.connection.db, &call.args[0], &call.args[1]);
    let Some(entry) = call.look(key).cloned() else {
        return Err(Reply::fixed_error("ERR no such key"));
    };
    if key == new {
        return Ok(if only_to_absent {
            Reply::ZERO
        } else {
            Reply::OK
        });
    }
    let replaced = call.look(new).is_some();
    if replaced && only_to_absent {
        return Ok(Reply::ZERO);
    }
    call.machine.put(db, new, entry);
    if replaced {
        call.notify(Class::NEW, "new", new);
    }
    call.machine.remove(db, key, Cause::Command);
    call.notify(Class::GENERIC, "rename_from", key);
    call.notify(Class::GENERIC, "rename_to", new);
    Ok(if only_to_absent {
        Reply::ONE
    } else {
        Reply::OK
    })
}

pub(crate) fn rename(call: &mut Call<'_>) -> Result<Reply, Reply> {
    move_key(call, false)
}

pub(crate) fn renamenx(call: &mut Call<'_>) -> Result<Reply, Reply> {
    move_key(call, true)
}

pub(crate) fn copy(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let [key, new, words @ ..] = call.args else {
        unreachable!("the arity asks for two keys")
    };
    let (mut db, mut replace, mut words) = (call.connection.db, false, words);
    while let Some((word, rest)) = words.split_first() {
        words = rest;
        if word.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if let [number, rest @ ..] = rest
            && word.eq_ignore_ascii_case(b"db")
        {
            words = rest;
            let number = parse_integer(number).ok_or(Reply::NOT_AN_INTEGER)?;
            db = database(number)?;
        } else {
            return Err(Reply::SYNTAX_ERROR);
        }
    }
    if db == call.connection.db && key == new {
        return Err(Reply::fixed_error(
            "ERR source and destination objects are the same",
        ));
    }
    let Some(entry) = call.read(key).cloned() else {
        return Ok(Reply::ZERO);
    };
    let replaced = call.machine.look(db, new, call.wall).is_some();
    if replaced && !replace {
        return Ok(Reply::ZERO);
    }
    call.machine.put(db, new, entry);
    if replaced {
        notify::publish(&mut call.machine.sessions, Class::NEW, "new", db, new);
    }
    notify::publish(
        &mut call.machine.sessions,
        Class::GENERIC,
        "copy_to",
        db,
        new,
    );
    Ok(Reply::ONE)
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
