//! The DynamoDB lock client: a record with a version number, which the holder changes with every
//! heartbeat.
//!
//! Nobody expires the record. Whoever wants it takes it, by a conditional write on the version
//! that it has seen, when that has not changed for a whole lease by its own clock. The heartbeat
//! comes every 3/10 of the lease (3 s for the 10 s of the README). The holder can ask
//! `LockItem.isExpired()`, which counts the lease from before its last successful heartbeat was
//! sent, and here does so before every access. Nobody interrupts it (the session monitor is an
//! option), and a heartbeat that finds the record changed tells nobody. The version orders
//! nothing, so there is no fence.
//!
//! Source: awslabs, `amazon-dynamodb-lock-client`, README, `AmazonDynamoDBLockClient` and `LockItem`. Its
//! version number is a GUID that every write draws anew; here the server's own revision of the
//! record serves, and only for being equal.

use async_trait::async_trait;
use sim::Spawned;
use sim::fault::Point;

use crate::declare::owner_of_key;
use crate::observed::{Observed, delete, write};
use crate::session::read;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, LossSignal,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct DynamoDb;

impl Algorithm for DynamoDb {
    fn name(&self) -> &'static str {
        "dynamodb"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "the DynamoDB lock client: a version that stops changing; no fence",
            source: "awslabs, amazon-dynamodb-lock-client",
            family: Family::Session,
            service: Service::Coordination,
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[Assumption::WriteAtOnce, Assumption::ClocksRunAlike],
            works: Works::Any,
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let lock = Record {
            client: client.clone(),
            observed: Observed::default(),
            heartbeat: None,
        };
        standard(client, lock)
    }
}

struct Record {
    client: Client,
    observed: Observed,
    heartbeat: Option<Spawned>,
}

#[async_trait(?Send)]
impl Lock for Record {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let client = &self.client;
        let found = read(client, key).await;
        let (items, _) = found.map_err(|_| AcquireError::Held)?;
        let item = items.into_iter().find(|item| item.key == key);
        if let Some(item) = &item
            && !self.observed.has_lapsed(client, item)
        {
            return Err(AcquireError::Held);
        }
        let token = client.token();
        let asked = client.now();
        let version = match write(client, key, &token, item.map(|item| item.modified)).await {
            Ok(Some(version)) => version,
            Ok(None) => return Err(AcquireError::Held),
            Err(_) => return Err(AcquireError::Unknown),
        };
        let expires = LossSignal::new(client, asked + client.ttl());
        let lease = Lease {
            loss: Some(expires),
            ..Lease::plain(key, token)
        };
        let heartbeat = beat(client.clone(), lease.clone(), version);
        self.heartbeat = Some(client.spawn(heartbeat));
        Ok(lease)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        self.heartbeat = None;
        let client = &self.client;
        let deleted = async {
            let (items, _) = read(client, &lease.key).await?;
            let own = items.iter().find(|item| item.value == lease.token);
            match own {
                Some(item) => delete(client, &lease.key, item.modified).await,
                None => Ok(false),
            }
        };
        match deleted.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}

/// Changes the version for as long as nobody else does.
async fn beat(client: Client, lease: Lease, mut version: u64) {
    loop {
        client.sleep(client.ttl() * 3 / 10).await;
        client.point(Point::RenewDue).await;
        let asked = client.now();
        match write(&client, &lease.key, &lease.token, Some(version)).await {
            Ok(Some(next)) => {
                version = next;
                if let Some(expires) = &lease.loss {
                    expires.extend(asked + client.ttl());
                }
            }
            // The record is another's, or a heartbeat went through that was not answered.
            Ok(None) => return,
            Err(_) => {}
        }
    }
}
