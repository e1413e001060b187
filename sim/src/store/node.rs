//! The store as a node: it takes connections, and executes for each one request after the other.
//!
//! A connection is a session. Its end is noticed when the session reads: not while a statement waits
//! for a lock, as in PostgreSQL without `client_connection_check_interval`, so that a statement whose
//! sender is gone is executed all the same when its turn comes. A client that says nothing may be
//! dropped, see [`Settings`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::pool::Pool;
use super::{Database, Frames, Reply, Request, SessionId, Settings, encode};
use crate::NodeId;
use crate::history::{Dropped, What};
use crate::net::{Listener, Stream};
use crate::world::{self, Sleep, with};

/// The store's process.
struct Server {
    node: usize,
    settings: Settings,
    database: Rc<RefCell<Database>>,
    pool: RefCell<Pool>,
    /// Replies of statements, by session.
    replies: RefCell<BTreeMap<SessionId, Reply>>,
    /// Connections whose statements wait.
    wakers: RefCell<BTreeMap<SessionId, Waker>>,
}

/// Runs the store.
pub(crate) async fn serve(node: usize, database: Rc<RefCell<Database>>) {
    let settings = with(|world| world.setup.store.clone());
    database.borrow_mut().restart();
    let server = Rc::new(Server {
        node,
        pool: RefCell::new(Pool::new(settings.pool)),
        settings,
        database,
        replies: RefCell::default(),
        wakers: RefCell::default(),
    });
    server.deliver();
    let listener = Listener::bind(NodeId::Store)
        .await
        .expect("a fresh host has every port free");
    while let Ok((stream, peer)) = listener.accept().await {
        world::spawn(
            node,
            answer(Connection::new(Rc::clone(&server), peer), stream),
        );
    }
}

async fn answer(mut connection: Connection, mut stream: Stream) {
    loop {
        connection.work();
        if stream.write_all(&connection.output).await.is_err() {
            break;
        }
        connection.output.clear();
        if !poll_fn(|context| connection.poll_next(&mut stream, context)).await {
            break;
        }
    }
    connection.close();
}

impl Server {
    /// Writes down what has happened, and hands out replies.
    fn deliver(&self) {
        let mut database = self.database.borrow_mut();
        for (of, what) in database.take_told() {
            with(|world| {
                let node = world.index(of);
                world.record(node, what);
            });
        }
        for done in database.take_done() {
            self.replies.borrow_mut().insert(done.session, done.reply);
            if let Some(waker) = self.wakers.borrow_mut().remove(&done.session) {
                waker.wake();
            }
        }
    }

    fn end(&self, session: SessionId) {
        self.database.borrow_mut().end(session);
        self.replies.borrow_mut().remove(&session);
        self.deliver();
    }
}

/// One connection.
struct Connection {
    server: Rc<Server>,
    peer: usize,
    /// Which process of the peer it is.
    incarnation: u32,
    own: Option<SessionId>,
    /// A session of the pooler, while a transaction lasts.
    lent: Option<SessionId>,
    frames: Frames,
    output: BytesMut,
    /// A request that has come and is not answered yet.
    current: Option<(u32, Request)>,
    /// The session that executes it.
    waits: Option<SessionId>,
    idle: Option<Sleep>,
    keepalive: Option<Sleep>,
}

impl Connection {
    fn new(server: Rc<Server>, peer: usize) -> Self {
        let mut new = Self {
            peer,
            incarnation: with(|world| world.nodes[peer].incarnation),
            own: None,
            lent: None,
            frames: Frames::default(),
            output: BytesMut::new(),
            current: None,
            waits: None,
            idle: None,
            keepalive: None,
            server,
        };
        new.heard();
        new
    }

    /// The peer has said something.
    fn heard(&mut self) {
        let Server { node, settings, .. } = &*self.server;
        self.idle = settings.idle_timeout.map(|after| Sleep::new(*node, after));
        let ends = with(|world| world.setup.ends);
        self.keepalive = (settings.keepalive < ends).then(|| Sleep::new(*node, settings.keepalive));
    }

