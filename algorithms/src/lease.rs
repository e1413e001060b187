//! What a client gets from acquire, and how acquiring and releasing fail.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use sim::history::{GaveUp, What};
use sim::store::{Comparator, Guard, Operation, Reply, Request, Row};
use sim::{Millis, StoreError};

use crate::{Client, Decision};

/// A key that is held, as far as its holder knows.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The key.
    pub key: String,
    /// The random value that this attempt stored. Never the fence.
    pub token: String,
    /// How the holder reaches the store.
    pub access: Access,
    /// How the holder hears that the lease is lost; `None` for a lock that tells nobody.
    pub loss: Option<LossSignal>,
    /// The row to work on, where the store has chosen another than the item's.
    pub row: Option<u32>,
    /// Whether it is held together with others who only read.
    pub shared: bool,
    /// Whether the store has accepted a write under it. A transaction is committed then, and
    /// rolled back otherwise.
    pub wrote: Rc<Cell<bool>>,
}

/// How a holder reaches the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// With nothing to prove.
    Plain,
    /// Every write carries the fence.
    Fenced {
        /// The number drawn with the lock.
        fence: u64,
        /// How the store compares it.
        comparator: Comparator,
    },
    /// The first access installs the fence; later ones need it to stand.
    Claimed {
        /// The number drawn with the lock.
        fence: u64,
    },
    /// With nothing to prove, through a transaction pooler.
    Pooled,
    /// Inside the open transaction of a database session; what is written counts with the release.
    Transaction {
        /// See [`Client::store_session`](sim::Client::store_session).
        session: u64,
    },
    /// The row must still be taken by the lease's token.
    Taken,
    /// Without a lock: nobody may have written since the read, or there must be enough left.
    Unlocked,
}

impl Lease {
    /// A lease whose holder has nothing to prove and is told nothing.
    pub fn plain(key: &str, token: String) -> Self {
        Self {
            key: key.to_owned(),
            token,
            access: Access::Plain,
            loss: None,
            row: None,
            shared: false,
            wrote: Rc::default(),
        }
    }

    /// The fence, if there is one.
    pub fn fence(&self) -> Option<u64> {
        match self.access {
            Access::Fenced { fence, .. } | Access::Claimed { fence } => Some(fence),
            _ => None,
        }
    }

    /// Whether what is written counts only once the release has committed it.
    pub(crate) fn commits_at_release(&self) -> bool {
        matches!(self.access, Access::Transaction { .. })
    }

    /// The section's first access to a row.
    pub fn read(&self, row: u32) -> Request {
        self.request(match self.access {
            Access::Claimed { fence } => Operation::Claim { row, fence },
            _ => Operation::Read { row },
        })
    }

    /// The section's write, decided after a read; nothing if it is to be skipped.
    pub fn write(&self, row: u32, decision: Decision, read: Row) -> Option<Request> {
        let guard = match self.access {
            Access::Plain | Access::Pooled | Access::Transaction { .. } => Guard::Plain,
            Access::Fenced { fence, comparator } => Guard::Fence { fence, comparator },
            Access::Claimed { fence } => Guard::Claimed { fence },
            Access::Taken => Guard::Taken,
            Access::Unlocked => match decision {
                Decision::Add(value) => Guard::Least { value: -value },
                _ => Guard::Version {
                    version: read.version,
                },
            },
        };
        Some(self.request(match decision {
            Decision::Skip | Decision::Reread => return None,
            Decision::Write(value) => Operation::Write { row, value, guard },
            Decision::Add(value) => Operation::Add { row, value, guard },
        }))
    }

    fn request(&self, operation: Operation) -> Request {
        Request {
            pooled: self.access == Access::Pooled,
            ..Request::new(&self.token, operation)
        }
    }

    /// Why a section is given up whose request was not answered.
    pub(crate) fn silent(&self, error: StoreError) -> GaveUp {
        match (self.access, error) {
            (Access::Transaction { .. }, StoreError::Disconnected) => GaveUp::SessionOver,
            _ => GaveUp::StoreSilent,
        }
    }

    /// Asks the store in the way that the holder reaches it.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        request: &Request,
    ) -> Result<Reply, StoreError> {
        match self.access {
            Access::Transaction { session } => client.store_in(session, request).await,
            _ => client.store(request).await,
        }
    }
}

/// Why a lock was not acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// Definite: nothing was taken, or all of it was given back.
    #[error("another client holds the lock")]
    Held,
    /// Indefinite: the lock may be ours without our knowing.
    #[error("not every server answered")]
    Unknown,
}

/// Why a lock was not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Definite: it was not ours any more.
    #[error("the lock is somebody else's, or nobody's")]
    NotOwner,
    /// Indefinite: it may be free, or still ours.
    #[error("no answer came")]
    Unknown,
}

/// Tells a holder that its lease is lost: raised by a renewer, or by the holder's own clock.
#[derive(Debug, Clone)]
pub struct LossSignal(Rc<Signal>);

#[derive(Debug)]
struct Signal {
    client: Client,
    deadline: Cell<Millis>,
    lost: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl LossSignal {
    /// A lease that lasts until `deadline` on the client's monotonic clock.
    pub fn new(client: &Client, deadline: Millis) -> Self {
        Self(Rc::new(Signal {
            client: client.clone(),
            deadline: Cell::new(deadline),
            lost: Cell::new(false),
            waiting: RefCell::default(),
        }))
    }

    /// Until when the lease lasts as far as the client can tell: the monotonic time before
    /// the first byte of the acquire, or of the last successful refresh, plus the TTL.
    pub fn deadline(&self) -> Millis {
        self.0.deadline.get()
    }

    /// A refresh has succeeded.
    pub fn extend(&self, deadline: Millis) {
        self.0.deadline.set(deadline);
    }

    /// The lease is lost. Ends the belief, and the work.
    pub fn raise(&self) {
        if !self.0.lost.replace(true) {
            self.0.client.record(What::NoticedLoss {
                section: self.0.client.section(),
            });
            if let Some(waker) = self.0.waiting.take() {
                waker.wake();
            }
        }
    }

    /// Looks: whether the signal was raised, or the deadline has passed, which raises it.
    pub fn is_lost(&self) -> bool {
        if self.0.client.now() >= self.deadline() {
            self.raise();
        }
        self.0.lost.get()
    }

    /// Waits until the signal is raised.
    pub async fn raised(&self) {
        poll_fn(|context| {
            if self.0.lost.get() {
                return Poll::Ready(());
            }
            self.0.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
