//! What locks depend on, one fact per test.

use bytes::Bytes;
use sim::redis::{Cause, Change, Connection, Entry, Machine, Reply, Value};

/// One server, one client, and a wall clock that goes where the test says.
struct Server {
    machine: Machine,
    connection: Connection,
    wall: u64,
}

impl Server {
    fn at(wall: u64) -> Self {
        Self {
            machine: Machine::new(),
            connection: Connection::new(1),
            wall,
        }
    }

    fn ask(&mut self, line: &str) -> Reply {
        let words: Vec<_> = line
            .split(' ')
            .map(|word| Bytes::from(word.to_owned()))
            .collect();
        self.machine
            .execute(&words, &mut self.connection, self.wall)
    }

    fn eval(&mut self, script: &str, keys: &[&str], args: &[&str]) -> Reply {
        let count = keys.len().to_string();
        let words = ["EVAL", script, &count]
            .into_iter()
            .chain(keys.iter().copied());
        let words: Vec<_> = words
            .chain(args.iter().copied())
            .map(|word| Bytes::from(word.to_owned()))
            .collect();
        self.machine
            .execute(&words, &mut self.connection, self.wall)
    }
}

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from_static(text.as_bytes()))
}

fn entry(value: &'static str, deadline: Option<u64>) -> Option<Entry> {
    Some(Entry {
        value: Value::String(Bytes::from_static(value.as_bytes())),
        deadline,
    })
}

fn change(key: &'static str, before: Option<Entry>, after: Option<Entry>, cause: Cause) -> Change {
    Change {
        db: 0,
        key: Bytes::from_static(key.as_bytes()),
        before,
        after,
        cause,
    }
}

// Expiry ----------------------------------------------------------------------------------------

#[test]
fn a_key_is_readable_at_its_deadline_and_gone_a_millisecond_later() {
    let mut server = Server::at(1000);
    server.ask("SET k v PX 500");
    server.wall = 1500;
    assert_eq!(server.ask("GET k"), bulk("v"));
    assert_eq!(server.ask("PTTL k"), Reply::Integer(0));
    server.wall = 1501;
    assert_eq!(server.ask("GET k"), Reply::Null);
}

#[test]
fn the_active_cycle_deletes_at_the_deadline_itself() {
    let mut server = Server::at(1000);
    server.ask("SET k v PX 500");
    server.machine.take_changes();
    assert_eq!(server.machine.next_deadline(), Some(1500));
    server.machine.expire_due(1499);
    assert_eq!(server.machine.take_changes(), []);
    server.machine.expire_due(1500);
    let expired = change("k", entry("v", Some(1500)), None, Cause::Expiry);
    assert_eq!(server.machine.take_changes(), [expired]);
    assert_eq!(server.machine.next_deadline(), None);
}

#[test]
fn reading_an_expired_key_deletes_it() {
    for read in [
        "GET k",
        "EXISTS k",
        "TTL k",
        "TYPE k",
        "DEL k",
        "PERSIST k",
        "EXPIRE k 5",
    ] {
        let mut server = Server::at(1000);
        server.ask("SET k v PX 500");
        server.machine.take_changes();
        server.wall = 2000;
        assert_eq!(server.ask("DBSIZE"), Reply::Integer(1), "still in memory");
        server.ask(read);
        let expired = change("k", entry("v", Some(1500)), None, Cause::Expiry);
        assert_eq!(server.machine.take_changes(), [expired], "{read}");
        assert_eq!(server.ask("DBSIZE"), Reply::Integer(0));
    }
}

#[test]
fn an_expired_key_counts_as_absent_for_conditions() {
    let mut server = Server::at(1000);
    server.ask("SET k v PX 500");
    server.wall = 1501;
    assert_eq!(server.ask("SET k w XX"), Reply::Null);
    server.ask("SET k v PX 500");
    server.wall = 3000;
    server.machine.take_changes();
    assert_eq!(server.ask("SET k w NX"), Reply::OK);
    let gone = change("k", entry("v", Some(2001)), None, Cause::Expiry);
    let made = change("k", None, entry("w", None), Cause::Command);
    assert_eq!(
        server.machine.take_changes(),
        [gone, made],
        "two holders, in this order"
    );
}

#[test]
fn a_clock_set_forward_ends_a_lease_at_once() {
    let mut server = Server::at(1_000_000);
    server.ask("SET lock me NX PX 30000");
    server.wall += 60_000;
    assert_eq!(server.ask("SET lock you NX PX 30000"), Reply::OK);
}

