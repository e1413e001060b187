//! A tokened lock that is refreshed every third of its TTL while its holder works.
//!
//! `renewing` tells its holder when the lease is lost; `renewing-deaf` refreshes just the
//! same, but a refresh that finds the key gone ends the renewal without a word. With
//! `renewing-fragile` a refresh that is not answered does so, too: Consul's library had it so
//! until consul#912.
//!
//! Source: the extension by script of the Redis documentation, "Distributed Locks with
//! Redis", "Making the algorithm more reliable: extending the lock", at the pace of
//! Redisson's watchdog (a third of the TTL), which is also deaf.

use async_trait::async_trait;
use redis::RedisResult;
use sim::fault::Point;
use sim::{Millis, Spawned};

use crate::declare::owner_of_key;
use crate::tokened::{give_back, take};
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, LossSignal,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewing {
    /// The holder is told of a loss.
    Told,
    /// Nobody is.
    Deaf,
    /// Nobody is, and the first refresh that fails is the last.
    Fragile,
}

impl Algorithm for Renewing {
    fn name(&self) -> &'static str {
        match self {
            Self::Told => "renewing",
            Self::Deaf => "renewing-deaf",
            Self::Fragile => "renewing-fragile",
        }
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: match self {
                Self::Told => {
                    "tokened, refreshed every ttl/3; looks at its lease before each access"
                }
                Self::Deaf => "tokened, refreshed every ttl/3; nobody is told of a loss",
                Self::Fragile => "as renewing-deaf, and the first refresh that fails is the last",
            },
            source: match self {
                Self::Fragile => "consul#912",
                _ => "redis.io, Distributed Locks with Redis, extending the lock",
            },
            family: Family::Renewing,
            service: Service::Redis,
            points: &[Point::RenewDue],
            ordered: false,
            works: Works::Any,
            assumes: match self {
                Self::Told => &[
                    Assumption::WriteAtOnce,
                    Assumption::ClocksDoNotStep,
                    Assumption::DataIsKept,
                ],
                _ => &[
                    Assumption::SectionWithinLease,
                    Assumption::ClocksDoNotStep,
                    Assumption::DataIsKept,
                ],
            },
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(
            client.clone(),
            Renewed {
                client,
                kind: *self,
                renewer: None,
            },
        )
    }
}

struct Renewed {
    client: Client,
    kind: Renewing,
    renewer: Option<Spawned>,
}

#[async_trait(?Send)]
impl Lock for Renewed {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let asked = self.client.now();
        let token = take(&self.client, key).await?;
        let signal = LossSignal::new(&self.client, asked + self.client.ttl());
        let loss = (self.kind == Renewing::Told).then_some(signal);
        let lease = Lease {
            loss,
            ..Lease::plain(key, token)
        };
        let renewer = renew(self.client.clone(), lease.clone(), self.kind);
        self.renewer = Some(self.client.spawn(renewer));
        Ok(lease)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        self.renewer = None;
        give_back(&self.client, &lease.key, &lease.token).await
    }
}

async fn renew(client: Client, lease: Lease, kind: Renewing) {
    let every = client.settings().renew_every.unwrap_or(client.ttl() / 3);
    loop {
        let remaining = || {
            lease
                .loss
                .as_ref()
                .map(|loss| loss.deadline().saturating_sub(client.now()))
        };
        client
            .sleep(every.min(remaining().unwrap_or(Millis::MAX)))
            .await;
        if lease.loss.as_ref().is_some_and(LossSignal::is_lost) {
            return;
        }
        client.point(Point::RenewDue).await;
        let asked = client.now();
        let refreshed = match remaining() {
            // The deadline passes also while a refresh is under way.
            Some(remaining) => client.timeout(remaining, refresh(&client, 0, &lease)).await,
            None => Ok(refresh(&client, 0, &lease).await),
        };
        match (refreshed, &lease.loss) {
            (Ok(Ok(true)), Some(loss)) => loss.extend(asked + client.ttl()),
            (Ok(Ok(false)), Some(loss)) => return loss.raise(),
            (Ok(Ok(false)), None) => return,
            (Ok(Err(_)), None) if kind == Renewing::Fragile => return,
            // No answer: once more at the next due time, unless the deadline comes first.
            _ => {}
        }
    }
}

/// Gives the key its full TTL again on one server if it still holds the token: whether it did.
pub(crate) async fn refresh(client: &Client, server: usize, lease: &Lease) -> RedisResult<bool> {
    const SCRIPT: &str = r#"
        if redis.call("GET", KEYS[1]) == ARGV[1] then
            return redis.call("PEXPIRE", KEYS[1], ARGV[2])
        end
        return 0
    "#;
    let mut eval = redis::cmd("EVAL");
    let eval = eval
        .arg(SCRIPT)
        .arg(1)
        .arg(&lease.key)
        .arg(&lease.token)
        .arg(client.ttl());
    eval.query_async(&mut client.redis(server)).await
}
