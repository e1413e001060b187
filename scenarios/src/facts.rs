//! The facts of a run: its history, and the grants and beliefs computed from it.
//!
//! Grants are computed, not told. The servers' keys are replayed from the changes that they
//! recorded and from their wall clocks; after every change of a key, whatever made it
//! (command, expiry to the millisecond, clock step, restart), the algorithm's own `holders`
//! is asked who holds it. A new holder is a grant. A holder that disappears and comes back
//! under the same token, as when a clock steps back over a key that was not deleted yet, is
//! the same grant.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use algorithms::Service;
use algorithms::declare::{Holders, Shown, owners};
use sim::clock::Clock;
use sim::history::{Event, Stored, What};
use sim::store::{Guard, Row};
use sim::{History, Millis, NodeId};

/// What judging a history needs to know beside it.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// How long a lease lasts.
    pub ttl: Millis,
    /// How long a request to a Redis server is waited for.
    pub redis_timeout: Millis,
    /// When the run was to end at the latest.
    pub ends: Millis,
    /// How many Redis servers the lock lives on.
    pub servers: u16,
    /// Whether they are a master, the first one, and its replicas. Then whoever is a master grants,
    /// and that may be two.
    pub replicated: bool,
    /// What the lock lives on.
    pub service: Service,
    /// How often the work may be done, where it says so.
    pub limit: i64,
    /// How long a database session may be idle.
    pub idle_timeout: Option<Millis>,
    /// Who holds a key; `None` when the lock records its grants itself.
    pub holders: Option<Holders>,
    /// Whether the algorithm promises first come, first served.
    pub ordered: bool,
}

impl Circumstances {
    /// Whether its servers count requests and give nobody anything to hold.
    pub fn counts(&self) -> bool {
        self.servers > 0 && self.holders.is_none()
    }
}

/// The lock service committed a key to a client, heard or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The key.
    pub key: String,
    /// Its place among the grants of its key, counted from one.
    pub number: u32,
    /// The owner token.
    pub token: String,
    /// Who was granted.
    pub client: NodeId,
    /// When.
    pub from: Millis,
    /// Until when; `None` if to the end of the run.
    pub until: Option<Millis>,
    /// The place in the history of the event that made it.
    pub event: usize,
}

/// From acquire returning a lease to the call of release, or to noticing the loss, or to the
/// death of the client or of its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belief {
    /// Who believes.
    pub client: NodeId,
    /// The key.
    pub key: String,
    /// The section.
    pub section: u32,
    /// The owner token.
    pub token: String,
    /// The fence, if the lock draws one.
    pub fence: Option<u64>,
    /// Whether others may believe so too, who only read as this one does.
    pub shared: bool,
    /// Since when.
    pub from: Millis,
    /// Until when; `None` if to the end of the run.
    pub until: Option<Millis>,
    /// The place in the history of its first event.
    pub event: usize,
    /// The place in the history of its last event.
    pub last_event: usize,
}

/// A client wants a key: from its section's first attempt to the lease, or to its crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Who.
    pub client: NodeId,
    /// The key.
    pub key: String,
    /// The section.
    pub section: u32,
    /// When every attempt began.
    pub attempts: Vec<Millis>,
    /// When it was over: the lease came, or the client died; `None` if never.
    pub until: Option<Millis>,
    /// Whether the lease came.
    pub leased: bool,
}

/// A section: from its first attempt to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The place in the history of its first event.
    pub event: usize,
    /// The place in the history of its last event.
    pub last_event: usize,
    /// Whose.
    pub client: NodeId,
    /// Its number among the client's.
    pub number: u32,
    /// The key.
    pub key: String,
    /// When it began.
    pub from: Millis,
    /// When it was over: released, or the client died; `None` if never.
    pub until: Option<Millis>,
}

/// The store read a row for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Whose.
    pub by: NodeId,
    /// The owner token of its lease.
    pub token: String,
    /// The row.
    pub row: u32,
    /// What it saw.
    pub state: Row,
    /// When.
    pub at: Millis,
    /// The place in the history.
    pub event: usize,
}

