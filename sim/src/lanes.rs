//! Where randomness comes from.
//!
//! A seed is split into lanes, one per purpose and per asker, so that a draw depends on who
//! asks, what for, and how many times that one asked before; never on what others did in the
//! meantime. Two algorithms under one seed meet identical trouble, and taking one fault out
//! of a plan moves no other.
//!
//! Deliberately absent: a global generator, and any entropy from the machine.

use std::ops::RangeInclusive;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::Millis;

/// What a lane's draws are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Delays of the segments on one link.
    Network = 1,
    /// The faults of one run, drawn before it starts.
    Faults = 2,
    /// The items of one client and how long each takes, drawn before the run starts.
    Work = 3,
    /// What one client draws while it runs: jitter and owner tokens.
    Client = 4,
    /// Delays and losses that one fault causes on one link.
    Weather = 5,
}

/// One stream of draws: ChaCha with eight rounds, keyed by seed, purpose and asker.
#[derive(Debug, Clone)]
pub struct Lane(ChaCha8Rng);

impl Lane {
    /// The lane of asker `who` for `purpose` under `seed`.
    pub fn new(seed: u64, purpose: Purpose, who: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        key[16..24].copy_from_slice(&who.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number of milliseconds, both ends included, each as likely as any other.
    pub fn within(&mut self, range: &RangeInclusive<Millis>) -> Millis {
        let (low, high) = (*range.start(), *range.end());
        assert!(low <= high, "a range of {low} to {high} ms is empty");
        let width = u128::from(high - low) + 1;
        // Multiply and shift: no modulo, and a bias below 2^-40 for any range of milliseconds.
        low + ((u128::from(self.bits()) * width) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_seed_purpose_asker_and_count_alone() {
        let first = |seed, purpose, who| Lane::new(seed, purpose, who).bits();
        let draw = first(7, Purpose::Network, 3);
        assert_eq!(draw, first(7, Purpose::Network, 3));
        assert_ne!(draw, first(8, Purpose::Network, 3));
        assert_ne!(draw, first(7, Purpose::Faults, 3));
        assert_ne!(draw, first(7, Purpose::Network, 4));
        let mut lane = Lane::new(7, Purpose::Network, 3);
        assert_eq!(lane.bits(), draw);
        assert_ne!(lane.bits(), draw);
    }

    #[test]
    fn a_draw_is_the_same_on_every_machine() {
        // Pinned: a changed value here reshuffles every seed anybody has written down.
        let mut lane = Lane::new(1, Purpose::Faults, 0);
        assert_eq!([lane.bits(), lane.bits()], PINNED);
    }

    const PINNED: [u64; 2] = [6_082_804_599_785_255_738, 5_100_844_500_663_306_037];

    #[test]
    fn a_range_includes_both_ends_and_nothing_else() {
        let mut lane = Lane::new(1, Purpose::Work, 0);
        let mut seen = [0; 3];
        for _ in 0..300 {
            seen[(lane.within(&(5..=7)) - 5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 60), "{seen:?}");
    }
}
