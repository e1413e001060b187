//! Colours of terminal reports. They only repeat what the words say, so a report without
//! them loses nothing.

use anstyle::{AnsiColor, Style};

/// Whether a report may use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// With ANSI escapes.
    Always,
}

/// What a piece of text is, which decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As the rest.
    Plain,
    /// Less important.
    Quiet,
    /// A heading.
    Strong,
    /// A fault.
    Fault,
    /// A violation, or a failure of the testbed.
    Bad,
    /// What held.
    Good,
}

impl Colour {
    /// Paints a piece of text.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let style = match (self, tone) {
            (Self::Never, _) | (_, Tone::Plain) => return text.to_owned(),
            (_, Tone::Quiet) => Style::new().dimmed(),
            (_, Tone::Strong) => Style::new().bold(),
            (_, Tone::Fault) => AnsiColor::Yellow.on_default(),
            (_, Tone::Bad) => AnsiColor::Red.on_default().bold(),
            (_, Tone::Good) => AnsiColor::Green.on_default(),
        };
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_text_is_left_alone() {
        assert_eq!(Colour::Never.paint(Tone::Bad, "lost"), "lost");
        assert!(Colour::Always.paint(Tone::Bad, "lost").contains("\u{1b}["));
    }
}
