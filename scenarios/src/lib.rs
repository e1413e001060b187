//! Scenarios: what happens, what is expected, and whether it came true.

pub mod builtin;
pub mod cost;
pub mod facts;
pub mod instance;
pub mod invariants;
pub mod landmark;
pub mod load;
pub mod matrix;
pub mod run;
pub mod scenario;
#[cfg(test)]
mod told;
pub mod verify;
pub mod waiting;
pub mod work;

pub use load::{BadScenario, load};
pub use run::{Run, Verdict, run};
pub use scenario::Scenario;
pub use verify::{FirstDifference, Unverified, Verified, verify};
