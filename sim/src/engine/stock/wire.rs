//! Where our sockets meet turmoil's.
//!
//! turmoil answers a SYN by a channel, not by a segment: what should delay that answer or keep it
//! from arriving is done here. It also has no way to reset a connection or to refuse one between two
//! hosts of many; here an end of a connection can be told that it is reset, and a connect can be
//! refused before it is sent.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

use super::hosts::sleep;
use super::roads::End;
use crate::trace::Step;
use crate::world::{World, with, with_any};

/// One end of a connection.
pub(crate) struct Wire {
    inner: TcpStream,
    /// Its place among the ends of the world.
    end: usize,
}

/// What a connect meets.
enum Way {
    Open,
    /// Wait: the other side is not heard.
    Held,
    /// It is never going to be heard on this connection.
    Swallowed,
    /// Nor is the end of the fault that keeps it from being heard.
    Dark,
}

impl Wire {
    /// Connects `from` to what `to` serves at a port.
    pub(crate) async fn connect(from: usize, to: usize, port: u16) -> io::Result<Self> {
        let (address, there) = with(|world| {
            let roads = &world.stock().roads;
            (roads.address(to), roads.road(from, to))
        });
        if there.is_lost() {
            // turmoil would refuse it; in truth nobody hears of it.
            return pending().await;
        }
        with(|world| world.fold_sent(from, to, "SYN", &[]));
        let connected = TcpStream::connect(SocketAddr::new(address, port)).await;
        let (refused, back) = with(|world| {
            let now = world.now;
            let roads = &mut world.stock().roads;
            let refused = roads.road(from, to).refuses > 0;
            (refused, roads.answers(now, to, from))
        });
        sleep(back).await;
        let way = || {
            with(|world| {
                let roads = &world.stock().roads;
                let (there, back) = (roads.road(from, to), roads.road(to, from));
                if back.darks > 0 || connected.is_err() && there.darks > 0 {
                    Way::Dark
                } else if back.swallows > 0 || connected.is_err() && there.swallows > 0 {
                    Way::Swallowed
                } else if back.holds > 0 {
                    Way::Held
                } else {
                    Way::Open
                }
            })
        };
        let (mut was_swallowed, mut was_dark) = (false, false);
        poll_fn(|context| {
            let way = way();
            was_swallowed |= matches!(way, Way::Swallowed);
            was_dark |= matches!(way, Way::Dark);
            if matches!(way, Way::Open) && !was_dark {
                return Poll::Ready(());
            }
            with(|world| world.stock().roads.waiting.push(context.waker().clone()));
            Poll::Pending
        })
        .await;
        if was_swallowed {
            // Whatever swallows ends in a reset.
            sleep(back).await;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let wire = Self::new(connected?, from, to);
        with(|world| world.fold_arrived(from, to, "SYN-ACK", 0));
        Ok(wire)
    }

    fn new(inner: TcpStream, node: usize, peer: usize) -> Self {
        let end = with(|world| {
            let ends = &mut world.stock().roads.ends;
            ends.push(End {
                node,
                peer,
                open: true,
                reset: false,
                waker: None,
            });
            ends.len() - 1
        });
        Self { inner, end }
    }

    fn is_reset(&self) -> bool {
        with(|world| world.stock().roads.ends[self.end].reset)
    }

    /// Something has been read, or the end, or that there was a reset.
    fn fold_read(&self, read: &io::Result<()>, length: usize) {
        let flags = match read {
            Err(_) => "RST",
            Ok(()) if length == 0 => "FIN",
            Ok(()) => "",
        };
        with(|world| {
            let (node, peer) = world.between(self.end);
            world.fold_arrived(node, peer, flags, length);
        });
    }
}

impl World {
    /// The node of an end of a connection, and the one at its other end.
    fn between(&mut self, end: usize) -> (usize, usize) {
        let end = &self.stock().roads.ends[end];
        (end.node, end.peer)
    }

    /// turmoil has no segments that we could see on their way; what our ends hand to it and take
    /// from it stands for them.
    fn fold_sent(&mut self, node: usize, peer: usize, flags: &'static str, payload: &[u8]) {
        let to = self.nodes[peer].id;
        self.fold(node, Step::Sent { to, flags, payload });
    }

    fn fold_arrived(&mut self, node: usize, peer: usize, flags: &'static str, length: usize) {
        let from = self.nodes[peer].id;
        let arrived = Step::Arrived {
            from,
            flags,
            length,
        };
        self.fold(node, arrived);
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        // What came before the reset is read before it is heard of.
        let mut read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if read.is_pending() && self.is_reset() {
            read = Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if let Poll::Ready(read) = read {
            self.fold_read(&read, buffer.filled().len() - before);
            return Poll::Ready(read);
        }
        with(|world| {
            let end = &mut world.stock().roads.ends[self.end];
            end.waker = Some(context.waker().clone());
        });
        Poll::Pending
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_reset() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(length)) = written {
            with(|world| {
                let (node, peer) = world.between(self.end);
                world.fold_sent(node, peer, "", &bytes[..length]);
            });
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(context);
        if let Poll::Ready(Ok(())) = shut {
            with(|world| {
                let (node, peer) = world.between(self.end);
                world.fold_sent(node, peer, "FIN", &[]);
            });
        }
        shut
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        with_any(|world| {
            if let Some(stock) = &mut world.stock {
                stock.roads.ends[self.end].open = false;
            }
        });
    }
}

/// Where a server takes connections.
pub(crate) struct WireListener {
    inner: TcpListener,
    node: usize,
}

impl WireListener {
    pub(crate) async fn bind(node: usize, address: SocketAddr) -> io::Result<Self> {
        let inner = TcpListener::bind(address).await?;
        Ok(Self { inner, node })
    }

    /// The next connection, and the node at its other end.
    pub(crate) async fn accept(&self) -> io::Result<(Wire, usize)> {
        let (inner, peer) = self.inner.accept().await?;
        let peer = with(|world| world.stock().roads.node(peer.ip()));
        with(|world| world.fold_arrived(self.node, peer, "SYN", 0));
        Ok((Wire::new(inner, self.node, peer), peer))
    }
}
