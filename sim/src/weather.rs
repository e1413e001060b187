//! Bad weather: what makes segments of a link late.
//!
//! No segment of a live connection is ever lost for good, so a slow network and a lossy one come
//! to the same: a delay. How long it is depends on draws of the fault's own on this link, so
//! that neither the link's plain latency nor another fault is reshuffled.
//!
//! Deliberately absent: fast retransmission, which needs three later segments of the same
//! connection; a lock's requests are too few for it. And acknowledgements without data, which
//! cross at once whatever the weather.

use std::collections::BTreeMap;

use crate::{Lane, Millis, Purpose};

/// The most by which a slow network delays a segment, in multiples of the fault's `by`.
pub const TAIL: Millis = 100;

/// How long a segment waits for its acknowledgement before it is sent again: the least that Linux
/// waits, `TCP_RTO_MIN`. It doubles each time (RFC 6298, 5.5).
pub const RETRANSMISSION: Millis = 200;

/// The same for a segment that opens a connection, of which no round trip has been measured:
/// `TCP_TIMEOUT_INIT`, RFC 6298, 2.1.
pub const FIRST_RETRANSMISSION: Millis = 1_000;

/// The longest that Linux waits: `TCP_RTO_MAX`.
pub const LONGEST_RETRANSMISSION: Millis = 120_000;

/// The faults that make the segments of one link late.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    /// By their places in the plan.
    faults: BTreeMap<usize, (Lane, Kind)>,
}

/// What a fault does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Every segment takes longer: as a Lomax distribution (Pareto II) with shape 1.5 and this
    /// scale, a heavy tail of finite mean. Half of the segments take less than 0.59 of it longer,
    /// one in three more than all of it, one in 37 more than ten times as much.
    Slow(Millis),
    /// So many of a hundred transmissions are lost until then.
    Loss(u32, Millis),
}

impl Weather {
    /// A fault begins on the link from one node to another.
    pub(crate) fn begin(&mut self, seed: u64, fault: usize, link: (usize, usize), kind: Kind) {
        let (from, to) = link;
        let who = (fault as u64) << 32 | (from as u64) << 16 | to as u64;
        let lane = Lane::new(seed, Purpose::Weather, who);
        self.faults.insert(fault, (lane, kind));
    }

    /// It is over.
    pub(crate) fn end(&mut self, fault: usize) {
        self.faults.remove(&fault);
    }

    /// How much later than usual a segment arrives that is sent now for the first time. `opens`
    /// says whether it opens a connection.
    pub(crate) fn delay(&mut self, now: Millis, opens: bool) -> Millis {
        if self.faults.is_empty() {
            return 0;
        }
        let slows = self.faults.values_mut().map(|(lane, kind)| match *kind {
            Kind::Slow(by) => tail(lane.bits(), by),
            Kind::Loss(..) => 0,
        });
        let slower: Millis = slows.sum();
        let mut sent = now;
        let mut patience = if opens {
            FIRST_RETRANSMISSION
        } else {
            RETRANSMISSION
        };
        while self.loses(sent) {
            sent += patience;
            patience = (2 * patience).min(LONGEST_RETRANSMISSION);
        }
        slower + (sent - now)
    }

    /// Whether a transmission is lost. Every fault draws, so that none depends on another.
    fn loses(&mut self, at: Millis) -> bool {
        let draws = self.faults.values_mut().map(|(lane, kind)| match *kind {
            Kind::Loss(percent, until) if at < until => {
                lane.within(&(0..=99)) < Millis::from(percent)
            }
            _ => false,
        });
        draws.fold(false, |lost, drawn| lost | drawn)
    }
}

