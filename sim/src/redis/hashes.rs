//! Commands on hashes. See <https://redis.io/docs/latest/commands/?group=hash>.
//!
//! Deliberately absent: HINCRBYFLOAT and HRANDFIELD.

use std::sync::Arc;

use bytes::Bytes;

use super::commands::{Call, wrong_arity};
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;
use super::value::{Collection, Hash};

/// Sets pairs and says how many fields are new.
fn set_all(call: &mut Call<'_>) -> Result<usize, Reply> {
    let (key, pairs) = (&call.args[0], &call.args[1..]);
    if pairs.len() % 2 == 1 {
        return Err(wrong_arity(call.name));
    }
    let (mut hash, deadline) = call.modify_or_new::<Hash>(key)?;
    let fields = Arc::make_mut(&mut hash);
    let mut new = 0;
    for pair in pairs.chunks_exact(2) {
        new += usize::from(fields.set(&pair[0], pair[1].clone()));
    }
    call.save(key, (hash, deadline), Class::HASH, "hset");
    Ok(new)
}

pub(crate) fn hset(call: &mut Call<'_>) -> Result<Reply, Reply> {
    set_all(call).map(Reply::count)
}

pub(crate) fn hmset(call: &mut Call<'_>) -> Result<Reply, Reply> {
    set_all(call).map(|_| Reply::OK)
}

pub(crate) fn hsetnx(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, field) = (&call.args[0], &call.args[1]);
    let (mut hash, deadline) = call.modify_or_new::<Hash>(key)?;
    if hash.get(field).is_some() {
        return Ok(Reply::ZERO);
    }
    Arc::make_mut(&mut hash).set(field, call.args[2].clone());
    call.save(key, (hash, deadline), Class::HASH, "hset");
    Ok(Reply::ONE)
}

pub(crate) fn hincrby(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, field) = (&call.args[0], &call.args[1]);
    let amount = call.integer(2)?;
    let (mut hash, deadline) = call.modify_or_new::<Hash>(key)?;
    let number = match hash.get(field) {
        Some(value) => {
            parse_integer(value).ok_or(Reply::fixed_error("ERR hash value is not an integer"))?
        }
        None => 0,
    };
    let sum = number.checked_add(amount).ok_or(Reply::fixed_error(
        "ERR increment or decrement would overflow",
    ))?;
    Arc::make_mut(&mut hash).set(field, Bytes::from(sum.to_string()));
    call.save(key, (hash, deadline), Class::HASH, "hincrby");
    Ok(Reply::Integer(sum))
}

pub(crate) fn hdel(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let Some((mut hash, deadline)) = call.modify::<Hash>(key)? else {
        return Ok(Reply::ZERO);
    };
    let fields = Arc::make_mut(&mut hash);
    let removed = call.args[1..]
        .iter()
        .filter(|field| fields.remove(field))
        .count();
    if removed > 0 {
        call.save(key, (hash, deadline), Class::HASH, "hdel");
    }
    Ok(Reply::count(removed))
}

pub(crate) fn hget(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let field = &call.args[1];
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let value = hash.and_then(|hash| hash.get(field));
    Ok(Reply::maybe(value.cloned()))
}

pub(crate) fn hmget(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let fields = &call.args[1..];
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let value = |field: &Bytes| Reply::maybe(hash.and_then(|hash| hash.get(field)).cloned());
    Ok(Reply::Array(fields.iter().map(value).collect()))
}

pub(crate) fn hexists(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let field = &call.args[1];
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let there = hash.is_some_and(|hash| hash.get(field).is_some());
    Ok(Reply::Integer(there.into()))
}

pub(crate) fn hlen(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let hash = call.read_as::<Hash>(&call.args[0])?;
    Ok(Reply::count(hash.map_or(0, Hash::len)))
}

pub(crate) fn hstrlen(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let field = &call.args[1];
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let value = hash.and_then(|hash| hash.get(field));
    Ok(Reply::count(value.map_or(0, Bytes::len)))
}

fn bulk(bytes: &Bytes) -> Reply {
    Reply::Bulk(bytes.clone())
}

pub(crate) fn hgetall(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let pairs = hash.into_iter().flat_map(Hash::fields);
    Ok(Reply::Map(
        pairs
            .map(|(field, value)| (bulk(field), bulk(value)))
            .collect(),
    ))
}

pub(crate) fn hkeys(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let fields = hash.into_iter().flat_map(Hash::fields);
    Ok(Reply::Array(fields.map(|(field, _)| bulk(field)).collect()))
}

pub(crate) fn hvals(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let hash = call.read_as::<Hash>(&call.args[0])?;
    let fields = hash.into_iter().flat_map(Hash::fields);
    Ok(Reply::Array(fields.map(|(_, value)| bulk(value)).collect()))
}
