//! Commands on ranges of sorted sets: by rank and by score.
//! See <https://redis.io/docs/latest/commands/zrange/>.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::call::range;
use super::commands::Call;
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;
use super::value::{Collection, Sorted};

/// A range of scores.
#[derive(Clone, Copy)]
struct Scores {
    low: Bound,
    high: Bound,
}

#[derive(Clone, Copy)]
struct Bound {
    score: f64,
    exclusive: bool,
}

impl Bound {
    /// What C's `strtod` makes of it: nothing at all is 0, and a number too large infinite.
    fn parse(word: &[u8]) -> Result<Self, Reply> {
        let wrong = Reply::fixed_error("ERR min or max is not a float");
        let (text, exclusive) = match word {
            [b'(', text @ ..] => (text, true),
            text => (text, false),
        };
        let number = text.trim_ascii_start();
        let score = if text.is_empty() {
            0.0
        } else {
            std::str::from_utf8(number)
                .ok()
                .and_then(|text| text.parse().ok())
                .filter(|score: &f64| !score.is_nan())
                .ok_or(wrong)?
        };
        Ok(Self { score, exclusive })
    }
}

impl Scores {
    fn parse(low: &[u8], high: &[u8]) -> Result<Self, Reply> {
        let (low, high) = (Bound::parse(low)?, Bound::parse(high)?);
        Ok(Self { low, high })
    }

    /// The ranks of the members in the range.
    fn ranks(self, sorted: &Sorted) -> Range<usize> {
        let Self { low, high } = self;
        let below =
            |(score, _): &(f64, Bytes)| *score < low.score || low.exclusive && *score == low.score;
        let not_above = |(score, _): &(f64, Bytes)| {
            *score < high.score || !high.exclusive && *score == high.score
        };
        let start = sorted.members.partition_point(below);
        start..sorted.members.partition_point(not_above).max(start)
    }
}

/// The two ends of a range.
enum Ends {
    Ranks(i64, i64),
    Scores(Scores),
}

/// What a command on a range asks for.
struct Query {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    /// How many members to pass over, and how many to take; negative is all.
    limit: Option<(i64, i64)>,
}

impl Query {
    /// The options behind the two ends of the range. What a command's name says already may not be
    /// said again.
    fn parse(name: &str, mut words: &[Bytes]) -> Result<Self, Reply> {
        let plain = name == "zrange";
        let mut query = Self {
            by_score: name.ends_with("byscore"),
            reversed: name.starts_with("zrev"),
            with_scores: false,
            limit: None,
        };
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            match word.to_ascii_lowercase().as_slice() {
                b"withscores" => query.with_scores = true,
                b"byscore" if plain && !query.by_score => query.by_score = true,
                b"rev" if plain && !query.reversed => query.reversed = true,
                b"limit" => {
                    let [offset, count, rest @ ..] = words else {
                        return Err(Reply::SYNTAX_ERROR);
                    };
                    let number = |word| parse_integer(word).ok_or(Reply::NOT_AN_INTEGER);
                    query.limit = Some((number(offset)?, number(count)?));
                    words = rest;
                }
                _ => return Err(Reply::SYNTAX_ERROR),
            }
        }
        if query.limit.is_some_and(|limit| limit.1 != -1) && !query.by_score {
            return Err(Reply::fixed_error(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        Ok(query)
    }

    /// The two ends of the range, which are read before the key is looked at.
    fn ends(&self, call: &Call<'_>) -> Result<Ends, Reply> {
        if !self.by_score {
            return Ok(Ends::Ranks(call.integer(1)?, call.integer(2)?));
        }
        let (low, high) = if self.reversed { (2, 1) } else { (1, 2) };
        Scores::parse(&call.args[low], &call.args[high]).map(Ends::Scores)
    }

    /// The ranks of the members in the range, from the lowest.
    fn ranks(&self, ends: Ends, sorted: &Sorted) -> Range<usize> {
        match ends {
            Ends::Scores(scores) => scores.ranks(sorted),
            Ends::Ranks(start, stop) => {
                let Range { start, end } = range(start, stop, sorted.len());
                if self.reversed {
                    sorted.len() - end..sorted.len() - start
                } else {
                    start..end
                }
            }
        }
    }

    fn run(&self, call: &mut Call<'_>) -> Result<Reply, Reply> {
        let ends = self.ends(call)?;
        let resp3 = call.resp3();
        let Some(sorted) = call.read_as::<Sorted>(&call.args[0])? else {
            return Ok(Reply::Array(Vec::new()));
        };
        let chosen = &sorted.members[self.ranks(ends, sorted)];
        // By rank, a limit of all is allowed and means nothing.
        let limit = self.limit.filter(|_| self.by_score);
        let (offset, count) = limit.unwrap_or((0, -1));
        let Ok(offset) = usize::try_from(offset) else {
            return Ok(Reply::Array(Vec::new()));
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let ordered: Box<dyn Iterator<Item = _>> = if self.reversed {
            Box::new(chosen.iter().rev())
        } else {
            Box::new(chosen.iter())
        };
        let mut replies = Vec::new();
        for (score, member) in ordered.skip(offset).take(count) {
            let (member, score) = (Reply::Bulk(member.clone()), Reply::Double(*score));
            match (self.with_scores, resp3) {
                (false, _) => replies.push(member),
                (true, false) => replies.extend([member, score]),
                (true, true) => replies.push(Reply::Array(vec![member, score])),
            }
        }
        Ok(Reply::Array(replies))
    }
}

/// ZRANGE, ZREVRANGE, ZRANGEBYSCORE and ZREVRANGEBYSCORE.
pub(crate) fn zrange(call: &mut Call<'_>) -> Result<Reply, Reply> {
    Query::parse(call.name, &call.args[3..])?.run(call)
}

pub(crate) fn zcount(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let scores = Scores::parse(&call.args[1], &call.args[2])?;
    let sorted = call.read_as::<Sorted>(&call.args[0])?;
    Ok(Reply::count(
        sorted.map_or(0, |sorted| scores.ranks(sorted).len()),
    ))
}

fn remove(
    call: &mut Call<'_>,
    event: &str,
    ranks: impl FnOnce(&Sorted) -> Range<usize>,
) -> Result<Reply, Reply> {
    let key = &call.args[0];
    let Some((mut sorted, deadline)) = call.modify::<Sorted>(key)? else {
        return Ok(Reply::ZERO);
    };
    let ranks = ranks(&sorted);
    let removed = ranks.len();
    if removed > 0 {
        Arc::make_mut(&mut sorted).members.drain(ranks);
        call.save(key, (sorted, deadline), Class::SORTED, event);
    }
    Ok(Reply::count(removed))
}

pub(crate) fn zremrangebyscore(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let scores = Scores::parse(&call.args[1], &call.args[2])?;
    remove(call, "zremrangebyscore", |sorted| scores.ranks(sorted))
}

pub(crate) fn zremrangebyrank(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (start, stop) = (call.integer(1)?, call.integer(2)?);
    remove(call, "zremrangebyrank", |sorted| {
        range(start, stop, sorted.len())
    })
}
