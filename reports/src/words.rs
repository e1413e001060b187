//! How reports say things: times, rates, faults, replay commands. One wording for all formats.

use scenarios::matrix::Rate;
use sim::fault::{Data, Fault, Planned, Point, When};
use sim::{Millis, NodeId};

/// The engine that a replay command need not name.
const DEFAULT_ENGINE: &str = "event";

/// The command that plays a run again. `scenario` is what the user types: a name or a path.
pub fn replay(algorithm: &str, scenario: &str, seed: u64, engine: &str) -> String {
    let scenario = quoted(scenario);
    let mut command = format!("fencepost run {algorithm} {scenario} --seed {seed}");
    if engine != DEFAULT_ENGINE {
        command += &format!(" --engine {engine}");
    }
    command
}

/// An argument as a shell takes it.
pub fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+,@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// A time of the world: `20.104 s`.
pub fn clock(at: Millis) -> String {
    format!("{}.{:03} s", at / 1_000, at % 1_000)
}

/// A length of time as people say it: `41 s`, `2.53 s`, `350 ms`.
pub fn length(time: Millis) -> String {
    if time < 1_000 {
        return format!("{time} ms");
    }
    let text = format!("{}.{:03}", time / 1_000, time % 1_000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A share in per cent, with one place below ten: `36 %`, `1.5 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", bare_percent(share))
}

/// As [`percent`], without the sign. Something rare is not rounded to never, nor something
/// frequent to always.
pub(crate) fn bare_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        "<0.1".into()
    } else if percent > 99.0 && percent < 100.0 {
        ">99".into()
    } else if percent > 0.0 && percent < 9.95 {
        let text = format!("{percent:.1}");
        text.trim_end_matches(".0").to_owned()
    } else {
        format!("{percent:.0}")
    }
}

/// How often: `3 of 197 runs (1.5 %)`.
pub fn how_often(rate: Rate) -> String {
    format!(
        "{} of {} runs ({})",
        rate.hits,
        rate.of,
        percent(rate.share())
    )
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    match items.as_slice() {
        [] => "nobody".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// As [`list`], with servers that belong together taken together: `lock-1 ... lock-5`.
pub fn nodes(nodes: &[NodeId]) -> String {
    let follows = |one: &NodeId, next: &NodeId| match (one, next) {
        (NodeId::Lock(one), NodeId::Lock(next))
        | (NodeId::Sentinel(one), NodeId::Sentinel(next)) => one + 1 == *next,
        _ => false,
    };
    let runs = nodes.chunk_by(follows).flat_map(|run| match run {
        [NodeId::Lock(first), _, .., NodeId::Lock(last)] => {
            vec![format!("lock-{first} to lock-{last}")]
        }
        [NodeId::Sentinel(1), .., NodeId::Sentinel(_)] => vec!["the sentinels".into()],
        _ => run.iter().map(ToString::to_string).collect(),
    });
    list(&runs.collect::<Vec<_>>())
}

/// Where in its section a client is at a point.
pub fn point(point: Point) -> &'static str {
    match point {
        Point::AcquireSent => "right after sending its request for the lock",
        Point::MidAcquire => "between the two steps of taking the lock",
        Point::Granted => "right after getting the lock",
        Point::BeforeRead => "before its read",
        Point::ReadChecked => "right before its read, after any check of its lease",
        Point::AfterRead => "after its read",
        Point::BeforeWrite => "before its write",
        Point::WriteChecked => "right before its write, after any check of its lease",
        Point::AfterWrite => "after its write",
        Point::BeforeRelease => "before releasing the lock",
        Point::Released => "after releasing the lock",
        Point::RenewDue => "when its lease is due for renewal",
    }
}

/// What a fault does when it strikes, as a sentence without its full stop.
pub fn fault(planned: &Planned) -> String {
    let what = doing(&planned.fault);
    match &planned.when {
        When::At(_) => what,
        When::Point {
            client, point: p, ..
        } => {
            if planned.fault.nodes().eq([*client]) {
                format!("{what}, {}", point(*p))
            } else {
                format!("{}, {what}", point_of(*p, *client))
            }
        }
    }
}

/// As [`point`], seen from outside.
fn point_of(p: Point, client: NodeId) -> String {
    match p {
        Point::AcquireSent => format!("right after {client} has sent its request for the lock"),
        Point::MidAcquire => format!("between the two steps with which {client} takes the lock"),
        Point::Granted => format!("right after {client} has got the lock"),
        Point::ReadChecked => {
            format!("right before {client}'s read, after any check of its lease")
        }
        Point::WriteChecked => {
            format!("right before {client}'s write, after any check of its lease")
        }
        Point::BeforeRelease => format!("before {client} releases the lock"),
        Point::Released => format!("after {client} has released the lock"),
        Point::RenewDue => format!("when the lease of {client} is due for renewal"),
        Point::BeforeRead | Point::AfterRead | Point::BeforeWrite | Point::AfterWrite => {
            point(p).replacen("its", &format!("{client}'s"), 1)
        }
    }
}

fn doing(fault: &Fault) -> String {
    let between = |a: &[NodeId], b: &[NodeId]| format!("between {} and {}", nodes(a), nodes(b));
    match fault {
        Fault::Pause { nodes: n, lasts } => {
            format!("{} {} for {}", nodes(n), verb(n, "stop"), length(*lasts))
        }
        Fault::Suspend { nodes: n, lasts } => {
            let is = if n.len() == 1 { "is" } else { "are" };
            format!("{} {is} suspended for {}", nodes(n), length(*lasts))
        }
        Fault::Crash { nodes: n } => format!("{} {}", nodes(n), verb(n, "crash")),
        Fault::ThreadDeath { nodes: n } => {
            format!("the thread that works for {} dies", nodes(n))
        }
        Fault::PowerLoss { nodes: n } => format!("{} {} power", nodes(n), verb(n, "lose")),
        Fault::Restart {
            nodes: n,
            after,
            data,
        } => {
            let with = match data {
                Data::Kept => "with its data",
                Data::OnDisk => "with what is on its disk",
                Data::Lost => "without its data",
            };
            let back = if *after == 0 {
                "at once".into()
            } else {
                format!("{} later", length(*after))
            };
            format!(
                "{} {}, and {} back {back} {with}",
                nodes(n),
                verb(n, "crash"),
                verb(n, "come")
            )
        }
        Fault::Hold { a, b, lasts } => format!(
            "nothing gets through {} for {}; it arrives afterwards",
            between(a, b),
            length(*lasts)
        ),
        Fault::Reset { a, b } => format!("every connection {} is reset", between(a, b)),
        Fault::Refuse { a, b, lasts } => format!(
            "{} {} new connections of {} for {}",
            nodes(b),
            verb(b, "refuse"),
            nodes(a),
            length(*lasts)
        ),
        Fault::OneWay { a, b, lasts } => format!(
            "nothing gets through from {} to {} for {}; it arrives afterwards",
            nodes(a),
            nodes(b),
            length(*lasts)
        ),
        Fault::Slow { a, b, by, lasts } => format!(
            "the network {} is slow for {}, by {} and up to a hundred times as much",
            between(a, b),
            length(*lasts),
            length(*by)
        ),
        Fault::Loss {
            a,
            b,
            percent,
            lasts,
        } => format!(
            "the network {} loses {percent} % for {}; what is lost is sent again",
            between(a, b),
            length(*lasts)
        ),
        Fault::DropReplies { a, b, lasts } => format!(
            "for {} every answer of {} to {} is lost",
            length(*lasts),
            nodes(b),
            nodes(a)
        ),
        Fault::ClockStep { nodes: n, by } => format!(
            "the wall {} of {} {} {} {}",
            if n.len() == 1 { "clock" } else { "clocks" },
            nodes(n),
            verb(n, "jump"),
            length(by.unsigned_abs()),
            if *by < 0 { "back" } else { "forward" }
        ),
        Fault::ClockRate { nodes: n, ppm } => {
            format!("from now on the clocks of {} run {}", nodes(n), pace(*ppm))
        }
        Fault::ClockOffset { nodes: n, by } => format!(
            "the wall {} of {} {} {} {} from the start",
            if n.len() == 1 { "clock" } else { "clocks" },
            nodes(n),
            if n.len() == 1 { "is" } else { "are" },
            length(by.unsigned_abs()),
            if *by < 0 { "behind" } else { "ahead" }
        ),
        Fault::Failover { nodes: n } => format!("a replica takes the place of {}", nodes(n)),
        Fault::ReplicaLag { nodes: n, lasts } => {
            format!(
                "{} {} behind for {}",
                nodes(n),
                verb(n, "fall"),
                length(*lasts)
            )
        }
        Fault::Flush { nodes: n } => format!("somebody runs FLUSHALL on {}", nodes(n)),
        Fault::Evict { nodes: n } => format!("{} {} every key", nodes(n), verb(n, "evict")),
    }
}

/// How fast a clock runs: `5 % too fast`, `200 ppm too slow`.
pub fn pace(ppm: i64) -> String {
    let by = ppm.unsigned_abs();
    let much = if by.is_multiple_of(1_000) {
        let text = format!("{}.{}", by / 10_000, by / 1_000 % 10);
        format!("{} %", text.trim_end_matches(".0"))
    } else {
        format!("{by} ppm")
    };
    match ppm {
        0 => "at the right rate".into(),
        1.. => format!("{much} too fast"),
        _ => format!("{much} too slow"),
    }
}

fn verb(of: &[NodeId], stem: &str) -> String {
    let es = stem.ends_with("sh");
    match (of.len(), es) {
        (1, true) => format!("{stem}es"),
        (1, false) => format!("{stem}s"),
        _ => stem.to_owned(),
    }
}

/// What ends when a fault is over, if it is worth telling.
pub fn over(fault: &Fault) -> Option<String> {
    let goes_on =
        |n: &[NodeId]| format!("{} {} on", nodes(n), verb(n, "go").replace("gos", "goes"));
    match fault {
        Fault::Pause { nodes: n, .. } | Fault::Suspend { nodes: n, .. } => Some(goes_on(n)),
        Fault::Restart { nodes: n, .. } => {
            let is = if n.len() == 1 { "is" } else { "are" };
            Some(format!("{} {is} up again", nodes(n)))
        }
        Fault::Hold { a, b, .. } => Some(format!(
            "what was held between {} and {} arrives",
            nodes(a),
            nodes(b)
        )),
        Fault::OneWay { a, b, .. } => Some(format!(
            "what was held from {} to {} arrives",
            nodes(a),
            nodes(b)
        )),
        Fault::Refuse { a, b, .. } => {
            Some(format!("{} can connect to {} again", nodes(a), nodes(b)))
        }
        Fault::DropReplies { a, b, .. } => Some(format!(
            "answers of {} to {} get through again; connections are reset",
            nodes(b),
            nodes(a)
        )),
        Fault::Slow { .. } | Fault::Loss { .. } => Some("the network is well again".into()),
        Fault::ReplicaLag { nodes: n, .. } => Some(format!(
            "{} {} the master again",
            nodes(n),
            verb(n, "follow")
        )),
        Fault::Crash { .. }
        | Fault::ThreadDeath { .. }
        | Fault::PowerLoss { .. }
        | Fault::Reset { .. }
        | Fault::ClockStep { .. }
        | Fault::ClockRate { .. }
        | Fault::ClockOffset { .. }
        | Fault::Failover { .. }
        | Fault::Flush { .. }
        | Fault::Evict { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_as_a_sentence() {
        let pause = Planned {
            fault: Fault::Pause {
                nodes: vec![NodeId::Client(1)],
                lasts: 41_000,
            },
            when: When::Point {
                client: NodeId::Client(1),
                point: Point::BeforeWrite,
                nth: 1,
            },
        };
        assert_eq!(fault(&pause), "client-1 stops for 41 s, before its write");
        let step = Planned {
            fault: Fault::ClockStep {
                nodes: (1..=5).map(NodeId::Lock).collect(),
                by: -30_500,
            },
            when: When::Point {
                client: NodeId::Client(1),
                point: Point::AfterRead,
                nth: 1,
            },
        };
        assert_eq!(
            fault(&step),
            "after client-1's read, the wall clocks of lock-1 to lock-5 jump 30.5 s back"
        );
    }

    #[test]
    fn a_wrong_clock_is_told_by_how_much() {
        for (ppm, text) in [
            (0, "at the right rate"),
            (200, "200 ppm too fast"),
            (-1_500, "1500 ppm too slow"),
            (5_000, "0.5 % too fast"),
            (-50_000, "5 % too slow"),
            (1_000_000, "100 % too fast"),
        ] {
            assert_eq!(pace(ppm), text);
        }
        let nodes = vec![NodeId::Lock(1)];
        let off = Fault::ClockOffset { nodes, by: -2_500 };
        assert_eq!(
            doing(&off),
            "the wall clock of lock-1 is 2.5 s behind from the start"
        );
    }

    #[test]
    fn a_replay_command_can_be_pasted_into_a_shell() {
        assert_eq!(
            replay("naive", "gc-pause", 4, "event"),
            "fencepost run naive gc-pause --seed 4"
        );
        assert_eq!(
            replay("naive", "my dir/it's.toml", 4, "turmoil"),
            r"fencepost run naive 'my dir/it'\''s.toml' --seed 4 --engine turmoil"
        );
    }

    #[test]
    fn rare_is_not_rounded_to_never_nor_frequent_to_always() {
        assert_eq!(percent(0.0004), "<0.1 %");
        assert_eq!(percent(0.996), ">99 %");
        assert_eq!(percent(0.015), "1.5 %");
        assert_eq!(percent(0.36), "36 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn nodes_that_belong_together_are_taken_together() {
        let locks: Vec<_> = (1..=5).map(NodeId::Lock).collect();
        assert_eq!(nodes(&locks), "lock-1 to lock-5");
        assert_eq!(nodes(&locks[1..3]), "lock-2 and lock-3");
        let sentinels: Vec<_> = (1..=3).map(NodeId::Sentinel).collect();
        assert_eq!(nodes(&sentinels), "the sentinels");
        assert_eq!(nodes(&sentinels[..1]), "sentinel-1");
        let mixed = [&locks[1..3], &sentinels, &[NodeId::Client(2)]].concat();
        assert_eq!(nodes(&mixed), "lock-2, lock-3, the sentinels and client-2");
        assert_eq!(nodes(&[]), "nobody");
    }
}
