//! The immutable table of one exchange, and the registration list of exchange types.
//!
//! Refuses to know the exchange's name and properties, and where matches go.

use wire::amqp091::{Table as Arguments, Value};

use crate::sink::Sink;
use crate::targets::Targets;
use crate::types::{DirectTable, FanoutTable, HeaderView, HeadersTable, TooManyHashes, TopicTable};
use crate::{Destination, DestinationSet, QueueHandle};

/// Why a binding is refused with 406, with what its text needs.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BindingError<'a> {
    /// B88.
    #[error(transparent)]
    TooManyHashes(#[from] TooManyHashes),
    /// B89: `x-match` is none of `all`, `any`, `all-with-x`, `any-with-x`.
    #[error("invalid x-match value {0:?}")]
    XMatchValue(
        /// What it is.
        &'a [u8],
    ),
    /// B89: `x-match` is no long string.
    #[error("x-match is a {} and no longstr", .0.type_name())]
    XMatchType(
        /// What it is.
        Value<'a>,
    ),
}

/// What routing looks at in a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The routing key and the keys of CC and BCC (B94), in any order, at least one; each at most 255 bytes.
    pub keys: &'a [&'a [u8]],
    /// The headers property. Only headers exchanges look at it.
    pub headers: Option<Arguments<'a>>,
}

/// What a key alone tells about a message's way.
pub enum Lookup<'t, Q: QueueHandle> {
    /// No binding of this exchange matches: to its alternate exchange, or nowhere.
    Nothing,
    /// Exactly these queues, each once: the table's own list, nothing was copied.
    Queues(&'t DestinationSet<Q>),
    /// It takes [`crate::route`]: other exchanges, several places in the table, or headers.
    Walk,
}

impl<'t, Q: QueueHandle> Lookup<'t, Q> {
    pub(crate) fn of(targets: Option<&'t Targets<Q>>) -> Self {
        match targets {
            None => Lookup::Nothing,
            Some(targets) if targets.exchanges().is_some() => Lookup::Walk,
            Some(targets) if targets.is_empty() => Lookup::Nothing,
            Some(targets) => Lookup::Queues(targets.queues()),
        }
    }
}

/// A message with its headers made comparable, if the exchange looks at them.
pub(crate) struct Prepared<'m> {
    pub(crate) keys: &'m [&'m [u8]],
    pub(crate) headers: &'m HeaderView,
}

/// What each exchange type implements.
pub(crate) trait TypeTable<Q: QueueHandle>: Clone + Default {
    /// Whether matching looks at headers.
    const NEEDS_HEADERS: bool = false;

    /// Whether a binding with that key and these arguments may be made.
    fn check<'a>(key: &[u8], arguments: Arguments<'a>) -> Result<(), BindingError<'a>>;

    /// Adds a binding that passed `check`; says whether routes change.
    fn bind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool;

    /// Removes a binding; says whether routes change.
    fn unbind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool;

    fn is_empty(&self) -> bool;

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>);

    fn lookup(&self, key: &[u8]) -> Lookup<'_, Q>;
}

macro_rules! exchange_types {
    ($($(#[$doc:meta])* $kind:ident = $name:literal => $table:ident),+ $(,)?) => {
        /// An exchange type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ExchangeKind {
            $($(#[$doc])* $kind,)+
        }

        impl ExchangeKind {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Name of the type in the protocol.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            /// Whether its bindings look at a message's headers.
            #[must_use]
            pub const fn needs_headers(self) -> bool {
                match self { $(Self::$kind => <$table<u64> as TypeTable<u64>>::NEEDS_HEADERS),+ }
            }

            /// Whether a binding with that key and these arguments may be made in such an exchange.
            ///
            /// # Errors
            /// See [`BindingError`].
            pub fn check_binding<'a>(self, key: &[u8], arguments: Arguments<'a>) -> Result<(), BindingError<'a>> {
                match self { $(Self::$kind => <$table<u64> as TypeTable<u64>>::check(key, arguments)),+ }
            }
        }

        #[derive(Clone)]
        enum Bindings<Q: QueueHandle> {
            $($kind($table<Q>),)+
        }

        /// Runs an expression on the table inside, whatever its type.
        macro_rules! each_type {
            ($bindings:expr, $inner:ident => $result:expr) => {
                match $bindings { $(Bindings::$kind($inner) => $result),+ }
            };
        }

        impl<Q: QueueHandle> Bindings<Q> {
            fn new(kind: ExchangeKind) -> Self {
                match kind { $(ExchangeKind::$kind => Self::$kind($table::default())),+ }
            }

            const fn kind(&self) -> ExchangeKind {
                match self { $(Self::$kind(_) => ExchangeKind::$kind),+ }
            }
        }
    };
}

exchange_types! {
    /// To the destinations bound with exactly the routing key.
    Direct = "direct" => DirectTable,
    /// To all destinations.
    Fanout = "fanout" => FanoutTable,
    /// To the destinations whose binding key, a pattern of words, matches the routing key (B88).
    Topic = "topic" => TopicTable,
    /// To the destinations whose binding arguments match the headers (B89).
    Headers = "headers" => HeadersTable,
}

impl ExchangeKind {
    /// The type of that name.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name().as_bytes() == name)
    }
}

/// The bindings from one exchange, arranged for its type. Cloning is O(1); a change to a clone leaves the others as they
/// are and costs O(key length + log bindings).
#[derive(Clone)]
pub struct Table<Q: QueueHandle>(Bindings<Q>);

impl<Q: QueueHandle> Table<Q> {
    /// A table without bindings.
    #[must_use]
    pub fn new(kind: ExchangeKind) -> Self {
        Self(Bindings::new(kind))
    }

    /// The exchange type it is arranged for.
    #[must_use]
    pub const fn kind(&self) -> ExchangeKind {
        self.0.kind()
    }

    /// Whether no message can match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        each_type!(&self.0, table => table.is_empty())
    }

    /// Adds a binding; says whether routes change.
    ///
    /// The caller has asked [`ExchangeKind::check_binding`], and does not add a binding that is there (equal in key,
    /// arguments and destination, B84): it would be counted twice. A binding that fails the check adds nothing in a
    /// headers exchange.
    pub fn bind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        each_type!(&mut self.0, table => table.bind(key, arguments, destination))
    }

    /// Removes a binding that was added with this key, these arguments and this destination; says whether routes
    /// change. Another binding with the same effect keeps the route.
    pub fn unbind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        each_type!(&mut self.0, table => table.unbind(key, arguments, destination))
    }

    /// What the key alone tells. The answer holds for every message with that key as long as this table is the
    /// exchange's current one, so it may be cached by (table, key).
    #[inline]
    #[must_use]
    pub fn lookup(&self, key: &[u8]) -> Lookup<'_, Q> {
        each_type!(&self.0, table => table.lookup(key))
    }

    #[inline]
    pub(crate) fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        each_type!(&self.0, table => table.collect(message, sink));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_names() {
        for &kind in ExchangeKind::ALL {
            assert_eq!(ExchangeKind::by_name(kind.name().as_bytes()), Some(kind));
        }
        assert_eq!(ExchangeKind::by_name(b"x-foo"), None);
        assert_eq!(ExchangeKind::by_name(b"Direct"), None);
    }

    #[test]
    fn only_headers_exchanges_need_headers() {
        let needing: Vec<_> = ExchangeKind::ALL.iter().filter(|kind| kind.needs_headers()).collect();
        assert_eq!(needing, [&ExchangeKind::Headers]);
    }
}
