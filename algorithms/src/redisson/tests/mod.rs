//! The scripts and the waiting, against the simulated Redis. Segments take 5 ms each, so that every
//! time is known.

mod read_write;

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use sim::engine::{ALL, Engine, Event};
use sim::fault::{Fault, Plan, Planned, When};
use sim::store::Comparator;
use sim::{Millis, NodeId, Setup};

use super::fair::Fair;
use super::lock::Plain;
use super::{Scripts, Waiting};
use crate::client::Settings;
use crate::{Client, Lock, ReleaseError};

const TTL: Millis = 30_000;
const KEY: &str = "lock:1";

type Notes = Rc<RefCell<Vec<String>>>;

fn client(inner: sim::Client) -> Client {
    let settings = Settings {
        ttl: TTL,
        renew_every: None,
        server_timeout: None,
        comparator: Comparator::Strict,
    };
    Client::new(inner, settings)
}

/// Plays a program on some clients, each of which begins a second after the one before, and
/// returns what they noted.
fn noted_on(
    engine: &dyn Engine,
    clients: u16,
    faults: &[(When, Fault)],
    program: impl Fn(Client, Notes) -> LocalBoxFuture<'static, ()>,
) -> Vec<String> {
    let planned = faults.iter().cloned();
    let setup = Setup {
        seed: 1,
        clients,
        servers: 1,
        latency: 5..=5,
        ends: 500_000,
        redis_timeout: 1_000,
        store_timeout: 1_000,
        software: sim::Software::Redis,
        store: sim::store::Settings::default(),
        deployment: sim::redis::Deployment::default(),
        plan: Plan(
            planned
                .map(|(when, fault)| Planned { fault, when })
                .collect(),
        ),
    };
    let notes = Notes::default();
    let run = |inner| {
        let client = client(inner);
        let program = program(client.clone(), notes.clone());
        let begins = Millis::from(client.number() - 1) * 1_000;
        let body = async move {
            client.sleep(begins).await;
            program.await;
        };
        Box::pin(body) as LocalBoxFuture<'static, ()>
    };
    engine.run(&setup, &run).expect("the testbed works");
    notes.take()
}

fn noted(
    clients: u16,
    program: impl Fn(Client, Notes) -> LocalBoxFuture<'static, ()>,
) -> Vec<String> {
    noted_on(&Event, clients, &[], program)
}

fn plain(client: Client) -> Waiting<Plain> {
    Waiting::new(client, Plain)
}

fn fair(client: Client) -> Waiting<Fair> {
    Waiting::new(client, Fair)
}

/// Takes the lock at once, holds it for so long, and gives it back; notes both times.
async fn holds(mut lock: Waiting<impl Scripts>, notes: Notes, length: Millis) {
    let client = lock.client.clone();
    let lease = lock.acquire(KEY).await.expect("nothing breaks");
    let note = |what: &str| {
        let note = format!("{} {what} at {}", client.node(), client.now());
        notes.borrow_mut().push(note);
    };
    note("takes it");
    client.sleep(length).await;
    note("gives it back");
    lock.release(&lease).await.expect("nothing breaks");
}

