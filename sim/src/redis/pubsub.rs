//! Publish and subscribe.
//!
//! A message for another connection goes into the outbox, from which the node delivers it
//! ([`Machine::take_messages`](super::Machine::take_messages)). A subscriber that is not there
//! when something is published never hears of it.
//! See <https://redis.io/docs/latest/develop/pubsub/>.
//!
//! Deliberately absent: shard channels, which belong to a cluster.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::commands::Call;
use super::connection::{Connection, Protocol};
use super::reply::Reply;
use super::scan::matches;
use super::sessions::Sessions;

/// Puts a message to everybody who listens to `channel` into the outbox, and says to how many.
pub(crate) fn deliver(sessions: &mut Sessions, channel: &Bytes, message: &Bytes) -> i64 {
    let mut receivers = 0;
    for listener in sessions.channels.get(channel).into_iter().flatten() {
        let words = [
            Bytes::from_static(b"message"),
            channel.clone(),
            message.clone(),
        ];
        let push = Reply::Push(words.map(Reply::Bulk).to_vec());
        sessions.outbox.push((*listener, push));
        receivers += 1;
    }
    for (pattern, listeners) in &sessions.patterns {
        if !matches(pattern, channel) {
            continue;
        }
        for listener in listeners {
            let words = [
                Bytes::from_static(b"pmessage"),
                pattern.clone(),
                channel.clone(),
                message.clone(),
            ];
            let push = Reply::Push(words.map(Reply::Bulk).to_vec());
            sessions.outbox.push((*listener, push));
            receivers += 1;
        }
    }
    receivers
}

pub(crate) fn publish(call: &mut Call<'_>) -> Reply {
    Reply::Integer(deliver(
        &mut call.machine.sessions,
        &call.args[0],
        &call.args[1],
    ))
}

/// Which of its two lists a connection changes.
#[derive(Clone, Copy)]
enum By {
    Channel,
    Pattern,
}

impl By {
    fn of(self, connection: &mut Connection) -> &mut Vec<Bytes> {
        match self {
            Self::Channel => &mut connection.channels,
            Self::Pattern => &mut connection.patterns,
        }
    }

    fn listeners(self, sessions: &mut Sessions) -> &mut BTreeMap<Bytes, Vec<u64>> {
        match self {
            Self::Channel => &mut sessions.channels,
            Self::Pattern => &mut sessions.patterns,
        }
    }
}

/// One answer per channel, with how many channels and patterns the connection now listens to.
fn answer(call: &Call<'_>, channel: Reply) -> Reply {
    let count = call.connection.channels.len() + call.connection.patterns.len();
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Reply::Push(vec![Reply::bulk(call.name), channel, Reply::Integer(count)])
}

fn join(call: &mut Call<'_>, by: By) -> Reply {
    let mut answers = Vec::new();
    for channel in call.args {
        let own = by.of(call.connection);
        if !own.contains(channel) {
            own.push(channel.clone());
            let listeners = by.listeners(&mut call.machine.sessions);
            listeners
                .entry(channel.clone())
                .or_default()
                .push(call.connection.id);
        }
        answers.push(answer(call, Reply::Bulk(channel.clone())));
    }
    Reply::Sequence(answers)
}

fn leave_one(sessions: &mut Sessions, connection: &mut Connection, by: By, channel: &Bytes) {
    by.of(connection).retain(|other| other != channel);
    let listeners = by.listeners(sessions);
    if let Some(ids) = listeners.get_mut(channel) {
        ids.retain(|id| *id != connection.id);
        if ids.is_empty() {
            listeners.remove(channel);
        }
    }
}

/// Without arguments leaves all.
fn leave(call: &mut Call<'_>, by: By) -> Reply {
    let all = by.of(call.connection).clone();
    let channels = if call.args.is_empty() {
        &all
    } else {
        call.args
    };
    if channels.is_empty() {
        return answer(call, Reply::Null);
    }
    let mut answers = Vec::new();
    for channel in channels {
        leave_one(&mut call.machine.sessions, call.connection, by, channel);
        answers.push(answer(call, Reply::Bulk(channel.clone())));
    }
    Reply::Sequence(answers)
}

/// What becomes of the subscriptions of a connection that is closed or reset.
pub(crate) fn leave_all(sessions: &mut Sessions, connection: &mut Connection) {
    for by in [By::Channel, By::Pattern] {
        for channel in by.of(connection).clone() {
            leave_one(sessions, connection, by, &channel);
        }
    }
}

pub(crate) fn subscribe(call: &mut Call<'_>) -> Reply {
    join(call, By::Channel)
}

pub(crate) fn psubscribe(call: &mut Call<'_>) -> Reply {
    join(call, By::Pattern)
}

pub(crate) fn unsubscribe(call: &mut Call<'_>) -> Reply {
    leave(call, By::Channel)
}

pub(crate) fn punsubscribe(call: &mut Call<'_>) -> Reply {
    leave(call, By::Pattern)
}

/// A connection that listens over RESP2 may send nothing else: a reply could not be told from a
/// message.
pub(crate) fn refusal(connection: &Connection, name: &str) -> Option<Reply> {
    let listens = !connection.channels.is_empty() || !connection.patterns.is_empty();
    if connection.protocol == Protocol::Resp3 || !listens {
        return None;
    }
    let allowed = [
        "ping",
        "psubscribe",
        "punsubscribe",
        "quit",
        "reset",
        "subscribe",
        "unsubscribe",
    ];
    if allowed.contains(&name) {
        return None;
    }
    Some(Reply::error(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    )))
}

/// In Redis the order is that of a hash table; here it is that of the names.
pub(crate) fn channels(call: &mut Call<'_>) -> Reply {
    let pattern = match call.args {
        [] => None,
        [pattern] => Some(pattern),
        _ => return call.unknown_subcommand(),
    };
    let names = call.machine.sessions.channels.keys();
    let chosen = names.filter(|name| pattern.is_none_or(|pattern| matches(pattern, name)));
    Reply::Array(chosen.cloned().map(Reply::Bulk).collect())
}

pub(crate) fn numsub(call: &mut Call<'_>) -> Reply {
    let count = |channel: &Bytes| {
        let listeners = call.machine.sessions.channels.get(channel);
        let count = i64::try_from(listeners.map_or(0, Vec::len)).unwrap_or(i64::MAX);
        [Reply::Bulk(channel.clone()), Reply::Integer(count)]
    };
    Reply::Array(call.args.iter().flat_map(count).collect())
}

pub(crate) fn numpat(call: &mut Call<'_>) -> Reply {
    Reply::Integer(i64::try_from(call.machine.sessions.patterns.len()).unwrap_or(i64::MAX))
}
