//! The locks of Redisson, and what they have in common.
//!
//! A lock is a hash whose one field is its owner, with how often it has been taken. The owner of a
//! real one is a client and a thread; here every attempt is a thread of its own. A *watchdog*
//! refreshes the lock every third of its TTL and tells nobody if it is gone. Who waits subscribes to
//! a channel, tries again, and then waits for a message or for the lock's time to be over,
//! whichever comes first.
//!
//! One attempt is one call of `lock()`: it lasts until the lock was taken or a request was not
//! answered, however often it tries in between, and `acquire-sent` is its first try. If a try is
//! not answered, nothing is known and nothing is done: Redisson does not repeat the request and
//! leaves the key to its TTL, because the same thread could come again and would find itself there.
//! If the subscription fails, nothing was taken.
//!
//! Source: Redisson's `RedissonLock`, `RedissonBaseLock` and `LockPubSub`, version 4; redisson#5761
//! (missed messages), #6025 (repeated requests).
//!
//! Deliberately absent: `tryLock` with a time to wait and locks with a fixed lease, which have no
//! watchdog; the one timer that renews all locks of a process (here each lock has its own); the
//! one connection that listens for a whole process (here each who waits opens one); a thread that dies
//! while it asks, whose answer arms the watchdog all the same (see `redisson-interrupted` for that).

mod fair;
mod interrupted;
mod lock;
mod read_write;
mod replicated;
#[cfg(test)]
mod tests;
mod wake;

use async_trait::async_trait;
use redis::{Cmd, RedisResult};
use sim::fault::Point;
use sim::{Millis, Spawned};

pub use fair::RedissonFair;
pub use interrupted::RedissonInterrupted;
pub use lock::Redisson;
pub use read_write::RedissonRw;
pub use replicated::RedissonReplicated;

use self::wake::Wake;
use crate::{AcquireError, Client, Lease, Lock, ReleaseError};

/// What the kinds of lock do differently: their scripts.
#[async_trait(?Send)]
trait Scripts: Clone + 'static {
    /// The name under which an attempt holds the lock.
    fn owner(&self, token: String) -> String {
        token
    }

    /// Takes the lock or says for how long to wait. A negative time is for ever.
    async fn take(&self, client: &Client, key: &str, owner: &str) -> RedisResult<Option<i64>>;

    /// The channel on which whoever waits is woken.
    fn channel(&self, key: &str, owner: &str) -> String;

    /// Gives back one hold: whether that was the last; nothing if there was none. What has been
    /// answered once is answered again as long as it is in the latch.
    async fn free(
        &self,
        client: &Client,
        key: &str,
        owner: &str,
        latch: &str,
    ) -> RedisResult<Option<bool>>;

    /// Gives the lock its full TTL again if it is still the owner's: whether it was.
    async fn renew(&self, client: &Client, key: &str, owner: &str) -> RedisResult<bool> {
        renew(client, key, owner)
            .query_async(&mut client.redis(0))
            .await
    }

    /// An attempt has failed: whether it has left nothing behind that others wait for.
    async fn leave(&self, _client: &Client, _key: &str, _owner: &str) -> bool {
        true
    }
}

/// A lock in a process.
struct Waiting<S> {
    client: Client,
    scripts: S,
    watchdog: Option<Spawned>,
    cleaner: Option<Spawned>,
    /// The key and the owner of an attempt that has failed and has still to leave.
    leaving: Option<(String, String)>,
}

impl<S: Scripts> Waiting<S> {
    fn new(client: Client, scripts: S) -> Self {
        Self {
            client,
            scripts,
            watchdog: None,
            cleaner: None,
            leaving: None,
        }
    }

