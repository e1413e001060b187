//! A lock that calls tokio itself, as it was written for production.
//!
//! It bounds its commands with `tokio::time::timeout` and renews its lease in a task of its own
//! that it gives to `tokio::spawn`. The event engine has no tokio runtime; the turmoil engine has
//! one for every node, so there the code runs as it is.
//!
//!     cargo run --example tokio_lock

#![allow(
    clippy::disallowed_methods,
    reason = "this lock was not written for a simulation"
)]

use std::time::Duration;

use async_trait::async_trait;
use fencepost::algorithms::declare::owner_of_key;
use fencepost::algorithms::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};
use fencepost::sim;
use fencepost::sim::engine::Turmoil;
use redis::{
    AsyncCommands, ExistenceCheck, RedisError, RedisResult, Script, SetExpiry, SetOptions,
};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

const PATIENCE: Duration = Duration::from_millis(500);

const DELETE_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0";

const RENEW_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

struct Watchdog {
    client: Client,
    renewing: Option<JoinHandle<()>>,
}

#[async_trait(?Send)]
impl Lock for Watchdog {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(self.client.ttl()));
        let mut redis = self.client.redis(0);
        let set = redis.set_options(key, &token, options);
        let answer: Result<RedisResult<Option<String>>, _> = timeout(PATIENCE, set).await;
        match answer {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => return Err(AcquireError::Held),
            Ok(Err(_)) | Err(_) => return Err(AcquireError::Unknown),
        }
        let renewal = renew(
            self.client.redis(0),
            key.to_owned(),
            token.clone(),
            self.client.ttl(),
        );
        self.renewing = Some(tokio::spawn(renewal));
        Ok(Lease::plain(key, token))
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        if let Some(renewing) = self.renewing.take() {
            renewing.abort();
        }
        let script = Script::new(DELETE_OWN);
        let mut delete = script.key(&lease.key);
        let mut redis = self.client.redis(0);
        let deleted = delete.arg(&lease.token).invoke_async(&mut redis);
        match timeout(PATIENCE, deleted).await {
            Ok(Ok(1)) => Ok(()),
            Ok(Ok(_)) => Err(ReleaseError::NotOwner),
            Ok(Err::<i64, RedisError>(_)) | Err(_) => Err(ReleaseError::Unknown),
        }
    }
}

/// Renews every third of the TTL, until it finds that the lock is no longer its own.
async fn renew(mut redis: sim::RedisHandle, key: String, token: String, ttl: u64) {
    let mut ticks = interval(Duration::from_millis(ttl / 3));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await; // the first comes at once
    let script = Script::new(RENEW_OWN);
    loop {
        ticks.tick().await;
        let mut renewal = script.key(&key);
        let renewal = renewal.arg(&token).arg(ttl);
        let renewed: RedisResult<i64> = renewal.invoke_async(&mut redis).await;
        if matches!(renewed, Ok(0)) {
            return;
        }
    }
}

/// What the testbed must know of it.
pub(crate) struct TokioLock;

impl Algorithm for TokioLock {
    fn name(&self) -> &'static str {
        "tokio-lock"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SET NX PX, renewed by a tokio task",
            source: "this file",
            family: Family::Renewing,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::SectionWithinLease],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let renewing = None;
        standard(client.clone(), Watchdog { client, renewing })
    }
}

/// Plays some seeds of two scenarios, a line for each run.
pub(crate) fn report() -> String {
    let mut text = String::new();
    for name in ["slow-work", "gc-pause"] {
        let scenario = fencepost::scenario(name).expect("it is built in");
        for seed in 0..4 {
            let run = fencepost::scenarios::run(&TokioLock, &scenario, seed, &Turmoil)
                .expect("the testbed does not fail");
            let breached = run.verdict.breached();
            let said = if breached.is_empty() {
                "nothing violated".into()
            } else {
                breached.join(", ")
            };
            text += &format!("{name}, seed {seed}: {said}\n");
        }
    }
    text
}

fn main() {
    print!("{}", report());
}
