//! Scenario files: TOML in, a [`Scenario`] or an error that points at the line out.
//!
//! Deliberately absent: defaults for anything that changes a verdict. A file says its TTL, its
//! time-outs and its end itself.

mod faults;
mod file;
mod overrides;
mod read;
mod redis;

use miette::{Diagnostic, NamedSource, SourceSpan};
use thiserror::Error;

pub use faults::{FAULTS, FaultHelp};

use crate::scenario::Scenario;
use file::File;
use overrides::set;
use read::{Read, Reader};

/// What is wrong with a scenario file, where, and what would be right.
#[derive(Debug, Error, Diagnostic)]
#[error("{what}")]
#[diagnostic()]
pub struct BadScenario {
    what: String,
    #[source_code]
    file: NamedSource<String>,
    #[label("{label}")]
    at: SourceSpan,
    label: String,
    #[help]
    help: Option<String>,
}

/// Loads a scenario from the text of a file. `overrides` are dotted keys and their new values,
/// as in `lock.ttl` and `10s`.
pub fn load(
    file_name: &str,
    text: &str,
    overrides: &[(String, String)],
) -> Result<Scenario, Box<BadScenario>> {
    if overrides.is_empty() {
        return parse(file_name, text);
    }
    // The file itself is checked first, so that its errors point into it.
    parse(file_name, text)?;
    let mut table: toml::Table = toml::from_str(text).expect("parsed above");
    for (key, value) in overrides {
        set(&mut table, key, value)?;
    }
    let changed = toml::to_string(&table).expect("a table can be written");
    parse(&format!("{file_name}, changed by --set"), &changed)
}

fn parse(file_name: &str, text: &str) -> Read<Scenario> {
    let reader = Reader { file_name, text };
    let file: File = toml::from_str(text).map_err(|error| reader.of_toml(&error))?;
    reader.scenario(file)
}

/// The known name that a wrong one most likely means.
pub fn nearest<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3)
        .map(|(_, name)| name)
}
