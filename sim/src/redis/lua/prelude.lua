-- Builds what scripts see: Redis's choice of Lua's library, none of which they can change.
--
-- Lua 5.1 has no read-only tables. What scripts get instead are empty stand-ins: reading falls
-- through to the contents, writing is refused. The functions that would see or touch the
-- stand-in itself are replaced by ones that know the difference.
--
-- An error raised here must name the line of the script, hence level 2; a script that makes such
-- a mistake in a tail call loses the line.

local native = ...

local error, type, select, tostring = error, type, select, tostring
local rawget, rawset, rawequal, next, setmetatable = rawget, rawset, rawequal, next, setmetatable
local raw_pairs, raw_pcall, raw_xpcall, raw_loadstring = pairs, pcall, xpcall, loadstring
local format, concat = string.format, table.concat
local byte, find, match = string.byte, string.find, string.match

local READONLY = "Attempt to modify a readonly table"

local contents_of = {}

local function freeze(contents, metatable)
  local stand_in = {}
  contents_of[stand_in] = contents
  setmetatable(stand_in, {
    __index = contents,
    __newindex = function() error(READONLY, 2) end,
    __metatable = metatable or false,
  })
  return stand_in
end

local function bad_argument(position, name, problem)
  error(format("bad argument #%d to '%s' (%s)", position, name, problem), 3)
end

local function check_table(position, name, given, value)
  if type(value) ~= "table" then
    local got = given < position and "no value" or type(value)
    error(format("bad argument #%d to '%s' (table expected, got %s)", position, name, got), 3)
  end
end

local globals = {}

for _, name in raw_pairs({
  "_VERSION", "assert", "error", "ipairs", "rawequal", "select", "tonumber", "type", "unpack",
}) do
  globals[name] = _G[name]
end

-- Tables ----------------------------------------------------------------------------------------

function globals.next(...)
  local t, key = ...
  check_table(1, "next", select("#", ...), t)
  return next(contents_of[t] or t, key)
end

function globals.pairs(...)
  local t = ...
  check_table(1, "pairs", select("#", ...), t)
  local contents = contents_of[t]
  if contents then
    return function(_, key) return next(contents, key) end, t, nil
  end
  return next, t, nil
end

function globals.rawget(...)
  local t, key = ...
  check_table(1, "rawget", select("#", ...), t)
  return rawget(contents_of[t] or t, key)
end

function globals.rawset(...)
  local t, key, value = ...
  check_table(1, "rawset", select("#", ...), t)
  if contents_of[t] then error(READONLY, 0) end
  return rawset(t, key, value)
end

function globals.setmetatable(...)
  local t, metatable = ...
  local given = select("#", ...)
  check_table(1, "setmetatable", given, t)
  if type(metatable) ~= "table" and (metatable ~= nil or given < 2) then
    bad_argument(2, "setmetatable", "nil or table expected")
  end
  if contents_of[t] then error(READONLY, 0) end
  local ok, result = raw_pcall(setmetatable, t, metatable)
  if not ok then error(result, 2) end
  return result
end

function globals.getmetatable(...)
  if select("#", ...) == 0 then bad_argument(1, "getmetatable", "value expected") end
  return getmetatable((...)) or nil
end

local tables = {}
for _, name in raw_pairs({ "concat", "foreachi", "getn", "maxn", "setn" }) do
  tables[name] = table[name]
end
for _, name in raw_pairs({ "insert", "remove", "sort" }) do
  local raw = table[name]
  tables[name] = function(...)
    local t = ...
    check_table(1, name, select("#", ...), t)
    if contents_of[t] then error(READONLY, 0) end
    if name == "insert" and select("#", ...) ~= 2 and select("#", ...) ~= 3 then
      error("wrong number of arguments to 'insert'", 2)
    end
    return raw(...)
  end
end
function tables.foreach(t, f)
  check_table(1, "foreach", 1, t)
  for key, value in next, contents_of[t] or t do
    local result = f(key, value)
    if result ~= nil then return result end
  end
end

-- Errors ----------------------------------------------------------------------------------------

-- An error from one of Redis's own functions travels as a foreign value; `native.caught` turns it
-- into what Redis would have raised. Overflows are reported even if the script goes on.
local function caught(value)
  local kind = type(value)
  if kind == "userdata" then return native.caught(value) end
  if kind == "string" and (find(value, "stack overflow", 1, true)
      or value == "error in error handling") then
    native.overflowed()
  end
  return value