/// The store accepted or refused a write, or refused a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The store's sequence number; `None` for a refused claim.
    pub sequence: Option<u64>,
    /// Whose.
    pub by: NodeId,
    /// The owner token of its lease.
    pub token: String,
    /// The row.
    pub row: u32,
    /// What it brings.
    pub value: i64,
    /// Whether the store has reckoned that from the row's own value.
    pub adds: bool,
    /// The fence that it comes with.
    pub fence: Option<u64>,
    /// Whether the row was changed.
    pub accepted: bool,
    /// The row before.
    pub before: Row,
    /// When.
    pub at: Millis,
    /// The place in the history.
    pub event: usize,
    /// The grant under which it was made, by its place in [`Facts::grants`].
    pub grant: Option<usize>,
}

/// A section did what no database can take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Whose.
    pub by: NodeId,
    /// The row that it was done for.
    pub row: u32,
    /// When.
    pub at: Millis,
    /// The place in the history.
    pub event: usize,
}

/// After a command of somebody, a grant was in force no more that had been before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Whose command.
    pub by: NodeId,
    /// The grant that was removed, by its place in [`Facts::grants`].
    pub grant: usize,
    /// When.
    pub at: Millis,
    /// The place in the history.
    pub event: usize,
}

/// What a run's invariants and landmarks judge.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The history.
    pub history: &'a History,
    /// What was known before the run.
    pub around: &'a Circumstances,
    /// In the order in which they were made.
    pub grants: Vec<Grant>,
    /// In the order in which they began.
    pub beliefs: Vec<Belief>,
    /// In the order in which they began.
    pub asks: Vec<Ask>,
    /// In the order in which they began.
    pub sections: Vec<Section>,
    /// In the store's order.
    pub reads: Vec<Read>,
    /// In the store's order.
    pub writes: Vec<Write>,
    /// Writes that were undone before anybody saw them: whose, when, and the place in the history.
    pub undone: Vec<(NodeId, Millis, usize)>,
    /// In their order.
    pub effects: Vec<Effect>,
    /// Grants that somebody's command ended, their own holders' included.
    pub removals: Vec<Removal>,
    /// When the last fault that struck was over; `None` while one goes on.
    pub faults_over: Option<Millis>,
    /// Which faults of the plan have struck, by their places.
    pub struck: BTreeSet<usize>,
}

impl<'a> Facts<'a> {
    /// Computes the facts of a history.
    pub fn of(history: &'a History, around: &'a Circumstances) -> Self {
        let mut facts = Self {
            history,
            around,
            grants: Vec::new(),
            beliefs: Vec::new(),
            asks: Vec::new(),
            sections: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            undone: Vec::new(),
            effects: Vec::new(),
            removals: Vec::new(),
            faults_over: Some(0),
            struck: BTreeSet::new(),
        };
        Replay::new(history, around).grants_of(history, &mut facts);
        facts.tell_clients();
        facts.tell_store();
        facts.tell_faults();
        facts
    }

    /// The grant that a lease belongs to, by its place in `grants`.
    pub fn grant_of(&self, token: &str) -> Option<usize> {
        self.grants.iter().position(|grant| grant.token == token)
    }

    /// The writes that the store accepted.
    pub fn accepted(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(|write| write.accepted)
    }

    /// The events of one node.
    pub fn events_of(&self, node: NodeId) -> impl Iterator<Item = &Event> {
        self.history
            .events
            .iter()
            .filter(move |event| event.node == node)
    }

    /// Whether a client other than `client` wants `key` at some time from `from` to `until`.
    pub fn wanted_by_another(
        &self,
        client: NodeId,
        key: &str,
        from: Millis,
        until: Millis,
    ) -> bool {
        self.asks.iter().any(|ask| {
            ask.client != client
                && ask.key == key
                && ask.attempts[0] <= until
                && ask.until.is_none_or(|over| over >= from)
        })
    }

