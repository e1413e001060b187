//! The simulated server and a real one, asked the same.
//!
//! Needs a `redis-server` 7.0 in the path, and runs only if it is named: `--test redis_live`. Another
//! seed every time; `SEED=n` repeats one, `STREAMS=n` asks for more. `RECORD=1` writes the transcript that
//! `redis_transcript.rs` replays.

mod redis_cases;

use std::io::{Read, Write};
use std::mem;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use redis_cases::{
    LENGTH, Received, Recorded, Section, Simulated, Step, agree, handwritten, line, reply_length,
    streams, units, words, write,
};
use sim::redis::{Connection, Machine, Reply};

/// What the real server says is written down, whether the simulated one agrees or not.
fn recording() -> bool {
    std::env::var_os("RECORD").is_some()
}

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
            .args([
                "--save",
                "",
                "--appendonly",
                "no",
                "--enable-debug-command",
                "yes",
                "--dir",
            ])
            .arg(&directory)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed, for example: apt-get install redis-server");
        let server = Self { process, port };
        let started = (0..200).any(|_| {
            let answers = TcpStream::connect(("127.0.0.1", port)).is_ok();
            if !answers {
                pause(20);
            }
            answers
        });
        assert!(started, "redis-server does not answer on port {port}");
        server
    }

    /// A server that deletes expired keys only when they are looked at, so that it does not matter
    /// when its background comes by.
    fn start_lazy() -> Self {
        let server = Self::start();
        let done = server.connect().ask(&words("DEBUG SET-ACTIVE-EXPIRE 0"));
        assert_eq!(done, "+OK\r\n");
        server
    }

    fn connect(&self) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server answers");
        stream.set_nodelay(true).expect("a socket option");
        let patience = if recording() { 300 } else { 10_000 };
        stream
            .set_read_timeout(Some(Duration::from_millis(patience)))
            .expect("a socket option");
        let unread = Vec::new();
        Peer { stream, unread }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to be done if it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
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

/// A connection to the real server, and what came on it that nobody has looked at yet.
struct Peer {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Peer {
    fn send(&mut self, words: &[Bytes]) {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&request).expect("sent");
    }

    /// The next `count` replies or messages.
    fn receive(&mut self, count: usize) -> Result<Bytes, String> {
        let mut length = 0;
        for _ in 0..count {
            length += loop {
                if let Some(next) = reply_length(&self.unread[length..]) {
                    break next;
                }
                let mut chunk = [0; 4096];
                let read = match self.stream.read(&mut chunk) {
                    Ok(0) => return Err("the server has closed".into()),
                    Ok(read) => read,
                    Err(_) if recording() => return Ok(mem::take(&mut self.unread).into()),
                    Err(error) => return Err(format!("{error}; so far {:?}", self.unread)),
                };
                self.unread.extend_from_slice(&chunk[..read]);
            };
        }
        Ok(self.unread.drain(..length).collect::<Vec<_>>().into())
    }

    fn ask(&mut self, words: &[Bytes]) -> Bytes {
        self.send(words);
        self.receive(1)
            .unwrap_or_else(|error| panic!("no reply to {words:?}: {error}"))
    }

    /// What comes back for bytes after which nothing more is sent.
    fn ask_raw(&mut self, bytes: &[u8]) -> Bytes {
        self.stream.write_all(bytes).expect("sent");
        self.stream
            .shutdown(Shutdown::Write)
            .expect("nothing more to send");
        let mut reply = Vec::new();
        // A server that closes on unread bytes resets the connection; what came before counts.
        let _ = self.stream.read_to_end(&mut reply);
        Bytes::from(reply)
    }
}

/// Waits until the real server has as many waiting connections: a command that waits is not
/// answered, so nothing else tells that it has arrived. Says whether it has.
fn settle(control: &mut Peer, blocked: usize) -> bool {
    let expected = format!("blocked_clients:{blocked}\r\n");
    (0..1000).any(|_| {
        let info = control.ask(&words("INFO clients"));
        String::from_utf8_lossy(&info).contains(&expected)
    })
}

/// The last of some steps, for messages.
fn last(steps: &[(Step, Received)]) -> String {
    let from = steps.len().saturating_sub(12);
    let lines = steps[from..].iter().map(|(step, _)| line(step) + "\n");
    lines.collect()
}

