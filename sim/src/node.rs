//! Who is who in a world.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One process of a world, by its role. Roles are counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeId {
    /// A client: it takes locks and works under them.
    Client(u16),
    /// A server that locks live on, whatever software it runs.
    Lock(u16),
    /// A sentinel: it watches over a master and its replicas.
    Sentinel(u16),
    /// The store that the locks protect.
    Store,
}

impl NodeId {
    /// Whether it is a client.
    pub fn is_client(self) -> bool {
        matches!(self, Self::Client(_))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(number) => write!(f, "client-{number}"),
            Self::Lock(number) => write!(f, "lock-{number}"),
            Self::Sentinel(number) => write!(f, "sentinel-{number}"),
            Self::Store => f.write_str("store"),
        }
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let number = |prefix| name.strip_prefix(prefix)?.parse().ok();
        let client = || number("client-").map(Self::Client);
        let lock = || number("lock-").map(Self::Lock);
        let sentinel = || number("sentinel-").map(Self::Sentinel);
        let store = || (name == "store").then_some(Self::Store);
        let node = client().or_else(lock).or_else(sentinel).or_else(store);
        node.ok_or_else(|| serde::de::Error::custom(format!("there is no node `{name}`")))
    }
}
