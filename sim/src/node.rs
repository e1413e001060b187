//! Who is who in a world.

use std::fmt;

use serde::{Serialize, Serializer};

/// One process of a world, by its role. Roles are counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeId {
    /// A client: it takes locks and works under them.
    Client(u16),
    /// A Redis server that locks live on.
    Lock(u16),
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
            Self::Store => f.write_str("store"),
        }
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
