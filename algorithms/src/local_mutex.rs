//! A mutex inside the process: what a second replica of a service makes of `synchronized`.
//!
//! Source: the ordinary in-process mutex. It excludes nobody in another process.

use std::collections::BTreeSet;

use async_trait::async_trait;
use sim::history::What;

use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct LocalMutex;

impl Algorithm for LocalMutex {
    fn name(&self) -> &'static str {
        "local-mutex"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "a mutex in the process; excludes nobody in another one",
            source: "the ordinary in-process mutex",
            family: Family::Plain,
            service: Service::None,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::OneProcess],
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(
            client.clone(),
            Held {
                client,
                keys: BTreeSet::new(),
            },
        )
    }
}

struct Held {
    client: Client,
    keys: BTreeSet<String>,
}

#[async_trait(?Send)]
impl Lock for Held {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        if !self.keys.insert(key.to_owned()) {
            return Err(AcquireError::Held);
        }
        let token = self.client.token();
        self.client.record(What::Granted {
            key: key.to_owned(),
            token: token.clone(),
        });
        Ok(Lease::plain(key, token))
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let Lease { key, token, .. } = lease.clone();
        if !self.keys.remove(&key) {
            return Err(ReleaseError::NotOwner);
        }
        self.client.record(What::Freed { key, token });
        Ok(())
    }
}
