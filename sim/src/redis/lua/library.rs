//! The functions that scripts get from Redis: `redis`, `bit`, `math.random`.
//!
//! They run as callbacks of Lua, so an error leaves them as a [`Raised`] in mlua's wrapping;
//! wherever a script can catch one, `caught` unwraps it.

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, Table, Value};

use super::{COMMAND, RUNNING, Running, sha_of, values};
use crate::redis::commands::{self, Origin};
use crate::redis::connection::Protocol;
use crate::redis::reply::{Reply, until_nul};

/// An error as Redis's functions raise it.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Raised {
    /// A plain text, as Lua's own library raises.
    #[error("{0}")]
    Text(String),
    /// A table with a field `err`.
    #[error("{}", String::from_utf8_lossy(.text))]
    Table {
        text: Bytes,
        /// Redis marks the errors of commands, which it has counted already.
        from_command: bool,
    },
}

impl Raised {
    fn library(text: &'static str) -> Self {
        Self::Table {
            text: Bytes::from_static(text.as_bytes()),
            from_command: false,
        }
    }

    fn value(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Text(text) => lua.create_string(text).map(Value::String),
            Self::Table { text, from_command } => {
                let table = lua.create_table_with_capacity(0, 2)?;
                table.raw_set("err", lua.create_string(text)?)?;
                if from_command {
                    table.raw_set("ignore_error_stats_update", true)?;
                }
                Ok(Value::Table(table))
            }
        }
    }
}

impl From<Raised> for mlua::Error {
    fn from(raised: Raised) -> Self {
        Self::external(raised)
    }
}

/// What the prelude builds its libraries from.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set(
        "caught",
        lua.create_function(|lua, value: Value| unwrap(&value).value(lua))?,
    )?;
    let overflowed = |_: &Lua, ()| {
        with_running(|running| running.overflowed = true);
        Ok(())
    };
    native.set("overflowed", lua.create_function(overflowed)?)?;
    native.set("explain", lua.create_function(explain)?)?;
    native.set("random", lua.create_function(random)?)?;
    native.set("randomseed", lua.create_function(randomseed)?)?;
    native.set("redis", redis(lua)?)?;
    native.set("bit", bit(lua)?)?;
    Ok(native)
}

fn with_running<R>(work: impl FnOnce(&mut Running) -> R) -> R {
    RUNNING.with_borrow_mut(work)
}

/// Finds our error within mlua's wrapping.
fn unwrap(value: &Value) -> Raised {
    let Value::Error(error) = value else {
        return Raised::Text("foreign value".into());
    };
    let mut error: &mlua::Error = error;
    loop {
        match error {
            mlua::Error::CallbackError { cause, .. } => error = cause,
            other => {
                let raised = other.downcast_ref::<Raised>().cloned();
                return raised.unwrap_or_else(|| Raised::Text(other.to_string()));
            }
        }
    }
}

/// Words the error that ends a script, and where it was raised.
fn explain(lua: &Lua, value: Value) -> mlua::Result<()> {
    let value = match &value {
        Value::Error(_) => unwrap(&value).value(lua)?,
        _ => value,
    };
    let mut text = match &value {
        Value::Table(table) => match table.raw_get::<Value>("err")? {
            Value::Nil => b"ERR a table without a field err was raised".to_vec(),
            err => printed(lua, err)?,
        },
        other => [b"ERR ".to_vec(), printed(lua, other.clone())?].concat(),
    };
    let overflow = text.windows(14).any(|window| window == b"stack overflow");
    let sha = with_running(|running| {
        running.overflowed |= overflow;
        running.sha
    });
    text.extend_from_slice(b" script: ");
    text.extend_from_slice(&sha);
    if let Some(place) = place(lua) {
        text.extend_from_slice(b", on ");
        text.extend_from_slice(place.as_bytes());
    }
    text.push(b'.');
    with_running(|running| running.failure = Some(Bytes::from(text)));
    Ok(())
}

