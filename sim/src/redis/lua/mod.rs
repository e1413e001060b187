//! Scripts, in real Lua 5.1.
//!
//! One Lua machine per thread runs the scripts of every server on it: making one takes longer than
//! a thousand small scripts. It holds no server's state. For the duration of a script the server
//! moves into [`RUNNING`], where `redis.call` finds it, and back; that needs no `unsafe` and no
//! shared ownership of servers.
//!
//! Nothing a script does outlives it but its writes and the place in the server's sequence of
//! random numbers: globals and libraries are frozen, `KEYS` and `ARGV` are made for each run, the
//! budget is counted from zero. So a script's outcome does not depend on what other servers ran on
//! this thread.
//!
//! Known differences from Redis 7.0:
//!
//! - `cjson`, `cmsgpack` and `struct` are not there.
//! - A script that executes more than [`BUDGET`] Lua instructions is killed and cannot catch it; a
//!   command counts as [`COMMAND`] of them. What it wrote stays. Redis would let it run, answer
//!   `BUSY` to everybody else, and let nobody kill it once it has written. A single call into the
//!   library, such as a hard pattern or a huge `string.rep`, is not interrupted, and memory is not
//!   limited.
//! - `tostring` numbers tables and functions instead of showing their addresses, and the garbage
//!   collector tells nothing. A table with tables or functions as keys is still traversed in the
//!   order of their addresses, and the collector still runs at its leisure, which shows in weak
//!   tables and where calls are nested two hundred deep: scripts that care are not deterministic.
//! - `error({})` without an `err` field crashes a real 7.0.15; here it is an error.
//! - Replies nest at most [`values::DEPTH`] deep, in Redis thousands.
//! - A function of the library that `prelude.lua` replaces loses the line of its caller if it is
//!   called wrongly in a tail call, such as `return pairs(nil)`.
//! - `getmetatable` of a library gives `nil` as in Redis, but such a table is a stand-in with a
//!   metatable of its own; see `prelude.lua`.

mod library;
mod values;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use sha1_smol::Sha1;

use super::commands::Call;
use super::connection::{Connection, Protocol};
use super::machine::Machine;
use super::reply::{Reply, until_nul};
use super::resp::split_words;
use library::Raised;
pub(crate) use library::UNSEEDED;

/// The name of a script: the SHA-1 of its text in lower case hexadecimal.
pub(crate) type Sha = [u8; 40];

/// How many Lua instructions one run of a script may execute, to the nearest [`INTERVAL`]: some
/// fifty milliseconds of a real processor.
const BUDGET: u32 = 10_000_000;
/// How often the budget is looked at.
const INTERVAL: u32 = 10_000;
/// What a command costs, in instructions: about the time that it takes.
const COMMAND: u32 = 100;
/// How many compiled scripts a thread keeps. Beyond that it starts again: a program that sends so
/// many different texts will not send one twice.
const KEPT: usize = 1024;

thread_local! {
    static VM: RefCell<Option<Rc<Vm>>> = const { RefCell::new(None) };
    static RUNNING: RefCell<Running> = RefCell::new(Running::idle());
}

/// What is compiled and shared by all servers of a thread.
struct Vm {
    lua: Lua,
    /// `run(script, keys, args)` of the prelude.
    run: Function,
    /// `compile(source)` of the prelude.
    compile: Function,
    scripts: RefCell<BTreeMap<Bytes, Rc<Compiled>>>,
    fields: values::Fields,
}

/// A script ready to run.
pub(crate) struct Compiled {
    pub(crate) sha: Sha,
    function: Function,
    /// Its first line promises `no-writes`.
    pub(crate) read_only: bool,
    /// Its first line says what it may do.
    pub(crate) says_flags: bool,
}

