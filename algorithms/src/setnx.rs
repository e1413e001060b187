//! SETNX and DEL, without a time to live: safe, until a holder dies.
//!
//! Source: the SETNX page of the Redis documentation, "Design pattern: Locking with SETNX",
//! in its first and simplest form.

use async_trait::async_trait;
use redis::RedisResult;

use crate::declare::owner_of_key;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct SetNx;

impl Algorithm for SetNx {
    fn name(&self) -> &'static str {
        "setnx"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SETNX, no TTL, DEL",
            source: "redis.io/commands/setnx, locking with SETNX",
            family: Family::Plain,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::HoldersLive, Assumption::DataIsKept],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Plain { client })
    }
}

struct Plain {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for Plain {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        if set_if_absent(&self.client, key, &token).await? {
            Ok(Lease::plain(key, token))
        } else {
            Err(AcquireError::Held)
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        delete(&self.client, &lease.key).await
    }
}

/// `SETNX key token`: whether the key was absent.
pub(crate) async fn set_if_absent(
    client: &Client,
    key: &str,
    token: &str,
) -> Result<bool, AcquireError> {
    let mut setnx = redis::cmd("SETNX");
    let set: RedisResult<bool> = setnx
        .arg(key)
        .arg(token)
        .query_async(&mut client.redis(0))
        .await;
    set.map_err(|_| AcquireError::Unknown)
}

/// `DEL key`, whoever's it is.
pub(crate) async fn delete(client: &Client, key: &str) -> Result<(), ReleaseError> {
    let deleted: RedisResult<u64> = redis::cmd("DEL")
        .arg(key)
        .query_async(&mut client.redis(0))
        .await;
    match deleted {
        Ok(0) => Err(ReleaseError::NotOwner),
        Ok(_) => Ok(()),
        Err(_) => Err(ReleaseError::Unknown),
    }
}
