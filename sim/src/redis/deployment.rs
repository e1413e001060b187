//! How the Redis servers of a world are set up.

use crate::Millis;

/// How the Redis servers of a world are set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deployment {
    /// How they stand to each other.
    pub shape: Shape,
    /// What they write to disk.
    pub persistence: Persistence,
}

/// How Redis servers stand to each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shape {
    /// They know nothing of each other.
    #[default]
    Independent,
    /// The first is a master when the world starts, and the others copy it. For clients they are
    /// one server: they follow whoever is the master.
    Replicated(Sentinels),
}

/// Who watches over a master and its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentinels {
    /// How many there are. With none, a replica is promoted by an operator's fault alone, and
    /// clients find the master by a name that the operator moves.
    pub number: u16,
    /// For how long a server must be silent to be taken for dead: `down-after-milliseconds`.
    pub down_after: Millis,
}

impl Sentinels {
    /// How many must agree that the master is dead: a majority, as everybody configures it.
    pub fn quorum(self) -> usize {
        usize::from(self.number) / 2 + 1
    }
}

/// What a Redis server writes to disk: what a restart gives back that says [`Data::OnDisk`].
///
/// [`Data::OnDisk`]: crate::fault::Data::OnDisk
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing: `appendonly no` and `save ""`.
    #[default]
    None,
    /// `appendfsync everysec`: a killed process loses nothing that it has answered, a power loss
    /// at most the last second.
    EverySecond,
    /// `appendfsync always`: nothing that it has answered is lost.
    Always,
}

impl Deployment {
    /// Whether the servers are a master and its replicas.
    pub fn is_replicated(self) -> bool {
        self.sentinels().is_some()
    }

    /// Who watches over a master and its replicas.
    pub fn sentinels(self) -> Option<Sentinels> {
        match self.shape {
            Shape::Independent => None,
            Shape::Replicated(sentinels) => Some(sentinels),
        }
    }

    /// How many sentinels there are.
    pub fn sentinel_count(self) -> u16 {
        self.sentinels().map_or(0, |sentinels| sentinels.number)
    }

    /// How many Redis servers a client sees, of which there are `servers`.
    pub fn seen(self, servers: u16) -> u16 {
        if self.is_replicated() {
            servers.min(1)
        } else {
            servers
        }
    }
}
