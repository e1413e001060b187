//! What every command does: reading its arguments, finding its keys, saving what it made of them.

use std::sync::Arc;

use bytes::Bytes;

use super::commands::Call;
use super::connection::Protocol;
use super::machine::{Cause, Entry};
use super::notify::Class;
use super::numbers::parse_integer;
use super::reply::Reply;
use super::value::{Collection, Value};

impl Call<'_> {
    /// Whether replies have the shapes of RESP3.
    pub(crate) fn resp3(&self) -> bool {
        self.connection.protocol == Protocol::Resp3
    }

    /// An argument that must be an integer.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, Reply> {
        parse_integer(&self.args[index]).ok_or(Reply::NOT_AN_INTEGER)
    }

    /// What is under `key`, for a command that may write it.
    pub(crate) fn look(&mut self, key: &[u8]) -> Option<&Entry> {
        self.machine.look(self.connection.db, key, self.wall)
    }

    /// What is under `key`, for a command that only reads. A miss can be listened to.
    pub(crate) fn read(&mut self, key: &[u8]) -> Option<&Entry> {
        let db = self.connection.db;
        if self.machine.look(db, key, self.wall).is_none() {
            self.notify(Class::MISS, "keymiss", key);
            return None;
        }
        self.machine.look(db, key, self.wall)
    }

    /// As [`Self::read`], for one type of value.
    pub(crate) fn read_as<T: Collection>(&mut self, key: &[u8]) -> Result<Option<&T>, Reply> {
        match self.read(key) {
            None => Ok(None),
            Some(entry) => T::of(&entry.value)
                .map(|this| Some(&**this))
                .ok_or(Reply::WRONG_TYPE),
        }
    }

    /// What is under `key`, to be changed and saved, with the key's deadline.
    pub(crate) fn modify<T: Collection>(&mut self, key: &[u8]) -> Result<Option<Found<T>>, Reply> {
        match self.look(key) {
            None => Ok(None),
            Some(Entry { value, deadline }) => match T::of(value) {
                Some(this) => Ok(Some((Arc::clone(this), *deadline))),
                None => Err(Reply::WRONG_TYPE),
            },
        }
    }

    /// As [`Self::modify`], with nothing in it if the key is absent.
    pub(crate) fn modify_or_new<T: Collection>(&mut self, key: &[u8]) -> Result<Found<T>, Reply> {
        Ok(self.modify(key)?.unwrap_or_default())
    }

    /// Saves a changed collection, or deletes its key if nothing is left of it.
    pub(crate) fn save<T: Collection>(
        &mut self,
        key: &Bytes,
        (this, deadline): Found<T>,
        class: Class,
        event: &str,
    ) {
        let gone = this.len() == 0;
        if gone {
            self.machine.remove(self.connection.db, key, Cause::Command);
        } else {
            self.put(key, T::wrap(this), deadline);
        }
        self.notify(class, event, key);
        if gone {
            self.notify(Class::GENERIC, "del", key);
        }
    }

    /// Writes `key`, whatever it was before.
    pub(crate) fn put(&mut self, key: &Bytes, value: Value, deadline: Option<u64>) {
        let entry = Entry { value, deadline };
        self.machine.put(self.connection.db, key, entry);
    }
}

/// A collection and its key's deadline.
pub(crate) type Found<T> = (Arc<T>, Option<u64>);

/// The part of a sequence of `length` items that two indices name, of which negative ones count
/// from the end.
pub(crate) fn range(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length_ = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(length_)
        } else {
            index
        }
    };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length_ - 1);
    if start > stop {
        return 0..0;
    }
    let index = |index: i64| usize::try_from(index).unwrap_or(length);
    index(start)..index(stop) + 1
}

/// The place that one index names, if there is something.
pub(crate) fn place(index: i64, length: usize) -> Option<usize> {
    let length_ = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 {
        index.checked_add(length_)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < length)
}
