//! Sentinels: they notice that a master is dead, agree on it, and promote a replica.
//!
//! A sentinel asks every server PING once a second and INFO every ten, and the other sentinels
//! what they think once it takes the master for dead. What it concludes is in `state.rs`; here is
//! what it sends and answers. Clients ask it `SENTINEL GET-MASTER-ADDR-BY-NAME`.
//!
//! Simplified, against Sentinel 7.0:
//!
//! - Sentinels know each other and all servers from the start, and tell each other of a new master
//!   over connections of their own, every 2 s. In Redis both go over pub/sub of the servers.
//! - A server that is given another role closes the connections of its clients itself; Sentinel
//!   sends `CLIENT KILL` for that.
//! - `failover-timeout` is five times `down-after-milliseconds`, instead of a setting of its own.
//! - There is no TILT mode: a sentinel whose clock jumps or that has stood still trusts what it
//!   measures. A master that says it is a replica is not taken for dead.
//! - What a sentinel knows survives its process only as what the others tell it: it starts with
//!   lock-1 as the master and epoch 0.
//!
//! See <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>.

mod state;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Connection, Decoder, Machine, Reply, encode};
use crate::dial::{dial, within};
use crate::net::{Listener, READ_AT_MOST, Stream};
use crate::world::{self, Sleep, with};
use crate::{Millis, NodeId};
use state::{Send, State, Told};

/// How long a sentinel waits for an answer before it opens the connection anew.
const PATIENCE: Millis = 1_000;

struct Sentinel {
    node: usize,
    state: RefCell<State>,
    links: RefCell<BTreeMap<NodeId, MultiplexedConnection>>,
    /// Everything that is no business of a sentinel, such as HELLO, is answered as by a server.
    machine: RefCell<Machine>,
    connections: Cell<u64>,
}

/// Runs a sentinel.
pub(crate) async fn serve(node: usize, number: u16) {
    let (servers, sentinels) =
        with(|world| (world.setup.servers, world.setup.deployment.sentinels()));
    let sentinels = sentinels.expect("a world with a sentinel is replicated");
    let sentinel = Rc::new(Sentinel {
        node,
        state: RefCell::new(State::new(number, servers, sentinels)),
        links: RefCell::default(),
        machine: RefCell::default(),
        connections: Cell::default(),
    });
    world::spawn(node, watch(Rc::clone(&sentinel)));
    let listener = Listener::bind(NodeId::Sentinel(number))
        .await
        .expect("a fresh host has every port free");
    while let Ok((stream, _)) = listener.accept().await {
        world::spawn(node, answer(Rc::clone(&sentinel), stream));
    }
}

/// Looks after everything, for ever.
async fn watch(sentinel: Rc<Sentinel>) {
    let node = sentinel.node;
    // No two sentinels look at the same time.
    let first = with(|world| world.nodes[node].lane.within(&(1..=state::PERIOD)));
    Sleep::new(node, first).await;
    loop {
        let (now, forced, desync) = with(|world| {
            let desync = world.nodes[node].lane.within(&(0..=state::DESYNC));
            let forced = std::mem::take(&mut world.forced);
            (world.monotonic(node), forced, desync)
        });
        let (sends, rest) = {
            let mut state = sentinel.state.borrow_mut();
            let sends = state.decide(now, forced, desync);
            (sends, state.rest(now))
        };
        for send in sends {
            let sentinel = Rc::clone(&sentinel);
            world::spawn(node, async move { sentinel.send(send).await });
        }
        Sleep::new(node, rest).await;
    }
}

impl Sentinel {
    async fn send(&self, send: Send) {
        let now = || with(|world| world.monotonic(self.node));
        match send {
            Send::Ping { server, info } => {
                let peer = NodeId::Lock(server);
                let pong = self.ask(peer, redis::cmd("PING")).await;
                self.state.borrow_mut().ponged(server, pong.is_ok());
                if pong.is_ok() && info {
                    let mut ask = redis::cmd("INFO");
                    ask.arg("replication");
                    if let Ok(Some(told)) = self.ask(peer, ask).await.map(|info| told(&info)) {
                        self.state.borrow_mut().told(server, told, now());
                    }
                }
            }
            Send::IsDown { peer, epoch, vote } => {
                let own = self.state.borrow().me();
                let candidate = if vote {
                    own.to_string()
                } else {
                    "*".to_owned()
                };
                let master = NodeId::Lock(self.state.borrow().master()).to_string();
                let mut ask = redis::cmd("SENTINEL");
                ask.arg("IS-MASTER-DOWN-BY-ADDR")
                    .arg(master)
                    .arg(super::replication::PORT);
                ask.arg(epoch).arg(candidate);
                let answer = self.ask(NodeId::Sentinel(peer), ask).await;
                let answer = answer
                    .and_then(|answer| Ok(redis::from_redis_value::<(bool, String, u64)>(answer)?));
                if let Ok((down, leader, epoch)) = answer {
                    let leader = number_of(leader.as_bytes(), "sentinel-");
                    let vote = leader.map(|leader| (epoch, leader));
                    self.state.borrow_mut().peer_says(peer, down, vote, now());
                }
            }
            Send::News { peer } => {
                let (epoch, config_epoch, master) = self.state.borrow().news();
                let mut tell = redis::cmd("SENTINEL");
                tell.arg("NEWS").arg(epoch).arg(config_epoch);
                tell.arg(NodeId::Lock(master).to_string());
                let _ = self.ask(NodeId::Sentinel(peer), tell).await;
            }
            Send::Follow { server, master } => {
                let mut tell = redis::cmd("REPLICAOF");
                match master {
                    Some(master) => tell
                        .arg(NodeId::Lock(master).to_string())
                        .arg(super::replication::PORT),
                    None => tell.arg("NO").arg("ONE"),
                };
                let _ = self.ask(NodeId::Lock(server), tell).await;
            }
        }
    }

