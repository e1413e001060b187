//! Commands that go through all there is: KEYS, RANDOMKEY, SCAN and its kin, and the patterns
//! they choose by.
//!
//! The order of keys in Redis is that of its hash table, which changes from start to start. Here
//! KEYS answers in the order of the bytes. SCAN goes by a hash of each key that never changes, and
//! its cursor is where it goes on; as in Redis whatever is there all the time is answered, but
//! here exactly once, and COUNT says exactly how many are looked at. SSCAN, HSCAN and ZSCAN answer
//! everything at once, as Redis does for small collections.
//!
//! See <https://redis.io/docs/latest/commands/scan/> and <https://redis.io/docs/latest/commands/keys/>.

use bytes::Bytes;

use super::commands::Call;
use super::numbers::{format_double, parse_integer};
use super::reply::Reply;
use super::value::{Hash, Set, Sorted};

/// Whether `text` matches a pattern of `*`, `?`, `[a-z]`, `[^x]` and `\` before any of these. A
/// pattern of stars alone does not match an empty text: that is Redis's own.
pub(crate) fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    while let ([first, rest @ ..], [letter, after @ ..]) = (pattern, text) {
        match first {
            b'*' => {
                let stars = rest.iter().take_while(|byte| **byte == b'*').count();
                let rest = &rest[stars..];
                return rest.is_empty() || (0..text.len()).any(|at| matches(rest, &text[at..]));
            }
            b'?' => pattern = rest,
            b'[' => match class(rest, *letter) {
                Some(rest) => pattern = rest,
                None => return false,
            },
            b'\\' if !rest.is_empty() => {
                if rest[0] != *letter {
                    return false;
                }
                pattern = &rest[1..];
            }
            literal => {
                if literal != letter {
                    return false;
                }
                pattern = rest;
            }
        }
        text = after;
        if text.is_empty() {
            let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
            pattern = &pattern[stars..];
        }
    }
    pattern.is_empty() && text.is_empty()
}

/// What follows a class in brackets, if `letter` is in it. Without a closing bracket it ends with
/// the pattern.
fn class(mut pattern: &[u8], letter: u8) -> Option<&[u8]> {
    let negated = pattern.first() == Some(&b'^');
    if negated {
        pattern = &pattern[1..];
    }
    let mut found = false;
    loop {
        match pattern {
            [] => break,
            [b'\\', escaped, rest @ ..] => {
                found |= *escaped == letter;
                pattern = rest;
            }
            [b']', rest @ ..] => {
                pattern = rest;
                break;
            }
            [from, b'-', to, rest @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&letter);
                pattern = rest;
            }
            [one, rest @ ..] => {
                found |= *one == letter;
                pattern = rest;
            }
        }
    }
    (found != negated).then_some(pattern)
}

/// Hides keys past their deadline without deleting them.
pub(crate) fn keys(call: &mut Call<'_>) -> Reply {
    let (db, pattern) = (call.connection.db, &call.args[0]);
    let keys = call.machine.entries_of(db).map(|(key, _)| key);
    let chosen = keys.filter(|key| {
        let matching = *pattern == "*" || matches(pattern, key);
        matching && !call.machine.is_past(db, key, call.wall)
    });
    Reply::Array(chosen.cloned().map(Reply::Bulk).collect())
}

/// Deletes the keys past their deadline that it comes across.
pub(crate) fn randomkey(call: &mut Call<'_>) -> Reply {
    let db = call.connection.db;
    if call.machine.replication.is_replica() {
        // It deletes nothing, so a choice is made among what can be seen.
        let past = |key: &Bytes| call.machine.is_past(db, key, call.wall);
        let keys = call.machine.entries_of(db).map(|(key, _)| key);
        let seen: Vec<_> = keys.filter(|key| !past(key)).cloned().collect();
        if let Some(most) = seen.len().checked_sub(1) {
            let chosen = call.machine.sessions.draw(most + 1);
            return Reply::Bulk(seen[chosen].clone());
        }
    }
    loop {
        let size = call.machine.size(db);
        if size == 0 {
            return Reply::Null;
        }
        let chosen = call.machine.sessions.draw(size);
        let key = call.machine.entries_of(db).map(|(key, _)| key).nth(chosen);
        let key = key.cloned().unwrap_or_default();
        // While clients are paused nothing is deleted, and nothing better may be there.
        if call.look(&key).is_some()
            || call.machine.is_paused(call.wall)
            || call.machine.replication.is_replica()
        {
            return Reply::Bulk(key);
        }
    }
}

/// What SCAN and its kin are asked for.
struct Query {
    cursor: u64,
    count: usize,
    pattern: Option<Bytes>,
    type_name: Option<Bytes>,
}

