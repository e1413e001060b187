//! Algorithms by scenarios by seeds: cells, their rates, and what was expected of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use algorithms::Algorithm;
use rayon::prelude::*;
use sim::Millis;
use sim::engine::{Engine, Failed};

use crate::cost::Cost;
use crate::invariants::{StuckFor, rank};
use crate::run::{Run, Verdict, judged_by, run};
use crate::scenario::{Expectation, Scenario};

/// A rate with its 95 % Wilson interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// How many runs.
    pub hits: u64,
    /// Of how many.
    pub of: u64,
}

impl Rate {
    /// The share of hits; zero of nothing is zero.
    pub fn share(self) -> f64 {
        if self.of == 0 {
            0.0
        } else {
            self.hits as f64 / self.of as f64
        }
    }

    /// The lower and the upper bound.
    pub fn interval(self) -> (f64, f64) {
        if self.of == 0 {
            return (0.0, 1.0);
        }
        const Z: f64 = 1.959_963_984_540_054;
        let (n, p) = (self.of as f64, self.share());
        let scale = 1.0 + Z * Z / n;
        let centre = p + Z * Z / (2.0 * n);
        let spread = Z * libm::sqrt(p * (1.0 - p) / n + Z * Z / (4.0 * n * n));
        // The bounds are exact where rounding would leave a dust of 1e-17.
        let low = if self.hits == 0 {
            0.0
        } else {
            (centre - spread) / scale
        };
        let high = if self.hits == self.of {
            1.0
        } else {
            (centre + spread) / scale
        };
        (low, high)
    }
}

/// One algorithm under one scenario.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The algorithm's name.
    pub algorithm: String,
    /// The scenario's name.
    pub scenario: String,
    /// Why the algorithm cannot meet the scenario; then nothing was run.
    pub not_applicable: Option<String>,
    /// How many seeds were run.
    pub seeds: u64,
    /// How many runs were judged.
    pub runs: u64,
    /// How many never reached the landmark.
    pub vacuous: u64,
    /// How many the testbed failed in, with the first such seed and what it said.
    pub failed: u64,
    /// The first failed seed and what the panic said.
    pub first_failure: Option<(u64, String)>,
    /// How many were judged without `stuck`, because too little time was left.
    pub stuck_not_judged: u64,
    /// For how long nobody got a lock, in the worst of the judged runs.
    pub stuck_for: Option<StuckFor>,
    /// In how many judged runs a fault never struck, by its place in the scenario.
    pub never_struck: BTreeMap<usize, u64>,
    /// Every invariant that was judged, worst first.
    pub violations: Vec<CellViolation>,
    /// The figures of cost, summed over the judged runs.
    pub cost: Cost,
}

/// How often a cell breached one invariant.
#[derive(Debug, Clone)]
pub struct CellViolation {
    /// The invariant.
    pub invariant: &'static str,
    /// In how many runs.
    pub rate: Rate,
    /// The first seed that breached it.
    pub first_seed: Option<u64>,
}

impl Cell {
    /// The worst invariant that was breached.
    pub fn worst(&self) -> Option<&CellViolation> {
        self.violations
            .iter()
            .find(|violation| violation.rate.hits > 0)
    }

    /// One of the judged invariants.
    pub fn violation(&self, invariant: &str) -> Option<&CellViolation> {
        self.violations
            .iter()
            .find(|violation| violation.invariant == invariant)
    }

    /// A quantile of the waits, from 0 to 1; nothing when nobody got a lease.
    pub fn wait(&self, quantile: f64) -> Option<Millis> {
        let last = self.cost.waits.values().sum::<u64>().checked_sub(1)?;
        let mut left = libm::ceil(quantile * last as f64) as u64;
        for (&wait, &sections) in &self.cost.waits {
            if left < sections {
                return Some(wait);
            }
            left -= sections;
        }
        None
    }

    /// Redis commands for each section that got its lease.
    pub fn commands_per_section(&self) -> f64 {
        if self.cost.sections == 0 {
            0.0
        } else {
            self.cost.commands as f64 / self.cost.sections as f64
        }
    }
}

/// Which seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub from: u64,
    /// How many; a scenario may cap it.
    pub count: u64,
}

