//! Sockets between clients, without a protocol: what benchmarks of the network itself speak.
//!
//! Not part of the interface: locks go through [`Client::redis`] and [`Client::store`], whose
//! time-outs and connections belong to the client.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::net::{Listener, Stream};
use crate::world::with;
use crate::{Client, NodeId};

/// Listens on a client's node and takes one connection.
pub async fn accept(client: Client) -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let listener = Listener::bind(client.node()).await?;
    listener.accept().await.map(|(stream, _)| stream)
}

/// Connects the running client to another one that listens.
pub async fn connect(
    client: Client,
    peer: NodeId,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let from = with(|world| world.index(client.node()));
    Stream::connect(from, peer).await
}
