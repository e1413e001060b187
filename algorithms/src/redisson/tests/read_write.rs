//! The read-write lock.

use super::*;
use crate::redisson::read_write::{Read, Write};

fn reads(client: Client) -> Waiting<Read> {
    Waiting::new(client, Read)
}

fn writes(client: Client) -> Waiting<Write> {
    Waiting::new(client, Write)
}

#[test]
fn readers_hold_it_together_and_the_last_one_wakes_the_writer() {
    for engine in ALL {
        let notes = noted_on(*engine, 3, &[], |client, notes| {
            Box::pin(async move {
                match client.number() {
                    3 => holds(writes(client), notes, 5_000).await,
                    _ => holds(reads(client), notes, 10_000).await,
                }
            })
        });
        let expected = [
            "client-1 takes it at 30",
            "client-2 takes it at 1030",
            "client-1 gives it back at 10030",
            "client-2 gives it back at 11030",
            "client-3 takes it at 11050",
            "client-3 gives it back at 16050",
        ];
        assert_eq!(notes, expected, "{}", engine.name());
    }
}

#[test]
fn a_reader_that_comes_later_overtakes_a_writer_who_waits() {
    let notes = noted(3, |client, notes| {
        Box::pin(async move {
            match client.number() {
                2 => holds(writes(client), notes, 5_000).await,
                _ => holds(reads(client), notes, 20_000).await,
            }
        })
    });
    let order: Vec<_> = taken(&notes);
    let expected = [("client-1", 30), ("client-3", 2_030), ("client-2", 22_050)];
    assert_eq!(order, expected);
}

#[test]
fn a_writer_keeps_readers_out_who_are_woken_together() {
    let notes = noted(3, |client, notes| {
        Box::pin(async move {
            match client.number() {
                1 => holds(writes(client), notes, 20_000).await,
                _ => holds(reads(client), notes, 5_000).await,
            }
        })
    });
    let expected = [("client-1", 30), ("client-2", 20_050), ("client-3", 20_050)];
    assert_eq!(taken(&notes), expected);
}

#[test]
fn who_leaves_takes_its_time_with_it() {
    let notes = noted(1, |client, notes| {
        Box::pin(async move {
            let left = async || {
                let left = Write.take(&client, KEY, "w:write").await;
                notes.borrow_mut().push(format!("{left:?}"));
            };
            Read.take(&client, KEY, "a").await.unwrap();
            client.sleep(10_000).await;
            Read.take(&client, KEY, "b").await.unwrap();
            left().await;
            // What is left of the first one's time.
            let freed = Read.free(&client, KEY, "b", "1").await;
            notes.borrow_mut().push(format!("{freed:?}"));
            left().await;
            let freed = Read.free(&client, KEY, "a", "2").await;
            notes.borrow_mut().push(format!("{freed:?}"));
            left().await;
            // Nobody's any more, so nothing is wrong with giving it back.
            client.sleep(TTL + 1_000).await;
            let freed = Read.free(&client, KEY, "a", "3").await;
            notes.borrow_mut().push(format!("{freed:?}"));
        })
    });
    let expected = [
        "Ok(Some(29990))",
        "Ok(Some(false))",
        "Ok(Some(19960))",
        "Ok(Some(true))",
        "Ok(None)",
        "Ok(Some(true))",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn a_dead_reader_holds_it_for_as_long_as_another_one_reads_and_a_ttl() {
    let dies = Fault::Crash {
        nodes: vec![NodeId::Client(1)],
    };
    let notes = noted_on(&Event, 3, &[(When::At(5_000), dies)], |client, notes| {
        Box::pin(async move {
            match client.number() {
                3 => holds(writes(client), notes, 1_000).await,
                _ => holds(reads(client), notes, 100_000).await,
            }
        })
    });
    let (who, at) = taken(&notes)[2];
    assert_eq!(who, "client-3");
    // Client-2's last refresh was at 91.1 s.
    assert!((121_000..121_500).contains(&at), "{at}");
}

#[test]
fn a_stranger_gives_nothing_back_while_somebody_holds_it() {
    let notes = noted(1, |client, notes| {
        Box::pin(async move {
            let note = |text: String| notes.borrow_mut().push(text);
            Write.take(&client, KEY, "w:write").await.unwrap();
            note(format!(
                "{:?}",
                Write.free(&client, KEY, "v:write", "1").await
            ));
            note(format!("{:?}", Read.free(&client, KEY, "r", "2").await));
            note(format!("{:?}", Read.take(&client, KEY, "r").await));
            note(format!(
                "{:?}",
                Write.free(&client, KEY, "w:write", "3").await
            ));
            note(format!("{:?}", Read.take(&client, KEY, "r").await));
        })
    });
    let expected = [
        "Ok(None)",
        "Ok(None)",
        "Ok(Some(29970))",
        "Ok(Some(true))",
        "Ok(None)",
    ];
    assert_eq!(notes, expected);
}
