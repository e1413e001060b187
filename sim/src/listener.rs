//! A client's connection to a Redis server apart from the one that its commands share.
//!
//! Whoever waits for an item (BLPOP) keeps a connection busy, whoever listens to channels makes it
//! deaf to most else over RESP2, and WATCH belongs to one connection: none of it goes with commands
//! that others send in between. Lock libraries open a second connection for this, and so do clients
//! here. See <https://redis.io/docs/latest/develop/pubsub/>.
//!
//! The connection speaks RESP3, and messages come as the `redis` crate hands them on:
//! [`PushInfo`]. `redis::Msg::from_push_info` makes a message of one.
//!
//! Deliberately absent: time-outs ([`Client::timeout`] has one), and subscribing again after the
//! connection broke: whether and when that happens is the lock's business.

use std::future::poll_fn;
use std::task::Poll;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo,
    RedisFuture, RedisResult, Value,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::client::Client;
use crate::engine::stock;
use crate::net::Stream;
use crate::world;

/// A connection to one Redis server, on which a client listens to channels or waits for items.
/// Dropping it closes it.
///
/// Commands are sent as over [`Client::redis`], but without a time-out.
#[derive(Debug)]
pub struct RedisListener {
    client: Client,
    connection: MultiplexedConnection,
    pushed: UnboundedReceiver<PushInfo>,
}

impl Client {
    /// Opens another connection to a Redis server, counted from zero as for [`Client::redis`].
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or drops the connection.
    pub async fn listen(&self, server: usize) -> RedisResult<RedisListener> {
        let node = self.tag.node;
        let stream = Stream::connect(node, self.find(server).await?).await?;
        let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        let (sender, pushed) = unbounded_channel();
        // The crate's own time-out would wait on tokio's clock.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_push_sender(sender);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&info, stream, config).await?;
        world::spawn(node, driver);
        self.check_role(&connection).await?;
        Ok(RedisListener {
            client: *self,
            connection,
            pushed,
        })
    }
}

impl RedisListener {
    /// The next message that the server pushes, confirmations of subscriptions among them;
    /// nothing once the connection is broken.
    pub async fn message(&mut self) -> Option<PushInfo> {
        let Self { client, pushed, .. } = self;
        let push = poll_fn(|context| {
            if stock::stands(client.tag, context) {
                return Poll::Pending;
            }
            pushed.poll_recv(context)
        });
        push.await
            .filter(|push| push.kind != PushKind::Disconnection)
    }
}

impl ConnectionLike for RedisListener {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.connection.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}