#[test]
fn a_clock_set_back_lengthens_a_lease() {
    let mut server = Server::at(1_000_000);
    server.ask("SET lock me NX PX 30000");
    server.wall -= 120_000;
    assert_eq!(server.ask("PTTL lock"), Reply::Integer(150_000));
}

#[test]
fn a_clock_set_back_revives_a_key_that_is_not_yet_deleted() {
    let mut server = Server::at(1000);
    server.ask("SET k v PX 500");
    server.wall = 2000;
    server.wall = 1200;
    assert_eq!(server.ask("GET k"), bulk("v"));
    server.wall = 2000;
    assert_eq!(server.ask("GET k"), Reply::Null);
    server.wall = 1200;
    assert_eq!(server.ask("GET k"), Reply::Null, "deleted is deleted");
}

#[test]
fn a_deadline_that_is_not_in_the_future_deletes_and_counts_as_success() {
    for command in [
        "EXPIRE k 0",
        "PEXPIRE k 0",
        "EXPIRE k -5",
        "PEXPIREAT k 1000",
        "EXPIREAT k 1",
    ] {
        let mut server = Server::at(1000);
        server.ask("SET k v");
        server.machine.take_changes();
        assert_eq!(server.ask(command), Reply::Integer(1), "{command}");
        let deleted = change("k", entry("v", None), None, Cause::Command);
        assert_eq!(server.machine.take_changes(), [deleted], "{command}");
    }
}

#[test]
fn expire_can_shorten_and_lengthen() {
    let mut server = Server::at(0);
    server.ask("SET k v PX 1000");
    assert_eq!(server.ask("PEXPIRE k 10"), Reply::Integer(1));
    assert_eq!(server.ask("PTTL k"), Reply::Integer(10));
    assert_eq!(server.ask("PEXPIRE k 5000"), Reply::Integer(1));
    assert_eq!(
        server.machine.next_deadline(),
        Some(5000),
        "old deadlines are forgotten"
    );
}

// Conditions ------------------------------------------------------------------------------------

#[test]
fn a_refused_set_leaves_the_lease_alone() {
    let mut server = Server::at(0);
    server.ask("SET lock me NX PX 30000");
    server.machine.take_changes();
    server.wall = 10_000;
    assert_eq!(server.ask("SET lock you NX PX 30000"), Reply::Null);
    assert_eq!(server.ask("PTTL lock"), Reply::Integer(20_000));
    assert_eq!(server.machine.take_changes(), []);
}

#[test]
fn a_plain_set_clears_the_deadline() {
    let mut server = Server::at(0);
    server.ask("SET k v PX 30000");
    server.ask("SET k v");
    assert_eq!(server.ask("TTL k"), Reply::Integer(-1));
    assert_eq!(server.machine.next_deadline(), None);
}

#[test]
fn incr_keeps_the_deadline() {
    let mut server = Server::at(0);
    server.ask("SET n 1 PX 30000");
    assert_eq!(server.ask("INCR n"), Reply::Integer(2));
    assert_eq!(server.ask("PTTL n"), Reply::Integer(30_000));
}

// Changes ---------------------------------------------------------------------------------------

#[test]
fn a_write_that_changes_nothing_is_no_change() {
    let mut server = Server::at(0);
    server.ask("SET k v");
    server.machine.take_changes();
    server.ask("SET k v");
    assert_eq!(server.machine.take_changes(), []);
}

#[test]
fn databases_are_apart_and_flushall_reaches_all() {
    let mut server = Server::at(0);
    server.ask("SET k zero");
    server.ask("SELECT 9");
    assert_eq!(server.ask("GET k"), Reply::Null);
    server.ask("SET k nine PX 100");
    server.machine.take_changes();
    server.ask("FLUSHALL");
    let changed: Vec<_> = server
        .machine
        .take_changes()
        .into_iter()
        .map(|change| (change.db, change.after))
        .collect();
    assert_eq!(changed, [(0, None), (9, None)]);
    assert_eq!(server.machine.next_deadline(), None);
}

#[test]
fn quit_closes_and_reset_forgets() {
    let mut server = Server::at(0);
    server.ask("CLIENT SETNAME me");
    server.ask("SELECT 3");
    server.ask("HELLO 3");
    server.ask("RESET");
    assert_eq!(server.ask("CLIENT GETNAME"), Reply::Null);
    assert_eq!((server.connection.db, server.connection.id), (0, 1));
    assert_eq!(server.connection.protocol, sim::redis::Protocol::Resp2);
    assert_eq!(server.ask("QUIT"), Reply::Close);
}

