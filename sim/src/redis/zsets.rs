//! Commands on sorted sets, save those on ranges, which are in `zranges.rs`.
//! See <https://redis.io/docs/latest/commands/?group=sorted-set>.
//!
//! Deliberately absent: the commands on several sets, such as ZUNION; ZRANDMEMBER, ZMPOP; ranges
//! by the bytes of members (BYLEX).

use std::sync::Arc;

use bytes::Bytes;

use super::commands::Call;
use super::lists::positive;
use super::notify::Class;
use super::numbers::parse_double;
use super::reply::Reply;
use super::value::{Collection, Sorted};

/// The options of ZADD.
#[derive(Default)]
struct Options {
    only_new: bool,
    only_present: bool,
    only_greater: bool,
    only_less: bool,
    count_changed: bool,
    increment: bool,
}

impl Options {
    /// The options and what follows them.
    fn parse(mut words: &[Bytes]) -> (Self, &[Bytes]) {
        let mut options = Self::default();
        while let Some((word, rest)) = words.split_first() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => options.only_new = true,
                b"xx" => options.only_present = true,
                b"gt" => options.only_greater = true,
                b"lt" => options.only_less = true,
                b"ch" => options.count_changed = true,
                b"incr" => options.increment = true,
                _ => break,
            }
            words = rest;
        }
        (options, words)
    }

    fn check(&self, pairs: &[Bytes]) -> Result<(), Reply> {
        if pairs.is_empty() || pairs.len() % 2 == 1 {
            return Err(Reply::SYNTAX_ERROR);
        }
        if self.only_new && self.only_present {
            return Err(Reply::fixed_error(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if [self.only_greater, self.only_less, self.only_new]
            .into_iter()
            .filter(|given| *given)
            .count()
            > 1
        {
            return Err(Reply::fixed_error(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increment && pairs.len() > 2 {
            return Err(Reply::fixed_error(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    /// The score that `member` gets, if it gets one.
    fn score(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, Reply> {
        let Some(old) = old else {
            return Ok((!self.only_present).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increment { old + given } else { given };
        if score.is_nan() {
            return Err(Reply::fixed_error(
                "ERR resulting score is not a number (NaN)",
            ));
        }
        let refused = self.only_greater && score <= old || self.only_less && score >= old;
        Ok((!refused).then_some(score))
    }
}

fn add(call: &mut Call<'_>, options: &Options, pairs: &[Bytes]) -> Result<Reply, Reply> {
    options.check(pairs)?;
    // Every score is read before the first is written: a wrong one fails them all.
    let scores: Vec<_> = pairs
        .chunks_exact(2)
        .map(|pair| parse_double(&pair[0]).ok_or(Reply::NOT_A_FLOAT))
        .collect::<Result<_, _>>()?;
    let key = &call.args[0];
    let (mut sorted, deadline) = call.modify_or_new::<Sorted>(key)?;
    let members = Arc::make_mut(&mut sorted);
    let (mut added, mut updated, mut result) = (0, 0, None);
    for (given, pair) in scores.into_iter().zip(pairs.chunks_exact(2)) {
        let old = members.score(&pair[1]);
        let Some(score) = options.score(old, given)? else {
            continue;
        };
        result = Some(score);
        match old {
            None => added += 1,
            Some(old) if old != score => updated += 1,
            Some(_) => continue,
        }
        members.set(&pair[1], score);
    }
    if added + updated > 0 {
        let event = if options.increment { "zincr" } else { "zadd" };
        call.save(key, (sorted, deadline), Class::SORTED, event);
    }
    if options.increment {
        return Ok(result.map_or(Reply::Null, Reply::Double));
    }
    Ok(Reply::count(if options.count_changed {
        added + updated
    } else {
        added
    }))
}

pub(crate) fn zadd(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (options, pairs) = Options::parse(&call.args[1..]);
    add(call, &options, pairs)
}

pub(crate) fn zincrby(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let options = Options {
        increment: true,
        ..Options::default()
    };
    add(call, &options, &call.args[1..])
}

pub(crate) fn zrem(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let Some((mut sorted, deadline)) = call.modify::<Sorted>(key)? else {
        return Ok(Reply::ZERO);
    };
    let members = Arc::make_mut(&mut sorted);
    let removed = call.args[1..]
        .iter()
        .filter(|member| members.remove(member))
        .count();
    if removed > 0 {
        call.save(key, (sorted, deadline), Class::SORTED, "zrem");
    }
    Ok(Reply::count(removed))
}

pub(crate) fn zscore(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let member = &call.args[1];
    let sorted = call.read_as::<Sorted>(&call.args[0])?;
    let score = sorted.and_then(|sorted| sorted.score(member));
    Ok(score.map_or(Reply::Null, Reply::Double))
}

pub(crate) fn zmscore(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let members = &call.args[1..];
    let sorted = call.read_as::<Sorted>(&call.args[0])?;
    let score = |member: &Bytes| {
        let score = sorted.and_then(|sorted| sorted.score(member));
        score.map_or(Reply::Null, Reply::Double)
    };
    Ok(Reply::Array(members.iter().map(score).collect()))
}

fn rank(call: &mut Call<'_>, from_highest: bool) -> Result<Reply, Reply> {
    let member = &call.args[1];
    let Some(sorted) = call.read_as::<Sorted>(&call.args[0])? else {
        return Ok(Reply::Null);
    };
    let rank = sorted.rank(member);
    let last = sorted.len() - 1;
    let rank = rank.map(|rank| if from_highest { last - rank } else { rank });
    Ok(rank.map_or(Reply::Null, Reply::count))
}

pub(crate) fn zrank(call: &mut Call<'_>) -> Result<Reply, Reply> {
    rank(call, false)
}

pub(crate) fn zrevrank(call: &mut Call<'_>) -> Result<Reply, Reply> {
    rank(call, true)
}

pub(crate) fn zcard(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let sorted = call.read_as::<Sorted>(&call.args[0])?;
    Ok(Reply::count(sorted.map_or(0, Sorted::len)))
}

/// Takes up to `count` members off `key`: member and score in turn.
pub(crate) fn pop_members(
    call: &mut Call<'_>,
    key: &Bytes,
    count: usize,
    lowest: bool,
) -> Result<Vec<Reply>, Reply> {
    let Some((mut sorted, deadline)) = call.modify::<Sorted>(key)? else {
        return Ok(Vec::new());
    };
    let count = count.min(sorted.len());
    if count == 0 {
        return Ok(Vec::new());
    }
    let members = &mut Arc::make_mut(&mut sorted).members;
    let popped: Vec<_> = if lowest {
        members.drain(..count).collect()
    } else {
        members.drain(members.len() - count..).rev().collect()
    };
    let event = if lowest { "zpopmin" } else { "zpopmax" };
    call.save(key, (sorted, deadline), Class::SORTED, event);
    let both = |(score, member)| [Reply::Bulk(member), Reply::Double(score)];
    Ok(popped.into_iter().flat_map(both).collect())
}

fn pop(call: &mut Call<'_>, lowest: bool) -> Result<Reply, Reply> {
    let count = match &call.args[1..] {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(Reply::SYNTAX_ERROR),
    };
    let popped = pop_members(call, &call.args[0], count.unwrap_or(1), lowest)?;
    Ok(if count.is_some() && call.resp3() {
        Reply::Array(
            popped
                .chunks(2)
                .map(|pair| Reply::Array(pair.to_vec()))
                .collect(),
        )
    } else {
        Reply::Array(popped)
    })
}

pub(crate) fn zpopmin(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop(call, true)
}

pub(crate) fn zpopmax(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop(call, false)
}
