//! AMQP 1.0: frames, performatives, values and message sections.
//!
//! A message is never unfolded into values. [`Sections`] finds its sections by their size words, and readers such as
//! [`PropertiesView`] look at one field where it lies. Performatives are read into structs that borrow from the frame.
//! Both directions of all of it encode and decode, so the same code serves the broker, clients and fuzzers. Principal
//! types: [`Performative`], [`Sections`], [`Value`], [`Writer`].
//!
//! Sources: OASIS AMQP 1.0 parts 1, 2, 3 and 5, and RabbitMQ 4.3 where it is more lenient: counts of lists and maps are
//! not looked at, strings of messages need not be UTF-8, symbols need not be ASCII. Stricter than RabbitMQ: nesting
//! beyond [`DEPTH_MAX`] is refused, and strings of performatives must be UTF-8.

mod compound;
pub mod conditions;
mod define;
mod field;
mod frame;
mod message;
mod performative;
#[cfg(test)]
mod samples;
mod section;
mod state;
mod symbols;
mod value;
mod writer;

pub use compound::{Array, Described, Descriptor, Elements, Entries, Items, List, Map};
pub use define::CompositeError;
pub use field::{Str, Symbol, Timestamp};
pub use frame::{
    FRAME_AMQP, FRAME_HEADER_BYTES, FRAME_SASL, FRAME_SIZE_MAX_MIN, Frame, FrameError, HEARTBEAT,
    PROTOCOL_HEADER, Parsed, SASL_PROTOCOL_HEADER, TLS_PROTOCOL_HEADER, parse_frame,
};
pub use message::{Header, MessageId, Properties, PropertiesView};
pub use performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative, ReceiverSettleMode, Role,
    SaslChallenge, SaslCode, SaslInit, SaslMechanisms, SaslOutcome, SaslPerformative, SaslResponse,
    SenderSettleMode, Transfer, decode_transfer, encode_delivery,
};
pub use section::{
    SECTIONS_MAX, Section, SectionCursor, SectionError, SectionKind, Sections, split_section, split_value,
    write_data_head,
};
pub use state::{
    Accepted, AttachTarget, Coordinator, DeliveryState, Error, Modified, Received, Rejected, Released,
    Source, Target, filters,
};
pub use symbols::Symbols;
pub use value::{DEPTH_MAX, TypeError, Value};
pub use writer::{MixedArray, Writer};
