//! A coordination server: keys with revisions, sessions, and waiting for changes. What etcd,
//! ZooKeeper, Consul, the API server of Kubernetes and DynamoDB have in common, as far as locks
//! live on it.
//!
//! One node stands for the whole consistent quorum: what it has answered stays, over crashes and
//! power losses, and its revisions never go back. A change of the leader is therefore a time in
//! which nobody answers, a pause or a restart of the node.
//!
//! - **Keys** have a value, the revision that created them, the one that changed them last, and a
//!   version that counts their changes. A [transaction](Request::Transact) checks conditions and
//!   makes all its changes or none: etcd's `Txn`, DynamoDB's conditional write, an update with a
//!   `resourceVersion`.
//! - **Sessions** (etcd calls them leases) end when no [keep-alive](Request::KeepAlive) has come for
//!   their TTL. The server measures that with its own monotonic clock, from when the last one
//!   reached it: the wall clock has no part in it (etcd's `lessor`, ZooKeeper's `SessionTracker` and
//!   Consul's session timers all wait on a monotonic clock). A key that is bound to a session
//!   vanishes with it, or is only released ([`KeysOf`]).
//! - **A lock-delay** holds a released key back for a while after a session that held it ended. Who
//!   releases it properly causes none (Consul).
//! - **Waiting**: [`Request::Await`] is answered when a key has changed since a revision, its
//!   deletion included: etcd's watch, ZooKeeper's one-time watch, Consul's blocking query.
//!
//! A server that comes back, or stood still for longer than an election takes, gives every session
//! its full TTL again, as the new leader of an etcd (`lessor.Promote`), ZooKeeper or Consul does: it
//! cannot know what the old one heard.
//!
//! Sessions end to the millisecond. Real servers are later: etcd looks every 500 ms, ZooKeeper once
//! in a tick, and Consul waits for twice the TTL, which is no more than a lower bound there.
//!
//! Deliberately absent: Raft or Zab inside, so no leader that answers from old state; reads that
//! are not linearizable; ranges and history of old revisions; access control.

mod client;
pub(crate) mod node;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Millis;
pub(crate) use client::Connection;
pub use client::Unanswered;

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The revision that created it: etcd's create revision, ZooKeeper's czxid.
    pub created: u64,
    /// The revision that changed it last: Consul's ModifyIndex, Kubernetes' resourceVersion.
    pub modified: u64,
    /// How often it was put since it was created.
    pub version: u64,
    /// The session that it is bound to.
    pub session: Option<u64>,
}

/// What becomes of a session's keys when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeysOf {
    /// They vanish: etcd, ZooKeeper.
    Deleted,
    /// They stay, and nobody holds them: Consul.
    Released,
}

/// What a transaction demands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "if")]
pub enum Condition {
    /// There is no such key.
    Absent {
        /// Which.
        key: String,
    },
    /// The key was not changed since.
    Unchanged {
        /// Which.
        key: String,
        /// The revision that changed it last.
        modified: u64,
    },
    /// The key is bound to this session.
    HeldBy {
        /// Which.
        key: String,
        /// By whom.
        session: u64,
    },
    /// No session holds the key, and no lock-delay keeps it back.
    Free {
        /// Which.
        key: String,
    },
}

/// What a transaction does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Change {
    /// Sets a value, and binds the key to a session or to none.
    Put {
        /// Which key.
        key: String,
        /// The value.
        value: String,
        /// The session.
        session: Option<u64>,
    },
    /// Creates the next child of a parent: its name and ten digits that count the parent's
    /// children. An ephemeral sequential node of ZooKeeper.
    PutNext {
        /// The parent, with what separates it from the name.
        parent: String,
        /// The name before the digits.
        name: String,
        /// The value.
        value: String,
        /// The session.
        session: u64,
    },
    /// Deletes a key.
    Delete {
        /// Which.
        key: String,
    },
}

