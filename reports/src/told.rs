//! What the store did, in words that the story and the picture share.

use scenarios::facts::{Facts, Grant, Write};
use sim::NodeId;
use sim::history::What;
use sim::store::{Comparator, Guard};

/// Why the store refused an access.
pub(crate) struct Because {
    /// As a sentence's end: which condition was not met.
    pub(crate) long: String,
    /// What a label has room for, beside the fence.
    pub(crate) short: &'static str,
}

/// What a write demanded of its row.
fn guard(facts: &Facts<'_>, write: &Write) -> Option<Guard> {
    match facts.history.events.get(write.event)?.what {
        What::Write { guard, .. } => Some(guard),
        _ => None,
    }
}

/// Whether a write inserts a row that only says that another one was written. Where nothing else is
/// written, what is inserted is the work itself.
pub(crate) fn is_mark(facts: &Facts<'_>, write: &Write) -> bool {
    let inserts = |write: &Write| guard(facts, write) == Some(Guard::Absent);
    inserts(write) && facts.writes.iter().any(|other| !inserts(other))
}

/// What a write is called.
pub(crate) fn write_to(facts: &Facts<'_>, write: &Write) -> String {
    let (by, row) = (write.by, write.row);
    match guard(facts, write) {
        Some(Guard::Absent) if is_mark(facts, write) => {
            format!("{by}'s mark that row {row} is done")
        }
        Some(Guard::Absent) => format!("{by}'s insert of row {row}"),
        _ => format!("{by}'s write to row {row}"),
    }
}

/// Why a write was refused.
pub(crate) fn refused_because(facts: &Facts<'_>, write: &Write) -> Because {
    let seen = write.before;
    let (long, short) = match guard(facts, write) {
        Some(Guard::Fence {
            fence,
            comparator: Comparator::Strict,
        }) => (
            format!(
                "its fence {fence} is not newer than the {} that the row has seen",
                seen.fence
            ),
            "",
        ),
        Some(Guard::Fence { fence, .. }) => (
            format!(
                "its fence {fence} is older than the {} that the row has seen",
                seen.fence
            ),
            "",
        ),
        Some(Guard::Claimed { fence }) => (
            format!(
                "it has claimed the row with fence {fence}, and the row was claimed with {} since",
                seen.fence
            ),
            "",
        ),
        Some(Guard::Version { version }) => (
            format!(
                "it has read version {version}, and the row has version {} by now",
                seen.version
            ),
            ", written since its read",
        ),
        Some(Guard::Least { value }) => (
            format!(
                "it needs at least {value}, and the row has {} left",
                seen.value
            ),
            ", too little left",
        ),
        Some(Guard::Taken) => (
            "the row is not taken by it any more".to_owned(),
            ", not taken any more",
        ),
        Some(Guard::Absent) => ("there is one already".to_owned(), ", there already"),
        Some(Guard::Plain) | None => ("the store says no".to_owned(), ""),
    };
    Because { long, short }
}

/// The grant whose command replaced this one's token by its own.
pub(crate) fn takeover_of<'f>(facts: &'f Facts<'_>, grant: &Grant) -> Option<&'f Grant> {
    let replaces = |next: &&Grant| {
        let event = facts.history.events.get(next.event);
        let Some(What::Changed {
            before: Some(before),
            after: Some(after),
            ..
        }) = event.map(|event| &event.what)
        else {
            return false;
        };
        Some(next.from) == grant.until
            && next.key == grant.key
            && before.value == grant.token
            && after.value == next.token
    };
    facts.grants.iter().find(replaces)
}

/// Whether a number that the store drew became the fence of a lease.
pub(crate) fn carries(facts: &Facts<'_>, by: NodeId, number: u64) -> bool {
    let mut beliefs = facts.beliefs.iter();
    beliefs.any(|belief| belief.client == by && belief.fence == Some(number))
}
