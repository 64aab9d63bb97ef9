//! Newtypes for the numbers that name things, so that they cannot be mixed up.

use std::fmt;

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

id! {
    /// A client connection; unique for the life of the process.
    ConnectionId
}
id! {
    /// A queue incarnation; unique for ever in a data directory, a redeclared queue gets a new one.
    QueueId
}
id! {
    /// An exchange incarnation; unique for ever in a data directory.
    ExchangeId
}
