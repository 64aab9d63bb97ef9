//! Queue types as pure machines: events and the time in, effects out.
//!
//! Principal type: [`Machine`]. Each type of queue is one: [`Classic`], [`Delayed`]. A machine decides order, limits, expiry,
//! which consumer gets which message, and which bytes must be stored. Its driver, the broker's queue cell, does what the machine decides
//! through [`Effects`]. Types share the [`Store`] of messages and the [`Service`] of consumers.
//!
//! Refuses to know: sockets, protocols, files, clocks, locks, other queues.
mod arguments;
mod body;
mod classic;
mod delayed;
mod effects;
mod kind;
mod logged;
mod machine;
mod members;
mod quorum;
pub mod record;
mod service;
mod store;
mod stream;
mod traffic;
mod unique;

pub use arguments::{ArgumentError, ArgumentReason, Overflow, QueueConfig, TIMER_MS_MAX};
pub use body::{
    BlockBytes, BodyBuffer, BodyBytes, BodyKeeper, HeldBody, LARGE_BODY_BYTES, LargeBody, SharedBody,
    WeakBody,
};
pub use classic::Classic;
pub use delayed::{Delayed, Scheduled};
pub use effects::{BlockToken, DeadReason, Effects, GetToken};
pub use kind::Kind;
pub use logged::{LogRange, LoggedBlock, OwnBytes, Place, Remains};
pub use machine::{Afterwards, DiskAnswer, Gone, Machine, PublishOutcome, TurnedAway};
pub use members::{Claim, Cursor, Fill, FollowError, Garbled, LiveSet};
pub use quorum::{DELIVERY_LIMIT, Letters, PRIORITY_MAX, Retry, RetryOf};
pub use record::{
    BlockPlace, RecordKind, SettledRun, SharedRef, Stored, begins_with_message, each_enqueued, pack_block,
    settled, unpack_block, whole_record,
};
pub use service::{DeliveryTotals, DeliveryView, Head, QueueTotals, Service, Standing};
pub use store::{
    Holes, Left, PlacedBlock, RecordError, Recovering, SegmentRoom, Store, StrayBlock, may_be_block,
};
pub use stream::{StreamRules, age_ms};
pub use traffic::{
    ConsumerId, ConsumerSpec, ConsumerStats, Credit, CreditNews, Delivery, Flow, GotMessage, InMemory,
    InStream, IncomingMessage, IncomingMessages, MemberStanding, MessageSeq, Peeked, QueueCounts,
    QueueGlance, QueueStats, SettleHow, SettleRun,
};
