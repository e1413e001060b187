//! A Redis server as a node of a world: its [`Process`], with the world's sockets and clocks, and
//! what it does written into the history.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::commands::name_of;
use super::process::{Agenda, Executed, Process, Session};
use super::{Cause, Change, Connection, Entry, Machine, Reply};
use crate::NodeId;
use crate::history::{Stored, What};
use crate::net::{Listener, READ_AT_MOST, Stream};
use crate::world::{self, Sleep, with};

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

/// One server's process, and where it runs.
struct Server {
    node: usize,
    process: Rc<Process>,
}

/// Runs a server.
pub(crate) async fn serve(node: usize, id: NodeId, machine: Rc<RefCell<Machine>>) {
    let process = Process::start(machine);
    let server = Rc::new(Server { node, process });
    world::spawn(node, expire(Rc::clone(&server)));
    let listener = Listener::bind(id)
        .await
        .expect("a fresh host has every port free");
    while let Ok((stream, peer)) = listener.accept().await {
        world::spawn(node, answer(Rc::clone(&server), stream, peer));
    }
}

async fn answer(server: Rc<Server>, mut stream: Stream, peer: usize) {
    let mut session = Session::open(Rc::clone(&server.process), peer);
    // Without room, a read takes no more than 64 bytes.
    let mut input = BytesMut::with_capacity(READ_AT_MOST);
    loop {
        let goes_on = session.work(server.wall(), usize::MAX, |_, request, connection| {
            server.execute(request, connection, peer)
        });
        if stream.write_all(&session.output).await.is_err() || !goes_on {
            return;
        }
        session.output.clear();
        let something = poll_fn(|context| {
            if session.poll_messages(server.wall(), context).is_ready() {
                return Poll::Ready(true);
            }
            let read = pin!(stream.read_buf(&mut input)).poll(context);
            read.map(|read| {
                session.feed(&input);
                input.clear();
                matches!(read, Ok(1..))
            })
        });
        if !something.await {
            return;
        }
    }
}

impl Server {
    fn wall(&self) -> u64 {
        with(|world| world.wall(self.node))
    }

    fn execute(&self, request: &[Bytes], connection: &mut Connection, peer: usize) -> Reply {
        let Executed {
            reply,
            changes,
            sooner,
        } = self.process.execute(request, connection, self.wall());
        let command = request
            .first()
            .and_then(|word| name_of(word))
            .unwrap_or("unknown");
        with(|world| {
            let by = world.nodes[peer].id;
            world.record(self.node, What::Executed { by, command });
        });
        refuse_to_judge(request, &reply);
        self.record(changes, Some(peer));
        if sooner {
            world::wake_expiry(self.node);
        }
        reply
    }

    fn agenda(&self) -> Agenda {
        let (now, wall) = with(|world| (world.monotonic(self.node), world.wall(self.node)));
        self.process.agenda(now, wall)
    }

    fn record(&self, changes: Vec<Change>, peer: Option<usize>) {
        record(self.node, changes, |cause| match cause {
            Cause::Command => peer,
            Cause::Served { connection } => self.process.peer(connection),
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
        tracked: None,
    }
}

/// The background of a server. A new key, or a clock that was set forward, brings its work closer.
async fn expire(server: Rc<Server>) {
    loop {
        let agenda = server.agenda();
        let planned = agenda.next();
        let now = with(|world| world.monotonic(server.node));
        let mut sleep = planned.map(|at| Sleep::new(server.node, at.saturating_sub(now)));
        let slept = poll_fn(|context| {
            if let Some(sleep) = &mut sleep
                && Pin::new(sleep).poll(context).is_ready()
            {
                return Poll::Ready(true);
            }
            with(|world| world.nodes[server.node].expiry = Some(context.waker().clone()));
            server.process.deliver_all();
            match server.agenda().next() {
                Some(at) if planned.is_none_or(|planned| at < planned) => Poll::Ready(false),
                _ => Poll::Pending,
            }
        });
        if slept.await {
            let (now, wall) = with(|world| (world.monotonic(server.node), world.wall(server.node)));
            let changes = server.process.background(agenda, now, wall);
            server.record(changes, None);
        }
    }
}
