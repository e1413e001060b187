//! The store: the resource that the locks protect.
//!
//! Rows with a value, a fence and a version. Each operation's doc gives the SQL that it
//! stands for, with `$1` the row's id. The store numbers every write that it accepts or
//! refuses; this sequence is the truth about order.
//!
//! Rows exist from the start with value, fence and version 0.
//!
//! Deliberately absent: transactions, sessions and other tables' constraints.

pub(crate) mod node;
mod wire;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use wire::{Frames, encode};

/// One row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What the work reads and writes.
    pub value: i64,
    /// The highest fence that a fenced write or a claim has brought.
    pub fence: u64,
    /// Counts the accepted writes.
    pub version: u64,
}

/// When a fenced write is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparator {
    /// `fence < $2`: also refuses a second write with the same fence.
    Strict,
    /// `fence <= $2`: refuses older fences alone.
    AtLeast,
}

/// What a write demands of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "guard")]
pub enum Guard {
    /// Nothing: `UPDATE rows SET value = $3, version = version + 1 WHERE id = $1`.
    Plain,
    /// `UPDATE rows SET value = $3, fence = $2, version = version + 1 WHERE id = $1 AND fence < $2`,
    /// or `fence <= $2`.
    Fence {
        /// `$2`.
        fence: u64,
        /// Which comparison.
        comparator: Comparator,
    },
    /// The row was claimed before with this fence: `... WHERE id = $1 AND fence = $2`.
    Claimed {
        /// `$2`.
        fence: u64,
    },
}

/// One operation on one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum Operation {
    /// `SELECT value, fence, version FROM rows WHERE id = $1`.
    Read {
        /// `$1`.
        row: u32,
    },
    /// A section's first access installs its fence: `UPDATE rows SET fence = $2, claimed_by = $3
    /// WHERE id = $1 AND (fence < $2 OR (fence = $2 AND claimed_by = $3)) RETURNING value, fence,
    /// version`. It remembers the owner token so that its own retry passes.
    Claim {
        /// `$1`.
        row: u32,
        /// `$2`; `$3` is the request's owner token.
        fence: u64,
    },
    /// See [`Guard`].
    Write {
        /// `$1`.
        row: u32,
        /// `$3`.
        value: i64,
        /// The condition.
        guard: Guard,
    },
}

/// An operation and on whose behalf. The token orders nothing and is not checked, save by a
/// claim; it tells the history which lease an access belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The owner token of the lease.
    pub token: String,
    /// What to do.
    #[serde(flatten)]
    pub operation: Operation,
}

/// What the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// The row read or claimed.
    Row(Row),
    /// The write changed one row.
    Accepted,
    /// No row met the condition; nothing changed.
    Refused,
}

/// The rows.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<u32, (Row, Option<String>)>,
    sequence: u64,
}

/// What an operation did, beside its reply: the row before, and the number of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// What the client is told.
    pub reply: Reply,
    /// The row before the operation.
    pub before: Row,
    /// The store's sequence number, if it was a write.
    pub sequence: Option<u64>,
}

impl Table {
    /// Loses every row. The sequence goes on: it orders what happened, whatever is left of it.
    pub fn lose(&mut self) {
        self.rows.clear();
    }

    /// Executes one request.
    pub fn execute(&mut self, request: &Request) -> Effect {
        let (Operation::Read { row } | Operation::Claim { row, .. } | Operation::Write { row, .. }) =
            request.operation;
        let (row, claimed_by) = self.rows.entry(row).or_default();
        let before = *row;
        let mut sequence = None;
        let reply = match request.operation {
            Operation::Read { .. } => Reply::Row(*row),
            Operation::Claim { fence, .. } => {
                let again = fence == row.fence && claimed_by.as_ref() == Some(&request.token);
                if fence > row.fence || again {
                    row.fence = fence;
                    *claimed_by = Some(request.token.clone());
                    Reply::Row(*row)
                } else {
                    Reply::Refused
                }
            }
            Operation::Write { value, guard, .. } => {
                self.sequence += 1;
                sequence = Some(self.sequence);
                let meets = match guard {
                    Guard::Plain => true,
                    Guard::Fence {
                        fence,
                        comparator: Comparator::Strict,
                    } => row.fence < fence,
                    Guard::Fence {
                        fence,
                        comparator: Comparator::AtLeast,
                    } => row.fence <= fence,
                    Guard::Claimed { fence } => row.fence == fence,
                };
                if meets {
                    row.value = value;
                    row.version += 1;
                    if let Guard::Fence { fence, .. } = guard {
                        row.fence = fence;
                    }
                    Reply::Accepted
                } else {
                    Reply::Refused
                }
            }
        };
        Effect {
            reply,
            before,
            sequence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(table: &mut Table, token: &str, operation: Operation) -> Reply {
        table
            .execute(&Request {
                token: token.into(),
                operation,
            })
            .reply
    }

    fn fenced(fence: u64, comparator: Comparator) -> Operation {
        Operation::Write {
            row: 1,
            value: 5,
            guard: Guard::Fence { fence, comparator },
        }
    }

    #[test]
    fn a_strict_fence_refuses_the_same_number_twice_and_at_least_does_not() {
        for (comparator, second) in [
            (Comparator::Strict, Reply::Refused),
            (Comparator::AtLeast, Reply::Accepted),
        ] {
            let mut table = Table::default();
            assert_eq!(ask(&mut table, "a", fenced(3, comparator)), Reply::Accepted);
            assert_eq!(ask(&mut table, "a", fenced(3, comparator)), second);
            assert_eq!(ask(&mut table, "a", fenced(2, comparator)), Reply::Refused);
        }
    }

    #[test]
    fn a_claim_shuts_older_holders_out_before_anything_is_written() {
        let mut table = Table::default();
        let claim = |fence| Operation::Claim { row: 1, fence };
        let write = |fence| Operation::Write {
            row: 1,
            value: 9,
            guard: Guard::Claimed { fence },
        };
        assert!(matches!(ask(&mut table, "a", claim(1)), Reply::Row(_)));
        assert!(matches!(ask(&mut table, "b", claim(2)), Reply::Row(_)));
        assert_eq!(ask(&mut table, "a", write(1)), Reply::Refused);
        assert_eq!(ask(&mut table, "b", write(2)), Reply::Accepted);
    }

    #[test]
    fn a_claim_passes_again_for_the_same_token_alone() {
        let mut table = Table::default();
        let claim = Operation::Claim { row: 1, fence: 4 };
        assert!(matches!(ask(&mut table, "a", claim.clone()), Reply::Row(_)));
        assert!(matches!(ask(&mut table, "a", claim.clone()), Reply::Row(_)));
        assert_eq!(ask(&mut table, "b", claim), Reply::Refused);
    }

    #[test]
    fn a_refused_write_changes_nothing_and_still_has_a_number() {
        let mut table = Table::default();
        let write = fenced(1, Comparator::Strict);
        let request = Request {
            token: "a".into(),
            operation: write,
        };
        assert_eq!(table.execute(&request).sequence, Some(1));
        let refused = table.execute(&request);
        assert_eq!((refused.reply, refused.sequence), (Reply::Refused, Some(2)));
        let Reply::Row(row) = ask(&mut table, "a", Operation::Read { row: 1 }) else {
            panic!()
        };
        assert_eq!(
            row,
            Row {
                value: 5,
                fence: 1,
                version: 1
            }
        );
    }
}
