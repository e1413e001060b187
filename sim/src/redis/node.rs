//! A Redis server as a node: it takes connections, executes one command at a time, records
//! what changed, delivers messages, and expires keys in the background.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::commands::name_of;
use super::{Cause, Change, Connection, Decoder, Entry, Machine, Reply, encode};
use crate::history::{Stored, What};
use crate::net::{Listener, READ_AT_MOST, Stream};
use crate::world::{self, Sleep, with};
use crate::{Millis, NodeId};

/// How often the background expiry runs: `hz 10`.
const CYCLE: Millis = 100;

/// A lock that uses a command which a real server has and this one has not would look like a
/// lock that never gets an answer, and one that changes a setting which here stays as it is would
/// run under another. Such a run fails instead of being judged.
fn refuse_to_judge(request: &[Bytes], reply: &Reply) {
    if let Reply::Error(text) = reply {
        let text = String::from_utf8_lossy(text);
        let unknown = [
            "unknown command",
            "unknown subcommand",
            "Unknown Redis command",
            "can't set immutable config",
        ];
        if unknown.iter().any(|unknown| text.contains(unknown)) {
            let sent = String::from_utf8_lossy(&request[0]).into_owned();
            panic!("the simulated Redis cannot play this {sent}: {text}");
        }
    }
}

/// One server's process.
struct Server {
    node: usize,
    machine: Rc<RefCell<Machine>>,
    connections: Cell<u64>,
    /// The deadline that the background expiry waits for.
    awaited: Cell<Option<u64>>,
    mailboxes: RefCell<BTreeMap<u64, Mailbox>>,
}

/// What has been sent to a connection other than in answer to its last request.
struct Mailbox {
    peer: usize,
    messages: Vec<Reply>,
    waker: Option<Waker>,
}

/// Runs a server.
pub(crate) async fn serve(node: usize, id: NodeId, machine: Rc<RefCell<Machine>>) {
    machine.borrow_mut().restart();
    let server = Rc::new(Server {
        node,
        machine,
        connections: Cell::new(0),
        awaited: Cell::default(),
        mailboxes: RefCell::default(),
    });
    world::spawn(node, expire(Rc::clone(&server)));
    let listener = Listener::bind(id)
        .await
        .expect("a fresh host has every port free");
    while let Ok((stream, peer)) = listener.accept().await {
        world::spawn(node, answer(Rc::clone(&server), stream, peer));
    }
}

async fn answer(server: Rc<Server>, mut stream: Stream, peer: usize) {
    let mut session = Session::open(server, peer);
    loop {
        let goes_on = session.work();
        if stream.write_all(&session.output).await.is_err() || !goes_on {
            return;
        }
        session.output.clear();
        if !poll_fn(|context| session.poll_next(&mut stream, context)).await {
            return;
        }
    }
}

/// One connection.
struct Session {
    server: Rc<Server>,
    peer: usize,
    connection: Connection,
    decoder: Decoder,
    input: BytesMut,
    output: BytesMut,
    /// A request that waits for the end of a pause of all clients.
    held: Option<Vec<Bytes>>,
}

impl Session {
    fn open(server: Rc<Server>, peer: usize) -> Self {
        let id = server.connections.get() + 1;
        server.connections.set(id);
        let mailbox = Mailbox {
            peer,
            messages: Vec::new(),
            waker: None,
        };
        server.mailboxes.borrow_mut().insert(id, mailbox);
        Self {
            server,
            peer,
            connection: Connection::new(id),
            decoder: Decoder::default(),
            // Without room, a read takes no more than 64 bytes.
            input: BytesMut::with_capacity(READ_AT_MOST),
            output: BytesMut::new(),
            held: None,
        }
    }

