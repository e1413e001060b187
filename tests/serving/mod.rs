//! A server of the binary under test, for tests that are its clients.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server on a free port. It is killed if a test forgets it.
pub(crate) struct Server {
    process: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(["serve", "--port", "0"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut url = String::new();
        stdout.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(url.starts_with("redis://127.0.0.1:"), "{url}");
        Self {
            process,
            stdout,
            url,
        }
    }

    /// Ends it as Ctrl-C does, and gives what it had printed beside its address.
    pub(crate) fn stop(mut self) -> String {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        assert!(self.process.wait().unwrap().success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }

    /// The host and the port.
    pub(crate) fn address(&self) -> (&str, &str) {
        let address = self.url.trim_start_matches("redis://");
        address.split_once(':').expect("an IPv4 address and a port")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