/// What has been played of a matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// The engine's name.
    pub engine: &'static str,
    /// Which seeds were asked for.
    pub seeds: Seeds,
    /// The cells, scenario by scenario, in the order given.
    pub cells: Vec<Cell>,
    /// Whether it was stopped before the end; the cells then hold what was done.
    pub stopped: bool,
}

/// Plays a matrix, seeds in parallel. `progress` hears of every run that is done; once `stop`
/// is set no further run begins. The result does not depend on threads or their order.
pub fn play(
    algorithms: &[&dyn Algorithm],
    scenarios: &[Scenario],
    seeds: Seeds,
    engine: &dyn Engine,
    progress: &(dyn Fn() + Sync),
    stop: &AtomicBool,
) -> Matrix {
    let watch = |_, _, _, _: &_| progress();
    play_watched(algorithms, scenarios, seeds, engine, &watch, stop)
}

/// Looks at every run that is done, and at what it was made of.
pub(crate) type Watch<'w, 'p> =
    dyn Fn(&'p dyn Algorithm, &'p Scenario, u64, &Result<Run, Failed>) + Sync + 'w;

/// As [`play`], with every run shown to `watch`.
pub(crate) fn play_watched<'p>(
    algorithms: &[&'p dyn Algorithm],
    scenarios: &'p [Scenario],
    seeds: Seeds,
    engine: &dyn Engine,
    watch: &Watch<'_, 'p>,
    stop: &AtomicBool,
) -> Matrix {
    let cells: Vec<Cell> = scenarios
        .iter()
        .flat_map(|scenario| {
            algorithms
                .iter()
                .map(move |algorithm| (scenario, *algorithm))
        })
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(scenario, algorithm)| play_cell(algorithm, scenario, seeds, engine, watch, stop))
        .collect();
    Matrix {
        engine: engine.name(),
        seeds,
        cells,
        stopped: stop.load(Ordering::Relaxed),
    }
}

/// How many runs a matrix has.
pub fn size(
    algorithms: &[&dyn Algorithm],
    scenarios: &[Scenario],
    seeds: Seeds,
    engine: &dyn Engine,
) -> u64 {
    let runs = |scenario: &Scenario| {
        let applies = |algorithm: &&&dyn Algorithm| {
            let declaration = algorithm.declares();
            scenario.not_applicable(&declaration, engine).is_none()
        };
        algorithms.iter().filter(applies).count() as u64 * capped(scenario, seeds).count
    };
    scenarios.iter().map(runs).sum()
}

/// The seeds that a scenario is run with.
pub fn capped(scenario: &Scenario, seeds: Seeds) -> Seeds {
    Seeds {
        count: scenario
            .seeds
            .map_or(seeds.count, |cap| cap.min(seeds.count)),
        ..seeds
    }
}

fn play_cell<'p>(
    algorithm: &'p dyn Algorithm,
    scenario: &'p Scenario,
    seeds: Seeds,
    engine: &dyn Engine,
    watch: &Watch<'_, 'p>,
    stop: &AtomicBool,
) -> Cell {
    let mut cell = Cell {
        algorithm: algorithm.name().to_owned(),
        scenario: scenario.name.clone(),
        not_applicable: scenario.not_applicable(&algorithm.declares(), engine),
        seeds: 0,
        runs: 0,
        vacuous: 0,
        failed: 0,
        first_failure: None,
        stuck_not_judged: 0,
        stuck_for: None,
        never_struck: BTreeMap::new(),
        violations: Vec::new(),
        cost: Cost::default(),
    };
    if cell.not_applicable.is_some() {
        return cell;
    }
    let seeds = capped(scenario, seeds);
    let play = |tally: Tally, seed| {
        if stop.load(Ordering::Relaxed) {
            return tally;
        }
        let outcome = run(algorithm, scenario, seed, engine);
        watch(algorithm, scenario, seed, &outcome);
        tally.and(seed, outcome.map(|run| run.verdict))
    };
    let Tally {
        runs,
        vacuous,
        failed,
        first_failure,
        stuck_not_judged,
        stuck_for,
        never_struck,
        hits,
        cost,
    } = (seeds.from..seeds.from + seeds.count)
        .into_par_iter()
        .fold(Tally::default, play)
        .reduce(Tally::default, Tally::plus);
    cell.seeds = runs + vacuous + failed;
    (cell.runs, cell.vacuous, cell.failed) = (runs, vacuous, failed);
    (cell.first_failure, cell.stuck_not_judged, cell.cost) =
        (first_failure, stuck_not_judged, cost);
    (cell.never_struck, cell.stuck_for) = (never_struck, stuck_for);
    let ordered = algorithm.declares().ordered;
    let judged = judged_by(scenario, ordered).into_iter().map(|invariant| {
        let hit = hits.get(invariant.name()).copied();
        CellViolation {
            invariant: invariant.name(),
            rate: Rate {
                hits: hit.map_or(0, |(hits, _)| hits),
                of: cell.runs,
            },
            first_seed: hit.map(|(_, seed)| seed),
        }
    });
    cell.violations = judged.collect();
    cell
}

