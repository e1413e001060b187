//! Redlock as node-redlock writes it: one acquire tries up to eleven times, and looks at the clock once,
//! before the first.
//!
//! The lease that it returns is counted from that look. When the lock was taken by a late try, much of
//! it is over, or all: the lock that is returned has expired by its own reckoning, while the servers hold it for its full
//! time. Its holder asks `expiration` before each access, as the library's documentation tells it to, and
//! gives such a section up at once. It errs on the safe side and costs work.
//!
//! Source: node-redlock, `acquire` and `_execute` of version 5; node-redlock#296 and node-redlock#299.
//! Ten retries, each after 200 ms and up to 100 ms more or less.
//!
//! Deliberately absent: `using`, which extends the lock 500 ms before that time, and throws when it
//! has passed. And the library gives a failed try back only when the next one comes; here every try does.

use async_trait::async_trait;
use sim::Millis;

use crate::declare::owner_by_majority;
use crate::redlock::{Majority, Reckoning};
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, LossSignal,
    ReleaseError, Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct RedlockEarlyStart;

/// How often a try that was denied is followed by another.
const RETRIES: u32 = 10;
/// How long that waits.
const PAUSE: std::ops::RangeInclusive<Millis> = 100..=300;

impl Algorithm for RedlockEarlyStart {
    fn name(&self) -> &'static str {
        "redlock-early-start"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "redlock that retries within, and counts its lease from the first try",
            source: "node-redlock#296",
            family: Family::Quorum,
            service: Service::Independent(5),
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::WriteAtOnce,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            holders: Some(owner_by_majority),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        let majority = Majority {
            client: client.clone(),
            reckoning: Reckoning::Published,
        };
        standard(client, EarlyStart { majority })
    }
}

struct EarlyStart {
    majority: Majority,
}

#[async_trait(?Send)]
impl Lock for EarlyStart {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let client = self.majority.client.clone();
        let started = client.now();
        let mut retries = 0;
        let lease = loop {
            match self.majority.acquire(key).await {
                Ok(lease) => break lease,
                Err(error) if retries == RETRIES => return Err(error),
                Err(_) => {
                    retries += 1;
                    client.sleep(client.draw(&PAUSE)).await;
                }
            }
        };
        let expiration = started + self.majority.validity();
        Ok(Lease {
            loss: Some(LossSignal::new(&client, expiration)),
            ..lease
        })
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        self.majority.release(lease).await
    }
}
