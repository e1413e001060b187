//! Masters and replicas, as one server knows it: whom it follows, who follows it, how far they are.
//!
//! Replication is asynchronous. A master answers its client and lets the replicas hear of it
//! ([`Machine::take_stream`]); they say once a second how far they are. WAIT asks them at once, and
//! counts those who have what *this connection* had seen written after its last command: not what
//! other connections wrote since, and nothing at all on a connection that has sent no command yet.
//!
//! A replica refuses writes, hides what has expired and deletes none of it. What its master sends
//! it takes as it is ([`Machine::copy`]).
//! See <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>.
//!
//! Deliberately absent: partial resynchronisation, whose outcome is that of a full one; replicas of
//! replicas, writable replicas, diskless loading and its delay of 5 s.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::{Bytes, BytesMut};

use super::commands::Call;
use super::effects::{Effect, read_all};
use super::machine::{Cause, DATABASES, Entry, Machine};
use super::numbers::parse_integer;
use super::reply::Reply;
use super::table::Kind;

/// The port that every server announces.
pub(crate) const PORT: u16 = 6379;

/// How long a replica may be silent before its master drops it, and a master before its replica
/// looks for it anew, in seconds: `repl-timeout`.
pub(crate) const TIMEOUT: u64 = 60;

/// How often a master shows its replicas that it lives, in seconds: `repl-ping-replica-period`.
pub(crate) const PING_PERIOD: u64 = 10;

/// What one server knows of others.
#[derive(Debug)]
pub(crate) struct Replication {
    /// Whom it follows; nobody if it is a master.
    master: Option<Master>,
    /// How many bytes of the stream it has written, or copied.
    pub(crate) offset: u64,
    /// Who follows it, by their connections.
    replicas: BTreeMap<u64, Replica>,
    /// It has had a replica: from then on it counts what it writes.
    counts: bool,
    /// What its replicas have not been sent yet.
    stream: BytesMut,
    /// The database that the stream has selected.
    db: Option<usize>,
    /// The database that what its master sends is of.
    copied_db: usize,
    /// `min-replicas-to-write` and `min-replicas-max-lag`.
    pub(crate) needed: u64,
    pub(crate) max_lag: u64,
    /// How many replicas were near enough when they were last counted.
    good: u64,
    /// The role has changed: every connection but that of whoever asked for it is closed.
    turned: Option<u64>,
    /// Nobody has been told of that yet.
    news: bool,
}

impl Default for Replication {
    fn default() -> Self {
        Self {
            master: None,
            offset: 0,
            replicas: BTreeMap::new(),
            counts: false,
            stream: BytesMut::new(),
            db: None,
            copied_db: 0,
            needed: 0,
            max_lag: 10,
            good: 0,
            turned: None,
            news: false,
        }
    }
}

/// Whom a replica follows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Master {
    host: Bytes,
    port: Bytes,
    link: Link,
    /// The wall clock at which the link was lost.
    down_since: Option<u64>,
}

/// How a replica stands to its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It has to connect.
    Connect,
    /// It is connecting.
    Connecting,
    /// It has the master's data, and what the master writes.
    Connected,
}

/// Who follows a master.
#[derive(Clone, Debug)]
struct Replica {
    host: Bytes,
    /// How far it was when it last said so.
    acked: u64,
    /// When that was, by the master's wall clock in seconds.
    acked_at: u64,
    /// It has said so at least once.
    online: bool,
}

impl Replication {
    pub(crate) fn is_replica(&self) -> bool {
        self.master.is_some()
    }

    /// The host that is followed.
    pub(crate) fn master(&self) -> Option<&Bytes> {
        self.master.as_ref().map(|master| &master.host)
    }