/// What is kept of some runs of a cell, whatever their number and their order.
#[derive(Default)]
struct Tally {
    runs: u64,
    vacuous: u64,
    failed: u64,
    first_failure: Option<(u64, String)>,
    stuck_not_judged: u64,
    stuck_for: Option<StuckFor>,
    never_struck: BTreeMap<usize, u64>,
    /// By invariant: in how many runs, and the first seed.
    hits: BTreeMap<&'static str, (u64, u64)>,
    cost: Cost,
}

impl Tally {
    fn and(mut self, seed: u64, verdict: Result<Verdict, Failed>) -> Self {
        match verdict {
            Err(Failed { panic }) => {
                self.failed += 1;
                self.first_failure = earlier(self.first_failure, Some((seed, panic)));
            }
            Ok(verdict) if verdict.vacuous => self.vacuous += 1,
            Ok(verdict) => {
                self.runs += 1;
                self.stuck_not_judged += u64::from(verdict.stuck_not_judged);
                self.stuck_for = self.stuck_for.max(verdict.stuck_for);
                for place in &verdict.never_struck {
                    *self.never_struck.entry(*place).or_default() += 1;
                }
                for invariant in verdict.breached() {
                    self.hit(invariant, 1, seed);
                }
                self.cost.add(&verdict.cost);
            }
        }
        self
    }

    fn plus(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.vacuous += other.vacuous;
        self.failed += other.failed;
        self.first_failure = earlier(self.first_failure, other.first_failure);
        self.stuck_not_judged += other.stuck_not_judged;
        self.stuck_for = self.stuck_for.max(other.stuck_for);
        for (place, runs) in other.never_struck {
            *self.never_struck.entry(place).or_default() += runs;
        }
        for (invariant, (runs, seed)) in other.hits {
            self.hit(invariant, runs, seed);
        }
        self.cost.add(&other.cost);
        self
    }

    fn hit(&mut self, invariant: &'static str, runs: u64, seed: u64) {
        let (hits, first) = self.hits.entry(invariant).or_insert((0, seed));
        *hits += runs;
        *first = seed.min(*first);
    }
}

fn earlier(one: Option<(u64, String)>, other: Option<(u64, String)>) -> Option<(u64, String)> {
    one.into_iter().chain(other).min()
}

/// Below so many judged runs a `must` is treated as a `may`.
pub const FEW_RUNS: u64 = 50;

/// How a cell compares with what was expected of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    /// As expected. `lenient` when too few runs were judged to insist on what must happen.
    AsExpected {
        /// Whether `must` was treated as `may`.
        lenient: bool,
    },
    /// Nothing is expected of this algorithm here.
    NotExpected,
    /// The algorithm cannot meet the scenario.
    NotApplicable,
    /// Something differs.
    Differs(Vec<Difference>),
}

/// One way in which a cell differs from what was expected.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A violation that must never be seen was.
    Unexpected {
        /// The invariant.
        invariant: &'static str,
        /// How often.
        rate: Rate,
        /// The first seed.
        seed: u64,
    },
    /// A violation that at least one run in ten must show did not.
    Missing {
        /// The invariant.
        invariant: &'static str,
        /// How often it was seen.
        rate: Rate,
    },
    /// The testbed failed.
    Failed {
        /// How many runs.
        runs: u64,
        /// The first seed.
        seed: u64,
        /// What the panic said.
        panic: String,
    },
    /// No run reached the landmark.
    AllVacuous,
}

