//! A node's own clock: how far it has come, and when it will show a time.
//!
//! A [`Clock`] has two hands. The *monotonic* one counts the milliseconds since the world's
//! start as the node lives them; the *wall* one shows milliseconds since 1970. Both are piecewise
//! linear in the world's time: between two changes they run at one rate, and a change first
//! settles what they show. A suspended machine's monotonic hand stands still, as Linux's
//! `CLOCK_MONOTONIC` does (`clock_gettime(2)`: it "does not count time that the system is
//! suspended"); its wall hand goes on.
//!
//! Both hands are read in whole milliseconds and kept in millionths of one. Rates are whole parts
//! per million, so nothing is ever rounded away between two changes, and no floating-point number
//! can differ from machine to machine.
//!
//! Deliberately absent: the world's time. Whoever reads a clock says what time it is.

use crate::{EPOCH, Millis};

/// Parts in a million, and millionths in a millisecond.
const MILLION: u64 = 1_000_000;

/// The rates at which a clock can run, in parts per million faster than the world's time: from
/// half as fast to twice as fast.
pub const RATES: std::ops::RangeInclusive<i64> = -500_000..=1_000_000;

/// What one hand shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hand {
    millis: Millis,
    /// Below one million.
    millionths: u64,
}

impl Hand {
    /// What it shows after `passed` at a rate.
    fn after(self, passed: Millis, rate: u64) -> Self {
        if rate == MILLION {
            return Self {
                millis: self.millis + passed,
                ..self
            };
        }
        let moved = u128::from(passed) * u128::from(rate) + u128::from(self.millionths);
        Self {
            millis: self.millis + (moved / u128::from(MILLION)) as u64,
            millionths: (moved % u128::from(MILLION)) as u64,
        }
    }

    /// How much time passes at a rate before it shows `time`.
    fn until(self, time: Millis, rate: u64) -> Millis {
        let missing = time.saturating_sub(self.millis);
        if rate == MILLION || missing == 0 {
            // It is less than a millisecond further than it shows.
            return missing;
        }
        let missing = u128::from(missing) * u128::from(MILLION) - u128::from(self.millionths);
        u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX)
    }
}

/// A clock with a monotonic and a wall hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// The world's time at the last change.
    since: Millis,
    /// Millionths of a millisecond that pass in a millisecond of the world.
    rate: u64,
    /// Whether the monotonic hand stands still.
    still: bool,
    /// What the hands showed at the last change.
    monotonic: Hand,
    wall: Hand,
}

impl Default for Clock {
    fn default() -> Self {
        let hand = |millis| Hand {
            millis,
            millionths: 0,
        };
        Self {
            since: 0,
            rate: MILLION,
            still: false,
            monotonic: hand(0),
            wall: hand(EPOCH),
        }
    }
}

impl Clock {
    /// What the monotonic hand shows at a time of the world, which is not before the last change.
    pub fn monotonic(&self, now: Millis) -> Millis {
        self.monotonic_hand(now).millis
    }

    /// What the wall hand shows at a time of the world, which is not before the last change.
    pub fn wall(&self, now: Millis) -> Millis {
        self.wall.after(now - self.since, self.rate).millis
    }

    /// The first millisecond of the world, from the last change on, in which the monotonic hand
    /// shows `time` or later; `None` while it stands still before that.
    pub fn monotonic_shows(&self, time: Millis) -> Option<Millis> {
        let reached = time <= self.monotonic.millis;
        (reached || !self.still).then(|| {
            let passes = self.monotonic.until(time, self.rate);
            self.since.saturating_add(passes)
        })
    }

    /// The first millisecond of the world, from the last change on, in which the wall hand shows
    /// `time` or later.
    pub fn wall_shows(&self, time: Millis) -> Millis {
        self.since.saturating_add(self.wall.until(time, self.rate))
    }

    /// Moves the wall hand, back if `by` is negative.
    pub fn step(&mut self, now: Millis, by: i64) {
        self.settle(now);
        self.wall.millis = self.wall.millis.saturating_add_signed(by);
    }

    /// Lets both hands run at another rate from now on: `ppm` parts per million faster than the
    /// world's time. A rate takes the place of the one before.
    ///
    /// # Panics
    ///
    /// If the rate is not one of [`RATES`].
    pub fn run_at(&mut self, now: Millis, ppm: i64) {
        assert!(RATES.contains(&ppm), "no clock runs {ppm} ppm fast");
        self.settle(now);
        self.rate = MILLION.saturating_add_signed(ppm);
    }

    /// Lets the monotonic hand stand still, or go on.
    pub fn stand(&mut self, now: Millis, still: bool) {
        self.settle(now);
        self.still = still;
    }

    fn monotonic_hand(&self, now: Millis) -> Hand {
        let passed = if self.still { 0 } else { now - self.since };
        self.monotonic.after(passed, self.rate)
    }

