//! Two reports of the same matrix side by side, as Markdown: where the engines agree, and where the
//! intervals of a cell do not meet.
//!
//!     fencepost matrix --seeds 50 --out event
//!     fencepost matrix --seeds 50 --out turmoil --engine turmoil
//!     cargo run --example second_opinion event/report.json turmoil/report.json

use std::collections::BTreeMap;

use fencepost::reports::words::percent;
use fencepost::scenarios::matrix::Rate;
use serde_json::Value;

/// The rates of one cell by invariant.
type Rates = BTreeMap<String, Rate>;

fn main() -> anyhow::Result<()> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [one, other] = paths.as_slice() else {
        anyhow::bail!("wants the paths of two report.json");
    };
    let read = |path| anyhow::Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?);
    print!("{}", compare(&read(one)?, &read(other)?));
    Ok(())
}

/// What two reports say of the cells that both have played.
pub(crate) fn compare(one: &Value, other: &Value) -> String {
    let names = [one, other].map(|report| report["engine"].as_str().unwrap_or("?"));
    let others: BTreeMap<_, _> = cells(other).into_iter().collect();
    let (mut rates, mut apart, mut runs) = (0, Vec::new(), 0);
    let mut scenarios: Vec<(String, usize, usize, f64)> = Vec::new();
    for ((algorithm, scenario), (played, ours)) in cells(one) {
        let cell = (algorithm.clone(), scenario.clone());
        let Some((_, theirs)) = others.get(&cell) else {
            continue;
        };
        runs += played;
        if scenarios.last().is_none_or(|last| last.0 != scenario) {
            scenarios.push((scenario.clone(), 0, 0, 0.0));
        }
        let line = scenarios.last_mut().expect("pushed above");
        line.1 += 1;
        for (invariant, our) in &ours {
            let Some(their) = theirs.get(invariant) else {
                continue;
            };
            if our.hits + their.hits == 0 {
                continue;
            }
            rates += 1;
            line.2 += 1;
            line.3 = line.3.max((our.share() - their.share()).abs());
            let ((low, high), (lowest, highest)) = (our.interval(), their.interval());
            if high < lowest || highest < low {
                apart.push(format!(
                    "| {algorithm} | {scenario} | {invariant} | {} | {} |\n",
                    shown(*our),
                    shown(*their)
                ));
            }
        }
    }
    let mut text = format!(
        "{runs} runs on each engine, {rates} rates that are not zero on at least one.\n\n\
         | scenario | locks | rates | largest difference |\n| --- | --- | --- | --- |\n"
    );
    for (scenario, locks, rates, largest) in scenarios {
        text += &format!(
            "| {scenario} | {locks} | {rates} | {} |\n",
            percent(largest)
        );
    }
    if apart.is_empty() {
        text += "\nEvery pair of 95 % intervals meets.\n";
    } else {
        text += &format!(
            "\nIntervals that do not meet:\n\n| lock | scenario | violation | {} | {} |\n\
             | --- | --- | --- | --- | --- |\n{}",
            names[0],
            names[1],
            apart.concat()
        );
    }
    text
}

fn shown(rate: Rate) -> String {
    let (low, high) = rate.interval();
    format!(
        "{} ({} to {})",
        percent(rate.share()),
        percent(low),
        percent(high)
    )
}

/// The cells of a report that were played: by algorithm and scenario, the judged runs and rates.
fn cells(report: &Value) -> Vec<((String, String), (u64, Rates))> {
    let cells = report["cells"].as_array().into_iter().flatten();
    let played = cells.filter(|cell| cell.get("not_applicable").is_none());
    let read = played.map(|cell| {
        let text = |key: &str| cell[key].as_str().unwrap_or_default().to_owned();
        let of = cell["runs"].as_u64().unwrap_or_default();
        let violations = cell["violations"].as_object().into_iter().flatten();
        let rates = violations.map(|(invariant, violation)| {
            let hits = violation["runs"].as_u64().unwrap_or_default();
            (invariant.clone(), Rate { hits, of })
        });
        let rates: Rates = rates.collect();
        ((text("algorithm"), text("scenario")), (of, rates))
    });
    read.collect()
}
