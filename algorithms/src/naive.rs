//! SET NX PX and DEL: the lock of countless tutorials. Whoever releases deletes the key,
//! whoever's it has become.
//!
//! Source: the Redis documentation's "Distributed Locks with Redis" names this DEL as the
//! mistake that its random value prevents; reported as redis-py#415.

use async_trait::async_trait;
use redis::RedisResult;

use crate::declare::owner_of_key;
use crate::setnx::delete;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Naive;

impl Algorithm for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SET NX PX, and DEL whoever holds it",
            source: "redis-py#415; redis.io, Distributed Locks with Redis",
            family: Family::Plain,
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
        standard(client.clone(), Unowned { client })
    }
}

struct Unowned {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for Unowned {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        if set_with_ttl(&self.client, 0, key, &token)
            .await
            .map_err(|_| AcquireError::Unknown)?
        {
            Ok(Lease::plain(key, token))
        } else {
            Err(AcquireError::Held)
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        delete(&self.client, &lease.key).await
    }
}

/// `SET key token NX PX ttl` on one server: whether the key was absent.
pub(crate) async fn set_with_ttl(
    client: &Client,
    server: usize,
    key: &str,
    token: &str,
) -> RedisResult<bool> {
    let mut set = redis::cmd("SET");
    let set = set
        .arg(key)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(client.ttl());
    let answer: Option<String> = set.query_async(&mut client.redis(server)).await?;
    Ok(answer.is_some())
}
