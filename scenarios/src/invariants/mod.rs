//! What must never happen: pure checks over the facts of a run, worst first.
//!
//! A new invariant is a file here and a line in [`ALL`].

mod double_write;
mod lost_update;
mod over_limit;
mod overlap;
mod oversold;
mod paid_twice;
mod ran_twice;
mod refused_holder;
mod stale_write;
mod stuck;
#[cfg(test)]
mod tests;
mod token_order;
mod torn_read;
mod unfair;
mod wrong_release;

use serde::Serialize;
use sim::Millis;

pub use double_write::DoubleWrite;
pub use lost_update::LostUpdate;
pub use over_limit::OverLimit;
pub use overlap::Overlap;
pub use oversold::Oversold;
pub use paid_twice::PaidTwice;
pub use ran_twice::RanTwice;
pub use refused_holder::RefusedHolder;
pub use stale_write::StaleWrite;
pub use stuck::{PATIENCE, Stuck, StuckFor};
pub use token_order::TokenOrder;
pub use torn_read::TornRead;
pub use unfair::Unfair;
pub use wrong_release::WrongRelease;

use crate::facts::Facts;

/// Something that must hold in every run.
pub trait Invariant: Sync {
    /// The name in scenario files and reports.
    fn name(&self) -> &'static str;

    /// When it is breached, in one line.
    fn summary(&self) -> &'static str;

    /// Every breach.
    fn check(&self, facts: &Facts<'_>) -> Vec<Violation>;
}

/// One breach of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// When it happened.
    pub at: Millis,
    /// The place in the history of the event that breached it.
    pub event: usize,
    /// What happened, in a sentence.
    pub why: String,
}

/// Every invariant, worst first. A work's own ones come before the general ones.
pub const ALL: &[&dyn Invariant] = &[
    &PaidTwice,
    &Oversold,
    &OverLimit,
    &RanTwice,
    &TornRead,
    &DoubleWrite,
    &LostUpdate,
    &TokenOrder,
    &Stuck,
    &RefusedHolder,
    &WrongRelease,
    &StaleWrite,
    &Overlap,
    &Unfair,
];

/// The place of an invariant in [`ALL`]: the smaller, the worse.
pub fn rank(name: &str) -> usize {
    ALL.iter()
        .position(|invariant| invariant.name() == name)
        .unwrap_or(usize::MAX)
}

/// Seconds with up to three places, as people say them: `30 s`, `0.207 s`.
pub(crate) fn seconds(time: Millis) -> String {
    let text = format!("{}.{:03}", time / 1_000, time % 1_000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}
