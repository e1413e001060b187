//! `fencepost list`: what there is.

use std::fmt::Write as _;

use anyhow::Result;
use scenarios::landmark::Landmark;
use scenarios::load::FAULTS;
use scenarios::{builtin, invariants, work};
use serde_json::{Value, json};
use sim::fault::Point;

use crate::arguments::List;
use crate::{Outcome, output};

/// Lists everything that has a name.
pub(crate) fn list(arguments: &List) -> Result<Outcome> {
    let text = if arguments.json {
        serde_json::to_string_pretty(&as_json())? + "\n"
    } else {
        as_text()
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn as_text() -> String {
    let mut text = String::new();
    let mut section = |title: &str, rows: Vec<(&str, String)>| {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let _ = writeln!(text, "{title}");
        for (name, summary) in rows {
            let _ = writeln!(text, "  {name:width$}  {summary}");
        }
        let _ = writeln!(text);
    };
    let algorithms = algorithms::ALL.iter().map(|algorithm| {
        let declaration = algorithm.declares();
        (
            algorithm.name(),
            format!("{} ({})", declaration.summary, declaration.family.name()),
        )
    });
    section(
        "Algorithms (and the family whose expectations they share)",
        algorithms.collect(),
    );
    let scenarios = builtin::all();
    section(
        "Scenarios",
        scenarios
            .iter()
            .map(|s| (s.name.as_str(), s.title.clone()))
            .collect(),
    );
    let invariants = invariants::ALL
        .iter()
        .map(|i| (i.name(), i.summary().to_owned()));
    section("Invariants, worst first", invariants.collect());
    let works = work::ALL
        .iter()
        .map(|kind| (kind.name(), kind.summary().to_owned()));
    section("Kinds of work", works.collect());
    let landmarks = Landmark::ALL
        .iter()
        .map(|mark| (mark.name(), mark.summary().to_owned()));
    section(
        "Landmarks: what a run must reach to count",
        landmarks.collect(),
    );
    let faults = FAULTS.iter().map(|help| {
        let fields: Vec<_> = help.fields().collect();
        let fields = fields.join(", ");
        (help.kind, format!("{} ({fields})", help.summary))
    });
    section(
        "Faults (and their fields beside `at` or `when`)",
        faults.collect(),
    );
    let points: Vec<_> = Point::ALL.iter().map(|point| point.name()).collect();
    let _ = writeln!(
        text,
        "Points of a section, where faults can strike\n  {}",
        points.join(", ")
    );
    text
}

fn as_json() -> Value {
    let algorithms = algorithms::ALL.iter().map(|algorithm| {
        let declaration = algorithm.declares();
        let assumes: Vec<_> = declaration.assumes.iter().map(|a| a.text()).collect();
        json!({
            "name": algorithm.name(),
            "summary": declaration.summary,
            "source": declaration.source,
            "family": declaration.family.name(),
            "servers": declaration.service.servers(),
            "ordered": declaration.ordered,
            "assumes": assumes,
        })
    });
    let scenarios = builtin::all().into_iter().map(|scenario| {
        json!({
            "name": scenario.name,
            "title": scenario.title,
            "story": scenario.story,
            "work": scenario.work.name(),
            "reaches": scenario.reaches.map(Landmark::name),
            "seeds": scenario.seeds,
        })
    });
    let named = |name: &str, summary: &str| json!({ "name": name, "summary": summary });
    json!({
        "schema": "fencepost.list/1",
        "algorithms": algorithms.collect::<Vec<_>>(),
        "scenarios": scenarios.collect::<Vec<_>>(),
        "invariants": invariants::ALL.iter().map(|i| named(i.name(), i.summary())).collect::<Vec<_>>(),
        "work": work::ALL.iter().map(|w| named(w.name(), w.summary())).collect::<Vec<_>>(),
        "landmarks": Landmark::ALL.iter().map(|m| named(m.name(), m.summary())).collect::<Vec<_>>(),
        "faults": FAULTS.iter().map(|f| json!({
            "name": f.kind,
            "summary": f.summary,
            "fields": f.fields().collect::<Vec<_>>(),
            "example": f.example,
        })).collect::<Vec<_>>(),
        "points": Point::ALL.iter().map(|point| point.name()).collect::<Vec<_>>(),
    })
}
