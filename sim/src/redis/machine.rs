//! One server's memory: its databases, when keys expire, which scripts it knows.
//!
//! A key past its deadline is still in memory until somebody looks at it or the active cycle
//! comes by, as in Redis: it is invisible, and yet counted by `DBSIZE`, and if the wall clock is
//! set back before it is deleted, it lives on. Lock scenarios depend on all three.
//!
//! Everything that writes goes through [`Machine::put`] and [`Machine::remove`], so no change of a
//! key can be missing from [`Machine::take_changes`].
//!
//! Deliberately absent: any notion of who sent a command. The node knows that.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use bytes::Bytes;

use super::commands;
use super::connection::Connection;
use super::lua::{self, Sha};
use super::notify::{self, Class};
use super::replication::Replication;
use super::reply::Reply;
use super::sessions::Sessions;
use super::value::Value;

/// How many databases a server has: the default of Redis.
pub const DATABASES: usize = 16;

/// The state of one server.
#[derive(Debug)]
pub struct Machine {
    /// Grown when a database is first written to, so that an empty machine costs nothing: a script
    /// swaps one in for its duration.
    databases: Vec<BTreeMap<Bytes, Entry>>,
    /// Every key that has a deadline, the earliest first.
    deadlines: BTreeSet<(u64, usize, Bytes)>,
    pub(crate) changes: Vec<Change>,
    /// What `EVALSHA` may ask for.
    pub(crate) scripts: BTreeMap<Sha, Bytes>,
    /// The state of `math.random`, which 7.0 carries on from script to script.
    pub(crate) random: u64,
    /// What is known of connections other than the one that is being served. Apart, because a
    /// script moves the machine about.
    pub(crate) sessions: Box<Sessions>,
    /// Whom it follows, and who follows it.
    pub(crate) replication: Box<Replication>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            databases: Vec::new(),
            deadlines: BTreeSet::new(),
            changes: Vec::new(),
            scripts: BTreeMap::new(),
            random: lua::UNSEEDED,
            sessions: Box::default(),
            replication: Box::default(),
        }
    }
}

/// What a key holds, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// The wall clock in ms at which the key expires; it can still be read at that very
    /// millisecond.
    pub deadline: Option<u64>,
}

/// A key that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The database the key is in.
    pub db: usize,
    /// The key.
    pub key: Bytes,
    /// What it was; nothing if it did not exist.
    pub before: Option<Entry>,
    /// What it is now; nothing if it was deleted.
    pub after: Option<Entry>,
    /// Why it changed.
    pub cause: Cause,
}

/// Why a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A command wrote it, a script's commands included.
    Command,
    /// A command wrote it on behalf of a connection that was waiting for it, as BLPOP does.
    Served {
        /// The number of that connection.
        connection: u64,
    },
    /// Its deadline passed, and it was looked at or the active cycle came by.
    Expiry,
    /// The server needed the memory.
    Eviction,
    /// It was copied from a master, or read from a file.
    Replicated,
}

