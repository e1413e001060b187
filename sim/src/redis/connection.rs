//! A client's connection as the server sees it, and the commands that concern it alone.
//! See <https://redis.io/docs/latest/commands/?group=connection>.

use bytes::Bytes;

use super::commands::Call;
use super::machine::DATABASES;
use super::numbers::parse_integer;
use super::reply::{Reply, until_nul};
use super::transactions::Queue;

/// What the server remembers about one connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The number `CLIENT ID` answers: counted up by the node, never used twice by a server.
    pub id: u64,
    /// How replies are written.
    pub protocol: Protocol,
    /// What `CLIENT SETNAME` said; empty at first.
    pub name: Bytes,
    /// The selected database.
    pub db: usize,
    /// The commands queued since MULTI.
    pub(crate) queue: Option<Queue>,
    /// EXEC is executing them, so none may wait.
    pub(crate) executing: bool,
    /// What WATCH named.
    pub(crate) watched: Vec<(usize, Bytes)>,
    /// What it listens to, in the order of subscription.
    pub(crate) channels: Vec<Bytes>,
    pub(crate) patterns: Vec<Bytes>,
    /// How much of the stream of replication there was after its last command: what WAIT asks for.
    pub(crate) seen: u64,
    /// What a replica says it is called.
    pub(crate) announced: Bytes,
}

/// A version of the wire format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What a connection starts with.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

impl Connection {
    /// A connection just accepted.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self {
            id,
            protocol: Protocol::Resp2,
            name: Bytes::new(),
            db: 0,
            queue: None,
            executing: false,
            watched: Vec::new(),
            channels: Vec::new(),
            patterns: Vec::new(),
            seen: 0,
            announced: Bytes::new(),
        }
    }
}

/// Over RESP2 a connection that listens gets an answer which looks like a message.
pub(crate) fn ping(call: &mut Call<'_>) -> Reply {
    let Connection {
        protocol,
        channels,
        patterns,
        ..
    } = &call.connection;
    let listens = !channels.is_empty() || !patterns.is_empty();
    match call.args {
        [] | [_] if listens && *protocol == Protocol::Resp2 => {
            let message = call.args.first().cloned().unwrap_or_default();
            Reply::Array(vec![Reply::bulk("pong"), Reply::Bulk(message)])
        }
        [] => Reply::status("PONG"),
        [message] => Reply::Bulk(message.clone()),
        _ => Reply::fixed_error("ERR wrong number of arguments for 'ping' command"),
    }
}

pub(crate) fn echo(call: &mut Call<'_>) -> Reply {
    Reply::Bulk(call.args[0].clone())
}

/// Microseconds are those of a clock that counts milliseconds.
pub(crate) fn time(call: &mut Call<'_>) -> Reply {
    let (seconds, micros) = (call.wall / 1000, call.wall % 1000 * 1000);
    let bulk = |number: u64| Reply::Bulk(Bytes::from(number.to_string()));
    Reply::Array(vec![bulk(seconds), bulk(micros)])
}

pub(crate) fn quit(_: &mut Call<'_>) -> Reply {
    Reply::Close
}

pub(crate) fn reset(call: &mut Call<'_>) -> Reply {
    call.machine.disconnect(call.connection);
    *call.connection = Connection::new(call.connection.id);
    Reply::status("RESET")
}

pub(crate) fn select(call: &mut Call<'_>) -> Reply {
    let Some(db) = parse_integer(&call.args[0]) else {
        return Reply::NOT_AN_INTEGER;
    };
    match database(db) {
        Ok(db) => {
            call.connection.db = db;
            Reply::OK
        }
        Err(error) => error,
    }
}

/// A database by its number.
pub(crate) fn database(number: i64) -> Result<usize, Reply> {
    if i32::try_from(number).is_err() {
        return Err(Reply::fixed_error(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let db = usize::try_from(number).ok().filter(|db| *db < DATABASES);
    db.ok_or(Reply::fixed_error("ERR DB index is out of range"))
}

pub(crate) fn auth(call: &mut Call<'_>) -> Reply {
    match call.args {
        [_] => Reply::fixed_error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ),
        [user, _] => log_in(user).err().unwrap_or(Reply::OK),
        _ => Reply::SYNTAX_ERROR,
    }
}

/// The only user is the default one, who has no password: any will do.
fn log_in(user: &[u8]) -> Result<(), Reply> {
    if user == b"default" {
        Ok(())
    } else {
        Err(Reply::fixed_error(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ))
    }
}

pub(crate) fn rename(connection: &mut Connection, name: &Bytes) -> Result<(), Reply> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        connection.name = name.clone();
        Ok(())
    } else {
        Err(Reply::fixed_error(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ))
    }
}

/// Options before a wrong one have taken effect; the protocol changes only if all are right.
pub(crate) fn hello(call: &mut Call<'_>) -> Reply {
    let mut protocol = call.connection.protocol;
    if let Some((version, mut options)) = call.args.split_first() {
        protocol = match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Reply::fixed_error("NOPROTO unsupported protocol version"),
            None => {
                return Reply::fixed_error(
                    "ERR Protocol version is not an integer or out of range",
                );
            }
        };
        while let Some((word, rest)) = options.split_first() {
            let done = match rest {
                [user, _, rest @ ..] if word.eq_ignore_ascii_case(b"auth") => {
                    options = rest;
                    log_in(user)
                }
                [name, rest @ ..] if word.eq_ignore_ascii_case(b"setname") => {
                    options = rest;
                    rename(call.connection, name)
                }
                _ => Err(Reply::error(
                    [b"ERR Syntax error in HELLO option '", until_nul(word), b"'"].concat(),
                )),
            };
            if let Err(error) = done {
                return error;
            }
        }
    }
    call.connection.protocol = protocol;
    let version = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let id = i64::try_from(call.connection.id).unwrap_or(i64::MAX);
    Reply::Map(vec![
        (Reply::bulk("server"), Reply::bulk("redis")),
        (Reply::bulk("version"), Reply::bulk("7.0.15")),
        (Reply::bulk("proto"), Reply::Integer(version)),
        (Reply::bulk("id"), Reply::Integer(id)),
        (Reply::bulk("mode"), Reply::bulk("standalone")),
        (Reply::bulk("role"), Reply::bulk("master")),
        (Reply::bulk("modules"), Reply::Array(Vec::new())),
    ])
}
