//! What reaches clients of a simulated Redis without being the answer to their last command:
//! messages, and items that they waited for. Everything goes through the `redis` crate, over the
//! simulated socket, on every engine.
//!
//! Segments take 5 ms each way; see [`watch::world`].

mod watch;

use redis::{FromRedisValue, PushInfo, RedisResult, Value};
use sim::fault::{Fault, When};
use sim::history::What;
use sim::{Client, RedisListener};
use watch::{
    FIRST, LOCK, Notes, SECOND, Watched, ask, clock_step, connect, crash, hold, pause, play, until,
    world,
};

/// A value as text, its parts separated by blanks.
fn text(value: &Value) -> String {
    match value {
        Value::Nil => "nil".into(),
        Value::Int(number) => number.to_string(),
        Value::Array(items) => joined(items),
        Value::Push { kind, data } => format!("{kind} {}", joined(data)),
        other => String::from_redis_value(other.clone()).unwrap(),
    }
}

fn joined(values: &[Value]) -> String {
    let texts: Vec<_> = values.iter().map(text).collect();
    texts.join(" ")
}

/// One command over a connection of its own, its words separated by blanks.
async fn send(listener: &mut RedisListener, command: &str) -> String {
    let mut words = command.split(' ');
    let mut sent = redis::cmd(words.next().unwrap());
    for word in words {
        sent.arg(word);
    }
    let answer: RedisResult<Value> = sent.query_async(listener).await;
    match answer {
        Ok(value) => text(&value),
        Err(error) if error.is_connection_dropped() => "dropped".into(),
        Err(error) => format!("error: {error}"),
    }
}

/// Notes every message until the connection breaks.
async fn note_messages(client: Client, notes: Notes, mut listener: RedisListener) {
    while let Some(push) = listener.message().await {
        let PushInfo { kind, data } = push;
        notes.note(client, format!("{kind} {}", joined(&data)));
    }
    notes.note(client, "broken");
}

/// Client 1 subscribes at about 100 ms and notes what it hears; client 2 sends each command at
/// its time.
fn listening(
    faults: &[(When, Fault)],
    subscribe: &'static str,
    commands: &'static [(u64, &'static str)],
) -> Watched {
    play(world(2, 1, faults), move |client, notes| {
        Box::pin(async move {
            if client.node() == FIRST {
                until(client, 100).await;
                let mut listener = client.listen(0).await.unwrap();
                // The confirmation is an answer, and a message too.
                let confirmed = send(&mut listener, subscribe).await;
                assert!(confirmed.contains("subscribe"), "{confirmed}");
                note_messages(client, notes, listener).await;
                return;
            }
            connect(client).await;
            for &(at, command) in commands {
                until(client, at).await;
                notes.note(client, ask(client, command).await);
            }
        })
    })
}

#[test]
fn a_message_reaches_who_listens_after_one_way() {
    let seen = listening(
        &[],
        "SUBSCRIBE released",
        &[
            (200, "PUBLISH released lock"),
            (300, "PUBLISH other lock"),
            (
                400,
                "EVAL return(redis.call)('publish',KEYS[1],ARGV[1]) 1 released again",
            ),
        ],
    );
    assert_eq!(seen.notes_of(SECOND), ["210: 1", "310: 0", "410: 1"]);
    assert_eq!(
        seen.notes_of(FIRST)[1..],
        ["210: message released lock", "410: message released again"]
    );
}

#[test]
fn the_event_of_an_expired_key_comes_when_it_is_deleted() {
    // The deadline is at 455 ms; the background comes by at 500 ms.
    let seen = listening(
        &[],
        "PSUBSCRIBE __keyevent@*__:expired",
        &[
            (200, "CONFIG SET notify-keyspace-events Ex"),
            (250, "SET lock me PX 200"),
        ],
    );
    assert_eq!(
        seen.notes_of(FIRST)[1..],
        ["505: pmessage __keyevent@*__:expired __keyevent@0__:expired lock"]
    );
    // Whoever looks before that deletes it.
    let seen = listening(
        &[],
        "PSUBSCRIBE __keyevent@*__:expired",
        &[
            (200, "CONFIG SET notify-keyspace-events Ex"),
            (250, "SET lock me PX 200"),
            (460, "SET lock you NX"),
        ],
    );
    assert_eq!(
        seen.notes_of(FIRST)[1..],
        ["470: pmessage __keyevent@*__:expired __keyevent@0__:expired lock"]
    );
}

