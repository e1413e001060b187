//! From what was typed to what is meant.

use std::path::Path;

use algorithms::Algorithm;
use anyhow::{Context, Result, anyhow, bail};
use scenarios::load::nearest;
use scenarios::{Scenario, builtin, load};
use sim::engine::Engine;

use crate::arguments;
use crate::output::Bad;

/// A scenario, and what the user typed to name it.
pub(crate) struct Picked {
    pub(crate) scenario: Scenario,
    pub(crate) argument: String,
}

/// An algorithm by its name.
pub(crate) fn algorithm(name: &str) -> Result<&'static dyn Algorithm> {
    let found = algorithms::ALL
        .iter()
        .find(|algorithm| algorithm.name() == name);
    found.copied().ok_or_else(|| {
        let names = || algorithms::ALL.iter().map(|algorithm| algorithm.name());
        unknown("algorithm", name, nearest(name, names()), names())
    })
}

/// The algorithms of a list; all of them if it is empty.
pub(crate) fn algorithms(names: &[String]) -> Result<Vec<&'static dyn Algorithm>> {
    if names.is_empty() {
        return Ok(algorithms::ALL.to_vec());
    }
    let mut picked: Vec<&'static dyn Algorithm> = Vec::new();
    for name in names {
        let algorithm = algorithm(name.trim())?;
        if !picked.iter().any(|other| other.name() == algorithm.name()) {
            picked.push(algorithm);
        }
    }
    Ok(picked)
}

/// A scenario by its name, or by the path of its file.
pub(crate) fn scenario(argument: &str, overrides: &[(String, String)]) -> Result<Picked> {
    let argument = argument.to_owned();
    if let Some(loaded) = builtin::get(&argument, overrides) {
        return Ok(Picked {
            scenario: loaded.map_err(Bad)?,
            argument,
        });
    }
    let is_path = argument.ends_with(".toml") || argument.contains(['/', '\\']);
    if !is_path {
        let names = || builtin::FILES.iter().map(|(name, _)| *name);
        let near = nearest(&argument, names());
        return Err(unknown("scenario", &argument, near, names())
            .context_after("a file of your own is named by its path, as in ./my-scenario.toml"));
    }
    let text = std::fs::read_to_string(Path::new(&argument))
        .with_context(|| format!("failed to read {argument}"))?;
    Ok(Picked {
        scenario: load(&argument, &text, overrides).map_err(Bad)?,
        argument,
    })
}

/// The scenarios of a list; all built-in ones if it is empty.
pub(crate) fn scenarios(arguments: &[String]) -> Result<Vec<Picked>> {
    let every: Vec<String> = builtin::FILES
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let arguments = if arguments.is_empty() {
        &every
    } else {
        arguments
    };
    let mut picked: Vec<Picked> = Vec::new();
    for argument in arguments {
        let new = scenario(argument.trim(), &[])?;
        match picked
            .iter()
            .find(|old| old.scenario.name == new.scenario.name)
        {
            None => picked.push(new),
            Some(old) if old.argument == new.argument => {}
            Some(old) => bail!(
                "{} and {} are both called {}; give one of them another name",
                old.argument,
                new.argument,
                new.scenario.name,
            ),
        }
    }
    Ok(picked)
}

/// An engine by its name.
pub(crate) fn engine(engine: &arguments::Engine) -> Result<&'static dyn Engine> {
    let name = &engine.name;
    let found = sim::engine::ALL.iter().find(|engine| engine.name() == name);
    found.copied().ok_or_else(|| {
        let names = || sim::engine::ALL.iter().map(|engine| engine.name());
        unknown("engine", name, nearest(name, names()), names())
    })
}

fn unknown<'n>(
    what: &str,
    name: &str,
    near: Option<&str>,
    all: impl Iterator<Item = &'n str>,
) -> anyhow::Error {
    let all = all.collect::<Vec<_>>().join(", ");
    match near {
        Some(near) => {
            anyhow!("there is no {what} `{name}`; did you mean `{near}`?\nThere are: {all}")
        }
        None => anyhow!("there is no {what} `{name}`\nThere are: {all}"),
    }
}

/// Adds a sentence behind a message.
trait ContextAfter {
    fn context_after(self, sentence: &str) -> Self;
}

impl ContextAfter for anyhow::Error {
    fn context_after(self, sentence: &str) -> Self {
        anyhow!("{self}\n({sentence})")
    }
}