/// Runs a section on both servers.
fn compare(server: &Server, machine: &mut Machine, section: &Section) -> Recorded {
    let mut control = server.connect();
    let mut peers: Vec<_> = (0..section.connections())
        .map(|_| server.connect())
        .collect();
    let id = |peer: &mut Peer| -> u64 {
        let id = peer.ask(&words("CLIENT ID"));
        let id = std::str::from_utf8(&id).expect("text");
        id.trim_matches([':', '\r', '\n'])
            .parse()
            .expect("a number")
    };
    let ids: Vec<_> = peers.iter_mut().map(id).collect();
    let mut simulated = Simulated::new(machine, &ids);
    let started = wall();
    let mut steps = Vec::new();
    let mut blocked = 0;
    for step in &section.steps {
        let skipped = simulated.is_blocked(step);
        if let Step::Pause(millis) = step {
            pause(*millis);
        }
        let expected = simulated.receive(step, wall());
        if skipped {
            steps.push((step.clone(), Vec::new()));
            continue;
        }
        if let Step::Request(on, words) = step {
            peers[*on].send(words);
        }
        let now = (0..peers.len()).filter(|on| simulated.waits(*on)).count();
        // While everybody is paused, so is who would ask.
        let info = words("INFO clients");
        let all = simulated
            .machine
            .held_until(&info, &Connection::new(0), wall());
        if now > blocked && all.is_none() {
            assert!(
                settle(&mut control, now) || recording(),
                "{}: {} does not make {now} connections wait after:\n{}",
                section.name,
                line(step),
                last(&steps),
            );
        }
        blocked = now;
        let mut received = Vec::new();
        for (on, simulated) in expected {
            let real = match step {
                Step::Raw(bytes) => peers[0].ask_raw(bytes),
                _ => peers[on]
                    .receive(units(&simulated).len())
                    .unwrap_or_else(|error| {
                        panic!(
                            "{}: {} on {on}: {error}\n  simulated {simulated:?}\n  after:\n{}",
                            section.name,
                            line(step),
                            last(&steps),
                        )
                    }),
            };
            assert!(
                agree(step, on, &real, &simulated) || recording(),
                "{}: {} on {on}\n  real      {real:?}\n  simulated {simulated:?}\n  after:\n{}",
                section.name,
                line(step),
                last(&steps),
            );
            received.push((on, real));
        }
        steps.push((step.clone(), received));
    }
    // A message too many would still be unread.
    for (on, peer) in peers.iter_mut().enumerate() {
        let closed = section.steps.iter().any(|step| match step {
            Step::Raw(_) => true,
            Step::Request(_, words) => words[0].eq_ignore_ascii_case(b"quit"),
            Step::Pause(_) => false,
        });
        if closed || simulated.waits(on) {
            continue;
        }
        let last = peer.ask(&words("RESET"));
        assert!(
            last == "+RESET\r\n" || recording(),
            "{}: unexpected on {on}: {last:?}",
            section.name
        );
    }
    Recorded {
        name: section.name.clone(),
        wall: started,
        ids,
        steps,
    }
}

#[test]
fn a_real_server_replies_the_same() {
    let server = Server::start_lazy();
    let mut machine = Machine::new();
    let mut recorded: Vec<_> = handwritten()
        .iter()
        .map(|section| compare(&server, &mut machine, section))
        .collect();
    if recording() {
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
    let server = Server::start_lazy();
    let mut machine = Machine::new();
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse().expect("a number"))
    };
    let first = number("SEED").unwrap_or(wall() % 1_000_000_000 * 1000);
    let count = number("STREAMS").unwrap_or(if number("SEED").is_some() { 1 } else { 100 });
    println!("seeds {first} to {}; SEED=n repeats one", first + count - 1);
    let mut compared = 0;
    for seed in first..first + count {
        let recorded = compare(&server, &mut machine, &streams::stream(seed, LENGTH));
        let answered = recorded
            .steps
            .iter()
            .filter(|(_, received)| !received.is_empty());
        compared += answered.count();
    }
    println!("{compared} commands compared");
}