/// 64 random bits as a delay with a heavy tail.
fn tail(bits: u64, by: Millis) -> Millis {
    // A number from zero, included, to one, excluded: 53 bits are all that it can hold.
    let uniform = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    let times = libm::pow(1.0 - uniform, -1.0 / 1.5) - 1.0;
    (times * by as f64).min((TAIL * by) as f64) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link under some faults.
    fn under(kinds: &[Kind]) -> Weather {
        let mut weather = Weather::default();
        for (fault, kind) in kinds.iter().enumerate() {
            weather.begin(4711, fault, (0, 2), *kind);
        }
        weather
    }

    #[test]
    fn fair_weather_delays_nothing() {
        assert_eq!(under(&[]).delay(100, true), 0);
        let mut over = under(&[Kind::Slow(100), Kind::Loss(100, 500)]);
        over.end(0);
        over.end(1);
        assert_eq!(over.delay(100, false), 0);
    }

    #[test]
    fn a_slow_network_has_the_tail_that_it_says() {
        let mut weather = under(&[Kind::Slow(1_000)]);
        let delays: Vec<_> = (0..20_000).map(|_| weather.delay(0, false)).collect();
        let share = |above: Millis| {
            let hits = delays.iter().filter(|delay| **delay > above).count();
            hits as f64 / delays.len() as f64
        };
        // (1 + x)^-1.5 of the segments take longer than x times as much.
        for (above, expected) in [
            (0, 1.0),
            (587, 0.5),
            (1_000, 0.353_6),
            (3_000, 0.125),
            (10_000, 0.027_4),
        ] {
            let off = (share(above) - expected).abs();
            assert!(off < 0.01, "{} above {above}", share(above));
        }
        assert!(delays.iter().all(|delay| *delay <= 100_000));
        assert!(delays.contains(&100_000), "one in a thousand is cut off");
    }

    #[test]
    fn the_tail_is_the_same_on_every_machine() {
        let bits = [0, 1 << 63, u64::MAX - (1 << 61), u64::MAX];
        // 2^(2/3) - 1 = 0.5874; 8^(2/3) - 1 = 3.
        assert_eq!(
            bits.map(|bits| tail(bits, 10_000)),
            [0, 5_874, 29_999, 1_000_000]
        );
    }

    #[test]
    fn a_segment_is_sent_again_after_twice_the_time_each_time() {
        // Sent at 100, 300, 700, 1 500, 3 100.
        for (until, delay) in [
            (100, 0),
            (101, 200),
            (301, 600),
            (1_500, 1_400),
            (1_501, 3_000),
        ] {
            assert_eq!(under(&[Kind::Loss(100, until)]).delay(100, false), delay);
        }
        // Sent at 100, 1 100, 3 100.
        for (until, delay) in [(101, 1_000), (1_100, 1_000), (1_101, 3_000)] {
            assert_eq!(under(&[Kind::Loss(100, until)]).delay(100, true), delay);
        }
    }

    #[test]
    fn nobody_waits_for_longer_than_two_minutes_before_sending_again() {
        // 200 ms doubled nine times is 102.4 s; from then on 120 s.
        let until = |times: Millis| 204_600 + 120_000 * times;
        let delay = |end: Millis| under(&[Kind::Loss(100, end)]).delay(0, false);
        assert_eq!(delay(until(0) + 1), until(1));
        assert_eq!(delay(until(3) + 1), until(4));
    }

    #[test]
    fn as_many_transmissions_are_lost_as_it_says() {
        let mut weather = under(&[Kind::Loss(10, Millis::MAX)]);
        let delays: Vec<_> = (0..20_000).map(|_| weather.delay(0, false)).collect();
        let share = |of: Millis| {
            let hits = delays.iter().filter(|delay| **delay == of).count();
            hits as f64 / delays.len() as f64
        };
        assert!((share(0) - 0.9).abs() < 0.01);
        assert!((share(200) - 0.09).abs() < 0.006);
        assert!((share(600) - 0.009).abs() < 0.003);
    }

    #[test]
    fn faults_that_overlap_do_not_change_each_others_draws() {
        let (slow, loss) = (Kind::Slow(1_000), Kind::Loss(30, Millis::MAX));
        let draw = |kinds: &[(usize, Kind)]| {
            let mut weather = Weather::default();
            for (fault, kind) in kinds {
                weather.begin(4711, *fault, (0, 2), *kind);
            }
            let delays = (0..100).map(|_| weather.delay(0, false));
            delays.collect::<Vec<_>>()
        };
        let both = draw(&[(0, slow), (1, loss)]);
        let (one, other) = (draw(&[(0, slow)]), draw(&[(1, loss)]));
        let sums: Vec<_> = one.iter().zip(other).map(|(a, b)| a + b).collect();
        assert_eq!(both, sums);
    }
}
