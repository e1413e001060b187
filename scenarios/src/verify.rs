//! Whether a run comes out the same when it is played again.
//!
//! A run is a function of algorithm, scenario, seed and engine. A lock that also acts by
//! something else breaks that, and with it every replay: a branch that `tokio::select!` draws,
//! the order of a `HashMap`, the machine's clock. So the run is played twice, the second time in
//! a thread of its own, and everything that happened is compared, not what came of it alone.
//!
//! Two plays can agree by chance: verify several seeds. What is the same on this machine and
//! not on another, as its number of cores or its environment, no second play here can show.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use algorithms::Algorithm;
use rayon::prelude::*;
use sim::Fingerprint;
use sim::engine::{Engine, Failed};
use sim::trace::{Trace, Traced, traced};

use crate::matrix::{Matrix, Seeds, play_watched};
use crate::run::{Run, run};
use crate::scenario::Scenario;

/// A run that came out the same twice.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The run.
    pub run: Run,
}

impl Verified {
    /// How many events were the same.
    pub fn events(&self) -> u64 {
        self.run.history.fingerprint.events
    }

    /// What they were folded into.
    pub fn fingerprint(&self) -> Fingerprint {
        self.run.history.fingerprint
    }
}

/// Why a run is not verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// It came out differently.
    #[error(transparent)]
    Differs(#[from] Box<FirstDifference>),
    /// It failed, the same way twice. That says nothing about the lock.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// The first event in which two plays of a run differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstDifference {
    /// Its place, counted from one.
    pub number: u64,
    /// What happened in one of them; nothing if it had ended.
    pub one: Option<Traced>,
    /// What happened in the other.
    pub other: Option<Traced>,
}

impl FirstDifference {
    /// Compares what happened in two plays of a run.
    pub fn of(one: &[Traced], other: &[Traced]) -> Option<Self> {
        let pairs = one.iter().zip(other);
        let same = pairs.take_while(|(one, other)| one == other).count();
        if same == one.len() && same == other.len() {
            return None;
        }
        Some(Self {
            number: same as u64 + 1,
            one: one.get(same).cloned(),
            other: other.get(same).cloned(),
        })
    }

    /// In three lines, which name the two plays.
    pub fn text(&self, one: &str, other: &str) -> String {
        let width = one.len().max(other.len()) + 1;
        let line = |name: &str, traced: &Option<Traced>| {
            let told = traced.as_ref().map(ToString::to_string);
            let told = told.unwrap_or_else(|| "the run ended here".into());
            format!("\n  {:width$}  {told}", format!("{name}:"))
        };
        let (first, second) = (line(one, &self.one), line(other, &self.other));
        format!("event {} differs{first}{second}", self.number)
    }
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text("one run", "the other"))
    }
}

impl std::error::Error for FirstDifference {}

/// A run, and everything that happened in it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What came of it.
    pub outcome: Result<Run, Failed>,
    /// What happened, with the verdict or the failure as its last event.
    pub trace: Trace,
}

/// Plays and judges one run, and records everything that happens in it. The scenario must apply
/// to the algorithm; see [`Scenario::not_applicable`].
pub fn record(
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    seed: u64,
    engine: &dyn Engine,
) -> Recorded {
    let (outcome, mut trace) = traced(|| run(algorithm, scenario, seed, engine));
    let (kind, text) = match &outcome {
        Ok(run) => (
            "judged",
            serde_json::to_string(&run.verdict).expect("a verdict has string keys alone"),
        ),
        Err(Failed { panic }) => ("failed", panic.clone()),
    };
    trace.push(Traced {
        at: trace.last().map_or(0, |last| last.at),
        node: None,
        kind: kind.into(),
        text,
    });
    Recorded { outcome, trace }
}

/// As [`record`], in a thread that has played nothing yet.
pub fn record_elsewhere(
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    seed: u64,
    engine: &dyn Engine,
) -> Recorded {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| record(algorithm, scenario, seed, engine));
        let ended = thread.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Plays a run here and in a thread of its own, and compares everything that happens. The
/// scenario must apply to the algorithm; see [`Scenario::not_applicable`].
///
/// # Errors
///
/// When the plays differ, with the first event in which they do; and when the run fails.
pub fn verify(
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    seed: u64,
    engine: &dyn Engine,
) -> Result<Verified, Unverified> {
    let here = record(algorithm, scenario, seed, engine);
    let there = record_elsewhere(algorithm, scenario, seed, engine);
    if let Some(first) = FirstDifference::of(&here.trace, &there.trace) {
        return Err(Box::new(first).into());
    }
    Ok(Verified { run: here.outcome? })
}

