//! What an algorithm says of itself before anything runs.

use std::collections::BTreeMap;

use sim::fault::Point;
use sim::history::Stored;
use sim::redis::parts;
use sim::{NodeId, Software};

/// What one server would show to a reader at one instant: its keys that have not expired.
pub type Shown = BTreeMap<String, Stored>;

/// Who holds a key, as owner tokens, given what every server shows at one instant.
pub type Holders = fn(key: &str, servers: &[Shown]) -> Vec<String>;

/// What an algorithm needs, promises and assumes.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// One line for lists.
    pub summary: &'static str,
    /// Where the algorithm is published.
    pub source: &'static str,
    /// Which locks it behaves like; expectations are given by family.
    pub family: Family,
    /// The servers it needs.
    pub service: Service,
    /// The points it reaches beside those of every section.
    pub points: &'static [Point],
    /// Whether it promises first come, first served.
    pub ordered: bool,
    /// Which kinds of work it can do.
    pub works: Works,
    /// What must be true of the world for its promise to hold.
    pub assumes: &'static [Assumption],
    /// Who holds a key. `None` for a lock that lives in the process and records its grants.
    pub holders: Option<Holders>,
}

/// Which locks an algorithm behaves like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Released by whoever comes: no owner is checked.
    Plain,
    /// Released by its owner alone.
    Tokened,
    /// Refreshed while its holder works.
    Renewing,
    /// Writes carry a growing number; the store refuses an old one.
    Fenced,
    /// As fenced, and the first access already installs the number.
    Claimed,
    /// Held on a majority of independent servers.
    Quorum,
    /// The lock and the write share a transaction.
    Transactional,
    /// No lock at all.
    LockFree,
    /// Held on a coordination server, by a session or a record that is kept fresh.
    Session,
}

impl Family {
    /// Every family.
    pub const ALL: &[Self] = &[
        Self::Plain,
        Self::Tokened,
        Self::Renewing,
        Self::Fenced,
        Self::Claimed,
        Self::Quorum,
        Self::Transactional,
        Self::LockFree,
        Self::Session,
    ];

    /// The name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tokened => "tokened",
            Self::Renewing => "renewing",
            Self::Fenced => "fenced",
            Self::Claimed => "claimed",
            Self::Quorum => "quorum",
            Self::Transactional => "transactional",
            Self::LockFree => "lock-free",
            Self::Session => "session",
        }
    }
}

/// Which kinds of work an algorithm can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Works {
    /// Whatever can be done between acquire and release.
    Any,
    /// The kinds of these names.
    Only(&'static [&'static str]),
}

impl Works {
    /// Whether a kind is among them.
    pub fn includes(self, kind: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(kinds) => kinds.contains(&kind),
        }
    }
}

/// The servers an algorithm needs, beside the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// None: it lives in the process.
    None,
    /// One Redis server.
    Redis,
    /// A master with replicas, which clients follow.
    Replicated {
        /// How many copy it.
        replicas: u16,
        /// How many watch over it.
        sentinels: u16,
    },
    /// Redis servers that know nothing of each other.
    Independent(u16),
    /// As independent ones, and the lock asks one after the other.
    InTurn(u16),
    /// A coordination server.
    Coordination,
    /// The store itself.
    Store,
}

impl Service {
    /// How many servers that is.
    pub fn servers(self) -> u16 {
        match self {
            Self::None | Self::Store => 0,
            Self::Redis | Self::Coordination => 1,
            Self::Replicated { replicas, .. } => 1 + replicas,
            Self::Independent(servers) | Self::InTurn(servers) => servers,
        }
    }

    /// What runs on them.
    pub fn software(self) -> Software {
        match self {
            Self::Coordination => Software::Coordination,
            _ => Software::Redis,
        }
    }

    /// The nodes that the lock lives on, in a world with so many servers.
    pub fn nodes(self, servers: u16) -> Vec<NodeId> {
        match self {
            Self::Store => vec![NodeId::Store],
            _ => (1..=servers).map(NodeId::Lock).collect(),
        }
    }
}

/// What must be true of the world for a lock's promise to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assumption {
    /// There is one process.
    OneProcess,
    /// No holder dies.
    HoldersLive,
    /// No section outlives the lease, pauses and network delays included.
    SectionWithinLease,
    /// Nothing stands between the last look at the lease and the write.
    WriteAtOnce,
    /// The servers' clocks do not step.
    ClocksDoNotStep,
    /// The clients' wall clocks agree.
    ClientClocksAgree,
    /// All clocks run at about the same rate.
    ClocksRunAlike,
    /// No server loses data.
    DataIsKept,
    /// Every request to acquire is answered.
    AcquiresAnswered,
    /// Every request to release is answered.
    ReleasesAnswered,
    /// No replica becomes the master that has not copied everything.
    NoFailover,
    /// The store checks fences.
    StoreChecks,
    /// The database drops no session, and no machine vanishes without a word.
    SessionsLive,
    /// Every client has a database session of its own.
    OwnSession,
}

