//! Connections over which nodes other than clients ask each other, with the `redis` crate.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisResult};

use crate::net::Stream;
use crate::world::{self, Sleep};
use crate::{Millis, NodeId};

/// Connects a node to a server or a sentinel.
pub(crate) async fn dial(node: usize, peer: NodeId) -> RedisResult<MultiplexedConnection> {
    let stream = Stream::connect(node, peer).await?;
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    // The crate's own time-out would wait on tokio's clock.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, stream, config).await?;
    world::spawn(node, driver);
    Ok(connection)
}

/// Waits for an answer, on the clock of a node.
pub(crate) async fn within<T>(
    node: usize,
    limit: Millis,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let mut answer = pin!(answer);
    let mut limit = pin!(Sleep::new(node, limit));
    poll_fn(|context| {
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        let late = limit.as_mut().poll(context);
        late.map(|()| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    })
    .await
}