#[test]
fn an_owner_takes_it_twice_and_gives_it_back_twice() {
    let notes = noted(1, |client, notes| {
        Box::pin(async move {
            let take = |owner| Plain.take(&client, KEY, owner);
            let free = |owner, latch| Plain.free(&client, KEY, owner, latch);
            let note = |text: String| notes.borrow_mut().push(text);
            note(format!("{:?}", take("me").await));
            note(format!("{:?}", take("me").await));
            // A stranger hears how long it lasts, and can give nothing back.
            note(format!("{:?}", take("you").await));
            note(format!("{:?}", free("you", "1").await));
            note(format!("{:?}", free("me", "2").await));
            note(format!("{:?}", take("you").await));
            note(format!("{:?}", free("me", "3").await));
            note(format!("{:?}", take("you").await));
        })
    });
    let expected = [
        "Ok(None)",
        "Ok(None)",
        "Ok(Some(29990))",
        "Ok(None)",
        "Ok(Some(false))",
        "Ok(Some(29990))",
        "Ok(Some(true))",
        "Ok(None)",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn a_release_that_is_sent_again_is_answered_as_the_first_was_and_frees_nobody() {
    let notes = noted(1, |client, notes| {
        Box::pin(async move {
            let note = |text: String| notes.borrow_mut().push(text);
            Plain.take(&client, KEY, "me").await.unwrap();
            note(format!("{:?}", Plain.free(&client, KEY, "me", "1").await));
            Plain.take(&client, KEY, "you").await.unwrap();
            note(format!("{:?}", Plain.free(&client, KEY, "me", "1").await));
            note(format!("{:?}", Plain.free(&client, KEY, "me", "2").await));
            note(format!("{:?}", Plain.renew(&client, KEY, "you").await));
            note(format!("{:?}", Plain.renew(&client, KEY, "me").await));
        })
    });
    let expected = [
        "Ok(Some(true))",
        "Ok(Some(true))",
        "Ok(None)",
        "Ok(true)",
        "Ok(false)",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn who_waits_is_woken_by_the_release() {
    for engine in ALL {
        let notes = noted_on(*engine, 2, &[], |client, notes| {
            Box::pin(holds(plain(client), notes, 20_000))
        });
        // Connecting, introducing oneself and asking take 30 ms. The release takes 5 ms to the
        // server, the message 5 to the waiter, and its try 10.
        let expected = [
            "client-1 takes it at 30",
            "client-1 gives it back at 20030",
            "client-2 takes it at 20050",
            "client-2 gives it back at 40050",
        ];
        assert_eq!(notes, expected, "{}", engine.name());
    }
}

#[test]
fn who_misses_the_message_sleeps_until_the_time_is_over_that_it_was_told() {
    for engine in ALL {
        let reset = Fault::Reset {
            a: vec![NodeId::Client(2)],
            b: vec![NodeId::Lock(1)],
        };
        let faults = [(When::At(10_030), reset)];
        let notes = noted_on(*engine, 2, &faults, |client, notes| {
            Box::pin(holds(plain(client), notes, 10_000))
        });
        // The key was taken at 25 ms, by the server. Client-2 subscribes after its first try, tries
        // again, and hears at about 1.1 s that the lock lasts until 30.025 s. A connection takes
        // 20 ms more than a request.
        let [first, freed, second, _] = &notes[..] else {
            panic!("{notes:?}")
        };
        assert_eq!(first, "client-1 takes it at 30");
        assert_eq!(freed, "client-1 gives it back at 10030");
        let at = second.strip_prefix("client-2 takes it at ");
        let at: Millis = at.and_then(|at| at.parse().ok()).expect(second);
        assert!(
            (30_025..30_070).contains(&at),
            "{second} on {}",
            engine.name()
        );
    }
}

#[test]
fn who_lost_its_connection_hears_the_next_message() {
    let reset = Fault::Reset {
        a: vec![NodeId::Client(2)],
        b: vec![NodeId::Lock(1)],
    };
    let faults = [(When::At(5_000), reset)];
    let notes = noted_on(&Event, 2, &faults, |client, notes| {
        Box::pin(holds(plain(client), notes, 10_000))
    });
    // Its command connection was reset too.
    assert_eq!(notes[2], "client-2 takes it at 10070");
}

#[test]
fn the_watchdog_keeps_it_for_as_long_as_it_is_held() {
    let notes = noted(2, |client, notes| {
        Box::pin(holds(plain(client), notes, 100_000))
    });
    assert_eq!(notes[2], "client-2 takes it at 100050");
}

#[test]
fn a_stranger_cannot_release_it() {
    let notes = noted(2, |client, notes| {
        Box::pin(async move {
            let mut lock = plain(client.clone());
            if client.number() == 1 {
                let lease = lock.acquire(KEY).await.unwrap();
                client.sleep(5_000).await;
                lock.release(&lease).await.unwrap();
                // The lease is over, and client-2 holds the lock by now.
                client.sleep(TTL).await;
                let again = lock.release(&lease).await;
                assert_eq!(again, Err(ReleaseError::NotOwner));
            } else {
                holds(plain(client), notes, 60_000).await;
            }
        })
    });
    assert_eq!(notes.len(), 2);
}

/// Who took the lock, in order, and when.
fn taken(notes: &[String]) -> Vec<(&str, Millis)> {
    let taken = notes.iter().filter_map(|note| {
        let (who, at) = note.split_once(" takes it at ")?;
        Some((who, at.parse().ok()?))
    });
    taken.collect()
}

#[test]
fn a_queue_is_served_in_the_order_in_which_it_came() {
    for engine in ALL {
        let notes = noted_on(*engine, 4, &[], |client, notes| {
            Box::pin(holds(fair(client), notes, 50_000))
        });
        // Each is woken by the one before.
        let expected = [
            ("client-1", 30),
            ("client-2", 50_050),
            ("client-3", 100_070),
            ("client-4", 150_090),
        ];
        assert_eq!(taken(&notes), expected, "{}", engine.name());
    }
}

#[test]
fn a_clock_that_is_ahead_empties_the_queue() {
    let ahead = Fault::ClockOffset {
        nodes: vec![NodeId::Client(4)],
        by: 20 * 60_000,
    };
    let notes = noted_on(&Event, 4, &[(When::At(0), ahead)], |client, notes| {
        Box::pin(holds(fair(client), notes, 20_000))
    });
    let order: Vec<_> = taken(&notes).into_iter().map(|(who, _)| who).collect();
    assert_eq!(order[..2], ["client-1", "client-4"]);
    assert_eq!(order.len(), 4);
}

#[test]
fn a_dead_head_of_the_queue_is_passed_over_eleven_ttls_after_it_came() {
    let dies = Fault::Crash {
        nodes: vec![NodeId::Client(2)],
    };
    let notes = noted_on(&Event, 3, &[(When::At(1_500), dies)], |client, notes| {
        Box::pin(holds(fair(client), notes, 5_000))
    });
    let taken = taken(&notes);
    assert_eq!(taken[0], ("client-1", 30));
    // Client-2 set out at 1 s and came at 1.025 s, when the lock was to last for 29 s more.
    let (who, at) = taken[1];
    assert_eq!(who, "client-3");
    assert!((330_005..330_025).contains(&at), "{at}");
}

#[test]
fn who_gives_up_leaves_the_queue_and_the_others_move_up() {
    let notes = noted(1, |client, notes| {
        Box::pin(async move {
            let take = |owner| Fair.take(&client, KEY, owner);
            let note = |text: String| notes.borrow_mut().push(text);
            for owner in ["a", "b", "c"] {
                note(format!("{:?}", take(owner).await));
            }
            assert!(Fair.leave(&client, KEY, "b").await);
            note(format!("{:?}", take("d").await));
            // Queued threads hear how long the lock itself lasts.
            note(format!("{:?}", take("c").await));
            note(format!("{:?}", Fair.free(&client, KEY, "a", "1").await));
            note(format!("{:?}", take("d").await));
            note(format!("{:?}", take("c").await));
        })
    });
    // The first waits for the lock, the next for the one before it too: 10 TTLs more. A request's
    // wall clock is read 5 ms before it is executed, and every request takes 10.
    let expected = [
        "Ok(None)",
        "Ok(Some(29990))",
        "Ok(Some(329980))",
        "Ok(Some(329960))",
        "Ok(Some(29950))",
        "Ok(Some(true))",
        "Ok(Some(0))",
        "Ok(None)",
    ];
    assert_eq!(notes, expected);
}