    fn tell_clients(&mut self) {
        for (index, Event { at, node, what }) in self.history.events.iter().enumerate() {
            let (at, client) = (*at, *node);
            match what {
                What::Asked { key, section } => self.asked(client, key, *section, at, index),
                What::Leased {
                    key,
                    section,
                    token,
                    fence,
                    shared,
                } => {
                    if let Some(ask) = self.open_ask(client) {
                        ask.until = Some(at);
                        ask.leased = true;
                    }
                    self.beliefs.push(Belief {
                        client,
                        key: key.clone(),
                        section: *section,
                        token: token.clone(),
                        fence: *fence,
                        shared: *shared,
                        from: at,
                        until: None,
                        event: index,
                        last_event: usize::MAX,
                    });
                }
                What::Releasing { attempt: 1, .. } | What::NoticedLoss { .. } => {
                    self.end_belief(client, at, index);
                }
                What::Reached {
                    point: sim::fault::Point::Released,
                    ..
                } => {
                    self.end_section(client, at, index);
                    // Without a lock there never is a lease.
                    if let Some(ask) = self.open_ask(client) {
                        ask.until = Some(at);
                    }
                }
                What::Crashed | What::ThreadDied if client.is_client() => {
                    if let Some(ask) = self.open_ask(client) {
                        ask.until = Some(at);
                    }
                    self.end_belief(client, at, index);
                    self.end_section(client, at, index);
                }
                _ => {}
            }
        }
    }

    fn asked(&mut self, client: NodeId, key: &str, section: u32, at: Millis, event: usize) {
        if let Some(ask) = self.open_ask(client) {
            ask.attempts.push(at);
            return;
        }
        let key = key.to_owned();
        self.asks.push(Ask {
            client,
            key: key.clone(),
            section,
            attempts: vec![at],
            until: None,
            leased: false,
        });
        self.sections.push(Section {
            event,
            last_event: usize::MAX,
            client,
            number: section,
            key,
            from: at,
            until: None,
        });
    }

    fn open_ask(&mut self, client: NodeId) -> Option<&mut Ask> {
        self.asks
            .iter_mut()
            .rev()
            .find(|ask| ask.client == client)
            .filter(|ask| ask.until.is_none())
    }

    fn end_belief(&mut self, client: NodeId, at: Millis, event: usize) {
        let belief = self
            .beliefs
            .iter_mut()
            .rev()
            .find(|belief| belief.client == client);
        if let Some(belief) = belief.filter(|belief| belief.until.is_none()) {
            belief.until = Some(at);
            belief.last_event = event;
        }
    }

    fn end_section(&mut self, client: NodeId, at: Millis, event: usize) {
        let section = self
            .sections
            .iter_mut()
            .rev()
            .find(|section| section.client == client);
        if let Some(section) = section.filter(|section| section.until.is_none()) {
            section.until = Some(at);
            section.last_event = event;
        }
    }

    fn tell_store(&mut self) {
        for (event, Event { at, what, .. }) in self.history.events.iter().enumerate() {
            let at = *at;
            match what.clone() {
                What::Read {
                    by,
                    token,
                    row,
                    state,
                } => {
                    self.reads.push(Read {
                        by,
                        token,
                        row,
                        state,
                        at,
                        event,
                    });
                }
                What::RefusedClaim {
                    by,
                    token,
                    row,
                    fence,
                    state,
                } => {
                    let grant = self.grant_of(&token);
                    self.writes.push(Write {
                        sequence: None,
                        by,
                        token,
                        row,
                        value: state.value,
                        adds: false,
                        fence: Some(fence),
                        accepted: false,
                        before: state,
                        at,
                        event,
                        grant,
                    });
                }
                What::Write {
                    sequence,
                    by,
                    token,
                    row,
                    value,
                    adds,
                    guard,
                    accepted,
                    before,
                } => {
                    let grant = self.grant_of(&token);
                    let fence = match guard {
                        Guard::Fence { fence, .. } | Guard::Claimed { fence } => Some(fence),
                        _ => None,
                    };
                    self.writes.push(Write {
                        sequence: Some(sequence),
                        by,
                        token,
                        row,
                        value,
                        adds,
                        fence,
                        accepted,
                        before,
                        at,
                        event,
                        grant,
                    });
                }
                What::RolledBack { by, .. } => self.undone.push((by, at, event)),
                What::Effect { row, .. } => {
                    let by = self.history.events[event].node;
                    self.effects.push(Effect { by, row, at, event });
                }
                _ => {}
            }
        }
    }

