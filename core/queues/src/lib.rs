//! Queue types as pure machines: events and the time in, effects out.
//!
//! Principal type: [`classic::Classic`]. A machine decides order, limits, expiry, who gets what, and what must be
//! stored; its driver (the broker's queue cell) does it through [`Effects`].
//!
//! Refuses to know: sockets, protocols, files, clocks, locks, other queues.
mod arguments;
mod body;
pub mod classic;
mod effects;
mod logged;
mod message;
pub mod record;
mod service;
mod store;
mod unique;

pub use arguments::{ArgumentError, ArgumentReason, Order, Overflow, QueueConfig, TIMER_MS_MAX};
pub use body::{
    BlockBytes, BodyBuffer, BodyBytes, BodyKeeper, HeldBody, LARGE_BODY_BYTES, LargeBody, SharedBody,
    WeakBody,
};
pub use classic::{Classic, Gone, PublishOutcome};
pub use effects::{BlockToken, DeadReason, Effects, GetToken};
pub use logged::{FirstToGo, LogRange, LoggedBlock, OwnBytes, Place, Remains, Spread};
pub use message::{
    ConsumerId, ConsumerSpec, ConsumerStats, Delivery, Flow, GotMessage, InMemory, IncomingMessage,
    IncomingMessages, MessageSeq, MessageView, QueueCounts, QueueGlance, QueueStats, SettleHow, SettleRun,
};
pub use record::{
    BlockPlace, RecordKind, SettledRun, SharedRef, Stored, begins_with_message, each_enqueued, pack_block,
    settled, unpack_block,
};
pub use service::{DeliveryTotals, DeliveryView, Head, QueueTotals, Scheduled, Standing, letter_bytes};
pub use store::{
    Afterwards, CheckpointBytes, Holes, Left, PlacedBlock, RecordError, Recovering, SegmentRoom, StrayBlock,
    TurnedAway, may_be_block,
};
pub use unique::UniqueKey;
