//! Random streams of commands, drawn from a seed.
//!
//! Relative times are all different: with two equal ones, whether the second is later depends on
//! whether the real server's clock ticked in between. None is short, so nothing expires on its own.

use bytes::Bytes;

use super::{Section, Step, section};

/// A stream of `length` commands.
pub(crate) fn stream(seed: u64, length: usize) -> Section {
    let mut stream = Stream {
        state: seed,
        times: 0,
    };
    let steps = (0..length)
        .map(|_| Step::Request(stream.command()))
        .collect();
    section(&format!("stream-{seed}"), steps)
}

struct Stream {
    state: u64,
    times: u64,
}

const SCRIPTS: &[&str] = &[
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 9e7) end",
    "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', '90000000')",
    "local r = redis.call('set', KEYS[1], ARGV[1], 'NX') if r then return redis.call('incr', 'n') end",
    "redis.call('set', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[1])",
    "local r = redis.pcall('incr', KEYS[1]) if type(r) == 'table' then return r.err end return r",
    "return {redis.call('get', KEYS[1]), redis.call('exists', KEYS[1], KEYS[1]), ARGV[1]}",
    "redis.call('select', 3) return redis.call('set', KEYS[1], ARGV[1])",
    "return tonumber(ARGV[1])",
    "return redis.call('type', KEYS[1])",
    "return redis.status_reply(ARGV[1])",
    "return math.random(1000)",
];

impl Stream {
    /// Steele, Lea and Flood's SplitMix64.
    fn draw(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        usize::try_from(z % below as u64).expect("below a usize")
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.draw(words.len())]
    }

    fn key(&mut self) -> String {
        self.pick(&["a", "a", "b", "lock", "lock", "k\r\n\0", ""])
            .to_owned()
    }

    fn value(&mut self) -> String {
        self.pick(&[
            "1",
            "2",
            "-5",
            "0",
            "abc",
            "",
            "9223372036854775807",
            "-9223372036854775808",
            "010",
            " 1",
            "3.5",
            "f00d",
            "line\r\nbreak",
            "99999999999999999999",
            "+1",
            "-0",
        ])
        .to_owned()
    }

    /// A duration, mostly a sensible one.
    fn duration(&mut self, unit: u64) -> String {
        if self.draw(5) == 0 {
            return self
                .pick(&[
                    "0",
                    "-1",
                    "abc",
                    "",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "9223372036854775",
                    "1.5",
                    "99999999999999999999",
                ])
                .to_owned();
        }
        self.times += 1;
        ((50_000 + 7 * self.times) * unit).to_string()
    }

    fn instant(&mut self, unit: u64) -> String {
        if self.draw(5) == 0 {
            return self
                .pick(&["0", "-1", "abc", "9223372036854775807"])
                .to_owned();
        }
        ((4_102_444_800 + 1000 * self.draw(4) as u64) * unit).to_string()
    }

    fn set(&mut self) -> Vec<String> {
        let mut words = vec!["SET".into(), self.key(), self.value()];
        for _ in 0..self.draw(4) {
            let option = self.pick(&[
                "NX", "nx", "XX", "GET", "Get", "KEEPTTL", "EX", "PX", "px", "EXAT", "PXAT", "foo",
            ]);
            words.push(option.into());
            let time = match option {
                "EX" => self.duration(1),
                "PX" | "px" => self.duration(1000),
                "EXAT" => self.instant(1),
                "PXAT" => self.instant(1000),
                _ => continue,
            };
            if self.draw(20) > 0 {
                words.push(time);
            }
        }
        words
    }

    fn expire(&mut self) -> Vec<String> {
        let name = self.pick(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "pexpire"]);
        let key = self.key();
        let time = match name {
            "EXPIRE" => self.duration(1),
            "EXPIREAT" => self.instant(1),
            "PEXPIREAT" => self.instant(1000),
            _ => self.duration(1000),
        };
        let mut words = vec![name.into(), key, time];
        for _ in 0..self.draw(3) {
            words.push(self.pick(&["NX", "XX", "GT", "LT", "gt", "foo"]).into());
        }
        words
    }

    fn words(&mut self) -> Vec<String> {
        match self.draw(20) {
            0..=4 => self.set(),
            5..=6 => self.expire(),
            7 => vec!["SETNX".into(), self.key(), self.value()],
            8 => vec![self.pick(&["INCR", "DECR", "incr"]).into(), self.key()],
            9 => vec![
                self.pick(&["INCRBY", "DECRBY"]).into(),
                self.key(),
                self.value(),
            ],
            10..=11 => vec!["GET".into(), self.key()],
            12 => {
                let name = self.pick(&["DEL", "UNLINK", "EXISTS"]);
                vec![name.into(), self.key(), self.key()]
            }
            13 => vec![
                self.pick(&["TTL", "PTTL", "PERSIST", "TYPE"]).into(),
                self.key(),
            ],
            14 => vec![self.pick(&["PTTL", "PERSIST"]).into(), self.key()],
            15 => vec![
                self.pick(&["DBSIZE", "PING", "DBSIZE", "FLUSHDB", "CLIENT"])
                    .into(),
            ],
            16 if self.draw(4) == 0 => {
                vec![
                    "SELECT".into(),
                    self.pick(&["0", "0", "0", "3", "16", "-1", "x"]).into(),
                ]
            }
            17 if self.draw(4) == 0 => {
                let mut words = vec![self.pick(&["HELLO", "GETX", "SET", "NOSUCH"]).into()];
                words.extend((0..self.draw(4)).map(|_| self.value()));
                words
            }
            _ => {
                let script = self.pick(SCRIPTS).into();
                let keys = if self.draw(20) == 0 {
                    self.value()
                } else {
                    "1".into()
                };
                vec!["EVAL".into(), script, keys, self.key(), self.value()]
            }
        }
    }

    fn command(&mut self) -> Vec<Bytes> {
        let mut words = self.words();
        // Too few or too many words, now and then.
        match self.draw(60) {
            0 if words.len() > 1 => {
                words.pop();
            }
            1 => words.push(self.value()),
            _ => {}
        }
        words.into_iter().map(Bytes::from).collect()
    }
}
