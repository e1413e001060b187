//! Waiting for a message that says: try again.
//!
//! Redis sends a message to whoever listens at that moment. When the connection breaks, it is opened
//! again, and what was published in between has passed by.

use redis::{PushKind, RedisResult};
use sim::RedisListener;

use crate::Client;

/// A subscription. Dropping it ends it.
pub(super) struct Wake {
    client: Client,
    channel: String,
    listener: Option<RedisListener>,
}

/// Before the nth try to connect, Redisson waits for 2 ms doubled n times, and never longer than
/// this n says.
const MOST_DOUBLINGS: u32 = 12;

impl Wake {
    pub(super) async fn subscribe(client: &Client, channel: String) -> RedisResult<Self> {
        Ok(Self {
            client: client.clone(),
            listener: Some(listen(client, &channel).await?),
            channel,
        })
    }

    /// Waits for a message. One that came before counts too.
    pub(super) async fn message(&mut self) {
        let mut tries = 0;
        loop {
            let Some(listener) = &mut self.listener else {
                tries = MOST_DOUBLINGS.min(tries + 1);
                self.client.sleep(2 << tries).await;
                self.listener = listen(&self.client, &self.channel).await.ok();
                continue;
            };
            tries = 0;
            match listener.message().await {
                Some(push) if push.kind == PushKind::Message => return,
                // The subscription is confirmed.
                Some(_) => {}
                None => self.listener = None,
            }
        }
    }
}

async fn listen(client: &Client, channel: &str) -> RedisResult<RedisListener> {
    let mut listener = client.listen(0).await?;
    let mut subscribe = redis::cmd("SUBSCRIBE");
    subscribe.arg(channel).exec_async(&mut listener).await?;
    Ok(listener)
}
