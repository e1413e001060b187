//! The simulated server and a real one, asked the same.
//!
//! Needs a `redis-server` 7.0 in the path, and runs only with `--features real-servers`. Another
//! seed every time; `SEED=n` repeats one, `STREAMS=n` asks for more. `RECORD=1` writes the transcript that
//! `redis_transcript.rs` replays.

mod redis_cases;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use redis_cases::{
    Recorded, Section, Step, agree, handwritten, line, simulate, streams, words, write,
};
use sim::redis::{Connection, Machine};

/// How many commands a random stream has.
const LENGTH: usize = 200;

/// A real server, stopped when dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let directory = std::env::temp_dir().join(format!("fencepost-redis-{port}"));
        std::fs::create_dir_all(&directory).expect("a directory for the server");
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(&directory)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed, for example: apt-get install redis-server");
        let server = Self { process, port };
        let started = (0..200).any(|_| {
            let answers = TcpStream::connect(("127.0.0.1", port)).is_ok();
            if !answers {
                pause();
            }
            answers
        });
        assert!(started, "redis-server does not answer on port {port}");
        server
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server answers");
        stream.set_nodelay(true).expect("a socket option");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a socket option");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to be done if it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "waits for a real process to start"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the real server runs by the machine's clock"
)]
fn wall() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970")
        .as_millis()
        .try_into()
        .expect("before the year 584554049")
}

/// Sends a step and reads what comes back.
fn ask(stream: &mut TcpStream, step: &Step) -> Bytes {
    match step {
        Step::Raw(bytes) => {
            stream.write_all(bytes).expect("sent");
            stream
                .shutdown(Shutdown::Write)
                .expect("nothing more to send");
            let mut reply = Vec::new();
            // A server that closes on unread bytes resets the connection; what came before counts.
            let _ = stream.read_to_end(&mut reply);
            Bytes::from(reply)
        }
        Step::Request(words) => {
            let mut request = format!("*{}\r\n", words.len()).into_bytes();
            for word in words {
                request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                request.extend_from_slice(word);
                request.extend_from_slice(b"\r\n");
            }
            stream.write_all(&request).expect("sent");
            let mut reply = Vec::new();
            while reply_length(&reply).is_none() {
                let mut chunk = [0; 4096];
                let read = stream.read(&mut chunk).unwrap_or_else(|error| {
                    panic!("no reply to {}: {error}; so far {reply:?}", line(step))
                });
                assert!(read > 0, "the server closed on {}", line(step));
                reply.extend_from_slice(&chunk[..read]);
            }
            Bytes::from(reply)
        }
    }
}

/// How long the first reply in `bytes` is, if it is complete.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let text = std::str::from_utf8(&bytes[1..end - 2]);
    let number = || text.expect("a length").parse::<i64>().expect("a length");
    let (bulk, items) = match bytes[0] {
        b'$' | b'=' => (number().max(-2) + 2, 0),
        b'*' | b'~' => (0, number()),
        b'%' => (0, number() * 2),
        _ => (0, 0),
    };
    // A null bulk string has no line of its own.
    let bulk = if bulk == 1 { 0 } else { bulk };
    let mut length = end + usize::try_from(bulk).expect("not negative");
    for _ in 0..items {
        length += reply_length(bytes.get(length..)?)?;
    }
    (length <= bytes.len()).then_some(length)
}

/// Runs a section on both servers.
fn compare(server: &Server, machine: &mut Machine, section: &Section) -> Recorded {
    let mut stream = server.connect();
    let id = ask(&mut stream, &Step::Request(words("CLIENT ID")));
    let id = std::str::from_utf8(&id)
        .expect("text")
        .trim_matches([':', '\r', '\n']);
    let id = id.parse().expect("a number");
    let mut connection = Connection::new(id);
    let started = wall();
    let mut steps = Vec::new();
    for step in &section.steps {
        let simulated = simulate(machine, &mut connection, step, wall());
        let real = ask(&mut stream, step);
        assert!(
            agree(step, &real, &simulated) || std::env::var_os("RECORD").is_some(),
            "{}: {}\n  real      {real:?}\n  simulated {simulated:?}",
            section.name,
            line(step),
        );
        steps.push((step.clone(), real));
    }
    Recorded {
        name: section.name.clone(),
        wall: started,
        id,
        steps,
    }
}

#[test]
fn a_real_server_replies_the_same() {
    let server = Server::start();
    let mut machine = Machine::new();
    let mut recorded: Vec<_> = handwritten()
        .iter()
        .map(|section| compare(&server, &mut machine, section))
        .collect();
    if std::env::var_os("RECORD").is_some() {
        for seed in 1..=10 {
            recorded.push(compare(
                &server,
                &mut machine,
                &streams::stream(seed, LENGTH),
            ));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/redis-7.0.15.txt");
        std::fs::write(path, write(&recorded)).expect("the transcript can be written");
        println!("recorded {path}");
    }
}

#[test]
fn a_real_server_replies_the_same_to_random_streams() {
    let server = Server::start();
    let mut machine = Machine::new();
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse().expect("a number"))
    };
    let first = number("SEED").unwrap_or(wall() % 1_000_000_000 * 1000);
    let count = number("STREAMS").unwrap_or(if number("SEED").is_some() { 1 } else { 200 });
    println!("seeds {first} to {}; SEED=n repeats one", first + count - 1);
    for seed in first..first + count {
        compare(&server, &mut machine, &streams::stream(seed, LENGTH));
    }
}

#[test]
fn a_key_expires_on_both_at_its_time() {
    let server = Server::start();
    let mut machine = Machine::new();
    let mut stream = server.connect();
    let mut connection = Connection::new(1);
    let mut both = |request: &str| {
        let step = Step::Request(words(request));
        let simulated = simulate(&mut machine, &mut connection, &step, wall());
        (ask(&mut stream, &step), simulated)
    };
    both("SET k v PX 100");
    assert_eq!(both("SET k w NX"), ("$-1\r\n".into(), "$-1\r\n".into()));
    for _ in 0..10 {
        pause();
    }
    assert_eq!(both("SET k w NX"), ("+OK\r\n".into(), "+OK\r\n".into()));
    assert_eq!(both("PTTL k"), (":-1\r\n".into(), ":-1\r\n".into()));
}