impl Assumption {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::OneProcess => "there is one process",
            Self::HoldersLive => "no holder dies",
            Self::SectionWithinLease => "no section outlives the lease",
            Self::WriteAtOnce => "nothing delays a write after the last look at the lease",
            Self::ClocksDoNotStep => "the servers' clocks do not step",
            Self::ClientClocksAgree => "the clients' wall clocks agree",
            Self::ClocksRunAlike => "all clocks run at about the same rate",
            Self::DataIsKept => "no server loses data",
            Self::AcquiresAnswered => "every request to acquire is answered",
            Self::ReleasesAnswered => "every request to release is answered",
            Self::NoFailover => "no replica is promoted that lacks a write",
            Self::StoreChecks => "the store checks fences",
            Self::SessionsLive => "the database drops no session, and no client's machine vanishes",
            Self::OwnSession => "every client has a database session of its own",
        }
    }
}

/// The owner is whoever's token the first server shows under the key.
pub fn owner_of_key(key: &str, servers: &[Shown]) -> Vec<String> {
    servers[0]
        .get(key)
        .map(|stored| stored.value.clone())
        .into_iter()
        .collect()
}

/// Whose tokens a value holds: a string is one token, and the fields of a hash are one each.
pub fn owners(stored: &Stored) -> impl Iterator<Item = String> + use<> {
    parts(&stored.value).into_iter().map(|(owner, _)| owner)
}

/// The owners are the fields of the hash that the first server shows under the key.
pub fn owner_of_hash(key: &str, servers: &[Shown]) -> Vec<String> {
    let stored = servers[0].get(key);
    stored.into_iter().flat_map(owners).collect()
}

/// The owners are the fields of such a hash whose `mode` is "write", or if it is "read" those who have
/// a hold beside it that is not over.
pub fn owner_of_mode(key: &str, servers: &[Shown]) -> Vec<String> {
    let reads = |stored: &Stored| parts(&stored.value).contains(&("mode".into(), "read".into()));
    let reads = servers[0].get(key).is_some_and(reads);
    let holds = |owner: &str| {
        let hold = format!("{{{key}}}:{owner}:");
        let first = servers[0].range(hold.clone()..).next();
        first.is_some_and(|(name, _)| name.starts_with(&hold))
    };
    let mut owners = owner_of_hash(key, servers);
    owners.retain(|owner| owner != "mode" && (!reads || holds(owner)));
    owners
}

/// The owner is whoever's token a majority of the servers shows under the key.
pub fn owner_by_majority(key: &str, servers: &[Shown]) -> Vec<String> {
    let shown = servers.iter().filter_map(|server| server.get(key));
    chosen(servers.len(), shown.map(|stored| stored.value.as_str()))
}

/// The owner is whoever's token is a field of the hash that a majority of the servers shows under
/// the key.
pub fn field_by_majority(key: &str, servers: &[Shown]) -> Vec<String> {
    let shown = servers.iter().filter_map(|server| server.get(key));
    chosen(servers.len(), shown.flat_map(owners))
}

/// Who has the votes of more than half of so many.
fn chosen<T: Ord + Into<String>>(servers: usize, votes: impl Iterator<Item = T>) -> Vec<String> {
    let mut counts = BTreeMap::<T, usize>::new();
    for vote in votes {
        *counts.entry(vote).or_default() += 1;
    }
    let majority = |(token, votes): (T, usize)| (votes > servers / 2).then(|| token.into());
    counts.into_iter().filter_map(majority).collect()
}

/// The owner is whoever's token is in the oldest of the keys below this one.
pub fn owner_by_age(key: &str, servers: &[Shown]) -> Vec<String> {
    let children = format!("{key}/");
    let below = servers[0].range(children.clone()..);
    let below = below.take_while(|(name, _)| name.starts_with(&children));
    let oldest = below.min_by_key(|(_, stored)| stored.tracked.map(|tracked| tracked.created));
    oldest
        .map(|(_, stored)| stored.value.clone())
        .into_iter()
        .collect()
}

/// The owner is whoever's token a key shows that is bound to a session.
pub fn owner_by_session(key: &str, servers: &[Shown]) -> Vec<String> {
    let bound = servers[0]
        .get(key)
        .filter(|stored| stored.tracked.is_some_and(|t| t.session.is_some()));
    bound
        .map(|stored| stored.value.clone())
        .into_iter()
        .collect()
}

/// The owner is whoever's token a record names. Nobody if it names none.
pub fn owner_in_record(key: &str, servers: &[Shown]) -> Vec<String> {
    let mut owner = owner_of_key(key, servers);
    owner.retain(|token| !token.is_empty());
    owner
}
