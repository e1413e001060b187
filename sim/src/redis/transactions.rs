//! MULTI and EXEC, and WATCH, which lets EXEC refuse.
//!
//! Queued commands run one after another without anybody in between. None is undone: a command
//! that fails leaves the others alone. A command that cannot even be queued makes EXEC refuse all.
//! See <https://redis.io/docs/latest/develop/using-commands/transactions/>.

use bytes::Bytes;

use super::commands::{self, Call, Origin};
use super::connection::Connection;
use super::machine::Machine;
use super::reply::Reply;
use super::sessions::Sessions;
use super::table::{ALL, Kind};

/// The commands that a connection has queued.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    requests: Vec<Vec<Bytes>>,
    /// One of them was refused.
    broken: bool,
}

impl Queue {
    pub(crate) fn length(&self) -> usize {
        self.requests.len()
    }

    /// Whether one of the commands is one that writes; a script is none.
    pub(crate) fn writes(&self) -> bool {
        let commands = self.requests.iter().filter_map(|words| words.first());
        commands
            .filter_map(|name| commands::find(ALL, "", name))
            .any(|command| matches!(command.kind, Kind::Write | Kind::Take))
    }

    /// Whether one of the commands may write. What a script promises does not count here.
    pub(crate) fn may_write(&self) -> bool {
        let commands = self.requests.iter().filter_map(|words| words.first());
        commands
            .filter_map(|name| commands::find(ALL, "", name))
            .any(|command| command.kind.may_write())
    }
}

/// Queues a request instead of executing it, if a transaction is open. Its own commands are
/// executed, and nothing is kept for a transaction that EXEC will refuse.
pub(crate) fn enqueue(
    machine: &Machine,
    connection: &mut Connection,
    request: &[Bytes],
    name: &str,
) -> bool {
    let Some(queue) = &mut connection.queue else {
        return false;
    };
    if matches!(
        name,
        "discard" | "exec" | "multi" | "quit" | "reset" | "watch"
    ) {
        return false;
    }
    if !queue.broken && !machine.sessions.is_dirty(connection.id) {
        queue.requests.push(request.to_vec());
    }
    true
}

/// Takes note of a request that was refused before it could be executed or queued. EXEC itself
/// cannot be refused without giving up the transaction.
pub(crate) fn refused(
    machine: &mut Machine,
    connection: &mut Connection,
    name: Option<&str>,
    error: Reply,
) -> Reply {
    if let Some(queue) = &mut connection.queue {
        queue.broken = true;
    }
    match error {
        Reply::Error(text) if name == Some("exec") => {
            close(machine, connection);
            let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
            Reply::error([b"EXECABORT Transaction discarded because of: ", text].concat())
        }
        error => error,
    }
}

/// Ends a transaction without executing it.
fn close(machine: &mut Machine, connection: &mut Connection) {
    connection.queue = None;
    let watched = std::mem::take(&mut connection.watched);
    machine.sessions.unwatch(connection.id, &watched);
}

impl Machine {
    /// Forgets a connection: what it listens to, watches, waits for and has queued. Its node says
    /// so when it is closed.
    pub fn disconnect(&mut self, connection: &mut Connection) {
        close(self, connection);
        super::pubsub::leave_all(&mut self.sessions, connection);
        self.sessions
            .blocked
            .retain(|blocked| !blocked.is_of(connection.id));
        self.sessions.outbox.retain(|(to, _)| *to != connection.id);
        self.replication.forget(connection.id);
    }
}

impl Machine {
    /// The process starts anew: no connection, nor what was set by one, survives that.
    pub fn restart(&mut self) {
        *self.sessions = Sessions::default();
        self.replication.restart();
    }
}

pub(crate) fn multi(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.connection.queue.is_some() {
        return Err(Reply::fixed_error("ERR MULTI calls can not be nested"));
    }
    call.connection.queue = Some(Queue::default());
    Ok(Reply::OK)
}

pub(crate) fn discard(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.connection.queue.is_none() {
        return Err(Reply::fixed_error("ERR DISCARD without MULTI"));
    }
    close(call.machine, call.connection);
    Ok(Reply::OK)
}

pub(crate) fn exec(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let Some(queue) = call.connection.queue.take() else {
        return Err(Reply::fixed_error("ERR EXEC without MULTI"));
    };
    let refuses = call.connection.watched.iter().any(|place| {
        // A key that has expired since it is watched need not have been deleted yet.
        let past = call.machine.is_past(place.0, &place.1, call.wall);
        past && !call
            .machine
            .sessions
            .watched_past(call.connection.id, place)
    });
    let refuses = refuses || call.machine.sessions.is_dirty(call.connection.id);
    close(call.machine, call.connection);
    if queue.broken {
        return Err(Reply::fixed_error(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if refuses {
        return Ok(Reply::NullArray);
    }
    call.connection.executing = true;
    let mut replies = Vec::with_capacity(queue.requests.len());
    for request in &queue.requests {
        let reply = commands::execute(
            call.machine,
            request,
            call.connection,
            call.wall,
            Origin::Transaction,
        );
        let reply = commands::with_messages(call.machine, call.connection, reply);
        replies.push((call.connection.protocol, reply));
    }
    call.connection.executing = false;
    let replies = replies.into_iter().map(|(protocol, reply)| {
        if protocol == call.connection.protocol {
            reply
        } else {
            // HELLO changed it meanwhile: each reply is written as soon as it is known.
            let reply = Box::new(reply);
            Reply::In { protocol, reply }
        }
    });
    Ok(Reply::Array(replies.collect()))
}

pub(crate) fn watch(call: &mut Call<'_>) -> Result<Reply, Reply> {
    if call.connection.queue.is_some() {
        return Err(Reply::fixed_error("ERR WATCH inside MULTI is not allowed"));
    }
    let db = call.connection.db;
    for key in call.args {
        let place = (db, key.clone());
        if call.connection.watched.contains(&place) {
            continue;
        }
        let past = call.machine.is_past(db, key, call.wall);
        call.machine
            .sessions
            .watch(call.connection.id, db, key, past);
        call.connection.watched.push(place);
    }
    Ok(Reply::OK)
}

pub(crate) fn unwatch(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let watched = std::mem::take(&mut call.connection.watched);
    call.machine.sessions.unwatch(call.connection.id, &watched);
    Ok(Reply::OK)
}
