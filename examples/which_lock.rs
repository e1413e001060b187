//! Which lock to take, as Markdown, from a report: what each is safe against, what it costs, and where
//! it gets stuck. `docs/which-lock.md` is made by it.
//!
//!     fencepost matrix --out report
//!     cargo run --release --example which_lock report/report.json > docs/which-lock.md

use fencepost::algorithms;
use fencepost::reports::words::{length, percent};
use serde_json::Value;

/// Violations by which nothing that was stored is wrong.
const HARMLESS: &[&str] = &[
    "stuck",
    "refused-holder",
    "wrong-release",
    "stale-write",
    "overlap",
    "unfair",
];

fn main() -> anyhow::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        anyhow::bail!("wants the path of a report.json");
    };
    let report = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    print!("{}", page(&report));
    Ok(())
}

/// The page for one report.
pub(crate) fn page(report: &Value) -> String {
    let count = &report["seeds"]["count"];
    let mut text = format!(
        "# Which lock\n\n\
         Made from a matrix of {count} seeds by `examples/which_lock.rs`; do not edit. Rates are shares\n\
         of the runs that reached the scenario's moment. *Never* means never in these runs.\n\n\
         - **Wrong data**: the store took a write that it should not have (a double write, a lost update,\n  \
         or the work's own, as paid twice, oversold or a torn read), or fences went backwards.\n\
         - **Only belief**: two clients believed at once that they hold, a late write was taken, or an order\n  \
         that was promised was broken, and nothing was overwritten.\n\
         - **Stuck**: nobody gets the lock for longer than a lease and 5 s after the faults.\n\
         - The costs are those of `calm`.\n\n\
         | lock | commands per section | wait, p50 and p99 | wrong data under | only belief under | stuck under | nothing under |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for algorithm in algorithms::ALL {
        let name = algorithm.name();
        let cells = report["cells"].as_array().into_iter().flatten();
        let cells: Vec<_> = cells
            .filter(|cell| cell["algorithm"] == name && cell["runs"].as_u64().unwrap_or(0) > 0)
            .collect();
        let cost = cells
            .iter()
            .find(|cell| cell["scenario"] == "calm")
            .map(|cell| &cell["cost"]);
        let commands = cost.map_or("".into(), |cost| {
            format!(
                "{:.1}",
                cost["commands_per_section"].as_f64().unwrap_or(0.0)
            )
        });
        let waits = cost.and_then(|cost| {
            let wait = |which: &str| cost["acquire_wait_ms"][which].as_u64();
            Some(format!(
                "{}, {}",
                length(wait("p50")?),
                length(wait("p99")?)
            ))
        });
        let under = |wanted: &dyn Fn(&str) -> bool| {
            let seen = cells
                .iter()
                .filter_map(|cell| Some((*cell, worst(cell, wanted)?)));
            listed(seen.map(|(cell, rate)| format!("{} {}", scenario(cell), percent(rate))))
        };
        let is_wrong = |invariant: &str| !HARMLESS.contains(&invariant);
        let is_stuck = |invariant: &str| invariant == "stuck";
        let harmed = |cell: &&&Value| worst(cell, &is_wrong).is_some();
        let belief = cells
            .iter()
            .filter(|cell| !harmed(cell))
            .filter_map(|cell| {
                let rate = worst(cell, &|invariant| !is_stuck(invariant))?;
                Some(format!("{} {}", scenario(cell), percent(rate)))
            });
        let unharmed = cells.iter().filter(|cell| worst(cell, &|_| true).is_none());
        text += &format!(
            "| `{name}` | {commands} | {} | {} | {} | {} | {} |\n",
            waits.unwrap_or_default(),
            under(&is_wrong),
            listed(belief),
            under(&is_stuck),
            listed(unharmed.map(|cell| scenario(cell).to_owned())),
        );
    }
    text + &readers(report)
}

/// How those fare who only read, and who writes among them.
fn readers(report: &Value) -> String {
    let mut text = String::from(
        "\n## Many readers and one who writes\n\n\
         `reader-starves-writer`: five clients read under the lock, one after the other without a pause, and one\n\
         wants to write. *Overtaken* is how many leases went to others who had asked later while one waited.\n\n\
         | lock | commands per section | wait, p50 and p99 | overtaken |\n| --- | --- | --- | --- |\n",
    );
    let cells = report["cells"].as_array().into_iter().flatten();
    for cell in cells.filter(|cell| cell["scenario"] == "reader-starves-writer") {
        let cost = &cell["cost"];
        let wait = |which: &str| cost["acquire_wait_ms"][which].as_u64().map(length);
        if let (Some(half), Some(most), Some(commands), Some(name)) = (
            wait("p50"),
            wait("p99"),
            cost["commands_per_section"].as_f64(),
            cell["algorithm"].as_str(),
        ) {
            let overtaken = &cost["overtaken"];
            text += &format!("| `{name}` | {commands:.1} | {half}, {most} | {overtaken} |\n");
        }
    }
    text
}

fn scenario(cell: &Value) -> &str {
    cell["scenario"].as_str().unwrap_or("?")
}

/// The highest rate among some violations; nothing if there was none.
fn worst(cell: &Value, wanted: &dyn Fn(&str) -> bool) -> Option<f64> {
    let violations = cell["violations"].as_object().into_iter().flatten();
    let rates = violations.filter(|(invariant, _)| wanted(invariant));
    let rates = rates.filter_map(|(_, violation)| violation["rate"].as_f64());
    rates.filter(|rate| *rate > 0.0).max_by(f64::total_cmp)
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        "never".into()
    } else {
        items.join(", ")
    }
}
