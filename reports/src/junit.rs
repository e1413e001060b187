//! What `check` says, for CI: JUnit XML with a suite per scenario and a case per algorithm.
//!
//! No times are given, so the same results give the same bytes.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use scenarios::matrix::{Checked, Difference, FEW_RUNS};

use crate::check_text::CheckedCell;

/// The XML of all cells, which come scenario by scenario.
pub fn junit(cells: &[CheckedCell<'_>]) -> String {
    let mut report = Report::new("fencepost check");
    let mut suites: Vec<TestSuite> = Vec::new();
    for cell in cells {
        let name = cell.cell.scenario.as_str();
        let known = suites.iter().position(|suite| suite.name.as_str() == name);
        let place = known.unwrap_or_else(|| {
            suites.push(TestSuite::new(name));
            suites.len() - 1
        });
        suites[place].add_test_case(case(cell));
    }
    report.add_test_suites(suites);
    let mut text = report
        .to_string()
        .expect("a report can be written to memory");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn case(cell: &CheckedCell<'_>) -> TestCase {
    let mut output = None;
    let status = match &cell.checked {
        Checked::AsExpected { lenient } => {
            if *lenient {
                output = Some(format!(
                    "fewer than {FEW_RUNS} runs counted: what must happen was only allowed to"
                ));
            }
            TestCaseStatus::success()
        }
        Checked::NotExpected => {
            skipped("not checked: the scenario expects nothing of this algorithm")
        }
        Checked::NotApplicable => {
            let why = cell.cell.not_applicable.as_deref().unwrap_or_default();
            skipped(&format!("does not apply: {why}"))
        }
        Checked::Differs(differences) => {
            let failed = |d: &Difference| matches!(d, Difference::Failed { .. });
            let kind = if differences.iter().any(failed) {
                NonSuccessKind::Error
            } else {
                NonSuccessKind::Failure
            };
            let mut status = TestCaseStatus::non_success(kind);
            let explained: Vec<String> = differences.iter().map(|d| cell.explain(d)).collect();
            let message = explained[0].lines().next().unwrap_or_default().to_owned();
            status
                .set_message(message)
                .set_type("difference")
                .set_description(explained.join("\n\n"));
            status
        }
    };
    let mut case = TestCase::new(cell.cell.algorithm.as_str(), status);
    case.set_classname(format!("fencepost.{}", cell.cell.scenario));
    if let Some(output) = output {
        case.set_system_out(output);
    }
    case
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(why);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use scenarios::scenario::Expectation;

    fn xml(must: &[&'static str], may: &[&'static str]) -> String {
        let (matrix, scenario) = (sample::matrix(), sample::scenario());
        let expectation = Expectation {
            of: "plain".into(),
            must: must.to_vec(),
            may: may.to_vec(),
            why: "nobody checks <an owner>".into(),
        };
        let cells: Vec<_> = matrix.cells[..2]
            .iter()
            .map(|cell| CheckedCell::of(cell, &scenario, "gc-pause", &matrix, Some(&expectation)))
            .collect();
        junit(&cells)
    }

    #[test]
    fn a_difference_is_one_failure_with_its_replay_line() {
        let xml = xml(&["double-write"], &[]);
        assert!(
            xml.contains(r#"<testsuite name="gc-pause" tests="2""#),
            "{xml}"
        );
        assert!(xml.contains(r#"failures="1""#), "{xml}");
        assert!(
            xml.contains("fencepost run naive gc-pause --seed 12"),
            "{xml}"
        );
        assert!(xml.contains("&lt;an owner&gt;"), "{xml}");
        assert!(!xml.contains("timestamp"), "{xml}");
    }

    #[test]
    fn what_is_as_expected_is_no_failure_and_what_does_not_apply_is_skipped() {
        let xml = xml(&["double-write"], &["stale-write"]);
        assert!(xml.contains(r#"failures="0""#), "{xml}");
        assert!(
            xml.contains("does not apply: it lives on no server"),
            "{xml}"
        );
    }
}
