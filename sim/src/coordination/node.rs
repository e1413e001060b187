//! A coordination server as a node: it takes connections, executes one request at a time, tells
//! those who wait, and ends sessions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Changed, Entry, Machine, Request};
use crate::history::{Stored, Tracked, What};
use crate::net::{Listener, Stream};
use crate::store::{Frames, encode};
use crate::world::{self, Sleep, with};
use crate::{Millis, NodeId};

/// A leader that was silent for so long has been replaced: etcd's election time-out.
const ELECTION: Millis = 1_000;

/// One server's process.
struct Server {
    node: usize,
    machine: Rc<RefCell<Machine>>,
    connections: RefCell<Connections>,
    /// Wakes who ends sessions: one may end sooner than expected.
    expiry: RefCell<Option<Waker>>,
}

/// Who is to be woken when a key has changed, by connection.
#[derive(Default)]
struct Connections {
    opened: u64,
    wakers: BTreeMap<u64, Option<Waker>>,
}

/// Runs a server.
pub(crate) async fn serve(node: usize, id: NodeId, machine: Rc<RefCell<Machine>>) {
    machine
        .borrow_mut()
        .extend(with(|world| world.monotonic(node)));
    let server = Rc::new(Server {
        node,
        machine,
        connections: RefCell::default(),
        expiry: RefCell::default(),
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
    let mut connection = Connection::open(server, peer);
    loop {
        connection.work();
        let output = connection.output.split();
        if !output.is_empty() && stream.write_all(&output).await.is_err() {
            return;
        }
        if !poll_fn(|context| connection.poll_next(&mut stream, context)).await {
            return;
        }
    }
}

struct Connection {
    server: Rc<Server>,
    id: u64,
    peer: usize,
    frames: Frames,
    output: BytesMut,
    /// Requests that wait for a change: number, key and revision.
    waits: Vec<(u32, String, u64)>,
}

impl Connection {
    fn open(server: Rc<Server>, peer: usize) -> Self {
        let id = {
            let mut connections = server.connections.borrow_mut();
            connections.opened += 1;
            connections.opened
        };
        server.connections.borrow_mut().wakers.insert(id, None);
        Self {
            server,
            id,
            peer,
            frames: Frames::default(),
            output: BytesMut::new(),
            waits: Vec::new(),
        }
    }

    /// Executes what has come, and answers whose wait is over.
    fn work(&mut self) {
        while let Some((number, body)) = self.frames.next() {
            let request: Request = serde_json::from_slice(&body).expect("our clients speak well");
            match (self.server.execute(&request, self.peer), request) {
                (Some(reply), _) => self.output.extend_from_slice(&encode(number, &reply)),
                (None, Request::Await { key, after }) => self.waits.push((number, key, after)),
                (None, _) => unreachable!("only a wait is answered later"),
            }
        }
        let machine = self.server.machine.borrow();
        self.waits.retain(|(number, key, after)| {
            let reply = machine.awaited(key, *after);
            if let Some(reply) = &reply {
                self.output.extend_from_slice(&encode(*number, reply));
            }
            reply.is_none()
        });
    }

    /// Ready when bytes have come, or a wait is over. False when the other end has closed.
    fn poll_next(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<bool> {
        let machine = self.server.machine.borrow();
        let over = |(_, key, after): &(u32, String, u64)| machine.awaited(key, *after).is_some();
        if self.waits.iter().any(over) {
            return Poll::Ready(true);
        }
        let waker = (!self.waits.is_empty()).then(|| context.waker().clone());
        self.server
            .connections
            .borrow_mut()
            .wakers
            .insert(self.id, waker);
        let read = pin!(stream.read_buf(&mut self.frames.buffer)).poll(context);
        read.map(|read| matches!(read, Ok(1..)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.connections.borrow_mut().wakers.remove(&self.id);
    }
}

impl Server {
    fn execute(&self, request: &Request, peer: usize) -> Option<super::Reply> {
        let now = with(|world| world.monotonic(self.node));
        let mut machine = self.machine.borrow_mut();
        let before = machine.next_deadline();
        let reply = machine.execute(request, now);
        let sooner = machine
            .next_deadline()
            .is_some_and(|next| before.is_none_or(|before| next < before));
        let changes = machine.take_changes();
        drop(machine);
        with(|world| {
            let (by, command) = (world.nodes[peer].id, request.name());
            world.record(self.node, What::Executed { by, command });
        });
        self.tell(changes, Some(peer));
        if sooner {
            self.expiry.take().into_iter().for_each(Waker::wake);
        }
        reply
    }

    /// Writes into the history what changed, and lets those look who wait for it.
    fn tell(&self, changes: Vec<Changed>, peer: Option<usize>) {
        if changes.is_empty() {
            return;
        }
        with(|world| {
            let by = peer.map(|peer| world.nodes[peer].id);
            for Changed { key, before, after } in changes {
                let (before, after) = (before.map(stored), after.map(stored));
                world.record(
                    self.node,
                    What::Changed {
                        by,
                        key,
                        before,
                        after,
                    },
                );
            }
        });
        for waker in self.connections.borrow_mut().wakers.values_mut() {
            waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

fn stored(entry: Entry) -> Stored {
    Stored {
        value: entry.value,
        deadline: None,
        tracked: Some(Tracked {
            created: entry.created,
            session: entry.session,
        }),
    }
}

/// Ends sessions. Nobody else does, so that a keep-alive that waits in a socket while the process
/// stands still is as good as one that was heard.
async fn expire(server: Rc<Server>) {
    let now = || with(|world| world.monotonic(server.node));
    loop {
        let planned = server.machine.borrow().next_deadline();
        let mut sleep = planned.map(|at| Sleep::new(server.node, at.saturating_sub(now())));
        let slept = poll_fn(|context| {
            if let Some(sleep) = &mut sleep
                && Pin::new(sleep).poll(context).is_ready()
            {
                return Poll::Ready(true);
            }
            *server.expiry.borrow_mut() = Some(context.waker().clone());
            let next = server.machine.borrow().next_deadline();
            match next {
                Some(next) if planned.is_none_or(|planned| next < planned) => Poll::Ready(false),
                _ => Poll::Pending,
            }
        })
        .await;
        if !slept {
            continue;
        }
        let mut machine = server.machine.borrow_mut();
        if planned.is_some_and(|at| now() > at + ELECTION) {
            machine.extend(now());
            continue;
        }
        machine.expire(now());
        let changes = machine.take_changes();
        drop(machine);
        server.tell(changes, None);
    }
}
