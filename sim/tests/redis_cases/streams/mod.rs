//! Random streams of commands, drawn from a seed.
//!
//! Up to three connections take turns: one may wait for items, one may listen to events. Relative
//! times are all different: with two equal ones, whether the second is later depends on whether the
//! real server's clock ticked in between. A short one is followed by a pause in which it ends.

use bytes::Bytes;

use super::{Section, Step, section};

mod collections;
mod sessions;
mod strings;

/// A stream of `length` commands.
pub(crate) fn stream(seed: u64, length: usize) -> Section {
    let mut stream = Stream {
        state: seed,
        times: 0,
        on: 0,
        ends: None,
        queueing: [false; 3],
    };
    let connections = [1, 1, 2, 3][stream.draw(4)];
    let mut steps = Vec::new();
    for on in 0..connections {
        if stream.draw(3) == 0 {
            steps.push(request(on, &["HELLO".into(), "3".into()]));
        }
    }
    if stream.draw(3) == 0 {
        let classes = stream.pick(&["KEA", "Kg$lx", "EA", "AKEmn", "Kh", "Ezsn"]);
        let words = ["CONFIG", "SET", "notify-keyspace-events", classes];
        steps.push(request(0, &words.map(str::to_owned)));
    }
    while steps.len() < length {
        // Mostly the first: the others wait or listen.
        stream.on = if stream.draw(3) == 0 {
            stream.draw(connections)
        } else {
            0
        };
        if connections > 1 && !stream.queueing[0] && stream.draw(60) == 0 {
            steps.extend(stream.hold_up(connections));
            continue;
        }
        let words = stream.command();
        steps.push(request(stream.on, &words));
        steps.extend(stream.end());
    }
    section(&format!("stream-{seed}"), steps)
}

fn request(on: usize, words: &[String]) -> Step {
    Step::Request(on, words.iter().cloned().map(Bytes::from).collect())
}

/// A time to live that ends in the pause after it.
const SHORT: &str = "1";

struct Stream {
    state: u64,
    times: u64,
    /// The connection whose turn it is.
    on: usize,
    /// In how many ms will have ended what the last command set a short time.
    ends: Option<u64>,
    /// Which connections have a transaction open, as far as can be told.
    queueing: [bool; 3],
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
    "redis.call('hincrby', KEYS[1], ARGV[1], 1) return redis.call('hgetall', KEYS[1])",
    "redis.setresp(3) return redis.pcall('hgetall', KEYS[1])",
    "redis.setresp(3) local r = redis.pcall('hgetall', KEYS[1]) return r.err or type(r.map)",
    "redis.call('rpush', KEYS[1], ARGV[1], 'x') return redis.call('lrange', KEYS[1], 0, -1)",
    "redis.call('zadd', KEYS[1], 1.5, ARGV[1]) return redis.call('zscore', KEYS[1], ARGV[1])",
    "redis.setresp(3) redis.call('zadd', KEYS[1], 2, ARGV[1]) \
     local r = redis.call('zrange', KEYS[1], 0, -1, 'WITHSCORES') return type(r[1][2].double)",
    "redis.setresp(3) return redis.call('zscore', KEYS[1], ARGV[1])",
    "return redis.call('publish', 'news', ARGV[1])",
    "return redis.call('lpop', KEYS[1], 2)",
    "return redis.sha1hex(ARGV[1])",
    "return redis.call('multi')",
    "return redis.call('blpop', KEYS[1], 0)",
    "return redis.call('zincrby', KEYS[1], -0.5, ARGV[1])",
    "for i = 1, 3 do redis.call('rpush', KEYS[1], i) end redis.call('ltrim', KEYS[1], 1, -1)",
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

    /// The pause in which ends what is to end.
    fn end(&mut self) -> Option<Step> {
        std::mem::take(&mut self.ends).map(Step::Pause)
    }

