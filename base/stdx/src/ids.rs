//! Newtypes for the numbers that name things, so that they cannot be mixed up.

use std::fmt;
use std::hash::{Hash, Hasher};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// A client connection; unique over all nodes of a cluster and all their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    /// The node that has it.
    pub node: u16,
    /// The start of that node: a later start has a larger number.
    pub life: u32,
    /// Which connection of that life, in the order in which they came.
    pub count: u64,
}

/// One number for all three: consumers are looked up by it for each settlement, and most connections differ in their count.
impl Hash for ConnectionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.count ^ (u64::from(self.life) << 32) ^ (u64::from(self.node) << 16));
    }
}

/// The count: in what a node says of its own connections the rest is the same for all.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.count.fmt(f)
    }
}

impl ConnectionId {
    /// A connection of a node that belongs to no cluster and has no earlier lives, as in tests.
    #[must_use]
    pub const fn alone(count: u64) -> Self {
        Self { node: 0, life: 0, count }
    }
}

id! {
    /// A queue incarnation; unique for ever in a data directory, a redeclared queue gets a new one.
    QueueId
}
id! {
    /// An exchange incarnation; unique for ever in a data directory.
    ExchangeId
}