#[test]
fn an_evicted_key_is_told_at_once_and_a_flushed_one_never() {
    let commands: &[_] = &[
        (200, "CONFIG SET notify-keyspace-events KEA"),
        (300, "SET lock me"),
    ];
    let nodes = vec![LOCK];
    let evicted = (When::At(400), Fault::Evict { nodes });
    let seen = listening(&[evicted], "PSUBSCRIBE __keyevent@*__:e*", commands);
    assert_eq!(
        seen.notes_of(FIRST)[1..],
        ["405: pmessage __keyevent@*__:e* __keyevent@0__:evicted lock"]
    );
    let nodes = vec![LOCK];
    let flushed = (When::At(400), Fault::Flush { nodes });
    let seen = listening(&[flushed], "PSUBSCRIBE __keyevent@*__:*", commands);
    assert_eq!(
        seen.notes_of(FIRST)[1..],
        ["310: pmessage __keyevent@*__:* __keyevent@0__:set lock"]
    );
}

#[test]
fn by_default_no_event_is_told() {
    let seen = listening(
        &[],
        "PSUBSCRIBE __key*__:*",
        &[(250, "SET lock me PX 100"), (600, "DEL lock")],
    );
    assert_eq!(seen.notes_of(FIRST).len(), 1, "only the subscription");
}

#[test]
fn messages_are_lost_while_nobody_listens_and_wait_while_the_listener_pauses() {
    let paused = (When::At(250), pause(FIRST, 1_000));
    let seen = listening(
        &[paused],
        "SUBSCRIBE released",
        &[
            (50, "PUBLISH released early"),
            (300, "PUBLISH released one"),
            (400, "PUBLISH released two"),
        ],
    );
    assert_eq!(seen.notes_of(SECOND), ["60: 0", "310: 1", "410: 1"]);
    assert_eq!(
        seen.notes_of(FIRST)[1..],
        ["1250: message released one", "1250: message released two"]
    );
}

#[test]
fn messages_that_are_held_on_the_way_come_in_order() {
    let held = (When::At(250), hold(FIRST, LOCK, 1_000));
    let seen = listening(
        &[held],
        "SUBSCRIBE released",
        &[
            (300, "PUBLISH released one"),
            (400, "PUBLISH released two"),
            (2_000, "PUBLISH released three"),
        ],
    );
    let notes = seen.notes_of(FIRST);
    assert_eq!(notes.len(), 4);
    assert!(notes[1].ends_with("released one"));
    assert!(notes[2].ends_with("released two"));
    assert_eq!(notes[3], "2010: message released three");
}

#[test]
fn a_server_forgets_who_listened_when_the_listener_dies() {
    let seen = listening(
        &[(When::At(250), crash(FIRST))],
        "SUBSCRIBE released",
        &[
            (200, "PUBLISH released one"),
            (300, "PUBLISH released two"),
            (310, "PUBSUB NUMSUB released"),
        ],
    );
    assert_eq!(seen.notes_of(SECOND)[..2], ["210: 1", "310: 0"]);
}

#[test]
fn a_listener_learns_that_its_server_has_died() {
    let seen = listening(&[(When::At(250), crash(LOCK))], "SUBSCRIBE released", &[]);
    assert_eq!(seen.notes_of(FIRST)[1..], ["255: broken"]);
}

/// Client 1 sends one command over a connection of its own at about 100 ms and notes the answer;
/// client 2 sends each command at its time.
fn waiting(
    faults: &[(When, Fault)],
    command: &'static str,
    commands: &'static [(u64, &'static str)],
) -> Watched {
    play(world(2, 1, faults), move |client, notes| {
        Box::pin(async move {
            if client.node() == FIRST {
                let mut listener = client.listen(0).await.unwrap();
                until(client, 100).await;
                notes.note(client, send(&mut listener, command).await);
                notes.note(client, send(&mut listener, "PING").await);
                return;
            }
            connect(client).await;
            for &(at, command) in commands {
                until(client, at).await;
                notes.note(client, ask(client, command).await);
            }
        })
    })
}

#[test]
fn an_item_that_was_waited_for_comes_when_it_is_pushed() {
    let seen = waiting(&[], "BLPOP free 0", &[(300, "RPUSH free token")]);
    assert_eq!(seen.notes_of(SECOND), ["310: 1"]);
    assert_eq!(seen.notes_of(FIRST), ["310: free token", "320: PONG"]);
    // The push is the pusher's change, and taking it the waiter's.
    let changes: Vec<_> = seen
        .history
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::Changed { by, after, .. } => {
                Some((*by, after.as_ref().map(|after| after.value.clone())))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        changes,
        [
            (Some(SECOND), Some("token".to_owned())),
            (Some(FIRST), None)
        ]
    );
}

