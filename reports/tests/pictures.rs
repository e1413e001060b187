//! Every lock in every built-in scenario gives a picture that can be read, and a story.

use std::sync::Arc;

use reports::timeline::svg;
use reports::{StoryOptions, story};
use resvg::usvg::{Group, Node, Options, Rect, Tree, fontdb};
use scenarios::{Run, Scenario};
use sim::engine::Event;

/// The first few seeds of every cell. The herds are costly, and all alike.
fn runs() -> Vec<(Scenario, Run)> {
    let mut runs = Vec::new();
    for scenario in scenarios::builtin::all() {
        let herd = scenario.clients > 100;
        for algorithm in algorithms::ALL {
            if scenario
                .not_applicable(&algorithm.declares(), &Event)
                .is_some()
            {
                continue;
            }
            if herd && !["naive", "fenced"].contains(&algorithm.name()) {
                continue;
            }
            for seed in 0..if herd { 1 } else { 3 } {
                let run = scenarios::run(*algorithm, &scenario, seed, &Event);
                runs.push((scenario.clone(), run.unwrap()));
            }
        }
    }
    runs
}

fn texts(group: &Group, into: &mut Vec<(String, Rect)>) {
    for node in group.children() {
        match node {
            Node::Group(group) => texts(group, into),
            Node::Text(text) => {
                let words = text.chunks().iter().map(|chunk| chunk.text()).collect();
                into.push((words, text.abs_bounding_box()));
            }
            Node::Path(_) | Node::Image(_) => {}
        }
    }
}

fn overlap(a: Rect, b: Rect) -> bool {
    // Neighbours may touch: boxes are as high as the font, not as its letters.
    let (across, down) = (1.0, 3.0);
    a.left() + across < b.right()
        && b.left() + across < a.right()
        && a.top() + down < b.bottom()
        && b.top() + down < a.bottom()
}

#[test]
fn no_label_covers_another_or_leaves_the_picture() {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    let options = Options {
        font_family: "DejaVu Sans".into(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    for (scenario, run) in runs() {
        let whose = format!(
            "fencepost run {} {} --seed {}",
            run.algorithm, run.scenario, run.seed
        );
        let picture = svg(&run, &scenario);
        let tree = Tree::from_str(&picture, &options).expect(&whose);
        let mut labels = Vec::new();
        texts(tree.root(), &mut labels);
        assert!(labels.len() > 10, "{whose}");
        for (index, (text, place)) in labels.iter().enumerate() {
            let inside = place.left() >= 0.0
                && place.top() >= 0.0
                && place.right() <= tree.size().width()
                && place.bottom() <= tree.size().height();
            assert!(inside, "{text:?} leaves the picture: {whose}");
            for (other, elsewhere) in &labels[..index] {
                assert!(
                    !overlap(*place, *elsewhere),
                    "{text:?} covers {other:?}: {whose}"
                );
            }
        }
    }
}

#[test]
fn every_story_tells_every_violated_invariant() {
    for (scenario, run) in runs() {
        let text = story(&run, &scenario, &StoryOptions::default());
        for violation in run.verdict.breached() {
            assert!(
                text.contains(&format!("VIOLATION {violation}: ")),
                "{violation} in\n{text}"
            );
        }
        assert!(text.lines().count() < 250, "{text}");
    }
}