    fn tell_faults(&mut self) {
        let mut active = BTreeSet::new();
        let mut last = 0;
        for Event { at, what, .. } in &self.history.events {
            match what {
                What::Struck { fault } => {
                    active.insert(*fault);
                    self.struck.insert(*fault);
                }
                What::Over { fault } => {
                    active.remove(fault);
                    last = *at;
                }
                _ => {}
            }
        }
        self.faults_over = active.is_empty().then_some(last);
    }
}

/// What the names of keys begin with that a lock keeps in the same slot of a cluster as its own.
fn beside(lock: &str) -> String {
    format!("{{{lock}}}:")
}

/// The servers' keys as they change.
struct Replay<'a> {
    around: &'a Circumstances,
    /// The keys that clients ask for or get. Another key belongs to the lock whose name and a colon or a
    /// slash it begins with, or to nobody.
    locks: BTreeSet<&'a str>,
    /// Who stored a token first.
    owners: BTreeMap<String, NodeId>,
    /// What every server stores, expired keys included until they are deleted.
    stored: Vec<Shown>,
    clocks: Vec<Clock>,
    /// Which servers show what they store: all, or of a master and its replicas the masters.
    leads: Vec<bool>,
    alive: Vec<bool>,
    /// The grants in force, by key: places in the list of grants.
    held: BTreeMap<String, Vec<usize>>,
    /// Grants by their tokens.
    known: BTreeMap<String, usize>,
    numbers: BTreeMap<String, u32>,
    /// Up to when expiries have been looked at.
    replayed: Millis,
}

impl<'a> Replay<'a> {
    fn new(history: &'a History, around: &'a Circumstances) -> Self {
        let servers = around.service.nodes(around.servers).len();
        let asked = history.events.iter().filter_map(|event| match &event.what {
            // Where the store chooses, a client gets another key than the one it asked for.
            What::Asked { key, .. } | What::Leased { key, .. } => Some(key.as_str()),
            _ => None,
        });
        Self {
            around,
            locks: asked.collect(),
            owners: BTreeMap::new(),
            stored: vec![Shown::new(); servers],
            clocks: vec![Clock::default(); servers],
            leads: (0..servers)
                .map(|server| server == 0 || !around.replicated)
                .collect(),
            alive: vec![true; servers],
            held: BTreeMap::new(),
            known: BTreeMap::new(),
            numbers: BTreeMap::new(),
            replayed: 0,
        }
    }

