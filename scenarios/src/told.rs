//! Histories written by hand, to test what judges them.
//!
//! A story is told event by event. What follows from what was told before is filled in: the
//! store's answers, what a server had under a key, the number of a client's section.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::Service;
use algorithms::declare::{Holders, owner_by_majority, owner_of_key};
use sim::clock::Clock;
use sim::fault::Point;
use sim::history::{Event, Release, Stored, What};
use sim::store::{Comparator, Database, Guard, Operation, Request, SessionId};
use sim::{History, Millis, NodeId};

use crate::facts::{Circumstances, Facts};

pub(crate) const A: NodeId = NodeId::Client(1);
pub(crate) const B: NodeId = NodeId::Client(2);
pub(crate) const C: NodeId = NodeId::Client(3);

/// The lease of every lock in these stories.
pub(crate) const TTL: Millis = 10_000;

/// The fence of a write without one.
pub(crate) const PLAIN: Guard = Guard::Plain;

/// A write with a fence, strictly compared.
pub(crate) fn fence(fence: u64) -> Guard {
    let comparator = Comparator::Strict;
    Guard::Fence { fence, comparator }
}

/// A story being told.
pub(crate) struct Told {
    history: History,
    around: Circumstances,
    now: Millis,
    key: String,
    stored: BTreeMap<(u16, String), Stored>,
    clocks: BTreeMap<u16, Clock>,
    store: Database,
    session: SessionId,
    sections: BTreeMap<NodeId, u32>,
    /// Clients whose next attempt begins no section.
    in_section: BTreeSet<NodeId>,
}

impl Told {
    /// Of a lock on one server: whoever's token is there holds it.
    pub(crate) fn of_one() -> Self {
        Self::of(1, Some(owner_of_key))
    }

    /// Of a lock on five servers: whoever's token three of them have holds it.
    pub(crate) fn of_five() -> Self {
        Self::of(5, Some(owner_by_majority))
    }

    /// Of a lock on a master, which is server 1, and two replicas.
    pub(crate) fn of_replicated() -> Self {
        let mut told = Self::of(3, Some(owner_of_key));
        told.around.replicated = true;
        told
    }

    /// Of a lock that lives in the process.
    pub(crate) fn of_none() -> Self {
        Self::of(0, None)
    }

    fn of(servers: u16, holders: Option<Holders>) -> Self {
        let mut store = Database::default();
        Self {
            session: store.connect(),
            history: History::default(),
            around: Circumstances {
                ttl: TTL,
                redis_timeout: 1_000,
                ends: 400_000,
                servers,
                replicated: false,
                service: match servers {
                    0 => Service::None,
                    1 => Service::Redis,
                    more => Service::Independent(more),
                },
                limit: 2,
                idle_timeout: None,
                holders,
                ordered: false,
            },
            now: 0,
            key: "lock:1".into(),
            stored: BTreeMap::new(),
            clocks: BTreeMap::new(),
            store,
            sections: BTreeMap::new(),
            in_section: BTreeSet::new(),
        }
    }

    /// What follows happens then.
    pub(crate) fn at(mut self, time: Millis) -> Self {
        assert!(self.now <= time, "a story is told in order");
        self.now = time;
        self
    }

    /// What follows is about this key.
    pub(crate) fn about(mut self, key: &str) -> Self {
        self.key = key.into();
        self
    }

    fn event(mut self, node: NodeId, what: What) -> Self {
        let at = self.now;
        self.history.events.push(Event { at, node, what });
        self
    }

    // Clients and their lock.

    pub(crate) fn asks(mut self, client: NodeId) -> Self {
        let section = self.sections.entry(client).or_insert(0);
        if self.in_section.insert(client) {
            *section += 1;
        }
        let (key, section) = (self.key.clone(), *section);
        self.event(client, What::Asked { key, section })
    }

    pub(crate) fn denied(self, client: NodeId, held: bool) -> Self {
        let (key, section) = (self.key.clone(), self.sections[&client]);
        self.event(client, What::Denied { key, section, held })
    }

    /// A client's command stores its token on a server, for a TTL.
    pub(crate) fn sets_on(mut self, server: u16, client: NodeId, token: &str) -> Self {
        let wall = self.clocks.entry(server).or_default().wall(self.now);
        self.changes(server, Some(client), Some((token, Some(wall + TTL))))
    }

    pub(crate) fn sets(self, client: NodeId, token: &str) -> Self {
        self.sets_on(1, client, token)
    }

    /// As `sets`, without a TTL.
    pub(crate) fn sets_for_ever(self, client: NodeId, token: &str) -> Self {
        self.changes(1, Some(client), Some((token, None)))
    }

    pub(crate) fn deletes_on(self, server: u16, client: NodeId) -> Self {
        self.changes(server, Some(client), None)
    }

    pub(crate) fn deletes(self, client: NodeId) -> Self {
        self.deletes_on(1, client)
    }

