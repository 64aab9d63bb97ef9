//! An exchange as routing sees it: its type, its alternate exchange, and the pointer to its current table.
//!
//! Refuses to know permissions, policies and declarations; those belong to metadata and broker.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use message::Table as Arguments;

use crate::exchange_type::{Duty, ExchangeType};
use crate::handle::{Destination, ExchangeNode, QueueHandle};
use crate::{ExchangeKind, Table};

/// Numbers stand for queues in tests and benchmarks.
macro_rules! numbers_are_handles {
    ($($number:ty),+) => { $(
        impl QueueHandle for $number {
            type Exchange = Exchange<$number>;

            fn cmp_names(&self, other: &Self) -> Ordering {
                self.cmp(other)
            }
        }
    )+ };
}

numbers_are_handles!(u32, u64);

/// Decides whether a message passes an exchange at all. Asked once per message and exchange, and may remember it.
pub trait Gate: Send + Sync {
    /// Whether a message with these headers is routed. One that is not has matched nothing.
    fn admits(&self, headers: Option<Arguments<'_>>) -> bool;

    /// The answer that [`Gate::admits`] would give now; remembers nothing.
    fn would_admit(&self, headers: Option<Arguments<'_>>) -> bool;
}

/// The messages that clients have published to an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Messages that came: RabbitMQ's `publish_in`.
    pub arrived: u64,
    /// Queues that they went to, one message to many queues counting many times: `publish_out`.
    pub left: u64,
    /// Mandatory messages that went nowhere.
    pub returned: u64,
    /// Other messages that went nowhere.
    pub dropped: u64,
}

/// Counters of an exchange. Of one that never saw a message: a pointer. Raised by publishers, a batch at a time.
#[derive(Debug, Default)]
pub struct Passed(OnceLock<Box<[AtomicU64; 4]>>);

impl Passed {
    /// Adds what has passed.
    pub fn count(&self, passage: &Passage) {
        let all = self.0.get_or_init(Box::default);
        let Passage { arrived, left, returned, dropped } = *passage;
        for (counter, by) in all.iter().zip([arrived, left, returned, dropped]) {
            // Most messages are routed.
            if by > 0 {
                counter.fetch_add(by, Relaxed);
            }
        }
    }

    /// All that has passed.
    #[must_use]
    pub fn now(&self) -> Passage {
        let Some(all) = self.0.get() else { return Passage::default() };
        let [arrived, left, returned, dropped] = std::array::from_fn(|at| all[at].load(Relaxed));
        Passage { arrived, left, returned, dropped }
    }
}

/// An exchange. Two are equal if their ids are.
///
/// Exchange-to-exchange bindings hold the destination alive, and cycles of them hold each other alive: a caller that deletes
/// an exchange removes the bindings from and to it, or calls [`Exchange::clear`].
pub struct Exchange<Q: QueueHandle> {
    /// Unique for ever, never reused.
    pub id: u64,
    /// Name, unique in its vhost; at most 255 bytes.
    pub name: Box<[u8]>,
    /// How its bindings are arranged.
    pub kind: ExchangeKind,
    /// The duty of the broker with its messages besides routing.
    pub duty: Duty,
    /// Survives a restart.
    pub durable: bool,
    /// Goes away with its last binding (B54); the caller does that.
    pub auto_delete: bool,
    /// Refuses publishes of clients (B57); the caller does that.
    pub internal: bool,
    /// The gate before the table, for a duty that drops messages.
    pub gate: Option<Arc<dyn Gate>>,
    /// The messages that clients have published to it.
    pub passed: Passed,
    alternate: ArcSwapOption<Box<[u8]>>,
    table: ArcSwap<Table<Q>>,
    version: AtomicU64,
}

impl<Q: QueueHandle> Exchange<Q> {
    /// A transient exchange without bindings and arguments; set the public fields before sharing it.
    #[must_use]
    pub fn new(id: u64, name: &[u8], kind: ExchangeKind) -> Self {
        Self::with_arguments(id, name, kind.into(), Arguments::EMPTY)
    }

    /// As [`Exchange::new`], with the type and arguments as declared, checked by [`ExchangeType::parse`]. The caller handles their
    /// alternate exchange.
    #[must_use]
    pub fn with_arguments(id: u64, name: &[u8], declared: ExchangeType, arguments: Arguments<'_>) -> Self {
        let ExchangeType { kind, duty } = declared;
        Self {
            id,
            name: name.into(),
            kind,
            duty,
            durable: false,
            auto_delete: false,
            internal: false,
            gate: None,
            passed: Passed::default(),
            alternate: ArcSwapOption::empty(),
            table: ArcSwap::from_pointee(Table::with_arguments(kind, arguments)),
            version: AtomicU64::new(0),
        }
    }

