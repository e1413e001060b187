//! A tokened lock on a Redis master with replicas, as people run it behind Sentinel.
//!
//! Replication is asynchronous: a master may answer, die, and be replaced by a replica that has
//! never heard of the lock. `sentinel` does nothing about it. `sentinel-wait` sends WAIT 1 behind
//! its SET, on the same connection, and gives the lock back unless a replica has it. That narrows
//! the window and does not close it: the replica that is promoted may be another one.
//! `sentinel-wait-elsewhere` sends its WAIT over another connection of its pool, which asks for
//! what *that* connection has seen, and so proves nothing about the SET.
//!
//! WAIT is given `server_timeout`. Until it is answered no other command goes over its connection.
//!
//! Source: the Redis documentation, "Distributed Locks with Redis", why failover-based
//! implementations are not enough; the WAIT command, which "does not make Redis a strongly
//! consistent store".

use async_trait::async_trait;
use redis::RedisResult;
use sim::{Millis, RedisListener};

use crate::declare::owner_of_key;
use crate::tokened::{give_back, take};
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel {
    /// Whether it waits for a replica.
    pub waits: Waits,
}

/// How the lock makes sure that a replica has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Not at all.
    Never,
    /// By WAIT on the connection that took the lock.
    Here,
    /// By WAIT on another connection.
    Elsewhere,
}

impl Algorithm for Sentinel {
    fn name(&self) -> &'static str {
        match self.waits {
            Waits::Never => "sentinel",
            Waits::Here => "sentinel-wait",
            Waits::Elsewhere => "sentinel-wait-elsewhere",
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: match self.waits {
                Waits::Never => "tokened, on a master that Sentinel replaces by a replica",
                Waits::Here => "sentinel, given back unless a replica has it (WAIT 1)",
                Waits::Elsewhere => {
                    "sentinel, with a WAIT on a connection that knows nothing of it"
                }
            },
            source: "redis.io, Distributed Locks with Redis, failover-based implementations; WAIT",
            family: Family::Tokened,
            service: Service::Replicated {
                replicas: 1,
                sentinels: 3,
            },
            points: &[],
            ordered: false,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
                Assumption::NoFailover,
            ],
            works: Works::Any,
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let waits = self.waits;
        let other = None;
        standard(
            client.clone(),
            Watched {
                client,
                waits,
                other,
            },
        )
    }
}

struct Watched {
    client: Client,
    waits: Waits,
    /// The connection over which `sentinel-wait-elsewhere` waits.
    other: Option<RedisListener>,
}

#[async_trait(?Send)]
impl Lock for Watched {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let (token, copied) = match self.waits {
            Waits::Never => (take(&self.client, key).await?, true),
            Waits::Here => self.take_and_wait(key).await?,
            Waits::Elsewhere => {
                // A pool's connections are there before they are needed.
                let _ = self.open_other().await;
                let token = take(&self.client, key).await?;
                let copied = self.wait_elsewhere().await;
                (token, copied.is_ok_and(|replicas| replicas >= 1))
            }
        };
        if copied {
            return Ok(Lease::plain(key, token));
        }
        match give_back(&self.client, key, &token).await {
            Ok(()) | Err(ReleaseError::NotOwner) => Err(AcquireError::Held),
            Err(ReleaseError::Unknown) => Err(AcquireError::Unknown),
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        give_back(&self.client, &lease.key, &lease.token).await
    }
}

impl Watched {
    /// SET NX PX and WAIT 1 in one batch, so that nothing comes between them and both go over one
    /// connection: the token, and whether a replica has it.
    async fn take_and_wait(&self, key: &str) -> Result<(String, bool), AcquireError> {
        let token = self.client.token();
        let mut batch = redis::pipe();
        batch
            .cmd("SET")
            .arg(key)
            .arg(&token)
            .arg("NX")
            .arg("PX")
            .arg(self.client.ttl())
            .cmd("WAIT")
            .arg(1)
            .arg(self.patience());
        let answer: RedisResult<(Option<String>, u64)> =
            batch.query_async(&mut self.client.redis(0)).await;
        match answer {
            Ok((Some(_), replicas)) => Ok((token, replicas >= 1)),
            Ok((None, _)) => Err(AcquireError::Held),
            Err(_) => {
                let _ = give_back(&self.client, key, &token).await;
                Err(AcquireError::Unknown)
            }
        }
    }

    async fn open_other(&mut self) -> RedisResult<&mut RedisListener> {
        if self.other.is_none() {
            let patience = self.patience();
            let open = self.client.timeout(patience, self.client.listen(0)).await;
            self.other = Some(open.unwrap_or_else(|_| Err(silence()))?);
        }
        Ok(self.other.as_mut().expect("opened above"))
    }

    async fn wait_elsewhere(&mut self) -> RedisResult<u64> {
        let (client, patience) = (self.client.clone(), self.patience());
        let mut wait = redis::cmd("WAIT");
        wait.arg(1).arg(patience);
        let other = self.open_other().await?;
        // The answer comes a round trip after the server's own time is up.
        let answer = client.timeout(2 * patience, wait.query_async(other)).await;
        let answer = answer.unwrap_or_else(|_| Err(silence()));
        if answer.is_err() {
            self.other = None;
        }
        answer
    }

    /// How long it waits for a replica.
    fn patience(&self) -> Millis {
        let settings = self.client.settings();
        settings.server_timeout.unwrap_or(settings.ttl / 200)
    }
}

fn silence() -> redis::RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
