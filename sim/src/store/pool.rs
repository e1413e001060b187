//! A transaction pooler in front of the database, as PgBouncer with `pool_mode = transaction`.
//!
//! It lends a client one of its sessions for as long as a transaction lasts, and for a statement
//! outside of one for that statement alone; the session that was given back last is lent first.
//! What a client leaves behind in a session, such as an advisory lock, stays there for the next one.
//! See <https://www.pgbouncer.org/features.html>.
//!
//! Deliberately absent: `server_reset_query`, which PgBouncer runs in session mode alone, and
//! `server_idle_timeout`, ten minutes by default.

use std::collections::VecDeque;
use std::task::Waker;

use super::{Database, SessionId};

/// The sessions of a pooler.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Vec<SessionId>,
    left: usize,
    waiting: VecDeque<Waker>,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Self {
            idle: Vec::new(),
            left: size,
            waiting: VecDeque::new(),
        }
    }

    /// A session, or none when all are lent.
    pub(super) fn lend(&mut self, database: &mut Database) -> Option<SessionId> {
        self.idle.pop().or_else(|| {
            self.left = self.left.checked_sub(1)?;
            Some(database.connect())
        })
    }

    /// Whom to wake when a session is given back.
    pub(super) fn wait(&mut self, waker: &Waker) {
        self.waiting.push_back(waker.clone());
    }

    /// A transaction is over.
    pub(super) fn give_back(&mut self, session: SessionId) {
        self.idle.push(session);
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// A client went away in the midst of a transaction, and took its session with it.
    pub(super) fn lost_one(&mut self) {
        self.left += 1;
        self.waiting.drain(..).for_each(Waker::wake);
    }
}
