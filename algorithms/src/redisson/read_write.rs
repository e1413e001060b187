//! `redisson-rw`: Redisson's read-write lock. Readers hold it together, a writer alone. Who writes
//! takes the write side, who only reads the read side.
//!
//! It is a hash: `mode` says which side is held, and a field for each holder how often. Every hold of
//! a reader has a key of its own beside the hash, which lasts for a TTL. When a reader leaves, the
//! hash is given the longest time that is left of the others'. *Nobody stands in line*: a reader
//! comes in whenever readers hold it, so a writer waits for as long as they follow each other.
//!
//! A reader's watchdog refreshes the holds of all readers, not only its own: one that has died keeps
//! the lock for as long as others read. A release that finds no lock at all takes itself for done,
//! and wakes whoever waits.
//!
//! Source: Redisson's `RedissonReadWriteLock`, `RedissonReadLock` and `RedissonWriteLock`, version 4;
//! redisson#1604 (readers' holds that were not refreshed).
//!
//! Deliberately absent: a writer that takes the read side, too (`mode` knows it, no section does it).

use async_trait::async_trait;
use redis::RedisResult;
use sim::fault::Point;

use super::{Scripts, Waiting, eval, latched};
use crate::declare::owner_of_mode;
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedissonRw;

impl Algorithm for RedissonRw {
    fn name(&self) -> &'static str {
        "redisson-rw"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "Redisson's read-write lock: readers together, a writer alone and without a queue",
            source: "Redisson 4, RedissonReadLock and RedissonWriteLock",
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
            holders: Some(owner_of_mode),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let sides = Sides {
            read: Waiting::new(client.clone(), Read),
            write: Waiting::new(client.clone(), Write),
        };
        standard(client, sides)
    }
}

struct Sides {
    read: Waiting<Read>,
    write: Waiting<Write>,
}

#[async_trait(?Send)]
impl Lock for Sides {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        self.write.acquire(key).await
    }

    async fn acquire_shared(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let shared = true;
        let lease = self.read.acquire(key).await?;
        Ok(Lease { shared, ..lease })
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        match lease.shared {
            true => self.read.release(lease).await,
            false => self.write.release(lease).await,
        }
    }
}

/// The channel of both sides.
fn channel(key: &str) -> String {
    format!("redisson_rwlock:{{{key}}}")
}

/// What the keys of readers' holds begin with.
fn holds(key: &str) -> String {
    format!("{{{key}}}:")
}

