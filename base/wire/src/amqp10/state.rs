//! Errors, delivery states and terminuses: the composite types inside of performatives.
//!
//! Refuses to know what is done about them (AMQP 1.0 part 2, section 2.8, and part 3, sections 3.4 and 3.5).

use super::compound::{Described, Descriptor, Map};
use super::define::{Composite, composites};
use super::field::{Scalar, Symbol};
use super::symbols::Symbols;
use super::value::Value;
use super::writer::Writer;

composites! {
    /// Why something was refused or ended.
    Error<'a> 0x1d "amqp:error:list" {
        /// The kind of error, such as `amqp:not-found`.
        condition: Symbol<'a>,
        /// The reason, in words.
        description: Option<&'a str>,
        /// More about it.
        info: Map<'a>,
    }

    /// Part of a delivery has arrived.
    Received 0x23 "amqp:received:list" {
        /// Section, counted from 0.
        section_number: u32,
        /// Bytes of that section.
        section_offset: u64,
    }

    /// The message is taken.
    Accepted 0x24 "amqp:accepted:list" {}

    /// The message is invalid.
    Rejected<'a> 0x25 "amqp:rejected:list" {
        /// Why.
        error: Option<Error<'a>>,
    }

    /// The message was not, and will not be, looked at.
    Released 0x26 "amqp:released:list" {}

    /// The message was not taken, and is to be changed before it is tried again.
    Modified<'a> 0x27 "amqp:modified:list" {
        /// Whether it counts as a failed delivery.
        delivery_failed: Option<bool>,
        /// Whether it must not come here again.
        undeliverable_here: Option<bool>,
        /// Annotations to be merged into those of the message.
        message_annotations: Map<'a>,
    }

    /// Where messages come from.
    Source<'a> 0x28 "amqp:source:list" {
        /// Address of the node.
        address: Option<&'a str>,
        /// The part that survives: 0 nothing, 1 the configuration, 2 unsettled deliveries, too.
        durable: u32 = 0,
        /// When the terminus expires.
        expiry_policy: Symbol<'a> = Symbol(b"session-end"),
        /// How long after that, in seconds.
        timeout: u32 = 0,
        /// Whether the node is to be made.
        dynamic: bool = false,
        /// How.
        dynamic_node_properties: Map<'a>,
        /// `move` or `copy`.
        distribution_mode: Option<Symbol<'a>>,
        /// Filters by name, for [`filters`].
        filter: Map<'a>,
        /// The state of deliveries that are settled without an outcome.
        default_outcome: Option<DeliveryState<'a>>,
        /// Outcomes that may be used.
        outcomes: Symbols<'a>,
        /// Capabilities.
        capabilities: Symbols<'a>,
    }

    /// Where messages go to.
    Target<'a> 0x29 "amqp:target:list" {
        /// Address of the node; null for the anonymous terminus.
        address: Option<&'a str>,
        /// The part that survives: 0 nothing, 1 the configuration, 2 unsettled deliveries, too.
        durable: u32 = 0,
        /// When the terminus expires.
        expiry_policy: Symbol<'a> = Symbol(b"session-end"),
        /// How long after that, in seconds.
        timeout: u32 = 0,
        /// Whether the node is to be made.
        dynamic: bool = false,
        /// How.
        dynamic_node_properties: Map<'a>,
        /// Capabilities.
        capabilities: Symbols<'a>,
    }

    /// The target of a link that controls transactions; RabbitMQ has none.
    Coordinator<'a> 0x30 "amqp:coordinator:list" {
        /// Capabilities.
        capabilities: Symbols<'a>,
    }
}

/// A source of nothing but defaults.
impl Default for Source<'_> {
    fn default() -> Self {
        Self {
            address: None,
            durable: 0,
            expiry_policy: Symbol(b"session-end"),
            timeout: 0,
            dynamic: false,
            dynamic_node_properties: Map::EMPTY,
            distribution_mode: None,
            filter: Map::EMPTY,
            default_outcome: None,
            outcomes: Symbols::EMPTY,
            capabilities: Symbols::EMPTY,
        }
    }
}

/// A target of nothing but defaults.
impl Default for Target<'_> {
    fn default() -> Self {
        Self {
            address: None,
            durable: 0,
            expiry_policy: Symbol(b"session-end"),
            timeout: 0,
            dynamic: false,
            dynamic_node_properties: Map::EMPTY,
            capabilities: Symbols::EMPTY,
        }
    }
}

/// Whether a described value has this number or this name in front.
pub(super) fn is_described_by(described: &Described<'_>, code: u64, name: &str) -> bool {
    match described.descriptor() {
        Some(Descriptor::Code(number)) => number == code,
        Some(Descriptor::Symbol(symbol)) => symbol == name.as_bytes(),
        None => false,
    }
}

