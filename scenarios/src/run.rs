//! One run: an algorithm meets a scenario under a seed, and its history is judged.

use algorithms::{Algorithm, Client, Family, Item, Outcome};
use std::rc::Rc;

use serde::Serialize;
use sim::engine::{Engine, Failed};
use sim::store::Place;
use sim::{History, Millis};

use crate::cost::Cost;
use crate::facts::{Circumstances, Facts};
use crate::instance::{DrawnItem, Instance};
use crate::invariants::{self, Invariant, LostUpdate, Stuck, StuckFor, Unfair, Violation};
use crate::scenario::Scenario;

/// A run that was played and judged.
#[derive(Debug, Clone)]
pub struct Run {
    /// The algorithm's name.
    pub algorithm: String,
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// The engine's name.
    pub engine: &'static str,
    /// What was played.
    pub instance: Instance,
    /// What was known before.
    pub around: Circumstances,
    /// What happened.
    pub history: History,
    /// What follows from it.
    pub verdict: Verdict,
}

/// What follows from a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the run never reached the scenario's landmark, so that it counts for nothing.
    pub vacuous: bool,
    /// Whether too little time was left after the faults to judge `stuck`.
    pub stuck_not_judged: bool,
    /// For how long nobody got a lock at the longest, if that was breached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck_for: Option<StuckFor>,
    /// The faults that never struck, by their places in the plan: their moment never came.
    pub never_struck: Vec<usize>,
    /// Every breach of every invariant, worst invariant first, then in time.
    pub violations: Vec<Violation>,
    /// What it cost.
    pub cost: Cost,
}

impl Verdict {
    /// The worst invariant that was breached.
    pub fn worst(&self) -> Option<&'static str> {
        self.violations.first().map(|violation| violation.invariant)
    }

    /// The names of the breached invariants, worst first.
    pub fn breached(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.violations.iter().map(|v| v.invariant).collect();
        names.dedup();
        names
    }

    /// Whether an invariant was breached.
    pub fn has(&self, invariant: &str) -> bool {
        self.violations
            .iter()
            .any(|violation| violation.invariant == invariant)
    }
}

impl Run {
    /// The facts of the history.
    pub fn facts(&self) -> Facts<'_> {
        Facts::of(&self.history, &self.around)
    }
}

/// Plays and judges one run. The scenario must apply to the algorithm; see
/// [`Scenario::not_applicable`].
pub fn run(
    algorithm: &dyn Algorithm,
    scenario: &Scenario,
    seed: u64,
    engine: &dyn Engine,
) -> Result<Run, Failed> {
    let declaration = algorithm.declares();
    let instance = Instance::draw(scenario, seed, declaration.service);
    let replicated = instance.setup.deployment.is_replicated();
    let begin = if replicated { SETTLED } else { 0 };
    let retry = &scenario.retry;
    let history = engine.run(&instance.setup, &|client| {
        let items = instance.work[usize::from(client.number()) - 1].clone();
        let task = scenario.work.task();
        let all = places(&instance);
        let limit = scenario.limit;
        let retry = retry.clone();
        let client = Client::new(client, scenario.lock.clone());
        let mut worker = algorithm.start(client.clone());
        Box::pin(async move {
            client
                .sleep(begin + STAGGER * (Millis::from(client.number()) - 1))
                .await;
            let mut section = 0;
            for DrawnItem {
                key,
                row,
                takes,
                rest,
            } in items
            {
                section += 1;
                let mut item = Item {
                    section,
                    key,
                    row,
                    takes,
                    task: task.clone(),
                    all: all.clone(),
                    limit,
                };
                loop {
                    match worker.perform(&item).await {
                        Outcome::Done => break,
                        Outcome::Denied(_) => client.sleep(client.draw(&retry)).await,
                        Outcome::GivenUp(_) | Outcome::Another => {
                            section += 1;
                            item.section = section;
                            client.sleep(rest).await;
                        }
                    }
                }
                client.sleep(rest).await;
            }
        })
    })?;
    let around = Circumstances {
        ttl: scenario.lock.ttl,
        redis_timeout: scenario.redis_timeout,
        ends: scenario.ends,
        servers: instance.setup.servers,
        replicated,
        service: declaration.service,
        limit: scenario.limit,
        idle_timeout: scenario.store.idle_timeout,
        holders: declaration.holders,
        ordered: declaration.ordered,
    };
    let verdict = judge(&history, &around, scenario, &instance, declaration.family);
    Ok(Run {
        algorithm: algorithm.name().to_owned(),
        scenario: scenario.name.clone(),
        seed,
        engine: engine.name(),
        instance,
        around,
        history,
        verdict,
    })
}

/// Every row of the work, and its lock key.
fn places(instance: &Instance) -> Rc<[Place]> {
    let items = instance.work.iter().flatten();
    let mut all: Vec<_> = items.map(|item| (item.row, &item.key)).collect();
    all.sort_unstable();
    all.dedup();
    let place = |(row, key): (u32, &String)| Place {
        key: key.clone(),
        row,
    };
    all.into_iter().map(place).collect()
}

/// Client-1 asks at 0 ms, client-k so much later than the one before, so that the client
/// that faults name holds first.
const STAGGER: Millis = 20;

/// By when replicas have copied their master and sentinels know of them, so that clients may begin.
const SETTLED: Millis = 1_000;

/// Which invariants a scenario's runs are judged by: the general ones and its work's own, and
/// `unfair` if the algorithm promises order.
pub fn judged_by(scenario: &Scenario, ordered: bool) -> Vec<&'static dyn Invariant> {
    let own = scenario.work.invariant().map(Invariant::name);
    let is_own = |name| {
        crate::work::ALL
            .iter()
            .any(|w| w.invariant().is_some_and(|i| i.name() == name))
    };
    let applies = |invariant: &&&'static dyn Invariant| {
        let name = invariant.name();
        let promised = ordered || name != Unfair.name();
        promised && (own == Some(name) || !is_own(name))
    };
    invariants::ALL.iter().filter(applies).copied().collect()
}

fn judge(
    history: &History,
    around: &Circumstances,
    scenario: &Scenario,
    instance: &Instance,
    family: Family,
) -> Verdict {
    let facts = Facts::of(history, around);
    let reached = scenario
        .reaches
        .is_none_or(|mark| mark.reached(&facts, &instance.cuts()));
    let own = scenario.work.invariant().map(Invariant::name);
    let mut judged = judged_by(scenario, around.ordered);
    if family == Family::LockFree {
        // Nobody holds anything.
        judged.retain(|i| own == Some(i.name()) || i.name() == LostUpdate.name());
    }
    let violations: Vec<Violation> = judged
        .iter()
        .flat_map(|invariant| invariant.check(&facts))
        .collect();
    let is_stuck = violations.iter().any(|v| v.invariant == Stuck.name());
    Verdict {
        vacuous: !reached,
        stuck_not_judged: !Stuck::can_judge(&facts),
        stuck_for: is_stuck.then(|| Stuck::longest(&facts)).flatten(),
        never_struck: (0..instance.setup.plan.0.len())
            .filter(|place| !facts.struck.contains(place))
            .collect(),
        violations,
        cost: Cost::of(&facts),
    }
}