    /// Executes what has come, until there is no more or the connection has to wait. Says whether
    /// the connection stays open.
    fn work(&mut self) -> bool {
        loop {
            if self.server.machine.borrow().is_blocked(self.connection.id) {
                return true;
            }
            let (reply, closes) = match self
                .held
                .take()
                .map_or_else(|| self.decoder.next_request(), |request| Ok(Some(request)))
            {
                Ok(None) => return true,
                Ok(Some(request)) => {
                    if self.held_until(&request).is_some() {
                        self.held = Some(request);
                        return true;
                    }
                    let server = &self.server;
                    let reply = server.execute(&request, &mut self.connection, self.peer);
                    let closes = reply == Reply::Close;
                    (reply, closes)
                }
                Err(error) => (error.reply(), true),
            };
            encode(&reply, self.connection.protocol, &mut self.output);
            if closes {
                return false;
            }
        }
    }

    fn held_until(&self, request: &[Bytes]) -> Option<u64> {
        let wall = with(|world| world.wall(self.server.node));
        let machine = self.server.machine.borrow();
        machine.held_until(request, &self.connection, wall)
    }

    /// Ready when there is something to do: bytes, a message, the end of a pause. False when the
    /// other end has closed.
    fn poll_next(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<bool> {
        if let Some(mailbox) = self
            .server
            .mailboxes
            .borrow_mut()
            .get_mut(&self.connection.id)
        {
            if !mailbox.messages.is_empty() {
                for message in mailbox.messages.drain(..) {
                    encode(&message, self.connection.protocol, &mut self.output);
                }
                return Poll::Ready(true);
            }
            mailbox.waker = Some(context.waker().clone());
        }
        let held = self.held.as_ref();
        if held.is_some_and(|request| self.held_until(request).is_none()) {
            return Poll::Ready(true);
        }
        let read = pin!(stream.read_buf(&mut self.input)).poll(context);
        read.map(|read| {
            self.decoder.feed(&self.input);
            self.input.clear();
            matches!(read, Ok(1..))
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server
            .mailboxes
            .borrow_mut()
            .remove(&self.connection.id);
        if let Ok(mut machine) = self.server.machine.try_borrow_mut() {
            machine.disconnect(&mut self.connection);
        }
    }
}

impl Server {
    fn execute(&self, request: &[Bytes], connection: &mut Connection, peer: usize) -> Reply {
        let wall = with(|world| world.wall(self.node));
        let mut machine = self.machine.borrow_mut();
        let pause = machine.pause_ends(wall);
        let reply = machine.execute(request, connection, wall);
        let command = request
            .first()
            .and_then(|word| name_of(word))
            .unwrap_or("unknown");
        with(|world| {
            let by = world.nodes[peer].id;
            world.record(self.node, What::Executed { by, command });
        });
        refuse_to_judge(request, &reply);
        self.record(machine.take_changes(), Some(peer));
        self.deliver(machine.take_messages());
        let next = machine.next_deadline();
        let sooner =
            next.is_some_and(|next| self.awaited.get().is_none_or(|awaited| next < awaited));
        let paused = machine.pause_ends(wall);
        if sooner || paused != pause || reply == Reply::Blocked {
            world::wake_expiry(self.node);
        }
        if pause.is_some() && paused.is_none() {
            self.wake_all();
        }
        reply
    }

    /// Lets everybody who is held up look whether the pause is over.
    fn wake_all(&self) {
        for mailbox in self.mailboxes.borrow_mut().values_mut() {
            mailbox.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn deliver(&self, messages: Vec<(u64, Reply)>) {
        let mut mailboxes = self.mailboxes.borrow_mut();
        for (to, message) in messages {
            if let Some(mailbox) = mailboxes.get_mut(&to) {
                mailbox.messages.push(message);
                mailbox.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    /// When the background has something to do next, by the monotonic clock and as the wall clock
    /// goes now: the cycle that deletes the next key; and the moment at which somebody has waited
    /// long enough, or a pause of the clients is over.
    fn next_work(&self) -> (Option<Millis>, Option<Millis>) {
        let machine = self.machine.borrow();
        let deadline = machine.next_deadline();
        self.awaited.set(deadline);
        let (now, wall) = with(|world| (world.monotonic(self.node), world.wall(self.node)));
        let cycle = deadline.map(|deadline| {
            let due = now + deadline.saturating_sub(wall);
            (due / CYCLE + 1) * CYCLE
        });
        let timeout = machine.next_timeout().map(|until| until.saturating_add(1));
        let over = timeout.into_iter().chain(machine.pause_ends(wall)).min();
        let over = over.map(|at| now.saturating_add(at.saturating_sub(wall)));
        (cycle, over)
    }

    fn record(&self, changes: Vec<Change>, peer: Option<usize>) {
        record(self.node, changes, |cause| match cause {
            Cause::Command => peer,
            Cause::Served { connection } => {
                let mailboxes = self.mailboxes.borrow();
                mailboxes.get(&connection).map(|mailbox| mailbox.peer)
            }
            Cause::Expiry | Cause::Eviction => None,
        });
    }
}

/// Writes into the history what changed in a server's memory, and by which node.
fn record(node: usize, changes: Vec<Change>, by: impl Fn(Cause) -> Option<usize>) {
    // Locks live in database 0, which every connection starts with.
    for Change {
        key,
        before,
        after,
        cause,
        ..
    } in changes.into_iter().filter(|c| c.db == 0)
    {
        let by = by(cause);
        with(|world| {
            let by = by.map(|peer| world.nodes[peer].id);
            let key = String::from_utf8_lossy(&key).into_owned();
            let (before, after) = (before.map(stored), after.map(stored));
            world.record(
                node,
                What::Changed {
                    by,
                    key,
                    before,
                    after,
                },
            );
        });
    }
}

/// Takes every key of a server away: an operator's FLUSHALL is a command that no client sent, an
/// eviction is none.
pub(crate) fn empty(node: usize, cause: Cause) {
    let machine = with(|world| {
        let what = match cause {
            Cause::Eviction => What::Evicted,
            Cause::Command | Cause::Served { .. } | Cause::Expiry => What::Flushed,
        };
        world.record(node, what);
        world.nodes[node].machine.clone()
    });
    let mut machine = machine.borrow_mut();
    machine.empty(cause);
    record(node, machine.take_changes(), |_| None);
    drop(machine);
    // The process tells those who listen.
    world::wake_expiry(node);
}

fn stored(entry: Entry) -> Stored {
    Stored {
        value: entry.value.to_text(),
        deadline: entry.deadline,
    }
}

/// Deletes expired keys at every tenth of a second of the server's process, answers those who have
/// waited long enough, and lets those go on who were held up. Of a key, nobody can see the
/// difference to one that is only hidden, save by counting keys, by listening, or by setting the
/// wall clock back.
async fn expire(server: Rc<Server>) {
    loop {
        let (cycle, over) = server.next_work();
        let planned = cycle.into_iter().chain(over).min();
        let now = with(|world| world.monotonic(server.node));
        let mut sleep = planned.map(|at| Sleep::new(server.node, at.saturating_sub(now)));
        let slept = poll_fn(|context| {
            if let Some(sleep) = &mut sleep
                && Pin::new(sleep).poll(context).is_ready()
            {
                return Poll::Ready(true);
            }
            with(|world| world.nodes[server.node].expiry = Some(context.waker().clone()));
            let messages = server.machine.borrow_mut().take_messages();
            server.deliver(messages);
            // A new key, or a clock that was set forward, brings it closer.
            let (cycle, over) = server.next_work();
            match cycle.into_iter().chain(over).min() {
                Some(at) if planned.is_none_or(|planned| at < planned) => Poll::Ready(false),
                _ => Poll::Pending,
            }
        })
        .await;
        if !slept {
            continue;
        }
        let (now, wall) = with(|world| (world.monotonic(server.node), world.wall(server.node)));
        let mut machine = server.machine.borrow_mut();
        if cycle.is_some_and(|at| at <= now) {
            machine.expire_due(wall);
        }
        machine.time_out(wall);
        if machine.end_pause(wall) {
            server.wake_all();
        }
        server.record(machine.take_changes(), None);
        server.deliver(machine.take_messages());
    }
}