    /// The current table, for one batch of messages: one pointer load. Not to be kept across waiting.
    #[inline]
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Table<Q>>> {
        self.table.load()
    }

    /// The current table, to be kept.
    #[must_use]
    pub fn table(&self) -> Arc<Table<Q>> {
        self.table.load_full()
    }

    /// Makes a table the current one and returns the one before. Give that to [`Retired`] so that no publisher ends up
    /// freeing it. There must be one writer at a time.
    ///
    /// # Panics
    /// If the table was made for another exchange type.
    #[must_use = "dropping the old table here is fine only if nobody else may hold it"]
    pub fn publish(&self, table: Table<Q>) -> Arc<Table<Q>> {
        assert_eq!(table.kind(), self.kind, "a table of another exchange type");
        let before = self.table.swap(Arc::new(table));
        self.version.fetch_add(1, Release);
        before
    }

    /// How many tables were published. A caller that reads this before the table may rely on the table as long as this stays the same.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Applies changes to a copy of the table and publishes it: one writer, any number of changes, one store. Returns
    /// what the changes returned and the table before.
    pub fn edit<R>(&self, changes: impl FnOnce(&mut Table<Q>) -> R) -> (R, Arc<Table<Q>>) {
        let mut table = Table::clone(&self.table.load());
        let result = changes(&mut table);
        (result, self.publish(table))
    }

    /// Removes all bindings from this exchange, and so every handle it holds. Returns the table before.
    #[must_use = "see publish"]
    pub fn clear(&self) -> Arc<Table<Q>> {
        let emptied = self.load().emptied();
        self.publish(emptied)
    }

    /// Name of the alternate exchange, which need not exist (B93).
    #[must_use]
    pub fn alternate(&self) -> Option<Arc<Box<[u8]>>> {
        self.alternate.load_full()
    }

    /// Sets or removes the alternate exchange: arguments and policies decide it, and policies change.
    pub fn set_alternate(&self, name: Option<&[u8]>) {
        self.alternate.store(name.map(|name| Arc::new(name.into())));
    }
}

impl<Q: QueueHandle> ExchangeNode for Exchange<Q> {
    fn name(&self) -> &[u8] {
        &self.name
    }
}

/// A handle whose tables lead to [`Exchange`]s.
pub trait RoutedQueue: QueueHandle<Exchange = Exchange<Self>> {}

impl<Q: QueueHandle<Exchange = Exchange<Q>>> RoutedQueue for Q {}

impl<Q: QueueHandle> PartialEq for Exchange<Q> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<Q: QueueHandle> Eq for Exchange<Q> {}

impl<Q: QueueHandle> Hash for Exchange<Q> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<Q: QueueHandle> std::fmt::Debug for Exchange<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} exchange {:?} ({})", self.kind.name(), String::from_utf8_lossy(&self.name), self.id)
    }
}

impl<Q: RoutedQueue> From<&Arc<Exchange<Q>>> for Destination<Q> {
    fn from(exchange: &Arc<Exchange<Q>>) -> Self {
        Destination::Exchange(Arc::clone(exchange))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_the_table_it_loaded_while_another_is_published() {
        let exchange = Exchange::<u32>::new(1, b"x", ExchangeKind::Fanout);
        let before = exchange.load();
        let (changed, old) = exchange.edit(|table| table.bind(b"", Arguments::EMPTY, &Destination::Queue(7)));
        assert!(changed);
        assert!(Arc::ptr_eq(&before, &old));
        assert!(before.is_empty());
        assert_eq!(exchange.version(), 1);
        assert!(!exchange.load().is_empty());
    }

    #[test]
    fn clearing_breaks_a_cycle_of_exchanges() {
        let exchanges = [1, 2].map(|id| Arc::new(Exchange::<u32>::new(id, b"x", ExchangeKind::Fanout)));
        for (from, to) in [(0, 1), (1, 0)] {
            exchanges[from].edit(|table| table.bind(b"", Arguments::EMPTY, &(&exchanges[to]).into()));
        }
        assert_eq!(Arc::strong_count(&exchanges[1]), 2);
        drop(exchanges[0].clear());
        assert_eq!(Arc::strong_count(&exchanges[1]), 1);
    }
}