    /// The connections of replicas.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = u64> + '_ {
        self.replicas.keys().copied()
    }

    /// The process starts anew: nobody follows it yet, and whom it follows it has to connect to.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            master: self.master.take(),
            offset: self.offset,
            ..Self::default()
        };
        if let Some(master) = &mut self.master {
            master.link = Link::Connect;
        }
    }

    /// Takes note of how the link to the master is.
    pub(crate) fn set_link(&mut self, link: Link, wall: u64) {
        if let Some(master) = &mut self.master {
            if master.link == Link::Connected && link != Link::Connected {
                master.down_since = Some(wall);
            }
            master.link = link;
        }
    }

    /// The connections of replicas that have been silent for too long.
    pub(crate) fn lost(&self, wall: u64) -> Vec<u64> {
        let silent = |replica: &Replica| wall / 1000 > replica.acked_at + TIMEOUT;
        let lost = self.replicas.iter().filter(|(_, r)| silent(r));
        lost.map(|(connection, _)| *connection).collect()
    }

    /// How many replicas have everything up to `offset`.
    pub(crate) fn acked(&self, offset: u64) -> u64 {
        let has = |replica: &&Replica| replica.online && replica.acked >= offset;
        self.replicas.values().filter(has).count() as u64
    }

    /// Counts the replicas that are near enough for `min-replicas-to-write`. Done once a second,
    /// and when a replica comes or goes.
    pub(crate) fn count_good(&mut self, wall: u64) {
        let near = |replica: &&Replica| {
            replica.online && (wall / 1000).saturating_sub(replica.acked_at) <= self.max_lag
        };
        self.good = self.replicas.values().filter(near).count() as u64;
    }

    pub(crate) fn forget(&mut self, connection: u64) {
        if self.replicas.remove(&connection).is_some() {
            self.good = self.good.min(self.replicas.len() as u64);
        }
    }

    /// Why a server refuses to execute a command of a client or a script.
    pub(crate) fn refusal(&self, kind: Kind) -> Option<Reply> {
        match kind {
            Kind::Write | Kind::Take => self.refusal_to_write(),
            Kind::Read | Kind::Publish | Kind::NoScript | Kind::Script => None,
        }
    }

    pub(crate) fn refusal_to_write(&self) -> Option<Reply> {
        if self.is_replica() {
            let text = "READONLY You can't write against a read only replica.";
            return Some(Reply::fixed_error(text));
        }
        let short = self.needed > 0 && self.max_lag > 0 && self.good < self.needed;
        short.then_some(Reply::fixed_error(
            "NOREPLICAS Not enough good replicas to write.",
        ))
    }

    /// What INFO says.
    pub(crate) fn info(&self, wall: u64) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            write!(text, "{name}:{value}\r\n").expect("a string grows");
        };
        if let Some(master) = &self.master {
            line("role", &"slave");
            line("master_host", &String::from_utf8_lossy(&master.host));
            line("master_port", &String::from_utf8_lossy(&master.port));
            let up = master.link == Link::Connected;
            line("master_link_status", &if up { "up" } else { "down" });
            line("slave_repl_offset", &self.offset);
            if !up {
                let since = master.down_since;
                let seconds = since.map(|since| wall.saturating_sub(since) / 1000);
                let seconds = seconds.map_or("-1".to_owned(), |seconds| seconds.to_string());
                line("master_link_down_since_seconds", &seconds);
            }
            line("slave_read_only", &1);
        } else {
            line("role", &"master");
        }
        line("connected_slaves", &self.replicas.len());
        if self.needed > 0 && self.max_lag > 0 {
            line("min_slaves_good_slaves", &self.good);
        }
        for (number, replica) in self.replicas.values().enumerate() {
            let host = String::from_utf8_lossy(&replica.host);
            let state = if replica.online {
                "online"
            } else {
                "send_bulk"
            };
            let (acked, lag) = (
                replica.acked,
                (wall / 1000).saturating_sub(replica.acked_at),
            );
            let value = format!("ip={host},port={PORT},state={state},offset={acked},lag={lag}");
            line(&format!("slave{number}"), &value);
        }
        line("master_repl_offset", &self.offset);
        text
    }

    fn role(&self) -> Reply {
        let bulk = |text: String| Reply::Bulk(text.into());
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        if let Some(master) = &self.master {
            let state = match master.link {
                Link::Connect => "connect",
                Link::Connecting => "connecting",
                Link::Connected => "connected",
            };
            let port = parse_integer(&master.port).unwrap_or_default();
            let copied = if master.link == Link::Connected {
                offset
            } else {
                -1
            };
            return Reply::Array(vec![
                Reply::bulk("slave"),
                Reply::Bulk(master.host.clone()),
                Reply::Integer(port),
                Reply::bulk(state),
                Reply::Integer(copied),
            ]);
        }
        let replica = |replica: &Replica| {
            let (port, acked) = (PORT.to_string(), replica.acked.to_string());
            Reply::Array(vec![
                Reply::Bulk(replica.host.clone()),
                bulk(port),
                bulk(acked),
            ])
        };
        let online = self.replicas.values().filter(|replica| replica.online);
        Reply::Array(vec![
            Reply::bulk("master"),
            Reply::Integer(offset),
            Reply::Array(online.map(replica).collect()),
        ])
    }
}