    /// Executes what has come, until there is no more or a statement waits.
    fn work(&mut self) {
        loop {
            if let Some(session) = self.waits {
                let Some(reply) = self.server.replies.borrow_mut().remove(&session) else {
                    return;
                };
                self.answered(session, &reply);
            }
            if self.current.is_none() {
                let Some((number, body)) = self.frames.next() else {
                    return;
                };
                let request = serde_json::from_slice(&body).expect("our clients speak well");
                self.current = Some((number, request));
            }
            let Some(session) = self.session() else {
                return;
            };
            let (_, request) = self.current.as_ref().expect("set above");
            let (by, wall) = with(|world| {
                let wall = world.wall(self.server.node);
                (world.nodes[self.peer].id, wall)
            });
            let mut database = self.server.database.borrow_mut();
            database.execute(session, by, request, wall);
            drop(database);
            self.waits = Some(session);
            self.server.deliver();
        }
    }

    /// The session for the current request: none when the pooler has none to lend.
    fn session(&mut self) -> Option<SessionId> {
        let (_, request) = self.current.as_ref()?;
        let mut database = self.server.database.borrow_mut();
        if !request.pooled {
            return Some(*self.own.get_or_insert_with(|| database.connect()));
        }
        if self.lent.is_none() {
            self.lent = self.server.pool.borrow_mut().lend(&mut database);
        }
        self.lent
    }

    fn answered(&mut self, session: SessionId, reply: &Reply) {
        let (number, _) = self.current.take().expect("it was executed");
        self.waits = None;
        self.output.extend_from_slice(&encode(number, reply));
        let in_transaction = self.server.database.borrow().in_transaction(session);
        if self.lent == Some(session) && !in_transaction {
            self.lent = None;
            self.server.pool.borrow_mut().give_back(session);
        }
        self.heard();
    }

    /// Ready when there is something to do. False when the connection is over.
    fn poll_next(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<bool> {
        if let Some(session) = self.waits {
            if self.server.replies.borrow().contains_key(&session) {
                return Poll::Ready(true);
            }
            let waker = context.waker().clone();
            self.server.wakers.borrow_mut().insert(session, waker);
            return Poll::Pending;
        }
        if self.current.is_some() {
            // All of the pooler's sessions are lent.
            if self.session().is_some() {
                return Poll::Ready(true);
            }
            self.server.pool.borrow_mut().wait(context.waker());
            return Poll::Pending;
        }
        match pin!(stream.read_buf(&mut self.frames.buffer)).poll(context) {
            Poll::Ready(Ok(1..)) => {
                self.heard();
                return Poll::Ready(true);
            }
            Poll::Ready(_) => return Poll::Ready(false),
            Poll::Pending => {}
        }
        if self
            .idle
            .as_mut()
            .is_some_and(|idle| Pin::new(idle).poll(context).is_ready())
        {
            self.tell_dropped(Dropped::Idle);
            return Poll::Ready(false);
        }
        while self
            .keepalive
            .as_mut()
            .is_some_and(|silent| Pin::new(silent).poll(context).is_ready())
        {
            if !self.peer_is_there() {
                self.tell_dropped(Dropped::Unreachable);
                return Poll::Ready(false);
            }
            let Server { node, settings, .. } = &*self.server;
            self.keepalive = Some(Sleep::new(*node, settings.keepalive));
        }
        Poll::Pending
    }

    /// A connection that never had a session, or whose session the pooler keeps, loses none.
    fn tell_dropped(&self, why: Dropped) {
        if self.own.is_some() || self.lent.is_some() {
            with(|world| {
                let of = world.nodes[self.peer].id;
                world.record(self.server.node, What::SessionDropped { of, why });
            });
        }
    }

    /// Whether the kernel at the other end answers a probe.
    fn peer_is_there(&self) -> bool {
        with(|world| {
            let same = world.nodes[self.peer].incarnation == self.incarnation;
            same && world.is_reachable(self.server.node, self.peer)
        })
    }

    fn close(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.server.pool.borrow_mut().lost_one();
            self.server.end(lent);
        }
        if let Some(own) = self.own.take() {
            self.server.end(own);
        }
    }
}