/// What a client can ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum Request {
    /// Opens a session.
    Open {
        /// For how long it lives without a keep-alive.
        ttl: Millis,
        /// What becomes of its keys.
        keys: KeysOf,
        /// For how long nobody can take what it held when it ended.
        lock_delay: Millis,
    },
    /// Gives a session its full TTL again.
    KeepAlive {
        /// Which.
        session: u64,
    },
    /// Ends a session.
    End {
        /// Which.
        session: u64,
    },
    /// Every key that begins so.
    Read {
        /// How.
        prefix: String,
    },
    /// The key, once it has changed after a revision.
    Await {
        /// Which.
        key: String,
        /// Since when.
        after: u64,
    },
    /// If every condition holds, makes every change; and reads.
    Transact {
        /// The conditions.
        when: Vec<Condition>,
        /// The changes.
        then: Vec<Change>,
        /// Which keys to read afterwards, changed or not: those that begin so.
        read: String,
    },
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// A session was opened.
    Opened {
        /// Its number.
        session: u64,
    },
    /// It was done.
    Done,
    /// The session that was named has ended, or never was; nothing was done.
    NoSession,
    /// Some keys.
    State {
        /// Whether the transaction's conditions held; true when there were none.
        succeeded: bool,
        /// The server's revision.
        revision: u64,
        /// The keys, by name.
        entries: Vec<Entry>,
    },
}

/// A key before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its name.
    pub key: String,
    /// What was there.
    pub before: Option<Entry>,
    /// What is there.
    pub after: Option<Entry>,
}

/// The server without its connections: a state machine.
#[derive(Debug, Default)]
pub struct Machine {
    revision: u64,
    keys: BTreeMap<String, Entry>,
    sessions: BTreeMap<u64, Session>,
    /// The revision that changed or deleted a key last.
    touched: BTreeMap<String, u64>,
    /// How many children a parent has had.
    children: BTreeMap<String, u64>,
    /// Until when a lock-delay keeps a key back.
    delays: BTreeMap<String, Millis>,
    opened: u64,
    changes: Vec<Changed>,
}

#[derive(Debug)]
struct Session {
    ttl: Millis,
    keys: KeysOf,
    lock_delay: Millis,
    deadline: Millis,
}

impl Request {
    /// Its name in a history.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open-session",
            Self::KeepAlive { .. } => "keep-alive",
            Self::End { .. } => "end-session",
            Self::Read { .. } => "read",
            Self::Await { .. } => "await",
            Self::Transact { .. } => "transact",
        }
    }

    /// Whether it may take a lock: it puts something.
    pub fn takes(&self) -> bool {
        let puts = |change: &Change| !matches!(change, Change::Delete { .. });
        matches!(self, Self::Transact { then, .. } if then.iter().any(puts))
    }
}

impl Machine {
    /// Executes a request at a time of the server's monotonic clock. Nothing is answered to
    /// whoever waits for a change that has not come.
    pub fn execute(&mut self, request: &Request, now: Millis) -> Option<Reply> {
        Some(match request {
            Request::Open {
                ttl,
                keys,
                lock_delay,
            } => {
                self.opened += 1;
                let session = Session {
                    ttl: *ttl,
                    keys: *keys,
                    lock_delay: *lock_delay,
                    deadline: now + ttl,
                };
                self.sessions.insert(self.opened, session);
                Reply::Opened {
                    session: self.opened,
                }
            }
            Request::KeepAlive { session } => match self.sessions.get_mut(session) {
                Some(session) => {
                    session.deadline = now + session.ttl;
                    Reply::Done
                }
                None => Reply::NoSession,
            },
            Request::End { session } => {
                if self.sessions.contains_key(session) {
                    self.end(*session, now);
                    Reply::Done
                } else {
                    Reply::NoSession
                }
            }
            Request::Read { prefix } => self.state(true, prefix),
            Request::Await { key, after } => return self.awaited(key, *after),
            Request::Transact { when, then, read } => {
                let unknown = |session| !self.sessions.contains_key(session);
                if then.iter().filter_map(Change::session).any(unknown) {
                    return Some(Reply::NoSession);
                }
                let succeeded = when.iter().all(|condition| self.holds(condition, now));
                if succeeded && !then.is_empty() {
                    self.revision += 1;
                    for change in then {
                        self.apply(change);
                    }
                }
                self.state(succeeded, read)
            }
        })
    }

