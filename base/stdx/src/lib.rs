//! Identifiers and small data structures that every layer may use. Knows nothing of the broker's domain beyond names of ids, does no I/O.

mod few_map;
pub mod hamt;
pub mod histogram;
mod ids;
pub mod markup;
pub mod nearest;
mod piece;
mod runs;
mod secret;

pub use few_map::FewMap;
pub use histogram::Histogram;
pub use ids::{ConnectionId, ExchangeId, QueueId};
pub use piece::piece_bytes;
pub use runs::RunSet;
pub use secret::Secret;