impl Machine {
    /// A server that has just started without data.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it follows a master.
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.replication.is_replica()
    }

    /// How many bytes of the stream of replication it has written, or copied.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.replication.offset
    }

    /// Executes one request. `wall` is the server's wall clock in ms at this instant.
    ///
    /// An empty request cannot come from the [`Decoder`](super::Decoder).
    pub fn execute(&mut self, request: &[Bytes], connection: &mut Connection, wall: u64) -> Reply {
        let first = self.changes();
        let reply = commands::serve(self, request, connection, wall);
        self.propagate(first);
        connection.seen = self.replication.offset;
        reply
    }

    /// What has changed since the last call, in order. A write that left a key as it was is not
    /// among it.
    pub fn take_changes(&mut self) -> Vec<Change> {
        mem::take(&mut self.changes)
    }

    /// What has been sent since the last call to connections other than the one whose request was
    /// executed, in order: the number of the connection and the message, which is a
    /// [`Reply::Push`] or the answer to a command that had to wait.
    pub fn take_messages(&mut self) -> Vec<(u64, Reply)> {
        mem::take(&mut self.sessions.outbox)
    }

    /// The earliest deadline of any key: when [`Self::expire_due`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        if self.replication.is_replica() {
            return None;
        }
        self.deadlines.first().map(|(deadline, ..)| *deadline)
    }

    /// The active cycle: deletes every key whose deadline is reached. A command would still read a
    /// key at its very deadline; the cycle already deletes it. A replica waits for its master to do it.
    pub fn expire_due(&mut self, wall: u64) {
        if self.replication.is_replica() {
            return;
        }
        let first = self.changes();
        while let Some((deadline, db, key)) = self.deadlines.first() {
            if wall < *deadline || self.is_paused(wall) {
                break;
            }
            let (db, key) = (*db, key.clone());
            self.remove(db, &key, Cause::Expiry);
        }
        self.propagate(first);
    }

    /// The keys of database 0 and what they hold, those past their deadline and not yet deleted
    /// included, in the order of their bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.entries_of(0)
    }

    /// As [`Self::entries`], for any database.
    pub fn entries_of(&self, db: usize) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.databases.get(db).into_iter().flatten()
    }

    /// How many keys `db` holds, those past their deadline and not yet deleted included.
    pub(crate) fn size(&self, db: usize) -> usize {
        self.databases.get(db).map_or(0, BTreeMap::len)
    }

    /// What a command sees under `key`. A key past its deadline is deleted by being looked at.
    pub(crate) fn look(&mut self, db: usize, key: &[u8], wall: u64) -> Option<&Entry> {
        let deadline = self.databases.get(db)?.get(key)?.deadline;
        if deadline.is_some_and(|deadline| wall > deadline) {
            if !self.is_paused(wall) && !self.replication.is_replica() {
                self.remove(db, key, Cause::Expiry);
            }
            return None;
        }
        self.databases[db].get(key)
    }

    /// What is in memory under `key`, past its deadline or not.
    pub(crate) fn entry(&self, db: usize, key: &[u8]) -> Option<&Entry> {
        self.databases.get(db)?.get(key)
    }

    /// Whether `key` is there and past its deadline. Deletes nothing.
    pub(crate) fn is_past(&self, db: usize, key: &[u8], wall: u64) -> bool {
        let entry = self.entry(db, key);
        entry.is_some_and(|entry| entry.deadline.is_some_and(|deadline| wall > deadline))
    }

    /// Writes `key`, whatever it was before.
    pub(crate) fn put(&mut self, db: usize, key: &Bytes, entry: Entry) {
        self.put_because(db, key, entry, Cause::Command);
    }

    /// As [`Self::put`], for any cause.
    pub(crate) fn put_because(&mut self, db: usize, key: &Bytes, entry: Entry, cause: Cause) {
        if self.databases.len() <= db {
            self.databases.resize_with(db + 1, BTreeMap::new);
        }
        let before = self.databases[db].insert(key.clone(), entry.clone());
        if !self.sessions.is_idle() {
            self.written(db, key, before.as_ref(), &entry.value);
        }
        if before.as_ref() == Some(&entry) {
            return;
        }
        let old = before.as_ref().and_then(|entry| entry.deadline);
        if old != entry.deadline {
            if let Some(deadline) = old {
                self.deadlines.remove(&(deadline, db, key.clone()));
            }
            if let Some(deadline) = entry.deadline {
                self.deadlines.insert((deadline, db, key.clone()));
            }
        }
        let (key, after) = (key.clone(), Some(entry));
        self.changes.push(Change {
            db,
            key,
            before,
            after,
            cause,
        });
    }

    /// Deletes `key`. Says whether it was there.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8], cause: Cause) -> bool {
        let removed = self
            .databases
            .get_mut(db)
            .and_then(|keys| keys.remove_entry(key));
        let Some((key, before)) = removed else {
            return false;
        };
        if let Some(deadline) = before.deadline {
            self.deadlines.remove(&(deadline, db, key.clone()));
        }
        if !self.sessions.is_idle() {
            self.deleted(db, &key, cause);
        }
        self.changes.push(Change {
            db,
            key,
            before: Some(before),
            after: None,
            cause,
        });
        true
    }

    /// Tells those who wait for, watch or listen to `key` that it was written.
    fn written(&mut self, db: usize, key: &Bytes, before: Option<&Entry>, value: &Value) {
        self.sessions.touch(db, key, true);
        if before.is_none() {
            notify::publish(&mut self.sessions, Class::NEW, "new", db, key);
        }
        let same_type = |entry: &Entry| entry.value.type_name() == value.type_name();
        if matches!(value, Value::List(_) | Value::Sorted(_)) && !before.is_some_and(same_type) {
            self.sessions.ready(db, key);
        }
    }

    /// Tells those who watch or listen to `key` that it was deleted. Of a command it tells itself.
    fn deleted(&mut self, db: usize, key: &Bytes, cause: Cause) {
        self.sessions.touch(db, key, false);
        let (class, event) = match cause {
            Cause::Command | Cause::Served { .. } | Cause::Replicated => return,
            Cause::Expiry => (Class::EXPIRED, "expired"),
            Cause::Eviction => (Class::EVICTED, "evicted"),
        };
        notify::publish(&mut self.sessions, class, event, db, key);
    }

    /// Notes that what changed from the `first`-th change on was done for a connection that waited.
    pub(crate) fn served(&mut self, first: usize, connection: u64) {
        for change in &mut self.changes[first..] {
            if change.cause == Cause::Command {
                change.cause = Cause::Served { connection };
            }
        }
    }

    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Deletes every key of every database.
    pub(crate) fn empty(&mut self, cause: Cause) {
        let first = self.changes();
        for db in 0..self.databases.len() {
            self.flush(db, cause);
        }
        self.propagate(first);
    }

    /// Deletes every key of `db`.
    pub(crate) fn flush(&mut self, db: usize, cause: Cause) {
        let Some(keys) = self.databases.get_mut(db) else {
            return;
        };
        for (key, before) in mem::take(keys) {
            self.deleted(db, &key, cause);
            if let Some(deadline) = before.deadline {
                self.deadlines.remove(&(deadline, db, key.clone()));
            }
            self.changes.push(Change {
                db,
                key,
                before: Some(before),
                after: None,
                cause,
            });
        }
    }
}