#[test]
fn a_key_expires_on_both_at_its_time() {
    let server = Server::start();
    let mut machine = Machine::new();
    let mut real = server.connect();
    let mut simulated = Simulated::new(&mut machine, &[1]);
    let mut both = |request: &str| {
        let step = Step::Request(0, words(request));
        let simulated = simulated.receive(&step, wall()).remove(0).1;
        (real.ask(&words(request)), simulated)
    };
    both("SET k v PX 100");
    assert_eq!(both("SET k w NX"), ("$-1\r\n".into(), "$-1\r\n".into()));
    pause(200);
    assert_eq!(both("SET k w NX"), ("+OK\r\n".into(), "+OK\r\n".into()));
    assert_eq!(both("PTTL k"), (":-1\r\n".into(), ":-1\r\n".into()));
}

#[test]
fn commands_have_the_arities_and_kinds_of_a_real_server() {
    let server = Server::start();
    let mut real = server.connect();
    let mut machine = Machine::new();
    let Reply::Array(commands) =
        machine.execute(&words("COMMAND"), &mut Connection::new(1), wall())
    else {
        panic!("not a list of commands")
    };
    let (mut differences, count) = (Vec::new(), commands.len());
    for command in commands {
        let Reply::Array(command) = command else {
            panic!("not a command")
        };
        let [
            Reply::Bulk(name),
            Reply::Integer(arity),
            Reply::Set(flags),
            ..,
        ] = &command[..]
        else {
            panic!("not a command")
        };
        let told = real.ask(&[words("COMMAND INFO"), vec![name.clone()]].concat());
        let told = String::from_utf8_lossy(&told).into_owned();
        let mut agree = told.contains(&format!(":{arity}\r\n"));
        for flag in ["write", "noscript"] {
            let flagged = flags.contains(&Reply::Status(flag.into()));
            agree &= flagged == told.contains(&format!("+{flag}\r\n"));
        }
        if !agree {
            differences.push(format!("{name:?} {arity} {flags:?} but {told}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("{count} commands compared");
}

/// A master and its replica: the real ones, and the simulated ones.
struct Pair {
    real: [Server; 2],
    simulated: [Machine; 2],
    /// The connections that are open, by their names.
    open: Vec<(String, Peer, Connection)>,
    frozen: bool,
}

/// What a server says when its master's stream has reached it.
const LINKED: &str = "master_link_status:up";

impl Pair {
    fn start() -> Self {
        let real = [Server::start(), Server::start()];
        let follow = format!("REPLICAOF 127.0.0.1 {}", real[0].port);
        let (mut master, mut replica) = (real[0].connect(), real[1].connect());
        assert_eq!(
            master.ask(&words("CONFIG SET repl-diskless-sync-delay 0")),
            "+OK\r\n"
        );
        assert_eq!(replica.ask(&words(&follow)), "+OK\r\n");
        let linked = (0..500).any(|_| {
            pause(20);
            let info = replica.ask(&words("INFO replication"));
            info.windows(LINKED.len())
                .any(|part| part == LINKED.as_bytes())
        });
        assert!(linked, "the replica does not reach its master");
        // Its first acknowledgement makes it count.
        pause(1_200);
        let mut simulated = [Machine::new(), Machine::new()];
        let host = &words("REPLICAOF lock-1 6379");
        let asked = simulated[1].execute(host, &mut Connection::new(1), wall());
        assert_eq!(asked, Reply::OK);
        let mut pair = Self {
            real,
            simulated,
            open: Vec::new(),
            frozen: false,
        };
        pair.carry();
        pair
    }

    /// Lets the stream reach the replicas.
    fn carry(&mut self) {
        if !self.frozen {
            pause(50);
            let [master, replica] = &mut self.simulated;
            master.carry_to(replica, wall());
        }
    }

    /// Stops one of the real processes, or lets it go on.
    fn signal(&mut self, which: usize, signal: &str) {
        let process = self.real[which].process.id().to_string();
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.expect("kill is there").success());
        pause(50);
    }

    /// One command over a connection, which is opened when it is first named, to the master (`m`)
    /// or the replica (`r`). Both must say the same.
    #[track_caller]
    fn ask(&mut self, connection: &str, command: &str) -> String {
        self.ask_words(connection, &words(command))
    }

    #[track_caller]
    fn ask_words(&mut self, connection: &str, request: &[Bytes]) -> String {
        let which = usize::from(connection.starts_with('r'));
        let place = self.open.iter().position(|(name, ..)| name == connection);
        let place = place.unwrap_or_else(|| {
            let number = 10 + self.open.len() as u64;
            let peer = self.real[which].connect();
            let opened = (connection.to_owned(), peer, Connection::new(number));
            self.open.push(opened);
            self.open.len() - 1
        });
        let (_, peer, simulated) = &mut self.open[place];
        let real = peer.ask(request);
        let machine = &mut self.simulated[which];
        let mut reply = machine.execute(request, simulated, wall());
        if reply == Reply::Blocked {
            let over = machine.next_timeout().expect("it does not wait for ever");
            machine.time_out(over + 1);
            let messages = machine.take_messages();
            reply = messages.into_iter().next().expect("its answer").1;
        }
        let mut said = bytes::BytesMut::new();
        sim::redis::encode(&reply, simulated.protocol, &mut said);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&said), text(&real), "{connection}: {request:?}");
        self.carry();
        text(&said)
    }
}

#[test]
fn a_real_master_and_its_replica_reply_the_same() {
    let mut pair = Pair::start();
    pair.ask("m", "SET k v PX 100000");
    pair.ask("r", "GET k");
    for refused in [
        "SET x 1",
        "DEL k",
        "EXPIRE k 5",
        "FLUSHALL",
        "BLPOP x 1",
        "EXEC",
    ] {
        pair.ask("r", refused);
    }
    pair.ask("r", "WAIT 1 10");
    pair.ask("r", "PUBLISH a b");
    for (connection, number) in [("r", 0), ("m", 2)] {
        // First the replica refuses, then a master with too few of them.
        if number > 0 {
            pair.ask("m", &format!("CONFIG SET min-replicas-to-write {number}"));
        }
        let script = |text: &str| {
            let mut request = words("EVAL text 0");
            request[1] = Bytes::copy_from_slice(text.as_bytes());
            request
        };
        for text in [
            "return redis.call('SET','x','1')",
            "return redis.pcall('SET','x','1')",
            "return redis.call('GET','k')",
            "#!lua\nreturn 1",
            "#!lua flags=no-writes\nreturn 1",
        ] {
            pair.ask_words(connection, &script(text));
        }
        for command in [
            "MULTI",
            "SET x 1",
            "EXEC",
            "SET x 1",
            "PUBLISH a b",
            "GET k",
        ] {
            pair.ask(connection, command);
        }
    }
    pair.ask("m", "CONFIG SET min-replicas-to-write 0");

    // The replica hears nothing for a while.
    pair.signal(1, "-STOP");
    pair.frozen = true;
    pair.ask("m", "SET k 2");
    assert_eq!(pair.ask("m-fresh", "WAIT 1 200"), ":1\r\n");
    assert_eq!(pair.ask("m-fresh", "WAIT 1 200"), ":0\r\n");
    pair.ask("m-greeted", "PING");
    assert_eq!(pair.ask("m-greeted", "WAIT 1 200"), ":0\r\n");
    pair.ask("m", "WAIT 1 200");
    pair.ask("m", "WAIT 0 200");
    for command in ["MULTI", "SET k 3", "WAIT 1 5000", "EXEC"] {
        pair.ask("m", command);
    }
    pair.signal(1, "-CONT");
    pair.frozen = false;
    pair.carry();
    assert_eq!(pair.ask("m", "WAIT 1 1000"), ":1\r\n");
    assert_eq!(pair.ask("m", "WAIT 2 100"), ":1\r\n");

    // Deadlines are absolute, so both have the same.
    pair.ask("m", "PEXPIREAT k 4000000000000");
    assert_eq!(
        pair.ask("m", "PEXPIRETIME k"),
        pair.ask("r", "PEXPIRETIME k")
    );

    // The master deletes nothing while it stands still, and its replica never does.
    pair.ask("m", "SET e 1 PX 300");
    pair.signal(0, "-STOP");
    pause(500);
    for seen in [
        "GET e",
        "EXISTS e",
        "PTTL e",
        "TYPE e",
        "DBSIZE",
        "KEYS *",
        "RANDOMKEY",
    ] {
        pair.ask("r", seen);
    }
    assert_eq!(pair.ask("r", "DBSIZE"), ":2\r\n");
    pair.signal(0, "-CONT");

    pair.ask("r", "REPLICAOF NO ONE");
    pair.frozen = true;
    pair.ask("r", "GET e");
    pair.ask("r", "DBSIZE");
    pair.ask("r", "SET k mine");
}
