//! `fencepost serve`: the simulated Redis for any client, in real time.
//!
//! The same server as in simulations, on a socket of this machine: what a lock library gets
//! answered here is what locks get answered there. One thread does everything, as in Redis.
//!
//! Deliberately absent: passwords, TLS, files, and a limit on the memory of all keys together. It is
//! a testbed, and listens to this machine alone unless told otherwise.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::{Buf, Bytes};
use sim::redis::{Connection, Machine, Process, Protocol, Reply, Session, encode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout_at};

use crate::arguments::Serve;
use crate::{Outcome, output};

/// The longest request, and the most that a client may send while it waits for an answer.
const REQUEST: usize = 64 << 20;
/// The most that is kept for a client that listens to channels and does not read: Redis's
/// `client-output-buffer-limit pubsub`.
const UNREAD: usize = 32 << 20;
/// With that much to send, nothing more is executed for a client until it has read.
const ENOUGH: usize = 1 << 20;
/// How much is read at once.
const PIECE: usize = 16 << 10;
/// How long a word may be to be copied out of what it was read with, which would be kept as long as
/// the word is.
const SHORT: usize = PIECE / 4;
/// How often the background looks at the wall clock at the latest: somebody may have set it.
const LOOK: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C.
pub(crate) fn serve(arguments: &Serve) -> Result<Outcome> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("failed to start")?;
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    ctrlc::set_handler(move || stop.notify_one()).context("failed to listen for Ctrl-C")?;
    LocalSet::new().block_on(&runtime, async {
        let address = SocketAddr::new(arguments.bind, arguments.port);
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("failed to listen on {address} (`--port 0` takes a port that is free)")
        })?;
        let address = listener.local_addr()?;
        let server = Rc::new(Server {
            process: Process::start(Rc::new(RefCell::new(Machine::new()))),
            earlier: Notify::new(),
            clients: arguments.max_clients.into(),
        });
        spawn_local(background(Rc::clone(&server)));
        spawn_local(accept(server, listener));
        output::print(&format!("redis://{address}\n"))?;
        output::remark("a simulated Redis 7.0, empty and in memory; Ctrl-C ends it");
        stopped.notified().await;
        Ok(Outcome::Done)
    })
}

/// One server on this machine.
struct Server {
    process: Rc<Process>,
    /// The background has something to do earlier than it knows.
    earlier: Notify,
    clients: usize,
}

/// The machine's wall clock in ms.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a server for real clients keeps real time; no simulation comes by here"
)]
fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    // A clock before 1970 is wrong, and as good as 1970.
    since.map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Expired keys, time-outs and the ends of pauses.
async fn background(server: Rc<Server>) {
    let start = Instant::now();
    loop {
        let agenda = server.process.agenda(millis(start.elapsed()), wall());
        let earlier = server.earlier.notified();
        match agenda.next() {
            None => earlier.await,
            Some(at) => {
                let wait = Duration::from_millis(at).saturating_sub(start.elapsed());
                let _ = timeout_at(Instant::now() + wait.min(LOOK), earlier).await;
            }
        }
        let now = millis(start.elapsed());
        server.process.background(agenda, now, wall());
    }
}

async fn accept(server: Rc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                spawn_local(answer(Rc::clone(&server), stream));
            }
            Err(error) => {
                output::remark(&format!("failed to accept a connection: {error}"));
                // Mostly there are no more file descriptors; some client may give one back.
                let _ = timeout_at(Instant::now() + LOOK, std::future::pending::<()>()).await;
            }
        }
    }
}

async fn answer(server: Rc<Server>, mut stream: TcpStream) {
    if server.process.connected() >= server.clients {
        let _ = stream
            .write_all(b"-ERR max number of clients reached\r\n")
            .await;
        return;
    }
    // Answers are written in one piece; without it they would only come later.
    let _ = stream.set_nodelay(true);
    let session = Session::open(Rc::clone(&server.process), 0);
    let mut wire = Wire {
        stream,
        session,
        open: true,
    };
    while wire.open {
        wire.work(&server);
        if poll_fn(|context| wire.poll(context)).await.is_none() {
            return;
        }
    }
}

/// A connection on its socket.
struct Wire {
    stream: TcpStream,
    session: Session,
    /// There will be more than what is still to be sent.
    open: bool,
}

impl Wire {
    fn work(&mut self, server: &Server) {
        let execute = |process: &Process, request: &[Bytes], connection: &mut Connection| {
            let request: Vec<_> = request.iter().map(own).collect();
            let executed = process.execute(&request, connection, wall());
            if executed.sooner {
                server.earlier.notify_one();
            }
            executed.reply
        };
        self.open = self.session.work(wall(), ENOUGH, execute);
        if self.open && self.session.waiting() > REQUEST {
            let text = format!("ERR Protocol error: more than {REQUEST} bytes in one request");
            let output = &mut self.session.output;
            encode(&Reply::Error(text.into()), Protocol::Resp2, output);
            self.open = false;
        }
    }

    /// Sends and receives. Ready when there may be something to execute or all is sent; with nothing
    /// if the other end is gone.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
        let full = self.session.output.len() >= ENOUGH;
        let told = match self.session.poll_messages(wall(), context) {
            Poll::Ready(goes_on) if self.open => {
                self.open = goes_on;
                true
            }
            _ => false,
        };
        if self.session.listens() && self.session.output.len() > UNREAD {
            return Poll::Ready(None);
        }
        while !self.session.output.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, &self.session.output) {
                Poll::Ready(Ok(sent @ 1..)) => self.session.output.advance(sent),
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        let sent = self.session.output.is_empty();
        if told || (sent && (full || !self.open)) {
            return Poll::Ready(Some(()));
        }
        // What nobody reads the answers to is not read either.
        if !self.open || full {
            return Poll::Pending;
        }
        let mut piece = [0; PIECE];
        let mut piece = ReadBuf::new(&mut piece);
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut piece));
        self.session.feed(piece.filled());
        let more = read.is_ok() && !piece.filled().is_empty();
        Poll::Ready(more.then_some(()))
    }
}

/// A word that keeps nothing in memory but itself.
fn own(word: &Bytes) -> Bytes {
    if word.len() > SHORT {
        word.clone()
    } else {
        Bytes::copy_from_slice(word)
    }
}
