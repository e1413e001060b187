//! What a run cost: commands, sections, waiting.

use std::collections::BTreeMap;

use serde::Serialize;
use sim::Millis;
use sim::history::What;

use crate::facts::Facts;
use crate::waiting::{idle, orphaned, overtaken};

/// The cost figures of one run, in a form that can be summed over runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Redis commands that servers executed, those of setting up a connection not counted.
    pub commands: u64,
    /// The most commands that were executed within one second of the run, on all servers.
    pub peak_commands_per_second: u64,
    /// Sections that got their lease.
    pub sections: u64,
    /// How many of them had waited so many milliseconds for it.
    pub waits: BTreeMap<Millis, u64>,
    /// The most leases that others got, who had asked later, while one section waited.
    pub overtaken: u64,
    /// The longest time that a lock was free while somebody waited for it.
    pub idle: Millis,
    /// The longest time that a lock was held for nobody, or for somebody who did not believe in it
    /// any more, while another one waited.
    pub orphaned: Millis,
}

impl Cost {
    /// The cost of one run.
    pub fn of(facts: &Facts<'_>) -> Self {
        let mut by_second = BTreeMap::<Millis, u64>::new();
        for event in &facts.history.events {
            if let What::Executed { command, .. } = event.what
                && !["hello", "client"].contains(&command)
            {
                *by_second.entry(event.at / 1_000).or_default() += 1;
            }
        }
        let leased = facts.asks.iter().filter(|ask| ask.leased);
        let mut waits = BTreeMap::new();
        for wait in leased.filter_map(|ask| Some(ask.until? - ask.attempts[0])) {
            *waits.entry(wait).or_default() += 1;
        }
        Self {
            commands: by_second.values().sum(),
            peak_commands_per_second: by_second.values().copied().max().unwrap_or(0),
            sections: waits.values().sum(),
            waits,
            overtaken: overtaken(facts),
            idle: idle(facts),
            orphaned: orphaned(facts),
        }
    }

    /// Adds the cost of another run.
    pub fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.peak_commands_per_second = self
            .peak_commands_per_second
            .max(other.peak_commands_per_second);
        self.sections += other.sections;
        self.overtaken = self.overtaken.max(other.overtaken);
        self.idle = self.idle.max(other.idle);
        self.orphaned = self.orphaned.max(other.orphaned);
        for (wait, sections) in &other.waits {
            *self.waits.entry(*wait).or_default() += sections;
        }
    }
}