/// A script that is running, and what its server lent it. There is one per thread, used again and
/// again in its place: moving it about would cost as much as a small script.
struct Running {
    /// Swapped with the server's at both ends; empty between scripts.
    machine: Machine,
    /// The script's own: selecting another database ends with it, and so does the version of the
    /// protocol that it asked for.
    connection: Connection,
    wall: u64,
    read_only: bool,
    sha: Sha,
    /// How much of the budget is used.
    spent: u32,
    killed: bool,
    /// The script used up one of Lua's stacks, caught or not.
    overflowed: bool,
    /// What ended the script, in the words of the reply.
    failure: Option<Bytes>,
}

/// The compiled form of `body`, made now if this thread has not seen it.
pub(crate) fn compile(body: &Bytes) -> Result<Rc<Compiled>, Reply> {
    with_vm(|vm| {
        if let Some(script) = vm.scripts.borrow().get(body) {
            return Ok(Rc::clone(script));
        }
        let (source, read_only) = read_shebang(body)?;
        let compiled: (Option<Function>, Option<LuaString>) = vm
            .lua
            .create_string(source)
            .and_then(|source| vm.compile.call(source))
            .expect("the prelude's own function does not fail");
        let (Some(function), _) = compiled else {
            let mut text = b"ERR Error compiling script (new function): ".to_vec();
            text.extend(compiled.1.iter().flat_map(|why| why.as_bytes().to_vec()));
            return Err(Reply::error(text));
        };
        let script = Rc::new(Compiled {
            sha: sha_of(body),
            function,
            read_only,
            says_flags: body.starts_with(b"#!"),
        });
        let mut scripts = vm.scripts.borrow_mut();
        if scripts.len() >= KEPT {
            scripts.clear();
        }
        // A copy: the body may be a view into a buffer of the connection it came by.
        scripts.insert(Bytes::copy_from_slice(body), Rc::clone(&script));
        Ok(script)
    })
}

/// Runs `script` on the server of `call`.
pub(crate) fn run(script: &Compiled, keys: &[Bytes], args: &[Bytes], call: &mut Call<'_>) -> Reply {
    RUNNING.with_borrow_mut(|running| running.begin(script, call));
    let outcome = with_vm(|vm| {
        vm.lua
            .set_global_hook(HookTriggers::new().every_nth_instruction(INTERVAL), tick)?;
        let keys = vm.words(keys)?;
        let args = vm.words(args)?;
        let (ok, value): (bool, Value) = vm.run.call((&script.function, keys, args))?;
        Ok(ok.then(|| values::to_reply(&value, &vm.fields, 0)))
    });
    RUNNING.with_borrow_mut(|running| {
        mem::swap(&mut running.machine, call.machine);
        if running.killed || running.overflowed {
            // Lua's stacks keep the size they reached, and so the next overflow would come at
            // another depth. A new Lua costs a millisecond; this is rare.
            VM.take();
        }
        if mem::take(&mut running.killed) {
            return Reply::fixed_error("ERR script killed: it exceeded its budget of instructions");
        }
        match outcome {
            Ok(Some(reply)) => reply.resolve(running.connection.protocol == Protocol::Resp3),
            Ok(None) => Reply::error(running.failure.take().unwrap_or_default()),
            Err(error) => broken(&error),
        }
    })
}

impl Running {
    fn idle() -> Self {
        Self {
            machine: Machine::new(),
            connection: Connection::new(0),
            wall: 0,
            read_only: false,
            sha: [0; 40],
            spent: 0,
            killed: false,
            overflowed: false,
            failure: None,
        }
    }

    fn begin(&mut self, script: &Compiled, call: &mut Call<'_>) {
        mem::swap(&mut self.machine, call.machine);
        self.connection.db = call.connection.db;
        self.connection.protocol = Protocol::Resp2;
        self.wall = call.wall;
        self.read_only = script.read_only;
        self.sha = script.sha;
        self.spent = 0;
        self.killed = false;
        self.overflowed = false;
        self.failure = None;
    }
}

