//! The commands: what each is called, how many arguments it takes, who may send it.
//!
//! One line in [`ALL`] per command, sorted by name; the functions are in the file of their group.

use bytes::Bytes;

use super::connection::{self, Connection};
use super::machine::Machine;
use super::reply::{Reply, until_nul};
use super::{keys, scripts, strings};

/// Who sent a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client, over its connection.
    Client,
    /// A script, by `redis.call` or `redis.pcall`.
    Script {
        /// The script has promised not to write.
        read_only: bool,
    },
}

/// One command being executed.
pub(crate) struct Call<'a> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) connection: &'a mut Connection,
    /// The request without the command's name, and without its subcommand's.
    pub(crate) args: &'a [Bytes],
    pub(crate) wall: u64,
    /// The command's name as errors quote it.
    pub(crate) name: &'static str,
}

/// One line of a table of commands.
pub(crate) struct Command {
    /// In lower case.
    name: &'static str,
    /// How many words a request has: exactly, or if negative at least. A subcommand counts its
    /// container's name too.
    arity: i32,
    kind: Kind,
    run: Run,
}

enum Run {
    Plain(fn(&mut Call<'_>) -> Reply),
    /// The next word says which of these it is.
    Container(&'static [Command]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    /// Concerns the connection or the scripts themselves; refused in a script.
    NoScript,
}

use Kind::{NoScript, Read, Write};

const fn plain(
    name: &'static str,
    arity: i32,
    kind: Kind,
    run: fn(&mut Call<'_>) -> Reply,
) -> Command {
    Command {
        name,
        arity,
        kind,
        run: Run::Plain(run),
    }
}

const fn container(name: &'static str, kind: Kind, commands: &'static [Command]) -> Command {
    Command {
        name,
        arity: -2,
        kind,
        run: Run::Container(commands),
    }
}

/// Every command.
pub(crate) const ALL: &[Command] = &[
    plain("auth", -2, NoScript, connection::auth),
    container("client", NoScript, CLIENT),
    plain("command", -1, Read, connection::command),
    plain("dbsize", 1, Read, keys::dbsize),
    plain("decr", 2, Write, strings::decr),
    plain("decrby", 3, Write, strings::decrby),
    plain("del", -2, Write, keys::del),
    plain("echo", 2, Read, connection::echo),
    plain("eval", -3, NoScript, scripts::eval),
    plain("evalsha", -3, NoScript, scripts::evalsha),
    plain("exists", -2, Read, keys::exists),
    plain("expire", -3, Write, keys::expire),
    plain("expireat", -3, Write, keys::expireat),
    plain("flushall", -1, Write, keys::flushall),
    plain("flushdb", -1, Write, keys::flushdb),
    plain("get", 2, Read, strings::get),
    plain("hello", -1, NoScript, connection::hello),
    plain("incr", 2, Write, strings::incr),
    plain("incrby", 3, Write, strings::incrby),
    plain("persist", 2, Write, keys::persist),
    plain("pexpire", -3, Write, keys::pexpire),
    plain("pexpireat", -3, Write, keys::pexpireat),
    plain("ping", -1, Read, connection::ping),
    plain("pttl", 2, Read, keys::pttl),
    plain("quit", -1, NoScript, connection::quit),
    plain("reset", 1, NoScript, connection::reset),
    container("script", NoScript, SCRIPT),
    plain("select", 2, Read, connection::select),
    plain("set", -3, Write, strings::set),
    plain("setnx", 3, Write, strings::setnx),
    plain("time", 1, Read, connection::time),
    plain("ttl", 2, Read, keys::ttl),
    plain("type", 2, Read, keys::kind),
    plain("unlink", -2, Write, keys::del),
];

const CLIENT: &[Command] = &[
    plain("client|getname", 2, NoScript, connection::client_getname),
    plain("client|id", 2, NoScript, connection::client_id),
    plain("client|setinfo", 4, NoScript, connection::client_setinfo),
    plain("client|setname", 3, NoScript, connection::client_setname),
];

const SCRIPT: &[Command] = &[
    plain("script|exists", -3, NoScript, scripts::exists),
    plain("script|flush", -2, NoScript, scripts::flush),
    plain("script|kill", 2, NoScript, scripts::kill),
    plain("script|load", 3, NoScript, scripts::load),
];

/// Finds the command, checks what Redis checks before running it, and runs it.
pub(crate) fn execute(
    machine: &mut Machine,
    request: &[Bytes],
    connection: &mut Connection,
    wall: u64,
    origin: Origin,
) -> Reply {
    let Some((name, mut args)) = request.split_first() else {
        return Reply::error("ERR empty request");
    };
    let Some(mut command) = find(ALL, "", name) else {
        return match origin {
            Origin::Client => unknown(name, args),
            Origin::Script { .. } => {
                Reply::fixed_error("ERR Unknown Redis command called from script")
            }
        };
    };
    if let (Run::Container(commands), Some((word, rest))) = (&command.run, args.split_first()) {
        match find(commands, command.name, word) {
            Some(inner) => (command, args) = (inner, rest),
            None => return unknown_subcommand(word, command, origin),
        }
    }
    let words = i32::try_from(request.len()).unwrap_or(i32::MAX);
    if (command.arity >= 0 && words != command.arity) || words < -command.arity {
        return match origin {
            Origin::Client => Reply::error(format!(
                "ERR wrong number of arguments for '{}' command",
                command.name
            )),
            Origin::Script { .. } => {
                Reply::fixed_error("ERR Wrong number of args calling Redis command from script")
            }
        };
    }
    if let Origin::Script { read_only } = origin {
        match command.kind {
            NoScript => {
                return Reply::fixed_error("ERR This Redis command is not allowed from script");
            }
            Write if read_only => {
                return Reply::fixed_error(
                    "ERR Write commands are not allowed from read-only scripts.",
                );
            }
            Read | Write => {}
        }
    }
    match command.run {
        Run::Plain(run) => {
            let name = command.name;
            run(&mut Call {
                machine,
                connection,
                args,
                wall,
                name,
            })
        }
        Run::Container(_) => unreachable!("without a subcommand it fails its arity"),
    }
}

/// Whether `request` names a command, and a subcommand where there has to be one.
pub(crate) fn exists(request: &[Bytes]) -> bool {
    let command = request.first().and_then(|name| find(ALL, "", name));
    match command.map(|command| (&command.run, command.name)) {
        None => false,
        Some((Run::Plain(_), _)) => true,
        Some((Run::Container(commands), name)) => request
            .get(1)
            .is_none_or(|word| find(commands, name, word).is_some()),
    }
}

/// The name under which a request's first word is known.
pub(crate) fn name_of(word: &[u8]) -> Option<&'static str> {
    find(ALL, "", word).map(|command| command.name)
}

/// Names are compared without regard to case. A subcommand's name in the table begins with its
/// container's and a bar.
fn find(commands: &'static [Command], container: &str, word: &[u8]) -> Option<&'static Command> {
    let skip = if container.is_empty() {
        0
    } else {
        container.len() + 1
    };
    let ordering = |command: &Command| {
        let name = command.name.as_bytes()[skip..].iter().copied();
        name.cmp(word.iter().map(u8::to_ascii_lowercase))
    };
    commands
        .binary_search_by(ordering)
        .ok()
        .map(|index| &commands[index])
}

fn unknown(name: &[u8], args: &[Bytes]) -> Reply {
    /// How much of the client's words an error repeats.
    const LIMIT: usize = 128;
    let mut quoted = Vec::new();
    for arg in args {
        if quoted.len() >= LIMIT {
            break;
        }
        let room = LIMIT - quoted.len();
        quoted.push(b'\'');
        quoted.extend_from_slice(first(room, arg));
        quoted.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(first(LIMIT, name));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&quoted);
    Reply::error(text)
}

fn unknown_subcommand(word: &[u8], container: &Command, origin: Origin) -> Reply {
    if matches!(origin, Origin::Script { .. }) {
        return Reply::fixed_error("ERR Unknown Redis command called from script");
    }
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(first(128, word));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(container.name.to_ascii_uppercase().as_bytes());
    text.extend_from_slice(b" HELP.");
    Reply::error(text)
}

/// The first `room` bytes of `text`, or fewer if it ends before.
fn first(room: usize, text: &[u8]) -> &[u8] {
    until_nul(&text[..text.len().min(room)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_sorted_and_finds_its_commands() {
        for (commands, container) in [(ALL, ""), (CLIENT, "client"), (SCRIPT, "script")] {
            assert!(commands.is_sorted_by_key(|command| command.name));
            for command in commands {
                let word = command
                    .name
                    .rsplit('|')
                    .next()
                    .unwrap()
                    .to_ascii_uppercase();
                let found = find(commands, container, word.as_bytes()).unwrap();
                assert_eq!(found.name, command.name);
            }
        }
    }
}