    fn grants_of(mut self, history: &History, facts: &mut Facts<'_>) {
        // A change that a command makes comes right after it.
        let mut executing = "";
        for (index, Event { at, node, what }) in history.events.iter().enumerate() {
            let at = *at;
            match (node, what) {
                (_, What::Executed { command, .. }) => executing = command,
                (client, What::Granted { key, token }) => {
                    self.grant(facts, key, token, *client, at, index);
                }
                (node, What::Freed { token, .. }) => {
                    let Some(&grant) = self.known.get(token) else {
                        continue;
                    };
                    facts.grants[grant].until = Some(at);
                    // A session that ends frees what it held, and nobody has asked for it.
                    if node.is_client() {
                        let (by, event) = (*node, index);
                        facts.removals.push(Removal {
                            by,
                            grant,
                            at,
                            event,
                        });
                    }
                }
                (node, What::Changed { by, key, after, .. }) => {
                    let Some(server) = self.server(*node) else {
                        continue;
                    };
                    self.expire_until(facts, at, index);
                    match after {
                        Some(after) => {
                            if let Some(by) = by {
                                for owner in owners(after) {
                                    self.owners.entry(owner).or_insert(*by);
                                }
                            }
                            self.stored[server].insert(key.clone(), after.clone());
                        }
                        None => {
                            self.stored[server].remove(key);
                        }
                    }
                    for lock in self.locks_of(key) {
                        let ended = self.ask(facts, lock, at, index);
                        let Some(by) = *by else { continue };
                        // Who takes a lapsed lock over releases nobody's: on a coordination server by
                        // a conditional write of its record, on Redis by a GETSET.
                        let is_new = |grant: &usize| {
                            let grant = &facts.grants[*grant];
                            grant.client == by && grant.event == index
                        };
                        let held = self.held.get(lock);
                        let is_record = after.as_ref().is_some_and(|a| a.tracked.is_some());
                        let takes_over = (is_record || executing == "getset")
                            && held.is_some_and(|now| now.iter().any(is_new));
                        for grant in ended {
                            if takes_over && facts.grants[grant].client != by {
                                continue;
                            }
                            facts.removals.push(Removal {
                                by,
                                grant,
                                at,
                                event: index,
                            });
                        }
                    }
                }
                (NodeId::Lock(server), turn @ (What::Promoted | What::Follows { .. })) => {
                    self.expire_until(facts, at, index);
                    self.leads[usize::from(*server) - 1] = *turn == What::Promoted;
                    self.ask_all(facts, at, index);
                }
                (NodeId::Lock(server), life @ (What::Crashed | What::Started))
                    if self.around.replicated =>
                {
                    self.expire_until(facts, at, index);
                    self.alive[usize::from(*server) - 1] = *life == What::Started;
                    self.ask_all(facts, at, index);
                }
                (client, What::Crashed) if self.around.service == Service::None => {
                    // A lock that lives in the process dies with it.
                    for grant in &mut facts.grants {
                        if grant.client == *client && grant.until.is_none() {
                            grant.until = Some(at);
                        }
                    }
                }
                (
                    node,
                    What::ClockStepped { .. } | What::ClockRate { .. } | What::ClockOffset { .. },
                ) => {
                    let Some(server) = self.server(*node) else {
                        continue;
                    };
                    self.expire_until(facts, at, index);
                    what.applied_to(&mut self.clocks[server], at);
                    self.ask_all(facts, at, index);
                }
                (node, What::DataLost) => {
                    let Some(server) = self.server(*node) else {
                        continue;
                    };
                    self.expire_until(facts, at, index);
                    self.stored[server].clear();
                    self.ask_all(facts, at, index);
                }
                _ => {}
            }
        }
        self.expire_until(facts, history.ended, history.events.len());
    }

    /// The place of a node among those that the lock lives on.
    fn server(&self, node: NodeId) -> Option<usize> {
        match node {
            NodeId::Lock(server) => Some(usize::from(server) - 1),
            NodeId::Store if self.around.service == Service::Store => Some(0),
            _ => None,
        }
    }

