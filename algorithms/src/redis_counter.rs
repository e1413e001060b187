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
    Algorithm, Assumption, Client, Declaration, Family, Item, Lease, Outcome, Service, Worker,
    Works,
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
        let worked = count(client, item).await;
        let section = item.section;
        if let Err(why) = worked {
            client.record(What::GivenUp { section, why });
        }
        client.point(Point::Released).await;
        worked.map_or_else(Outcome::GivenUp, |()| Outcome::Done)
    }
}

async fn count(client: &Client, item: &Item) -> Result<(), GaveUp> {
    let lease = Lease::plain(&item.key, client.token());
    client.point(Point::BeforeRead).await;
    client.point(Point::ReadChecked).await;
    let counted = count_one(client, item).await;
    client.point(Point::AfterRead).await;
    // Without an answer it may have been counted; whoever asks again counts twice, and stays
    // below the limit.
    let within = counted.map_err(|_| GaveUp::StoreSilent)?;
    if within {
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
