//! Random transactions, messages, and commands that wait.

use super::Stream;

impl Stream {
    pub(super) fn transactions(&mut self) -> Vec<String> {
        if self.queueing[self.on] {
            let name = self.pick(&["EXEC", "EXEC", "EXEC", "DISCARD", "WATCH", "MULTI"]);
            if matches!(name, "EXEC" | "DISCARD") {
                self.queueing[self.on] = false;
            }
            if name == "WATCH" {
                return vec![name.into(), self.any_key()];
            }
            return vec![name.into()];
        }
        match self.draw(8) {
            0 => vec!["EXEC".into()],
            1 => vec!["UNWATCH".into()],
            2 => vec!["DISCARD".into()],
            3..=4 => {
                let mut words = vec!["WATCH".into()];
                self.many(&mut words, Self::any_key);
                words
            }
            _ => {
                self.queueing[self.on] = true;
                vec!["MULTI".into()]
            }
        }
    }

    pub(super) fn messages(&mut self) -> Vec<String> {
        match self.draw(8) {
            0..=2 => {
                let channel = self.pick(&["news", "news", "old", ""]);
                vec!["PUBLISH".into(), channel.into(), self.value()]
            }
            3 => match self.draw(4) {
                0 => vec!["PUBSUB".into(), "NUMPAT".into()],
                1 => vec![
                    "PUBSUB".into(),
                    "NUMSUB".into(),
                    "news".into(),
                    "old".into(),
                ],
                2 => vec!["PUBSUB".into(), "CHANNELS".into()],
                _ => vec!["PUBSUB".into(), "CHANNELS".into(), "n*".into()],
            },
            _ if self.on == 0 => vec!["PUBLISH".into(), "news".into(), self.value()],
            4 => {
                let mut words = vec![self.pick(&["UNSUBSCRIBE", "PUNSUBSCRIBE"]).into()];
                if self.draw(3) > 0 {
                    words.push(self.pick(&["news", "n*", "__key*__:*"]).into());
                }
                words
            }
            5 => vec!["SUBSCRIBE".into(), "news".into(), "old".into()],
            6 => vec!["SUBSCRIBE".into(), "__keyspace@0__:a".into()],
            _ => {
                let pattern = self.pick(&["n*", "__key*__:*", "__keyevent@*__:*", "*"]);
                vec!["PSUBSCRIBE".into(), pattern.into()]
            }
        }
    }

    pub(super) fn waiting(&mut self) -> Vec<String> {
        if self.on != 1 {
            return self.lists();
        }
        match self.draw(6) {
            0..=2 => {
                let mut words = vec![self.pick(&["BLPOP", "BRPOP"]).into()];
                words.extend([self.key_of(&["l"]), self.key_of(&["l2"])]);
                let seconds = self.pick(&["0", "1000", "x", "-1", "0.0", "0.05"]);
                if seconds == "0.05" {
                    self.ends = Some(100);
                }
                words.push(seconds.into());
                words
            }
            3 => {
                let name = self.pick(&["BZPOPMIN", "BZPOPMAX"]);
                vec![
                    name.into(),
                    self.key_of(&["z"]),
                    self.key_of(&["z2"]),
                    "0".into(),
                ]
            }
            4 => vec![
                "BLMOVE".into(),
                self.key_of(&["l"]),
                self.key_of(&["l2"]),
                self.pick(&["LEFT", "RIGHT"]).into(),
                self.pick(&["LEFT", "RIGHT"]).into(),
                "0".into(),
            ],
            _ => vec![
                "BRPOPLPUSH".into(),
                self.key_of(&["l"]),
                self.key_of(&["l2"]),
                "0".into(),
            ],
        }
    }
}
