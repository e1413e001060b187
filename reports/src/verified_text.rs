//! What came of playing every run of a matrix twice, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scenarios::verify::Verification;

use crate::words;

/// How many runs that differ are told of.
const TOLD: usize = 10;

/// Says how many runs came out the same, and where the others differ. `arguments` are what
/// users type for scenarios, by name, as in [`TableOptions`](crate::TableOptions).
pub fn verified_text(
    verification: &Verification,
    engine: &str,
    arguments: &BTreeMap<String, String>,
) -> String {
    let Verification {
        verified,
        differing,
    } = verification;
    let runs = verified + differing.len() as u64;
    if differing.is_empty() {
        return format!(
            "verified: {runs} runs were played twice, in different threads, with the same events\n"
        );
    }
    let mut text = format!(
        "NOT REPRODUCED: {} of {runs} runs came out differently in another thread\n",
        differing.len(),
    );
    for run in differing.iter().take(TOLD) {
        let argument = arguments.get(&run.scenario).unwrap_or(&run.scenario);
        let _ = write!(
            text,
            "\n{} under {}, seed {}: ",
            run.algorithm, run.scenario, run.seed
        );
        let _ = match &run.first {
            Some(first) => writeln!(text, "{first}"),
            None => writeln!(text, "the difference did not show when it was looked for"),
        };
        let replay = words::replay(&run.algorithm, argument, run.seed, engine);
        let _ = writeln!(text, "Again:  {replay} --verify");
    }
    if let Some(more @ 1..) = differing.len().checked_sub(TOLD) {
        let _ = writeln!(text, "\n... and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use scenarios::FirstDifference;
    use scenarios::verify::Differing;
    use sim::NodeId;
    use sim::trace::Traced;

    use super::*;

    fn differing(seed: u64) -> Differing {
        let event = |text: &str| Traced {
            at: 5_785,
            node: Some(NodeId::Client(1)),
            kind: "sent".into(),
            text: text.into(),
        };
        Differing {
            algorithm: "naive".into(),
            scenario: "gc-pause".into(),
            seed,
            first: FirstDifference::of(&[event("to lock-1")], &[event("to lock-2")]),
        }
    }

    #[test]
    fn runs_that_came_out_the_same_are_counted() {
        let verification = Verification {
            verified: 20,
            differing: Vec::new(),
        };
        assert_eq!(
            verified_text(&verification, "event", &BTreeMap::new()),
            "verified: 20 runs were played twice, in different threads, with the same events\n"
        );
    }

    #[test]
    fn a_difference_names_its_cell_its_seed_its_event_and_how_to_see_it_again() {
        let hidden = Differing {
            first: None,
            ..differing(4)
        };
        let verification = Verification {
            verified: 18,
            differing: vec![differing(3), hidden],
        };
        let arguments = [("gc-pause".to_owned(), "./my pause.toml".to_owned())].into();
        assert_eq!(
            verified_text(&verification, "event", &arguments),
            "NOT REPRODUCED: 2 of 20 runs came out differently in another thread\n\
             \n\
             naive under gc-pause, seed 3: event 1 differs\n  \
               one run:    5.785 s, client-1: sent to lock-1\n  \
               the other:  5.785 s, client-1: sent to lock-2\n\
             Again:  fencepost run naive './my pause.toml' --seed 3 --verify\n\
             \n\
             naive under gc-pause, seed 4: the difference did not show when it was looked for\n\
             Again:  fencepost run naive './my pause.toml' --seed 4 --verify\n"
        );
    }

    #[test]
    fn many_differences_are_told_in_part() {
        let verification = Verification {
            verified: 0,
            differing: (0..12).map(differing).collect(),
        };
        let text = verified_text(&verification, "event", &BTreeMap::new());
        assert_eq!(text.matches("Again:").count(), 10);
        assert!(text.ends_with("\n... and 2 more\n"), "{text}");
    }
}
