//! `--set`: values of a scenario file changed from the command line.

use super::file::{SECTIONS, bare_fields};
use super::nearest;
use super::read::{Read, Reader};

/// Gives a value to a dotted key. A bare name is the field of that name, whatever its section;
/// items of a list are counted from one, and need no number where there is only one.
pub(super) fn set(root: &mut toml::Table, key: &str, value: &str) -> Read<()> {
    let written = format!("{key}={value}");
    let reader = Reader {
        file_name: "--set",
        text: &written,
    };
    let refuse = |part: &str, what: String, help: String| {
        let from = key.find(part).unwrap_or(0);
        let mut bad = reader.error(from..from + part.len(), what, "here");
        bad.help = Some(help);
        bad
    };
    let mut path: Vec<&str> = key.split('.').collect();
    if path.len() == 1 && !SECTIONS.contains(&key) {
        match bare_fields().find(|(_, field)| *field == key) {
            Some(("", _)) => {}
            Some((section, _)) => path.insert(0, section),
            None => {
                let near = nearest(key, bare_fields().map(|(_, field)| field));
                let help = near.map_or_else(
                    || "name a value of the file, as in ttl, work.items, fault.1.lasts".into(),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(refuse(key, format!("there is no value `{key}`"), help));
            }
        }
    }
    // A number or a list is one; everything else is a string, so that nobody must quote.
    let value = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let (last, parents) = path.split_last().expect("split gives at least one part");
    let mut table = root;
    let mut parents = parents.iter().copied().peekable();
    while let Some(parent) = parents.next() {
        let entry = table
            .entry(parent)
            .or_insert_with(|| toml::Table::new().into());
        let entry = match entry {
            toml::Value::Array(items) => {
                let number = parents.peek().and_then(|part| part.parse::<usize>().ok());
                if number.is_some() {
                    parents.next();
                }
                let count = items.len();
                let place = number.or_else(|| (count == 1).then_some(1));
                let item = place.and_then(|place| items.get_mut(place.checked_sub(1)?));
                item.ok_or_else(|| {
                    let what = match number {
                        Some(number) => format!("there is no {parent} {number}"),
                        None => format!("there are {count} of `{parent}`: which one?"),
                    };
                    let help =
                        format!("they are counted from 1 to {count}, as in {parent}.1.{last}=...");
                    refuse(parent, what, help)
                })?
            }
            other => other,
        };
        table = entry.as_table_mut().ok_or_else(|| {
            let help = format!("set it itself, as in {parent}=...");
            refuse(parent, format!("`{parent}` has no parts"), help)
        })?;
    }
    table.insert((*last).to_owned(), value);
    Ok(())
}
