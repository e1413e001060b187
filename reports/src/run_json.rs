//! One run for programs, schema `fencepost.run/1`: what was planned, what happened, and what
//! follows from it.
//!
//! Times are whole milliseconds of the world. The same run gives the same bytes.

use scenarios::Run;
use scenarios::facts::{Belief, Grant};
use scenarios::run::Verdict;
use serde::Serialize;
use sim::fault::Plan;
use sim::history::Event;
use sim::{Fingerprint, Millis, NodeId};

/// A run, ending in a newline.
pub fn run_json(run: &Run) -> String {
    let facts = run.facts();
    let report = Report {
        schema: "fencepost.run/1",
        algorithm: &run.algorithm,
        scenario: &run.scenario,
        seed: run.seed,
        engine: run.engine,
        ttl: run.around.ttl,
        plan: &run.instance.setup.plan,
        verdict: &run.verdict,
        grants: facts.grants.iter().map(GrantReport::of).collect(),
        beliefs: facts.beliefs.iter().map(BeliefReport::of).collect(),
        ended: run.history.ended,
        fingerprint: run.history.fingerprint,
        events: &run.history.events,
    };
    let mut text = serde_json::to_string_pretty(&report).expect("a run has string keys alone");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Report<'r> {
    schema: &'static str,
    algorithm: &'r str,
    scenario: &'r str,
    seed: u64,
    engine: &'static str,
    ttl: Millis,
    plan: &'r Plan,
    verdict: &'r Verdict,
    grants: Vec<GrantReport<'r>>,
    beliefs: Vec<BeliefReport<'r>>,
    ended: Millis,
    fingerprint: Fingerprint,
    events: &'r [Event],
}

#[derive(Serialize)]
struct GrantReport<'f> {
    key: &'f str,
    number: u32,
    client: NodeId,
    token: &'f str,
    from: Millis,
    until: Option<Millis>,
}

impl<'f> GrantReport<'f> {
    fn of(grant: &'f Grant) -> Self {
        Self {
            key: &grant.key,
            number: grant.number,
            client: grant.client,
            token: &grant.token,
            from: grant.from,
            until: grant.until,
        }
    }
}

#[derive(Serialize)]
struct BeliefReport<'f> {
    key: &'f str,
    client: NodeId,
    section: u32,
    token: &'f str,
    fence: Option<u64>,
    from: Millis,
    until: Option<Millis>,
}

impl<'f> BeliefReport<'f> {
    fn of(belief: &'f Belief) -> Self {
        Self {
            key: &belief.key,
            client: belief.client,
            section: belief.section,
            token: &belief.token,
            fence: belief.fence,
            from: belief.from,
            until: belief.until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_run_carries_its_plan_its_verdict_and_its_history() {
        let run = sample::run("naive", &sample::gc_pause(), 1);
        let text = run_json(&run);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["schema"], "fencepost.run/1");
        assert_eq!(report["plan"][0]["fault"]["kind"], "pause");
        assert_eq!(report["grants"][0]["client"], "client-1");
        assert_eq!(
            report["events"].as_array().unwrap().len(),
            run.history.events.len()
        );
        assert!(report["verdict"]["violations"].is_array());
        let fingerprint = run.history.fingerprint.to_string();
        assert_eq!(
            (report["fingerprint"].as_str(), fingerprint.len()),
            (Some(&*fingerprint), 16)
        );
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let once = run_json(&sample::run("fenced", &sample::gc_pause(), 2));
        let again = run_json(&sample::run("fenced", &sample::gc_pause(), 2));
        assert_eq!(once, again);
    }
}
