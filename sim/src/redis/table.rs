//! The commands: what each is called, how many arguments it takes, who may send it.
//!
//! One line in [`ALL`] per command, sorted by name; the functions are in the file of their group.
//! Arities and kinds are those that `COMMAND INFO` of Redis 7.0.15 tells.

use super::commands::Call;
use super::reply::Reply;
use super::{
    blocking, clients, connection, expiry, hashes, keys, lists, pubsub, replication, scan, scripts,
    server, sets, strings, texts, transactions, zranges, zsets,
};

/// One line of a table of commands.
pub(crate) struct Command {
    /// In lower case.
    pub(crate) name: &'static str,
    /// How many words a request has: exactly, or if negative at least. A subcommand counts its
    /// container's name too.
    pub(crate) arity: i32,
    pub(crate) kind: Kind,
    pub(crate) run: Run,
}

/// The function behind a command.
pub(crate) enum Run {
    Plain(fn(&mut Call<'_>) -> Reply),
    /// As `Plain`; an error is a reply too.
    Checked(fn(&mut Call<'_>) -> Result<Reply, Reply>),
    /// The next word says which of these it is.
    Container(&'static [Command]),
}

/// What scripts may do with a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// Writes nothing, and yet no read-only script may call it.
    Publish,
    /// Concerns the connection or the scripts themselves; refused in a script.
    NoScript,
    /// Waits for an item to take; refused in a script.
    Take,
    /// Is a script, which may do anything else; refused in a script.
    Script,
}

impl Kind {
    /// Whether it is held up together with writes: publishing is, and every script.
    pub(crate) fn may_write(self) -> bool {
        match self {
            Self::Write | Self::Publish | Self::Take | Self::Script => true,
            Self::Read | Self::NoScript => false,
        }
    }
}

use Kind::{NoScript, Publish, Read, Script, Take, Write};

const fn plain(
    name: &'static str,
    arity: i32,
    kind: Kind,
    run: fn(&mut Call<'_>) -> Reply,
) -> Command {
    let run = Run::Plain(run);
    Command {
        name,
        arity,
        kind,
        run,
    }
}

const fn checked(
    name: &'static str,
    arity: i32,
    kind: Kind,
    run: fn(&mut Call<'_>) -> Result<Reply, Reply>,
) -> Command {
    let run = Run::Checked(run);
    Command {
        name,
        arity,
        kind,
        run,
    }
}

const fn container(name: &'static str, kind: Kind, commands: &'static [Command]) -> Command {
    let run = Run::Container(commands);
    Command {
        name,
        arity: -2,
        kind,
        run,
    }
}

/// Every command.
pub(crate) const ALL: &[Command] = &[
    checked("append", 3, Write, texts::append),
    plain("auth", -2, NoScript, connection::auth),
    checked("blmove", 6, Take, blocking::blmove),
    checked("blpop", -3, Take, blocking::blpop),
    checked("brpop", -3, Take, blocking::brpop),
    checked("brpoplpush", 4, Take, blocking::brpoplpush),
    checked("bzpopmax", -3, Take, blocking::bzpopmax),
    checked("bzpopmin", -3, Take, blocking::bzpopmin),
    container("client", NoScript, CLIENT),
    plain("command", -1, Read, server::command),
    container("config", NoScript, CONFIG),
    checked("copy", -3, Write, keys::copy),
    plain("dbsize", 1, Read, keys::dbsize),
    checked("decr", 2, Write, strings::decr),
    checked("decrby", 3, Write, strings::decrby),
    plain("del", -2, Write, keys::del),
    checked("discard", 1, NoScript, transactions::discard),
    plain("echo", 2, Read, connection::echo),
    plain("eval", -3, Script, scripts::eval),
    plain("evalsha", -3, Script, scripts::evalsha),
    checked("exec", 1, NoScript, transactions::exec),
    plain("exists", -2, Read, keys::exists),
    plain("expire", -3, Write, expiry::expire),
    plain("expireat", -3, Write, expiry::expireat),
    plain("expiretime", 2, Read, expiry::expiretime),
    plain("flushall", -1, Write, keys::flushall),
    plain("flushdb", -1, Write, keys::flushdb),
    checked("get", 2, Read, strings::get),
    checked("getdel", 2, Write, texts::getdel),
    checked("getex", -2, Write, texts::getex),
    checked("getset", 3, Write, texts::getset),
    checked("hdel", -3, Write, hashes::hdel),
    plain("hello", -1, NoScript, connection::hello),
    checked("hexists", 3, Read, hashes::hexists),
    checked("hget", 3, Read, hashes::hget),
    checked("hgetall", 2, Read, hashes::hgetall),
    checked("hincrby", 4, Write, hashes::hincrby),
    checked("hkeys", 2, Read, hashes::hkeys),
    checked("hlen", 2, Read, hashes::hlen),
    checked("hmget", -3, Read, hashes::hmget),
    checked("hmset", -4, Write, hashes::hmset),
    checked("hscan", -3, Read, scan::hscan),
    checked("hset", -4, Write, hashes::hset),
    checked("hsetnx", 4, Write, hashes::hsetnx),
    checked("hstrlen", 3, Read, hashes::hstrlen),
    checked("hvals", 2, Read, hashes::hvals),
    checked("incr", 2, Write, strings::incr),
    checked("incrby", 3, Write, strings::incrby),
    plain("info", -1, Read, server::info),
    plain("keys", 2, Read, scan::keys),
    checked("lindex", 3, Read, lists::lindex),
    checked("linsert", 5, Write, lists::linsert),
    checked("llen", 2, Read, lists::llen),
    checked("lmove", 5, Write, lists::lmove),
    checked("lpop", -2, Write, lists::lpop),
    checked("lpush", -3, Write, lists::lpush),
    checked("lpushx", -3, Write, lists::lpushx),
    checked("lrange", 4, Read, lists::lrange),
    checked("lrem", 4, Write, lists::lrem),
    checked("lset", 4, Write, lists::lset),
    checked("ltrim", 4, Write, lists::ltrim),
    plain("mget", -2, Read, texts::mget),
    checked("mset", -3, Write, texts::mset),
    checked("msetnx", -3, Write, texts::msetnx),
    checked("multi", 1, NoScript, transactions::multi),
    container("object", Read, OBJECT),
    plain("persist", 2, Write, expiry::persist),
    plain("pexpire", -3, Write, expiry::pexpire),
    plain("pexpireat", -3, Write, expiry::pexpireat),
    plain("pexpiretime", 2, Read, expiry::pexpiretime),
    plain("ping", -1, Read, connection::ping),
    checked("psetex", 4, Write, strings::psetex),
    plain("psubscribe", -2, NoScript, pubsub::psubscribe),
    checked("psync", -3, NoScript, replication::psync),
    plain("pttl", 2, Read, expiry::pttl),
    plain("publish", 3, Publish, pubsub::publish),
    container("pubsub", Read, PUBSUB),
    plain("punsubscribe", -1, NoScript, pubsub::punsubscribe),
    plain("quit", -1, NoScript, connection::quit),
    plain("randomkey", 1, Read, scan::randomkey),
    checked("rename", 3, Write, keys::rename),
    checked("renamenx", 3, Write, keys::renamenx),
    checked("replconf", -1, NoScript, replication::replconf),
    checked("replicaof", 3, NoScript, replication::replicaof),
    plain("reset", 1, NoScript, connection::reset),
    plain("role", 1, NoScript, replication::role),
    checked("rpop", -2, Write, lists::rpop),
    checked("rpoplpush", 3, Write, lists::rpoplpush),
    checked("rpush", -3, Write, lists::rpush),
    checked("rpushx", -3, Write, lists::rpushx),
    checked("sadd", -3, Write, sets::sadd),
    checked("scan", -2, Read, scan::scan),
    checked("scard", 2, Read, sets::scard),
    container("script", NoScript, SCRIPT),
    plain("select", 2, Read, connection::select),
    checked("set", -3, Write, strings::set),
    checked("setex", 4, Write, strings::setex),
    checked("setnx", 3, Write, strings::setnx),
    checked("sismember", 3, Read, sets::sismember),
    checked("slaveof", 3, NoScript, replication::replicaof),
    checked("smembers", 2, Read, sets::smembers),
    checked("smismember", -3, Read, sets::smismember),
    checked("spop", -2, Write, sets::spop),
    checked("srandmember", -2, Read, sets::srandmember),
    checked("srem", -3, Write, sets::srem),
    checked("sscan", -3, Read, scan::sscan),
    checked("strlen", 2, Read, texts::strlen),
    plain("subscribe", -2, NoScript, pubsub::subscribe),
    plain("time", 1, Read, connection::time),
    plain("touch", -2, Read, keys::exists),
    plain("ttl", 2, Read, expiry::ttl),
    plain("type", 2, Read, keys::kind),
    plain("unlink", -2, Write, keys::del),
    plain("unsubscribe", -1, NoScript, pubsub::unsubscribe),
    checked("unwatch", 1, NoScript, transactions::unwatch),
    checked("wait", 3, NoScript, blocking::wait),
    checked("watch", -2, NoScript, transactions::watch),
    checked("zadd", -4, Write, zsets::zadd),
    checked("zcard", 2, Read, zsets::zcard),
    checked("zcount", 4, Read, zranges::zcount),
    checked("zincrby", 4, Write, zsets::zincrby),
    checked("zmscore", -3, Read, zsets::zmscore),
    checked("zpopmax", -2, Write, zsets::zpopmax),
    checked("zpopmin", -2, Write, zsets::zpopmin),
    checked("zrange", -4, Read, zranges::zrange),
    checked("zrangebyscore", -4, Read, zranges::zrange),
    checked("zrank", 3, Read, zsets::zrank),
    checked("zrem", -3, Write, zsets::zrem),
    checked("zremrangebyrank", 4, Write, zranges::zremrangebyrank),
    checked("zremrangebyscore", 4, Write, zranges::zremrangebyscore),
    checked("zrevrange", -4, Read, zranges::zrange),
    checked("zrevrangebyscore", -4, Read, zranges::zrange),
    checked("zrevrank", 3, Read, zsets::zrevrank),
    checked("zscan", -3, Read, scan::zscan),
    checked("zscore", 3, Read, zsets::zscore),
];

const CLIENT: &[Command] = &[
    plain("client|getname", 2, NoScript, clients::getname),
    plain("client|id", 2, NoScript, clients::id),
    plain("client|info", 2, NoScript, clients::info),
    checked("client|pause", -3, NoScript, clients::pause),
    plain("client|setinfo", 4, NoScript, clients::setinfo),
    plain("client|setname", 3, NoScript, clients::setname),
    plain("client|unpause", 2, NoScript, clients::unpause),
];

const CONFIG: &[Command] = &[
    plain("config|get", -3, NoScript, server::config_get),
    plain("config|resetstat", 2, NoScript, server::config_resetstat),
    checked("config|set", -4, NoScript, server::config_set),
];

const OBJECT: &[Command] = &[plain("object|encoding", 3, Read, server::object_encoding)];

const PUBSUB: &[Command] = &[
    plain("pubsub|channels", -2, Read, pubsub::channels),
    plain("pubsub|numpat", 2, Read, pubsub::numpat),
    plain("pubsub|numsub", -2, Read, pubsub::numsub),
];

const SCRIPT: &[Command] = &[
    plain("script|exists", -3, NoScript, scripts::exists),
    plain("script|flush", -2, NoScript, scripts::flush),
    plain("script|kill", 2, NoScript, scripts::kill),
    plain("script|load", 3, NoScript, scripts::load),
];

#[cfg(test)]
mod tests {
    use super::super::commands::find;
    use super::*;

    #[test]
    fn every_table_is_sorted_and_finds_its_commands() {
        let mut tables = vec![(ALL, "")];
        for command in ALL {
            if let Run::Container(commands) = command.run {
                tables.push((commands, command.name));
            }
        }
        for (commands, container) in tables {
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
