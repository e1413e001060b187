//! What a program on a client may touch: its clock, its connections, its draws.

use std::future::Future;
use std::io;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    Arg, AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisFuture,
    RedisResult, Value,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::coordination;
use crate::engine::stock;
use crate::fault::Point;
use crate::history::What;
use crate::master;
use crate::net::{Meter, Stream};
use crate::store::{self, Frames};
use crate::world::{self, Sleep, Tag, World, with};
use crate::{Millis, NodeId};

/// A client process, seen from inside. An id: copy it freely, also into tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    number: u16,
    pub(crate) tag: Tag,
}

/// A time-out passed before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// The store's answer did not come. The request may have been executed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Not within the time-out.
    #[error("the store did not answer in time")]
    TimedOut,
    /// The connection broke.
    #[error("the connection to the store broke")]
    Disconnected,
}

/// What a client process has open, and how far its attempt to acquire has come.
pub(crate) struct Connections {
    redis: Vec<Option<Open>>,
    store: Option<StoreConnection>,
    pub(crate) coordination: Option<coordination::Connection>,
    attempt: Option<Attempt>,
    opened: u64,
    store_opened: u64,
}

#[derive(Clone)]
struct Open {
    serial: u64,
    connection: MultiplexedConnection,
    meter: Arc<Meter>,
}

struct StoreConnection {
    /// Which session of this process it is, counted from one.
    number: u64,
    stream: Stream,
    frames: Frames,
    requests: u32,
    /// A request is being written. If it is given up now, no other may follow it.
    writing: bool,
}

/// Which servers an attempt has not sent its first request to.
struct Attempt {
    section: u32,
    waiting: Vec<bool>,
    any_left: bool,
}

impl Connections {
    pub(crate) fn new(servers: u16) -> Self {
        let redis = (0..servers).map(|_| None).collect();
        Self {
            redis,
            store: None,
            coordination: None,
            attempt: None,
            opened: 0,
            store_opened: 0,
        }
    }

    /// Takes everything that must be dropped when the process dies.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.redis.len() as u16))
    }
}

impl Client {
    pub(crate) fn new(number: u16, tag: Tag) -> Self {
        Self { number, tag }
    }

    /// Its place among the clients, counted from one.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its node.
    pub fn node(&self) -> NodeId {
        NodeId::Client(self.number)
    }

    /// Its monotonic clock.
    pub fn now(&self) -> Millis {
        with(|world| world.monotonic(self.tag.node))
    }

    /// Its wall clock, in milliseconds since 1970.
    pub fn wall(&self) -> Millis {
        with(|world| world.wall(self.tag.node))
    }

