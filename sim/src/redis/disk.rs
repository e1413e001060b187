//! What a Redis server has written to its append-only file, and what of it a power loss spares.
//!
//! A command's effects are written before it is answered, so a killed process loses nothing that
//! anybody has been told: the kernel has it. `everysec` forces it to the disk in the background
//! when a second has passed since the last time; what came later goes with the power. `always`
//! forces it before the answer. Deadlines are absolute, so leases run on while the server is down.
//!
//! Deliberately absent: an fsync that takes time, and the write that waits up to 2 s for it;
//! snapshots (RDB); a file that is cut off in the middle.

use std::collections::BTreeMap;
use std::mem;

use bytes::Bytes;

use super::deployment::Persistence;
use super::machine::{Cause, Change, Entry, Machine};
use crate::Millis;

/// How long `everysec` waits after it has forced the file to the disk.
const SECOND: Millis = 1_000;

/// One server's disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    forced: BTreeMap<(usize, Bytes), Entry>,
    /// Written, but not forced to the disk.
    written: Vec<Change>,
    /// When the file was last forced to the disk.
    last: Millis,
}

impl Disk {
    /// Writes what has changed. `now` is the server's monotonic clock.
    pub(crate) fn write(&mut self, changes: &[Change], how: Persistence, now: Millis) {
        if changes.is_empty() {
            return;
        }
        match how {
            Persistence::None => {}
            Persistence::EverySecond => {
                self.catch_up(now);
                self.written.extend_from_slice(changes);
                if now >= self.last + SECOND {
                    self.force(now);
                }
            }
            Persistence::Always => {
                self.written.extend_from_slice(changes);
                self.force(now);
            }
        }
    }

    /// What has not reached the disk is gone.
    pub(crate) fn lose_power(&mut self, now: Millis) {
        self.catch_up(now);
        self.written.clear();
    }

    /// Puts what is in the file into an empty server.
    pub(crate) fn load(&mut self, machine: &mut Machine, now: Millis) {
        self.force(now);
        for ((db, key), entry) in &self.forced {
            machine.put_because(*db, key, entry.clone(), Cause::Replicated);
        }
        // It has not changed; it is there.
        machine.take_changes();
    }

    fn catch_up(&mut self, now: Millis) {
        if !self.written.is_empty() && now >= self.last + SECOND {
            self.force(self.last + SECOND);
        }
    }

    fn force(&mut self, now: Millis) {
        for Change { db, key, after, .. } in mem::take(&mut self.written) {
            match after {
                Some(entry) => self.forced.insert((db, key), entry),
                None => self.forced.remove(&(db, key)),
            };
        }
        self.last = now;
    }
}
