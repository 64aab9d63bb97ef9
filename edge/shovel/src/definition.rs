//! Definition of a shovel: its work. Refuses to know how it is written down.

use std::time::Duration;

use crate::uri::Uri;

/// A shovel, as its parameter says.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Where messages come from.
    pub source: Source,
    /// Where they go.
    pub destination: Destination,
    /// When the source is acked.
    pub ack_mode: AckMode,
    /// Pause after an end that was not asked for; `None` is an end for ever.
    pub reconnect_delay: Option<Duration>,
}

impl Definition {
    /// The objects at both ends, under the names that RabbitMQ has for them in statuses and events.
    #[must_use]
    pub fn ends(&self) -> Vec<(&'static str, &str)> {
        let mut ends = match &self.source.from {
            From::Queue(name) => vec![("src_queue", name.as_str())],
            From::Exchange { name, key } => {
                vec![("src_exchange", name.as_str()), ("src_exchange_key", key.as_str())]
            }
            From::Address(address) => vec![("src_address", address.as_str())],
        };
        match &self.destination.to {
            To::SameExchange => {}
            To::Queue(name) => ends.push(("dest_queue", name)),
            To::Address(address) => ends.push(("dest_address", address)),
            To::Exchange { name, key } => {
                ends.push(("dest_exchange", name));
                ends.extend(key.iter().map(|key| ("dest_exchange_key", key.as_str())));
            }
        }
        ends
    }
}

/// The protocol of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// AMQP 0-9-1.
    Amqp091,
    /// AMQP 1.0.
    Amqp10,
}

impl Protocol {
    /// RabbitMQ's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Amqp091 => "amqp091",
            Protocol::Amqp10 => "amqp10",
        }
    }
}

/// Where messages come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Tried in order, one after each pause; not empty.
    pub uris: Vec<Uri>,
    /// The object consumed from.
    pub from: From,
    /// Arguments of the queue, if it is declared: a raw AMQP table.
    pub queue_arguments: Vec<u8>,
    /// Arguments of the consumer: a raw AMQP table.
    pub consumer_arguments: Vec<u8>,
    /// Tag of the consumer; empty lets the broker choose.
    pub consumer_tag: String,
    /// Most deliveries that are not acked; 0 is no limit but that of the program.
    pub prefetch_count: u16,
    /// When the shovel has done its work.
    pub amount: Amount,
    /// How long it works at most, from its start on: then it deletes itself.
    pub lifetime: Option<Duration>,
    /// Whether the queue is declared.
    pub topology: Topology,
}

/// An object to consume from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A queue.
    Queue(String),
    /// An exchange, through a queue of the shovel's own.
    Exchange {
        /// Its name.
        name: String,
        /// Key of the binding.
        key: String,
    },
    /// A node of AMQP 1.0.
    Address(String),
}

impl From {
    /// The protocol of the source.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        match self {
            From::Queue(_) | From::Exchange { .. } => Protocol::Amqp091,
            From::Address(_) => Protocol::Amqp10,
        }
    }
}

/// How much is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Everything, for ever.
    Unlimited,
    /// As many messages as the queue had when the shovel started; then it deletes itself.
    QueueLength,
    /// So many messages; then it deletes itself.
    Messages(u64),
}

/// The side that makes queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// The shovel declares what is not there.
    Declared,
    /// Everything is there, or the shovel fails.
    Predeclared,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// As [`Source::uris`].
    pub uris: Vec<Uri>,
    /// The object published to.
    pub to: To,
    /// Arguments of the queue, if it is declared: a raw AMQP table.
    pub queue_arguments: Vec<u8>,
    /// Properties that replace those of every message.
    pub properties: Vec<Property>,
    /// Whether `x-shovelled` is prepended with where the message was.
    pub forward_headers: Stamp,
    /// Whether `x-shovelled-timestamp` is set.
    pub timestamp_header: Stamp,
    /// Whether the queue is declared.
    pub topology: Topology,
}

/// Whether a header is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// It is.
    Added,
    /// It is not.
    Omitted,
}

/// An object to publish to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// The exchange and key with which the message came.
    SameExchange,
    /// A queue, through the default exchange.
    Queue(String),
    /// An exchange.
    Exchange {
        /// Its name.
        name: String,
        /// Routing key; `None` keeps that of the message.
        key: Option<String>,
    },
    /// A node of AMQP 1.0.
    Address(String),
}

impl To {
    /// The protocol of the destination.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        match self {
            To::SameExchange | To::Queue(_) | To::Exchange { .. } => Protocol::Amqp091,
            To::Address(_) => Protocol::Amqp10,
        }
    }
}

/// A property that replaces that of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    /// `delivery_mode`.
    DeliveryMode(u8),
    /// `priority`.
    Priority(u8),
    /// `timestamp`, seconds since 1970.
    Timestamp(u64),
    /// One of the texts, at most 255 bytes.
    Text(wire::amqp091::Property, String),
}

/// When the source is acked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// When the destination has confirmed: nothing is lost, something may come twice.
    OnConfirm,
    /// When the message is written to the destination: a message on its way at a failure may be lost.
    OnPublish,
    /// When the source has sent it.
    NoAck,
}

impl AckMode {
    /// RabbitMQ's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AckMode::OnConfirm => "on-confirm",
            AckMode::OnPublish => "on-publish",
            AckMode::NoAck => "no-ack",
        }
    }
}

/// The options of all shovels of a node, whatever their parameters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Shorter [`Source::lifetime`]s are as long as this.
    pub lifetime_min: Duration,
    /// With [`Topology::Predeclared`] no shovel declares anything.
    pub topology: Topology,
}

impl Rules {
    /// A definition as these rules let it be.
    pub(crate) fn applied_to(self, mut definition: Definition) -> Definition {
        let lifetime = &mut definition.source.lifetime;
        *lifetime = lifetime.map(|asked| asked.max(self.lifetime_min));
        if self.topology == Topology::Predeclared {
            definition.source.topology = Topology::Predeclared;
            definition.destination.topology = Topology::Predeclared;
        }
        definition
    }
}
