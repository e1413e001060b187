//! The stream that replicas copy and files keep: what commands did, never the commands themselves.
//!
//! As in Redis 7 a deadline is absolute (`SET ... PXAT`, `PEXPIREAT`), an expired or evicted key
//! goes as a `DEL`, and whatever one request changed stands between `MULTI` and `EXEC`, a script's
//! effects too. So a copy neither asks a clock nor runs a script, and has all of a request's
//! effects or none.
//!
//! A collection is written whole, as `RESTORE` with its type and members, where Redis repeats the
//! command: its members are few, and what stands there afterwards is the same.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::connection::Protocol;
use super::machine::{Change, Entry};
use super::numbers::{format_double, parse_integer};
use super::reply::Reply;
use super::resp::{Decoder, encode};
use super::value::{Hash, List, Set, Sorted, Value};

/// One line of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// What follows is of this database.
    Select(usize),
    /// What follows belongs together ...
    Multi,
    /// ... up to here.
    Exec,
    /// A key has this value and deadline now.
    Put(Bytes, Entry),
    /// A key has another deadline now, or none.
    Deadline(Bytes, Option<u64>),
    /// A key is gone.
    Remove(Bytes),
    /// The master lives.
    Ping,
    /// The master wants to know at once how far its replica is.
    GetAck,
}

impl Effect {
    /// Writes what `changes` did. `db` is the database that the stream has selected.
    pub(crate) fn write_all(changes: &[Change], db: &mut Option<usize>, out: &mut BytesMut) {
        if changes.is_empty() {
            return;
        }
        if *db != Some(changes[0].db) {
            *db = Some(changes[0].db);
            Self::Select(changes[0].db).write(out);
        }
        if changes.len() > 1 {
            Self::Multi.write(out);
        }
        for change in changes {
            if *db != Some(change.db) {
                *db = Some(change.db);
                Self::Select(change.db).write(out);
            }
            Self::of(change).write(out);
        }
        if changes.len() > 1 {
            Self::Exec.write(out);
        }
    }

    fn of(change: &Change) -> Self {
        let key = change.key.clone();
        match (&change.before, &change.after) {
            (_, None) => Self::Remove(key),
            (Some(before), Some(after)) if before.value == after.value => {
                Self::Deadline(key, after.deadline)
            }
            (_, Some(after)) => Self::Put(key, after.clone()),
        }
    }

    /// Writes it as a request.
    pub(crate) fn write(&self, out: &mut BytesMut) {
        let words = self.words().into_iter().map(Reply::Bulk).collect();
        encode(&Reply::Array(words), Protocol::Resp2, out);
    }

