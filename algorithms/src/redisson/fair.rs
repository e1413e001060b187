//! `redisson-fair`: first come, first served. Who waits stands in a list, and only its head is woken.
//!
//! A client that dies in the queue must not block it for ever, so everybody in it has a time at which
//! it is passed over: what was left of the lock's when it came, and ten TTLs (5 minutes of 30 s) for
//! itself and for each of those before it. *Whoever comes passes over those whose time it is, by its
//! own wall clock.* So a client whose clock is ahead empties the queue, and one whose clock is behind
//! is passed over by the next.
//!
//! Who stands in the queue is told, at every further try, how long the lock itself lasts. When the
//! lock is free and the head of the queue is dead, that is no time at all: everybody else tries again
//! as fast as the network carries it, until the head's time has come.
//!
//! An attempt that fails leaves the queue, and no other is begun before it has left: a real thread
//! would come again under its own name and find its place, and here every attempt has its own name.
//!
//! Source: Redisson's `RedissonFairLock`, version 4 (how long a queued thread waits: since 3.32);
//! redisson#3004, #5503 (what it was before), #3829.

use async_trait::async_trait;
use redis::RedisResult;
use sim::Millis;
use sim::fault::Point;

use super::{Scripts, Waiting, eval, latched};
use crate::declare::owner_of_hash;
use crate::{Algorithm, Assumption, Client, Declaration, Family, Service, Worker, Works, standard};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedissonFair;

impl Algorithm for RedissonFair {
    fn name(&self) -> &'static str {
        "redisson-fair"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "as redisson, in the order of a queue that is timed by its clients' clocks",
            source: "Redisson 4, RedissonFairLock",
            family: Family::Renewing,
            service: Service::Redis,
            points: &[Point::RenewDue],
            ordered: true,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::ClientClocksAgree,
                Assumption::DataIsKept,
            ],
            works: Works::Any,
            holders: Some(owner_of_hash),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Waiting::new(client, Fair))
    }
}

#[derive(Clone)]
pub(super) struct Fair;

/// For how long who waits is not passed over: 5 minutes of 30 s, for each.
fn patience(client: &Client) -> Millis {
    client.ttl() * 10
}

fn queue(key: &str) -> String {
    format!("redisson_lock_queue:{{{key}}}")
}

fn times(key: &str) -> String {
    format!("redisson_lock_timeout:{{{key}}}")
}

/// Passes over those at the head of the queue whose time is over by the caller's clock.
macro_rules! pass_over {
    () => {
        r#"
            local now = tonumber(ARGV[3])
            local head = redis.call("LINDEX", KEYS[2], 0)
            while head and tonumber(redis.call("ZSCORE", KEYS[3], head)) <= now do
                redis.call("LPOP", KEYS[2])
                redis.call("ZREM", KEYS[3], head)
                head = redis.call("LINDEX", KEYS[2], 0)
            end
        "#
    };
}

/// Whoever is given as `behind` (names and times, in turn) has one less before it.
macro_rules! move_up {
    () => {
        r#"
            local function move_up(behind)
                local moved = {}
                for i = 1, #behind, 2 do
                    moved[i] = behind[i + 1] - ARGV[4]
                    moved[i + 1] = behind[i]
                end
                if #moved > 0 then
                    redis.call("ZADD", KEYS[3], unpack(moved))
                end
            end
        "#
    };
}

#[async_trait(?Send)]
impl Scripts for Fair {
    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>> {
        const SCRIPT: &str = concat!(
            pass_over!(),
            move_up!(),
            r#"
            local free = redis.call("EXISTS", KEYS[1]) == 0
            if free and (not head or head == ARGV[1]) then
                redis.call("LPOP", KEYS[2])
                redis.call("ZREM", KEYS[3], ARGV[1])
                move_up(redis.call("ZRANGE", KEYS[3], 0, -1, "WITHSCORES"))
                redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
                redis.call("PEXPIRE", KEYS[1], ARGV[2])
                return nil
            end
            if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
                redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
                redis.call("PEXPIRE", KEYS[1], ARGV[2])
                return nil
            end
            if redis.call("ZSCORE", KEYS[3], ARGV[1]) then
                return math.max(0, redis.call("PTTL", KEYS[1]))
            end
            local wait = redis.call("PTTL", KEYS[1])
            local last = redis.call("LINDEX", KEYS[2], -1)
            if last then
                wait = redis.call("ZSCORE", KEYS[3], last) - now
            end
            redis.call("RPUSH", KEYS[2], ARGV[1])
            redis.call("ZADD", KEYS[3], now + wait + ARGV[4], ARGV[1])
            return wait
            "#
        );
        eval(SCRIPT, &[key, &queue(key), &times(key)])
            .arg(owner)
            .arg(client.ttl())
            .arg(client.wall())
            .arg(patience(client))
            .query_async(&mut client.redis(0))
            .await
    }

    fn channel(&self, key: &str, owner: &str) -> String {
        format!("redisson_lock__channel:{{{key}}}:{owner}")
    }

    async fn free(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
        latch: &str,
    ) -> RedisResult<Option<bool>> {
        const SCRIPT: &str = concat!(
            r#"
            local outcome = redis.call("GET", KEYS[4])
            if outcome then
                return tonumber(outcome)
            end
            "#,
            pass_over!(),
            r#"
            local last = 1
            if redis.call("EXISTS", KEYS[1]) == 1 then
                if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
                    return nil
                end
                if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
                    redis.call("PEXPIRE", KEYS[1], ARGV[2])
                    last = 0
                else
                    redis.call("DEL", KEYS[1])
                end
            end
            if last == 1 and head then
                redis.call("PUBLISH", ARGV[5] .. head, "free")
            end
            redis.call("SET", KEYS[4], last, "PX", ARGV[4])
            return last
            "#
        );
        eval(SCRIPT, &[key, &queue(key), &times(key), latch])
            .arg(owner)
            .arg(client.ttl())
            .arg(client.wall())
            .arg(latched(client))
            .arg(self.channel(key, ""))
            .query_async(&mut client.redis(0))
            .await
    }

    async fn leave(&self, client: &Client, key: &str, owner: &str) -> bool {
        const SCRIPT: &str = concat!(
            move_up!(),
            r#"
            local queue, behind, found = redis.call("LRANGE", KEYS[2], 0, -1), {}, false
            for _, other in ipairs(queue) do
                if found then
                    behind[#behind + 1] = other
                    behind[#behind + 1] = redis.call("ZSCORE", KEYS[3], other)
                end
                found = found or other == ARGV[1]
            end
            move_up(behind)
            redis.call("ZREM", KEYS[3], ARGV[1])
            return redis.call("LREM", KEYS[2], 0, ARGV[1])
            "#
        );
        let mut leave = eval(SCRIPT, &[key, &queue(key), &times(key)]);
        leave.arg(owner).arg(0).arg(0).arg(patience(client));
        let left: RedisResult<u32> = leave.query_async(&mut client.redis(0)).await;
        left.is_ok()
    }
}
