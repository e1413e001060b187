//! What the locks in a record share: whoever wants the lock watches its record, and takes it for
//! over when it has not changed for a lease.

use std::collections::BTreeMap;

use sim::Millis;
use sim::coordination::{Change, Condition, Entry, Reply, Request, Unanswered};

use crate::Client;

/// When a client first saw the records as they are, by its own monotonic clock. No time of
/// another machine is compared with it, so skewed clocks do no harm, and clocks of different rates
/// do.
#[derive(Debug, Default)]
pub(crate) struct Observed(BTreeMap<String, (u64, Millis)>);

impl Observed {
    /// Sees a record: whether it has stood unchanged for a lease.
    pub(crate) fn has_lapsed(&mut self, client: &Client, record: &Entry) -> bool {
        let seen = (record.modified, client.now());
        let since = self.0.entry(record.key.clone()).or_insert(seen);
        if since.0 != record.modified {
            *since = seen;
        }
        since.1 + client.ttl() <= client.now()
    }
}

/// Writes a record if it is as expected: its revision afterwards, nothing if it is not.
pub(crate) async fn write(
    client: &Client,
    key: &str,
    value: &str,
    expected: Option<u64>,
) -> Result<Option<u64>, Unanswered> {
    let put = Change::Put {
        key: key.to_owned(),
        value: value.to_owned(),
        session: None,
    };
    change(client, key, put, expected).await
}

/// Deletes a record if it is as expected: whether it was.
pub(crate) async fn delete(client: &Client, key: &str, expected: u64) -> Result<bool, Unanswered> {
    let delete = Change::Delete {
        key: key.to_owned(),
    };
    let changed = change(client, key, delete, Some(expected)).await?;
    Ok(changed.is_some())
}

async fn change(
    client: &Client,
    key: &str,
    change: Change,
    expected: Option<u64>,
) -> Result<Option<u64>, Unanswered> {
    let key = key.to_owned();
    let condition = match expected {
        Some(modified) => Condition::Unchanged {
            key: key.clone(),
            modified,
        },
        None => Condition::Absent { key: key.clone() },
    };
    let asked = Request::Transact {
        when: vec![condition],
        then: vec![change],
        read: key,
    };
    match client.coordinate(&asked).await? {
        Reply::State {
            succeeded,
            revision,
            ..
        } => Ok(succeeded.then_some(revision)),
        other => unreachable!("a record has no session: {other:?}"),
    }
}
