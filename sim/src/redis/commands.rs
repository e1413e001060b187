//! How a request becomes a reply: the command is found, what Redis checks before running it is
//! checked, and it is run, or queued.
//!
//! The commands themselves are listed in `table.rs`.

use bytes::Bytes;

use super::connection::Connection;
use super::machine::Machine;
use super::reply::{Reply, until_nul};
use super::table::{ALL, Command, Kind, Run};
use super::{pubsub, scripts, transactions};

/// Who sent a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client, over its connection.
    Client,
    /// EXEC, which had it checked when it was queued.
    Transaction,
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
    /// The whole request.
    pub(crate) request: &'a [Bytes],
    /// The request without the command's name, and without its subcommand's.
    pub(crate) args: &'a [Bytes],
    pub(crate) wall: u64,
    /// The command's name as errors quote it.
    pub(crate) name: &'static str,
}

/// Executes a client's request, serves those who waited for what it wrote, and puts messages that
/// it sent to its own connection before the reply.
pub(crate) fn serve(
    machine: &mut Machine,
    request: &[Bytes],
    connection: &mut Connection,
    wall: u64,
) -> Reply {
    let reply = execute(machine, request, connection, wall, Origin::Client);
    if !machine.sessions.ready.is_empty() {
        machine.serve_blocked(wall);
    }
    with_messages(machine, connection, reply)
}

/// `reply`, after the messages that its command sent to its own connection.
pub(crate) fn with_messages(machine: &mut Machine, connection: &Connection, reply: Reply) -> Reply {
    if machine.sessions.outbox.is_empty() {
        return reply;
    }
    let mut all = machine.sessions.messages_for(connection.id);
    if all.is_empty() {
        return reply;
    }
    all.push(reply);
    Reply::Sequence(all)
}

/// Finds the command, checks what Redis checks before running it, and runs or queues it.
pub(crate) fn execute(
    machine: &mut Machine,
    request: &[Bytes],
    connection: &mut Connection,
    wall: u64,
    origin: Origin,
) -> Reply {
    let (command, args) = match lookup(request, origin) {
        Ok(found) => found,
        Err(error) if origin == Origin::Client => {
            let name = request.first().and_then(|word| name_of(word));
            return transactions::refused(machine, connection, name, error);
        }
        Err(error) => return error,
    };
    match origin {
        Origin::Script { read_only } => match command.kind {
            Kind::NoScript | Kind::Take | Kind::Script => {
                return Reply::fixed_error("ERR This Redis command is not allowed from script");
            }
            Kind::Write | Kind::Publish if read_only => {
                return Reply::fixed_error(
                    "ERR Write commands are not allowed from read-only scripts.",
                );
            }
            _ => {
                if let Some(error) = machine.replication.refusal(command.kind) {
                    return error;
                }
            }
        },
        Origin::Client => {
            if let Some(error) = pubsub::refusal(connection, command.name) {
                return transactions::refused(machine, connection, Some(command.name), error);
            }
            let kind = match (command.name, &connection.queue) {
                ("exec", Some(queue)) if queue.writes() => Kind::Write,
                _ => command.kind,
            };
            if let Some(error) = machine.replication.refusal(kind) {
                return transactions::refused(machine, connection, Some(command.name), error);
            }
            if transactions::enqueue(machine, connection, request, command.name) {
                return Reply::status("QUEUED");
            }
        }
        Origin::Transaction => {}
    }
    let mut call = Call {
        machine,
        connection,
        request,
        args,
        wall,
        name: command.name,
    };
    match command.run {
        Run::Plain(run) => run(&mut call),
        Run::Checked(run) => run(&mut call).unwrap_or_else(|error| error),
        Run::Container(_) => unreachable!("without a subcommand it fails its arity"),
    }
}