impl Machine {
    /// Writes what has changed from the `first`-th change on into the stream.
    pub(crate) fn propagate(&mut self, first: usize) {
        if self.changes() > first && self.replication.counts && !self.replication.is_replica() {
            let Replication {
                stream, db, offset, ..
            } = &mut *self.replication;
            let before = stream.len();
            Effect::write_all(&self.changes[first..], db, stream);
            *offset += (stream.len() - before) as u64;
        }
    }

    /// Sends the replicas something that is no change.
    pub(crate) fn tell_replicas(&mut self, effect: &Effect) {
        if !self.replication.replicas.is_empty() {
            self.replication.offset += effect.length();
            effect.write(&mut self.replication.stream);
        }
    }

    /// What the replicas have to be sent since the last call, and over which connections.
    pub(crate) fn take_stream(&mut self) -> Option<(Bytes, Vec<u64>)> {
        if self.replication.stream.is_empty() {
            return None;
        }
        let stream = self.replication.stream.split().freeze();
        Some((stream, self.replication.replicas().collect()))
    }

    /// Takes what this master has written since the last time to a replica, at once and without a
    /// network: for whoever has two servers and no world. The first time it takes everything.
    ///
    /// # Panics
    ///
    /// If this is a replica itself.
    pub fn carry_to(&mut self, replica: &mut Self, wall: u64) {
        // No connection of a node has this number.
        const CARRIED: u64 = u64::MAX;
        if self.replication.replicas.contains_key(&CARRIED) {
            let stream = self
                .take_stream()
                .map_or(Bytes::new(), |(stream, _)| stream);
            let effects = read_all(&stream).expect("as it was written");
            effects.into_iter().for_each(|effect| replica.copy(effect));
        } else {
            let begun = self.attach(CARRIED, Bytes::from("carried"), wall);
            let (offset, snapshot) = begun.expect("replicas have no replicas");
            let effects = read_all(&snapshot).expect("as it was written");
            replica.load(effects, offset);
        }
        replica.replication.offset = self.replication.offset;
        self.acknowledged(CARRIED, self.replication.offset, wall);
    }

    /// Takes a new replica on: what it has to begin with. Nothing if this is a replica itself.
    fn attach(&mut self, connection: u64, host: Bytes, wall: u64) -> Option<(u64, Bytes)> {
        if self.replication.is_replica() {
            return None;
        }
        let replica = Replica {
            host,
            acked: 0,
            acked_at: wall / 1000,
            online: false,
        };
        self.replication.counts = true;
        self.replication.db = None;
        self.replication.replicas.insert(connection, replica);
        Some((self.replication.offset, self.snapshot()))
    }

    /// Whether the role, or the master, has changed since the last call; if so, which connection
    /// alone stays open.
    pub(crate) fn take_turn(&mut self) -> Option<u64> {
        self.replication.turned.take()
    }

    /// Whom it follows, if that has changed since the last call.
    pub(crate) fn take_news(&mut self) -> Option<Option<Bytes>> {
        let news = std::mem::take(&mut self.replication.news);
        news.then(|| self.replication.master().cloned())
    }

    /// What is left of a server that loses its data: whom it follows stands in its settings.
    pub(crate) fn without_data(&self) -> Self {
        let mut left = Self::new();
        left.replication.master = self.replication.master.clone();
        left
    }

    /// A server whose settings say whom it follows.
    pub(crate) fn start_as_replica_of(&mut self, host: &'static str) {
        self.follow(Some(Bytes::from(host)), 0);
        (self.replication.turned, self.replication.news) = (None, false);
    }

    /// Follows another server, or nobody.
    pub(crate) fn follow(&mut self, host: Option<Bytes>, asked_by: u64) {
        if self.replication.master() == host.as_ref() {
            return;
        }
        let was_master = !self.replication.is_replica();
        if host.is_some() && was_master {
            let text = "UNBLOCKED force unblock from blocking operation, instance state changed \
                        (master -> replica?)";
            let sessions = &mut *self.sessions;
            for blocked in sessions.blocked.drain(..) {
                let refusal = Reply::fixed_error(text);
                sessions.outbox.push((blocked.connection(), refusal));
            }
            self.replication.replicas.clear();
        }
        self.replication.db = None;
        self.replication.turned = Some(asked_by);
        self.replication.news = true;
        self.replication.master = host.map(|host| Master {
            host,
            port: PORT.to_string().into(),
            link: Link::Connect,
            down_since: None,
        });
    }

