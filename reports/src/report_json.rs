//! `report.json`: a whole matrix for programs, schema `fencepost.report/1`.
//!
//! The order is that of the matrix, figures are rounded to four places, and nothing tells
//! when or where it was made but `environment`, which comparisons leave out. So the same
//! inputs give the same bytes.

use std::collections::BTreeMap;

use scenarios::Scenario;
use scenarios::invariants::StuckFor;
use scenarios::matrix::{Cell, Matrix, capped};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use sim::Millis;

/// The report of a matrix, ending in a newline. `scenarios` are those that were played; they
/// tell which of them capped the seeds.
pub fn report_json(matrix: &Matrix, scenarios: &[Scenario], environment: Option<Value>) -> String {
    let cells = matrix.cells.iter().map(|cell| {
        let scenario = scenarios.iter().find(|s| s.name == cell.scenario);
        let cap = scenario
            .map(|scenario| capped(scenario, matrix.seeds).count)
            .filter(|count| *count < matrix.seeds.count);
        CellReport::of(cell, cap)
    });
    let report = Report {
        schema: "fencepost.report/1",
        engine: matrix.engine,
        seeds: SeedsReport {
            from: matrix.seeds.from,
            count: matrix.seeds.count,
        },
        stopped: matrix.stopped.then_some(true),
        cells: cells.collect(),
        environment,
    };
    let mut text = serde_json::to_string_pretty(&report).expect("a report has string keys alone");
    text.push('\n');
    text
}

#[derive(serde::Serialize)]
struct Report<'m> {
    schema: &'static str,
    engine: &'m str,
    seeds: SeedsReport,
    /// Whether it was interrupted; the cells then hold what was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<bool>,
    cells: Vec<CellReport<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Value>,
}

#[derive(serde::Serialize)]
struct SeedsReport {
    from: u64,
    count: u64,
}

#[derive(serde::Serialize)]
struct CellReport<'m> {
    algorithm: &'m str,
    scenario: &'m str,
    #[serde(flatten)]
    played: Played<'m>,
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum Played<'m> {
    No {
        not_applicable: &'m str,
    },
    Yes {
        runs: u64,
        vacuous: u64,
        failed: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        first_failed_seed: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<&'m str>,
        stuck_not_judged: u64,
        /// By the number of the fault, counted from one.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        never_struck: BTreeMap<usize, u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        capped: Option<u64>,
        violations: Violations<'m>,
        cost: CostReport,
    },
}

impl<'m> CellReport<'m> {
    fn of(cell: &'m Cell, capped: Option<u64>) -> Self {
        let played = match &cell.not_applicable {
            Some(reason) => Played::No {
                not_applicable: reason,
            },
            None => Played::Yes {
                runs: cell.runs,
                vacuous: cell.vacuous,
                failed: cell.failed,
                first_failed_seed: cell.first_failure.as_ref().map(|(seed, _)| *seed),
                failure: cell.first_failure.as_ref().map(|(_, panic)| panic.as_str()),
                stuck_not_judged: cell.stuck_not_judged,
                never_struck: cell
                    .never_struck
                    .iter()
                    .map(|(place, runs)| (place + 1, *runs))
                    .collect(),
                capped,
                violations: Violations(cell),
                cost: CostReport::of(cell),
            },
        };
        Self {
            algorithm: &cell.algorithm,
            scenario: &cell.scenario,
            played,
        }
    }
}

/// A map in the order of the invariants, worst first.
struct Violations<'m>(&'m Cell);