    fn words(&self) -> Vec<Bytes> {
        let fixed = |words: &[&'static str]| words.iter().copied().map(Bytes::from).collect();
        let number = |number: u64| Bytes::from(number.to_string());
        match self {
            Self::Select(db) => vec!["SELECT".into(), db.to_string().into()],
            Self::Multi => fixed(&["MULTI"]),
            Self::Exec => fixed(&["EXEC"]),
            Self::Put(key, Entry { value, deadline }) => {
                if let Value::String(text) = value {
                    let mut words = vec!["SET".into(), key.clone(), text.clone()];
                    if let Some(deadline) = deadline {
                        words.extend(["PXAT".into(), number(*deadline)]);
                    }
                    return words;
                }
                let until = deadline.map_or_else(|| "-".into(), number);
                let mut words = vec!["RESTORE".into(), key.clone(), until];
                words.extend(parts(value));
                words
            }
            Self::Deadline(key, Some(at)) => vec!["PEXPIREAT".into(), key.clone(), number(*at)],
            Self::Deadline(key, None) => vec!["PERSIST".into(), key.clone()],
            Self::Remove(key) => vec!["DEL".into(), key.clone()],
            Self::Ping => fixed(&["PING"]),
            Self::GetAck => fixed(&["REPLCONF", "GETACK", "*"]),
        }
    }

    /// Reads what [`Self::write`] wrote; nothing if it was something else.
    pub(crate) fn read(words: &[Bytes]) -> Option<Self> {
        let (name, rest) = words.split_first()?;
        let number = |word: &Bytes| parse_integer(word).and_then(|n| u64::try_from(n).ok());
        Some(match (&**name, rest) {
            (b"SELECT", [db]) => Self::Select(usize::try_from(number(db)?).ok()?),
            (b"MULTI", []) => Self::Multi,
            (b"EXEC", []) => Self::Exec,
            (b"SET", [key, text, rest @ ..]) => {
                let deadline = match rest {
                    [] => None,
                    [_, at] => Some(number(at)?),
                    _ => return None,
                };
                let value = Value::String(text.clone());
                Self::Put(key.clone(), Entry { value, deadline })
            }
            (b"RESTORE", [key, until, parts @ ..]) => {
                let deadline = match &**until {
                    b"-" => None,
                    _ => Some(number(until)?),
                };
                let value = assemble(parts)?;
                Self::Put(key.clone(), Entry { value, deadline })
            }
            (b"PEXPIREAT", [key, at]) => Self::Deadline(key.clone(), Some(number(at)?)),
            (b"PERSIST", [key]) => Self::Deadline(key.clone(), None),
            (b"DEL", [key]) => Self::Remove(key.clone()),
            (b"PING", []) => Self::Ping,
            (b"REPLCONF", [..]) => Self::GetAck,
            _ => return None,
        })
    }

    /// How many bytes it takes in the stream.
    pub(crate) fn length(&self) -> u64 {
        let mut out = BytesMut::new();
        self.write(&mut out);
        out.len() as u64
    }
}

/// The lines of a stream that is here as a whole.
pub(crate) fn read_all(stream: &[u8]) -> Option<Vec<Effect>> {
    let mut decoder = Decoder::default();
    decoder.feed(stream);
    let mut effects = Vec::new();
    while let Some(words) = decoder.next_request().ok()? {
        effects.push(Effect::read(&words)?);
    }
    Some(effects)
}

/// The type of a collection and what is in it.
fn parts(value: &Value) -> Vec<Bytes> {
    match value {
        Value::String(text) => vec!["string".into(), text.clone()],
        Value::List(list) => [Bytes::from("list")]
            .into_iter()
            .chain(list.items.iter().cloned())
            .collect(),
        Value::Hash(hash) => [Bytes::from("hash")]
            .into_iter()
            .chain(hash.fields.iter().flat_map(|(f, v)| [f.clone(), v.clone()]))
            .collect(),
        Value::Set(set) => [Bytes::from(if set.integers { "intset" } else { "set" })]
            .into_iter()
            .chain(set.members.iter().cloned())
            .collect(),
        Value::Sorted(sorted) => {
            let scored = |(score, member): &(f64, Bytes)| {
                [Bytes::from(format_double(*score)), member.clone()]
            };
            [Bytes::from("zset")]
                .into_iter()
                .chain(sorted.members.iter().flat_map(scored))
                .collect()
        }
    }
}

fn assemble(parts: &[Bytes]) -> Option<Value> {
    let (kind, rest) = parts.split_first()?;
    let pairs = || rest.chunks_exact(2).map(|pair| (&pair[0], &pair[1]));
    Some(match &**kind {
        b"string" => Value::String(rest.first()?.clone()),
        b"list" => Value::List(Arc::new(List {
            items: rest.iter().cloned().collect(),
        })),
        b"hash" => Value::Hash(Arc::new(Hash {
            fields: pairs().map(|(f, v)| (f.clone(), v.clone())).collect(),
        })),
        b"set" | b"intset" => Value::Set(Arc::new(Set {
            members: rest.to_vec(),
            integers: &**kind == b"intset",
        })),
        b"zset" => {
            let score = |text: &Bytes| std::str::from_utf8(text).ok()?.parse().ok();
            let members = pairs().map(|(s, member)| Some((score(s)?, member.clone())));
            Value::Sorted(Arc::new(Sorted {
                members: members.collect::<Option<_>>()?,
            }))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::connection::Connection;
    use super::super::machine::Machine;
    use super::*;

    fn words(line: &str) -> Vec<Bytes> {
        line.split(' ')
            .map(|word| Bytes::copy_from_slice(word.as_bytes()))
            .collect()
    }

    /// What a master sends for some requests at 1 000.
    fn sent(requests: &[&str]) -> Vec<Effect> {
        let (mut master, mut replica) = (Machine::new(), Machine::new());
        let mut connection = Connection::new(1);
        master.carry_to(&mut replica, 1_000);
        for request in requests {
            master.execute(&words(request), &mut connection, 1_000);
        }
        let stream = master
            .take_stream()
            .map_or(Bytes::new(), |(stream, _)| stream);
        read_all(&stream).expect("as it was written")
    }

    #[test]
    fn a_time_to_live_travels_as_a_deadline() {
        let entry = Entry {
            value: Value::String("v".into()),
            deadline: Some(31_000),
        };
        assert_eq!(
            sent(&["SET k v PX 30000", "PEXPIRE k 5000", "PERSIST k"]),
            [
                Effect::Select(0),
                Effect::Put("k".into(), entry),
                Effect::Deadline("k".into(), Some(6_000)),
                Effect::Deadline("k".into(), None),
            ]
        );
    }

    #[test]
    fn what_changes_nothing_is_not_sent() {
        assert_eq!(sent(&["GET k", "DEL k", "EXPIRE k 5", "SET k v XX"]), []);
    }

    #[test]
    fn a_script_sends_what_it_did_in_one_piece() {
        let script = "redis.call('SET',KEYS[1],'1')return\u{a0}redis.call('INCR',KEYS[1])";
        let mut request = words("EVAL script 1 k");
        request[1] = Bytes::from(script.replace('\u{a0}', " "));
        let (mut master, mut replica) = (Machine::new(), Machine::new());
        master.carry_to(&mut replica, 0);
        master.execute(&request, &mut Connection::new(1), 0);
        let (stream, _) = master.take_stream().expect("it wrote");
        let put = |text: &'static str| {
            let value = Value::String(text.into());
            let deadline = None;
            Effect::Put("k".into(), Entry { value, deadline })
        };
        let expected = [
            Effect::Select(0),
            Effect::Multi,
            put("1"),
            put("2"),
            Effect::Exec,
        ];
        assert_eq!(read_all(&stream).unwrap(), expected);
    }

    #[test]
    fn a_copy_is_the_same_whatever_the_keys_hold() {
        let (mut master, mut replica) = (Machine::new(), Machine::new());
        let mut connection = Connection::new(1);
        let requests = [
            "RPUSH list a b c",
            "LPOP list",
            "HSET hash f 1 g 2",
            "HDEL hash f",
            "SADD numbers 3 1 2",
            "SADD words x 1",
            "SREM words x",
            "ZADD scores 1.5 a -inf b 0.1 c",
            "SELECT 3",
            "SET k v PX 100",
            "RENAME k l",
        ];
        for (number, request) in requests.iter().enumerate() {
            master.execute(&words(request), &mut connection, 0);
            if number % 3 == 0 {
                master.carry_to(&mut replica, 0);
            }
        }
        master.carry_to(&mut replica, 0);
        for db in [0, 3] {
            assert!(master.entries_of(db).count() > 0);
            assert!(
                master.entries_of(db).eq(replica.entries_of(db)),
                "database {db}"
            );
        }
        master.execute(&words("FLUSHALL"), &mut connection, 0);
        master.carry_to(&mut replica, 0);
        assert_eq!(
            replica.entries_of(0).count() + replica.entries_of(3).count(),
            0
        );
    }

    #[test]
    fn a_new_copy_begins_with_everything() {
        let (mut master, mut replica) = (Machine::new(), Machine::new());
        let mut connection = Connection::new(1);
        replica.execute(&words("SET old v"), &mut connection, 0);
        master.execute(&words("SET new v PX 50"), &mut connection, 0);
        master.carry_to(&mut replica, 0);
        assert!(master.entries().eq(replica.entries()));
    }
}