#[test]
fn client_libraries_may_introduce_themselves() {
    let mut server = Server::at(0);
    assert_eq!(server.ask("CLIENT SETINFO LIB-NAME redis-rs"), Reply::OK);
    assert_eq!(server.ask("CLIENT SETINFO lib-ver 1.8"), Reply::OK);
    assert!(server.ask("CLIENT SETINFO shoe-size 42").is_error());
    let Reply::Array(commands) = server.ask("COMMAND") else {
        panic!("not a list of commands")
    };
    assert_eq!(
        server.ask("COMMAND COUNT"),
        Reply::Integer(commands.len().try_into().unwrap())
    );
}

// Scripts ---------------------------------------------------------------------------------------

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                           return redis.call('del', KEYS[1]) \
                       else return 0 end";

#[test]
fn compare_and_delete_spares_the_lock_of_another() {
    let mut server = Server::at(0);
    server.ask("SET lock me NX PX 100");
    assert_eq!(server.eval(RELEASE, &["lock"], &["you"]), Reply::Integer(0));
    assert_eq!(server.eval(RELEASE, &["lock"], &["me"]), Reply::Integer(1));
    assert_eq!(
        server.eval(RELEASE, &["lock"], &["me"]),
        Reply::Integer(0),
        "false is not a token"
    );
}

#[test]
fn a_script_that_fails_keeps_what_it_wrote() {
    let mut server = Server::at(0);
    server.ask("SET fence nonsense");
    let script = "redis.call('set', KEYS[1], ARGV[1], 'NX') return redis.call('incr', KEYS[2])";
    assert!(server.eval(script, &["lock", "fence"], &["me"]).is_error());
    assert_eq!(server.ask("GET lock"), bulk("me"));
}

#[test]
fn a_script_sees_one_instant() {
    let mut server = Server::at(5);
    let script = "redis.call('set', 'k', 'v', 'PX', 1) \
                  for i = 1, 100000 do end \
                  return {redis.call('get', 'k'), redis.call('pttl', 'k'), redis.call('time')[2]}";
    let seen = Reply::Array(vec![bulk("v"), Reply::Integer(1), bulk("5000")]);
    assert_eq!(server.eval(script, &[], &[]), seen);
}

#[test]
fn an_expired_key_is_deleted_by_a_script_that_reads_it() {
    let mut server = Server::at(0);
    server.ask("SET lock me PX 100");
    server.machine.take_changes();
    server.wall = 101;
    assert_eq!(server.eval(RELEASE, &["lock"], &["me"]), Reply::Integer(0));
    assert_eq!(server.machine.take_changes()[0].cause, Cause::Expiry);
}

#[test]
fn nothing_leaks_from_one_script_into_the_next() {
    let attempts = [
        "leak = 1",
        "_G.leak = 1",
        "rawset(_G, 'leak', 1)",
        "string.leak = 1",
        "getmetatable('').__index.leak = 1",
        "getmetatable('').leak = 1",
        "getmetatable(_G).__index = function() return 1 end",
        "setmetatable(_G, {__index = function() return 1 end})",
        "setmetatable(string, {__index = function() return 1 end})",
        "table.insert(_G, 1)",
        "table.insert(redis, 1)",
        "table.sort(KEYS, function() redis.leak = 1 end) KEYS[1] = 'x' KEYS.leak = 1 leak = 1",
        "redis.call = nil",
        "math.random = nil",
        "local f = loadstring('leak = 1') f()",
        "local co = coroutine.wrap(function() leak = 1 end) co()",
        "for k in pairs(_G) do _G[k] = nil end",
        "KEYS = nil",
    ];
    let look = "local seen = {rawget(_G, 'leak') or 'none', #KEYS, tostring(KEYS.leak), \
                    tostring(string.leak), tostring(redis.leak), ('x').leak or 'none', \
                    tostring(redis[1]), tostring(rawget(_G, 1)), tostring(rawget(string, 1)), \
                    type(redis.call), type(math.random)} \
                seen[#seen + 1] = tostring(pcall(function() return leak end)) \
                local names = {} for name in pairs(_G) do names[#names + 1] = name end \
                seen[#seen + 1] = #names return seen";
    let clean = Server::at(0).eval(look, &[], &[]);
    assert!(
        matches!(&clean, Reply::Array(items) if items.len() == 13),
        "{clean:?}"
    );
    for attempt in attempts {
        let mut server = Server::at(0);
        let outcome = server.eval(attempt, &["a", "b"], &[]);
        assert!(outcome.is_error(), "{attempt}: {outcome:?}");
        assert_eq!(server.eval(look, &[], &[]), clean, "{attempt}");
    }
}

