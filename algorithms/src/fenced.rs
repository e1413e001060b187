//! A tokened lock that draws a growing number with every grant; the store refuses writes
//! with an old one.
//!
//! `fenced` sends the number with its write. `fenced-claim` already installs it with the
//! section's first access, so that an older holder is shut out before the new one has
//! written.
//!
//! Source: Martin Kleppmann, "How to do distributed locking" (2016), fencing tokens. The
//! number comes from INCR in the script that takes the lock, and only when it was taken.

use async_trait::async_trait;
use redis::RedisResult;

use crate::declare::owner_of_key;
use crate::tokened::give_back;
use crate::{
    Access, AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Fenced {
    /// Whether the first access installs the fence.
    pub claims: bool,
}

impl Algorithm for Fenced {
    fn name(&self) -> &'static str {
        if self.claims {
            "fenced-claim"
        } else {
            "fenced"
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: if self.claims {
                "tokened, with a fence that the first access installs in the row"
            } else {
                "tokened, with a fence that the store checks on every write"
            },
            source: "Kleppmann, How to do distributed locking",
            family: if self.claims {
                Family::Claimed
            } else {
                Family::Fenced
            },
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::StoreChecks, Assumption::DataIsKept],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(
            client.clone(),
            Numbered {
                client,
                claims: self.claims,
            },
        )
    }
}

struct Numbered {
    client: Client,
    claims: bool,
}

#[async_trait(?Send)]
impl Lock for Numbered {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let fence = match take_with_fence(&self.client, key, &token).await {
            Ok(Some(fence)) => fence,
            Ok(None) => return Err(AcquireError::Held),
            Err(_) => {
                let _ = give_back(&self.client, key, &token).await;
                return Err(AcquireError::Unknown);
            }
        };
        let comparator = self.client.settings().comparator;
        let access = if self.claims {
            Access::Claimed { fence }
        } else {
            Access::Fenced { fence, comparator }
        };
        Ok(Lease {
            access,
            ..Lease::plain(key, token)
        })
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        give_back(&self.client, &lease.key, &lease.token).await
    }
}

/// Takes the key and draws the next fence: none when the key is held.
async fn take_with_fence(client: &Client, key: &str, token: &str) -> RedisResult<Option<u64>> {
    const SCRIPT: &str = r#"
        if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
            return redis.call("INCR", KEYS[2])
        end
        return false
    "#;
    let mut eval = redis::cmd("EVAL");
    let counter = format!("{key}:fence");
    let eval = eval
        .arg(SCRIPT)
        .arg(2)
        .arg(key)
        .arg(counter)
        .arg(token)
        .arg(client.ttl());
    eval.query_async(&mut client.redis(0)).await
}
