//! The standard section: what every lock's holder does, step by step.
//!
//! Acquire, look, read, think, look, write, release. A *look* checks the lease where the lock
//! tells its holder of a loss; other locks pass straight through. Between a look and the
//! send that follows it there is nothing but a point. A step that has passed its look is
//! never cancelled.

use std::rc::Rc;

use async_trait::async_trait;
use sim::Millis;
use sim::fault::Point;
use sim::history::{GaveUp, Release, What};
use sim::store::{Reply, Row};

use crate::{AcquireError, Client, Lease, Lock, ReleaseError, Worker};

/// How often a release without an answer is tried.
const RELEASES: u32 = 3;

/// What kind of work an item is: given the row that was read, what to write.
pub trait Task {
    /// Decides. `client` is the number of the client that works.
    fn decide(&self, client: u16, row: Row) -> Decision;
}

/// What a section does with the row that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The work is done already.
    Skip,
    /// Think, then write this value.
    Write(i64),
}

/// A unit of work.
#[derive(Clone)]
pub struct Item {
    /// The section that attempts it, counted from one for each client.
    pub section: u32,
    /// The lock's key.
    pub key: String,
    /// The row in the store.
    pub row: u32,
    /// How long it takes to think.
    pub takes: Millis,
    /// What to do with the row.
    pub task: Rc<dyn Task>,
}

/// How one attempt at an item ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: written and acknowledged, or found done.
    Done,
    /// The lock was not acquired.
    Denied(AcquireError),
    /// The section ended early. The item must be taken up again.
    GivenUp(GaveUp),
}

/// Makes a lock a worker.
pub fn standard(client: Client, lock: impl Lock + 'static) -> Box<dyn Worker> {
    Box::new(Standard { client, lock })
}

struct Standard<L> {
    client: Client,
    lock: L,
}

#[async_trait(?Send)]
impl<L: Lock> Worker for Standard<L> {
    async fn perform(&mut self, item: &Item) -> Outcome {
        let Self { client, lock } = self;
        let (key, section) = (&item.key, item.section);
        client.enter(section);
        client.record(What::Asked {
            key: key.clone(),
            section,
        });
        client.begin_attempt(section);
        let acquired = lock.acquire(key).await;
        client.end_attempt();
        let lease = match acquired {
            Ok(lease) => lease,
            Err(error) => {
                let held = error == AcquireError::Held;
                client.record(What::Denied {
                    key: key.clone(),
                    section,
                    held,
                });
                return Outcome::Denied(error);
            }
        };
        let (token, fence) = (lease.token.clone(), lease.fence());
        client.record(What::Leased {
            key: key.clone(),
            section,
            token,
            fence,
        });
        client.point(Point::Granted).await;

        let worked = work(client, &lease, item).await;
        if let Err(why) = worked {
            client.record(What::GivenUp { section, why });
        }

        client.point(Point::BeforeRelease).await;
        for attempt in 1..=RELEASES {
            client.record(What::Releasing {
                key: key.clone(),
                section,
                attempt,
            });
            let released = lock.release(&lease).await;
            let release = match released {
                Ok(()) => Release::Done,
                Err(ReleaseError::NotOwner) => Release::NotOwner,
                Err(ReleaseError::Unknown) => Release::Unknown,
            };
            client.record(What::ReleaseEnded {
                key: key.clone(),
                section,
                release,
            });
            if release != Release::Unknown {
                break;
            }
        }
        client.point(Point::Released).await;
        match worked {
            Ok(()) => Outcome::Done,
            Err(why) => Outcome::GivenUp(why),
        }
    }
}

async fn work(client: &Client, lease: &Lease, item: &Item) -> Result<(), GaveUp> {
    let &Item {
        section,
        row,
        takes,
        ..
    } = item;
    client.point(Point::BeforeRead).await;
    look(lease)?;
    client.point(Point::ReadChecked).await;
    let state = match client.store(&lease.read(row)).await {
        Ok(Reply::Row(state)) => state,
        Ok(_) => return Err(GaveUp::StoreRefused),
        Err(_) => return Err(GaveUp::StoreSilent),
    };
    client.point(Point::AfterRead).await;

    let Decision::Write(value) = item.task.decide(client.number(), state) else {
        client.record(What::ItemDone {
            section,
            row,
            wrote: false,
        });
        return Ok(());
    };
    client.record(What::Working { section, takes });
    match &lease.loss {
        None => client.sleep(takes).await,
        Some(loss) => {
            if client.timeout(takes, loss.raised()).await.is_ok() {
                return Err(GaveUp::LeaseLost);
            }
        }
    }

    client.point(Point::BeforeWrite).await;
    look(lease)?;
    client.point(Point::WriteChecked).await;
    match client.store(&lease.write(row, value)).await {
        Ok(Reply::Accepted) => {}
        Ok(_) => return Err(GaveUp::StoreRefused),
        Err(_) => return Err(GaveUp::StoreSilent),
    }
    client.record(What::ItemDone {
        section,
        row,
        wrote: true,
    });
    client.point(Point::AfterWrite).await;
    Ok(())
}

fn look(lease: &Lease) -> Result<(), GaveUp> {
    match &lease.loss {
        Some(loss) if loss.is_lost() => Err(GaveUp::LeaseLost),
        _ => Ok(()),
    }
}
