//! A real PostgreSQL server and connections to it.
//!
//! The server runs in a directory of its own, on a free loopback port, and not as root, which it
//! refuses. Connections speak the simple query protocol, which is a few lines:
//! <https://www.postgresql.org/docs/15/protocol-flow.html>.

#![allow(unreachable_pub)] // a test's module

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, stopped when dropped.
pub struct Server {
    process: Child,
    port: u16,
    directory: PathBuf,
    programs: PathBuf,
    user: Option<(u32, u32)>,
}

/// Where `postgres` and `initdb` are.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let debian = debian.flatten().map(|version| version.path().join("bin"));
    let mut all: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions: Vec<PathBuf> = debian.collect();
    versions.sort();
    all.extend(versions.into_iter().rev());
    let has_both = |at: &PathBuf| {
        ["postgres", "initdb"]
            .iter()
            .all(|name| at.join(name).is_file())
    };
    all.into_iter()
        .find(has_both)
        .expect("PostgreSQL must be installed, for example: apt-get install postgresql")
}

/// Who runs the server instead of root.
fn somebody() -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").expect("a list of users");
    let of = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    of("postgres")
        .or_else(|| of("nobody"))
        .expect("a user who is not root")
}

impl Server {
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let directory = std::env::temp_dir().join(format!("fencepost-postgres-{port}"));
        std::fs::create_dir_all(&directory).expect("a directory for the server");
        let is_root = std::fs::metadata(&directory).expect("made above").uid() == 0;
        let user = is_root.then(somebody);
        if let Some((user, group)) = user {
            chown(&directory, Some(user), Some(group)).expect("root may give it away");
        }
        let programs = programs();
        let run = |name: &str| command(&programs, name, &directory, user);
        let made = run("initdb")
            .args([
                "-A",
                "trust",
                "-U",
                "postgres",
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(directory.join("data"))
            .stdout(Stdio::null())
            .status()
            .expect("initdb runs");
        assert!(made.success(), "initdb failed");
        let log = File::create(directory.join("log")).expect("a log");
        let process = run("postgres")
            .arg("-D")
            .arg(directory.join("data"))
            .args(["-p", &port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args([
                "-c",
                &format!("unix_socket_directories={}", directory.display()),
            ])
            .args(["-c", "fsync=off", "-c", "synchronous_commit=off"])
            .args(["-c", "full_page_writes=off", "-c", "autovacuum=off"])
            .args(["-c", "deadlock_timeout=1ms", "-c", "log_lock_waits=on"])
            .args(["-c", "log_min_messages=log"])
            .stderr(log)
            .spawn()
            .expect("postgres runs");
        Self {
            process,
            port,
            directory,
            programs,
            user,
        }
    }

    /// How often a session that waits has looked for a deadlock, which it does once.
    pub fn looked(&self) -> usize {
        let log = std::fs::read_to_string(self.directory.join("log"));
        log.map_or(0, |log| log.matches(" still waiting for ").count())
    }

    /// A new session.
    pub fn connect(&self) -> Session {
        (0..500)
            .find_map(|_| {
                let session = Session::open(self.port);
                if session.is_none() {
                    pause(20);
                }
                session
            })
            .expect("the server answers")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.directory.join("data");
        let stopped = command(&self.programs, "pg_ctl", &self.directory, self.user)
            .args(["stop", "-s", "-m", "immediate", "-D"])
            .arg(data)
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn command(programs: &Path, name: &str, directory: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(programs.join(name));
    command.current_dir(directory);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
pub fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// What came back for a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The command's tag, and the last row's columns.
    Done(String, Vec<Option<String>>),
    /// An SQLSTATE.
    Failed(String),
}

/// A connection to the server.
pub struct Session {
    stream: TcpStream,
    unread: Vec<u8>,
    /// The server's process for it.
    pub process: String,
}

impl Session {
    fn open(port: u16) -> Option<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .ok()?;
        let mut startup = vec![0; 4];
        startup.extend_from_slice(&196_608_u32.to_be_bytes());
        startup.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
        let length = startup.len() as u32;
        startup[..4].copy_from_slice(&length.to_be_bytes());
        stream.write_all(&startup).ok()?;
        let (unread, process) = (Vec::new(), String::new());
        let mut session = Self {
            stream,
            unread,
            process,
        };
        // It may still be starting up.
        while session.message()?.0 != b'Z' {}
        match session.ask("SELECT pg_backend_pid()") {
            Answer::Done(_, row) => session.process = row.into_iter().next()??,
            Answer::Failed(_) => return None,
        }
        Some(session)
    }

    pub fn send(&mut self, sql: &str) {
        let mut query = vec![b'Q'];
        query.extend_from_slice(&(sql.len() as u32 + 5).to_be_bytes());
        query.extend_from_slice(sql.as_bytes());
        query.push(0);
        self.stream.write_all(&query).expect("sent");
    }

    /// The answer to what was sent.
    pub fn receive(&mut self) -> Option<Answer> {
        let (mut tag, mut row, mut failed) = (String::new(), Vec::new(), None);
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'Z' => break,
                b'C' => tag = text(&body),
                b'D' => row = columns(&body),
                b'E' => failed = body.split(|byte| *byte == 0).find_map(sqlstate),
                _ => {}
            }
        }
        Some(failed.map_or(Answer::Done(tag, row), Answer::Failed))
    }

    pub fn ask(&mut self, sql: &str) -> Answer {
        self.send(sql);
        self.receive()
            .unwrap_or_else(|| panic!("no answer to {sql}"))
    }

    fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(length) = self.unread.get(1..5) {
                let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
                if self.unread.len() > length {
                    let message: Vec<u8> = self.unread.drain(..=length).collect();
                    return Some((message[0], message[5..].to_vec()));
                }
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
            self.unread.extend_from_slice(&chunk[..read]);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned()
}

fn sqlstate(field: &[u8]) -> Option<String> {
    field.strip_prefix(b"C").map(text)
}

fn columns(body: &[u8]) -> Vec<Option<String>> {
    let count = u16::from_be_bytes([body[0], body[1]]);
    let mut rest = &body[2..];
    let mut next = || {
        let length = i32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
        rest = &rest[4..];
        let length = usize::try_from(length).ok()?;
        let column = text(&rest[..length]);
        rest = &rest[length..];
        Some(column)
    };
    (0..count).map(|_| next()).collect()
}
