//! Consul's lock: a key that a session acquires, and that its lock-delay keeps back for a while
//! when the session is invalidated.
//!
//! Every acquire opens a session, with a lock-delay of its TTL (both are 15 s by default), which is
//! renewed every half of the TTL. Whoever finds the key held waits for it to change (a blocking
//! query); whoever is refused a free key has met a lock-delay and tries again after a third of the
//! TTL (5 s). A monitor waits for the key to change under its holder, and raises the loss when it
//! does or when it hears nothing definite: with the default of no monitor retries that is any broken
//! connection, a change of the leader included. Nothing else tells the holder: the end of the
//! renewal does not, and nothing looks at the time. Cut off, it believes on.
//!
//! A failed renewal is tried again after a fifteenth of the TTL (1 s). Before consul#912 was mended it
//! ended the renewal for good.
//!
//! The lock-delay is meant for holders who act on for a while after they have lost the lock, so
//! a key whose holder died is free only after two TTLs. The fence is the key's ModifyIndex after the
//! acquire; its LockIndex would do as well.
//!
//! Source: Consul, `api/lock.go` and `api/session.go`; "Sessions" of its documentation. Its server
//! waits for twice the TTL before it invalidates a session; here it waits for the TTL, the least
//! that it promises.

use async_trait::async_trait;
use sim::Spawned;
use sim::coordination::{Change, Condition, KeysOf, Reply, Request};
use sim::fault::Point;

use crate::declare::owner_by_session;
use crate::session::{SessionEnd, read};
use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Consul;

impl Algorithm for Consul {
    fn name(&self) -> &'static str {
        "consul"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "Consul's lock: a session acquires a key; a lost one is kept back for a ttl",
            source: "Consul, api/lock.go",
            family: Family::Session,
            service: Service::Coordination,
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[Assumption::StoreChecks],
            works: Works::Any,
            holders: Some(owner_by_session),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let lock = KeyLock {
            client: client.clone(),
            session: None,
            destroying: None,
        };
        standard(client, lock)
    }
}

struct KeyLock {
    client: Client,
    session: Option<Session>,
    destroying: Option<Spawned>,
}

struct Session {
    id: u64,
    end: SessionEnd,
    /// Its renewal, and the monitor of the key once that is held.
    tasks: Vec<Spawned>,
}

#[async_trait(?Send)]
impl Lock for KeyLock {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let create = Request::Open {
            ttl: self.client.ttl(),
            keys: KeysOf::Released,
            lock_delay: self.client.ttl(),
        };
        let Ok(Reply::Opened { session: id }) = self.client.coordinate(&create).await else {
            return Err(AcquireError::Held);
        };
        let end = SessionEnd::default();
        let renewal = renew(self.client.clone(), id, end.clone());
        self.session = Some(Session {
            id,
            end: end.clone(),
            tasks: vec![self.client.spawn(renewal)],
        });
        let token = self.client.token();
        match self.take(key, &token, id).await {
            Ok(fence) => {
                let loss = end.holder(&self.client);
                let monitor = monitor(self.client.clone(), key.to_owned(), id, end);
                if let Some(session) = &mut self.session {
                    session.tasks.push(self.client.spawn(monitor));
                }
                let comparator = self.client.settings().comparator;
                Ok(Lease {
                    access: Access::Fenced { fence, comparator },
                    loss: Some(loss),
                    ..Lease::plain(key, token)
                })
            }
            Err(error) => {
                self.destroy();
                Err(error)
            }
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let Some(session) = &self.session else {
            return Err(ReleaseError::NotOwner);
        };
        session.end.leave();
        let id = session.id;
        let Lease { key, token, .. } = lease.clone();
        let own = Condition::HeldBy {
            key: key.clone(),
            session: id,
        };
        let asked = Request::Transact {
            when: vec![own],
            read: key.clone(),
            then: vec![Change::Put {
                key,
                value: token,
                session: None,
            }],
        };
        let answer = self.client.coordinate(&asked).await;
        self.destroy();
        match answer {
            Ok(Reply::State {
                succeeded: true, ..
            }) => Ok(()),
            Ok(_) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}

impl KeyLock {
    /// Waits for the key and acquires it: its ModifyIndex.
    async fn take(&self, key: &str, token: &str, session: u64) -> Result<u64, AcquireError> {
        let client = &self.client;
        let held = |error| move |_| error;
        loop {
            let (pairs, index) = read(client, key).await.map_err(held(AcquireError::Held))?;
            let pair = pairs.iter().find(|pair| pair.key == key);
            if pair.is_some_and(|pair| pair.session.is_some()) {
                let changed = client.changed(key, index).await;
                changed.map_err(held(AcquireError::Held))?;
                continue;
            }
            let asked = Request::Transact {
                when: vec![Condition::Free { key: key.into() }],
                then: vec![Change::Put {
                    key: key.into(),
                    value: token.into(),
                    session: Some(session),
                }],
                read: key.into(),
            };
            let answer = client.coordinate(&asked).await;
            let Reply::State {
                succeeded,
                revision,
                entries,
            } = answer.map_err(held(AcquireError::Unknown))?
            else {
                return Err(AcquireError::Held);
            };
            if succeeded {
                return Ok(revision);
            }
            let pair = entries.iter().find(|pair| pair.key == key);
            if pair.is_none_or(|pair| pair.session.is_none()) {
                // A lock-delay is in force.
                client.sleep(client.ttl() / 3).await;
            }
        }
    }

    /// Ends the renewal and destroys the session in the background, which is tried once. What it
    /// still holds is released, and kept back.
    fn destroy(&mut self) {
        if let Some(session) = &mut self.session {
            session.tasks.clear();
            let (client, session) = (self.client.clone(), session.id);
            self.destroying = Some(self.client.spawn(async move {
                let _ = client.coordinate(&Request::End { session }).await;
            }));
        }
    }
}

/// Renews a session until it is gone. Nobody is told.
async fn renew(client: Client, session: u64, end: SessionEnd) {
    let mut pause = client.ttl() / 2;
    let mut renewed = client.now();
    while client.now() - renewed <= client.ttl() {
        client.sleep(pause).await;
        if end.has_holder() {
            client.point(Point::RenewDue).await;
        }
        match client.coordinate(&Request::KeepAlive { session }).await {
            Ok(Reply::NoSession) => return,
            Ok(_) => (renewed, pause) = (client.now(), client.ttl() / 2),
            Err(_) => pause = client.ttl() / 15,
        }
    }
}

/// Raises the loss when the key is no longer the session's, or nobody says so.
async fn monitor(client: Client, key: String, session: u64, end: SessionEnd) {
    let mut seen = read(&client, &key).await;
    while let Ok((pairs, index)) = seen {
        let own =
            |pair: &sim::coordination::Entry| pair.key == key && pair.session == Some(session);
        if !pairs.iter().any(own) {
            break;
        }
        seen = match client.changed(&key, index).await {
            Ok(Reply::State {
                entries, revision, ..
            }) => Ok((entries, revision)),
            Ok(_) => break,
            Err(unanswered) => Err(unanswered),
        };
    }
    end.warn();
}
