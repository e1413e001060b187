//! etcd's mutex: a key below the lock's name, bound to a lease and named after it. The oldest key
//! holds; everybody else waits for the key before its own to be deleted.
//!
//! Whoever has waited reads its own key again before it counts on the lock: its lease may have ended
//! meanwhile (Jepsen found the lock without this check in 2020). The create revision of the key is
//! the fence. One session lasts as long as the process. Its client sends a keep-alive at once, every
//! third of the TTL after that, and every half second while none is answered. It takes the lease for
//! lost when the server says so, or when there was no answer for a TTL, which it looks at once in a
//! second. It counts from the answer and the server from the request, so that a holder who is cut
//! off may believe for a second longer than it holds.
//!
//! The holder hears of that by `Session.Done()`, and here looks at it before every access, as the
//! library's documentation asks. Nothing looks at the time, so a process that wakes up may act
//! before its client has noticed; the fence is for that. An acquire without an answer leaves its
//! key behind, and the next attempt under the same session finds it and keeps it.
//!
//! Source: etcd, `client/v3/concurrency` (`mutex.go`, `session.go`, `key.go`) and
//! `client/v3/lease.go`.

use std::cell::Cell;
use std::rc::Rc;

use async_trait::async_trait;
use sim::coordination::{Change, Condition, KeysOf, Reply, Request, Unanswered};
use sim::fault::Point;
use sim::{Millis, Spawned};

use crate::declare::owner_by_age;
use crate::session::{SessionEnd, delete, read};
use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Etcd;

impl Algorithm for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "etcd's mutex: the oldest key under a lease; its create revision is the fence",
            source: "etcd, client/v3/concurrency, Mutex and Session",
            family: Family::Session,
            service: Service::Coordination,
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[Assumption::StoreChecks],
            works: Works::Any,
            holders: Some(owner_by_age),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let session = None;
        standard(client.clone(), Mutex { client, session })
    }
}

struct Mutex {
    client: Client,
    session: Option<Session>,
}

/// A lease and what keeps it alive.
struct Session {
    lease: u64,
    done: SessionEnd,
    _keeper: [Spawned; 2],
}

/// How long the client waits before it sends again what was not answered: `retryConnWait`.
const RETRY: Millis = 500;
/// How often it looks for leases that nobody has answered for: `deadlineLoop`.
const LOOKS: Millis = 1_000;

#[async_trait(?Send)]
impl Lock for Mutex {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let (lease, done) = self.session().await.ok_or(AcquireError::Held)?;
        let (prefix, own) = (format!("{key}/"), format!("{key}/{lease:x}"));

        let asked = Request::Transact {
            when: vec![Condition::Absent { key: own.clone() }],
            then: vec![Change::Put {
                key: own.clone(),
                // etcd's mutex leaves the value empty; here it is the owner token.
                value: self.client.token(),
                session: Some(lease),
            }],
            read: prefix.clone(),
        };
        let waiters = match self.client.coordinate(&asked).await {
            Ok(Reply::State { entries, .. }) => entries,
            Ok(_) => {
                self.session = None;
                return Err(AcquireError::Held);
            }
            Err(_) => return Err(AcquireError::Unknown),
        };
        let mine = waiters.iter().find(|entry| entry.key == own);
        let mine = mine.expect("put now, or there before");
        if waiters.iter().any(|entry| entry.created < mine.created) {
            let own_key = async {
                self.wait_for_deletes(&prefix, mine.created).await?;
                read(&self.client, &own).await
            };
            match own_key.await {
                Ok((still, _)) if still.iter().any(|entry| entry.key == own) => {}
                Ok(_) => {
                    self.session = None;
                    return Err(AcquireError::Held);
                }
                Err(_) => {
                    let unlocked = delete(&self.client, own, lease).await;
                    return Err(unlocked.map_or(AcquireError::Unknown, |_| AcquireError::Held));
                }
            }
        }
        let comparator = self.client.settings().comparator;
        let fence = mine.created;
        Ok(Lease {
            access: Access::Fenced { fence, comparator },
            loss: Some(done.holder(&self.client)),
            ..Lease::plain(key, mine.value.clone())
        })
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let Some(session) = &self.session else {
            return Err(ReleaseError::NotOwner);
        };
        session.done.leave();
        let own = format!("{}/{:x}", lease.key, session.lease);
        match delete(&self.client, own, session.lease).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}

impl Mutex {
    /// The process's session: a new one, if there is none or its lease is lost.
    async fn session(&mut self) -> Option<(u64, SessionEnd)> {
        if let Some(session) = self.session.as_ref().filter(|s| !s.done.is_reached()) {
            return Some((session.lease, session.done.clone()));
        }
        self.session = None;
        let grant = Request::Open {
            ttl: self.client.ttl(),
            keys: KeysOf::Deleted,
            lock_delay: 0,
        };
        let Ok(Reply::Opened { session: lease }) = self.client.coordinate(&grant).await else {
            return None;
        };
        let done = SessionEnd::default();
        let deadline = Rc::new(Cell::new(self.client.now() + self.client.ttl()));
        let client = || self.client.clone();
        let keep_alive = keep_alive(client(), lease, done.clone(), Rc::clone(&deadline));
        let look = look_for_silence(client(), done.clone(), deadline);
        self.session = Some(Session {
            lease,
            done: done.clone(),
            _keeper: [self.client.spawn(keep_alive), self.client.spawn(look)],
        });
        Some((lease, done))
    }

    /// Waits until every key below `prefix` that is older than a revision is deleted.
    async fn wait_for_deletes(&self, prefix: &str, created: u64) -> Result<(), Unanswered> {
        loop {
            let (waiters, revision) = read(&self.client, prefix).await?;
            let older = waiters.iter().filter(|entry| entry.created < created);
            let Some(last) = older.max_by_key(|entry| entry.created) else {
                return Ok(());
            };
            // A watch is taken up again when its connection broke.
            while self.client.changed(&last.key, revision).await.is_err() {
                self.client.sleep(RETRY).await;
            }
        }
    }
}

async fn keep_alive(client: Client, session: u64, done: SessionEnd, deadline: Rc<Cell<Millis>>) {
    loop {
        if done.has_holder() {
            client.point(Point::RenewDue).await;
        }
        match client.coordinate(&Request::KeepAlive { session }).await {
            Ok(Reply::NoSession) => return done.reach(),
            Ok(_) => {
                deadline.set(client.now() + client.ttl());
                client.sleep(client.ttl() / 3).await;
            }
            Err(_) => client.sleep(RETRY).await,
        }
    }
}

async fn look_for_silence(client: Client, done: SessionEnd, deadline: Rc<Cell<Millis>>) {
    while client.now() <= deadline.get() {
        client.sleep(LOOKS).await;
    }
    done.reach();
}