/// Lua itself failed, which only running out of its stacks or of memory can do.
fn broken(error: &mlua::Error) -> Reply {
    Reply::error(format!("ERR script failed: {error}"))
}

fn with_vm<R>(work: impl FnOnce(&Vm) -> R) -> R {
    let vm = VM.with_borrow_mut(|vm| {
        let fresh = || Rc::new(Vm::new().expect("the prelude is valid"));
        Rc::clone(vm.get_or_insert_with(fresh))
    });
    work(&vm)
}

/// Called every [`INTERVAL`] instructions, and at every one once the script is condemned: it may
/// then catch the error only where it is about to end anyway.
fn tick(lua: &Lua, _: &mlua::debug::Debug) -> mlua::Result<VmState> {
    let over = RUNNING.with_borrow_mut(|running| {
        running.spent += INTERVAL;
        running.killed |= running.spent > BUDGET;
        running.killed
    });
    if !over {
        return Ok(VmState::Continue);
    }
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), tick)?;
    Err(mlua::Error::external(Raised::Text("script killed".into())))
}

impl Vm {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new(),
        )?;
        let native = library::table(&lua)?;
        let (run, compile, environment): (Function, Function, Table) = lua
            .load(include_str!("prelude.lua"))
            .set_name("=prelude")
            .call(native)?;
        lua.set_globals(environment)?;
        let fields = values::Fields::new(&lua)?;
        Ok(Self {
            lua,
            run,
            compile,
            scripts: RefCell::default(),
            fields,
        })
    }

    fn words(&self, words: &[Bytes]) -> mlua::Result<Table> {
        let text = |word| std::str::from_utf8(word);
        if words.iter().all(|word| text(word).is_ok()) {
            // The short way: a `str` goes straight onto Lua's stack. An exact length lets Lua make
            // the table in one piece.
            let words = words
                .iter()
                .map(|word| text(word).expect("it was a moment ago"));
            return self.lua.create_sequence_from(words);
        }
        let words: Vec<LuaString> = words
            .iter()
            .map(|word| self.lua.create_string(word))
            .collect::<mlua::Result<_>>()?;
        self.lua.create_sequence_from(words)
    }
}

fn sha_of(text: &[u8]) -> Sha {
    let mut sha = [0; 40];
    for (pair, byte) in sha
        .chunks_exact_mut(2)
        .zip(Sha1::from(text).digest().bytes())
    {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    sha
}

/// Reads a first line such as `#!lua flags=no-writes`. Returns the source, whose first line is
/// then empty so that errors name the right one, and whether it promises not to write.
fn read_shebang(body: &[u8]) -> Result<(&[u8], bool), Reply> {
    const FLAGS: [&[u8]; 5] = [
        b"no-writes",
        b"allow-oom",
        b"allow-stale",
        b"no-cluster",
        b"allow-cross-slot-keys",
    ];
    if !body.starts_with(b"#!") {
        return Ok((body, false));
    }
    let invalid = || Reply::fixed_error("ERR Invalid script shebang");
    let end = until_nul(body)
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(invalid)?;
    let words = split_words(&body[..end]).ok_or_else(invalid)?;
    let (engine, options) = words.split_first().ok_or_else(invalid)?;
    let refuse = |why: &str, what: &[u8]| Err(Reply::error([why.as_bytes(), what].concat()));
    if *engine != "#!lua" {
        return refuse("ERR Unexpected engine in script shebang: ", engine);
    }
    let mut read_only = false;
    for word in options {
        let Some(flags) = word.strip_prefix(b"flags=") else {
            return refuse("ERR Unknown lua shebang option: ", word);
        };
        if flags.is_empty() {
            continue;
        }
        for flag in flags.split(|byte| *byte == b',') {
            if !FLAGS.contains(&flag) {
                return refuse("ERR Unexpected flag in script shebang: ", flag);
            }
            read_only |= flag == b"no-writes";
        }
    }
    Ok((&body[end..], read_only))
}