    /// The answer to [`Request::Await`], once there is one.
    pub fn awaited(&self, key: &str, after: u64) -> Option<Reply> {
        let changed = self.touched.get(key).is_some_and(|last| *last > after);
        changed.then(|| Reply::State {
            succeeded: true,
            revision: self.revision,
            entries: self.keys.get(key).cloned().into_iter().collect(),
        })
    }

    /// When the next session ends if nothing more is heard of it.
    pub fn next_deadline(&self) -> Option<Millis> {
        let deadlines = self.sessions.values().map(|session| session.deadline);
        deadlines.min()
    }

    /// Ends the sessions whose time is over.
    pub fn expire(&mut self, now: Millis) {
        let over = |(id, session): (&u64, &Session)| (session.deadline <= now).then_some(*id);
        for id in self.sessions.iter().filter_map(over).collect::<Vec<_>>() {
            self.end(id, now);
        }
    }

    /// Gives every session its full TTL again, as a new leader does.
    pub fn extend(&mut self, now: Millis) {
        for session in self.sessions.values_mut() {
            session.deadline = now + session.ttl;
        }
    }

    /// Which keys have changed since it was asked last, in order.
    pub fn take_changes(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changes)
    }

    fn state(&self, succeeded: bool, prefix: &str) -> Reply {
        let entries = self.keys.range(prefix.to_owned()..);
        let entries = entries.take_while(|(key, _)| key.starts_with(prefix));
        Reply::State {
            succeeded,
            revision: self.revision,
            entries: entries.map(|(_, entry)| entry.clone()).collect(),
        }
    }

    fn holds(&self, condition: &Condition, now: Millis) -> bool {
        let session = |key| self.keys.get(key).and_then(|entry| entry.session);
        match condition {
            Condition::Absent { key } => !self.keys.contains_key(key),
            Condition::Unchanged { key, modified } => {
                let entry = self.keys.get(key);
                entry.is_some_and(|entry| entry.modified == *modified)
            }
            Condition::HeldBy { key, session: by } => session(key) == Some(*by),
            Condition::Free { key } => {
                session(key).is_none() && self.delays.get(key).is_none_or(|until| *until <= now)
            }
        }
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put {
                key,
                value,
                session,
            } => self.put(key, value, *session),
            Change::PutNext {
                parent,
                name,
                value,
                session,
            } => {
                let children = self.children.entry(parent.clone()).or_insert(0);
                let key = format!("{parent}{name}{children:010}");
                *children += 1;
                self.put(&key, value, Some(*session));
            }
            Change::Delete { key } => {
                if let Some(before) = self.keys.remove(key) {
                    self.note(key, Some(before), None);
                }
            }
        }
    }

    fn put(&mut self, key: &str, value: &str, session: Option<u64>) {
        let before = self.keys.get(key).cloned();
        let after = Entry {
            key: key.to_owned(),
            value: value.to_owned(),
            created: before.as_ref().map_or(self.revision, |entry| entry.created),
            modified: self.revision,
            version: before.as_ref().map_or(1, |entry| entry.version + 1),
            session,
        };
        self.keys.insert(key.to_owned(), after.clone());
        self.note(key, before, Some(after));
    }

    fn note(&mut self, key: &str, before: Option<Entry>, after: Option<Entry>) {
        self.touched.insert(key.to_owned(), self.revision);
        self.changes.push(Changed {
            key: key.to_owned(),
            before,
            after,
        });
    }

    fn end(&mut self, id: u64, now: Millis) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        let bound = self.keys.values().filter(|entry| entry.session == Some(id));
        let bound: Vec<Entry> = bound.cloned().collect();
        if bound.is_empty() {
            return;
        }
        self.revision += 1;
        for Entry { key, value, .. } in bound {
            match session.keys {
                KeysOf::Deleted => self.apply(&Change::Delete { key }),
                KeysOf::Released => {
                    self.put(&key, &value, None);
                    self.delays.insert(key, now + session.lock_delay);
                }
            }
        }
    }
}

impl Change {
    /// The session that must live for it.
    fn session(&self) -> Option<&u64> {
        match self {
            Self::Put { session, .. } => session.as_ref(),
            Self::PutNext { session, .. } => Some(session),
            Self::Delete { .. } => None,
        }
    }
}