/// Compares a cell with what its scenario expects.
pub fn check(cell: &Cell, expectation: Option<&Expectation>) -> Checked {
    if cell.not_applicable.is_some() {
        return Checked::NotApplicable;
    }
    let mut differences = Vec::new();
    if let Some((seed, panic)) = &cell.first_failure {
        let (seed, panic) = (*seed, panic.clone());
        differences.push(Difference::Failed {
            runs: cell.failed,
            seed,
            panic,
        });
    }
    let Some(expectation) = expectation else {
        return if differences.is_empty() {
            Checked::NotExpected
        } else {
            Checked::Differs(differences)
        };
    };
    if cell.runs == 0 && cell.vacuous > 0 {
        differences.push(Difference::AllVacuous);
    }
    let lenient = cell.runs < FEW_RUNS;
    for violation in &cell.violations {
        let (invariant, rate) = (violation.invariant, violation.rate);
        let must = expectation.must.contains(&invariant);
        if must && !lenient && rate.share() < 0.1 {
            differences.push(Difference::Missing { invariant, rate });
        }
        if let Some(seed) = violation.first_seed
            && !must
            && !expectation.may.contains(&invariant)
        {
            differences.push(Difference::Unexpected {
                invariant,
                rate,
                seed,
            });
        }
    }
    differences.sort_by_key(|difference| match difference {
        Difference::Unexpected { invariant, .. } | Difference::Missing { invariant, .. } => {
            rank(invariant)
        }
        Difference::Failed { .. } | Difference::AllVacuous => 0,
    });
    if differences.is_empty() {
        Checked::AsExpected { lenient }
    } else {
        Checked::Differs(differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        // Worked by hand with z = 1.96: 71 of 197.
        let (low, high) = Rate { hits: 71, of: 197 }.interval();
        assert!(
            (low - 0.2966).abs() < 5e-4 && (high - 0.4295).abs() < 5e-4,
            "{low} {high}"
        );
        let (low, high) = Rate { hits: 0, of: 200 }.interval();
        assert!(low == 0.0 && (high - 0.0188).abs() < 1e-4, "{low} {high}");
        assert_eq!(Rate { hits: 0, of: 0 }.interval(), (0.0, 1.0));
    }

    fn verdict(vacuous: bool, invariant: Option<&'static str>, wait: Millis) -> Verdict {
        let violation = |invariant| crate::invariants::Violation {
            invariant,
            at: 0,
            event: 0,
            why: String::new(),
        };
        Verdict {
            vacuous,
            stuck_not_judged: false,
            stuck_for: None,
            never_struck: vec![1],
            violations: invariant.map(violation).into_iter().collect(),
            cost: Cost {
                sections: 1,
                waits: [(wait, 1)].into(),
                ..Cost::default()
            },
        }
    }

    #[test]
    fn a_tally_does_not_depend_on_the_order_or_the_grouping_of_its_runs() {
        let runs = || {
            vec![
                (7, Ok(verdict(false, Some("stuck"), 12))),
                (3, Ok(verdict(false, Some("stuck"), 30_110))),
                (4, Ok(verdict(true, Some("overlap"), 5))),
                (9, Err(Failed { panic: "b".into() })),
                (2, Err(Failed { panic: "a".into() })),
                (1, Ok(verdict(false, None, 1))),
            ]
        };
        let of = |runs: Vec<(u64, _)>| {
            let add = |tally: Tally, (seed, verdict)| tally.and(seed, verdict);
            runs.into_iter().fold(Tally::default(), add)
        };
        let mut late = runs();
        let early = late.split_off(2);
        for tally in [of(runs()), of(early).plus(of(late))] {
            assert_eq!((tally.runs, tally.vacuous, tally.failed), (3, 1, 2));
            assert_eq!(tally.first_failure, Some((2, "a".into())));
            assert_eq!(tally.hits, [("stuck", (2, 3))].into());
            assert_eq!(tally.never_struck, [(1, 3)].into());
            assert_eq!(tally.cost.waits, [(1, 1), (12, 1), (30_110, 1)].into());
        }
    }
}
