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
use super::follow;
use super::process::{Agenda, Executed, Process, Session};
use super::replication::Link;
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
pub(super) struct Server {
    pub(super) node: usize,
    pub(super) process: Rc<Process>,
}

/// Runs a server.
pub(crate) async fn serve(node: usize, id: NodeId, machine: Rc<RefCell<Machine>>) {
    let process = Process::start(machine);
    let server = Rc::new(Server { node, process });
    world::spawn(node, expire(Rc::clone(&server)));
    if with(|world| world.setup.deployment.is_replicated()) {
        world::spawn(node, follow::follow(Rc::clone(&server)));
        world::spawn(node, follow::tend(Rc::clone(&server)));
    }
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
            if let ready @ Poll::Ready(_) = session.poll_messages(server.wall(), context) {
                return ready;
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
            if by.is_client() {
                world.record(self.node, What::Executed { by, command });
            }
        });
        refuse_to_judge(request, &reply);
        self.tell(changes, Some(peer));
        if sooner {
            world::wake_expiry(self.node);
        }
        reply
    }

    /// Tells everybody concerned what the machine has done by itself.
    pub(super) fn publish(&self) {
        let changes = self.process.settle();
        self.tell(changes, None);
    }

    /// Tells the history what has changed, and that the server follows another one now.
    fn tell(&self, changes: Vec<Change>, peer: Option<usize>) {
        self.record(changes, peer);
        let mut machine = self.process.machine().borrow_mut();
        tell_turn(self.node, &mut machine);
        if let Some(asked_by) = machine.take_turn() {
            drop(machine);
            self.process.close(|connection| connection != asked_by);
            if let Some(waker) = with(|world| world.nodes[self.node].follower.take()) {
                waker.wake();
            }
            world::wake_expiry(self.node);
        }
    }

    /// Takes note of how the link to the master is.
    pub(super) fn set_link(&self, link: Link) {
        let wall = with(|world| world.wall(self.node));
        let mut machine = self.process.machine().borrow_mut();
        machine.replication.set_link(link, wall);
    }

    fn agenda(&self) -> Agenda {
        let (now, wall) = with(|world| (world.monotonic(self.node), world.wall(self.node)));
        self.process.agenda(now, wall)
    }

    fn record(&self, changes: Vec<Change>, peer: Option<usize>) {
        record(self.node, changes, |cause| match cause {
            Cause::Command => peer,
            Cause::Served { connection } => self.process.peer(connection),
            Cause::Expiry | Cause::Eviction | Cause::Replicated => None,
        });
    }
}

/// Writes into the history what changed in a server's memory, and by which node.
fn record(node: usize, changes: Vec<Change>, by: impl Fn(Cause) -> Option<usize>) {
    with(|world| {
        let (how, now) = (world.setup.deployment.persistence, world.monotonic(node));
        world.nodes[node].disk.write(&changes, how, now);
    });
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
            _ => What::Flushed,
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

/// Says in the history whom a server follows now.
fn tell_turn(node: usize, machine: &mut Machine) {
    if let Some(master) = machine.take_news() {
        let what = match master {
            Some(master) => What::Follows {
                master: String::from_utf8_lossy(&master).into_owned(),
            },
            None => What::Promoted,
        };
        with(|world| world.record(node, what));
    }
}

/// An operator makes a server follow another one, or nobody. One that is down starts with it.
pub(crate) fn reassign(node: usize, master: Option<NodeId>) {
    let machine = with(|world| world.nodes[node].machine.clone());
    let master = master.map(|master| Bytes::from(master.to_string()));
    machine.borrow_mut().follow(master, 0);
    tell_turn(node, &mut machine.borrow_mut());
    // The process closes its connections.
    world::wake_expiry(node);
}

/// A server whose process has died starts with what is on its disk. What is not there is lost.
pub(crate) fn reload(node: usize) {
    with(|world| {
        let now = world.monotonic(node);
        let machine = world.nodes[node].machine.clone();
        let mut left = machine.borrow().without_data();
        world.nodes[node].disk.load(&mut left, now);
        let is_same = left.entries().eq(machine.borrow().entries());
        machine.replace(left);
        if is_same {
            return;
        }
        world.record(node, What::DataLost);
        for (key, entry) in machine.borrow().entries() {
            let key = String::from_utf8_lossy(key).into_owned();
            let (by, before, after) = (None, None, Some(stored(entry.clone())));
            world.record(
                node,
                What::Changed {
                    by,
                    key,
                    before,
                    after,
                },
            );
        }
    });
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
            server.publish();
            match server.agenda().next() {
                Some(at) if planned.is_none_or(|planned| at < planned) => Poll::Ready(false),
                _ => Poll::Pending,
            }
        });
        if slept.await {
            let (now, wall) = with(|world| (world.monotonic(server.node), world.wall(server.node)));
            let changes = server.process.background(agenda, now, wall);
            server.tell(changes, None);
        }
    }
}
