//! Where results and complaints go: results to stdout, everything else to stderr.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use reports::style::Colour;
use scenarios::BadScenario;

/// A scenario file that cannot be used. `main` shows it with its source.
#[derive(Debug)]
pub(crate) struct Bad(pub(crate) Box<BadScenario>);

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Bad {}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        // Whoever read has read enough. What the command found out stands all the same.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Says something that is no result. Whether anybody listens does not matter.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Says what was wrong.
pub(crate) fn complain(error: &anyhow::Error) {
    let mut stderr = anstream::stderr().lock();
    let _ = match error.downcast_ref::<Bad>() {
        Some(bad) => {
            let width = width().into();
            let theme =
                if anstream::AutoStream::choice(&io::stderr()) == anstream::ColorChoice::Never {
                    miette::GraphicalTheme::unicode_nocolor()
                } else {
                    miette::GraphicalTheme::unicode()
                };
            let handler = miette::GraphicalReportHandler::new_themed(theme).with_width(width);
            let mut text = String::new();
            let _ = handler.render_report(&mut text, bad.0.as_ref());
            let text = text.trim_start().trim_start_matches("× ");
            writeln!(stderr, "error: {}", text.trim_end())
        }
        None => writeln!(stderr, "error: {error:#}"),
    };
}

/// Reports may use colours: they are taken out again where nobody can see them.
pub(crate) const COLOUR: Colour = Colour::Always;

/// How many columns the terminal has.
pub(crate) fn width() -> u16 {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    let seen = || terminal_size::terminal_size().map(|(width, _)| width.0);
    told().or_else(seen).unwrap_or(100).max(60)
}

/// Makes sure that a file can be written, before there is anything to write.
pub(crate) fn try_file(path: &Path) -> Result<()> {
    let existed = path.exists();
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("failed to write {}", path.display()))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes a file.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || File::create(path)?.write_all(bytes);
    write().with_context(|| format!("failed to write {}", path.display()))
}