/// Ends the script if this release has been answered before. `LATCH` is the last of its keys.
macro_rules! answered_before {
    () => {
        r#"
            local outcome = redis.call("GET", KEYS[#KEYS])
            if outcome then
                return tonumber(outcome)
            end
            local function answer(last)
                redis.call("SET", KEYS[#KEYS], last, "PX", ARGV[3])
                return last
            end
            local mode = redis.call("HGET", KEYS[1], "mode")
            if not mode then
                redis.call("PUBLISH", KEYS[2], "free")
                return answer(1)
            end
            if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
                return nil
            end
        "#
    };
}

#[derive(Clone)]
pub(super) struct Read;

#[async_trait(?Send)]
impl Scripts for Read {
    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>> {
        const SCRIPT: &str = r#"
            local mode = redis.call("HGET", KEYS[1], "mode")
            if mode == "write" and redis.call("HEXISTS", KEYS[1], ARGV[1] .. ":write") == 0 then
                return redis.call("PTTL", KEYS[1])
            end
            if not mode then
                redis.call("HSET", KEYS[1], "mode", "read")
            end
            local hold = redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
            redis.call("SET", KEYS[2] .. ARGV[1] .. ":rwlock_timeout:" .. hold, 1, "PX", ARGV[2])
            local left = redis.call("PTTL", KEYS[1])
            redis.call("PEXPIRE", KEYS[1], math.max(left, tonumber(ARGV[2])))
            return nil
        "#;
        eval(SCRIPT, &[key, &holds(key)])
            .arg(owner)
            .arg(client.ttl())
            .query_async(&mut client.redis(0))
            .await
    }

    fn channel(&self, key: &str, _owner: &str) -> String {
        channel(key)
    }

    async fn free(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
        latch: &str,
    ) -> RedisResult<Option<bool>> {
        const SCRIPT: &str = concat!(
            answered_before!(),
            r#"
            local holds = redis.call("HINCRBY", KEYS[1], ARGV[1], -1)
            if holds == 0 then
                redis.call("HDEL", KEYS[1], ARGV[1])
            end
            redis.call("DEL", KEYS[3] .. ARGV[1] .. ":rwlock_timeout:" .. (holds + 1))
            if redis.call("HLEN", KEYS[1]) > 1 then
                local longest = -3
                for _, holder in ipairs(redis.call("HKEYS", KEYS[1])) do
                    for hold = tonumber(redis.call("HGET", KEYS[1], holder)) or 0, 1, -1 do
                        local name = KEYS[3] .. holder .. ":rwlock_timeout:" .. hold
                        longest = math.max(longest, redis.call("PTTL", name))
                    end
                end
                if longest > 0 then
                    redis.call("PEXPIRE", KEYS[1], longest)
                    return answer(0)
                elseif mode == "write" then
                    return answer(0)
                end
            end
            redis.call("DEL", KEYS[1])
            redis.call("PUBLISH", KEYS[2], "free")
            return answer(1)
            "#
        );
        eval(SCRIPT, &[key, &channel(key), &holds(key), latch])
            .arg(owner)
            .arg(client.ttl())
            .arg(latched(client))
            .query_async(&mut client.redis(0))
            .await
    }

    async fn renew(&self, client: &Client, key: &str, owner: &str) -> RedisResult<bool> {
        const SCRIPT: &str = r#"
            if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
                return 0
            end
            redis.call("PEXPIRE", KEYS[1], ARGV[2])
            for _, holder in ipairs(redis.call("HKEYS", KEYS[1])) do
                for hold = tonumber(redis.call("HGET", KEYS[1], holder)) or 0, 1, -1 do
                    redis.call("PEXPIRE", KEYS[2] .. holder .. ":rwlock_timeout:" .. hold, ARGV[2])
                end
            end
            return 1
        "#;
        eval(SCRIPT, &[key, &holds(key)])
            .arg(owner)
            .arg(client.ttl())
            .query_async(&mut client.redis(0))
            .await
    }
}

#[derive(Clone)]
pub(super) struct Write;

#[async_trait(?Send)]
impl Scripts for Write {
    fn owner(&self, token: String) -> String {
        token + ":write"
    }

    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>> {
        const SCRIPT: &str = r#"
            local mode, left = redis.call("HGET", KEYS[1], "mode"), 0
            if mode then
                left = redis.call("PTTL", KEYS[1])
                if mode == "read" or redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
                    return left
                end
            end
            redis.call("HSET", KEYS[1], "mode", "write")
            redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
            redis.call("PEXPIRE", KEYS[1], left + ARGV[2])
            return nil
        "#;
        eval(SCRIPT, &[key])
            .arg(owner)
            .arg(client.ttl())
            .query_async(&mut client.redis(0))
            .await
    }

    fn channel(&self, key: &str, _owner: &str) -> String {
        channel(key)
    }

    async fn free(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
        latch: &str,
    ) -> RedisResult<Option<bool>> {
        const SCRIPT: &str = concat!(
            answered_before!(),
            r#"
            if redis.call("HINCRBY", KEYS[1], ARGV[1], -1) > 0 then
                redis.call("PEXPIRE", KEYS[1], ARGV[2])
                return answer(0)
            end
            redis.call("HDEL", KEYS[1], ARGV[1])
            if redis.call("HLEN", KEYS[1]) > 1 then
                redis.call("HSET", KEYS[1], "mode", "read")
            else
                redis.call("DEL", KEYS[1])
                redis.call("PUBLISH", KEYS[2], "free")
            end
            return answer(1)
            "#
        );
        eval(SCRIPT, &[key, &channel(key), latch])
            .arg(owner)
            .arg(client.ttl())
            .arg(latched(client))
            .query_async(&mut client.redis(0))
            .await
    }
}