    fn settle(&mut self, now: Millis) {
        self.monotonic = self.monotonic_hand(now);
        self.wall = self.wall.after(now - self.since, self.rate);
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_that_nobody_touches_shows_the_worlds_time() {
        let clock = Clock::default();
        assert_eq!((clock.monotonic(0), clock.wall(0)), (0, EPOCH));
        assert_eq!((clock.monotonic(77), clock.wall(77)), (77, EPOCH + 77));
        assert_eq!(clock.monotonic_shows(77), Some(77));
        assert_eq!(clock.wall_shows(EPOCH + 77), 77);
        assert_eq!(clock.monotonic_shows(Millis::MAX), Some(Millis::MAX));
    }

    #[test]
    fn a_fast_clock_is_ahead_and_a_slow_one_behind_by_whole_milliseconds() {
        let mut clock = Clock::default();
        clock.run_at(1_000, 10_000); // one per cent
        assert_eq!(clock.monotonic(1_099), 1_099); // 1 099.99
        assert_eq!(clock.monotonic(1_100), 1_101);
        assert_eq!(clock.wall(1_100), EPOCH + 1_101);
        assert_eq!(clock.monotonic_shows(1_100), Some(1_100)); // at 1 099 it shows 1 099.99
        assert_eq!(clock.monotonic_shows(1_101), Some(1_100));
        clock.run_at(1_100, -500_000);
        assert_eq!(clock.monotonic(1_101), 1_101); // 1 101.5
        assert_eq!(clock.monotonic(1_102), 1_102);
        assert_eq!(clock.monotonic_shows(1_103), Some(1_104));
    }

    #[test]
    fn no_fraction_is_lost_at_a_change() {
        let mut clock = Clock::default();
        // A third of a millisecond is dropped at none of the changes.
        for now in 0..1_000 {
            clock.run_at(now, if now % 2 == 0 { 300_000 } else { -300_000 });
        }
        assert_eq!(clock.monotonic(1_000), 1_000);
        assert_eq!(clock.wall(1_000), EPOCH + 1_000);
    }

    #[test]
    fn a_monotonic_hand_that_stands_shows_nothing_new_until_it_goes_on() {
        let mut clock = Clock::default();
        clock.stand(100, true);
        assert_eq!(clock.monotonic(5_000), 100);
        assert_eq!(clock.wall(5_000), EPOCH + 5_000);
        assert_eq!(clock.monotonic_shows(101), None);
        assert_eq!(clock.monotonic_shows(100), Some(100));
        clock.stand(1_100, false);
        assert_eq!(clock.monotonic_shows(400), Some(1_400));
    }

    #[test]
    fn a_step_moves_the_wall_hand_alone() {
        let mut clock = Clock::default();
        clock.step(100, -5_000);
        assert_eq!(clock.wall(100), EPOCH - 4_900);
        assert_eq!(clock.wall_shows(EPOCH), 5_000);
        assert_eq!(clock.monotonic(100), 100);
        clock.step(200, i64::MIN);
        assert_eq!(clock.wall(200), 0);
    }

    /// Something that happens to a clock.
    #[derive(Debug, Clone)]
    enum Change {
        Step(i64),
        Rate(i64),
        Stand(bool),
    }

    fn changes() -> impl Strategy<Value = Vec<(Millis, Change)>> {
        let change = prop_oneof![
            (-100_000..100_000i64).prop_map(Change::Step),
            RATES.prop_map(Change::Rate),
            (-300..300i64).prop_map(Change::Rate),
            any::<bool>().prop_map(Change::Stand),
        ];
        prop::collection::vec((0..5_000u64, change), 0..8)
    }

    fn change(clock: &mut Clock, now: Millis, change: &Change) {
        match *change {
            Change::Step(by) => clock.step(now, by),
            Change::Rate(ppm) => clock.run_at(now, ppm),
            Change::Stand(still) => clock.stand(now, still),
        }
    }

    proptest! {
        #[test]
        fn the_monotonic_hand_never_goes_back(changes in changes()) {
            let (mut clock, mut now, mut last) = (Clock::default(), 0, 0);
            for (passes, what) in changes {
                for at in [now, now + passes / 2, now + passes] {
                    prop_assert!(clock.monotonic(at) >= last);
                    last = clock.monotonic(at);
                }
                now += passes;
                change(&mut clock, now, &what);
                prop_assert_eq!(clock.monotonic(now), last, "a change moved it");
            }
        }

        #[test]
        fn a_time_is_shown_in_the_foretold_millisecond_and_not_before(
            changes in changes(),
            ahead in 0..100_000u64,
        ) {
            let (mut clock, mut now) = (Clock::default(), 0);
            for (passes, what) in changes {
                now += passes;
                change(&mut clock, now, &what);
            }
            let time = clock.monotonic(now) + ahead;
            match clock.monotonic_shows(time) {
                Some(at) => {
                    prop_assert!(at >= now && clock.monotonic(at) >= time);
                    prop_assert!(at == now || clock.monotonic(at - 1) < time);
                }
                None => prop_assert!(clock.still && clock.monotonic(now + 1_000_000) < time),
            }
            let time = clock.wall(now) + ahead;
            let at = clock.wall_shows(time);
            prop_assert!(at >= now && clock.wall(at) >= time);
            prop_assert!(at == now || clock.wall(at - 1) < time);
        }
    }
}
