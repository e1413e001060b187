//! fencepost breaks distributed locks on purpose, repeatably, before production does.
//!
//! The command line is the usual way in. This library is for locks of your own: implement
//! [`Lock`](algorithms::Lock) and [`Algorithm`](algorithms::Algorithm), and let any scenario
//! happen to it.
//!
//! ```
//! use fencepost::algorithms::naive::Naive;
//!
//! let scenario = fencepost::scenario("gc-pause").unwrap();
//! let run = fencepost::run(&Naive, &scenario, 0).unwrap();
//! assert_eq!(run.verdict.worst(), Some("paid-twice"));
//! assert!(run.verdict.has("double-write"));
//! ```
//!
//! `examples/own_lock.rs` shows a whole lock.

use std::path::Path;

pub use {algorithms, reports, scenarios, sim};

pub use scenarios::{FirstDifference, Unverified, Verified};

use scenarios::{BadScenario, Run, Scenario, builtin, load};
use sim::engine::{Event, Failed};

/// A built-in scenario by its name; nothing if there is none of that name.
pub fn scenario(name: &str) -> Option<Scenario> {
    builtin::get(name, &[]).map(|loaded| loaded.unwrap_or_else(|bad| panic!("{bad:?}")))
}

/// Why a scenario file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("failed to read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a scenario. Its `Debug` form shows where and what would be right.
    #[error(transparent)]
    Bad(#[from] Box<BadScenario>),
}

/// A scenario of your own, from its file.
pub fn scenario_file(path: &Path) -> Result<Scenario, LoadError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable {
        path: name.clone(),
        source,
    })?;
    Ok(load(&name, &text, &[])?)
}

/// Plays and judges one run on the event engine.
///
/// # Panics
///
/// When the scenario does not apply to the algorithm: when it names a server that the
/// algorithm does not use or a point that it never reaches.
pub fn run(
    algorithm: &dyn algorithms::Algorithm,
    scenario: &Scenario,
    seed: u64,
) -> Result<Run, Failed> {
    must_apply(scenario, algorithm);
    scenarios::run(algorithm, scenario, seed, &Event)
}

/// Is a lock deterministic? Plays one run twice on the event engine, the second time in another
/// thread, and compares everything that happens: every task that runs, every timer, every
/// segment and all that the history tells.
///
/// A lock is not when it acts by anything but its `Client` and the answers that it gets: the
/// machine's clock or random numbers, the order of a `HashMap`, the branch that an unbiased
/// `tokio::select!` looks at first, or what a `static` kept from an earlier run. Two plays may
/// agree by chance, so verify a few seeds:
///
/// ```
/// use fencepost::algorithms::tokened::Tokened;
///
/// let scenario = fencepost::scenario("gc-pause").unwrap();
/// for seed in 0..3 {
///     let verified = fencepost::verify(&Tokened, &scenario, seed);
///     assert!(verified.unwrap_or_else(|why| panic!("seed {seed}: {why}")).events() > 0);
/// }
/// ```
///
/// [`scenarios::verify`](scenarios::verify()) takes another engine.
///
/// # Errors
///
/// When the plays differ, with the first event in which they do; and when the run fails.
///
/// # Panics
///
/// When the scenario does not apply to the algorithm, as [`run`] does.
pub fn verify(
    algorithm: &dyn algorithms::Algorithm,
    scenario: &Scenario,
    seed: u64,
) -> Result<Verified, Unverified> {
    must_apply(scenario, algorithm);
    scenarios::verify(algorithm, scenario, seed, &Event)
}

fn must_apply(scenario: &Scenario, algorithm: &dyn algorithms::Algorithm) {
    if let Some(reason) = scenario.not_applicable(&algorithm.declares(), &Event) {
        panic!(
            "{} does not apply to {}: {reason}",
            scenario.name,
            algorithm.name()
        );
    }
}