end

local function settle(ok, ...)
  if ok then return ok, ... end
  local value = caught((...))
  if type(value) == "table" and value.err ~= nil then value = value.err end
  return false, value
end

function globals.pcall(...)
  if select("#", ...) == 0 then return raw_pcall(nil) end
  return settle(raw_pcall(...))
end

function globals.xpcall(...)
  if select("#", ...) < 2 then bad_argument(2, "xpcall", "value expected") end
  local f, handler = ...
  return raw_xpcall(f, function(value) return handler(caught(value)) end)
end

local coroutines = {}
for _, name in raw_pairs({ "create", "running", "status", "wrap", "yield" }) do
  coroutines[name] = coroutine[name]
end
local function resumed(ok, ...)
  if ok then return ok, ... end
  return false, caught((...))
end
function coroutines.resume(...)
  if type((...)) ~= "thread" then bad_argument(1, "resume", "coroutine expected") end
  return resumed(coroutine.resume(...))
end

-- Loading: source only. Compiled code could break the machine it runs on.

function globals.loadstring(source, name)
  if type(source) == "number" then source = tostring(source) end
  if type(source) ~= "string" then
    bad_argument(1, "loadstring", "string expected, got " .. type(source))
  end
  name = name or source
  if byte(source) == 27 then source = " " .. source end
  return raw_loadstring(source, name)
end

function globals.load(reader, name)
  if type(reader) ~= "function" then
    bad_argument(1, "load", "function expected, got " .. type(reader))
  end
  local pieces = {}
  while true do
    local piece = reader()
    if piece == nil or piece == "" then break end
    if type(piece) ~= "string" then return nil, "reader function must return a string" end
    pieces[#pieces + 1] = piece
  end
  return globals.loadstring(concat(pieces), name or "=(load)")
end

-- What would show the state of this process -----------------------------------------------------

local numbered, last_number

function globals.tostring(...)
  if select("#", ...) == 0 then bad_argument(1, "tostring", "value expected") end
  local value = ...
  local kind = type(value)
  if kind ~= "table" and kind ~= "function" and kind ~= "thread" then return tostring(value) end
  local metatable = getmetatable(value)
  if type(metatable) == "table" and rawget(metatable, "__tostring") then return tostring(value) end
  numbered = numbered or {}
  local number = numbered[value]
  if not number then
    last_number = last_number + 1
    number = last_number
    numbered[value] = number
  end
  return format("%s: 0x%012x", kind, number * 16)
end

local KILOBYTES = 64
local collector_options = {
  collect = 0, count = KILOBYTES, restart = 0, setpause = 200, setstepmul = 200, step = false,
  stop = 0,
}

function globals.collectgarbage(option)
  local result = collector_options[option or "collect"]
  if result == nil then
    bad_argument(1, "collectgarbage", format("invalid option '%s'", tostring(option)))
  end
  return result
end

function globals.gcinfo()
  return KILOBYTES
end

-- The libraries ---------------------------------------------------------------------------------

local maths, strings = {}, {}
for name, value in raw_pairs(math) do maths[name] = value end
for name, value in raw_pairs(string) do strings[name] = value end
maths.random = native.random
maths.randomseed = native.randomseed

globals.bit = freeze(native.bit)
globals.coroutine = freeze(coroutines)
globals.math = freeze(maths)
globals.redis = freeze(native.redis)
globals.string = freeze(strings)
globals.table = freeze(tables)

-- All strings share one metatable, which is as global as a variable.
getmetatable("").__index = strings
getmetatable("").__metatable = freeze({ __index = globals.string })

local function missing(_, name)
  name = match(tostring(name), "^[^%z]*")
  error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
end
setmetatable(globals, { __index = missing })
local environment = freeze(globals, freeze({ __index = missing }))
rawset(globals, "_G", environment)

local explain = native.explain

local function settle_run(ok, ...)
  if not ok and (...) == "error in error handling" then native.overflowed() end
  return ok, ...
end

local function run(script, keys, args)
  numbered, last_number = nil, 0
  globals.KEYS, globals.ARGV = keys, args
  return settle_run(raw_xpcall(script, explain))
end

local function compile(source)
  return globals.loadstring(source, "@user_script")
end

return run, compile, environment