fn printed(lua: &Lua, value: Value) -> mlua::Result<Vec<u8>> {
    Ok(match value {
        Value::Nil => b"nil".to_vec(),
        Value::Boolean(truth) => truth.to_string().into_bytes(),
        other => match lua.coerce_string(other.clone())? {
            Some(text) => until_nul(&text.as_bytes()).to_vec(),
            None => other.type_name().as_bytes().to_vec(),
        },
    })
}

/// The innermost line that is the script's own.
fn place(lua: &Lua) -> Option<String> {
    (1..)
        .map_while(|level| {
            lua.inspect_stack(level, |frame| {
                let source = frame.source();
                let own = source.what != "C" && source.source.as_deref() != Some("=prelude");
                let line = frame.current_line().filter(|_| own)?;
                Some(format!("{}:{line}", source.source?))
            })
        })
        .flatten()
        .next()
}

/// `problem` with the line that called, as Lua's library words it.
fn located(lua: &Lua, problem: &str) -> mlua::Error {
    let place = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    Raised::Text(place.flatten().unwrap_or_default() + problem).into()
}

/// The number given as `position`-th argument.
fn number(lua: &Lua, args: &MultiValue, position: usize, name: &str) -> mlua::Result<f64> {
    let value = args.get(position - 1);
    match value
        .map(|value| lua.coerce_number(value.clone()))
        .transpose()?
        .flatten()
    {
        Some(number) => Ok(number),
        None => {
            let got = value.map_or("no value", |value| match value {
                Value::Integer(_) => "number",
                other => other.type_name(),
            });
            let problem =
                format!("bad argument #{position} to '{name}' (number expected, got {got})");
            Err(located(lua, &problem))
        }
    }
}

// redis -----------------------------------------------------------------------------------------

fn redis(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", 0x0007_000f),
    ] {
        redis.set(name, value)?;
    }
    redis.set("REDIS_VERSION", "7.0.15")?;
    let functions: [(&str, Function); 12] = [
        (
            "call",
            lua.create_function(|lua, args| call(lua, &args, true))?,
        ),
        (
            "pcall",
            lua.create_function(|lua, args| call(lua, &args, false))?,
        ),
        ("error_reply", lua.create_function(error_reply)?),
        ("status_reply", lua.create_function(status_reply)?),
        ("sha1hex", lua.create_function(sha1hex)?),
        ("log", lua.create_function(log)?),
        ("setresp", lua.create_function(setresp)?),
        ("acl_check_cmd", lua.create_function(acl_check_cmd)?),
        ("set_repl", lua.create_function(set_repl)?),
        // Effects are always what is replicated, since 7.0 and here.
        ("replicate_commands", lua.create_function(|_, ()| Ok(true))?),
        // There is no debugger to stop in or to print to.
        ("breakpoint", lua.create_function(|_, ()| Ok(false))?),
        ("debug", lua.create_function(|_, _: MultiValue| Ok(()))?),
    ];
    for (name, function) in functions {
        redis.set(name, function)?;
    }
    Ok(redis)
}

/// `redis.call` and `redis.pcall`, which differ in what becomes of an error.
fn call(lua: &Lua, args: &MultiValue, raise: bool) -> mlua::Result<Value> {
    let (reply, resp3, from_command) = match request(args) {
        Ok(request) => with_running(|running| {
            running.spent += COMMAND;
            if running.killed {
                // It may be unwinding through a coroutine, which has not heard of it yet.
                return (Reply::fixed_error("ERR script killed"), false, true);
            }
            let origin = Origin::Script {
                read_only: running.read_only,
            };
            let Running {
                machine,
                connection,
                wall,
                ..
            } = running;
            let reply = commands::execute(machine, &request, connection, *wall, origin);
            (reply, connection.protocol == Protocol::Resp3, true)
        }),
        Err(error) => (error, false, false),
    };
    match reply {
        Reply::Error(text) => {
            let raised = Raised::Table { text, from_command };
            if raise {
                Err(raised.into())
            } else {
                raised.value(lua)
            }
        }
        reply => values::to_lua(lua, reply, resp3),
    }
}

