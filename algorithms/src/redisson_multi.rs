//! Redisson's RedLock, which it deprecated in 3.12.5 and still ships: the locks of five servers are
//! taken one after the other, and a majority is enough.
//!
//! What it leaves out of the published Redlock: it never looks at how long that took, and no drift
//! is subtracted. On failure it gives back only what it knows to have, and a server whose answer did
//! not come in time. At the end every lock that it got is given its full TTL by a PEXPIRE that asks
//! neither who owns the key nor whether there is one.
//!
//! Source: Redisson, `RedissonMultiLock.tryLock(-1, leaseTime)` and `RedissonRedLock`, with the
//! scripts of `RedissonLock`.
//!
//! Deliberately absent: holding twice, and the message that an unlock publishes. Redisson's unlock
//! also says nothing when it fails; here the section hears of it and tries again.

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::RedisResult;

use crate::declare::field_by_majority;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedissonMulti;

impl Algorithm for RedissonMulti {
    fn name(&self) -> &'static str {
        "redisson-multi"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "Redisson's RedLock: five servers in turn, never looking at the time",
            source: "redisson, RedissonRedLock (deprecated) and RedissonMultiLock",
            family: Family::Quorum,
            service: Service::InTurn(5),
            points: &[],
            ordered: false,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            works: Works::Any,
            holders: Some(field_by_majority),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), InTurn { client })
    }
}

struct InTurn {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for InTurn {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let servers = self.client.servers();
        let limit = servers - (servers / 2 + 1);
        let mut may_fail = limit;
        let mut acquired = Vec::new();
        let mut certain = true;
        for server in 0..servers {
            match self.take(server, key, &token).await {
                Ok(true) => {
                    acquired.push(server);
                    continue;
                }
                Ok(false) => {}
                Err(error) => {
                    certain = false;
                    if error.is_timeout() {
                        self.give_back(&[server], key, &token).await;
                    }
                }
            }
            if servers - acquired.len() == limit {
                break;
            }
            if may_fail == 0 {
                let answers = self.give_back(&acquired, key, &token).await;
                certain &= answers.iter().all(Option::is_some);
                return Err(if certain {
                    AcquireError::Held
                } else {
                    AcquireError::Unknown
                });
            }
            may_fail -= 1;
        }
        let expired = acquired.iter().map(|server| self.expire(*server, key));
        if join_all(expired).await.iter().all(Result::is_ok) {
            Ok(Lease::plain(key, token))
        } else {
            // An exception: whoever called it does not have the lock, and the servers do.
            Err(AcquireError::Unknown)
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let all: Vec<_> = (0..self.client.servers()).collect();
        let answers = self.give_back(&all, &lease.key, &lease.token).await;
        if answers.iter().flatten().count() <= all.len() / 2 {
            Err(ReleaseError::Unknown)
        } else if answers.contains(&Some(true)) {
            Ok(())
        } else {
            Err(ReleaseError::NotOwner)
        }
    }
}

impl InTurn {
    /// Whether the lock of one server was free.
    async fn take(&self, server: usize, key: &str, token: &str) -> RedisResult<bool> {
        const SCRIPT: &str = r#"
            if redis.call("EXISTS", KEYS[1]) == 0 or redis.call("HEXISTS", KEYS[1], ARGV[2]) == 1 then
                redis.call("HINCRBY", KEYS[1], ARGV[2], 1)
                redis.call("PEXPIRE", KEYS[1], ARGV[1])
                return nil
            end
            return redis.call("PTTL", KEYS[1])
        "#;
        let mut eval = redis::cmd("EVAL");
        let eval = eval.arg(SCRIPT).arg(1).arg(key);
        let eval = eval.arg(self.client.ttl()).arg(token);
        let left: Option<i64> = eval.query_async(&mut self.client.redis(server)).await?;
        Ok(left.is_none())
    }

    /// Unlocks some servers at once: whether each one was locked, or no answer.
    async fn give_back(&self, servers: &[usize], key: &str, token: &str) -> Vec<Option<bool>> {
        const SCRIPT: &str = r#"
            if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
                return nil
            end
            if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
                return 0
            end
            return redis.call("DEL", KEYS[1])
        "#;
        let asked = servers.iter().map(async |server| {
            let mut eval = redis::cmd("EVAL");
            let eval = eval.arg(SCRIPT).arg(1).arg(key).arg(token);
            let answer: RedisResult<Option<i64>> =
                eval.query_async(&mut self.client.redis(*server)).await;
            answer.ok().map(|unlocked| unlocked.is_some())
        });
        join_all(asked).await
    }

    async fn expire(&self, server: usize, key: &str) -> RedisResult<()> {
        let mut expire = redis::cmd("PEXPIRE");
        let expire = expire.arg(key).arg(self.client.ttl());
        expire.query_async(&mut self.client.redis(server)).await
    }
}
