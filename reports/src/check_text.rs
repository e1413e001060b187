//! What `check` says: every difference between what was seen and what was expected, with the
//! reason that the scenario gives for its expectation, and the command that shows it.

use std::fmt::Write as _;

use algorithms::Algorithm;
use scenarios::Scenario;
use scenarios::matrix::{Cell, Checked, Difference, FEW_RUNS, Matrix, check};
use scenarios::scenario::Expectation;

use crate::style::{Colour, Tone};
use crate::table::not_applicable;
use crate::words::{how_often, replay};

/// A cell of a matrix that was compared with what its scenario expects.
#[derive(Clone)]
pub struct CheckedCell<'m> {
    /// The cell.
    pub cell: &'m Cell,
    /// Its scenario.
    pub scenario: &'m Scenario,
    /// What the user types to name the scenario: its name, or the path of its file.
    pub argument: &'m str,
    /// The matrix that it is part of: which seeds, which engine.
    pub matrix: &'m Matrix,
    /// What is expected of the algorithm, if anything.
    pub expectation: Option<&'m Expectation>,
    /// How it compares.
    pub checked: Checked,
}

impl<'m> CheckedCell<'m> {
    /// Compares every cell of a matrix with what its scenario expects of its algorithm. A scenario
    /// comes with what the user types to name it.
    ///
    /// # Panics
    ///
    /// If the matrix was played with other algorithms or scenarios.
    pub fn all(
        matrix: &'m Matrix,
        algorithms: &[&dyn Algorithm],
        scenarios: &[(&'m Scenario, &'m str)],
    ) -> Vec<Self> {
        let compare = |cell: &'m Cell| {
            let &(scenario, argument) = scenarios
                .iter()
                .find(|(scenario, _)| scenario.name == cell.scenario)
                .expect("every cell has its scenario");
            let algorithm = algorithms
                .iter()
                .find(|algorithm| algorithm.name() == cell.algorithm)
                .expect("every cell has its algorithm");
            let expectation = scenario.expectation(&cell.algorithm, &algorithm.declares());
            Self::of(cell, scenario, argument, matrix, expectation)
        };
        matrix.cells.iter().map(compare).collect()
    }

    /// Compares a cell with what is expected of its algorithm.
    pub fn of(
        cell: &'m Cell,
        scenario: &'m Scenario,
        argument: &'m str,
        matrix: &'m Matrix,
        expectation: Option<&'m Expectation>,
    ) -> Self {
        Self {
            cell,
            scenario,
            argument,
            matrix,
            expectation,
            checked: check(cell, expectation),
        }
    }

    /// Its differences; none if it is as expected or not checked.
    pub fn differences(&self) -> &[Difference] {
        match &self.checked {
            Checked::Differs(differences) => differences,
            _ => &[],
        }
    }

    /// A difference in words: what was seen, what was expected and why, and how to see it.
    pub fn explain(&self, difference: &Difference) -> String {
        let mut text = format!("{} under {}: ", self.cell.algorithm, self.cell.scenario);
        match difference {
            Difference::Unexpected {
                invariant, rate, ..
            } => {
                let _ = write!(
                    text,
                    "{invariant} was seen in {}, and is not expected.",
                    how_often(*rate)
                );
            }
            Difference::Missing { invariant, rate } => {
                let _ = write!(
                    text,
                    "{invariant} is expected in at least one run in ten, and was seen in {}.",
                    how_often(*rate)
                );
            }
            Difference::Failed { runs, panic, .. } => {
                let _ = write!(
                    text,
                    "the testbed itself failed in {runs} {}: {panic}",
                    if *runs == 1 { "run" } else { "runs" }
                );
            }
            Difference::AllVacuous => {
                let mark = self.scenario.reaches;
                let what = mark.map_or("", |mark| mark.summary());
                let name = mark.map_or("", |mark| mark.name());
                let _ = write!(
                    text,
                    "no run counts: none of {} reached {name} ({what}).",
                    self.cell.vacuous
                );
            }
        }
        if let Some(expectation) = self.expectation
            && !matches!(difference, Difference::Failed { .. })
        {
            let _ = write!(
                text,
                "\n  The scenario says of {}: {}",
                expectation.of,
                expectation.why.trim()
            );
        }
        let which = match difference {
            Difference::Unexpected { .. } | Difference::Failed { .. } => "First",
            Difference::Missing { .. } | Difference::AllVacuous => "For example",
        };
        let _ = write!(text, "\n  {which}: {}", self.replay(difference));
        text
    }

    fn replay(&self, difference: &Difference) -> String {
        let seed = match difference {
            Difference::Unexpected { seed, .. } | Difference::Failed { seed, .. } => *seed,
            Difference::Missing { invariant, .. } => {
                let violation = self.cell.violation(invariant);
                let seen = violation.and_then(|violation| violation.first_seed);
                seen.unwrap_or(self.matrix.seeds.from)
            }
            // Any seed shows it.
            Difference::AllVacuous => self.matrix.seeds.from,
        };
        replay(
            &self.cell.algorithm,
            self.argument,
            seed,
            self.matrix.engine,
        )
    }
}

