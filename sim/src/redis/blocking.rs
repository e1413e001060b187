//! Commands that wait: BLPOP and its kin, and WAIT.
//!
//! A waiting connection gets no reply ([`Reply::Blocked`]); the answer comes as a message when
//! somebody writes what it waits for ([`Machine::take_messages`]) or its time is up
//! ([`Machine::time_out`]). Its node must execute nothing else for it in between. Who has waited
//! for a key longest is served first.
//!
//! In a transaction they do not wait, and a script may not call them.
//! See <https://redis.io/docs/latest/commands/blpop/>.
//!
//! Deliberately absent: XREAD; BLMPOP and BZMPOP; CLIENT UNBLOCK.

use bytes::Bytes;

use super::commands::Call;
use super::connection::Connection;
use super::effects::Effect;
use super::lists::{self, End};
use super::machine::Machine;
use super::numbers::parse_integer;
use super::replication::Replication;
use super::reply::Reply;
use super::value::{List, Sorted, Value};
use super::zsets;

/// A connection that waits.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    connection: Connection,
    keys: Vec<Bytes>,
    wants: Wants,
    /// The wall clock after which it waits no longer.
    until: Option<u64>,
}

/// What it waits for.
#[derive(Clone, Debug)]
enum Wants {
    /// An item of a list, with the name of the list.
    Item(End),
    /// An item of a list, which goes to another one.
    Move {
        from: End,
        to: End,
        destination: Bytes,
    },
    /// The lowest or highest member of a sorted set, with the name of the set.
    Member { lowest: bool },
    /// Replicas that have the stream up to here.
    Replicas {
        /// How many.
        count: u64,
        offset: u64,
    },
}

impl Blocked {
    pub(crate) fn is_of(&self, connection: u64) -> bool {
        self.connection.id == connection
    }

    pub(crate) fn connection(&self) -> u64 {
        self.connection.id
    }

    pub(crate) fn waits_for(&self, db: usize, key: &Bytes) -> bool {
        self.connection.db == db && self.keys.contains(key)
    }
}

impl Machine {
    /// Whether the connection waits, and must not be given another command.
    #[must_use]
    pub fn is_blocked(&self, connection: u64) -> bool {
        let mut blocked = self.sessions.blocked.iter();
        blocked.any(|blocked| blocked.connection.id == connection)
    }

    /// The wall clock in ms until which everybody waits: after it [`Self::time_out`] has something
    /// to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let untils = self
            .sessions
            .blocked
            .iter()
            .filter_map(|blocked| blocked.until);
        untils.min()
    }

    /// Answers everybody whose time to wait is up.
    pub fn time_out(&mut self, wall: u64) {
        let sessions = &mut *self.sessions;
        sessions.blocked.retain(|blocked| {
            let over = blocked.until.is_some_and(|until| wall > until);
            if over {
                let answer = blocked.wants.in_vain(&self.replication);
                sessions.outbox.push((blocked.connection.id, answer));
            }
            !over
        });
    }

    /// Answers those who wait for replicas that have caught up.
    pub(crate) fn answer_waiters(&mut self) {
        let sessions = &mut *self.sessions;
        sessions.blocked.retain(|blocked| {
            let Wants::Replicas { count, offset } = blocked.wants else {
                return true;
            };
            let acked = self.replication.acked(offset);
            if acked >= count {
                let answer = Reply::count(acked as usize);
                sessions.outbox.push((blocked.connection.id, answer));
            }
            acked < count
        });
    }

    /// Serves those who wait for what has just been written.
    pub(crate) fn serve_blocked(&mut self, wall: u64) {
        while let Some((db, key)) = self.sessions.ready.pop_front() {
            let mut next = 0;
            while let Some(blocked) = self.sessions.blocked.get(next) {
                let entry = self.entry(db, &key);
                let suits = entry.is_some_and(|entry| blocked.wants.suits(&entry.value));
                if !suits || !blocked.waits_for(db, &key) {
                    next += 1;
                    continue;
                }
                let mut blocked = blocked.clone();
                let (first, id) = (self.changes(), blocked.connection.id);
                let mut call = Call {
                    machine: self,
                    connection: &mut blocked.connection,
                    request: &[],
                    args: &[],
                    wall,
                    name: "",
                };
                match blocked.wants.take(&mut call, &key) {
                    Ok(None) => next += 1,
                    Ok(Some(answer)) | Err(answer) => {
                        self.served(first, id);
                        self.sessions.blocked.remove(next);
                        self.sessions.outbox.push((id, answer));
                    }
                }
            }
        }
    }
}

impl Wants {
    /// Whether a value is of the type that is waited for. Any other is as good as none.
    fn suits(&self, value: &Value) -> bool {
        match self {
            Self::Item(_) | Self::Move { .. } => matches!(value, Value::List(_)),
            Self::Member { .. } => matches!(value, Value::Sorted(_)),
            Self::Replicas { .. } => false,
        }
    }

    /// What is answered at once where nobody may wait.
    fn nothing(&self, replication: &Replication) -> Reply {
        match self {
            Self::Move { .. } => Reply::Null,
            _ => self.in_vain(replication),
        }
    }

    /// What is answered when the time is up.
    fn in_vain(&self, replication: &Replication) -> Reply {
        match self {
            Self::Replicas { offset, .. } => Reply::count(replication.acked(*offset) as usize),
            Self::Item(_) | Self::Member { .. } | Self::Move { .. } => Reply::NullArray,
        }
    }

