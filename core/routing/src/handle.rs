//! Queues and exchanges as destinations of routing. Refuses to know what an exchange is.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// An exchange as a destination: hashed and compared by identity.
pub trait ExchangeNode: Debug + Eq + Hash + Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &[u8];
}

/// A handle of a queue: cheap to clone, hashed and compared by identity.
pub trait QueueHandle: Clone + Eq + Hash + Send + Sync + 'static {
    /// The exchanges that stand beside queues in routing tables: [`crate::Exchange`] of this handle.
    type Exchange: ExchangeNode;

    /// How the queues' names compare, byte by byte: the order in which `x-modulus-hash` numbers them (B91).
    fn cmp_names(&self, other: &Self) -> Ordering;
}

/// Where a binding leads.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Destination<Q: QueueHandle> {
    /// To a queue.
    Queue(Q),
    /// To another exchange, which routes on with the same key and headers.
    Exchange(Arc<Q::Exchange>),
}

// By hand: an exchange need not be cloned for that.
impl<Q: QueueHandle> Clone for Destination<Q> {
    fn clone(&self) -> Self {
        match self {
            Self::Queue(queue) => Self::Queue(queue.clone()),
            Self::Exchange(exchange) => Self::Exchange(Arc::clone(exchange)),
        }
    }
}
