//! Plays small worlds and keeps what their programs saw, for tests to compare.
#![allow(dead_code, unreachable_pub)] // every test file uses its own part

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use redis::Value;
use sim::engine::{ALL, Engine, Event};
use sim::fault::{Fault, Plan, Planned, Point, When};
use sim::history::What;
use sim::store::{Guard, Operation, Reply, Request};
use sim::{Client, History, Millis, NodeId, Setup, Software, StoreError};

pub const LOCK: NodeId = NodeId::Lock(1);
pub const FIRST: NodeId = NodeId::Client(1);
pub const SECOND: NodeId = NodeId::Client(2);

/// What programs note while they run. A program knows its own clock alone, so a note leaves a
/// mark in the history, which knows the world's time.
#[derive(Clone, Default)]
pub struct Notes(Rc<RefCell<Vec<(NodeId, String)>>>);

impl Notes {
    pub fn note(&self, client: Client, text: impl Into<String>) {
        let section = self.0.borrow().len() as u32;
        let takes = MARK;
        client.record(What::Working { section, takes });
        self.0.borrow_mut().push((client.node(), text.into()));
    }

    /// The notes with their times. Takes their marks out of the history.
    fn read(&self, history: &mut History) -> Vec<(Millis, NodeId, String)> {
        let mut notes: Vec<_> = self.0.take().into_iter().map(Some).collect();
        let mut read = Vec::new();
        history.events.retain(|event| {
            let What::Working {
                takes: MARK,
                section,
            } = event.what
            else {
                return true;
            };
            let (by, text) = notes[section as usize].take().expect("marked once");
            read.push((event.at, by, text));
            false
        });
        read
    }
}

/// No work takes so long.
const MARK: Millis = Millis::MAX;

/// A world that was played. A failing test prints what replays it.
pub struct Watched {
    pub setup: Setup,
    pub history: History,
    pub notes: Vec<(Millis, NodeId, String)>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: Event.run(&{:?}, ...)", self.setup);
            for event in &self.history.events {
                eprintln!("{:>8} {} {:?}", event.at, event.node, event.what);
            }
        }
    }
}

impl Watched {
    /// The notes of one client, as `time: text`.
    pub fn notes_of(&self, client: NodeId) -> Vec<String> {
        let of = |(at, by, text): &(Millis, NodeId, String)| {
            (*by == client).then(|| format!("{at}: {text}"))
        };
        self.notes.iter().filter_map(of).collect()
    }

    /// When events happened that `which` picks.
    pub fn times(&self, which: impl Fn(NodeId, &What) -> bool) -> Vec<Millis> {
        let picked = |event: &&sim::history::Event| which(event.node, &event.what);
        let events = self.history.events.iter();
        events.filter(picked).map(|event| event.at).collect()
    }

    /// What servers executed of a client, connecting left out, as `time: command`.
    pub fn executed_of(&self, client: NodeId) -> Vec<String> {
        let executed = |event: &sim::history::Event| match event.what {
            What::Executed { by, command }
                if by == client && !["hello", "client"].contains(&command) =>
            {
                Some(format!("{}: {command}", event.at))
            }
            _ => None,
        };
        self.history.events.iter().filter_map(executed).collect()
    }

    /// When a client reached a point.
    pub fn reached(&self, client: NodeId, wanted: Point) -> Vec<Millis> {
        self.times(|node, what| {
            node == client && matches!(what, What::Reached { point, .. } if *point == wanted)
        })
    }
}

/// A world whose segments take 5 ms each, so that every time in it is known.
pub fn world(clients: u16, servers: u16, faults: &[(When, Fault)]) -> Setup {
    let planned = faults.iter().cloned();
    Setup {
        seed: 4711,
        clients,
        servers,
        deployment: sim::redis::Deployment::default(),
        latency: 5..=5,
        ends: 60_000,
        redis_timeout: 1_000,
        store_timeout: 1_000,
        software: Software::Redis,
        store: sim::store::Settings::default(),
        plan: Plan(
            planned
                .map(|(when, fault)| Planned { fault, when })
                .collect(),
        ),
    }
}

/// Plays a world to its end on every engine. What its programs note and what its servers
/// execute must be the same on all of them, to the millisecond; the order within one is each
/// engine's own. Gives back what the event engine has played.
#[track_caller]
pub fn play(
    setup: Setup,
    program: impl Fn(Client, Notes) -> LocalBoxFuture<'static, ()>,
) -> Watched {
    let seen = play_on(&Event, setup.clone(), &program);
    for &engine in ALL.iter().filter(|engine| engine.name() != Event.name()) {
        let other = play_on(engine, setup.clone(), &program);
        for client in (1..=setup.clients).map(NodeId::Client) {
            let of = |watched: &Watched| {
                let mut notes = watched.notes_of(client);
                notes.sort();
                (notes, watched.executed_of(client))
            };
            assert_eq!(
                of(&seen),
                of(&other),
                "{client} saw this on the event engine, and that on the {} engine",
                engine.name()
            );
        }
    }
    seen
}

