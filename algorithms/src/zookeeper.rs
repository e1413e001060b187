//! ZooKeeper's lock as Curator writes it: an ephemeral sequential node. The lowest one holds;
//! everybody else watches the node before its own.
//!
//! One session lasts as long as the process. Its client pings every third of the session time-out,
//! and gives its connection up when it has heard nothing for two thirds. Curator then reports
//! SUSPENDED, also when the connection breaks for another reason, and with its standard error
//! policy a holder stops there: it cannot be certain any more that it holds. That is well before
//! the server ends the session, but it also gives work up at every change of the leader, although
//! the lock is still held. Nothing looks at the time: a process that wakes up may act before its
//! client has noticed.
//!
//! The node's name carries a random id (Curator's protection). When the answer to its creation is
//! lost, the next attempt looks for that id first. A deletion without an answer goes on in the
//! background until there is one (Curator's guaranteed deletes; curator#1193 is what happens
//! without).
//!
//! The fence is the node's czxid, which grows also when the numbers of the nodes begin anew with
//! their parent; here no parent is ever deleted.
//!
//! Source: Apache Curator, `InterProcessMutex`, `LockInternals` and
//! `StandardConnectionStateErrorPolicy`; ZooKeeper's `ClientCnxn`; ZooKeeper Recipes, Locks.

use async_trait::async_trait;
use sim::coordination::{Change, Entry, KeysOf, Reply, Request, Unanswered};
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
pub struct ZooKeeper;

impl Algorithm for ZooKeeper {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "Curator's mutex: the lowest ephemeral sequential node; its czxid is the fence",
            source: "Apache Curator, InterProcessMutex",
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
        let mutex = Mutex {
            client: client.clone(),
            session: None,
            unsure: None,
            held: None,
            deleting: Vec::new(),
        };
        standard(client, mutex)
    }
}

struct Mutex {
    client: Client,
    session: Option<Session>,
    /// The id and the parent of a node that may have been created.
    unsure: Option<(String, String)>,
    /// The node that is held.
    held: Option<String>,
    deleting: Vec<Spawned>,
}

struct Session {
    id: u64,
    end: SessionEnd,
    _keeper: Spawned,
}

/// Between two tries of something that was not answered: Curator's usual retry policy.
const RETRY: Millis = 1_000;

#[async_trait(?Send)]
impl Lock for Mutex {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let (session, end) = self.session().await.ok_or(AcquireError::Held)?;
        let parent = format!("{key}/");
        let own = self.create(&parent, session).await?;
        loop {
            let (before, revision) = match self.before(&parent, &own.key).await {
                Ok(Some(found)) => found,
                // The session is over, and the node with it.
                Ok(None) => return Err(AcquireError::Held),
                Err(_) => return Err(self.back_out(own.key, session).await),
            };
            let Some(before) = before else { break };
            // A watch also fires when the connection breaks.
            if self.client.changed(&before, revision).await.is_err() {
                self.client.sleep(RETRY).await;
            }
        }
        let comparator = self.client.settings().comparator;
        let fence = own.created;
        self.held = Some(own.key);
        Ok(Lease {
            access: Access::Fenced { fence, comparator },
            loss: Some(end.holder(&self.client)),
            ..Lease::plain(key, own.value)
        })
    }

    async fn release(&mut self, _: &Lease) -> Result<(), ReleaseError> {
        let (Some(own), Some(session)) = (&self.held, &self.session) else {
            return Err(ReleaseError::NotOwner);
        };
        session.end.leave();
        match delete(&self.client, own.clone(), session.id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReleaseError::NotOwner),
            Err(_) => {
                self.guarantee(own.clone(), session.id);
                Err(ReleaseError::Unknown)
            }
        }
    }
}

impl Mutex {
    /// The process's session: a new one, if there is none or it has expired.
    async fn session(&mut self) -> Option<(u64, SessionEnd)> {
        if let Some(session) = self.session.as_ref().filter(|s| !s.end.is_reached()) {
            return Some((session.id, session.end.clone()));
        }
        self.session = None;
        self.unsure = None;
        let connect = Request::Open {
            ttl: self.client.ttl(),
            keys: KeysOf::Deleted,
            lock_delay: 0,
        };
        let Ok(Reply::Opened { session: id }) = self.client.coordinate(&connect).await else {
            return None;
        };
        let end = SessionEnd::default();
        let keeper = ping(self.client.clone(), id, end.clone());
        self.session = Some(Session {
            id,
            end: end.clone(),
            _keeper: self.client.spawn(keeper),
        });
        Some((id, end))
    }

