//! SET NX PX with a random value, released by a script that deletes the key only while it
//! holds that value.
//!
//! Source: the Redis documentation, "Distributed Locks with Redis", correct implementation
//! with a single instance.

use async_trait::async_trait;
use redis::RedisResult;

use crate::declare::owner_of_key;
use crate::naive::set_with_ttl;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Tokened;

impl Algorithm for Tokened {
    fn name(&self) -> &'static str {
        "tokened"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SET NX PX with a random token, deleted by its owner alone",
            source: "redis.io, Distributed Locks with Redis, single instance",
            family: Family::Tokened,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Owned { client })
    }
}

struct Owned {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for Owned {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = take(&self.client, key).await?;
        Ok(Lease::plain(key, token))
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        give_back(&self.client, &lease.key, &lease.token).await
    }
}

/// Takes the key on the first server under a fresh token. In doubt, gives it back.
pub(crate) async fn take(client: &Client, key: &str) -> Result<String, AcquireError> {
    let token = client.token();
    match set_with_ttl(client, 0, key, &token).await {
        Ok(true) => Ok(token),
        Ok(false) => Err(AcquireError::Held),
        Err(_) => {
            let _ = give_back(client, key, &token).await;
            Err(AcquireError::Unknown)
        }
    }
}

/// Deletes the key on the first server if it still holds the token.
pub(crate) async fn give_back(client: &Client, key: &str, token: &str) -> Result<(), ReleaseError> {
    match compare_and_delete(client, 0, key, token).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(ReleaseError::NotOwner),
        Err(_) => Err(ReleaseError::Unknown),
    }
}

/// Deletes the key on one server if it still holds the token: whether it did.
pub(crate) async fn compare_and_delete(
    client: &Client,
    server: usize,
    key: &str,
    token: &str,
) -> RedisResult<bool> {
    const SCRIPT: &str = r#"
        if redis.call("GET", KEYS[1]) == ARGV[1] then
            return redis.call("DEL", KEYS[1])
        end
        return 0
    "#;
    let mut eval = redis::cmd("EVAL");
    eval.arg(SCRIPT)
        .arg(1)
        .arg(key)
        .arg(token)
        .query_async(&mut client.redis(server))
        .await
}