    /// Takes it from `key`, if it is there.
    fn take(&self, call: &mut Call<'_>, key: &Bytes) -> Result<Option<Reply>, Reply> {
        match self {
            Self::Item(end) => {
                if call.modify::<List>(key)?.is_none() {
                    return Ok(None);
                }
                let item = lists::pop_one(call, key, *end)?.unwrap_or(Reply::Null);
                Ok(Some(Reply::Array(vec![Reply::Bulk(key.clone()), item])))
            }
            Self::Move {
                from,
                to,
                destination,
            } => lists::move_one(call, key, destination, *from, *to),
            Self::Member { lowest } => {
                if call.modify::<Sorted>(key)?.is_none() {
                    return Ok(None);
                }
                let mut answer = vec![Reply::Bulk(key.clone())];
                answer.extend(zsets::pop_members(call, key, 1, *lowest)?);
                Ok(Some(Reply::Array(answer)))
            }
            Self::Replicas { .. } => Ok(None),
        }
    }
}

/// The deadline a command asks for by its last word, in seconds.
fn until(call: &Call<'_>, seconds: &[u8]) -> Result<Option<u64>, Reply> {
    let text = std::str::from_utf8(seconds).ok();
    let number: Option<f64> = text.and_then(|text| text.parse().ok());
    let seconds = number
        .filter(|seconds| !seconds.is_nan())
        .ok_or(Reply::fixed_error(
            "ERR timeout is not a float or out of range",
        ))?;
    let millis = (seconds * 1000.0).ceil();
    // What does not fit is cast to the smallest integer.
    if millis < 0.0 || millis >= i64::MAX as f64 {
        return Err(Reply::fixed_error("ERR timeout is negative"));
    }
    // Less than a millisecond still waits for one: none at all would be for ever.
    Ok((millis > 0.0).then(|| call.wall.saturating_add(millis as u64)))
}

/// Answers at once with the first key that has something, or waits for all of them.
fn wait_for(
    call: &mut Call<'_>,
    keys: &[Bytes],
    wants: Wants,
    until: Option<u64>,
) -> Result<Reply, Reply> {
    for key in keys {
        if let Some(answer) = wants.take(call, key)? {
            return Ok(answer);
        }
    }
    Ok(block(call, keys, wants, until))
}

fn block(call: &mut Call<'_>, keys: &[Bytes], wants: Wants, until: Option<u64>) -> Reply {
    if call.connection.executing {
        return wants.nothing(&call.machine.replication);
    }
    // Its subscriptions and what it watches stay with the original.
    let mut connection = Connection::new(call.connection.id);
    (connection.db, connection.protocol) = (call.connection.db, call.connection.protocol);
    let keys = keys.to_vec();
    call.machine.sessions.blocked.push_back(Blocked {
        connection,
        keys,
        wants,
        until,
    });
    Reply::Blocked
}

fn pop_blocking(call: &mut Call<'_>, wants: Wants) -> Result<Reply, Reply> {
    let (seconds, keys) = call.args.split_last().expect("the arity asks for a time");
    let until = until(call, seconds)?;
    wait_for(call, keys, wants, until)
}

pub(crate) fn blpop(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop_blocking(call, Wants::Item(End::Left))
}

pub(crate) fn brpop(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop_blocking(call, Wants::Item(End::Right))
}

pub(crate) fn bzpopmin(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop_blocking(call, Wants::Member { lowest: true })
}

pub(crate) fn bzpopmax(call: &mut Call<'_>) -> Result<Reply, Reply> {
    pop_blocking(call, Wants::Member { lowest: false })
}

pub(crate) fn blmove(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let args = call.args;
    let (from, to) = (End::parse(&args[2])?, End::parse(&args[3])?);
    let (until, destination) = (until(call, &args[4])?, args[1].clone());
    let wants = Wants::Move {
        from,
        to,
        destination,
    };
    wait_for(call, &args[..1], wants, until)
}

pub(crate) fn brpoplpush(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let args = call.args;
    let (until, destination) = (until(call, &args[2])?, args[1].clone());
    let (from, to) = (End::Right, End::Left);
    let wants = Wants::Move {
        from,
        to,
        destination,
    };
    wait_for(call, &args[..1], wants, until)
}

/// Waits for replicas to have what there was after this connection's last command.
pub(crate) fn wait(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.machine.replication.is_replica() {
        return Err(Reply::fixed_error(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 \
             if a replica is configured to be writable (which is not the default) writes to \
             replicas are just local and are not propagated.",
        ));
    }
    let replicas = call.integer(0)?;
    let millis = parse_integer(&call.args[1]).ok_or(Reply::fixed_error(
        "ERR timeout is not an integer or out of range",
    ))?;
    let millis =
        u64::try_from(millis).map_err(|_| Reply::fixed_error("ERR timeout is negative"))?;
    let (count, offset) = (u64::try_from(replicas).unwrap_or(0), call.connection.seen);
    let acked = call.machine.replication.acked(offset);
    if acked >= count {
        return Ok(Reply::count(acked as usize));
    }
    let until = (millis > 0).then(|| call.wall.saturating_add(millis));
    let answer = block(call, &[], Wants::Replicas { count, offset }, until);
    if answer == Reply::Blocked {
        call.machine.tell_replicas(&Effect::GetAck);
    }
    Ok(answer)
}
