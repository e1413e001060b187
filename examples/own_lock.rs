//! A lock of one's own, written as for production, meets a scenario.
//!
//! It takes the lock with SET NX PX, and gives it back if a GET still shows its own token. The
//! GET and the DEL are two commands, so between them the lock can change hands; and no look at
//! Redis helps a holder who is stopped after it.
//!
//!     cargo run --example own_lock

use async_trait::async_trait;
use fencepost::algorithms::declare::owner_of_key;
use fencepost::algorithms::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};
use fencepost::reports::{StoryOptions, story};
use redis::{AsyncCommands, ExistenceCheck, RedisResult, SetExpiry, SetOptions};

struct GetThenDel {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for GetThenDel {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(self.client.ttl()));
        let set: RedisResult<Option<String>> =
            self.client.redis(0).set_options(key, &token, options).await;
        match set {
            Ok(Some(_)) => Ok(Lease::plain(key, token)),
            Ok(None) => Err(AcquireError::Held),
            Err(_) => Err(AcquireError::Unknown), // it may be ours, and will expire
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let mut redis = self.client.redis(0);
        let owner: RedisResult<Option<String>> = redis.get(&lease.key).await;
        match owner {
            Ok(owner) if owner.as_ref() == Some(&lease.token) => {
                let deleted: RedisResult<()> = redis.del(&lease.key).await;
                deleted.map_err(|_| ReleaseError::Unknown)
            }
            Ok(_) => Err(ReleaseError::NotOwner),
            Err(_) => Err(ReleaseError::Unknown),
        }
    }
}

/// What the testbed must know of it.
pub(crate) struct OwnLock;

impl Algorithm for OwnLock {
    fn name(&self) -> &'static str {
        "own-lock"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SET NX PX, and a GET before the DEL",
            source: "this file",
            family: Family::Tokened,
            service: Service::Redis,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::SectionWithinLease],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), GetThenDel { client })
    }
}

/// Plays some seeds: a line for each, and the story of the first that violates something.
pub(crate) fn report() -> String {
    let scenario = fencepost::scenario("gc-pause").expect("it is built in");
    let mut text = String::new();
    let mut first = None;
    for seed in 0..10 {
        let run = fencepost::run(&OwnLock, &scenario, seed).expect("the testbed does not fail");
        let breached = run.verdict.breached();
        text += &format!("seed {seed}: {}\n", breached.join(", "));
        if !breached.is_empty() {
            first.get_or_insert(run);
        }
    }
    if let Some(run) = first {
        text += &format!("\n{}", story(&run, &scenario, &StoryOptions::default()));
    }
    text
}

fn main() {
    print!("{}", report());
}