    /// Waits on its monotonic clock.
    pub async fn sleep(&self, length: Millis) {
        let mut sleep = pin!(Sleep::new(self.tag.node, length));
        std::future::poll_fn(|context| {
            if stock::stands(self.tag, context) {
                return Poll::Pending;
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }

    /// Waits for `future`, at most for `limit`. What is there in time beats the time-out,
    /// also when both are noticed late: then whatever else is ready runs before the time is over,
    /// such as the task that reads the socket in which the answer has waited.
    pub async fn timeout<T>(
        &self,
        limit: Millis,
        future: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        let deadline = self.now().saturating_add(limit);
        let mut patient = true;
        let mut future = pin!(future);
        let mut limit = pin!(Sleep::new(self.tag.node, limit));
        std::future::poll_fn(|context| {
            if stock::stands(self.tag, context) {
                return Poll::Pending;
            }
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if limit.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if self.now() > deadline && std::mem::take(&mut patient) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Err(Elapsed))
        })
        .await
    }

    /// Starts a task in this process. It ends with the process at the latest.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Spawned {
        Spawned {
            tag: self.tag,
            number: world::spawn(self.tag.node, future),
        }
    }

    /// A whole number of milliseconds, drawn from this client's lane.
    pub fn draw(&self, range: &RangeInclusive<Millis>) -> Millis {
        with(|world| world.nodes[self.tag.node].lane.within(range))
    }

    /// A fresh random owner token: who drew it, and 64 random bits.
    pub fn token(&self) -> String {
        let bits = with(|world| world.nodes[self.tag.node].lane.bits());
        format!("{}:{bits:016x}", self.node())
    }

    /// How many Redis servers there are for it: a master and its replicas count as one.
    pub fn servers(&self) -> usize {
        with(|world| usize::from(world.setup.deployment.seen(world.setup.servers)))
    }

    /// How long a request to a Redis server is waited for.
    pub fn redis_timeout(&self) -> Millis {
        with(|world| world.setup.redis_timeout)
    }

    /// The connection to a Redis server, counted from zero: `lock-1` is server 0. Opened when
    /// it is first needed, kept after a time-out, and opened again when it was dropped. Every
    /// request is given the setup's `redis_timeout`.
    ///
    /// Where a master has replicas, server 0 is whoever is the master when the connection is
    /// opened. It is also opened anew after a time-out, and when a write was refused by a replica.
    pub fn redis(&self, server: usize) -> RedisHandle {
        RedisHandle {
            client: *self,
            server,
        }
    }

    /// Reaches a point of a section: faults placed there strike before anything else runs.
    pub async fn point(&self, point: Point, section: u32) {
        std::future::poll_fn(|context| {
            if stock::stands(self.tag, context) {
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        with(|world| world.reach(self.tag.node, point, section));
        stock::strike_here();
        world::yield_now().await;
    }

    /// Writes an event into the history.
    pub fn record(&self, what: What) {
        with(|world| {
            // A task that tokio runs may outlive its process.
            let current = &world.nodes[self.tag.node];
            if current.alive && current.incarnation == self.tag.incarnation {
                world.record(self.tag.node, what);
            }
        });
    }

    /// Begins an attempt to acquire: [`Point::AcquireSent`] is reached once the first request
    /// to every Redis server has been written to its socket, or cannot be any more. To a coordination
    /// server that is the first request that puts something; where there is no server, the first to
    /// the store that is not a BEGIN.
    pub fn begin_attempt(&self, section: u32) {
        with(|world| {
            let servers = world.setup.deployment.seen(world.setup.servers);
            let waiting = vec![true; usize::from(servers).max(1)];
            let attempt = Attempt {
                section,
                waiting,
                any_left: false,
            };
            world.nodes[self.tag.node].connections.attempt = Some(attempt);
        });
    }

    /// Ends the attempt, however it went.
    pub fn end_attempt(&self) {
        with(|world| world.nodes[self.tag.node].connections.attempt = None);
    }

    /// One request to the store, which is given the setup's `store_timeout`.
    pub async fn store(&self, request: &store::Request) -> Result<store::Reply, StoreError> {
        self.ask_store(None, request).await
    }

    /// One request inside a session that [`store_session`](Self::store_session) has named. If that
    /// is over, nothing is sent.
    pub async fn store_in(
        &self,
        session: u64,
        request: &store::Request,
    ) -> Result<store::Reply, StoreError> {
        self.ask_store(Some(session), request).await
    }

    /// The session that the last request to the store was sent in, if its connection is kept.
    pub fn store_session(&self) -> Option<u64> {
        with(|world| {
            let connections = &world.nodes[self.tag.node].connections;
            connections.store.as_ref().map(|store| store.number)
        })
    }

    async fn ask_store(
        &self,
        session: Option<u64>,
        request: &store::Request,
    ) -> Result<store::Reply, StoreError> {
        let limit = with(|world| world.setup.store_timeout);
        let answer = self.timeout(limit, async {
            let mut lent = Lent {
                client: *self,
                connection: None,
            };
            let connection = lent.open(session).await?;
            connection.requests += 1;
            let number = connection.requests;
            connection.writing = true;
            connection
                .stream
                .write_all(&store::encode(number, request))
                .await?;
            connection.writing = false;
            with(|world| {
                // BEGIN takes nothing yet.
                let takes = request.operation != store::Operation::Begin;
                if world.setup.servers == 0 && takes {
                    world.request_left(self.tag.node, 0);
                }
            });
            loop {
                // Answers to requests that were given up on are passed over.
                while let Some((answered, body)) = connection.frames.next() {
                    if answered == number {
                        return serde_json::from_slice(&body).map_err(io::Error::from);
                    }
                }
                if connection
                    .stream
                    .read_buf(&mut connection.frames.buffer)
                    .await?
                    == 0
                {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        });
        match answer.await {
            Err(Elapsed) => Err(StoreError::TimedOut),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => {
                let broken = with(|world| {
                    let store = &mut world.nodes[self.tag.node].connections.store;
                    store.take_if(|kept| session.is_none_or(|session| kept.number == session))
                });
                drop(broken);
                Err(StoreError::Disconnected)
            }
        }
    }
}

/// A store connection that returns to its client when the request is over or given up, unless
/// only a part of the request has been written.
struct Lent {
    client: Client,
    connection: Option<StoreConnection>,
}

impl Lent {
    async fn open(&mut self, session: Option<u64>) -> io::Result<&mut StoreConnection> {
        let node = self.client.tag.node;
        self.connection = with(|world| world.nodes[node].connections.store.take());
        if let Some(kept) = &mut self.connection
            && kept.has_ended().await
        {
            self.connection = None;
        }
        let number = self.connection.as_ref().map(|kept| kept.number);
        if session.is_some() && session != number {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if self.connection.is_none() {
            let stream = Stream::connect(node, NodeId::Store).await?;
            let frames = Frames::default();
            let number = with(|world| {
                let opened = &mut world.nodes[node].connections.store_opened;
                *opened += 1;
                *opened
            });
            self.connection = Some(StoreConnection {
                number,
                stream,
                frames,
                requests: 0,
                writing: false,
            });
        }
        Ok(self.connection.as_mut().expect("opened above"))
    }
}

impl StoreConnection {
    /// Whether its end has come while nobody used it. Late answers are taken in on the way.
    async fn has_ended(&mut self) -> bool {
        loop {
            let mut read = pin!(self.stream.read_buf(&mut self.frames.buffer));
            match std::future::poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
                Poll::Pending => return false,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return true,
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take().filter(|c| !c.writing) else {
            return;
        };
        let replaced = with(|world| {
            world.nodes[self.client.tag.node]
                .connections
                .store
                .replace(connection)
        });
        drop(replaced);
    }
}

/// A running task. Dropping this cancels it.
#[derive(Debug)]
pub struct Spawned {
    tag: Tag,
    number: u64,
}

impl Drop for Spawned {
    fn drop(&mut self) {
        world::cancel(self.tag, self.number);
    }
}

/// A client's connection to one Redis server, for the commands of the `redis` crate.
///
/// Of its errors, `is_timeout` and `is_connection_dropped` tell what happened; in both cases
/// the command may have been executed.
#[derive(Debug, Clone, Copy)]
pub struct RedisHandle {
    client: Client,
    server: usize,
}

impl RedisHandle {
    /// One request. Unless it `asks` only, it may be the first of an attempt to acquire.
    async fn request<T, F>(
        self,
        asks: bool,
        send: impl FnOnce(MultiplexedConnection) -> F,
        refuses: impl FnOnce(&T) -> bool,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let limit = self.client.redis_timeout();
        let _leaving = (!asks).then(|| Leaving(self));
        let answer = self.client.timeout(limit, async {
            let open = self.open().await?;
            open.meter.armed.store(!asks, Ordering::Relaxed);
            send(open.connection).await
        });
        let answer = answer.await;
        let gives_up = match &answer {
            Err(Elapsed) => with(|world| world.setup.deployment.is_replicated()),
            Ok(Ok(answer)) => refuses(answer),
            Ok(Err(error)) => master::is_refused(error),
        };
        if gives_up {
            self.forget();
        }
        answer.unwrap_or_else(|Elapsed| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    }

    /// The connection is no longer the one that is used.
    fn forget(self) {
        let dropped = with(|world| {
            let connections = &mut world.nodes[self.client.tag.node].connections;
            connections.redis[self.server].take()
        });
        drop(dropped);
    }

    async fn open(self) -> RedisResult<Open> {
        let Self {
            client: Client { tag, .. },
            server,
        } = self;
        if let Some(open) = with(|world| world.nodes[tag.node].connections.redis[server].clone()) {
            return Ok(open);
        }
        let peer = self.client.find(server).await?;
        let stream = Stream::connect(tag.node, peer).await?;
        let meter = Arc::new(Meter {
            node: tag.node,
            server,
            armed: AtomicBool::new(false),
        });
        let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        // The crate's own time-out would wait on tokio's clock.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let stream = stream.metered(Arc::clone(&meter));
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&info, stream, config).await?;
        let open = with(|world| {
            let connections = &mut world.nodes[tag.node].connections;
            connections.opened += 1;
            let open = Open {
                serial: connections.opened,
                connection,
                meter,
            };
            connections.redis[server] = Some(open.clone());
            open
        });
        let serial = open.serial;
        world::spawn(tag.node, async move {
            driver.await;
            let dropped = with(|world| {
                let slot = &mut world.nodes[tag.node].connections.redis[server];
                slot.take_if(|open| open.serial == serial)
            });
            drop(dropped);
        });
        let checked = self.client.check_role(&open.connection).await;
        if checked.is_err() {
            self.forget();
        }
        checked.map(|()| open)
    }
}

impl ConnectionLike for RedisHandle {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        // INFO takes nothing yet.
        let asks = command.args_iter().next() == Some(Arg::Simple(b"INFO"));
        Box::pin(self.request(
            asks,
            move |mut connection| async move { connection.send_packed_command(command).await },
            master::is_refusal,
        ))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.request(
            false,
            move |mut connection| async move {
                connection
                    .send_packed_commands(pipeline, offset, count)
                    .await
            },
            |answers: &Vec<Value>| answers.iter().any(master::is_refusal),
        ))
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// A request on its way: if it is given up before it was written, its attempt no longer waits
/// for it.
struct Leaving(RedisHandle);

impl Drop for Leaving {
    fn drop(&mut self) {
        let RedisHandle { client, server } = self.0;
        with(|world| world.request_over(client.tag.node, server));
    }
}

impl World {
    /// A request has been written to its socket.
    pub(crate) fn request_left(&mut self, node: usize, server: usize) {
        if let Some(attempt) = &mut self.nodes[node].connections.attempt {
            attempt.any_left |= attempt.waiting[server];
        }
        self.request_over(node, server);
    }

    /// A request has been written, or never will be.
    fn request_over(&mut self, node: usize, server: usize) {
        let Some(attempt) = &mut self.nodes[node].connections.attempt else {
            return;
        };
        let waited = std::mem::replace(&mut attempt.waiting[server], false);
        if waited && attempt.any_left && !attempt.waiting.contains(&true) {
            let section = attempt.section;
            self.reach(node, Point::AcquireSent, section);
        }
    }
}
