//! The standard section: what every lock's holder does, step by step.
//!
//! Acquire, look, read, think, look, write, release. Who only reads does so a second time instead of
//! writing. A *look* checks the lease where the lock
//! tells its holder of a loss; other locks pass straight through. Between a look and the
//! send that follows it there is nothing but a point. A step that has passed its look is
//! never cancelled.

use std::rc::Rc;

use async_trait::async_trait;
use sim::Millis;
use sim::fault::Point;
use sim::history::{GaveUp, Release, What};
use sim::store::{Place, Reply, Row};

use crate::{AcquireError, Client, Lease, Lock, ReleaseError, Worker};

/// How often a release without an answer is tried.
const RELEASES: u32 = 3;

/// What kind of work an item is: given the row that was read, what to write.
pub trait Task {
    /// Decides. `client` is the number of the client that works.
    fn decide(&self, client: u16, row: Row) -> Decision;

    /// Whether `client` only reads: then it may hold the key together with others who do.
    fn only_reads(&self, _client: u16) -> bool {
        false
    }

    /// When the work acts on the world outside of the database, if it does.
    fn acts(&self) -> Acts {
        Acts::Never
    }
}

/// When a section does what no database can take back: sends an e-mail, calls a bank, lets a
/// request through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// It only writes.
    Never,
    /// When it has thought, and before it writes down that it has acted.
    BeforeWrite,
    /// When its write has been acknowledged.
    AfterWrite,
}

/// What a section does with the row that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The work is done already.
    Skip,
    /// Think, then read it again.
    Reread,
    /// Think, then write this value.
    Write(i64),
    /// Think, then let the store add this to the value that stands there by then.
    Add(i64),
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
    /// Every row of everybody's work, and its lock key: for ways in which the store chooses.
    pub all: Rc<[Place]>,
    /// How often it may be done in all, where the work says so.
    pub limit: i64,
}

impl Item {
    /// The lock key of a row.
    pub(crate) fn key_of(&self, row: u32) -> &str {
        let of = |place: &&Place| place.row == row;
        let place = self.all.iter().find(of);
        &place.expect("the store chooses among them").key
    }
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
    /// The store chose another item, and that one is done.
    Another,
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
        section(&self.client, &mut self.lock, item).await
    }
}

/// One attempt at an item under a lock.
pub(crate) async fn section(client: &Client, lock: &mut impl Lock, item: &Item) -> Outcome {
    let (key, section) = (&item.key, item.section);
    begin(client, item);
    client.begin_attempt(section);
    let acquired = match item.task.only_reads(client.number()) {
        true => lock.acquire_shared(key).await,
        false => lock.acquire(key).await,
    };
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
    let (token, fence, shared) = (lease.token.clone(), lease.fence(), lease.shared);
    let key = &lease.key;
    client.record(What::Leased {
        key: key.clone(),
        section,
        token,
        fence,
        shared,
    });
    client.point(Point::Granted).await;

    let mut worked = work(client, &lease, item).await;
    if let Err(why) = worked {
        client.record(What::GivenUp { section, why });
    }

    client.point(Point::BeforeRelease).await;
    let mut release = Release::Unknown;
    for attempt in 1..=RELEASES {
        client.record(What::Releasing {
            key: key.clone(),
            section,
            attempt,
        });
        let released = lock.release(&lease).await;
        release = match released {
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
    if lease.commits_at_release() && lease.wrote.get() && worked.is_ok() {
        let row = lease.row.unwrap_or(item.row);
        worked = match release {
            Release::Done => {
                done(client, item, row, true);
                Ok(())
            }
            _ => Err(GaveUp::StoreSilent),
        };
        if let Err(why) = worked {
            client.record(What::GivenUp { section, why });
        }
    }
    client.point(Point::Released).await;
    match worked {
        Ok(()) if lease.row.is_some_and(|row| row != item.row) => Outcome::Another,
        Ok(()) => Outcome::Done,
        Err(why) => Outcome::GivenUp(why),
    }
}

/// One attempt at an item without any lock: `lease` is only how the store is reached.
pub(crate) async fn without_lock(client: &Client, lease: &Lease, item: &Item) -> Outcome {
    begin(client, item);
    let section = item.section;
    let worked = work(client, lease, item).await;
    if let Err(why) = worked {
        client.record(What::GivenUp { section, why });
    }
    client.point(Point::Released).await;
    worked.map_or_else(Outcome::GivenUp, |()| Outcome::Done)
}

/// A section begins.
pub(crate) fn begin(client: &Client, item: &Item) {
    let (key, section) = (item.key.clone(), item.section);
    client.enter(section);
    client.record(What::Asked { key, section });
}

/// An item is done.
pub(crate) fn done(client: &Client, item: &Item, row: u32, wrote: bool) {
    let section = item.section;
    client.record(What::ItemDone {
        section,
        row,
        wrote,
    });
}

/// Thinks, and acts where the work does so before it writes.
pub(crate) async fn think(
    client: &Client,
    lease: &Lease,
    item: &Item,
    row: u32,
) -> Result<(), GaveUp> {
    let &Item { section, takes, .. } = item;
    client.record(What::Working { section, takes });
    match &lease.loss {
        None => client.sleep(takes).await,
        Some(loss) => {
            if client.timeout(takes, loss.raised()).await.is_ok() {
                return Err(GaveUp::LeaseLost);
            }
        }
    }
    if item.task.acts() == Acts::BeforeWrite {
        look(lease)?;
        act(client, lease, item, row);
    }
    Ok(())
}

/// Does what no database can take back.
pub(crate) fn act(client: &Client, lease: &Lease, item: &Item, row: u32) {
    let (token, section) = (lease.token.clone(), item.section);
    client.record(What::Effect {
        token,
        section,
        row,
    });
}

async fn work(client: &Client, lease: &Lease, item: &Item) -> Result<(), GaveUp> {
    let row = lease.row.unwrap_or(item.row);
    let state = read(client, lease, row).await?;
    let decision = item.task.decide(client.number(), state);
    if decision == Decision::Reread {
        think(client, lease, item, row).await?;
        read(client, lease, row).await?;
    }
    let Some(write) = lease.write(row, decision, state) else {
        done(client, item, row, false);
        return Ok(());
    };
    think(client, lease, item, row).await?;

    client.point(Point::BeforeWrite).await;
    look(lease)?;
    client.point(Point::WriteChecked).await;
    match lease.ask(client, &write).await {
        Ok(Reply::Accepted) => lease.wrote.set(true),
        Ok(_) => return Err(GaveUp::StoreRefused),
        Err(error) => return Err(lease.silent(error)),
    }
    if item.task.acts() == Acts::AfterWrite {
        act(client, lease, item, row);
    }
    if !lease.commits_at_release() {
        done(client, item, row, true);
    }
    client.point(Point::AfterWrite).await;
    Ok(())
}

async fn read(client: &Client, lease: &Lease, row: u32) -> Result<Row, GaveUp> {
    client.point(Point::BeforeRead).await;
    look(lease)?;
    client.point(Point::ReadChecked).await;
    let state = match lease.ask(client, &lease.read(row)).await {
        Ok(Reply::Row(state)) => state,
        Ok(_) => return Err(GaveUp::StoreRefused),
        Err(error) => return Err(lease.silent(error)),
    };
    client.point(Point::AfterRead).await;
    Ok(state)
}

fn look(lease: &Lease) -> Result<(), GaveUp> {
    match &lease.loss {
        Some(loss) if loss.is_lost() => Err(GaveUp::LeaseLost),
        _ => Ok(()),
    }
}