/// Plays a world to its end on one engine.
#[track_caller]
pub fn play_on(
    engine: &dyn Engine,
    setup: Setup,
    program: impl Fn(Client, Notes) -> LocalBoxFuture<'static, ()>,
) -> Watched {
    let notes = Notes::default();
    let mut history = engine
        .run(&setup, &|client| program(client, notes.clone()))
        .unwrap_or_else(|failed| panic!("{failed} in {setup:?}"));
    let notes = notes.read(&mut history);
    Watched {
        setup,
        history,
        notes,
    }
}

/// A fault at a point of client-1, the first time.
pub fn at_point(point: Point) -> When {
    When::Point {
        client: FIRST,
        point,
        nth: 1,
    }
}

pub fn pause(node: NodeId, lasts: Millis) -> Fault {
    Fault::Pause {
        nodes: vec![node],
        lasts,
    }
}

pub fn suspend(node: NodeId, lasts: Millis) -> Fault {
    Fault::Suspend {
        nodes: vec![node],
        lasts,
    }
}

pub fn crash(node: NodeId) -> Fault {
    Fault::Crash { nodes: vec![node] }
}

pub fn thread_death(node: NodeId) -> Fault {
    Fault::ThreadDeath { nodes: vec![node] }
}

pub fn power_loss(node: NodeId) -> Fault {
    Fault::PowerLoss { nodes: vec![node] }
}

pub fn flush(node: NodeId) -> Fault {
    Fault::Flush { nodes: vec![node] }
}

pub fn evict(node: NodeId) -> Fault {
    Fault::Evict { nodes: vec![node] }
}

pub fn hold(a: NodeId, b: NodeId, lasts: Millis) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::Hold { a, b, lasts }
}

pub fn one_way(a: NodeId, b: NodeId, lasts: Millis) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::OneWay { a, b, lasts }
}

pub fn refuse(a: NodeId, b: NodeId, lasts: Millis) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::Refuse { a, b, lasts }
}

pub fn slow(a: NodeId, b: NodeId, by: Millis, lasts: Millis) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::Slow { a, b, by, lasts }
}

pub fn loss(a: NodeId, b: NodeId, percent: u32, lasts: Millis) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::Loss {
        a,
        b,
        percent,
        lasts,
    }
}

pub fn reset(a: NodeId, b: NodeId) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::Reset { a, b }
}

pub fn drop_replies(a: NodeId, b: NodeId, lasts: Millis) -> Fault {
    let (a, b) = (vec![a], vec![b]);
    Fault::DropReplies { a, b, lasts }
}

pub fn clock_step(node: NodeId, by: i64) -> Fault {
    Fault::ClockStep {
        nodes: vec![node],
        by,
    }
}

pub fn clock_rate(node: NodeId, ppm: i64) -> Fault {
    Fault::ClockRate {
        nodes: vec![node],
        ppm,
    }
}

pub fn clock_offset(node: NodeId, by: i64) -> Fault {
    Fault::ClockOffset {
        nodes: vec![node],
        by,
    }
}

/// Waits until the client's monotonic clock shows a time, which is the world's unless a fault has
/// touched it.
pub async fn until(client: Client, time: Millis) {
    client.sleep(time.saturating_sub(client.now())).await;
}

/// One command, its words separated by blanks, to the first server; the answer as text.
pub async fn ask(client: Client, command: &str) -> String {
    ask_server(client, 0, command).await
}

/// One command to a server counted from zero.
pub async fn ask_server(client: Client, server: usize, command: &str) -> String {
    let mut words = command.split(' ');
    let mut asked = redis::cmd(words.next().unwrap());
    for word in words {
        asked.arg(word);
    }
    match asked.query_async(&mut client.redis(server)).await {
        Ok(Value::Okay) => "OK".into(),
        Ok(Value::Nil) => "nil".into(),
        Ok(Value::Int(number)) => number.to_string(),
        Ok(Value::BulkString(bytes)) => String::from_utf8(bytes).unwrap(),
        Ok(Value::SimpleString(text)) => text,
        Ok(other) => format!("{other:?}"),
        Err(error) if error.is_timeout() => "timed out".into(),
        Err(error) if error.is_connection_dropped() => "dropped".into(),
        Err(error) => format!("error: {error}"),
    }
}

/// Connects to the first server, which is done well before 100 ms.
pub async fn connect(client: Client) {
    assert_eq!(ask(client, "PING").await, "PONG");
}

pub fn read(row: u32) -> Request {
    Request::new("t", Operation::Read { row })
}

pub fn write(row: u32, value: i64) -> Request {
    let guard = Guard::Plain;
    Request::new("t", Operation::Write { row, value, guard })
}

/// The store's answer as text.
pub fn told(answer: Result<Reply, StoreError>) -> String {
    match answer {
        Ok(Reply::Row(row)) => format!("row {}", row.value),
        Ok(Reply::Accepted) => "accepted".into(),
        Ok(Reply::Refused) => "refused".into(),
        Ok(other) => format!("{other:?}"),
        Err(StoreError::TimedOut) => "timed out".into(),
        Err(StoreError::Disconnected) => "disconnected".into(),
    }
}
