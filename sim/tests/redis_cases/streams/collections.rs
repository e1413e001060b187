//! Random commands on hashes, lists, sets and sorted sets.

use super::Stream;

impl Stream {
    pub(super) fn hashes(&mut self) -> Vec<String> {
        let key = self.key_of(&["h", "h", "h2"]);
        match self.draw(9) {
            0..=1 => {
                let name = self.pick(&["HSET", "HSET", "HMSET", "hset"]);
                let mut words = vec![name.into(), key];
                for _ in 0..1 + self.draw(3) {
                    words.extend([self.member(), self.value()]);
                }
                words
            }
            2 => vec!["HSETNX".into(), key, self.member(), self.value()],
            3 => vec!["HINCRBY".into(), key, self.member(), self.value()],
            4 => vec![
                self.pick(&["HGET", "HEXISTS", "HSTRLEN"]).into(),
                key,
                self.member(),
            ],
            5..=6 => {
                let mut words = vec![self.pick(&["HDEL", "HMGET"]).into(), key];
                self.many(&mut words, Self::member);
                words
            }
            _ => vec![
                self.pick(&["HGETALL", "HKEYS", "HVALS", "HLEN", "HGETALL"])
                    .into(),
                key,
            ],
        }
    }

    pub(super) fn lists(&mut self) -> Vec<String> {
        let key = self.key_of(&["l", "l", "l2"]);
        match self.draw(14) {
            0..=2 => {
                let name = self.pick(&["LPUSH", "RPUSH", "RPUSH", "LPUSHX", "RPUSHX"]);
                let mut words = vec![name.into(), key];
                self.many(&mut words, Self::member);
                words
            }
            3..=4 => {
                let mut words = vec![self.pick(&["LPOP", "RPOP", "lpop"]).into(), key];
                if self.draw(3) == 0 {
                    words.push(self.index());
                }
                words
            }
            5..=6 => vec!["LRANGE".into(), key, self.index(), self.index()],
            7 => vec!["LLEN".into(), key],
            8 => vec!["LINDEX".into(), key, self.index()],
            9 => vec!["LREM".into(), key, self.index(), self.member()],
            10 => vec!["LSET".into(), key, self.index(), self.member()],
            11 => vec!["LTRIM".into(), key, self.index(), self.index()],
            12 => {
                let side = self.pick(&["BEFORE", "after", "x"]).into();
                vec!["LINSERT".into(), key, side, self.member(), self.member()]
            }
            _ => {
                let other = self.key_of(&["l", "l2"]);
                if self.draw(2) == 0 {
                    return vec!["RPOPLPUSH".into(), key, other];
                }
                let ends = ["LEFT", "RIGHT", "left", "x"];
                vec![
                    "LMOVE".into(),
                    key,
                    other,
                    self.pick(&ends).into(),
                    self.pick(&ends).into(),
                ]
            }
        }
    }

    pub(super) fn sets(&mut self) -> Vec<String> {
        let key = self.key_of(&["s", "s", "s2"]);
        match self.draw(8) {
            0..=2 => {
                let mut words = vec![self.pick(&["SADD", "SADD", "SREM"]).into(), key];
                self.many(&mut words, Self::member);
                words
            }
            3 => vec!["SISMEMBER".into(), key, self.member()],
            4 => {
                let mut words = vec!["SMISMEMBER".into(), key];
                self.many(&mut words, Self::member);
                words
            }
            // A choice is told only if there is none.
            5 => vec![
                self.pick(&["SPOP", "SRANDMEMBER"]).into(),
                key,
                self.pick(&["100", "0", "x", "100"]).into(),
            ],
            _ => vec![self.pick(&["SMEMBERS", "SCARD"]).into(), key],
        }
    }

    pub(super) fn sorted_sets(&mut self) -> Vec<String> {
        let key = self.key_of(&["z", "z", "z2"]);
        match self.draw(14) {
            0..=2 => {
                let mut words = vec!["ZADD".into(), key];
                self.options(&mut words, 2, &["NX", "XX", "GT", "lt", "CH", "INCR"]);
                for _ in 0..1 + self.draw(2) {
                    words.extend([self.score(), self.member()]);
                }
                words
            }
            3 => vec!["ZINCRBY".into(), key, self.score(), self.member()],
            4 => {
                let mut words = vec![self.pick(&["ZREM", "ZMSCORE"]).into(), key];
                self.many(&mut words, Self::member);
                words
            }
            5 => vec![
                self.pick(&["ZSCORE", "ZRANK", "ZREVRANK"]).into(),
                key,
                self.member(),
            ],
            6 => vec!["ZCARD".into(), key],
            7 => {
                let name = self.pick(&["ZCOUNT", "ZREMRANGEBYSCORE"]);
                vec![name.into(), key, self.bound(), self.bound()]
            }
            8 => vec!["ZREMRANGEBYRANK".into(), key, self.index(), self.index()],
            9 => {
                let mut words = vec![self.pick(&["ZPOPMIN", "ZPOPMAX"]).into(), key];
                if self.draw(2) == 0 {
                    words.push(self.index());
                }
                words
            }
            10..=11 => {
                let name = self.pick(&["ZRANGE", "ZREVRANGE", "ZRANGE"]);
                let mut words = vec![name.into(), key, self.index(), self.index()];
                self.options(&mut words, 2, &["WITHSCORES", "REV", "withscores", "foo"]);
                words
            }
            _ => {
                let name = self.pick(&["ZRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]);
                let mut words = vec![name.into(), key, self.bound(), self.bound()];
                if name == "ZRANGE" {
                    words.push("BYSCORE".into());
                    self.options(&mut words, 1, &["REV"]);
                }
                self.options(&mut words, 1, &["WITHSCORES"]);
                if self.draw(3) == 0 {
                    words.extend(["LIMIT".into(), self.index(), self.index()]);
                }
                words
            }
        }
    }
}