macro_rules! composite_fields {
    ($($name:ident $(<$lifetime:lifetime>)?;)+) => { $(
        impl<'a> Scalar<'a> for $name $(<$lifetime>)? {
            fn read(value: Value<'a>) -> Option<Self> {
                let described = value.as_described()?;
                if !is_described_by(&described, $name::CODE, $name::NAME) {
                    return None;
                }
                Self::read_fields(described.value()?.as_list()?).ok()
            }

            fn write(&self, writer: &mut Writer<'_>) {
                Composite::write(self, writer);
            }

            #[cfg(test)]
            fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
                Composite::sample(samples)
            }
        }
    )+ };
}

composite_fields! {
    Error<'a>;
    Source<'a>;
}

/// The known state of a delivery. All but `Received` and unknown ones are outcomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeliveryState<'a> {
    /// Part of it has arrived.
    Received(Received),
    /// Taken.
    Accepted(Accepted),
    /// Invalid.
    Rejected(Rejected<'a>),
    /// Not looked at.
    Released(Released),
    /// Not taken, to be changed.
    Modified(Modified<'a>),
    /// Something else, such as the state of a transaction; a whole described value.
    Other(Described<'a>),
}

impl<'a> Scalar<'a> for DeliveryState<'a> {
    fn read(value: Value<'a>) -> Option<Self> {
        let described = value.as_described()?;
        let code = match described.descriptor()? {
            Descriptor::Code(code) => code,
            Descriptor::Symbol(name) => code_of_name(name),
        };
        let fields = || described.value()?.as_list();
        Some(match code {
            Accepted::CODE => Self::Accepted(Accepted::read_fields(fields()?).ok()?),
            Released::CODE => Self::Released(Released::read_fields(fields()?).ok()?),
            Rejected::CODE => Self::Rejected(Rejected::read_fields(fields()?).ok()?),
            Modified::CODE => Self::Modified(Modified::read_fields(fields()?).ok()?),
            Received::CODE => Self::Received(Received::read_fields(fields()?).ok()?),
            _ => {
                value.validate().ok()?;
                Self::Other(described)
            }
        })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Received(state) => Composite::write(state, writer),
            Self::Accepted(state) => Composite::write(state, writer),
            Self::Rejected(state) => Composite::write(state, writer),
            Self::Released(state) => Composite::write(state, writer),
            Self::Modified(state) => Composite::write(state, writer),
            Self::Other(described) => writer.value(&Value::Described(*described)),
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        match samples.number() % 5 {
            0 => Self::Received(Composite::sample(samples)),
            1 => Self::Accepted(Accepted {}),
            2 => Self::Rejected(Composite::sample(samples)),
            3 => Self::Released(Released {}),
            _ => Self::Modified(Composite::sample(samples)),
        }
    }
}

/// 0 if it is the name of no delivery state.
fn code_of_name(name: &[u8]) -> u64 {
    let known = [
        (Accepted::CODE, Accepted::NAME),
        (Released::CODE, Released::NAME),
        (Rejected::CODE, Rejected::NAME),
        (Modified::CODE, Modified::NAME),
        (Received::CODE, Received::NAME),
    ];
    known.into_iter().find(|(_, known)| known.as_bytes() == name).map_or(0, |(code, _)| code)
}

/// The target of an attach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttachTarget<'a> {
    /// A node.
    Target(Target<'a>),
    /// The coordinator of transactions.
    Coordinator(Coordinator<'a>),
}

impl<'a> Scalar<'a> for AttachTarget<'a> {
    fn read(value: Value<'a>) -> Option<Self> {
        let described = value.as_described()?;
        let fields = described.value()?.as_list()?;
        if is_described_by(&described, Target::CODE, Target::NAME) {
            return Target::read_fields(fields).ok().map(Self::Target);
        }
        let is_coordinator = is_described_by(&described, Coordinator::CODE, Coordinator::NAME);
        is_coordinator.then(|| Coordinator::read_fields(fields).ok())?.map(Self::Coordinator)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Target(target) => Composite::write(target, writer),
            Self::Coordinator(coordinator) => Composite::write(coordinator, writer),
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        if samples.number().is_multiple_of(3) {
            Self::Coordinator(Composite::sample(samples))
        } else {
            Self::Target(Composite::sample(samples))
        }
    }
}

/// The filters of a [`Source`]: their names, and what they are, a described value each.
///
/// Entries that are not described, or whose key is no text, are left out: a peer must see by the answer which filters
/// are in force.
pub fn filters<'a>(filter: Map<'a>) -> impl Iterator<Item = (&'a [u8], Described<'a>)> + use<'a> {
    filter.iter().filter_map(|(name, value)| Some((name.as_text()?, value.as_described()?)))
}