impl Query {
    /// Reads the cursor, then the key if there is one, then the options.
    fn cursor(word: &[u8]) -> Result<u64, Reply> {
        let invalid = Reply::fixed_error("ERR invalid cursor");
        // As C's `strtoul` reads it, without the spaces that it would skip.
        let (negative, digits) = match word {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if word.is_empty() {
            return Ok(0);
        }
        let number = std::str::from_utf8(digits)
            .ok()
            .filter(|_| digits.first() != Some(&b'+'));
        let number: u64 = number.and_then(|text| text.parse().ok()).ok_or(invalid)?;
        Ok(if negative {
            number.wrapping_neg()
        } else {
            number
        })
    }

    fn parse(cursor: u64, mut words: &[Bytes], keyed: bool) -> Result<Self, Reply> {
        let mut query = Self {
            cursor,
            count: 10,
            pattern: None,
            type_name: None,
        };
        while let [word, value, rest @ ..] = words {
            words = rest;
            match word.to_ascii_lowercase().as_slice() {
                b"count" => {
                    let count = parse_integer(value).ok_or(Reply::NOT_AN_INTEGER)?;
                    query.count = usize::try_from(count)
                        .ok()
                        .filter(|count| *count > 0)
                        .ok_or(Reply::SYNTAX_ERROR)?;
                }
                b"match" => query.pattern = Some(value.clone()),
                b"type" if !keyed => query.type_name = Some(value.clone()),
                _ => return Err(Reply::SYNTAX_ERROR),
            }
        }
        if words.is_empty() {
            Ok(query)
        } else {
            Err(Reply::SYNTAX_ERROR)
        }
    }

    fn chooses(&self, name: &[u8]) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| *pattern == "*" || matches(pattern, name))
    }
}

fn answer(cursor: u64, items: Vec<Bytes>) -> Reply {
    let items = items.into_iter().map(Reply::Bulk).collect();
    let cursor = Bytes::from(cursor.to_string());
    Reply::Array(vec![Reply::Bulk(cursor), Reply::Array(items)])
}

/// Fowler, Noll and Vo's hash, without the largest value: a cursor is one more than a place.
fn place(key: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    key.iter().fold(0xcbf2_9ce4_8422_2325, mix) >> 1
}

pub(crate) fn scan(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let query = Query::parse(Query::cursor(&call.args[0])?, &call.args[1..], false)?;
    let keys = call
        .machine
        .entries_of(call.connection.db)
        .map(|(key, _)| key);
    let mut places: Vec<_> = keys
        .map(|key| (place(key), key.clone()))
        .filter(|(place, _)| *place >= query.cursor)
        .collect();
    places.sort_unstable();
    let mut next = 0;
    if let Some((last, _)) = places.get(query.count - 1) {
        // Keys with the same place belong together: a cursor cannot stand between them.
        let end = places.partition_point(|(place, _)| place <= last);
        next = if end < places.len() { last + 1 } else { 0 };
        places.truncate(end);
    }
    let mut found = Vec::new();
    for (_, key) in places {
        if !query.chooses(&key) {
            continue;
        }
        // Its type is asked as by a command that reads.
        let entry = match query.type_name {
            Some(_) => call.read(&key),
            None => call.look(&key),
        };
        let Some(entry) = entry else {
            continue;
        };
        let wanted = |name: &Bytes| name.eq_ignore_ascii_case(entry.value.type_name().as_bytes());
        if query.type_name.as_ref().is_none_or(wanted) {
            found.push(key);
        }
    }
    Ok(answer(next, found))
}

pub(crate) fn sscan(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (args, cursor) = (call.args, Query::cursor(&call.args[1])?);
    let set = call.read_as::<Set>(&args[0])?.cloned();
    let Some(set) = set else {
        return Ok(answer(0, Vec::new()));
    };
    let query = Query::parse(cursor, &args[2..], true)?;
    let chosen = set
        .members
        .into_iter()
        .filter(|member| query.chooses(member));
    Ok(answer(0, chosen.collect()))
}

pub(crate) fn hscan(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (args, cursor) = (call.args, Query::cursor(&call.args[1])?);
    let hash = call.read_as::<Hash>(&args[0])?.cloned();
    let Some(hash) = hash else {
        return Ok(answer(0, Vec::new()));
    };
    let query = Query::parse(cursor, &args[2..], true)?;
    let chosen = hash
        .fields
        .into_iter()
        .filter(|(field, _)| query.chooses(field));
    Ok(answer(0, chosen.flat_map(<[Bytes; 2]>::from).collect()))
}

pub(crate) fn zscan(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (args, cursor) = (call.args, Query::cursor(&call.args[1])?);
    let sorted = call.read_as::<Sorted>(&args[0])?.cloned();
    let Some(sorted) = sorted else {
        return Ok(answer(0, Vec::new()));
    };
    let query = Query::parse(cursor, &args[2..], true)?;
    let chosen = sorted
        .members
        .into_iter()
        .filter(|(_, member)| query.chooses(member));
    let both = |(score, member)| [member, Bytes::from(format_double(score))];
    Ok(answer(0, chosen.flat_map(both).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text) in [
            ("a*", "a"),
            ("*", "abc"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[^a]x", "bx"),
            (r"\*", "*"),
            ("[c-a]", "b"),
            ("a**b", "axb"),
            ("[a", "a"),
            ("", ""),
        ] {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        for (pattern, text) in [
            ("*", ""),
            ("a", "ab"),
            ("[^a]", "a"),
            ("?", ""),
            ("ab", "a"),
        ] {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
    }
}
