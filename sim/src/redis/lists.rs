//! Commands on lists. Those that wait are in `blocking.rs`.
//! See <https://redis.io/docs/latest/commands/?group=list>.
//!
//! Deliberately absent: LPOS and LMPOP.

use std::sync::Arc;

use bytes::Bytes;

use super::call::{place, range};
use super::commands::{Call, wrong_arity};
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;
use super::value::{Collection, List};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The first item's.
    Left,
    /// The last item's.
    Right,
}

impl End {
    pub(crate) fn parse(word: &[u8]) -> Result<Self, Reply> {
        match word {
            _ if word.eq_ignore_ascii_case(b"left") => Ok(Self::Left),
            _ if word.eq_ignore_ascii_case(b"right") => Ok(Self::Right),
            _ => Err(Reply::SYNTAX_ERROR),
        }
    }

    fn push(self, list: &mut List, item: Bytes) {
        match self {
            Self::Left => list.items.push_front(item),
            Self::Right => list.items.push_back(item),
        }
    }

    fn pop(self, list: &mut List) -> Option<Bytes> {
        match self {
            Self::Left => list.items.pop_front(),
            Self::Right => list.items.pop_back(),
        }
    }

    fn pushed(self) -> &'static str {
        match self {
            Self::Left => "lpush",
            Self::Right => "rpush",
        }
    }

    fn popped(self) -> &'static str {
        match self {
            Self::Left => "lpop",
            Self::Right => "rpop",
        }
    }
}

fn push(call: &mut Call<'_>, end: End, only_if_present: bool) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let found = call.modify::<List>(key)?;
    if only_if_present && found.is_none() {
        return Ok(Reply::ZERO);
    }
    let (mut list, deadline) = found.unwrap_or_default();
    for item in &call.args[1..] {
        end.push(Arc::make_mut(&mut list), item.clone());
    }
    let length = list.len();
    call.save(key, (list, deadline), Class::LIST, end.pushed());
    Ok(Reply::count(length))
}

pub(crate) fn lpush(call: &mut Call<'_>) -> Result<Reply, Reply> {
    push(call, End::Left, false)
}

pub(crate) fn rpush(call: &mut Call<'_>) -> Result<Reply, Reply> {
    push(call, End::Right, false)
}

pub(crate) fn lpushx(call: &mut Call<'_>) -> Result<Reply, Reply> {
    push(call, End::Left, true)
}

pub(crate) fn rpushx(call: &mut Call<'_>) -> Result<Reply, Reply> {
    push(call, End::Right, true)
}

/// Takes one item off `key`, if there is any.
pub(crate) fn pop_one(call: &mut Call<'_>, key: &Bytes, end: End) -> Result<Option<Reply>, Reply> {
    let Some((mut list, deadline)) = call.modify::<List>(key)? else {
        return Ok(None);
    };
    let item = end.pop(Arc::make_mut(&mut list));
    call.save(key, (list, deadline), Class::LIST, end.popped());
    Ok(item.map(Reply::Bulk))
}

fn pop(call: &mut Call<'_>, end: End) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let count = match &call.args[1..] {
        [] => return Ok(pop_one(call, key, end)?.unwrap_or(Reply::Null)),
        [count] => positive(count)?,
        _ => {
            return Err(wrong_arity(call.name));
        }
    };
    let Some((mut list, deadline)) = call.modify::<List>(key)? else {
        return Ok(Reply::NullArray);
    };
    if count == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let items = Arc::make_mut(&mut list);
    let popped = std::iter::from_fn(|| end.pop(items)).take(count);
    let popped = popped.map(Reply::Bulk).collect();
    call.save(key, (list, deadline), Class::LIST, end.popped());
    Ok(Reply::Array(popped))
}

/// A count of items to take.
pub(crate) fn positive(word: &[u8]) -> Result<usize, Reply> {
    let count = parse_integer(word).and_then(|count| usize::try_from(count).ok());
    count.ok_or(Reply::fixed_error(
        "ERR value is out of range, must be positive",
    ))
}

pub(crate) fn lpop(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop(call, End::Left)
}

pub(crate) fn rpop(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop(call, End::Right)
}

pub(crate) fn llen(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let list = call.read_as::<List>(&call.args[0])?;
    Ok(Reply::count(list.map_or(0, List::len)))
}

pub(crate) fn lrange(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (start, stop) = (call.integer(1)?, call.integer(2)?);
    let Some(list) = call.read_as::<List>(&call.args[0])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let range = range(start, stop, list.len());
    if range.is_empty() {
        return Ok(Reply::Array(Vec::new()));
    }
    let items = list.items.focus().narrow(range);
    Ok(Reply::Array(
        items.into_iter().cloned().map(Reply::Bulk).collect(),
    ))
}

