//! The interface of the table of every exchange type. Refuses to know which types there are.

use message::{Properties, Table as Arguments, Value};

use crate::sink::Sink;
use crate::targets::Targets;
use crate::types::{HeaderView, SelectorError, TooManyHashes};
use crate::{Destination, DestinationSet, QueueHandle};

/// Parts of a message that routing looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The routing key and the keys of CC and BCC (B94), in any order, at least one; each at most 255 bytes.
    pub keys: &'a [&'a [u8]],
    /// The headers property.
    pub headers: Option<Arguments<'a>>,
    /// All properties. Only consistent-hash exchanges look at some others than headers.
    pub properties: Option<Properties<'a>>,
}

/// The destination of a binding, as far as some types care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingTo {
    /// A classic queue.
    ClassicQueue,
    /// A queue of another type.
    OtherQueue,
    /// An exchange.
    Exchange,
}

/// The facts that the routes from an exchange depend on, its bindings aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutesBy {
    /// The routing keys alone: routes may be remembered by key.
    Key,
    /// Keys, headers and properties.
    Message,
    /// Chance: equal messages go different ways.
    Chance,
}

/// Why a binding is refused with 406, with what its text needs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BindingError<'a> {
    /// B88.
    #[error(transparent)]
    TooManyHashes(#[from] TooManyHashes),
    /// B89: `x-match` is none of `all`, `any`, `all-with-x`, `any-with-x`.
    #[error("invalid x-match value {0:?}")]
    XMatchValue(
        /// The value that was given.
        &'a [u8],
    ),
    /// B89: `x-match` is no long string.
    #[error("x-match is a {} and no longstr", .0.type_name())]
    XMatchType(
        /// The value that was given.
        Value<'a>,
    ),
    /// B92: the key of a consistent-hash binding is no integer.
    #[error("the binding key must be an integer: {0:?}")]
    WeightText(
        /// The key.
        &'a [u8],
    ),
    /// B92: it is not above 0.
    #[error("the binding key must be greater than 0")]
    WeightZero,
    /// B92: it is too large.
    #[error("the binding key must not exceed {max}")]
    WeightTooLarge {
        /// The largest.
        max: u32,
    },
    /// A binding of a local-random exchange has a key.
    #[error("non-empty binding key {0:?}")]
    KeyNotEmpty(
        /// The key.
        &'a [u8],
    ),
    /// A local-random exchange binds classic queues only.
    #[error("queue type not valid for this exchange type")]
    QueueType,
    /// A local-random exchange binds queues only.
    #[error("destination is no queue")]
    NoQueue,
    /// A JMS binding carries no selector.
    #[error("no selector")]
    NoSelector,
    /// A JMS binding carries something that is no selector.
    #[error("invalid selector{0}")]
    Selector(
        /// Why.
        SelectorError,
    ),
}

/// A message's way, as far as its key alone tells.
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
    /// Filled for types that need it.
    pub(crate) headers: &'m HeaderView,
    pub(crate) raw_headers: Option<Arguments<'m>>,
    pub(crate) properties: Properties<'m>,
}

/// The interface of an exchange type.
pub(crate) trait TypeTable<Q: QueueHandle>: Clone + Default {
    /// Whether matching looks at the view of headers.
    const NEEDS_HEADERS: bool = false;

    /// Without bindings, as the exchange's arguments say.
    fn new(_: Arguments<'_>) -> Self {
        Self::default()
    }

    /// Without bindings, as this one's exchange was declared.
    fn emptied(&self) -> Self {
        Self::default()
    }

    /// Whether a binding with that key and these arguments may be made.
    fn check<'a>(key: &'a [u8], arguments: Arguments<'a>, to: BindingTo) -> Result<(), BindingError<'a>>;

    /// Adds a binding that passed `check`; says whether routes change.
    fn bind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool;

    /// Removes a binding; says whether routes change.
    fn unbind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool;

    fn is_empty(&self) -> bool;

    fn routes_by(&self) -> RoutesBy {
        if Self::NEEDS_HEADERS { RoutesBy::Message } else { RoutesBy::Key }
    }

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>);

    fn lookup(&self, key: &[u8]) -> Lookup<'_, Q>;
}