#[test]
fn waiting_ends_when_its_time_is_up() {
    let seen = waiting(&[], "BLPOP free 0.5", &[]);
    assert_eq!(seen.notes_of(FIRST), ["611: nil", "621: PONG"]);
}

#[test]
fn a_clock_that_is_set_forward_ends_the_waiting() {
    let stepped = (When::At(400), clock_step(LOCK, 60_000));
    let seen = waiting(&[stepped], "BLPOP free 30", &[]);
    assert_eq!(seen.notes_of(FIRST), ["405: nil", "415: PONG"]);
}

#[test]
fn nobody_is_given_an_item_who_died_while_waiting() {
    let seen = waiting(
        &[(When::At(200), crash(FIRST))],
        "BLPOP free 0",
        &[(300, "RPUSH free token"), (400, "LLEN free")],
    );
    assert_eq!(seen.notes_of(SECOND), ["310: 1", "410: 1"]);
    assert_eq!(seen.notes_of(FIRST), [""; 0]);
}

#[test]
fn an_item_is_lost_with_the_connection_it_was_sent_over() {
    let held = (When::At(200), hold(FIRST, LOCK, 50_000));
    let seen = waiting(
        &[held],
        "BLPOP free 0",
        &[(300, "RPUSH free token"), (400, "LLEN free")],
    );
    assert_eq!(seen.notes_of(SECOND), ["310: 1", "410: 0"]);
}

#[test]
fn clients_that_write_wait_while_the_server_pauses_them() {
    let seen = waiting(
        &[],
        "SET lock me",
        &[
            (50, "CLIENT PAUSE 300 WRITE"),
            (200, "GET lock"),
            (400, "GET lock"),
        ],
    );
    assert_eq!(seen.notes_of(SECOND), ["60: OK", "210: nil", "410: me"]);
    assert_eq!(seen.notes_of(FIRST), ["360: OK", "370: PONG"]);
    let seen = waiting(
        &[],
        "SET lock me",
        &[(50, "CLIENT PAUSE 30000 WRITE"), (200, "CLIENT UNPAUSE")],
    );
    assert_eq!(seen.notes_of(FIRST), ["210: OK", "220: PONG"]);
}

#[test]
fn a_clock_that_is_set_forward_ends_the_pause() {
    let stepped = (When::At(400), clock_step(LOCK, 60_000));
    let seen = waiting(
        &[stepped],
        "SET lock me",
        &[(50, "CLIENT PAUSE 30000 WRITE"), (300, "GET lock")],
    );
    assert_eq!(seen.notes_of(FIRST), ["405: OK", "415: PONG"]);
}

#[test]
fn keys_that_expired_during_a_pause_are_hidden_at_once_and_deleted_after_it() {
    let seen = waiting(
        &[],
        "CLIENT PAUSE 900 WRITE",
        &[
            (50, "SET lock me PX 300"),
            (450, "GET lock"),
            (700, "DBSIZE"),
            (1_200, "DBSIZE"),
        ],
    );
    let sizes = ["60: OK", "460: nil", "710: 1", "1210: 0"];
    assert_eq!(seen.notes_of(SECOND), sizes);
}

#[test]
#[should_panic(expected = "can't set immutable config")]
fn a_setting_that_stays_as_it_is_fails_the_run_instead_of_being_judged() {
    waiting(&[], "CONFIG SET appendonly yes", &[]);
}

#[test]
fn a_transaction_is_refused_after_a_watched_key_was_written() {
    let seen = play(world(2, 1, &[]), |client, notes| {
        Box::pin(async move {
            let mut listener = client.listen(0).await.unwrap();
            until(client, 100).await;
            send(&mut listener, "WATCH lock").await;
            until(client, 200).await;
            // Both read, both write: the second has lost.
            if client.node() == SECOND {
                client.sleep(50).await;
            }
            let answer: RedisResult<Value> = redis::pipe()
                .atomic()
                .cmd("SET")
                .arg("lock")
                .arg(client.node().to_string())
                .query_async(&mut listener)
                .await;
            notes.note(client, text(&answer.unwrap()));
            notes.note(client, ask(client, "GET lock").await);
        })
    });
    assert!(seen.notes_of(FIRST)[0].starts_with("210: "));
    assert_eq!(seen.notes_of(SECOND)[0], "260: nil");
    assert!(seen.notes_of(SECOND)[1].ends_with(": client-1"));
}