/// The key is looked at before the index.
pub(crate) fn lindex(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let index = call.integer(1);
    let Some(list) = call.read_as::<List>(&call.args[0])? else {
        return Ok(Reply::Null);
    };
    let place = place(index?, list.len());
    Ok(Reply::maybe(place.map(|place| list.items[place].clone())))
}

pub(crate) fn lset(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, index) = (&call.args[0], call.integer(1));
    let Some((mut list, deadline)) = call.modify::<List>(key)? else {
        return Err(Reply::fixed_error("ERR no such key"));
    };
    let Some(place) = place(index?, list.len()) else {
        return Err(Reply::fixed_error("ERR index out of range"));
    };
    Arc::make_mut(&mut list).items[place] = call.args[2].clone();
    call.save(key, (list, deadline), Class::LIST, "lset");
    Ok(Reply::OK)
}

/// Negative counts remove from the right, 0 removes all.
pub(crate) fn lrem(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, count) = (&call.args[0], call.integer(1)?);
    let Some((mut list, deadline)) = call.modify::<List>(key)? else {
        return Ok(Reply::ZERO);
    };
    let same = |item: &(usize, &Bytes)| *item.1 == call.args[2];
    let limit = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    let places = list
        .items
        .iter()
        .enumerate()
        .filter(same)
        .map(|(place, _)| place);
    let mut places: Vec<_> = if count < 0 {
        places.rev().take(limit).collect()
    } else {
        places.take(limit).collect()
    };
    if places.is_empty() {
        return Ok(Reply::ZERO);
    }
    places.sort_unstable();
    let items = &mut Arc::make_mut(&mut list).items;
    for place in places.iter().rev() {
        items.remove(*place);
    }
    call.save(key, (list, deadline), Class::LIST, "lrem");
    Ok(Reply::count(places.len()))
}

pub(crate) fn ltrim(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (key, start, stop) = (&call.args[0], call.integer(1)?, call.integer(2)?);
    let Some((mut list, deadline)) = call.modify::<List>(key)? else {
        return Ok(Reply::OK);
    };
    let kept = range(start, stop, list.len());
    let items = &mut Arc::make_mut(&mut list).items;
    *items = items.slice(kept);
    call.save(key, (list, deadline), Class::LIST, "ltrim");
    Ok(Reply::OK)
}

pub(crate) fn linsert(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let [key, side, pivot, item] = call.args else {
        unreachable!("the arity asks for four")
    };
    let after = match side {
        _ if side.eq_ignore_ascii_case(b"before") => 0,
        _ if side.eq_ignore_ascii_case(b"after") => 1,
        _ => return Err(Reply::SYNTAX_ERROR),
    };
    let Some((mut list, deadline)) = call.modify::<List>(key)? else {
        return Ok(Reply::ZERO);
    };
    let Some(place) = list.items.iter().position(|other| other == pivot) else {
        return Ok(Reply::Integer(-1));
    };
    Arc::make_mut(&mut list)
        .items
        .insert(place + after, item.clone());
    let length = list.len();
    call.save(key, (list, deadline), Class::LIST, "linsert");
    Ok(Reply::count(length))
}

/// Moves one item, if there is any. Source and destination may be the same list.
pub(crate) fn move_one(
    call: &mut Call<'_>,
    source: &Bytes,
    destination: &Bytes,
    from: End,
    to: End,
) -> Result<Option<Reply>, Reply> {
    let Some((mut list, deadline)) = call.modify::<List>(source)? else {
        return Ok(None);
    };
    let target = call.modify::<List>(destination)?;
    let Some(item) = from.pop(Arc::make_mut(&mut list)) else {
        return Ok(None);
    };
    if source == destination {
        to.push(Arc::make_mut(&mut list), item.clone());
        call.put(source, List::wrap(list), deadline);
        call.notify(Class::LIST, to.pushed(), destination);
        call.notify(Class::LIST, from.popped(), source);
        return Ok(Some(Reply::Bulk(item)));
    }
    let (mut target, its_deadline) = target.unwrap_or_default();
    to.push(Arc::make_mut(&mut target), item.clone());
    call.save(
        destination,
        (target, its_deadline),
        Class::LIST,
        to.pushed(),
    );
    call.save(source, (list, deadline), Class::LIST, from.popped());
    Ok(Some(Reply::Bulk(item)))
}

pub(crate) fn lmove(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let args = call.args;
    let (from, to) = (End::parse(&args[2])?, End::parse(&args[3])?);
    let moved = move_one(call, &args[0], &args[1], from, to)?;
    Ok(moved.unwrap_or(Reply::Null))
}

pub(crate) fn rpoplpush(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let args = call.args;
    let moved = move_one(call, &args[0], &args[1], End::Right, End::Left)?;
    Ok(moved.unwrap_or(Reply::Null))
}
