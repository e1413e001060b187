//! The commands that run scripts and keep them.
//! See <https://redis.io/docs/latest/develop/programmability/eval-intro/>.

use bytes::Bytes;

use super::commands::Call;
use super::lua::{self, Compiled, Sha};
use super::machine::Machine;
use super::numbers::parse_integer;
use super::reply::Reply;

pub(crate) fn eval(call: &mut Call<'_>) -> Reply {
    let body = &call.args[0];
    match split_keys(&call.args[1..]) {
        Ok((keys, args)) => match remember(call, body) {
            Ok(script) => run(&script, keys, args, call),
            Err(error) => error,
        },
        Err(error) => error,
    }
}

/// A script that says that it may write is refused where nobody may; one that says nothing only
/// when it does.
fn run(script: &Compiled, keys: &[Bytes], args: &[Bytes], call: &mut Call<'_>) -> Reply {
    let refusal = call.machine.replication.refusal_to_write();
    match refusal.filter(|_| script.says_flags && !script.read_only) {
        Some(refusal) => refusal,
        None => lua::run(script, keys, args, call),
    }
}

pub(crate) fn evalsha(call: &mut Call<'_>) -> Reply {
    let (keys, args) = match split_keys(&call.args[1..]) {
        Ok(split) => split,
        Err(error) => return error,
    };
    let body = sha(&call.args[0]).and_then(|sha| call.machine.scripts.get(&sha).cloned());
    let Some(body) = body else {
        return Reply::fixed_error("NOSCRIPT No matching script. Please use EVAL.");
    };
    match lua::compile(&body) {
        Ok(script) => run(&script, keys, args, call),
        Err(error) => error,
    }
}

pub(crate) fn load(call: &mut Call<'_>) -> Reply {
    let body = &call.args[0];
    match remember(call, body) {
        Ok(script) => Reply::Bulk(Bytes::copy_from_slice(&script.sha)),
        Err(error) => error,
    }
}

pub(crate) fn exists(call: &mut Call<'_>) -> Reply {
    let known = |word: &Bytes| {
        let known = sha(word).is_some_and(|sha| call.machine.scripts.contains_key(&sha));
        Reply::Integer(known.into())
    };
    Reply::Array(call.args.iter().map(known).collect())
}

pub(crate) fn flush(call: &mut Call<'_>) -> Reply {
    match call.args {
        [] => {}
        [mode] if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") => {}
        _ => return Reply::fixed_error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
    }
    call.machine.scripts.clear();
    Reply::OK
}

/// A script takes no time here, so there is never one to kill.
pub(crate) fn kill(_: &mut Call<'_>) -> Reply {
    Reply::fixed_error("NOTBUSY No scripts in execution right now.")
}

/// Whether a request runs a script that has promised not to write.
pub(crate) fn is_read_only(machine: &Machine, name: &str, request: &[Bytes]) -> bool {
    let body = match (name, request) {
        ("eval", [_, body, ..]) => Some(body),
        ("evalsha", [_, word, ..]) => sha(word).and_then(|sha| machine.scripts.get(&sha)),
        _ => None,
    };
    let script = body.and_then(|body| lua::compile(body).ok());
    script.is_some_and(|script| script.read_only)
}

/// Compiles `body` and lets this server's `EVALSHA` find it. The compiled function itself belongs
/// to the thread: whether a server knows a script must not depend on its neighbours.
fn remember(call: &mut Call<'_>, body: &Bytes) -> Result<std::rc::Rc<Compiled>, Reply> {
    let script = lua::compile(body)?;
    call.machine
        .scripts
        .entry(script.sha)
        .or_insert_with(|| body.clone());
    Ok(script)
}

/// The words after the script: how many keys, the keys, the other arguments.
fn split_keys(words: &[Bytes]) -> Result<(&[Bytes], &[Bytes]), Reply> {
    let (count, words) = words
        .split_first()
        .expect("the arity asks for a number of keys");
    let count = parse_integer(count).ok_or(Reply::NOT_AN_INTEGER)?;
    if count < 0 {
        return Err(Reply::fixed_error("ERR Number of keys can't be negative"));
    }
    usize::try_from(count)
        .ok()
        .and_then(|count| words.split_at_checked(count))
        .ok_or(Reply::fixed_error(
            "ERR Number of keys can't be greater than number of args",
        ))
}

fn sha(word: &[u8]) -> Option<Sha> {
    let mut sha = Sha::try_from(word).ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}
