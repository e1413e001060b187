//! What holds of a server whatever it is asked, and whatever its clock does.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use sim::redis::{Cause, Connection, DATABASES, Entry, Machine, Reply, Value};

/// One thing that happens to a server.
#[derive(Clone, Debug)]
enum Event {
    Command(String),
    /// The wall clock is set to this.
    Wall(u64),
    /// The active cycle comes by.
    Cycle,
}

fn event() -> impl Strategy<Value = Event> {
    let key = prop_oneof!["a", "b", "lock"];
    let time = prop_oneof![1_i64..200, Just(-5), Just(0)];
    let command = prop_oneof![
        (key.clone(), "[0-3]").prop_map(|(key, value)| format!("SET {key} {value}")),
        (key.clone(), "[0-3]", time.clone())
            .prop_map(|(key, value, time)| format!("SET {key} {value} NX PX {time}")),
        (key.clone(), "[0-3]").prop_map(|(key, value)| format!("SET {key} {value} XX KEEPTTL GET")),
        (key.clone(), time.clone()).prop_map(|(key, time)| format!("PEXPIRE {key} {time}")),
        (key.clone(), time).prop_map(|(key, time)| format!("PEXPIRE {key} {time} GT")),
        (
            prop_oneof!["GET", "INCR", "DEL", "EXISTS", "PTTL", "PERSIST", "TYPE"],
            key.clone()
        )
            .prop_map(|(name, key)| format!("{name} {key}")),
        (key, "[0-3]").prop_map(|(key, value)| format!(
            "EVAL if(redis.call('get',KEYS[1])==ARGV[1])then(redis.call)('del',KEYS[1])end \
             1 {key} {value}"
        )),
        collection(),
        prop_oneof!["SELECT 0", "SELECT 7", "DBSIZE", "FLUSHDB"],
        Just("FLUSHALL".to_owned()),
    ];
    prop_oneof![
        8 => command.prop_map(Event::Command),
        3 => (0_u64..1000).prop_map(Event::Wall),
        1 => Just(Event::Cycle),
    ]
}

/// Commands on values that have members, and on keys whatever they hold.
fn collection() -> impl Strategy<Value = String> {
    let key = prop_oneof!["h", "l", "s", "z", "lock"];
    let name = prop_oneof![
        "HSET KEY f 1",
        "HSET KEY g 2",
        "HDEL KEY f",
        "HINCRBY KEY f 1",
        "RPUSH KEY x y",
        "LPOP KEY",
        "LTRIM KEY 1 1",
        "RPOPLPUSH KEY l",
        "BLPOP KEY 0",
        "SADD KEY m",
        "SREM KEY m",
        "SPOP KEY",
        "ZADD KEY 1 m",
        "ZADD KEY 2 m 1 n",
        "ZPOPMIN KEY",
        "ZREMRANGEBYSCORE KEY 0 1",
        "RENAME KEY lock",
        "COPY KEY lock DB 7 REPLACE",
        "PEXPIRE KEY 100",
        "DEL KEY",
    ];
    (name, key).prop_map(|(name, key)| name.replace("KEY", &key))
}

/// A server with its one client, to which events happen.
struct Server {
    machine: Machine,
    connection: Connection,
    wall: u64,
}

impl Server {
    fn new() -> Self {
        Self {
            machine: Machine::new(),
            connection: Connection::new(1),
            wall: 500,
        }
    }

    fn happen(&mut self, event: &Event) -> Option<Reply> {
        match event {
            // Whoever waits sends nothing else.
            Event::Command(_) if self.machine.is_blocked(self.connection.id) => {}
            Event::Command(line) => {
                let words: Vec<_> = line
                    .split(' ')
                    .map(|word| Bytes::from(word.to_owned()))
                    .collect();
                return Some(
                    self.machine
                        .execute(&words, &mut self.connection, self.wall),
                );
            }
            Event::Wall(wall) => self.wall = *wall,
            Event::Cycle => self.machine.expire_due(self.wall),
        }
        None
    }

    fn memory(&self) -> BTreeMap<(usize, Bytes), Entry> {
        let all = (0..DATABASES).flat_map(|db| {
            self.machine
                .entries_of(db)
                .map(move |(key, entry)| ((db, key.clone()), entry.clone()))
        });
        all.collect()
    }
}

