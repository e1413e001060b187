//! Sockets of the simulated network, with the tokio traits that real clients expect.
//!
//! They are `turmoil-net`'s; what is added is that the engine hears of every use, that names
//! are nodes, and that a client hears when its request has left.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil_net::shim::tokio::net::{TcpListener, TcpStream};

use crate::NodeId;
use crate::engine::stock;
use crate::world::{touch, with};

/// The address of a node's process. Every start of a process is a new host.
pub(crate) fn address(node: usize, incarnation: u32) -> IpAddr {
    let incarnation = u8::try_from(incarnation).expect("a process starts at most 255 times");
    Ipv4Addr::new(10, incarnation, (node >> 8) as u8, node as u8).into()
}

/// The node and the process start behind an address.
pub(crate) fn owner(address: IpAddr) -> (usize, u32) {
    let IpAddr::V4(address) = address else {
        unreachable!("nodes have IPv4 addresses")
    };
    let [_, incarnation, high, low] = address.octets();
    (
        usize::from(high) << 8 | usize::from(low),
        u32::from(incarnation),
    )
}

/// The port a node serves at.
fn port(node: NodeId) -> u16 {
    match node {
        NodeId::Store => 5432,
        NodeId::Sentinel(_) => 26379,
        NodeId::Lock(_) | NodeId::Client(_) => 6379,
    }
}

/// How much one read takes from a socket. A longer message takes several.
pub(crate) const READ_AT_MOST: usize = 512;

/// Tells when the next write on a connection has been handed to the kernel.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) node: usize,
    pub(crate) server: usize,
    pub(crate) armed: AtomicBool,
}

/// One end of a connection.
pub(crate) struct Stream {
    inner: Inner,
    meter: Option<Arc<Meter>>,
}

/// The socket of the engine that plays.
enum Inner {
    Event(TcpStream),
    Stock(stock::Wire),
}

impl Stream {
    /// Connects the running task's node, `from`, to the current process of `peer`.
    pub(crate) async fn connect(from: usize, peer: NodeId) -> io::Result<Self> {
        let (to, address, is_stock) = with(|world| {
            let to = world.index(peer);
            let address = address(to, world.nodes[to].incarnation);
            (to, address, world.stock.is_some())
        });
        let inner = if is_stock {
            Inner::Stock(stock::Wire::connect(from, to, port(peer)).await?)
        } else {
            touch();
            let connected = TcpStream::connect(SocketAddr::new(address, port(peer))).await;
            touch();
            Inner::Event(connected?)
        };
        Ok(Self { inner, meter: None })
    }

    /// Reports the next write to `meter` whenever that is armed.
    pub(crate) fn metered(mut self, meter: Arc<Meter>) -> Self {
        self.meter = Some(meter);
        self
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = match &mut self.inner {
            Inner::Stock(wire) => return Pin::new(wire).poll_read(context, buffer),
            Inner::Event(socket) => socket,
        };
        // The socket zeroes all the room that it is offered, whether it fills it or not.
        let room = READ_AT_MOST.min(buffer.remaining());
        let mut little = ReadBuf::new(buffer.initialize_unfilled_to(room));
        let read = Pin::new(socket).poll_read(context, &mut little);
        let length = little.filled().len();
        buffer.advance(length);
        // Reading opens the window; that matters to the sender when there is a lot to read.
        if length == room || with(|world| world.net.network.bulk) {
            touch();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.inner {
            Inner::Stock(wire) => Pin::new(wire).poll_write(context, bytes),
            Inner::Event(socket) => {
                touch();
                let written = Pin::new(socket).poll_write(context, bytes);
                if written.is_pending() {
                    with(|world| world.net.network.bulk = true);
                }
                written
            }
        };
        if let (Poll::Ready(Ok(_)), Some(meter)) = (&written, &self.meter)
            && meter.armed.swap(false, Ordering::Relaxed)
        {
            with(|world| world.request_left(meter.node, meter.server));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Stock(wire) => Pin::new(wire).poll_flush(context),
            Inner::Event(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        touch();
        match &mut self.inner {
            Inner::Stock(wire) => Pin::new(wire).poll_shutdown(context),
            Inner::Event(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        touch();
    }
}

/// Where a server takes connections.
pub(crate) enum Listener {
    Event(TcpListener),
    Stock(stock::WireListener),
}

impl Listener {
    /// Listens on the running task's node.
    pub(crate) async fn bind(node: NodeId) -> io::Result<Self> {
        let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port(node));
        if let Some(own) = with(|world| world.stock.is_some().then(|| world.index(node))) {
            return stock::WireListener::bind(own, address)
                .await
                .map(Self::Stock);
        }
        TcpListener::bind(address).await.map(Self::Event)
    }

    /// The next connection, and the node at its other end.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, usize)> {
        let (inner, peer) = match self {
            Self::Stock(listener) => {
                let (wire, peer) = listener.accept().await?;
                (Inner::Stock(wire), peer)
            }
            Self::Event(listener) => {
                let (socket, peer) = listener.accept().await?;
                touch();
                (Inner::Event(socket), owner(peer.ip()).0)
            }
        };
        Ok((Stream { inner, meter: None }, peer))
    }
}