/// The text of all cells: the differences, what was not checked, and a closing line.
pub fn check_text(cells: &[CheckedCell<'_>], colour: Colour) -> String {
    let mut text = String::new();
    let mut differing = 0;
    for cell in cells {
        if !cell.differences().is_empty() {
            differing += 1;
        }
        for difference in cell.differences() {
            let explained = cell.explain(difference);
            let (first, rest) = explained.split_once('\n').unwrap_or((&explained, ""));
            let _ = writeln!(text, "{}\n{rest}\n", colour.paint(Tone::Bad, first));
        }
    }

    let of = |wanted: fn(&Checked) -> bool| -> Vec<&CheckedCell<'_>> {
        cells.iter().filter(|cell| wanted(&cell.checked)).collect()
    };
    let unexpected = of(|checked| *checked == Checked::NotExpected);
    for (scenario, algorithms) in by_scenario(&unexpected) {
        let _ = writeln!(
            text,
            "not checked, nothing is expected under {scenario}: {algorithms}"
        );
    }
    let lenient = of(|checked| *checked == Checked::AsExpected { lenient: true });
    for (scenario, algorithms) in by_scenario(&lenient) {
        let _ = writeln!(
            text,
            "fewer than {FEW_RUNS} runs counted under {scenario}, so what must happen was only \
             allowed to: {algorithms}"
        );
    }

    for (reason, which) in not_applicable(cells.iter().map(|checked| checked.cell)) {
        let _ = writeln!(text, "does not apply, because {reason}: {which}");
    }

    let as_expected = of(|checked| matches!(checked, Checked::AsExpected { .. })).len();
    let not_applicable = of(|checked| *checked == Checked::NotApplicable).len();
    let tone = if differing == 0 {
        Tone::Good
    } else {
        Tone::Bad
    };
    let summary = format!(
        "{as_expected} of {} cells are as expected, {differing} differ, {} not checked, \
         {not_applicable} do not apply",
        cells.len(),
        unexpected.len(),
    );
    let _ = writeln!(text, "{}", colour.paint(tone, &summary));
    text
}

fn by_scenario(cells: &[&CheckedCell<'_>]) -> Vec<(String, String)> {
    let mut grouped: Vec<(String, String)> = Vec::new();
    for cell in cells {
        match grouped.last_mut() {
            Some((scenario, algorithms)) if *scenario == cell.cell.scenario => {
                *algorithms += &format!(", {}", cell.cell.algorithm);
            }
            _ => grouped.push((cell.cell.scenario.clone(), cell.cell.algorithm.clone())),
        }
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_difference_says_what_was_seen_why_it_is_wrong_and_how_to_see_it() {
        let (matrix, scenario) = (sample::matrix(), sample::scenario());
        let expectation = Expectation {
            of: "plain".into(),
            must: vec!["double-write"],
            may: vec![],
            why: "nobody checks an owner".into(),
        };
        let naive = CheckedCell::of(
            &matrix.cells[1],
            &scenario,
            "gc-pause",
            &matrix,
            Some(&expectation),
        );
        let [stale] = naive.differences() else {
            panic!("{:?}", naive.checked);
        };
        assert_eq!(
            naive.explain(stale),
            "naive under gc-pause: stale-write was seen in 3 of 197 runs (1.5 %), and is not \
             expected.\n  The scenario says of plain: nobody checks an owner\n  \
             First: fencepost run naive gc-pause --seed 12"
        );
        let text = check_text(&[naive], Colour::Never);
        assert!(
            text.ends_with(
                "0 of 1 cells are as expected, 1 differ, 0 not checked, 0 do not apply\n"
            )
        );
    }

    #[test]
    fn what_must_happen_and_did_not_is_told() {
        let (matrix, scenario) = (sample::matrix(), sample::scenario());
        let expectation = Expectation {
            of: "naive".into(),
            must: vec!["stuck"],
            may: vec!["double-write", "stale-write"],
            why: "because".into(),
        };
        let cell = CheckedCell::of(
            &matrix.cells[1],
            &scenario,
            "gc-pause",
            &matrix,
            Some(&expectation),
        );
        let text = cell.explain(&cell.differences()[0]);
        assert!(
            text.contains("stuck is expected in at least one run in ten, and was seen in 0 of 197"),
            "{text}"
        );
    }

    #[test]
    fn an_algorithm_of_which_nothing_is_expected_is_named() {
        let (matrix, scenario) = (sample::matrix(), sample::scenario());
        let cell = CheckedCell::of(&matrix.cells[1], &scenario, "gc-pause", &matrix, None);
        let text = check_text(&[cell], Colour::Never);
        assert!(
            text.contains("not checked, nothing is expected under gc-pause: naive"),
            "{text}"
        );
    }
}
