//! Random commands on strings, on keys whatever they hold, and on deadlines.

use super::{SHORT, Stream};

impl Stream {
    pub(super) fn set(&mut self) -> Vec<String> {
        let mut words = vec!["SET".into(), self.key(), self.value()];
        let options = [
            "NX", "nx", "XX", "GET", "Get", "KEEPTTL", "EX", "PX", "px", "EXAT", "PXAT", "foo",
        ];
        self.options(&mut words, 3, &options);
        words
    }

    pub(super) fn expire(&mut self) -> Vec<String> {
        let name = self.pick(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "pexpire"]);
        let key = if self.draw(3) == 0 {
            self.any_key()
        } else {
            self.key()
        };
        let time = match name {
            "EXPIRE" => self.duration(1),
            "EXPIREAT" => self.instant(1),
            "PEXPIREAT" => self.instant(1000),
            _ => self.duration(1000),
        };
        let mut words = vec![name.into(), key, time];
        self.options(&mut words, 2, &["NX", "XX", "GT", "LT", "gt", "foo"]);
        words
    }

    /// Something that ends in the pause after it, unless it is only queued.
    pub(super) fn ending(&mut self) -> Vec<String> {
        if self.queueing[self.on] {
            return self.set();
        }
        self.ends = Some(5);
        match self.draw(3) {
            0 => vec![
                "SET".into(),
                self.key(),
                "x".into(),
                "PX".into(),
                SHORT.into(),
            ],
            1 => vec!["PSETEX".into(), self.key(), SHORT.into(), "x".into()],
            _ => vec!["PEXPIRE".into(), self.any_key(), SHORT.into()],
        }
    }

    pub(super) fn strings(&mut self) -> Vec<String> {
        match self.draw(16) {
            0..=2 => self.set(),
            3 => vec!["SETNX".into(), self.key(), self.value()],
            4 => vec![self.pick(&["INCR", "DECR", "incr"]).into(), self.key()],
            5 => vec![
                self.pick(&["INCRBY", "DECRBY"]).into(),
                self.key(),
                self.value(),
            ],
            6..=7 => vec!["GET".into(), self.key()],
            8 => {
                let mut words = vec!["GETEX".into(), self.key()];
                self.options(
                    &mut words,
                    2,
                    &["PERSIST", "EX", "PX", "EXAT", "PXAT", "KEEPTTL"],
                );
                words
            }
            9 => vec![self.pick(&["GETDEL", "STRLEN"]).into(), self.key()],
            10 => vec![
                self.pick(&["GETSET", "APPEND"]).into(),
                self.key(),
                self.value(),
            ],
            11 => {
                let mut words = vec![self.pick(&["MSET", "MSETNX"]).into()];
                for _ in 0..1 + self.draw(2) {
                    words.extend([self.key(), self.value()]);
                }
                words
            }
            12 => {
                let mut words = vec!["MGET".into()];
                self.many(&mut words, Self::any_key);
                words
            }
            13 => {
                let (name, unit) = [("SETEX", 1), ("PSETEX", 1000)][self.draw(2)];
                vec![name.into(), self.key(), self.duration(unit), self.value()]
            }
            _ => self.expire(),
        }
    }

    pub(super) fn keys(&mut self) -> Vec<String> {
        match self.draw(14) {
            0..=1 => {
                let mut words = vec![self.pick(&["DEL", "UNLINK", "EXISTS", "TOUCH"]).into()];
                self.many(&mut words, Self::any_key);
                words
            }
            2 => vec![
                self.pick(&["TTL", "PTTL", "PERSIST", "TYPE"]).into(),
                self.any_key(),
            ],
            3 => {
                let name = self.pick(&["PTTL", "PERSIST", "EXPIRETIME", "PEXPIRETIME"]);
                vec![name.into(), self.key()]
            }
            4 => {
                let name = self.pick(&[
                    "DBSIZE", "PING", "DBSIZE", "FLUSHDB", "CLIENT", "ROLE", "RESET", "TIME",
                ]);
                if name == "RESET" {
                    self.queueing[self.on] = false;
                }
                vec![name.into()]
            }
            5 if self.draw(4) == 0 => vec![
                "SELECT".into(),
                self.pick(&["0", "0", "0", "3", "16", "-1", "x"]).into(),
            ],
            6 if self.draw(4) == 0 => {
                let mut words = vec![self.pick(&["HELLO", "GETX", "SET", "NOSUCH"]).into()];
                words.extend((0..self.draw(4)).map(|_| self.value()));
                words
            }
            7 => {
                let name = self.pick(&["RENAME", "RENAMENX", "COPY", "COPY"]);
                let mut words = vec![name.into(), self.any_key(), self.any_key()];
                if name == "COPY" {
                    match self.draw(4) {
                        0 => words.push("REPLACE".into()),
                        1 => words.extend(["DB".into(), self.pick(&["0", "3", "99", "x"]).into()]),
                        _ => {}
                    }
                }
                words
            }
            8 => vec![
                "KEYS".into(),
                self.pick(&["*", "l*", "[a-h]", "?2", "x", r"\a"]).into(),
            ],
            9 => {
                let mut words = vec!["SCAN".into(), "0".into(), "COUNT".into(), "1000".into()];
                match self.draw(4) {
                    0 => words.extend(["MATCH".into(), self.pick(&["*", "l*", "[^l]*"]).into()]),
                    1 => words.extend(["TYPE".into(), self.pick(&["hash", "zset", "no"]).into()]),
                    2 => words.push(self.value()),
                    _ => {}
                }
                words
            }
            10 => {
                let (name, key) = [("HSCAN", "h"), ("SSCAN", "s"), ("ZSCAN", "z")][self.draw(3)];
                let mut words = vec![name.into(), self.key_of(&[key]), "0".into()];
                if self.draw(2) == 0 {
                    words.extend(["MATCH".into(), self.pick(&["m*", "*", "?"]).into()]);
                }
                words
            }
            _ => self.script(),
        }
    }
}