    /// The server deletes an expired key.
    pub(crate) fn sweeps(self) -> Self {
        self.changes(1, None, None)
    }

    fn changes(
        mut self,
        server: u16,
        by: Option<NodeId>,
        after: Option<(&str, Option<Millis>)>,
    ) -> Self {
        let after = after.map(|(value, deadline)| Stored {
            value: value.into(),
            deadline,
            tracked: None,
        });
        let (key, place) = (self.key.clone(), (server, self.key.clone()));
        let before = match after.clone() {
            Some(after) => self.stored.insert(place, after),
            None => self.stored.remove(&place),
        };
        let changed = What::Changed {
            by,
            key,
            before,
            after,
        };
        self.event(NodeId::Lock(server), changed)
    }

    /// The belief begins.
    pub(crate) fn leased(self, client: NodeId, token: &str, fence: Option<u64>) -> Self {
        self.leased_as(client, token, fence, false)
    }

    /// The belief of somebody begins who only reads, and holds the lock together with others.
    pub(crate) fn shares(self, client: NodeId, token: &str) -> Self {
        self.leased_as(client, token, None, true)
    }

    fn leased_as(self, client: NodeId, token: &str, fence: Option<u64>, shared: bool) -> Self {
        let (key, section) = (self.key.clone(), self.sections[&client]);
        let token = token.into();
        self.event(
            client,
            What::Leased {
                key,
                section,
                token,
                fence,
                shared,
            },
        )
    }

    /// A server executes a command of a client.
    pub(crate) fn comes(self, by: NodeId) -> Self {
        let command = "eval";
        self.event(NodeId::Lock(1), What::Executed { by, command })
    }

    /// A client puts its token in the place of what it asks for with a GETSET.
    pub(crate) fn takes_over(self, by: NodeId, token: &str) -> Self {
        let command = "getset";
        self.event(NodeId::Lock(1), What::Executed { by, command })
            .sets_for_ever(by, token)
    }

    /// The lock promises first come, first served.
    pub(crate) fn in_order(mut self) -> Self {
        self.around.ordered = true;
        self
    }

    /// Asks, is granted and told, all at once.
    pub(crate) fn takes(self, client: NodeId, token: &str) -> Self {
        self.asks(client)
            .sets(client, token)
            .leased(client, token, None)
    }

    /// As `takes`, with a fence.
    pub(crate) fn takes_fenced(self, client: NodeId, token: &str, fence: u64) -> Self {
        self.asks(client)
            .sets(client, token)
            .leased(client, token, Some(fence))
    }

    /// Calls release, for the nth time. With the first the belief ends.
    pub(crate) fn releasing(self, client: NodeId, attempt: u32) -> Self {
        let (key, section) = (self.key.clone(), self.sections[&client]);
        self.event(
            client,
            What::Releasing {
                key,
                section,
                attempt,
            },
        )
    }

    pub(crate) fn release_ended(self, client: NodeId, release: Release) -> Self {
        let (key, section) = (self.key.clone(), self.sections[&client]);
        self.event(
            client,
            What::ReleaseEnded {
                key,
                section,
                release,
            },
        )
    }

    /// The section is over.
    pub(crate) fn released(mut self, client: NodeId) -> Self {
        self.in_section.remove(&client);
        self.reaches(client, Point::Released)
    }

    /// Releases its lock, is answered, and the section is over, all at once.
    pub(crate) fn gives_back(self, client: NodeId) -> Self {
        self.releasing(client, 1)
            .deletes(client)
            .release_ended(client, Release::Done)
            .released(client)
    }

    pub(crate) fn reaches(self, client: NodeId, point: Point) -> Self {
        let section = self.sections.get(&client).copied().unwrap_or(0);
        self.event(client, What::Reached { point, section })
    }

    pub(crate) fn works(self, client: NodeId, takes: Millis) -> Self {
        let section = self.sections[&client];
        self.event(client, What::Working { section, takes })
    }

    pub(crate) fn notices_loss(self, client: NodeId) -> Self {
        let section = self.sections[&client];
        self.event(client, What::NoticedLoss { section })
    }

    /// A lock in the process grants itself.
    pub(crate) fn grants_itself(self, client: NodeId, token: &str) -> Self {
        let (key, token) = (self.key.clone(), token.into());
        self.event(client, What::Granted { key, token })
    }

    pub(crate) fn frees_itself(self, client: NodeId, token: &str) -> Self {
        let (key, token) = (self.key.clone(), token.into());
        self.event(client, What::Freed { key, token })
    }

    // The store.

    pub(crate) fn reads(self, client: NodeId, token: &str, row: u32) -> Self {
        self.stores(client, token, Operation::Read { row })
    }

    pub(crate) fn claims(self, client: NodeId, token: &str, row: u32, fence: u64) -> Self {
        self.stores(client, token, Operation::Claim { row, fence })
    }

    pub(crate) fn writes(self, client: NodeId, token: &str, row: u32, guard: Guard) -> Self {
        let value = 1;
        self.stores(client, token, Operation::Write { row, value, guard })
    }

