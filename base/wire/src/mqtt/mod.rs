//! MQTT 3.1, 3.1.1 and 5 in one codec; the version is an argument.
//!
//! Both directions of every packet encode and decode, so the same code serves the broker, clients and fuzzers. Principal
//! types: [`Packet`], [`Publish`], [`Properties`].
//!
//! Sources: OASIS MQTT 3.1.1 and 5.0, IBM's MQTT 3.1. Stricter than RabbitMQ's parser: strings must be UTF-8 without
//! NUL, topics and filters must be well-formed, reserved bits must be as the specifications say, and properties must be
//! allowed where they stand. Lengths in longer forms than need be are read.

mod connect;
mod frame;
mod packet;
mod property;
pub mod reason;
mod subscribe;
mod topic;

pub use connect::{ConnAck, Connect, Will};
pub use frame::{Frame, FrameError, Parsed, REMAINING_LENGTH_MAX, parse_frame};
pub use packet::{Ack, Auth, Disconnect, Packet, PacketError, Publish, Qos, Version};
pub use property::{Properties, Property, VarNumber};
pub use subscribe::{
    Filters, RetainHandling, SubAck, Subscribe, Subscription, SubscriptionOptions, Subscriptions, UnsubAck,
    Unsubscribe,
};
pub use topic::{STRING_BYTES_MAX, is_topic_filter, is_topic_name, shared_filter};
