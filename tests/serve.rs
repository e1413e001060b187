//! `fencepost serve`: what clients of a real socket in real time see.
#![cfg(unix)] // Ctrl-C is sent as a signal

mod serving;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value, cmd};
use serving::Server;

fn connect(server: &Server) -> Connection {
    let connection = redis::Client::open(&*server.url).unwrap().get_connection();
    let connection = connection.unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// A socket without a client library.
fn dial(server: &Server) -> TcpStream {
    let (host, port) = server.address();
    let stream = TcpStream::connect((host, port.parse().unwrap())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// After that long a test fails: a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "these tests run in real time")]
fn now() -> Instant {
    Instant::now()
}

fn ask<T: redis::FromRedisValue>(connection: &mut Connection, words: &str) -> RedisResult<T> {
    let mut words = words.split(' ');
    let mut command = cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query(connection)
}

fn error(answer: RedisResult<Value>) -> String {
    answer.unwrap_err().to_string()
}

/// Lets real time pass, by a pop that waits in vain.
fn pass(connection: &mut Connection, seconds: &str) {
    let nothing: Value = ask(connection, &format!("BLPOP nothing {seconds}")).unwrap();
    assert_eq!(nothing, Value::Nil);
}

#[test]
fn a_lock_is_taken_extended_and_released_by_script() {
    const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                          return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                           return redis.call('DEL', KEYS[1]) end return 0";
    let server = Server::start(&[]);
    let (mut a, mut b) = (connect(&server), connect(&server));
    let run = |script: &str, connection: &mut Connection, token: &str| -> i64 {
        let script = redis::Script::new(script);
        let mut call = script.key("lock");
        call.arg(token).arg(60_000).invoke(connection).unwrap()
    };
    assert_eq!(
        ask::<Value>(&mut a, "SET lock a NX PX 30000"),
        Ok(Value::Okay)
    );
    assert_eq!(
        ask::<Value>(&mut b, "SET lock b NX PX 30000"),
        Ok(Value::Nil)
    );
    assert_eq!(run(EXTEND, &mut b, "b"), 0);
    assert_eq!(run(EXTEND, &mut a, "a"), 1);
    let left: i64 = ask(&mut b, "PTTL lock").unwrap();
    assert!((30_001..=60_000).contains(&left), "{left}");
    assert_eq!(run(RELEASE, &mut b, "b"), 0);
    assert_eq!(run(RELEASE, &mut a, "a"), 1);
    assert_eq!(
        ask::<Value>(&mut b, "SET lock b NX PX 30000"),
        Ok(Value::Okay)
    );
}

#[test]
fn keys_expire_by_the_machines_clock_and_the_background_tells_it() {
    let server = Server::start(&[]);
    let (mut a, mut b) = (connect(&server), connect(&server));
    let () = ask(&mut a, "CONFIG SET notify-keyspace-events Ex").unwrap();
    let mut listener = b.as_pubsub();
    listener.subscribe("__keyevent@0__:expired").unwrap();
    let started = now();
    let () = ask(&mut a, "SET lock me PX 300").unwrap();
    assert_eq!(ask::<String>(&mut a, "GET lock").unwrap(), "me");
    // Nobody looks at the key: the message comes from the background.
    let message = listener.get_message().unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), "lock");
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(ask::<i64>(&mut a, "DBSIZE").unwrap(), 0);

    let seconds: (u64, u64) = ask(&mut a, "TIME").unwrap();
    assert!(seconds.0 > 1_700_000_000, "{seconds:?}");
}

#[test]
fn a_message_reaches_whoever_listens() {
    let server = Server::start(&[]);
    let (mut a, mut b) = (connect(&server), connect(&server));
    let mut listener = b.as_pubsub();
    listener.subscribe("unlock").unwrap();
    listener.psubscribe("un*").unwrap();
    assert_eq!(ask::<i64>(&mut a, "PUBLISH unlock now").unwrap(), 2);
    for _ in 0..2 {
        let message = listener.get_message().unwrap();
        assert_eq!(message.get_payload::<String>().unwrap(), "now");
    }
}

#[test]
fn a_waiting_pop_gets_what_another_pushes_or_gives_up() {
    let server = Server::start(&[]);
    let (mut a, mut b) = (connect(&server), connect(&server));
    let waiting = thread::spawn(move || ask::<(String, String)>(&mut b, "BLPOP jobs 19"));
    // It may not wait yet; the item is for it in both cases.
    pass(&mut a, "0.1");
    assert_eq!(ask::<i64>(&mut a, "RPUSH jobs 1").unwrap(), 1);
    let popped = waiting.join().unwrap().unwrap();
    assert_eq!(popped, ("jobs".to_owned(), "1".to_owned()));

    let started = now();
    pass(&mut a, "0.2");
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_client_that_has_gone_waits_for_nothing() {
    let server = Server::start(&[]);
    let mut a = connect(&server);
    let mut gone = dial(&server);
    gone.write_all(b"BLPOP jobs 0\r\n").unwrap();
    while !ask::<String>(&mut a, "INFO clients")
        .unwrap()
        .contains("blocked_clients:1")
    {}
    drop(gone);
    while !ask::<String>(&mut a, "INFO clients")
        .unwrap()
        .contains("blocked_clients:0")
    {}
    assert_eq!(ask::<i64>(&mut a, "RPUSH jobs 1").unwrap(), 1);
    assert_eq!(ask::<i64>(&mut a, "LLEN jobs").unwrap(), 1);
}

#[test]
fn a_pause_of_all_clients_ends_by_itself() {
    let server = Server::start(&[]);
    let (mut a, mut b) = (connect(&server), connect(&server));
    let started = now();
    let () = ask(&mut a, "CLIENT PAUSE 300 WRITE").unwrap();
    assert_eq!(ask::<Value>(&mut b, "GET x").unwrap(), Value::Nil);
    let () = ask(&mut b, "SET x 1").unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn what_breaks_the_protocol_is_answered_as_by_redis() {
    let server = Server::start(&[]);
    for (sent, answered) in [
        (
            "*1\r\n+PING\r\n",
            "-ERR Protocol error: expected '$', got '+'\r\n",
        ),
        (
            "*x\r\n",
            "-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            "PING\r\nGET \"x\r\n",
            "+PONG\r\n-ERR Protocol error: unbalanced quotes in request\r\n",
        ),
        (
            "*1\r\n$536870913\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
    ] {
        let mut stream = dial(&server);
        stream.write_all(sent.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert_eq!(all, answered, "{sent:?}");
    }
    let mut connection = connect(&server);
    let unknown = error(ask(&mut connection, "LOCK it"));
    assert!(
        unknown.contains("unknown command 'LOCK', with args beginning with: 'it'"),
        "{unknown}"
    );
    assert_eq!(ask::<String>(&mut connection, "PING").unwrap(), "PONG");
}

#[test]
fn a_client_beyond_the_limit_is_told_so() {
    let server = Server::start(&["--max-clients", "2"]);
    let (mut a, b) = (connect(&server), connect(&server));
    let mut refused = String::new();
    dial(&server).read_to_string(&mut refused).unwrap();
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    drop(b);
    // Its place is free as soon as the server has noticed.
    let served = || {
        let mut stream = dial(&server);
        stream.write_all(b"PING\r\n").unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).is_ok() && &answer == b"+PON"
    };
    while !served() {}
    assert_eq!(ask::<String>(&mut a, "PING").unwrap(), "PONG");
}

#[test]
fn a_request_without_end_is_cut_off() {
    let server = Server::start(&[]);
    let mut stream = dial(&server);
    stream.write_all(b"*100\r\n").unwrap();
    let mut word = b"$1000000\r\n".to_vec();
    word.resize(word.len() + 1_000_000, b'x');
    word.extend_from_slice(b"\r\n");
    let sent = (0..100)
        .take_while(|_| stream.write_all(&word).is_ok())
        .count();
    // What the sockets hold is sent too.
    assert!((60..100).contains(&sent), "{sent} MB");
    assert_eq!(
        ask::<String>(&mut connect(&server), "PING").unwrap(),
        "PONG"
    );
}

#[test]
fn a_script_without_end_is_killed_and_everybody_is_served() {
    let server = Server::start(&[]);
    let mut connection = connect(&server);
    let mut endless = cmd("EVAL");
    let killed = error(
        endless
            .arg("while true do end")
            .arg(0)
            .query(&mut connection),
    );
    assert!(killed.contains("budget of instructions"), "{killed}");
    assert_eq!(ask::<String>(&mut connection, "PING").unwrap(), "PONG");
}

#[test]
fn a_long_pipeline_is_answered_in_order_also_if_nobody_reads_before_its_end() {
    const MANY: usize = 100_000;
    let server = Server::start(&[]);
    let mut stream = dial(&server);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let writer = thread::spawn(move || {
        let word = "x".repeat(100);
        for number in 0..MANY {
            stream
                .write_all(format!("ECHO {number}{word}\r\n").as_bytes())
                .unwrap();
        }
    });
    let mut line = String::new();
    for number in 0..MANY {
        for _ in 0..2 {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        assert!(line.starts_with(&format!("{number}x")), "{line}");
    }
    writer.join().unwrap();
}

#[test]
fn a_long_list_costs_no_more_than_a_short_one() {
    const MANY: i64 = 100_000;
    let server = Server::start(&[]);
    let mut connection = connect(&server);
    let started = now();
    let mut pipeline = redis::pipe();
    for _ in 0..MANY {
        pipeline.cmd("LPUSH").arg("list").arg("xxx").ignore();
    }
    let () = pipeline.query(&mut connection).unwrap();
    assert_eq!(ask::<i64>(&mut connection, "LLEN list").unwrap(), MANY);
    let taken = started.elapsed();
    assert!(taken < Duration::from_secs(10), "{taken:?}");
}

#[test]
fn ctrl_c_ends_it_as_it_should() {
    let server = Server::start(&[]);
    let mut connection = connect(&server);
    assert_eq!(ask::<String>(&mut connection, "PING").unwrap(), "PONG");
    assert_eq!(server.stop(), "", "the address is all that is printed");
    assert!(ask::<String>(&mut connection, "PING").is_err());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let server = Server::start(&[]);
    let (_, port) = server.address();
    let second = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(["serve", "--port", port])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("127.0.0.1:{port}")), "{said}");
    assert!(said.contains("--port 0"), "{said}");
}
