//! Commands on sets. See <https://redis.io/docs/latest/commands/?group=set>.
//!
//! Which member SPOP and SRANDMEMBER choose comes from a sequence of the server's own, the same in
//! every run.
//!
//! Deliberately absent: the commands on several sets, such as SINTER; SMOVE.

use std::sync::Arc;

use bytes::Bytes;

use super::commands::Call;
use super::lists::positive;
use super::machine::Cause;
use super::notify::Class;
use super::reply::Reply;
use super::value::{Collection, Set};

pub(crate) fn sadd(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let (mut set, deadline) = call.modify_or_new::<Set>(key)?;
    let members = Arc::make_mut(&mut set);
    let added = call.args[1..]
        .iter()
        .filter(|member| members.insert(member))
        .count();
    if added > 0 {
        call.save(key, (set, deadline), Class::SET, "sadd");
    }
    Ok(Reply::count(added))
}

pub(crate) fn srem(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let Some((mut set, deadline)) = call.modify::<Set>(key)? else {
        return Ok(Reply::ZERO);
    };
    let members = Arc::make_mut(&mut set);
    let removed = call.args[1..]
        .iter()
        .filter(|member| members.remove(member))
        .count();
    if removed > 0 {
        call.save(key, (set, deadline), Class::SET, "srem");
    }
    Ok(Reply::count(removed))
}

fn contains(set: Option<&Set>, member: &Bytes) -> Reply {
    Reply::Integer(set.is_some_and(|set| set.contains(member)).into())
}

pub(crate) fn sismember(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let member = &call.args[1];
    Ok(contains(call.read_as(&call.args[0])?, member))
}

pub(crate) fn smismember(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let members = &call.args[1..];
    let set = call.read_as(&call.args[0])?;
    Ok(Reply::Array(
        members.iter().map(|member| contains(set, member)).collect(),
    ))
}

pub(crate) fn smembers(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let set = call.read_as::<Set>(&call.args[0])?;
    let members = set.into_iter().flat_map(Set::members);
    Ok(Reply::Set(members.cloned().map(Reply::Bulk).collect()))
}

pub(crate) fn scard(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let set = call.read_as::<Set>(&call.args[0])?;
    Ok(Reply::count(set.map_or(0, Set::len)))
}

pub(crate) fn spop(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let count = match &call.args[1..] {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(Reply::SYNTAX_ERROR),
    };
    let Some((mut set, deadline)) = call.modify::<Set>(key)? else {
        return Ok(count.map_or(Reply::Null, |_| Reply::Set(Vec::new())));
    };
    let wanted = count.unwrap_or(1).min(set.len());
    if wanted == 0 {
        return Ok(Reply::Set(Vec::new()));
    }
    if count.is_some() && wanted == set.len() {
        call.machine.remove(call.connection.db, key, Cause::Command);
        call.notify(Class::SET, "spop", key);
        call.notify(Class::GENERIC, "del", key);
        return Ok(Reply::Set(
            set.members().cloned().map(Reply::Bulk).collect(),
        ));
    }
    let members = &mut Arc::make_mut(&mut set).members;
    let mut popped = Vec::with_capacity(wanted);
    for _ in 0..wanted {
        let chosen = call.machine.sessions.draw(members.len());
        popped.push(Reply::Bulk(members.remove(chosen)));
    }
    call.save(key, (set, deadline), Class::SET, "spop");
    match count {
        Some(_) => Ok(Reply::Set(popped)),
        None => Ok(popped.remove(0)),
    }
}

/// A negative count may choose a member again.
pub(crate) fn srandmember(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let count = match &call.args[1..] {
        [] => None,
        [_] => Some(call.integer(1)?),
        _ => return Err(Reply::SYNTAX_ERROR),
    };
    if count == Some(i64::MIN) {
        return Err(Reply::fixed_error(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    let set = call.read_as::<Set>(&call.args[0])?;
    let mut members: Vec<_> = set.into_iter().flat_map(Set::members).cloned().collect();
    let mut draw = |below: usize| call.machine.sessions.draw(below);
    let Some(count) = count else {
        return Ok(match members.len() {
            0 => Reply::Null,
            length => Reply::Bulk(members.swap_remove(draw(length))),
        });
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if members.is_empty() || wanted == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let chosen = if count < 0 {
        (0..wanted)
            .map(|_| members[draw(members.len())].clone())
            .collect()
    } else if wanted >= members.len() {
        members
    } else {
        (0..wanted)
            .map(|_| members.remove(draw(members.len())))
            .collect::<Vec<_>>()
    };
    Ok(Reply::Array(chosen.into_iter().map(Reply::Bulk).collect()))
}
