//! A tokened lock without a TTL whose release forgets the token before it has been answered.
//!
//! The library empties its token first and sends the script then. Where the connection turns out to be
//! broken, the first release raises an error, and every later one says that the lock is not one's own,
//! without asking anybody. As there is no TTL unless somebody asks for one, nobody can free the lock
//! any more. So it is with an acquire that was not answered: its token was never kept.
//!
//! Source: redis-py#4258; redis/lock.py, whose `timeout` is `None` by default.

use async_trait::async_trait;
use redis::RedisResult;

use crate::declare::owner_of_key;
use crate::tokened::give_back;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct TokenedForgetful;

impl Algorithm for TokenedForgetful {
    fn name(&self) -> &'static str {
        "tokened-forgetful"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "as tokened, without a TTL, and its release forgets the token before it is answered",
            source: "redis-py#4258",
            family: Family::Tokened,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::HoldersLive,
                Assumption::DataIsKept,
                Assumption::AcquiresAnswered,
                Assumption::ReleasesAnswered,
            ],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let token = None;
        standard(client.clone(), Forgetful { client, token })
    }
}

struct Forgetful {
    client: Client,
    /// Of the lock that it holds, as far as it remembers.
    token: Option<String>,
}

#[async_trait(?Send)]
impl Lock for Forgetful {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&token).arg("NX");
        let answer: RedisResult<Option<String>> = set.query_async(&mut self.client.redis(0)).await;
        match answer {
            Ok(Some(_)) => {
                self.token = Some(token.clone());
                Ok(Lease::plain(key, token))
            }
            Ok(None) => Err(AcquireError::Held),
            Err(_) => Err(AcquireError::Unknown),
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let Some(token) = self.token.take() else {
            return Err(ReleaseError::NotOwner);
        };
        give_back(&self.client, &lease.key, &token).await
    }
}
