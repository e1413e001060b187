//! Leader election by a Lease object of Kubernetes: a record that names its holder, which the holder
//! updates again and again, by compare-and-set on its resourceVersion.
//!
//! Nobody expires the record. Whoever wants it takes it when it has not seen it change for T, by
//! its own clock. The holder tries to update it every 2T/15; when that has not succeeded for 2T/3,
//! it stops (15 s, 2 s and 10 s by default). The holder hears of nothing else. Even when it has read that
//! the record names another, it goes on trying, and its callbacks go on leading, until those 2T/3
//! are over: kubernetes#23731 is an old leader that acted on. There is no fence; the package's own
//! documentation says so.
//!
//! The identity is the process's, so an update without an answer is found to be its own by the
//! next attempt. Here the identity is a token that stays until a release is certain. A release
//! empties the holder's name (`ReleaseOnCancel`).
//!
//! Source: Kubernetes, client-go, `tools/leaderelection/leaderelection.go`. What a record says is told
//! from what it said by its resourceVersion instead of by its bytes, which is the same, as every
//! update carries a new time.

use async_trait::async_trait;
use sim::coordination::Unanswered;
use sim::fault::Point;
use sim::{Millis, Spawned};

use crate::declare::owner_in_record;
use crate::observed::{Observed, write};
use crate::session::read;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, LossSignal,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct K8sLease;

impl Algorithm for K8sLease {
    fn name(&self) -> &'static str {
        "k8s-lease"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "Kubernetes' leader election: a record that goes stale; no fence",
            source: "Kubernetes, client-go, tools/leaderelection",
            family: Family::Session,
            service: Service::Coordination,
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[Assumption::SectionWithinLease, Assumption::ClocksRunAlike],
            works: Works::Any,
            holders: Some(owner_in_record),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let elector = Elector {
            client: client.clone(),
            identity: client.token(),
            observed: Observed::default(),
            renewal: None,
        };
        standard(client, elector)
    }
}

struct Elector {
    client: Client,
    identity: String,
    observed: Observed,
    renewal: Option<Spawned>,
}

#[async_trait(?Send)]
impl Lock for Elector {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let Self {
            client,
            identity,
            observed,
            ..
        } = self;
        let record = read(client, key).await;
        let (records, _) = record.map_err(|_| AcquireError::Held)?;
        let record = records.into_iter().find(|record| record.key == key);
        let expected = match &record {
            None => None,
            Some(record) => {
                let free = record.value.is_empty() || record.value == *identity;
                if !observed.has_lapsed(client, record) && !free {
                    return Err(AcquireError::Held);
                }
                Some(record.modified)
            }
        };
        match write(client, key, identity, expected).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(AcquireError::Held),
            Err(_) => return Err(AcquireError::Unknown),
        }
        let stopped = LossSignal::new(client, Millis::MAX);
        let lease = Lease {
            loss: Some(stopped.clone()),
            ..Lease::plain(key, identity.clone())
        };
        let renewal = renew(client.clone(), key.to_owned(), identity.clone(), stopped);
        self.renewal = Some(client.spawn(renewal));
        Ok(lease)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        self.renewal = None;
        let client = &self.client;
        let released = match own(client, &lease.key, &lease.token).await {
            Ok(Some(modified)) => write(client, &lease.key, "", Some(modified)).await,
            Ok(None) => Ok(None),
            Err(unanswered) => Err(unanswered),
        };
        let released = released.map_err(|_| ReleaseError::Unknown)?;
        self.identity = client.token();
        released.map(|_| ()).ok_or(ReleaseError::NotOwner)
    }
}

/// The record's resourceVersion, if it names us.
async fn own(client: &Client, key: &str, identity: &str) -> Result<Option<u64>, Unanswered> {
    let (records, _) = read(client, key).await?;
    let own = |record: &&sim::coordination::Entry| record.key == key && record.value == identity;
    Ok(records.iter().find(own).map(|record| record.modified))
}

/// Updates the record until that fails for 2T/3.
async fn renew(client: Client, key: String, identity: String, stopped: LossSignal) {
    let retry_period = client.ttl() * 2 / 15;
    let renew_deadline = client.ttl() * 2 / 3;
    loop {
        client.sleep(retry_period).await;
        let until_renewed = async {
            loop {
                client.point(Point::RenewDue).await;
                if let Ok(Some(modified)) = own(&client, &key, &identity).await
                    && let Ok(Some(_)) = write(&client, &key, &identity, Some(modified)).await
                {
                    return;
                }
                client.sleep(retry_period).await;
            }
        };
        if client.timeout(renew_deadline, until_renewed).await.is_err() {
            return stopped.raise();
        }
    }
}
