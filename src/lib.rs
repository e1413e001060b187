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
    if let Some(reason) = scenario.not_applicable(&algorithm.declares(), &Event) {
        panic!(
            "{} does not apply to {}: {reason}",
            scenario.name,
            algorithm.name()
        );
    }
    scenarios::run(algorithm, scenario, seed, &Event)
}
