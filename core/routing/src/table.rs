//! The immutable table of one exchange, and the registration list of exchange types.
//!
//! Refuses to know the exchange's name and properties, and where matches go.

use message::Table as Arguments;

use crate::sink::Sink;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, RoutesBy, TypeTable};
use crate::types::{
    AnyRandomTable, ConsistentHashTable, DirectTable, FanoutTable, HeadersTable, JmsTopicTable,
    LocalRandomTable, ModulusHashTable, TopicTable,
};
use crate::{Destination, QueueHandle};

macro_rules! exchange_types {
    ($($(#[$doc:meta])* $kind:ident = $name:literal => $table:ident),+ $(,)?) => {
        /// How the bindings of an exchange are arranged and matched: an exchange type with a table of its own.
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
            pub fn check_binding<'a>(
                self,
                key: &'a [u8],
                arguments: Arguments<'a>,
                to: BindingTo,
            ) -> Result<(), BindingError<'a>> {
                match self { $(Self::$kind => <$table<u64> as TypeTable<u64>>::check(key, arguments, to)),+ }
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
            fn new(kind: ExchangeKind, arguments: Arguments<'_>) -> Self {
                match kind { $(ExchangeKind::$kind => Self::$kind(TypeTable::<Q>::new(arguments))),+ }
            }

            fn emptied(&self) -> Self {
                match self { $(Self::$kind(table) => Self::$kind(TypeTable::<Q>::emptied(table))),+ }
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
    /// To the one destination that the hash of key, header or property chooses from a ring (B92).
    ConsistentHash = "x-consistent-hash" => ConsistentHashTable,
    /// To the one destination that the hash of the keys chooses (B91).
    ModulusHash = "x-modulus-hash" => ModulusHashTable,
    /// To one destination by chance.
    Random = "x-random" => AnyRandomTable,
    /// To one queue of this node by chance.
    LocalRandom = "x-local-random" => LocalRandomTable,
    /// To the destinations whose selector selects the message.
    JmsTopic = "x-jms-topic" => JmsTopicTable,
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
    /// A table without bindings, of an exchange without arguments.
    #[must_use]
    pub fn new(kind: ExchangeKind) -> Self {
        Self::with_arguments(kind, Arguments::EMPTY)
    }

    /// A table without bindings, of an exchange with these arguments, which were checked by
    /// [`crate::ExchangeType::parse`].
    #[must_use]
    pub fn with_arguments(kind: ExchangeKind, arguments: Arguments<'_>) -> Self {
        Self(Bindings::new(kind, arguments))
    }

    /// A table without bindings for the same exchange.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self(self.0.emptied())
    }

    /// The facts that routes depend on.
    #[must_use]
    pub fn routes_by(&self) -> RoutesBy {
        each_type!(&self.0, table => table.routes_by())
    }

    /// The ring of a consistent-hash exchange, `None` of any other: its destinations in order, each with the number of its
    /// buckets. The first one's are numbered from 0, the next one's from where those end.
    #[must_use]
    pub fn ring(&self) -> Option<Vec<(Destination<Q>, u32)>> {
        let Bindings::ConsistentHash(table) = &self.0 else { return None };
        Some(table.seats().collect())
    }

    /// Whether a binding is one that gives its destination a share. In a ring that is the oldest of those left to each
    /// destination; in any other table, all are.
    pub(crate) fn counts(&self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let Bindings::ConsistentHash(table) = &self.0 else { return true };
        table.counts(key, arguments, destination)
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
    /// arguments and destination, B84): it would be counted twice. A binding that fails the check adds nothing in
    /// exchanges that look at weights, headers or selectors.
    pub fn bind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        each_type!(&mut self.0, table => table.bind(key, arguments, destination))
    }

    /// Removes a binding that was added with this key, these arguments and this destination; says whether routes
    /// change. Another binding with the same effect keeps the route.
    pub fn unbind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        each_type!(&mut self.0, table => table.unbind(key, arguments, destination))
    }

    /// The answer that the key alone gives. It holds for every message with that key and no other as long as this table is
    /// the exchange's current one, so it may be cached by (table, key).
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
    fn only_headers_exchanges_need_the_view_of_headers() {
        let needing: Vec<_> = ExchangeKind::ALL.iter().filter(|kind| kind.needs_headers()).collect();
        assert_eq!(needing, [&ExchangeKind::Headers]);
    }
}