impl Serialize for Violations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let violations = &self.0.violations;
        let mut map = serializer.serialize_map(Some(violations.len()))?;
        for violation in violations {
            let (low, high) = violation.rate.interval();
            map.serialize_entry(
                violation.invariant,
                &ViolationReport {
                    runs: violation.rate.hits,
                    rate: rounded(violation.rate.share()),
                    low: rounded(low),
                    high: rounded(high),
                    first_seed: violation.first_seed,
                    longest: self.0.stuck_for.filter(|_| violation.invariant == "stuck"),
                },
            )?;
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct ViolationReport {
    runs: u64,
    rate: f64,
    low: f64,
    high: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seed: Option<u64>,
    /// Of `stuck`: for how many milliseconds at the longest, and whether only the run's end ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<StuckFor>,
}

#[derive(serde::Serialize)]
struct CostReport {
    commands_per_section: f64,
    peak_commands_per_second: u64,
    sections: u64,
    acquire_wait_ms: Waits,
    /// The most, of all runs.
    overtaken: u64,
    /// The longest, of all runs.
    idle_ms: Millis,
    orphaned_ms: Millis,
}

#[derive(serde::Serialize)]
struct Waits {
    p50: Option<Millis>,
    p99: Option<Millis>,
}

impl CostReport {
    fn of(cell: &Cell) -> Self {
        Self {
            commands_per_section: rounded(cell.commands_per_section()),
            peak_commands_per_second: cell.cost.peak_commands_per_second,
            sections: cell.cost.sections,
            acquire_wait_ms: Waits {
                p50: cell.wait(0.5),
                p99: cell.wait(0.99),
            },
            overtaken: cell.cost.overtaken,
            idle_ms: cell.cost.idle,
            orphaned_ms: cell.cost.orphaned,
        }
    }
}

/// Four places.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_judged_invariant_is_listed_with_its_bounds() {
        let matrix = sample::matrix();
        let text = report_json(&matrix, &[sample::scenario()], None);
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["schema"], "fencepost.report/1");
        let naive = &report["cells"][1];
        assert_eq!(naive["algorithm"], "naive");
        assert_eq!(naive["runs"], 197);
        let double = &naive["violations"]["double-write"];
        assert_eq!(double["runs"], 71);
        assert_eq!(double["rate"], 0.3604);
        assert_eq!(double["first_seed"], 4);
        let stuck = &naive["violations"]["stuck"];
        assert_eq!(stuck["runs"], 0);
        assert_eq!(stuck["high"], 0.0191);
        assert!(stuck.get("first_seed").is_none());
        assert!(stuck.get("longest").is_none());
        let cost = &naive["cost"];
        assert_eq!(cost["overtaken"], 3);
        assert_eq!(cost["idle_ms"], 600);
        assert_eq!(cost["orphaned_ms"], 8_001);
        assert!(report.get("environment").is_none());
    }

    #[test]
    fn a_cell_that_does_not_apply_carries_its_reason_alone() {
        let text = report_json(&sample::matrix(), &[sample::scenario()], None);
        let report: Value = serde_json::from_str(&text).unwrap();
        let local = report["cells"][0].as_object().unwrap();
        assert_eq!(local["not_applicable"], "it lives on no server");
        assert_eq!(local.len(), 3);
    }

    #[test]
    fn a_capped_scenario_and_a_failed_run_are_told() {
        let capped = Scenario {
            seeds: Some(20),
            ..sample::scenario()
        };
        let text = report_json(&sample::matrix(), &[capped], None);
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["cells"][1]["capped"], 20);
        let failed = report["cells"].as_array().unwrap().last().unwrap();
        assert_eq!(failed["failed"], 2);
        assert_eq!(failed["first_failed_seed"], 17);
    }

    #[test]
    fn the_environment_is_the_last_thing_in_the_file() {
        let with = report_json(
            &sample::matrix(),
            &[],
            Some(serde_json::json!({"cores": 2})),
        );
        let without = report_json(&sample::matrix(), &[], None);
        assert!(with.starts_with(without.trim_end_matches("\n}\n")));
        assert_eq!(without, report_json(&sample::matrix(), &[], None));
    }

    #[test]
    fn stuck_says_for_how_long_at_the_longest() {
        let mut matrix = sample::matrix();
        let (to_the_end, lasted) = (true, 114_977);
        matrix.cells[1].stuck_for = Some(StuckFor { to_the_end, lasted });
        let text = report_json(&matrix, &[sample::scenario()], None);
        let report: Value = serde_json::from_str(&text).unwrap();
        let violations = &report["cells"][1]["violations"];
        assert_eq!(violations["stuck"]["longest"]["lasted"], 114_977);
        assert_eq!(violations["stuck"]["longest"]["to_the_end"], true);
        assert!(violations["double-write"].get("longest").is_none());
    }
}
