//! The link between a replica and its master, from both ends.
//!
//! The replica connects, asks for everything, and copies what comes. It says once a second how far
//! it is, and at once when it is asked. A link that breaks is opened anew after a second. What has
//! reached the replica's socket is copied, whatever has become of the master, unless the replica is
//! promoted first.

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::effects::{Effect, read_all};
use super::node::Server;
use super::replication::{Link, PING_PERIOD, TIMEOUT};
use super::{Decoder, Protocol, Reply, encode};
use crate::net::{READ_AT_MOST, Stream};
use crate::world::{Sleep, with};
use crate::{Millis, NodeId};

/// How often either side looks after the link.
const SECOND: Millis = 1_000;

/// Follows whom the server is to follow, as long as its process lives.
pub(super) async fn follow(server: Rc<Server>) {
    loop {
        let master = server
            .process
            .machine()
            .borrow()
            .replication
            .master()
            .cloned();
        let Some(host) = master else {
            while_master_is(&server, None, std::future::pending()).await;
            continue;
        };
        while_master_is(&server, Some(&host), async {
            // Why it broke is of no interest.
            let _ = copy_from(&server, &host).await;
        })
        .await;
        server.set_link(Link::Connect);
        while_master_is(&server, Some(&host), Sleep::new(server.node, SECOND)).await;
    }
}

/// Waits for `future`, at most until the server follows somebody else.
async fn while_master_is(server: &Server, host: Option<&Bytes>, future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    poll_fn(|context| {
        if server.process.machine().borrow().replication.master() != host {
            return Poll::Ready(());
        }
        with(|world| world.nodes[server.node].follower = Some(context.waker().clone()));
        future.as_mut().poll(context)
    })
    .await;
}

async fn copy_from(server: &Server, host: &Bytes) -> io::Result<()> {
    let (node, own) = (server.node, with(|world| world.nodes[server.node].id));
    let master = node_of(host).ok_or(io::ErrorKind::NotFound)?;
    server.set_link(Link::Connecting);
    let mut stream = Stream::connect(node, master).await?;
    let own = own.to_string();
    let mut output = request(&["REPLCONF", "ip-address", &own]);
    output.unsplit(request(&["PSYNC", "?", "-1"]));
    let (mut input, mut decoder) = (BytesMut::with_capacity(READ_AT_MOST), Decoder::default());
    let mut copy = Copy::default();
    let now = || with(|world| world.monotonic(node));
    let (mut tick, mut heard) = (Sleep::new(node, SECOND), now());
    loop {
        stream.write_all(&output).await?;
        output.clear();
        let read = poll_fn(|context| {
            // A replica that falls behind neither reads nor answers.
            if with(|world| !world.nodes[node].lags.is_empty()) {
                return Poll::Pending;
            }
            if let Poll::Ready(read) = pin!(stream.read_buf(&mut input)).poll(context) {
                return Poll::Ready(Some(read));
            }
            Pin::new(&mut tick).poll(context).map(|()| None)
        });
        match read.await.transpose()? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => heard = now(),
            None if now() > heard + TIMEOUT * SECOND => return Err(io::ErrorKind::TimedOut.into()),
            None => {
                tick = Sleep::new(node, SECOND);
                copy.answers |= copy.complete;
            }
        }
        decoder.feed(&input);
        input.clear();
        while let Some(words) = decoder.next_request().map_err(|_| refused())? {
            copy.take(server, &words)?;
        }
        if mem::take(&mut copy.answers) {
            let offset = server
                .process
                .machine()
                .borrow()
                .replication
                .offset
                .to_string();
            output = request(&["REPLCONF", "ACK", &offset]);
        }
    }
}

/// How far a copy of a master has come.
#[derive(Default)]
struct Copy {
    /// It has the data that the master had when the link was made.
    complete: bool,
    /// What belongs together and has not come to its end, and how long it is.
    together: Option<Vec<Effect>>,
    length: u64,
    /// The master is to be told how far it is.
    answers: bool,
}

impl Copy {
    /// Takes one line that the master sent.
    fn take(&mut self, server: &Server, words: &[Bytes]) -> io::Result<()> {
        if self.complete {
            let effect = Effect::read(words).ok_or_else(refused)?;
            self.length += effect.length();
            match (effect, &mut self.together) {
                (Effect::Multi, _) => self.together = Some(Vec::new()),
                (Effect::Exec, together) => {
                    let effects = together.take().unwrap_or_default();
                    self.copy(server, effects);
                }
                (effect, Some(together)) => together.push(effect),
                (Effect::GetAck, None) => {
                    self.copy(server, Vec::new());
                    self.answers = true;
                }
                (effect, None) => self.copy(server, vec![effect]),
            }
            return Ok(());
        }
        match words {
            [name, offset, snapshot] if name == "FULLRESYNC" => {
                let text = std::str::from_utf8(offset).ok();
                let offset = text
                    .and_then(|text| text.parse().ok())
                    .ok_or_else(refused)?;
                let effects = read_all(snapshot).ok_or_else(refused)?;
                server.process.machine().borrow_mut().load(effects, offset);
                server.publish();
                server.set_link(Link::Connected);
                self.complete = true;
                self.answers = true;
                Ok(())
            }
            [answer] if answer == "+OK" => Ok(()),
            _ => Err(refused()),
        }
    }

    fn copy(&mut self, server: &Server, effects: Vec<Effect>) {
        let mut machine = server.process.machine().borrow_mut();
        effects.into_iter().for_each(|effect| machine.copy(effect));
        machine.replication.offset += mem::take(&mut self.length);
        drop(machine);
        server.publish();
    }
}

/// The master's part: counts who is near enough, shows that it lives, drops who is silent.
pub(super) async fn tend(server: Rc<Server>) {
    for second in 1_u64.. {
        Sleep::new(server.node, SECOND).await;
        let wall = with(|world| world.wall(server.node));
        let mut machine = server.process.machine().borrow_mut();
        if machine.replication.replicas().next().is_none() {
            continue;
        }
        let lost = machine.replication.lost(wall);
        machine.replication.count_good(wall);
        if second.is_multiple_of(PING_PERIOD) {
            machine.tell_replicas(&Effect::Ping);
        }
        drop(machine);
        server
            .process
            .close(|connection| lost.contains(&connection));
        server.publish();
    }
}

/// The node that a server is told of by its name.
pub(crate) fn node_of(host: &[u8]) -> Option<NodeId> {
    let number = std::str::from_utf8(host).ok()?.strip_prefix("lock-")?;
    let number = number.parse().ok()?;
    let servers = with(|world| world.setup.servers);
    (1..=servers)
        .contains(&number)
        .then_some(NodeId::Lock(number))
}

fn request(words: &[&str]) -> BytesMut {
    let words = words
        .iter()
        .map(|word| Reply::Bulk(Bytes::copy_from_slice(word.as_bytes())));
    let mut out = BytesMut::new();
    encode(&Reply::Array(words.collect()), Protocol::Resp2, &mut out);
    out
}

fn refused() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
