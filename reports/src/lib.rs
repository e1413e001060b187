//! What a finished run looks like to people and to programs: one output format per file.
//!
//! A report reads finished [`Run`](scenarios::Run)s and [`Matrix`](scenarios::matrix::Matrix)es
//! and turns them into text. The same run gives the same bytes. Formats for people are
//! [`story`](mod@story), [`table`](mod@table), [`check_text`](mod@check_text),
//! [`verified_text`](mod@verified_text) and [`timeline`]; formats for programs are [`report_json`](mod@report_json), [`run_json`](mod@run_json) and
//! [`junit`](mod@junit).
//!
//! Deliberately absent: playing runs, writing files, and knowing whether there is a terminal.

pub mod check_text;
pub mod junit;
pub mod report_json;
pub mod run_json;
#[cfg(test)]
mod sample;
pub mod story;
pub mod style;
pub mod table;
pub mod timeline;
mod told;
pub mod verified_text;
pub mod words;

pub use check_text::{CheckedCell, check_text};
pub use junit::junit;
pub use report_json::report_json;
pub use run_json::run_json;
pub use story::{StoryOptions, story};
pub use table::{TableOptions, table};
pub use verified_text::verified_text;