    /// One question to another node. A connection that gives no answer is opened anew next time.
    async fn ask(&self, peer: NodeId, question: Cmd) -> RedisResult<Value> {
        let answer = within(self.node, PATIENCE, async {
            let open = self.links.borrow().get(&peer).cloned();
            let mut link = match open {
                Some(link) => link,
                None => {
                    let link = dial(self.node, peer).await?;
                    self.links.borrow_mut().insert(peer, link.clone());
                    link
                }
            };
            link.send_packed_command(&question).await
        });
        let answer = answer.await;
        if answer.is_err() {
            let broken = self.links.borrow_mut().remove(&peer);
            drop(broken);
        }
        answer
    }

    fn execute(&self, request: &[Bytes], connection: &mut Connection) -> Reply {
        let (wall, now) = with(|world| (world.wall(self.node), world.monotonic(self.node)));
        if !request[0].eq_ignore_ascii_case(b"sentinel") {
            return self.machine.borrow_mut().execute(request, connection, wall);
        }
        let mut state = self.state.borrow_mut();
        let bulk = |text: String| Reply::Bulk(text.into());
        let number = |word: &Bytes| std::str::from_utf8(word).ok()?.parse().ok();
        let words: Vec<_> = request[1..]
            .iter()
            .map(|w| w.to_ascii_lowercase())
            .collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [b"get-master-addr-by-name", _] => Reply::Array(vec![
                bulk(NodeId::Lock(state.master()).to_string()),
                bulk(super::replication::PORT.to_string()),
            ]),
            [b"is-master-down-by-addr", master, _, _, candidate] => {
                let epoch = number(&request[4]).unwrap_or(0);
                let candidate = number_of(candidate, "sentinel-");
                let master = number_of(master, "lock-");
                let (down, vote) = state.is_down(master, epoch, candidate, now);
                let (epoch, leader) = vote.unwrap_or((0, 0));
                let leader = match leader {
                    0 => "*".to_owned(),
                    number => NodeId::Sentinel(number).to_string(),
                };
                let epoch = Reply::Integer(i64::try_from(epoch).unwrap_or(i64::MAX));
                Reply::Array(vec![Reply::Integer(down.into()), bulk(leader), epoch])
            }
            [b"news", _, _, master] => {
                let (epoch, config_epoch) = (number(&request[2]), number(&request[3]));
                if let Some(master) = number_of(master, "lock-") {
                    state.heard(epoch.unwrap_or(0), config_epoch.unwrap_or(0), master);
                }
                Reply::OK
            }
            _ => Reply::fixed_error("ERR Unknown sentinel subcommand"),
        }
    }
}

fn number_of(name: &[u8], prefix: &str) -> Option<u16> {
    std::str::from_utf8(name)
        .ok()?
        .strip_prefix(prefix)?
        .parse()
        .ok()
}

/// What a server says of itself in INFO.
fn told(info: &Value) -> Option<Told> {
    let text: String = redis::from_redis_value_ref(info).ok()?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    };
    let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
    let master = match field("role")? {
        "master" => None,
        _ => Some(number_of(field("master_host")?.as_bytes(), "lock-").unwrap_or(0)),
    };
    Some(Told {
        master,
        offset: number("slave_repl_offset").unwrap_or(0),
        down_for: number("master_link_down_since_seconds").unwrap_or(0) * 1_000,
    })
}

async fn answer(sentinel: Rc<Sentinel>, mut stream: Stream) {
    let id = sentinel.connections.get() + 1;
    sentinel.connections.set(id);
    let mut connection = Connection::new(id);
    let mut decoder = Decoder::default();
    let (mut input, mut output) = (BytesMut::with_capacity(READ_AT_MOST), BytesMut::new());
    while let Ok(1..) = stream.read_buf(&mut input).await {
        decoder.feed(&input);
        input.clear();
        while let Ok(Some(request)) = decoder.next_request() {
            let reply = sentinel.execute(&request, &mut connection);
            encode(&reply, connection.protocol, &mut output);
        }
        if stream.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
    }
}