fn request(args: &MultiValue) -> Result<Vec<Bytes>, Reply> {
    if args.is_empty() {
        return Err(Reply::fixed_error(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    args.iter()
        .map(values::to_argument)
        .collect::<Option<_>>()
        .ok_or(Reply::fixed_error(
            "ERR Lua redis lib command arguments must be strings or integers",
        ))
}

/// A single word is a message without a code, and gets one.
fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let Some(Value::String(text)) = args.front().filter(|_| args.len() == 1) else {
        return Raised::library("ERR wrong number or type of arguments").value(lua);
    };
    let text = text.as_bytes();
    let text = until_nul(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let code: &[u8] = if text.contains(&b' ') { b"" } else { b"ERR " };
    Raised::Table {
        text: Bytes::from([code, text].concat()),
        from_command: false,
    }
    .value(lua)
}

fn status_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let Some(Value::String(text)) = args.front().filter(|_| args.len() == 1) else {
        return Raised::library("ERR wrong number or type of arguments").value(lua);
    };
    values::to_lua(lua, Reply::Status(values::bytes(text)), false)
}

fn sha1hex(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    if args.len() != 1 {
        return Err(Raised::library("ERR wrong number of arguments").into());
    }
    // Anything that is no string counts as an empty one.
    let text = lua.coerce_string(args[0].clone())?;
    let text = text.map(|text| values::bytes(&text)).unwrap_or_default();
    lua.create_string(sha_of(&text)).map(Value::String)
}

/// Checks what Redis checks, and writes nothing: a simulated server has no log.
fn log(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(Raised::library("ERR redis.log() requires two arguments or more.").into());
    }
    match lua.coerce_number(args[0].clone())? {
        None => Err(Raised::library("ERR First argument must be a number (log level).").into()),
        Some(level) if !(0.0..4.0).contains(&level) => {
            Err(Raised::library("ERR Invalid debug level.").into())
        }
        Some(_) => Ok(()),
    }
}

fn setresp(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(Raised::library("ERR redis.setresp() requires one argument.").into());
    }
    let version = lua.coerce_number(args[0].clone())?.map(f64::trunc);
    if version != Some(2.0) && version != Some(3.0) {
        return Err(Raised::library("ERR RESP version must be 2 or 3.").into());
    }
    let protocol = if version == Some(3.0) {
        Protocol::Resp3
    } else {
        Protocol::Resp2
    };
    with_running(|running| running.connection.protocol = protocol);
    Ok(())
}

/// The default user may do everything.
fn acl_check_cmd(_: &Lua, args: MultiValue) -> mlua::Result<bool> {
    let known = match request(&args) {
        Ok(request) => commands::exists(&request),
        Err(Reply::Error(text)) => {
            return Err(Raised::Table {
                text,
                from_command: false,
            }
            .into());
        }
        Err(_) => false,
    };
    if known {
        Ok(true)
    } else {
        Err(Raised::library("ERR Invalid command passed to redis.acl_check_cmd()").into())
    }
}

fn set_repl(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(Raised::library("ERR redis.set_repl() requires two arguments.").into());
    }
    match lua.coerce_number(args[0].clone())? {
        Some(flags) if (0.0..4.0).contains(&flags) => Ok(()),
        _ => Err(Raised::library(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        )
        .into()),
    }
}

// math ------------------------------------------------------------------------------------------

/// The state of POSIX's `lrand48` before any `srand48`.
pub(crate) const UNSEEDED: u64 = 0x1234_abcd_330e;

/// The state of POSIX's `lrand48` after `srand48`.
fn seeded(seed: u32) -> u64 {
    u64::from(seed) << 16 | 0x330e
}

/// POSIX's `lrand48`, which Redis gives scripts so that they draw the same everywhere.
fn draw(state: &mut u64) -> f64 {
    const LARGEST: u64 = 0x7fff_ffff;
    *state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    (*state >> 17) as f64 % LARGEST as f64 / LARGEST as f64
}