#[test]
fn a_server_knows_only_its_own_scripts() {
    let mut one = Server::at(0);
    let mut other = Server::at(0);
    one.ask("SCRIPT LOAD return(1)");
    let Reply::Bulk(sha) = one.ask("SCRIPT LOAD return(1)") else {
        panic!("a name")
    };
    let ask = format!("EVALSHA {} 0", std::str::from_utf8(&sha).unwrap());
    assert_eq!(one.ask(&ask), Reply::Integer(1));
    let noscript = Bytes::from_static(b"NOSCRIPT No matching script. Please use EVAL.");
    assert_eq!(other.ask(&ask), Reply::Error(noscript));
}

#[test]
fn random_numbers_belong_to_the_server() {
    let draw = "return {math.random(1000000), math.random(1000000)}";
    let mut one = Server::at(0);
    let mut other = Server::at(0);
    let first = one.eval(draw, &[], &[]);
    assert_ne!(one.eval(draw, &[], &[]), first, "the sequence goes on");
    assert_eq!(
        other.eval(draw, &[], &[]),
        first,
        "every server has its own"
    );
}

#[test]
fn a_script_without_end_is_killed_at_the_same_instruction_every_time() {
    let endless = [
        "while true do redis.call('incr', 'n') end",
        "while true do pcall(redis.call, 'incr', 'n') end",
        "local function again() pcall(again) redis.call('incr', 'n') return again() end again()",
        "while true do pcall(function() while true do redis.call('incr', 'n') end end) end",
        "while true do coroutine.wrap(function() redis.call('incr', 'n') end)() end",
        "local t = setmetatable({}, {__index = function(t, k) redis.call('incr', 'n') return t[k] end}) \
         while true do pcall(function() return t.x end) end",
        "while true do xpcall(function() redis.call('incr', 'n') error('x') end, function(e) end) end",
    ];
    for script in endless {
        let mut counts = Vec::new();
        for warm_up in 0..2 {
            let mut server = Server::at(0);
            for _ in 0..warm_up {
                server.eval("for i = 1, 1234 do end", &[], &[]);
            }
            let Reply::Error(text) = server.eval(script, &[], &[]) else {
                panic!("{script}")
            };
            assert!(text.starts_with(b"ERR script killed"), "{script}: {text:?}");
            counts.push(server.ask("GET n"));
            assert_eq!(
                server.eval("return 7", &[], &[]),
                Reply::Integer(7),
                "life goes on"
            );
        }
        assert_eq!(counts[0], counts[1], "{script}");
    }
}

#[test]
fn addresses_do_not_show() {
    let script = "local a, b = {}, function() end \
                  return {tostring(a), tostring(b), tostring(a), tostring(coroutine.create(b))}";
    let show = |server: &mut Server| server.eval(script, &[], &[]);
    let mut server = Server::at(0);
    let first = show(&mut server);
    assert_eq!(show(&mut server), first);
    let other = std::thread::spawn(move || show(&mut Server::at(0)))
        .join()
        .unwrap();
    assert_eq!(other, first);
}

#[test]
fn compiled_code_is_not_loaded() {
    let script = "return {type(loadstring(string.dump(function() return 1 end))), \
                      type(load(function() return nil end))}";
    let mut server = Server::at(0);
    let Reply::Array(items) = server.eval(script, &[], &[]) else {
        panic!("an array")
    };
    assert_eq!(items[0], bulk("nil"));
}

#[test]
fn deep_and_endless_replies_end() {
    let mut server = Server::at(0);
    assert!(matches!(
        server.eval("local t = {} t[1] = t return t", &[], &[]),
        Reply::Array(_)
    ));
    let depth = "local n = 0 local function f() n = n + 1 return 1 + f() end pcall(f) return n";
    let first = server.eval(depth, &[], &[]);
    assert_eq!(
        server.eval(depth, &[], &[]),
        first,
        "no trace of the first overflow"
    );
    let deep = "local function f(n) return 1 + f(n + 1) end return f(1)";
    assert!(server.eval(deep, &[], &[]).is_error());
    let bomb = "local t = {} for i = 1, 60 do t = {t, t} end return 1";
    assert_eq!(server.eval(bomb, &[], &[]), Reply::Integer(1));
}

#[test]
fn a_machine_may_move_to_another_thread_between_commands() {
    let mut server = Server::at(0);
    server.eval("return redis.call('set', 'k', 'v')", &[], &[]);
    let reply = std::thread::spawn(move || server.eval("return redis.call('get', 'k')", &[], &[]));
    assert_eq!(reply.join().unwrap(), bulk("v"));
}
