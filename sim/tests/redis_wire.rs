//! The wire format, with the codec of another crate as the other party.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3::types::BytesFrame as Frame3;
use sim::redis::{Decoder, Protocol, Reply, encode};

fn decode_all(decoder: &mut Decoder) -> Vec<Vec<Bytes>> {
    std::iter::from_fn(|| decoder.next_request().expect("well formed")).collect()
}

fn encoded(reply: &Reply, protocol: Protocol) -> Bytes {
    let mut out = BytesMut::new();
    encode(reply, protocol, &mut out);
    out.freeze()
}

fn word() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn line() -> impl Strategy<Value = Bytes> {
    "[a-zA-Z ]{0,20}".prop_map(Bytes::from)
}

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        line().prop_map(Reply::Status),
        line().prop_map(|text| Reply::Error([b"ERR ".as_slice(), &text].concat().into())),
        any::<i64>().prop_map(Reply::Integer),
        word().prop_map(Reply::Bulk),
        Just(Reply::Null),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        proptest::collection::vec(inner, 0..5).prop_map(Reply::Array)
    })
}

fn frame2(reply: &Reply) -> Frame2 {
    let text = |text: &Bytes| String::from_utf8(text.to_vec()).expect("a line").into();
    match reply {
        Reply::Status(status) => Frame2::SimpleString(status.clone()),
        Reply::Error(error) => Frame2::Error(text(error)),
        Reply::Integer(number) => Frame2::Integer(*number),
        Reply::Bulk(bytes) => Frame2::BulkString(bytes.clone()),
        Reply::Null => Frame2::Null,
        Reply::Array(items) => Frame2::Array(items.iter().map(frame2).collect()),
        other => panic!("not generated: {other:?}"),
    }
}

proptest! {
    #[test]
    fn requests_survive_any_cut(
        requests in proptest::collection::vec(proptest::collection::vec(word(), 1..6), 1..6),
        cuts in proptest::collection::vec(1_usize..30, 1..20),
    ) {
        let mut bytes = BytesMut::new();
        for request in &requests {
            let words = request.iter().cloned().map(Frame2::BulkString).collect();
            redis_protocol::resp2::encode::extend_encode(
                &mut bytes, &Frame2::Array(words), false,
            ).unwrap();
        }
        let mut decoder = Decoder::new();
        let mut decoded = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            decoder.feed(piece);
            decoded.extend(decode_all(&mut decoder));
            rest = after;
        }
        prop_assert_eq!(decoded, requests);
    }

    #[test]
    fn replies_read_back_as_written(reply in reply()) {
        let bytes = encoded(&reply, Protocol::Resp2);
        let (frame, length) =
            redis_protocol::resp2::decode::decode_bytes(&bytes).unwrap().expect("complete");
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!(frame, frame2(&reply));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        pieces in proptest::collection::vec(
            prop_oneof![
                word(),
                "[*$][0-9-]{0,3}(\r\n)?".prop_map(Bytes::from),
                "[A-Z\"' ]{0,10}\r\n".prop_map(Bytes::from),
            ],
            0..10,
        ),
    ) {
        let mut decoder = Decoder::new();
        for piece in &pieces {
            decoder.feed(piece);
            loop {
                match decoder.next_request() {
                    Ok(Some(request)) => prop_assert!(!request.is_empty()),
                    Ok(None) => break,
                    Err(error) => {
                        prop_assert!(error.to_string().starts_with("ERR Protocol error: "));
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[test]
fn the_third_version_has_types_of_its_own() {
    let text = Bytes::from_static(b"x");
    let pair = (Reply::Integer(1), Reply::Null);
    for (reply, resp2, resp3) in [
        (Reply::Null, "$-1\r\n", "_\r\n"),
        (Reply::Bool(true), ":1\r\n", "#t\r\n"),
        (Reply::Bool(false), ":0\r\n", "#f\r\n"),
        (Reply::Double(2.5), "$3\r\n2.5\r\n", ",2.5\r\n"),
        (
            Reply::Map(vec![pair]),
            "*2\r\n:1\r\n$-1\r\n",
            "%1\r\n:1\r\n_\r\n",
        ),
        (
            Reply::Set(vec![Reply::Null]),
            "*1\r\n$-1\r\n",
            "~1\r\n_\r\n",
        ),
        (Reply::BigNumber(text.clone()), "$1\r\nx\r\n", "(x\r\n"),
        (
            Reply::Verbatim {
                format: Bytes::from_static(b"txt"),
                text,
            },
            "$1\r\nx\r\n",
            "=5\r\ntxt:x\r\n",
        ),
        (Reply::Close, "+OK\r\n", "+OK\r\n"),
    ] {
        assert_eq!(encoded(&reply, Protocol::Resp2), resp2);
        assert_eq!(encoded(&reply, Protocol::Resp3), resp3);
    }
}

#[test]
fn the_third_version_reads_back() {
    let pair = (Reply::Bulk(Bytes::from_static(b"k")), Reply::Double(1.5));
    let reply = Reply::Array(vec![
        Reply::Map(vec![pair]),
        Reply::Bool(true),
        Reply::Null,
        Reply::Set(vec![Reply::Integer(1)]),
        Reply::Status(Bytes::from_static(b"OK")),
    ]);
    let bytes = encoded(&reply, Protocol::Resp3);
    let (frame, length) = redis_protocol::resp3::decode::complete::decode_bytes(&bytes)
        .unwrap()
        .expect("complete");
    assert_eq!(length, bytes.len());
    let Frame3::Array { data, .. } = frame else {
        panic!("an array: {frame:?}")
    };
    assert_eq!(data.len(), 5);
    assert!(matches!(data[0], Frame3::Map { .. }));
    assert!(matches!(data[1], Frame3::Boolean { data: true, .. }));
    assert!(matches!(data[2], Frame3::Null));
}

#[test]
fn a_line_without_end_is_refused() {
    let mut decoder = Decoder::new();
    decoder.feed(&[b'x'; 64 * 1024 + 1]);
    let error = decoder.next_request().unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERR Protocol error: too big inline request"
    );

    let mut decoder = Decoder::new();
    decoder.feed(b"*1");
    decoder.feed(&[b'1'; 64 * 1024 + 1]);
    let error = decoder.next_request().unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERR Protocol error: too big mbulk count string"
    );

    let mut decoder = Decoder::new();
    decoder.feed(b"*1\r\n$");
    decoder.feed(&[b'1'; 64 * 1024 + 1]);
    let error = decoder.next_request().unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERR Protocol error: too big bulk count string"
    );
}

#[test]
fn a_waiting_request_costs_nothing_to_wait_for() {
    // One byte at a time, a long word is still read in one pass.
    let mut decoder = Decoder::new();
    decoder.feed(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n");
    for _ in 0..1_000_000 {
        decoder.feed(b"x");
        assert_eq!(decoder.next_request(), Ok(None));
    }
    decoder.feed(b"\r\n");
    assert_eq!(decoder.next_request().unwrap().unwrap()[1].len(), 1_000_000);
}
