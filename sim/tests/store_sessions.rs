//! Sessions of the store, over the network and on both engines: when they end, and what ends with
//! them.

mod watch;

use sim::fault::{Fault, When};
use sim::history::{Dropped, What};
use sim::store::{Operation, Reply, Request, Scope, Settings};
use sim::{Client, Millis, NodeId};
use watch::*;

/// When the store dropped a session by itself, whose it was, and why.
fn dropped(seen: &Watched) -> Vec<(Millis, NodeId, Dropped)> {
    let events = seen.history.events.iter();
    let dropped = events.filter_map(|event| match event.what {
        What::SessionDropped { of, why } => Some((event.at, of, why)),
        _ => None,
    });
    dropped.collect()
}

fn lock(waits: bool) -> Request {
    let (key, scope) = ("k".into(), Scope::Session);
    Request::new("t", Operation::Lock { key, scope, waits })
}

async fn ask_store(client: Client, request: &Request) -> String {
    match client.store(request).await {
        Ok(Reply::Number { number }) => number.to_string(),
        other => told(other),
    }
}

#[test]
fn a_lock_is_free_when_the_end_of_its_session_arrives() {
    for (fault, free_at, told) in [
        // The kernel closes; that crosses the network once.
        (crash(FIRST), 1_005, vec![]),
        // Nobody closes: the server asks 2 s after the last word, which came at 15 ms.
        (
            Fault::PowerLoss { nodes: vec![FIRST] },
            2_015,
            vec![(2_015, FIRST, Dropped::Unreachable)],
        ),
    ] {
        let mut setup = world(2, 0, &[(When::At(1_000), fault)]);
        setup.store = Settings {
            keepalive: 2_000,
            ..Settings::default()
        };
        setup.store_timeout = 5_000;
        let seen = play(setup, move |client, notes| {
            Box::pin(async move {
                if client.number() == 1 {
                    ask_store(client, &lock(false)).await;
                    return client.sleep(50_000).await;
                }
                until(client, 100).await;
                let got = ask_store(client, &lock(false)).await;
                notes.note(client, got);
                let got = ask_store(client, &lock(true)).await;
                notes.note(client, got);
            })
        });
        // The handshake, the refusal, and the answer's way back.
        let expected = [
            "120: refused".to_owned(),
            format!("{}: accepted", free_at + 5),
        ];
        assert_eq!(seen.notes_of(SECOND), expected);
        assert_eq!(dropped(&seen), told);
    }
}

#[test]
fn an_idle_session_is_dropped_and_its_number_does_not_come_back() {
    let mut setup = world(1, 0, &[]);
    setup.store.idle_timeout = Some(2_000);
    let seen = play(setup, |client, notes| {
        Box::pin(async move {
            ask_store(client, &lock(false)).await;
            let session = client.store_session().expect("it has just answered");
            until(client, 3_000).await;
            let inside = client.store_in(session, &read(1)).await;
            notes.note(client, told(inside));
            let another = ask_store(client, &read(1)).await;
            notes.note(client, another);
            let unlock = Request::new("t", Operation::Unlock { key: "k".into() });
            let gone = ask_store(client, &unlock).await;
            notes.note(client, gone);
        })
    });
    let expected = ["3000: disconnected", "3020: row 0", "3030: refused"];
    assert_eq!(seen.notes_of(FIRST), expected);
    // Its last word came 5 ms after it had been written, at 15 ms; the next session's comes at 3 025.
    let idle = |at| (at, FIRST, Dropped::Idle);
    assert_eq!(dropped(&seen)[..1], [idle(2_015)]);
}

#[test]
fn a_statement_that_waits_is_executed_though_its_sender_is_dead() {
    let setup = world(2, 0, &[(When::At(1_000), crash(FIRST))]);
    let seen = play(setup, |client, notes| {
        Box::pin(async move {
            if client.number() == 1 {
                until(client, 500).await;
                ask_store(client, &write(1, 7)).await;
                return;
            }
            let begin = Request::new("t", Operation::Begin);
            ask_store(client, &begin).await;
            ask_store(client, &write(1, 8)).await;
            until(client, 2_000).await;
            let end = Request::new("t", Operation::Commit);
            ask_store(client, &end).await;
            let value = ask_store(client, &read(1)).await;
            notes.note(client, value);
        })
    });
    assert_eq!(seen.notes_of(SECOND), ["2020: row 7"]);
}

#[test]
fn a_pooler_lends_the_session_in_which_another_client_has_left_a_lock() {
    let seen = play(world(2, 0, &[]), |client, notes| {
        Box::pin(async move {
            until(client, u64::from(client.number()) * 100).await;
            let pooled = Request {
                pooled: true,
                ..lock(false)
            };
            let got = ask_store(client, &pooled).await;
            notes.note(client, got);
            let own = ask_store(client, &lock(false)).await;
            notes.note(client, own);
        })
    });
    assert_eq!(seen.notes_of(FIRST), ["120: accepted", "130: refused"]);
    assert_eq!(seen.notes_of(SECOND), ["220: accepted", "230: refused"]);
}
