//! No lock: one Lua script in Redis checks how many there were and counts one more.
//!
//! A script runs alone, so that no two requests see the same number. What it counts is as durable as
//! Redis.
//!
//! Source: the Redis documentation, INCR, "Pattern: Rate limiter", as a script.

use async_trait::async_trait;
use redis::RedisResult;
use sim::fault::Point;
use sim::history::{GaveUp, What};

use crate::section::{act, begin, done, think};
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Item, Lease, Outcome,
    Service, Worker, Works,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedisCounter;

impl Algorithm for RedisCounter {
    fn name(&self) -> &'static str {
        "redis-counter"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "no lock: a script in Redis checks and counts in one step",
            source: "redis.io/commands/incr, rate limiter",
            family: Family::LockFree,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Only(&["rate-limit"]),
            assumes: &[Assumption::DataIsKept],
            holders: None,
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        Box::new(Counting { client })
    }
}

struct Counting {
    client: Client,
}

#[async_trait(?Send)]
impl Worker for Counting {
    async fn perform(&mut self, item: &Item) -> Outcome {
        let client = &self.client;
        begin(client, item);
        client.point(Point::BeforeRead).await;
        client.point(Point::ReadChecked).await;
        let Ok(within) = count_one(client, item).await else {
            // It may have been counted; whoever asks again counts twice, and stays below the limit.
            let (key, section) = (item.key.clone(), item.section);
            let held = false;
            client.record(What::Denied { key, section, held });
            return Outcome::Denied(AcquireError::Unknown);
        };
        client.point(Point::AfterRead).await;
        let worked = go_through(client, item, within).await;
        let section = item.section;
        if let Err(why) = worked {
            client.record(What::GivenUp { section, why });
        }
        client.point(Point::Released).await;
        worked.map_or_else(Outcome::GivenUp, |()| Outcome::Done)
    }
}

/// What the request does, if it is within the limit.
async fn go_through(client: &Client, item: &Item, within: bool) -> Result<(), GaveUp> {
    if within {
        let lease = Lease::plain(&item.key, client.token());
        act(client, &lease, item, item.row);
        think(client, &lease, item, item.row).await?;
    }
    done(client, item, item.row, false);
    Ok(())
}

/// Counts one more, unless the limit is reached: whether it did.
async fn count_one(client: &Client, item: &Item) -> RedisResult<bool> {
    const SCRIPT: &str = r#"
        if tonumber(redis.call("GET", KEYS[1]) or "0") >= tonumber(ARGV[1]) then
            return 0
        end
        return redis.call("INCR", KEYS[1]) and 1
    "#;
    let mut eval = redis::cmd("EVAL");
    eval.arg(SCRIPT)
        .arg(1)
        .arg(format!("limit:{}", item.row))
        .arg(item.limit)
        .query_async(&mut client.redis(0))
        .await
}