    /// Tries, and waits, until the lock is taken.
    async fn lock(&self, key: &str, owner: &str) -> Result<(), AcquireError> {
        if self.take(key, owner).await?.is_none() {
            return Ok(());
        }
        let channel = self.scripts.channel(key, owner);
        // 7.5 s of 30.
        let limit = self.client.ttl() / 4;
        let subscribing = Wake::subscribe(&self.client, channel);
        let Ok(Ok(mut wake)) = self.client.timeout(limit, subscribing).await else {
            return Err(AcquireError::Held);
        };
        while let Some(remaining) = self.take(key, owner).await? {
            match Millis::try_from(remaining) {
                Ok(remaining) => {
                    let _ = self.client.timeout(remaining, wake.message()).await;
                }
                Err(_) => wake.message().await,
            }
        }
        Ok(())
    }

    /// Whether no attempt of this process is left behind.
    async fn has_left(&mut self) -> bool {
        if let Some((key, owner)) = &self.leaving
            && self.scripts.leave(&self.client, key, owner).await
        {
            self.leaving = None;
        }
        self.leaving.is_none()
    }

    async fn take(&self, key: &str, owner: &str) -> Result<Option<i64>, AcquireError> {
        let taken = self.scripts.take(&self.client, key, owner).await;
        taken.map_err(|_| AcquireError::Unknown)
    }
}

#[async_trait(?Send)]
impl<S: Scripts> Lock for Waiting<S> {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        if !self.has_left().await {
            return Err(AcquireError::Unknown);
        }
        let owner = self.scripts.owner(self.client.token());
        if let Err(error) = self.lock(key, &owner).await {
            self.leaving = Some((key.to_owned(), owner));
            self.has_left().await;
            return Err(error);
        }
        let lease = Lease::plain(key, owner);
        let watch = watch(self.client.clone(), self.scripts.clone(), lease.clone());
        self.watchdog = Some(self.client.spawn(watch));
        Ok(lease)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let Lease { key, token, .. } = lease;
        let latch = latch(key, token);
        let freed = self.scripts.free(&self.client, key, token, &latch).await;
        // However it went.
        self.watchdog = None;
        let freed = freed.map_err(|_| ReleaseError::Unknown)?;
        self.cleaner = Some(self.client.spawn(forget(self.client.clone(), latch)));
        freed.map(|_| ()).ok_or(ReleaseError::NotOwner)
    }
}

/// The watchdog. A refresh that is not answered is tried again when the next is due; one that finds
/// the lock gone is the last, and nobody is told.
async fn watch(client: Client, scripts: impl Scripts, lease: Lease) {
    let every = client.settings().renew_every.unwrap_or(client.ttl() / 3);
    loop {
        client.sleep(every).await;
        client.point(Point::RenewDue).await;
        if let Ok(false) = scripts.renew(&client, &lease.key, &lease.token).await {
            return;
        }
    }
}

/// Gives the lock its full TTL again if it is still the owner's.
fn renew(client: &Client, key: &str, owner: &str) -> Cmd {
    const SCRIPT: &str = r#"
        if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
            return 0
        end
        return redis.call("PEXPIRE", KEYS[1], ARGV[2])
    "#;
    let mut renew = eval(SCRIPT, &[key]);
    renew.arg(owner).arg(client.ttl());
    renew
}

/// Where the outcome of a release is kept. Every release has its own; a lease is released once.
fn latch(key: &str, owner: &str) -> String {
    format!("redisson_unlock_latch:{{{key}}}:{owner}")
}

/// How long the outcome of a release is kept: for as long as it may be sent again, 18 s of 30.
fn latched(client: &Client) -> Millis {
    client.ttl() * 3 / 5
}

/// The outcome of a release was heard. Nobody waits for this.
async fn forget(client: Client, latch: String) {
    let mut del = redis::cmd("DEL");
    let _: RedisResult<u32> = del.arg(latch).query_async(&mut client.redis(0)).await;
}

/// A script with its keys. Arguments follow.
fn eval(script: &str, keys: &[&str]) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(keys.len()).arg(keys);
    eval
}