    /// Takes one from the row, or adds what is given.
    pub(crate) fn adds(self, client: NodeId, token: &str, row: u32, value: i64) -> Self {
        let guard = PLAIN;
        self.stores(client, token, Operation::Add { row, value, guard })
    }

    pub(crate) fn acts(self, client: NodeId, token: &str, row: u32) -> Self {
        let (section, token) = (self.sections[&client], token.into());
        self.event(
            client,
            What::Effect {
                token,
                section,
                row,
            },
        )
    }

    fn stores(mut self, by: NodeId, token: &str, operation: Operation) -> Self {
        let request = Request::new(token, operation);
        self.store.execute(self.session, by, &request, 0);
        self.store.take_done();
        let told = self.store.take_told();
        told.into_iter()
            .fold(self, |this, (node, what)| this.event(node, what))
    }

    // Trouble.

    pub(crate) fn crashes(mut self, node: NodeId) -> Self {
        self.in_section.remove(&node);
        self.event(node, What::Crashed)
    }

    pub(crate) fn loses_its_thread(mut self, client: NodeId) -> Self {
        self.in_section.remove(&client);
        self.event(client, What::ThreadDied)
    }

    pub(crate) fn pauses(self, node: NodeId, lasts: Millis) -> Self {
        self.event(node, What::Paused { lasts })
    }

    pub(crate) fn suspends(self, node: NodeId, lasts: Millis) -> Self {
        self.event(node, What::Suspended { lasts })
    }

    pub(crate) fn resumes(self, node: NodeId) -> Self {
        self.event(node, What::Resumed)
    }

    pub(crate) fn wrong_clock(self, client: NodeId) -> Self {
        self.event(client, What::ClockOffset { by: 60_000 })
    }

    pub(crate) fn clock_steps(self, server: u16, by: i64) -> Self {
        self.clock(server, What::ClockStepped { by })
    }

    pub(crate) fn clock_runs(self, server: u16, ppm: i64) -> Self {
        self.clock(server, What::ClockRate { ppm })
    }

    pub(crate) fn clock_is_off(self, server: u16, by: i64) -> Self {
        self.clock(server, What::ClockOffset { by })
    }

    fn clock(mut self, server: u16, what: What) -> Self {
        what.applied_to(self.clocks.entry(server).or_default(), self.now);
        self.event(NodeId::Lock(server), what)
    }

    pub(crate) fn loses_data(mut self, server: u16) -> Self {
        self.stored.retain(|(of, _), _| *of != server);
        self.event(NodeId::Lock(server), What::DataLost)
    }

    /// A replica copies a client's token from its master.
    pub(crate) fn copies(mut self, server: u16, token: &str) -> Self {
        let wall = self.clocks.entry(server).or_default().wall(self.now);
        self.changes(server, None, Some((token, Some(wall + TTL))))
    }

    pub(crate) fn promotes(self, server: u16) -> Self {
        self.event(NodeId::Lock(server), What::Promoted)
    }

    pub(crate) fn follows(self, server: u16, master: u16) -> Self {
        let master = NodeId::Lock(master).to_string();
        self.event(NodeId::Lock(server), What::Follows { master })
    }

    pub(crate) fn server_dies(self, server: u16) -> Self {
        self.event(NodeId::Lock(server), What::Crashed)
    }

    pub(crate) fn server_starts(self, server: u16) -> Self {
        self.event(NodeId::Lock(server), What::Started)
    }

    /// Every key of a server is taken away, by no client.
    pub(crate) fn emptied(mut self, server: u16, why: What) -> Self {
        let node = NodeId::Lock(server);
        self = self.event(node, why);
        let keys: Vec<String> = self
            .stored
            .keys()
            .filter(|(of, _)| *of == server)
            .map(|(_, key)| key.clone())
            .collect();
        keys.iter().fold(self, |told, key| {
            told.about(key).changes(server, None, None)
        })
    }

    pub(crate) fn strikes(self, fault: usize) -> Self {
        self.strikes_on(A, fault)
    }

    pub(crate) fn strikes_on(self, node: NodeId, fault: usize) -> Self {
        self.event(node, What::Struck { fault })
    }

    pub(crate) fn over(self, fault: usize) -> Self {
        self.event(A, What::Over { fault })
    }

    /// The store drops sessions that are idle for so long.
    pub(crate) fn dropping_sessions_after(mut self, idle: Millis) -> Self {
        self.around.idle_timeout = Some(idle);
        self
    }

    /// The run was to end then at the latest.
    pub(crate) fn ending_by(mut self, ends: Millis) -> Self {
        self.around.ends = ends;
        self
    }

    /// The run ended. What follows from it?
    pub(crate) fn ended<R>(mut self, at: Millis, then: impl FnOnce(&Facts<'_>) -> R) -> R {
        assert!(self.now <= at, "a story ends last");
        self.history.ended = at;
        then(&Facts::of(&self.history, &self.around))
    }
}
