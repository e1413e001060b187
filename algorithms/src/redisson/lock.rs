//! `redisson`: Redisson's plain lock. Re-entrant; it wakes everybody who waits and promises no order.

use async_trait::async_trait;
use redis::{Cmd, RedisResult};
use sim::fault::Point;

use super::{Scripts, Waiting, eval, latched};
use crate::declare::owner_of_hash;
use crate::{Algorithm, Assumption, Client, Declaration, Family, Service, Worker, Works, standard};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Redisson;

impl Algorithm for Redisson {
    fn name(&self) -> &'static str {
        "redisson"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "Redisson's lock: a hash, a deaf watchdog, and messages to who waits",
            source: "Redisson 4, RedissonLock",
            family: Family::Renewing,
            service: Service::Redis,
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            works: Works::Any,
            holders: Some(owner_of_hash),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Waiting::new(client, Plain))
    }
}

#[derive(Clone)]
pub(super) struct Plain;

#[async_trait(?Send)]
impl Scripts for Plain {
    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>> {
        take(client, key, owner)
            .query_async(&mut client.redis(0))
            .await
    }

    fn channel(&self, key: &str, _owner: &str) -> String {
        format!("redisson_lock__channel:{{{key}}}")
    }

    async fn free(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
        latch: &str,
    ) -> RedisResult<Option<bool>> {
        free(client, key, owner, latch)
            .query_async(&mut client.redis(0))
            .await
    }
}

/// Takes the lock, or says for how long it lasts.
pub(super) fn take(client: &Client, key: &str, owner: &str) -> Cmd {
    const SCRIPT: &str = r#"
        local free = redis.call("EXISTS", KEYS[1]) == 0
        if free or redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
            redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
            redis.call("PEXPIRE", KEYS[1], ARGV[2])
            return nil
        end
        return redis.call("PTTL", KEYS[1])
    "#;
    let mut take = eval(SCRIPT, &[key]);
    take.arg(owner).arg(client.ttl());
    take
}

/// Gives back one hold, unless the latch says that this has been done.
pub(super) fn free(client: &Client, key: &str, owner: &str, latch: &str) -> Cmd {
    const SCRIPT: &str = r#"
        local outcome = redis.call("GET", KEYS[3])
        if outcome then
            return tonumber(outcome)
        end
        if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
            return nil
        end
        local last = 0
        if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
            redis.call("PEXPIRE", KEYS[1], ARGV[2])
        else
            redis.call("DEL", KEYS[1])
            redis.call("PUBLISH", KEYS[2], "free")
            last = 1
        end
        redis.call("SET", KEYS[3], last, "PX", ARGV[3])
        return last
    "#;
    let channel = Plain.channel(key, owner);
    let mut free = eval(SCRIPT, &[key, &channel, latch]);
    free.arg(owner).arg(client.ttl()).arg(latched(client));
    free
}