    /// Copies a line of the stream. Lines that belong together must be copied together.
    pub(crate) fn copy(&mut self, effect: Effect) {
        let db = self.replication.copied_db;
        match effect {
            Effect::Select(db) => self.replication.copied_db = db.min(DATABASES - 1),
            Effect::Put(key, entry) => self.put_because(db, &key, entry, Cause::Replicated),
            Effect::Deadline(key, deadline) => {
                if let Some(entry) = self.entry(db, &key).cloned() {
                    let entry = Entry { deadline, ..entry };
                    self.put_because(db, &key, entry, Cause::Replicated);
                }
            }
            Effect::Remove(key) => {
                self.remove(db, &key, Cause::Replicated);
            }
            Effect::Multi | Effect::Exec | Effect::Ping | Effect::GetAck => {}
        }
    }

    /// Everything that is in memory, as a stream.
    pub(crate) fn snapshot(&self) -> Bytes {
        let mut out = BytesMut::new();
        for db in 0..DATABASES {
            if self.size(db) > 0 {
                Effect::Select(db).write(&mut out);
            }
            for (key, entry) in self.entries_of(db) {
                Effect::Put(key.clone(), entry.clone()).write(&mut out);
            }
        }
        out.freeze()
    }

    /// Gives up what is in memory for what a master has.
    pub(crate) fn load(&mut self, effects: Vec<Effect>, offset: u64) {
        // What stays as it is has not changed.
        let mut kept = Vec::new();
        let mut db = 0;
        for effect in &effects {
            match effect {
                Effect::Select(selected) => db = *selected,
                Effect::Put(key, _) => kept.push((db, key.clone())),
                _ => {}
            }
        }
        for db in 0..DATABASES {
            let keys: Vec<_> = self.entries_of(db).map(|(key, _)| key.clone()).collect();
            for key in keys {
                if !kept.contains(&(db, key.clone())) {
                    self.remove(db, &key, Cause::Replicated);
                }
            }
        }
        self.replication.copied_db = 0;
        for effect in effects {
            self.copy(effect);
        }
        self.replication.copied_db = 0;
        self.replication.offset = offset;
    }

    /// A replica says how far it is. Whoever waited for it is answered.
    fn acknowledged(&mut self, connection: u64, offset: u64, wall: u64) {
        let Some(replica) = self.replication.replicas.get_mut(&connection) else {
            return;
        };
        replica.acked = replica.acked.max(offset);
        replica.acked_at = wall / 1000;
        if !std::mem::replace(&mut replica.online, true) {
            self.replication.count_good(wall);
        }
        self.answer_waiters();
    }
}

/// REPLCONF: what a replica says of itself. It gets no answer to ACK.
pub(crate) fn replconf(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (pairs, rest) = call.args.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Reply::SYNTAX_ERROR);
    }
    for [name, value] in pairs {
        match name.to_ascii_lowercase().as_slice() {
            b"listening-port" | b"capa" => {}
            b"ip-address" => call.connection.announced = value.clone(),
            b"ack" => {
                let offset = parse_integer(value).and_then(|n| u64::try_from(n).ok());
                if let Some(offset) = offset {
                    call.machine
                        .acknowledged(call.connection.id, offset, call.wall);
                }
                return Ok(Reply::Sequence(Vec::new()));
            }
            _ => {
                let start = b"ERR Unrecognized REPLCONF option: ".as_slice();
                return Err(Reply::error([start, name].concat()));
            }
        }
    }
    Ok(Reply::OK)
}

/// PSYNC: makes the connection that of a replica. Always a full synchronisation.
pub(crate) fn psync(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (connection, host) = (call.connection.id, call.connection.announced.clone());
    let (offset, snapshot) =
        call.machine
            .attach(connection, host, call.wall)
            .ok_or(Reply::fixed_error(
                "NOMASTERLINK Can't SYNC while not connected with my master",
            ))?;
    let start = Reply::Array(vec![
        Reply::bulk("FULLRESYNC"),
        Reply::Bulk(offset.to_string().into()),
        Reply::Bulk(snapshot),
    ]);
    Ok(start)
}

/// REPLICAOF, and SLAVEOF.
pub(crate) fn replicaof(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (host, port) = (&call.args[0], &call.args[1]);
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        call.machine.follow(None, call.connection.id);
        return Ok(Reply::OK);
    }
    let number = parse_integer(port).filter(|port| (0..=65535).contains(port));
    if number.is_none() {
        return Err(Reply::fixed_error("ERR Invalid master port"));
    }
    if call.machine.replication.master() == Some(host) {
        return Ok(Reply::status("OK Already connected to specified master"));
    }
    call.machine.follow(Some(host.clone()), call.connection.id);
    Ok(Reply::OK)
}

pub(crate) fn role(call: &mut Call<'_>) -> Reply {
    call.machine.replication.role()
}