    /// Creates a node, or finds the one that an earlier attempt has created without knowing.
    async fn create(&mut self, parent: &str, session: u64) -> Result<Entry, AcquireError> {
        let earlier = self.unsure.take_if(|(_, below)| below == parent);
        let (id, found) = match earlier {
            Some((id, _)) => {
                let found = read(&self.client, protected(parent, &id)).await;
                (id, found.map(|(found, _)| found.into_iter().next()))
            }
            None => (self.client.token(), Ok(None)),
        };
        let answer = match found {
            Ok(Some(own)) => return Ok(own),
            Ok(None) => {
                let next = Change::PutNext {
                    parent: parent.to_owned(),
                    name: protected("", &id),
                    value: id.clone(),
                    session,
                };
                let asked = Request::Transact {
                    when: Vec::new(),
                    then: vec![next],
                    read: protected(parent, &id),
                };
                self.client.coordinate(&asked).await
            }
            Err(unanswered) => Err(unanswered),
        };
        match answer {
            Ok(Reply::State { mut entries, .. }) => Ok(entries.remove(0)),
            Ok(_) => {
                self.session = None;
                Err(AcquireError::Held)
            }
            Err(_) => {
                self.unsure = Some((id, parent.to_owned()));
                Err(AcquireError::Unknown)
            }
        }
    }

    /// The node before ours, if any, and the revision at which it was. Nothing if ours is gone.
    async fn before(
        &self,
        parent: &str,
        own: &str,
    ) -> Result<Option<(Option<String>, u64)>, Unanswered> {
        let (children, revision) = read(&self.client, parent).await?;
        let mut children: Vec<_> = children.into_iter().map(|child| child.key).collect();
        children.sort_by_key(|name| number(name).to_owned());
        let place = children.iter().position(|name| name == own);
        Ok(place.map(|place| {
            let before = place.checked_sub(1).map(|before| children[before].clone());
            (before, revision)
        }))
    }

    /// Gives the place in the line up.
    async fn back_out(&mut self, own: String, session: u64) -> AcquireError {
        if delete(&self.client, own.clone(), session).await.is_ok() {
            return AcquireError::Held;
        }
        self.guarantee(own, session);
        AcquireError::Unknown
    }

    /// Deletes a node in the background, however long it takes.
    fn guarantee(&mut self, own: String, session: u64) {
        let client = self.client.clone();
        let deleting = async move {
            while delete(&client, own.clone(), session).await.is_err() {
                client.sleep(RETRY).await;
            }
        };
        self.deleting.push(self.client.spawn(deleting));
    }
}

/// The name of a node before its number.
fn protected(parent: &str, id: &str) -> String {
    format!("{parent}_c_{id}-lock-")
}

/// A node's number, as it stands in its name.
fn number(name: &str) -> &str {
    &name[name.len() - 10..]
}

async fn ping(client: Client, session: u64, end: SessionEnd) {
    let mut heard = client.now();
    let mut silent = false;
    loop {
        let since = |length: Millis| (heard + length).saturating_sub(client.now());
        let give_up = client.ttl() * 2 / 3;
        let pause = if silent {
            RETRY.min(since(give_up))
        } else {
            since(client.ttl() / 3)
        };
        if client.timeout(pause, client.disconnected()).await.is_ok() {
            end.warn();
            client.sleep(RETRY).await;
        } else if since(give_up) == 0 {
            end.warn();
        }
        if end.has_holder() {
            client.point(Point::RenewDue).await;
        }
        match client.coordinate(&Request::KeepAlive { session }).await {
            Ok(Reply::NoSession) => return end.reach(),
            Ok(_) => (heard, silent) = (client.now(), false),
            Err(Unanswered::TimedOut) => silent = true,
            Err(Unanswered::Disconnected) => end.warn(),
        }
    }
}
