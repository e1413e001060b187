//! A client's connection to the coordination server. Requests share it, as in etcd's and
//! ZooKeeper's clients, so a wait does not hold up a keep-alive.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Reply, Request};
use crate::client::Spawned;
use crate::engine::stock;
use crate::net::{Meter, Stream};
use crate::store::{Frames, encode};
use crate::world::with;
use crate::{Client, NodeId};

/// The answer did not come. The request may have been executed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Not within the time-out.
    #[error("the coordination server did not answer in time")]
    TimedOut,
    /// The connection broke, or could not be made.
    #[error("the connection to the coordination server broke")]
    Disconnected,
}

/// A connection, from when it is wanted to when it breaks.
pub(crate) struct Connection {
    link: Rc<RefCell<Link>>,
    /// Ends with the connection's last owner.
    _task: Spawned,
}

/// What requests and the connection's task tell each other.
#[derive(Default)]
struct Link {
    numbers: u32,
    outgoing: VecDeque<Outgoing>,
    waiting: BTreeMap<u32, Waiting>,
    connected: bool,
    broken: bool,
    task: Option<Waker>,
}

struct Outgoing {
    number: u32,
    frame: Bytes,
    takes: bool,
}

#[derive(Default)]
struct Waiting {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

impl Client {
    /// One request to the coordination server, which is given the setup's `redis_timeout`,
    /// connecting included.
    pub async fn coordinate(&self, request: &Request) -> Result<Reply, Unanswered> {
        let limit = with(|world| world.setup.redis_timeout);
        let asked = self.timeout(limit, self.ask(Some(request)));
        asked.await.unwrap_or(Err(Unanswered::TimedOut))
    }

    /// Waits until a key has changed after a revision of the coordination server, for as long as
    /// that takes: [`Request::Await`] without a time-out.
    pub async fn changed(&self, key: &str, after: u64) -> Result<Reply, Unanswered> {
        let key = key.to_owned();
        self.ask(Some(&Request::Await { key, after })).await
    }

    /// Waits until the connection to the coordination server breaks, which is opened if there is
    /// none.
    pub async fn disconnected(&self) {
        let _ = self.ask(None).await;
    }

    /// Sends a request, if there is one, and waits for its answer or for the connection's end.
    async fn ask(&self, request: Option<&Request>) -> Result<Reply, Unanswered> {
        let link = self.link();
        let number = link.borrow_mut().enlist(request);
        let _leaving = Leaving {
            client: *self,
            link: Rc::clone(&link),
            number,
        };
        poll_fn(|context| {
            if stock::stands(self.tag, context) {
                return Poll::Pending;
            }
            link.borrow_mut().poll(number, context)
        })
        .await
    }

    fn link(&self) -> Rc<RefCell<Link>> {
        let node = self.tag.node;
        let open = with(|world| {
            let kept = world.nodes[node].connections.coordination.as_ref();
            kept.map(|kept| Rc::clone(&kept.link))
        });
        if let Some(link) = open {
            return link;
        }
        let link = Rc::<RefCell<Link>>::default();
        let connection = Connection {
            link: Rc::clone(&link),
            _task: self.spawn(drive(node, Rc::clone(&link))),
        };
        with(|world| world.nodes[node].connections.coordination = Some(connection));
        link
    }
}

impl Link {
    fn enlist(&mut self, request: Option<&Request>) -> u32 {
        self.numbers += 1;
        let number = self.numbers;
        self.waiting.insert(number, Waiting::default());
        if let Some(request) = request {
            self.outgoing.push_back(Outgoing {
                number,
                frame: encode(number, request),
                takes: request.takes(),
            });
            self.task.take().into_iter().for_each(Waker::wake);
        }
        number
    }

    fn poll(&mut self, number: u32, context: &mut Context<'_>) -> Poll<Result<Reply, Unanswered>> {
        let waiting = self.waiting.entry(number).or_default();
        if let Some(reply) = waiting.reply.take() {
            return Poll::Ready(Ok(reply));
        }
        if self.broken {
            return Poll::Ready(Err(Unanswered::Disconnected));
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn breaks(&mut self) {
        self.broken = true;
        for waiting in self.waiting.values_mut() {
            waiting.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// A request that is over. If it was given up before it was written it never is; and if nobody
/// waits for a connection that has not been made, nobody makes it.
struct Leaving {
    client: Client,
    link: Rc<RefCell<Link>>,
    number: u32,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut link = self.link.borrow_mut();
        link.waiting.remove(&self.number);
        link.outgoing
            .retain(|request| request.number != self.number);
        let unwanted = !link.connected && link.waiting.is_empty();
        drop(link);
        if unwanted {
            forget(self.client.tag.node, &self.link);
        }
    }
}

/// Drops a node's connection, if it is still this one.
fn forget(node: usize, link: &Rc<RefCell<Link>>) {
    let mut dropped = None;
    crate::world::with_any(|world| {
        let slot = &mut world.nodes[node].connections.coordination;
        dropped = slot.take_if(|kept| Rc::ptr_eq(&kept.link, link));
    });
    drop(dropped);
}

/// The connection's task.
async fn drive(node: usize, link: Rc<RefCell<Link>>) {
    // However it ends, it is broken.
    let _ = carry(node, &link).await;
    link.borrow_mut().breaks();
    forget(node, &link);
}

async fn carry(node: usize, link: &RefCell<Link>) -> io::Result<()> {
    let meter = Arc::new(Meter {
        node,
        server: 0,
        armed: AtomicBool::new(false),
    });
    let stream = Stream::connect(node, NodeId::Lock(1)).await?;
    let mut stream = stream.metered(Arc::clone(&meter));
    let mut frames = Frames::default();
    link.borrow_mut().connected = true;
    loop {
        let next = || link.borrow_mut().outgoing.pop_front();
        while let Some(Outgoing { frame, takes, .. }) = next() {
            meter.armed.store(takes, Ordering::Relaxed);
            stream.write_all(&frame).await?;
        }
        // Nothing, if there is something to send.
        let read = poll_fn(|context| {
            {
                let mut link = link.borrow_mut();
                if !link.outgoing.is_empty() {
                    return Poll::Ready(Ok(None));
                }
                link.task = Some(context.waker().clone());
            }
            let read = pin!(stream.read_buf(&mut frames.buffer)).poll(context);
            read.map_ok(Some)
        })
        .await?;
        if read == Some(0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((number, body)) = frames.next() {
            // Answers to requests that were given up on are passed over.
            if let Some(waiting) = link.borrow_mut().waiting.get_mut(&number) {
                waiting.reply = Some(serde_json::from_slice(&body)?);
                waiting.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }
}
