//! The client process as a lock sees it: the simulated one, and the lock's parameters.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use sim::Millis;
use sim::fault::Point;
use sim::store::Comparator;

/// The parameters of a lock: `[lock]` in a scenario file. Times that are not given keep
/// their published proportion to `ttl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a lease lasts, whatever the lock's library calls it.
    pub ttl: Millis,
    /// How often a renewing lock refreshes; a third of `ttl` unless given.
    pub renew_every: Option<Millis>,
    /// How long a quorum lock waits for each server; 0.005 of `ttl` unless given.
    pub server_timeout: Option<Millis>,
    /// How the store compares fences.
    pub comparator: Comparator,
}

/// What a lock may touch: its parameters, and by [`Deref`] its clock, its Redis connections,
/// its store.
#[derive(Debug, Clone)]
pub struct Client {
    inner: sim::Client,
    settings: Rc<Settings>,
    section: Rc<Cell<u32>>,
}

impl Client {
    /// A client with the parameters of the lock that it runs.
    pub fn new(inner: sim::Client, settings: Settings) -> Self {
        Self {
            inner,
            settings: Rc::new(settings),
            section: Rc::default(),
        }
    }

    /// The lock's parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How long a lease lasts.
    pub fn ttl(&self) -> Millis {
        self.settings.ttl
    }

    /// The section that is under way, counted from one.
    pub fn section(&self) -> u32 {
        self.section.get()
    }

    /// Enters a section. Only [`Worker`](crate::Worker)s need it.
    pub fn enter(&self, section: u32) {
        self.section.set(section);
    }

    /// Reaches a point of the section that is under way: faults placed there strike before
    /// anything else runs.
    pub async fn point(&self, point: Point) {
        self.inner.point(point, self.section()).await;
    }
}

impl Deref for Client {
    type Target = sim::Client;

    fn deref(&self) -> &sim::Client {
        &self.inner
    }
}
