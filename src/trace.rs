//! `fencepost trace`, which `run --verify` calls: everything that happens in one run, for the
//! process that started this one.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use scenarios::verify::record;
use sim::trace::Trace;

use crate::arguments;
use crate::{Outcome, output, pick};

/// Plays a run and prints its trace, one event a line, as JSON.
pub(crate) fn trace(arguments: &arguments::Trace) -> Result<Outcome> {
    let algorithm = pick::algorithm(&arguments.algorithm)?;
    let picked = pick::scenario(&arguments.scenario, &arguments.set)?;
    let engine = pick::engine(&arguments.engine)?;
    let recorded = record(algorithm, &picked.scenario, arguments.seed, engine);
    let mut text = String::new();
    for event in &recorded.trace {
        let _ = writeln!(text, "{}", serde_json::to_string(event)?);
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// A run that is being played in another process.
pub(crate) struct Elsewhere(Child);

impl Elsewhere {
    /// Starts to play what `run` was asked to play.
    pub(crate) fn start(arguments: &arguments::Run, seed: u64) -> Result<Self> {
        let program = std::env::current_exe().context("failed to find this program")?;
        let mut command = Command::new(program);
        command.args(["trace", "--seed", &seed.to_string()]);
        command.args(["--engine", &arguments.engine.name]);
        for (key, value) in &arguments.set {
            command.args(["--set", &format!("{key}={value}")]);
        }
        command.args(["--", &arguments.algorithm, &arguments.scenario]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn();
        Ok(Self(child.context("failed to start another process")?))
    }

    /// What happened there.
    pub(crate) fn trace(self) -> Result<Trace> {
        let ended = self.0.wait_with_output();
        let ended = ended.context("failed to hear from the other process")?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            bail!("the other process failed: {}", said.trim());
        }
        let events = serde_json::Deserializer::from_slice(&ended.stdout).into_iter();
        let trace = events.collect::<Result<Trace, _>>();
        trace.context("failed to understand the other process")
    }
}
