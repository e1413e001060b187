//! How a client finds the Redis server to talk to, where a master has replicas.
//!
//! It asks whenever it opens a connection: the sentinels, one after the other, or without them the
//! name that an operator moves. Then it asks the server itself for its ROLE, as client libraries
//! do, because a sentinel may not know better. It opens a connection anew when the old one was
//! dropped, gave no answer in time, or refused a write: with a master that only it can reach, a
//! client stays.
//!
//! Deliberately absent: listening for `+switch-master`, which tells a client sooner.

use std::io;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, Value};

use crate::client::Client;
use crate::dial::{dial, within};
use crate::redis::follow::node_of;
use crate::world::with;
use crate::{Millis, NodeId};

impl Client {
    /// The node behind a Redis server that is counted from zero.
    pub(crate) async fn find(&self, server: usize) -> RedisResult<NodeId> {
        let node = self.tag.node;
        let (sentinels, named, patience) = with(|world| {
            let patience: Millis = world.setup.redis_timeout / 4;
            (world.setup.deployment.sentinels(), world.master, patience)
        });
        let Some(sentinels) = sentinels else {
            return Ok(NodeId::Lock(server as u16 + 1));
        };
        if sentinels.number == 0 {
            return Ok(NodeId::Lock(named));
        }
        for sentinel in (1..=sentinels.number).map(NodeId::Sentinel) {
            let answer = within(node, patience, async {
                let mut ask = redis::cmd("SENTINEL");
                ask.arg("GET-MASTER-ADDR-BY-NAME").arg("mymaster");
                let (host, _): (String, u16) =
                    ask.query_async(&mut dial(node, sentinel).await?).await?;
                node_of(host.as_bytes()).ok_or_else(not_found)
            });
            if let Ok(master) = answer.await {
                return Ok(master);
            }
        }
        Err(not_found())
    }

    /// Makes sure that a server is a master, where there are others.
    pub(crate) async fn check_role(self, connection: &MultiplexedConnection) -> RedisResult<()> {
        if !with(|world| world.setup.deployment.is_replicated()) {
            return Ok(());
        }
        let role: Vec<Value> = redis::cmd("ROLE")
            .query_async(&mut connection.clone())
            .await?;
        let role: Option<String> = role
            .first()
            .and_then(|r| redis::from_redis_value_ref(r).ok());
        if role.as_deref() == Some("master") {
            return Ok(());
        }
        Err(not_found())
    }
}

/// Whether an error says that the server is no master.
pub(crate) fn is_refused(error: &RedisError) -> bool {
    error.code() == Some("READONLY")
}

/// As [`is_refused`], for one of several answers.
pub(crate) fn is_refusal(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "READONLY")
}

fn not_found() -> RedisError {
    io::Error::from(io::ErrorKind::NotFound).into()
}
