//! Exchange types and immutable routing tables. Knows neither queues' contents, nor sockets, nor permissions.
//!
//! An [`Exchange`] points to a [`Table`] that never changes once published. The one writer takes
//! the current table, binds and unbinds on a copy that shares everything it does not touch, and publishes the copy with
//! one pointer store; readers load the pointer once per batch and never wait. [`route`] walks from an exchange over
//! exchange-to-exchange bindings and alternate exchanges and lists each matching queue once.
//!
//! Queues are handles that can be cloned, hashed and compared, nothing more: [`QueueHandle`].
//!
//! Invariants:
//! - a change costs the length of the binding key and the logarithm of the table's size, never the number of bindings;
//! - routing does not allocate once a [`Scratch`] and the result list have grown to what the traffic needs;
//! - the order of results is a function of the bindings and of the hashes of keys and handles (`stdx::hamt::seed_hashes`).
//!
//! Exchange types: one file each in `types`; those with tables are listed in `table.rs`, those that wrap another one in
//! `exchange_type.rs`.

mod chance;
mod destination_set;
mod erlang;
mod exchange;
mod exchange_type;
mod explain;
mod handle;
mod key;
mod line;
mod retired;
mod sink;
mod table;
mod targets;
mod type_table;
mod types;
mod walk;

pub use destination_set::{Chunks, DestinationSet};
pub use exchange::{Exchange, Gate, Passage, Passed, RoutedQueue};
pub use exchange_type::{ArgumentError, Duty, ExchangeType, Persistence, TypeError};
pub use explain::{
    Before, BindingsFrom, Came, End, Explanation, KnownBinding, MatchedBinding, Miss, MissedBinding, Step,
    explain,
};
pub use handle::{Destination, ExchangeNode, QueueHandle};
pub use retired::Retired;
pub use table::{ExchangeKind, Table};
pub use type_table::{BindingError, BindingTo, Lookup, Message, RoutesBy};
pub use types::delayed::delay_ms;
pub use types::{SelectorError, TooManyHashes, topic_key_check};
pub use walk::{Alternates, Scratch, route, route_on};