fn random(lua: &Lua, args: MultiValue) -> mlua::Result<f64> {
    let drawn = with_running(|running| draw(&mut running.machine.random));
    let (lowest, highest) = match args.len() {
        0 => return Ok(drawn),
        1 => (1.0, number(lua, &args, 1, "random")?.trunc()),
        2 => (
            number(lua, &args, 1, "random")?.trunc(),
            number(lua, &args, 2, "random")?.trunc(),
        ),
        _ => return Err(located(lua, "wrong number of arguments")),
    };
    if lowest > highest {
        let position = args.len();
        let problem = format!("bad argument #{position} to 'random' (interval is empty)");
        return Err(located(lua, &problem));
    }
    Ok((drawn * (highest - lowest + 1.0)).floor() + lowest)
}

fn randomseed(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    let seed = number(lua, &args, 1, "randomseed")?;
    // The low 32 bits of the integer part.
    let seed = seed.trunc().rem_euclid(4_294_967_296.0) as u32;
    with_running(|running| running.machine.random = seeded(seed));
    Ok(())
}

// bit -------------------------------------------------------------------------------------------

fn bit(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    let one = |name: &'static str, operate: fn(i32) -> i32| {
        lua.create_function(move |lua, args| Ok(f64::from(operate(bits(lua, &args, 1, name)?))))
    };
    let many = |name: &'static str, operate: fn(i32, i32) -> i32| {
        lua.create_function(move |lua, args: MultiValue| {
            let mut result = bits(lua, &args, 1, name)?;
            for position in 2..=args.len() {
                result = operate(result, bits(lua, &args, position, name)?);
            }
            Ok(f64::from(result))
        })
    };
    let shift = |name: &'static str, operate: fn(i32, u32) -> i32| {
        lua.create_function(move |lua, args| {
            let value = bits(lua, &args, 1, name)?;
            let distance = bits(lua, &args, 2, name)? & 31;
            Ok(f64::from(operate(value, distance.unsigned_abs())))
        })
    };
    bit.set("tobit", one("tobit", |value| value)?)?;
    bit.set("bnot", one("bnot", |value| !value)?)?;
    bit.set("bswap", one("bswap", i32::swap_bytes)?)?;
    bit.set("band", many("band", |left, right| left & right)?)?;
    bit.set("bor", many("bor", |left, right| left | right)?)?;
    bit.set("bxor", many("bxor", |left, right| left ^ right)?)?;
    bit.set("lshift", shift("lshift", i32::wrapping_shl)?)?;
    bit.set(
        "rshift",
        shift("rshift", |value, by| {
            (value.cast_unsigned() >> by).cast_signed()
        })?,
    )?;
    bit.set("arshift", shift("arshift", i32::wrapping_shr)?)?;
    bit.set("rol", shift("rol", i32::rotate_left)?)?;
    bit.set("ror", shift("ror", i32::rotate_right)?)?;
    bit.set("tohex", lua.create_function(tohex)?)?;
    Ok(bit)
}

/// A number as 32 bits: rounded to the nearest integer, and what does not fit cut off.
fn bits(lua: &Lua, args: &MultiValue, position: usize, name: &str) -> mlua::Result<i32> {
    let number = number(lua, args, position, name)?.round_ties_even();
    Ok((number.rem_euclid(4_294_967_296.0) as u32).cast_signed())
}

fn tohex(lua: &Lua, args: MultiValue) -> mlua::Result<String> {
    let value = bits(lua, &args, 1, "tohex")?;
    let digits = if args.len() > 1 {
        bits(lua, &args, 2, "tohex")?
    } else {
        8
    };
    let text = if digits < 0 {
        format!("{value:08X}")
    } else {
        format!("{value:08x}")
    };
    let kept = digits.unsigned_abs().min(8);
    Ok(text[8 - kept as usize..].to_owned())
}
