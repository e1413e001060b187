//! `redisson-interrupted`: a caller that does not wait for the answer to its acquire, and a watchdog that
//! is armed when that comes after all.
//!
//! `lock()` throws as soon as its thread is interrupted, by a `Future.get` with a time-out and a `cancel`,
//! say. The request is under way. Whoever caught the exception has no lock, and by the usual idiom (`lock()`
//! stands before the `try`) unlocks none. When the answer says that it was granted, the
//! acquire's callback arms the watchdog, and that renews for ever what nobody knows to hold. In
//! redisson#7272 the caller does unlock, but the cancellation of the watchdog finds nothing to cancel and comes before
//! its arming; the next holds of the same thread then count one too many.
//!
//! The caller waits for a second, whatever the lock's TTL.
//!
//! Source: redisson#2714, redisson#4368, redisson#7272.
//!
//! Deliberately absent: the unlock that overtakes its lock on another connection of the pool; here a
//! client's requests go over one. And one thread that takes the lock twice; here every attempt is a
//! thread of its own.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use async_trait::async_trait;
use redis::RedisResult;
use sim::fault::Point;
use sim::{Millis, Spawned};

use super::lock::Plain;
use super::{Scripts, Waiting, watch};
use crate::declare::owner_of_hash;
use crate::{
    Algorithm, Assumption, Client, Declaration, Family, Lease, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedissonInterrupted;

impl Algorithm for RedissonInterrupted {
    fn name(&self) -> &'static str {
        "redisson-interrupted"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "as redisson; who is interrupted while it asks leaves a watchdog behind",
            source: "redisson#7272",
            family: Family::Renewing,
            service: Service::Redis,
            points: &[Point::RenewDue],
            ordered: false,
            assumes: &[
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
                Assumption::AcquiresAnswered,
            ],
            works: Works::Any,
            holders: Some(owner_of_hash),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), Waiting::new(client, Impatient::default()))
    }
}

/// How long the caller waits for an answer.
const PATIENCE: Millis = 1_000;

/// The scripts of the plain lock, and the callbacks of requests that nobody waits for any more.
#[derive(Clone, Default)]
struct Impatient {
    callbacks: Rc<RefCell<Vec<Spawned>>>,
}

#[async_trait(?Send)]
impl Scripts for Impatient {
    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>> {
        let lease = Lease::plain(key, owner.to_owned());
        let (asker, asked) = (client.clone(), lease.clone());
        let mut answer =
            Box::pin(async move { Plain.take(&asker, &asked.key, &asked.token).await });
        if let Ok(answer) = client.timeout(PATIENCE, answer.as_mut()).await {
            return answer;
        }
        let watcher = client.clone();
        self.callbacks.borrow_mut().push(client.spawn(async move {
            if let Ok(None) = answer.await {
                watch(watcher, Plain, lease).await;
            }
        }));
        Err(io::Error::from(io::ErrorKind::Interrupted).into())
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
        Plain.free(client, key, owner, latch).await
    }
}
