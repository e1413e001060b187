//! What the locks on a coordination server's sessions share: how the end of a session reaches
//! whoever holds a lock under it.

use std::cell::RefCell;
use std::rc::Rc;

use sim::Millis;
use sim::coordination::{Change, Condition, Entry, Reply, Request, Unanswered};

use crate::{Client, LossSignal};

/// Whether a session is over as far as its client knows, and whom to tell. A task that keeps the
/// session alive has one, and so has the lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionEnd(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    over: bool,
    holder: Option<LossSignal>,
}

impl SessionEnd {
    /// The session is over. Its holder is told.
    pub(crate) fn reach(&self) {
        self.0.borrow_mut().over = true;
        self.warn();
    }

    /// The session is in doubt. Its holder is told, as if it were over.
    pub(crate) fn warn(&self) {
        if let Some(holder) = self.0.borrow_mut().holder.take() {
            holder.raise();
        }
    }

    /// Whether it is over.
    pub(crate) fn is_reached(&self) -> bool {
        self.0.borrow().over
    }

    /// Whether somebody holds a lock under the session.
    pub(crate) fn has_holder(&self) -> bool {
        self.0.borrow().holder.is_some()
    }

    /// A lock was taken under the session: how its holder hears of the end. If that has come
    /// already, it hears of it with its first look.
    pub(crate) fn holder(&self, client: &Client) -> LossSignal {
        let deadline = if self.is_reached() { 0 } else { Millis::MAX };
        let signal = LossSignal::new(client, deadline);
        self.0.borrow_mut().holder = Some(signal.clone());
        signal
    }

    /// The lock is being released.
    pub(crate) fn leave(&self) {
        self.0.borrow_mut().holder = None;
    }
}

/// Every key that begins so, and the server's revision.
pub(crate) async fn read(
    client: &Client,
    prefix: impl Into<String>,
) -> Result<(Vec<Entry>, u64), Unanswered> {
    let prefix = prefix.into();
    match client.coordinate(&Request::Read { prefix }).await? {
        Reply::State {
            revision, entries, ..
        } => Ok((entries, revision)),
        other => unreachable!("a read is answered with keys, not {other:?}"),
    }
}

/// Deletes a key that is bound to a session: whether there was one.
pub(crate) async fn delete(client: &Client, key: String, session: u64) -> Result<bool, Unanswered> {
    let own = Condition::HeldBy {
        key: key.clone(),
        session,
    };
    let asked = Request::Transact {
        when: vec![own],
        read: key.clone(),
        then: vec![Change::Delete { key }],
    };
    let answer = client.coordinate(&asked).await?;
    Ok(matches!(
        answer,
        Reply::State {
            succeeded: true,
            ..
        }
    ))
}