/// The command that a request names, and its arguments.
pub(crate) fn lookup(
    request: &[Bytes],
    origin: Origin,
) -> Result<(&'static Command, &[Bytes]), Reply> {
    let Some((name, mut args)) = request.split_first() else {
        return Err(Reply::error("ERR empty request"));
    };
    let scripted = matches!(origin, Origin::Script { .. });
    let Some(mut command) = find(ALL, "", name) else {
        return Err(if scripted {
            Reply::fixed_error("ERR Unknown Redis command called from script")
        } else {
            unknown(name, args)
        });
    };
    if let (Run::Container(commands), Some((word, rest))) = (&command.run, args.split_first()) {
        match find(commands, command.name, word) {
            Some(inner) => (command, args) = (inner, rest),
            None => return Err(unknown_subcommand(word, command.name, scripted)),
        }
    }
    let words = i32::try_from(request.len()).unwrap_or(i32::MAX);
    if (command.arity >= 0 && words != command.arity) || words < -command.arity {
        return Err(if scripted {
            Reply::fixed_error("ERR Wrong number of args calling Redis command from script")
        } else {
            wrong_arity(command.name)
        });
    }
    Ok((command, args))
}

/// What a command answers that has too few or too many arguments.
pub(crate) fn wrong_arity(name: &str) -> Reply {
    Reply::error(format!(
        "ERR wrong number of arguments for '{name}' command"
    ))
}

/// Whether `request` names a command, and a subcommand where there has to be one.
pub(crate) fn exists(request: &[Bytes]) -> bool {
    let command = request.first().and_then(|name| find(ALL, "", name));
    match command.map(|command| (&command.run, command.name)) {
        None => false,
        Some((Run::Plain(_) | Run::Checked(_), _)) => true,
        Some((Run::Container(commands), name)) => request
            .get(1)
            .is_none_or(|word| find(commands, name, word).is_some()),
    }
}

impl Machine {
    /// Whether a request may write, or publish, which is held up together with writes. A script
    /// that has promised not to write is believed.
    pub(crate) fn may_write(&self, request: &[Bytes]) -> bool {
        let command = request.first().and_then(|name| find(ALL, "", name));
        command.is_some_and(|command| {
            let promises =
                command.kind == Kind::Script && scripts::is_read_only(self, command.name, request);
            command.kind.may_write() && !promises
        })
    }
}

/// The name under which a request's first word is known.
pub(crate) fn name_of(word: &[u8]) -> Option<&'static str> {
    find(ALL, "", word).map(|command| command.name)
}

/// Names are compared without regard to case. A subcommand's name in the table begins with its
/// container's and a bar.
pub(crate) fn find(
    commands: &'static [Command],
    container: &str,
    word: &[u8],
) -> Option<&'static Command> {
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

/// What a container answers to a word that is none of its subcommands.
pub(crate) fn unknown_subcommand(word: &[u8], container: &str, scripted: bool) -> Reply {
    if scripted {
        return Reply::fixed_error("ERR Unknown Redis command called from script");
    }
    let container = container.to_ascii_uppercase();
    let start = b"ERR unknown subcommand '".as_slice();
    let text = [
        start,
        first(128, word),
        b"'. Try ",
        container.as_bytes(),
        b" HELP.",
    ];
    Reply::error(text.concat())
}

impl Call<'_> {
    /// What a subcommand answers that has too many arguments without the table knowing.
    pub(crate) fn unknown_subcommand(&self) -> Reply {
        let container = self
            .name
            .split('|')
            .next()
            .unwrap_or_default()
            .to_ascii_uppercase();
        let text = [
            b"ERR unknown subcommand or wrong number of arguments for '",
            first(128, &self.request[1]),
            b"'. Try ",
            container.as_bytes(),
            b" HELP.",
        ];
        Reply::error(text.concat())
    }
}

/// The first `room` bytes of `text`, or fewer if it ends before.
fn first(room: usize, text: &[u8]) -> &[u8] {
    until_nul(&text[..text.len().min(room)])
}
