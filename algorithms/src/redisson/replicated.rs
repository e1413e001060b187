//! `redisson-replicated`: Redisson's lock on a master with replicas. Every script is followed by a
//! WAIT for all the replicas that the master knows.
//!
//! The lock counts as taken if one replica has it, or if the master has none; if it has some and none
//! has answered in time, the lock is given back. So it narrows the window in which a failover loses
//! a lock, and does not close it: the replica that is promoted may be another one, or the first
//! that comes after there was none. WAIT is given a third of the time-out (1 s of 3).
//!
//! *Here a request that was not answered is sent again*, up to four times, also the one that takes
//! the lock: the same thread finds itself there and holds it twice, gives it back once, and it stays
//! until its TTL is over.
//!
//! Source: Redisson's `CommandAsyncService.syncedEval`, version 3.52 and 4 (`checkLockSyncedSlaves`,
//! `slavesSyncTimeout`, `retryAttempts`, `retryDelay`); redisson#5256 and #6518 (what is counted),
//! #6025 and #7367 (taken twice).
//!
//! Deliberately absent: WAITAOF; a connection of its own for each script and its WAIT (here the
//! watchdog's waits behind the holder's).

use async_trait::async_trait;
use redis::{Cmd, FromRedisValue, RedisError, RedisResult};
use sim::Millis;
use sim::fault::Point;

use super::lock::{Plain, free, take};
use super::{Scripts, Waiting, renew};
use crate::declare::owner_of_hash;
use crate::{Algorithm, Assumption, Client, Declaration, Family, Service, Worker, Works, standard};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedissonReplicated;

impl Algorithm for RedissonReplicated {
    fn name(&self) -> &'static str {
        "redisson-replicated"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "redisson, given back if there are replicas and none has it; sends again",
            source: "Redisson 4, RedissonLock with checkLockSyncedSlaves; redisson#7367",
            family: Family::Renewing,
            service: Service::Replicated {
                replicas: 1,
                sentinels: 3,
            },
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
                Assumption::NoFailover,
            ],
            works: Works::Any,
            holders: Some(owner_of_hash),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Waiting::new(client, Replicated))
    }
}

/// How often a request is sent again that was not answered.
const RETRIES: u32 = 4;

#[derive(Clone)]
pub(super) struct Replicated;

#[async_trait(?Send)]
impl Scripts for Replicated {
    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>> {
        let taken = synced(client, &take(client, key, owner)).await;
        if taken.as_ref().is_err_and(nobody_has_it) {
            // What became of this, nobody looks at.
            let latch = super::latch(key, owner);
            let _ = self.free(client, key, owner, &latch).await;
        }
        taken
    }

    fn channel(&self, key: &str, owner: &str) -> String {
        Plain.channel(key, owner)
    }

    async fn free(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
        latch: &str,
    ) -> RedisResult<Option<bool>> {
        synced(client, &free(client, key, owner, latch)).await
    }

    async fn renew(&self, client: &Client, key: &str, owner: &str) -> RedisResult<bool> {
        synced(client, &renew(client, key, owner)).await
    }
}

/// Executes a script and waits for the replicas. Sends it again while it is not answered, whether
/// time was up or the connection broke.
async fn synced<T: FromRedisValue>(client: &Client, script: &Cmd) -> RedisResult<T> {
    let mut tries = 0;
    loop {
        let answer = synced_once(client, script).await;
        if tries == RETRIES || !answer.as_ref().is_err_and(RedisError::is_io_error) {
            return answer;
        }
        tries += 1;
        // 1 s to 2 s, where the time-out is 3 s.
        let second = patience(client);
        client.sleep(client.draw(&(second..=2 * second))).await;
    }
}

async fn synced_once<T: FromRedisValue>(client: &Client, script: &Cmd) -> RedisResult<T> {
    let mut redis = client.redis(0);
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("replication").query_async(&mut redis).await?;
    let known = info
        .lines()
        .find_map(|line| line.strip_prefix("connected_slaves:"));
    let known: u64 = known.and_then(|known| known.parse().ok()).unwrap_or(0);
    if known == 0 {
        return script.query_async(&mut redis).await;
    }
    let mut batch = redis::pipe();
    batch.add_command(script.clone());
    batch.cmd("WAIT").arg(known).arg(patience(client));
    let (answer, copied): (T, u64) = batch.query_async(&mut redis).await?;
    match copied {
        0 => Err((redis::ErrorKind::Extension, NOBODY).into()),
        _ => Ok(answer),
    }
}

const NOBODY: &str = "none of the replicas has it";

fn nobody_has_it(error: &RedisError) -> bool {
    error.to_string().contains(NOBODY)
}

/// How long it waits for replicas.
fn patience(client: &Client) -> Millis {
    client.redis_timeout() / 3
}
