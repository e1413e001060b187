//! How a file says each kind of fault: what it does, and an example that can be pasted.

/// One kind of fault, for people who write scenarios.
#[derive(Debug, Clone, Copy)]
pub struct FaultHelp {
    /// The name in scenario files.
    pub kind: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its fields but for the moment, as TOML with a line each.
    pub example: &'static str,
}

impl FaultHelp {
    /// The names of its fields. Beside them every fault has `at` or `when`.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        let names = self
            .example
            .lines()
            .filter_map(|line| line.split_once(" ="));
        names.map(|(name, _)| name)
    }

    /// An advice to write it so.
    pub(super) fn advice(&self) -> String {
        let Self { kind, example, .. } = self;
        let moment = match *kind {
            "clock-offset" => "",
            _ => "\nat = \"20s\"",
        };
        format!("write it as in:\n[[fault]]\nkind = \"{kind}\"\n{example}{moment}")
    }
}

/// Every kind of fault that can be played.
pub const FAULTS: &[FaultHelp] = &[
    FaultHelp {
        kind: "pause",
        summary: "the code stands still, clocks and sockets go on: a stop-the-world collection",
        example: "node = \"client-1\"\nlasts = \"31s..60s\"",
    },
    FaultHelp {
        kind: "suspend",
        summary: "as a pause, but the monotonic clock stands still too: a suspended VM",
        example: "node = \"client-1\"\nlasts = \"31s..60s\"",
    },
    FaultHelp {
        kind: "crash",
        summary: "the process dies, its connections are closed",
        example: "node = \"client-1\"",
    },
    FaultHelp {
        kind: "thread-death",
        summary: "the thread that works dies; its process lives on, and renews what it holds",
        example: "node = \"client-1\"",
    },
    FaultHelp {
        kind: "power-loss",
        summary: "the machine goes silent; nobody is told",
        example: "node = \"client-1\"",
    },
    FaultHelp {
        kind: "restart",
        summary: "a crash, and a new start with or without what it had stored",
        example: "node = \"lock\"\nafter = \"1s\"\ndata = \"lost\" # or \"kept\" or \"on-disk\"",
    },
    FaultHelp {
        kind: "hold",
        summary: "nothing gets through between two sides, and all of it arrives when it ends",
        example: "between = [\"client-1\", \"lock\"]\nlasts = \"40s\"",
    },
    FaultHelp {
        kind: "reset",
        summary: "every connection between two sides is reset",
        example: "between = [\"client-1\", \"lock\"]",
    },
    FaultHelp {
        kind: "refuse",
        summary: "no new connections; those that exist live on",
        example: "from = \"client-1\"\nto = \"lock\"\nlasts = \"5s\"",
    },
    FaultHelp {
        kind: "one-way",
        summary: "as a hold, of one direction alone",
        example: "from = \"client-1\"\nto = \"lock\"\nlasts = \"40s\"",
    },
    FaultHelp {
        kind: "slow",
        summary: "what is sent takes longer, with a heavy tail of up to a hundred times `by`",
        example: "between = [\"client-1\", \"lock\"]\nby = \"200ms\"\nlasts = \"60s\"",
    },
    FaultHelp {
        kind: "loss",
        summary: "what is lost is sent again, after 200 ms and then twice as long each time",
        example: "between = [\"client-1\", \"lock\"]\npercent = 10\nlasts = \"60s\"",
    },
    FaultHelp {
        kind: "drop-replies",
        summary: "requests get through, every answer is lost, and it ends in a reset",
        example: "from = \"lock\"\nto = \"client-1\"\nlasts = \"2s\"",
    },
    FaultHelp {
        kind: "clock-step",
        summary: "a wall clock jumps; negative is back",
        example: "node = \"lock\"\nby = \"-60s..-31s\"",
    },
    FaultHelp {
        kind: "clock-rate",
        summary: "both clocks of a node run fast or, if negative, slow from then on",
        example: "node = \"lock\"\nppm = \"20000..50000\" # parts per million",
    },
    FaultHelp {
        kind: "clock-offset",
        summary: "a wall clock is wrong from the start",
        example: "node = \"lock\"\nby = \"-5s..5s\"",
    },
    FaultHelp {
        kind: "failover",
        summary: "an operator lets a replica take the place of the master",
        example: "node = \"lock-1\"",
    },
    FaultHelp {
        kind: "replica-lag",
        summary: "replicas copy nothing, and catch up when it ends unless they are promoted",
        example: "node = \"lock-2\"\nlasts = \"10s\"",
    },
    FaultHelp {
        kind: "flush",
        summary: "somebody runs FLUSHALL on a Redis server",
        example: "node = \"lock\"",
    },
    FaultHelp {
        kind: "evict",
        summary: "a Redis server needs memory and evicts every key",
        example: "node = \"lock\"",
    },
];

/// The help for a kind that can be played.
pub(super) fn help(kind: &str) -> &'static FaultHelp {
    let known = FAULTS.iter().find(|help| help.kind == kind);
    known.unwrap_or_else(|| unreachable!("{kind} is listed as a kind of fault"))
}

#[cfg(test)]
mod tests {
    use sim::fault::KINDS;

    use super::*;

    const CALM: &str = r#"
name = "calm"
title = "Nothing goes wrong"
story = "Nothing."
world = { clients = 3, redis = { shape = "replicated", replicas = 1, sentinels = 0 }, latency = "1ms..5ms", ends = "9000s" }
client = { retry = "200ms..600ms", redis_timeout = "1s", store_timeout = "5s" }
lock = { ttl = "30s" }
work = { kind = "counter", keys = 1, items = 3, takes = "1s..5s" }
expect = {}
"#;

    #[test]
    fn every_fault_that_can_be_played_is_explained() {
        let explained: Vec<_> = FAULTS.iter().map(|help| help.kind).collect();
        assert_eq!(explained, KINDS);
    }

    #[test]
    fn every_example_can_be_pasted() {
        for help in FAULTS {
            let advice = help.advice();
            let pasted = advice.strip_prefix("write it as in:\n").unwrap();
            let scenario = format!("{CALM}\n{pasted}\n");
            if let Err(bad) = crate::load::load("pasted.toml", &scenario, &[]) {
                panic!("{}: {}, {:?}", help.kind, bad.what, bad.help);
            }
        }
    }
}
