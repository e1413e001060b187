//! What a server knows of its connections beyond the one it is serving: who watches which keys,
//! who listens to which channels, who waits for an item, and the messages for them all.
//!
//! A connection's own part of it, such as the commands it has queued, is in its
//! [`Connection`](super::Connection).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use bytes::Bytes;

use super::blocking::Blocked;
use super::notify::Class;
use super::reply::Reply;

/// Everybody's part of one server's connections.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    watched: BTreeMap<(usize, Bytes), Vec<Watcher>>,
    /// Whose watched keys have been touched.
    dirty: BTreeSet<u64>,
    /// Who listens, in the order of subscription.
    pub(crate) channels: BTreeMap<Bytes, Vec<u64>>,
    pub(crate) patterns: BTreeMap<Bytes, Vec<u64>>,
    /// In the order in which they began to wait.
    pub(crate) blocked: VecDeque<Blocked>,
    /// Keys that have come to hold something to pop.
    pub(crate) ready: VecDeque<(usize, Bytes)>,
    /// Which events are published.
    pub(crate) events: Class,
    pub(crate) outbox: Vec<(u64, Reply)>,
    pub(crate) pause: Option<Pause>,
    /// The state of random choices by commands, apart from that of scripts.
    draws: u64,
}

/// Clients are to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// The wall clock at which they go on.
    pub(crate) until: u64,
    /// All of them, not only those that write.
    pub(crate) all: bool,
}

#[derive(Debug)]
struct Watcher {
    connection: u64,
    /// The key was already past its deadline, so its deletion changes nothing.
    was_past: bool,
}

impl Sessions {
    /// Whether a write concerns nobody.
    pub(crate) fn is_idle(&self) -> bool {
        self.watched.is_empty() && self.blocked.is_empty() && self.events.is_empty()
    }

    /// A key was written or deleted.
    pub(crate) fn touch(&mut self, db: usize, key: &Bytes, exists: bool) {
        if self.watched.is_empty() {
            return;
        }
        for watcher in self
            .watched
            .get_mut(&(db, key.clone()))
            .into_iter()
            .flatten()
        {
            if watcher.was_past && !exists {
                watcher.was_past = false;
            } else {
                self.dirty.insert(watcher.connection);
            }
        }
    }

    pub(crate) fn watch(&mut self, connection: u64, db: usize, key: &Bytes, was_past: bool) {
        let watchers = self.watched.entry((db, key.clone())).or_default();
        watchers.push(Watcher {
            connection,
            was_past,
        });
    }

    /// Whether `connection` began to watch the key when it was past its deadline.
    pub(crate) fn watched_past(&self, connection: u64, place: &(usize, Bytes)) -> bool {
        let mut watchers = self.watched.get(place).into_iter().flatten();
        watchers.any(|watcher| watcher.connection == connection && watcher.was_past)
    }

    pub(crate) fn is_dirty(&self, connection: u64) -> bool {
        self.dirty.contains(&connection)
    }

    pub(crate) fn unwatch(&mut self, connection: u64, places: &[(usize, Bytes)]) {
        for place in places {
            if let Some(watchers) = self.watched.get_mut(place) {
                watchers.retain(|watcher| watcher.connection != connection);
                if watchers.is_empty() {
                    self.watched.remove(place);
                }
            }
        }
        self.dirty.remove(&connection);
    }

    /// Notes that somebody may be waiting for what `key` holds now.
    pub(crate) fn ready(&mut self, db: usize, key: &Bytes) {
        let waited = |blocked: &Blocked| blocked.waits_for(db, key);
        let place = (db, key.clone());
        if self.blocked.iter().any(waited) && !self.ready.contains(&place) {
            self.ready.push_back(place);
        }
    }

    /// Takes the messages for `connection` out of the outbox.
    pub(crate) fn messages_for(&mut self, connection: u64) -> Vec<Reply> {
        if self.outbox.iter().all(|(to, _)| *to != connection) {
            return Vec::new();
        }
        let (own, others): (Vec<_>, Vec<_>) = mem::take(&mut self.outbox)
            .into_iter()
            .partition(|(to, _)| *to == connection);
        self.outbox = others;
        own.into_iter().map(|(_, message)| message).collect()
    }

    /// A number below `below`, from the server's own sequence: Steele, Lea and Flood's SplitMix64.
    pub(crate) fn draw(&mut self, below: usize) -> usize {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.draws ^ (self.draws >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % below as u64).expect("below a usize")
    }
}