/// What came of playing all runs of a matrix twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// How many runs came out the same.
    pub verified: u64,
    /// Those that did not, scenario by scenario in the order of their names.
    pub differing: Vec<Differing>,
}

/// A run that came out differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// The algorithm's name.
    pub algorithm: String,
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// The first event that differs. Nothing if it was not looked for, because there are many
    /// such runs, or not found: what differs only now and then may hide from another look.
    pub first: Option<FirstDifference>,
}

/// For how many runs the first event that differs is looked for,
const LOOKED_AT: usize = 10;
/// and how often.
const LOOKS: usize = 8;

/// Plays a matrix as [`matrix::play`](crate::matrix::play) does, and then every run again, in
/// other threads and in another order.
pub fn play(
    algorithms: &[&dyn Algorithm],
    scenarios: &[Scenario],
    seeds: Seeds,
    engine: &dyn Engine,
    progress: &(dyn Fn() + Sync),
    stop: &AtomicBool,
) -> (Matrix, Verification) {
    let seen = Mutex::new(Vec::new());
    let watch = |algorithm, scenario, seed, outcome: &_| {
        let seen_run = (algorithm, scenario, seed, print(outcome));
        seen.lock().expect("nobody panics here").push(seen_run);
        progress();
    };
    let matrix = play_watched(algorithms, scenarios, seeds, engine, &watch, stop);
    let mut seen: Vec<(&dyn Algorithm, &Scenario, u64, Print)> =
        seen.into_inner().expect("nobody panics here");
    // The other way round: what one run leaves behind for the next is found, too.
    seen.par_sort_unstable_by_key(|(algorithm, scenario, seed, _)| {
        std::cmp::Reverse((scenario.name.as_str(), algorithm.name(), *seed))
    });
    let other_threads = rayon::ThreadPoolBuilder::new()
        .num_threads(rayon::current_num_threads())
        .build()
        .expect("as many threads as there are already");
    let verification = other_threads.install(|| {
        let again = seen
            .par_iter()
            .filter_map(|(algorithm, scenario, seed, first)| {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                let same = print(&run(*algorithm, scenario, *seed, engine)) == *first;
                progress();
                Some((!same).then_some((*algorithm, *scenario, *seed)))
            });
        let again: Vec<_> = again.collect();
        let verified = again.iter().filter(|differing| differing.is_none()).count() as u64;
        let differing = again.into_iter().flatten().rev().enumerate();
        let differing = differing.map(|(place, (algorithm, scenario, seed))| {
            let look = || {
                let here = record(algorithm, scenario, seed, engine);
                let there = record_elsewhere(algorithm, scenario, seed, engine);
                FirstDifference::of(&here.trace, &there.trace)
            };
            let looks = if place < LOOKED_AT { LOOKS } else { 0 };
            Differing {
                algorithm: algorithm.name().to_owned(),
                scenario: scenario.name.clone(),
                seed,
                first: (0..looks).find_map(|_| look()),
            }
        });
        Verification {
            verified,
            differing: differing.collect(),
        }
    });
    (matrix, verification)
}

/// All that is kept of a run until it is played again.
type Print = Result<Fingerprint, String>;

fn print(outcome: &Result<Run, Failed>) -> Print {
    match outcome {
        Ok(run) => Ok(run.history.fingerprint),
        Err(Failed { panic }) => Err(panic.clone()),
    }
}

#[cfg(test)]
mod tests {
    use sim::NodeId;

    use super::*;

    fn event(at: u64, text: &str) -> Traced {
        Traced {
            at,
            node: Some(NodeId::Client(1)),
            kind: "sent".into(),
            text: text.into(),
        }
    }

    #[test]
    fn the_first_of_several_differences_is_named_with_what_both_had() {
        let one = [event(1, "a"), event(2, "b"), event(3, "c")];
        let other = [event(1, "a"), event(2, "B"), event(3, "C")];
        let first = FirstDifference::of(&one, &other).unwrap();
        assert_eq!(
            first.to_string(),
            "event 2 differs\n  \
               one run:    0.002 s, client-1: sent b\n  \
               the other:  0.002 s, client-1: sent B"
        );
    }

    #[test]
    fn a_run_that_ended_sooner_differs_where_it_ended() {
        let one = [event(1, "a"), event(2, "b")];
        let first = FirstDifference::of(&one, &one[..1]).unwrap();
        assert_eq!(
            first.text("here", "in another process"),
            "event 2 differs\n  \
               here:                0.002 s, client-1: sent b\n  \
               in another process:  the run ended here"
        );
        assert_eq!(FirstDifference::of(&one, &one), None);
    }
}
