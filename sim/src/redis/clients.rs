//! The CLIENT commands: what a connection is called, and holding everybody up.
//!
//! While clients are paused no key is deleted by expiry, and yet none can be read past its deadline.
//! The node asks [`Machine::held_until`] before it executes a request.
//! See <https://redis.io/docs/latest/commands/client-pause/>.
//!
//! Deliberately absent: LIST, KILL, TRACKING, REPLY, UNBLOCK and the rest.

use bytes::Bytes;

use super::commands::{self, Call, Origin};
use super::connection::{Connection, Protocol, rename};
use super::machine::Machine;
use super::numbers::parse_integer;
use super::pubsub;
use super::reply::{Reply, until_nul};
use super::sessions::Pause;
use super::transactions::Queue;

pub(crate) fn id(call: &mut Call<'_>) -> Reply {
    Reply::Integer(i64::try_from(call.connection.id).unwrap_or(i64::MAX))
}

pub(crate) fn getname(call: &mut Call<'_>) -> Reply {
    if call.connection.name.is_empty() {
        Reply::Null
    } else {
        Reply::Bulk(call.connection.name.clone())
    }
}

pub(crate) fn setname(call: &mut Call<'_>) -> Reply {
    rename(call.connection, &call.args[0])
        .err()
        .unwrap_or(Reply::OK)
}

/// Accepted and forgotten: nothing here can ask for it again.
pub(crate) fn setinfo(call: &mut Call<'_>) -> Reply {
    let attribute = &call.args[0];
    if [b"lib-name".as_slice(), b"lib-ver"]
        .iter()
        .any(|known| attribute.eq_ignore_ascii_case(known))
    {
        Reply::OK
    } else {
        Reply::error([b"ERR Unrecognized option '", until_nul(attribute), b"'"].concat())
    }
}

/// The fields that are modelled, in the order in which a real server writes them.
pub(crate) fn info(call: &mut Call<'_>) -> Reply {
    let Connection {
        id,
        protocol,
        name,
        db,
        queue,
        channels,
        patterns,
        ..
    } = &call.connection;
    let name = String::from_utf8_lossy(name);
    let queued = queue
        .as_ref()
        .map_or("-1".to_owned(), |queue| queue.length().to_string());
    let (subscribed, psubscribed) = (channels.len(), patterns.len());
    let version = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let text = format!(
        "id={id} name={name} db={db} sub={subscribed} psub={psubscribed} multi={queued} \
         cmd=client|info user=default resp={version}\n"
    );
    Reply::Verbatim {
        format: Bytes::from_static(b"txt"),
        text: text.into(),
    }
}

/// A later end wins over an earlier one, and a pause of everything over one of writes.
pub(crate) fn pause(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let all = match &call.args[1..] {
        [] => true,
        [mode] if mode.eq_ignore_ascii_case(b"all") => true,
        [mode] if mode.eq_ignore_ascii_case(b"write") => false,
        [_] => {
            return Err(Reply::fixed_error(
                "ERR CLIENT PAUSE mode must be WRITE or ALL",
            ));
        }
        _ => return Err(call.unknown_subcommand()),
    };
    let millis = parse_integer(&call.args[0]).ok_or(Reply::fixed_error(
        "ERR timeout is not an integer or out of range",
    ))?;
    let millis =
        u64::try_from(millis).map_err(|_| Reply::fixed_error("ERR timeout is negative"))?;
    let until = call.wall.saturating_add(millis);
    let running = call
        .machine
        .sessions
        .pause
        .filter(|pause| pause.until > call.wall);
    call.machine.sessions.pause = Some(Pause {
        until: running.map_or(until, |pause| pause.until.max(until)),
        all: all || running.is_some_and(|pause| pause.all),
    });
    Ok(Reply::OK)
}

pub(crate) fn unpause(call: &mut Call<'_>) -> Reply {
    call.machine.sessions.pause = None;
    Reply::OK
}

impl Machine {
    /// Until when this request has to wait, because clients are paused. Its node must then try
    /// again, whenever the pause is over.
    #[must_use]
    pub fn held_until(&self, request: &[Bytes], connection: &Connection, wall: u64) -> Option<u64> {
        let pause = self.sessions.pause.filter(|pause| pause.until > wall)?;
        let queued = connection.queue.as_ref();
        // What is refused anyway is not held up.
        let (command, _) = commands::lookup(request, Origin::Client).ok()?;
        if pubsub::refusal(connection, command.name).is_some() {
            return None;
        }
        let held = match command.name {
            _ if pause.all => true,
            "exec" => queued.is_some_and(Queue::may_write),
            _ => self.may_write(request),
        };
        held.then_some(pause.until)
    }

    /// The wall clock at which a pause of the clients is over.
    pub(crate) fn pause_ends(&self, wall: u64) -> Option<u64> {
        let pause = self.sessions.pause?;
        Some(pause.until.max(wall))
    }

    /// Forgets a pause that is over, and says whether there was one.
    pub(crate) fn end_pause(&mut self, wall: u64) -> bool {
        let over = self.sessions.pause.is_some() && !self.is_paused(wall);
        if over {
            self.sessions.pause = None;
        }
        over
    }

    /// Whether clients are paused.
    pub(crate) fn is_paused(&self, wall: u64) -> bool {
        self.sessions.pause.is_some_and(|pause| pause.until > wall)
    }
}