    /// Some commands of the others while who writes is held up.
    fn hold_up(&mut self, connections: usize) -> Vec<Step> {
        let mut steps = vec![request(
            0,
            &["CLIENT", "PAUSE", "100000", "WRITE"].map(str::to_owned),
        )];
        for _ in 0..1 + self.draw(4) {
            self.on = 1 + self.draw(connections - 1);
            let words = self.command();
            steps.push(request(self.on, &words));
        }
        steps.push(request(0, &["CLIENT", "UNPAUSE"].map(str::to_owned)));
        steps.extend(self.end());
        steps
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.draw(words.len())]
    }

    /// Mostly a key of the kind that the command is for.
    fn key_of(&mut self, kind: &[&str]) -> String {
        if self.draw(12) == 0 {
            return self
                .pick(&[
                    "a", "b", "lock", "h", "h2", "l", "l2", "s", "s2", "z", "z2", "", "none",
                ])
                .to_owned();
        }
        self.pick(kind).to_owned()
    }

    fn key(&mut self) -> String {
        self.key_of(&["a", "a", "b", "lock", "lock", "k\r\n\0", ""])
    }

    fn any_key(&mut self) -> String {
        self.pick(&["a", "b", "lock", "h", "h2", "l", "l2", "s", "s2", "z", "z2"])
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

    fn member(&mut self) -> String {
        self.pick(&["m1", "m2", "m3", "7", "12", "-3", "me:1", "", "a b"])
            .to_owned()
    }

    fn score(&mut self) -> String {
        self.pick(&[
            "1",
            "2",
            "-1.5",
            "0.1",
            "3e5",
            "inf",
            "-inf",
            "1e-7",
            "+2",
            "1.",
            ".5",
            "nan",
            "x",
            "",
            "1e400",
            "-0",
            "12345678901234567",
            "0.30000000000000004",
        ])
        .to_owned()
    }

    fn bound(&mut self) -> String {
        self.pick(&[
            "-inf", "+inf", "inf", "0", "1", "(1", "2", "(2", "-1.5", "x", "", "(", "1e9",
        ])
        .to_owned()
    }

    fn index(&mut self) -> String {
        self.pick(&[
            "0", "0", "1", "-1", "-1", "2", "-2", "5", "-100", "100", "x", "",
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

    fn time(&mut self, option: &str) -> Option<String> {
        Some(match option.to_ascii_uppercase().as_str() {
            "EX" => self.duration(1),
            "PX" => self.duration(1000),
            "EXAT" => self.instant(1),
            "PXAT" => self.instant(1000),
            _ => return None,
        })
    }

    fn options(&mut self, words: &mut Vec<String>, count: usize, options: &[&str]) {
        for _ in 0..self.draw(count + 1) {
            let option = self.pick(options);
            words.push(option.into());
            if let Some(time) = self.time(option)
                && self.draw(20) > 0
            {
                words.push(time);
            }
        }
    }

    fn many(&mut self, words: &mut Vec<String>, one: fn(&mut Self) -> String) {
        for _ in 0..1 + self.draw(3) {
            words.push(one(self));
        }
    }

    fn script(&mut self) -> Vec<String> {
        let script = self.pick(SCRIPTS).into();
        let keys = if self.draw(20) == 0 {
            self.value()
        } else {
            "1".into()
        };
        let key = if self.draw(2) == 0 {
            self.any_key()
        } else {
            self.key()
        };
        vec!["EVAL".into(), script, keys, key, self.value()]
    }

    fn command(&mut self) -> Vec<String> {
        let mut words = match self.draw(60) {
            0 => return self.ending(),
            1..=14 => self.strings(),
            15..=22 => self.keys(),
            23..=29 => self.hashes(),
            30..=36 => self.lists(),
            37..=40 => self.sets(),
            41..=48 => self.sorted_sets(),
            49..=53 => return self.transactions(),
            54..=57 => self.messages(),
            _ => return self.waiting(),
        };
        // In a transaction the time that passes would show inside a longer reply.
        let tells_time = matches!(
            words[0].to_ascii_lowercase().as_str(),
            "ttl" | "pttl" | "expiretime" | "pexpiretime" | "time"
        );
        if self.queueing[self.on] && tells_time {
            return vec!["GET".into(), self.key()];
        }
        // Too few or too many words, now and then.
        match self.draw(60) {
            0 if words.len() > 1 && !matches!(words[0].as_str(), "SPOP" | "SRANDMEMBER") => {
                words.pop();
            }
            1 => words.push(self.value()),
            _ => {}
        }
        words
    }
}