    /// The locks that a key of a server belongs to.
    fn locks_of(&self, key: &str) -> Vec<&'a str> {
        let owns = |lock: &&str| {
            let rest = key.strip_prefix(*lock);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
                || key.starts_with(&beside(lock))
        };
        self.locks.iter().copied().filter(owns).collect()
    }

    /// A key is hidden once the server's wall clock has passed its deadline. For one that was
    /// hidden already when the clock last changed, the answer is the time of that change.
    fn hidden_from(&self, server: usize, stored: &Stored) -> Option<Millis> {
        Some(self.clocks[server].wall_shows(stored.deadline? + 1))
    }

    /// Whether clients can be shown what a server stores. A master that is down still counts, for
    /// it may come back with it, until there is another one.
    fn shows(&self, server: usize) -> bool {
        let mut others = self.leads.iter().zip(&self.alive);
        self.leads[server]
            && (!self.around.replicated
                || self.alive[server]
                || !others.any(|(leads, alive)| *leads && *alive))
    }

    /// Who holds `key` at a time. Of two masters either may say so.
    fn holders(&self, holders: Holders, key: &str, at: Millis) -> Vec<String> {
        let shown = self.shown(key, at);
        if !self.around.replicated {
            return holders(key, &shown);
        }
        let masters = (0..shown.len()).filter(|server| self.shows(*server));
        let mut all: Vec<String> = Vec::new();
        for token in masters.flat_map(|server| holders(key, &shown[server..=server])) {
            if !all.contains(&token) {
                all.push(token);
            }
        }
        all
    }

    /// What every server shows at a time of `key` and of the keys that begin with it, or with it in
    /// braces.
    fn shown(&self, key: &str, at: Millis) -> Vec<Shown> {
        let beside = beside(key);
        let visible = |(server, keys): (usize, &Shown)| {
            let of = |start: String| {
                let keys = keys.range(start.clone()..);
                keys.take_while(move |(name, _)| name.starts_with(&start))
            };
            of(key.to_owned())
                .chain(of(beside.clone()))
                .filter(|(_, stored)| {
                    self.hidden_from(server, stored)
                        .is_none_or(|from| at < from)
                })
                .map(|(name, stored)| (name.clone(), stored.clone()))
                .collect()
        };
        self.stored.iter().enumerate().map(visible).collect()
    }

    /// Lets everything expire that does so by `at`.
    fn expire_until(&mut self, facts: &mut Facts<'_>, at: Millis, index: usize) {
        let mut expiring = Vec::new();
        for (server, keys) in self.stored.iter().enumerate() {
            for (key, stored) in keys {
                let hidden = self.hidden_from(server, stored);
                if let Some(hidden) =
                    hidden.filter(|hidden| (self.replayed + 1..=at).contains(hidden))
                {
                    expiring.push((hidden, key.clone()));
                }
            }
        }
        expiring.sort();
        for (hidden, key) in expiring {
            for lock in self.locks_of(&key) {
                self.ask(facts, lock, hidden, index);
            }
        }
        self.replayed = at;
    }

    fn ask_all(&mut self, facts: &mut Facts<'_>, at: Millis, index: usize) {
        for lock in self.locks.clone() {
            self.ask(facts, lock, at, index);
        }
    }

    /// Asks the algorithm who holds `key` now. Says which grants have ended.
    fn ask(&mut self, facts: &mut Facts<'_>, key: &str, at: Millis, index: usize) -> Vec<usize> {
        let Some(holders) = self.around.holders else {
            return Vec::new();
        };
        let holders = self.holders(holders, key, at);
        let mut ended = self.held.remove(key).unwrap_or_default();
        let mut now = Vec::new();
        for token in &holders {
            match (self.known.get(token), self.owners.get(token)) {
                (Some(&grant), _) => {
                    facts.grants[grant].until = None;
                    now.push(grant);
                }
                (None, Some(&owner)) => now.push(self.grant(facts, key, token, owner, at, index)),
                // A key that no client's command made is nobody's lock.
                (None, None) => {}
            }
        }
        ended.retain(|grant| !now.contains(grant));
        for &grant in &ended {
            facts.grants[grant].until = Some(at);
        }
        self.held.insert(key.to_owned(), now);
        ended
    }

    fn grant(
        &mut self,
        facts: &mut Facts<'_>,
        key: &str,
        token: &str,
        client: NodeId,
        from: Millis,
        event: usize,
    ) -> usize {
        let number = self.numbers.entry(key.to_owned()).or_insert(0);
        *number += 1;
        let (key, token, number) = (key.to_owned(), token.to_owned(), *number);
        let place = facts.grants.len();
        self.known.insert(token.clone(), place);
        facts.grants.push(Grant {
            key,
            number,
            token,
            client,
            from,
            until: None,
            event,
        });
        place
    }
}