fn status(text: &'static str) -> Reply {
    Reply::Status(Bytes::from(text))
}

proptest! {
    #[test]
    fn changes_tell_all_that_happened(events in proptest::collection::vec(event(), 0..80)) {
        let mut server = Server::new();
        let mut mirror = BTreeMap::new();
        for event in &events {
            server.happen(event);
            for change in server.machine.take_changes() {
                let place = (change.db, change.key);
                prop_assert_eq!(mirror.get(&place), change.before.as_ref());
                prop_assert_ne!(&change.before, &change.after);
                if change.cause == Cause::Expiry {
                    let deadline = change.before.and_then(|entry| entry.deadline);
                    prop_assert!(deadline.expect("only what has a deadline") <= server.wall);
                    prop_assert_eq!(&change.after, &None);
                }
                match change.after {
                    Some(entry) => mirror.insert(place, entry),
                    None => mirror.remove(&place),
                };
            }
            prop_assert_eq!(&mirror, &server.memory());
        }
    }

    #[test]
    fn the_next_deadline_is_the_earliest_in_memory(
        events in proptest::collection::vec(event(), 0..80),
    ) {
        let mut server = Server::new();
        for event in &events {
            server.happen(event);
            let earliest = server.memory().values().filter_map(|entry| entry.deadline).min();
            prop_assert_eq!(server.machine.next_deadline(), earliest);
            if matches!(event, Event::Cycle) {
                prop_assert!(earliest.is_none_or(|deadline| deadline > server.wall));
            }
        }
    }

    #[test]
    fn nobody_reads_a_key_past_its_deadline(events in proptest::collection::vec(event(), 0..80)) {
        let mut server = Server::new();
        for event in &events {
            server.happen(event);
            for ((db, key), Entry { value, deadline }) in server.memory() {
                let mut reader = Connection::new(2);
                let (name, there, gone) = match value {
                    Value::String(value) => ("GET", Reply::Bulk(value), Reply::Null),
                    other => ("TYPE", status(other.type_name()), status("none")),
                };
                let request = [Bytes::from(name), key];
                reader.db = db;
                // Reading deletes what is expired, which must not disturb the run: it is over.
                if deadline.is_some_and(|deadline| server.wall > deadline) {
                    let mut copy = Server::new();
                    for event in events.iter().take_while(|other| !std::ptr::eq(*other, event)) {
                        copy.happen(event);
                    }
                    copy.happen(event);
                    let reply = copy.machine.execute(&request, &mut reader, copy.wall);
                    prop_assert_eq!(reply, gone);
                } else {
                    let reply = server.machine.execute(&request, &mut reader, server.wall);
                    prop_assert_eq!(reply, there);
                }
            }
        }
    }

    #[test]
    fn the_same_events_give_the_same_replies(events in proptest::collection::vec(event(), 0..80)) {
        let run = || {
            let mut server = Server::new();
            let replies: Vec<_> = events.iter().map(|event| server.happen(event)).collect();
            (replies, server.machine.take_changes())
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn when_the_active_cycle_comes_by_shows_only_in_memory(
        events in proptest::collection::vec(event(), 0..80),
    ) {
        // With a clock that never goes back: otherwise what is not yet deleted lives on. DBSIZE
        // shows memory, and at its very deadline a key is readable only until the cycle comes.
        let mut eager = Server::new();
        let mut lazy = Server::new();
        for event in &events {
            match event {
                Event::Wall(wall) => {
                    let wall = eager.wall.max(*wall);
                    for server in [&mut eager, &mut lazy] {
                        server.happen(&Event::Wall(wall));
                    }
                }
                Event::Cycle => {}
                Event::Command(line) => {
                    let past = |entry: &Entry| entry.deadline == Some(eager.wall);
                    if line == "DBSIZE" || eager.memory().values().any(past) {
                        continue;
                    }
                    eager.happen(&Event::Cycle);
                    prop_assert_eq!(eager.happen(event), lazy.happen(event), "{}", line);
                }
            }
        }
    }
}
