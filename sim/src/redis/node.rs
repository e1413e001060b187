//! A Redis server as a node: it takes connections, executes one command at a time, records
//! what changed, and expires keys in the background.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

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
/// lock that never gets an answer. Such a run fails instead of being judged.
fn refuse_to_judge(request: &[Bytes], reply: &Reply) {
    if let Reply::Error(text) = reply {
        let text = String::from_utf8_lossy(text);
        if text.contains("unknown command") || text.contains("Unknown Redis command") {
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
}

/// Runs a server.
pub(crate) async fn serve(node: usize, id: NodeId, machine: Rc<RefCell<Machine>>) {
    let server = Rc::new(Server {
        node,
        machine,
        connections: Cell::new(0),
        awaited: Cell::default(),
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
    server.connections.set(server.connections.get() + 1);
    let mut connection = Connection::new(server.connections.get());
    let mut decoder = Decoder::default();
    // Without room, a read takes no more than 64 bytes.
    let mut input = BytesMut::with_capacity(READ_AT_MOST);
    let mut output = BytesMut::new();
    while matches!(stream.read_buf(&mut input).await, Ok(1..)) {
        decoder.feed(&input);
        input.clear();
        let goes_on = loop {
            let (reply, closes) = match decoder.next_request() {
                Ok(None) => break true,
                Ok(Some(request)) => {
                    let reply = server.execute(&request, &mut connection, peer);
                    let closes = reply == Reply::Close;
                    (reply, closes)
                }
                Err(error) => (error.reply(), true),
            };
            encode(&reply, connection.protocol, &mut output);
            if closes {
                break false;
            }
        };
        if stream.write_all(&output).await.is_err() || !goes_on {
            return;
        }
        output.clear();
    }
}

impl Server {
    fn execute(&self, request: &[Bytes], connection: &mut Connection, peer: usize) -> Reply {
        let wall = with(|world| world.wall(self.node));
        let mut machine = self.machine.borrow_mut();
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
        record(self.node, machine.take_changes(), Some(peer));
        let next = machine.next_deadline();
        if next.is_some_and(|next| self.awaited.get().is_none_or(|awaited| next < awaited)) {
            world::wake_expiry(self.node);
        }
        reply
    }

    /// How long until the cycle that deletes the next key, as the wall clock goes now, and
    /// what the monotonic clock shows then.
    fn next_cycle(&self) -> Option<(Millis, Millis)> {
        let deadline = self.machine.borrow().next_deadline();
        self.awaited.set(deadline);
        let (now, wall) = with(|world| (world.monotonic(self.node), world.wall(self.node)));
        let due = now + deadline?.saturating_sub(wall);
        let at = (due / CYCLE + 1) * CYCLE;
        Some((at - now, at))
    }
}

/// Writes into the history what changed in a server's memory, and by the command of which node.
fn record(node: usize, changes: Vec<Change>, peer: Option<usize>) {
    // Locks live in database 0, which every connection starts with.
    for Change {
        key,
        before,
        after,
        cause,
        ..
    } in changes.into_iter().filter(|c| c.db == 0)
    {
        with(|world| {
            let by = match cause {
                Cause::Command => peer.map(|peer| world.nodes[peer].id),
                Cause::Expiry | Cause::Eviction => None,
            };
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
            Cause::Command | Cause::Expiry => What::Flushed,
        };
        world.record(node, what);
        world.nodes[node].machine.clone()
    });
    let mut machine = machine.borrow_mut();
    machine.empty(cause);
    record(node, machine.take_changes(), None);
}

fn stored(entry: Entry) -> Stored {
    Stored {
        value: entry.value.to_text(),
        deadline: entry.deadline,
    }
}

/// Deletes expired keys at every tenth of a second of the server's process. Nobody can see
/// the difference to a key that is only hidden, save by counting keys, or by setting the wall
/// clock back.
async fn expire(server: Rc<Server>) {
    loop {
        let (planned, mut sleep) = match server.next_cycle() {
            Some((in_time, at)) => (Some(at), Some(Sleep::new(server.node, in_time))),
            None => (None, None),
        };
        let slept = poll_fn(|context| {
            if let Some(sleep) = &mut sleep
                && Pin::new(sleep).poll(context).is_ready()
            {
                return Poll::Ready(true);
            }
            with(|world| world.nodes[server.node].expiry = Some(context.waker().clone()));
            // A new key, or a clock that was set forward, brings it closer.
            match server.next_cycle() {
                Some((_, at)) if planned.is_none_or(|planned| at < planned) => Poll::Ready(false),
                _ => Poll::Pending,
            }
        })
        .await;
        if !slept {
            continue;
        }
        let wall = with(|world| world.wall(server.node));
        let mut machine = server.machine.borrow_mut();
        machine.expire_due(wall);
        record(server.node, machine.take_changes(), None);
    }
}
