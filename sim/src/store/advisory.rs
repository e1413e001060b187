//! Advisory locks: numbers that mean what the application says they mean.
//!
//! A lock belongs to a session, which may take it as often as it likes. Held by the session, it is
//! counted and needs as many unlocks, and a ROLLBACK does not free it; held by the transaction, it
//! is freed with it and cannot be unlocked.
//! See <https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS>.

use std::collections::BTreeMap;

use super::{Scope, SessionId};
use crate::NodeId;

/// Who asked for a lock, and the owner token of that attempt.
pub(super) type Holder = (NodeId, String);

#[derive(Debug, Default)]
struct Lock {
    owner: SessionId,
    by_session: Vec<Holder>,
    by_transaction: Vec<Holder>,
}

/// All of a database's.
#[derive(Debug, Default)]
pub(super) struct Advisory(BTreeMap<String, Lock>);

impl Advisory {
    /// The session that holds a key.
    pub(super) fn owner(&self, key: &str) -> Option<SessionId> {
        self.0.get(key).map(|lock| lock.owner)
    }

    /// Takes a key that is free or the session's own.
    pub(super) fn take(&mut self, key: &str, session: SessionId, scope: Scope, holder: Holder) {
        let lock = self.0.entry(key.to_owned()).or_default();
        lock.owner = session;
        match scope {
            Scope::Session => lock.by_session.push(holder),
            Scope::Transaction => lock.by_transaction.push(holder),
        }
    }

    /// One unlock: the hold that it ends, or nothing if the session has none. Of several holds the
    /// history is told that the one with this token ended; PostgreSQL only counts.
    pub(super) fn unlock(&mut self, key: &str, session: SessionId, token: &str) -> Option<Holder> {
        let lock = self.0.get_mut(key).filter(|lock| lock.owner == session)?;
        let own = lock.by_session.iter().position(|(_, of)| of == token);
        let last = lock.by_session.len().checked_sub(1)?;
        let freed = lock.by_session.remove(own.unwrap_or(last));
        self.drop_free();
        Some(freed)
    }

    /// A transaction or a whole session is over: the holds that end with it.
    pub(super) fn free(&mut self, session: SessionId, scope: Scope) -> Vec<(String, Holder)> {
        let mut freed = Vec::new();
        for (key, lock) in self.0.iter_mut().filter(|(_, lock)| lock.owner == session) {
            let mut holds = std::mem::take(&mut lock.by_transaction);
            if scope == Scope::Session {
                holds.append(&mut lock.by_session);
            }
            freed.extend(holds.into_iter().map(|holder| (key.clone(), holder)));
        }
        if !freed.is_empty() {
            self.drop_free();
        }
        freed
    }

    fn drop_free(&mut self) {
        self.0
            .retain(|_, lock| !(lock.by_session.is_empty() && lock.by_transaction.is_empty()));
    }
}
