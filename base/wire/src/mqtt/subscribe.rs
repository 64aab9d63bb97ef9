//! SUBSCRIBE, UNSUBSCRIBE and their answers.

use super::packet::{Body, PacketError, Qos, Version};
use super::property::{Place, Properties, sized, write_bytes};
use super::topic::{is_topic_filter, shared_filter, text};
use crate::reader::Reader;

/// Whether a subscription gets messages that were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RetainHandling {
    /// Each time.
    #[default]
    Send = 0,
    /// If the subscription is new.
    SendIfNew = 1,
    /// Never.
    DoNotSend = 2,
}

/// How a subscription is served. All but the QoS is version 5's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Highest QoS.
    pub qos: Qos,
    /// Whether the client's own messages are left out.
    pub no_local: bool,
    /// Whether the retain flag stays as the publisher set it.
    pub retain_as_published: bool,
    /// Whether it gets messages that were kept.
    pub retain_handling: RetainHandling,
}

impl SubscriptionOptions {
    /// The octet of version 5.
    #[must_use]
    pub const fn bits(self) -> u8 {
        (self.qos as u8)
            | (self.no_local as u8) << 2
            | (self.retain_as_published as u8) << 3
            | (self.retain_handling as u8) << 4
    }

    /// `None` if a reserved bit is set, or a number is none of its choices.
    fn of_bits(bits: u8, version: Version) -> Option<Self> {
        let bits = match version {
            Version::V31 => bits & 0x03,
            Version::V311 if bits & !0x03 != 0 => return None,
            _ => bits,
        };
        let retain_handling = match bits >> 4 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DoNotSend,
            _ => return None,
        };
        Some(Self {
            qos: Qos::of_bits(bits & 3)?,
            no_local: bits & 4 != 0,
            retain_as_published: bits & 8 != 0,
            retain_handling,
        })
    }
}

/// One subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// Topic filter.
    pub filter: &'a str,
    /// How it is served.
    pub options: SubscriptionOptions,
}

/// A list: items received, as a view of their bytes that has been walked once, or items given to be written.
#[derive(Clone, Copy, Debug)]
enum Source<'a, T> {
    Received(&'a [u8], Version),
    Given(&'a [T]),
}

/// Subscriptions of a SUBSCRIBE. Equality is equality of the subscriptions in order.
#[derive(Clone, Copy, Debug)]
pub struct Subscriptions<'a>(Source<'a, Subscription<'a>>);

impl<'a> Subscriptions<'a> {
    /// These.
    #[must_use]
    pub const fn of(subscriptions: &'a [Subscription<'a>]) -> Self {
        Self(Source::Given(subscriptions))
    }

    /// The subscriptions in order.
    pub fn iter(&self) -> impl Iterator<Item = Subscription<'a>> + use<'a> {
        let (received, version, given) = match self.0 {
            Source::Received(bytes, version) => (bytes, version, &[][..]),
            Source::Given(subscriptions) => (&[][..], Version::V5, subscriptions),
        };
        let mut reader = Reader::new(received);
        let received = std::iter::from_fn(move || read_subscription(&mut reader, version));
        received.chain(given.iter().copied())
    }
}

impl PartialEq for Subscriptions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Subscriptions<'_> {}

fn read_subscription<'a>(reader: &mut Reader<'a>, version: Version) -> Option<Subscription<'a>> {
    let filter = text(sized(reader)?)?;
    let options = SubscriptionOptions::of_bits(reader.u8()?, version)?;
    Some(Subscription { filter, options })
}

/// Asks for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Id of the packet.
    pub packet_id: u16,
    /// Properties.
    pub properties: Properties<'a>,
    /// The subscriptions; one at least.
    pub subscriptions: Subscriptions<'a>,
}

impl<'a> Subscribe<'a> {
    pub(super) fn read(body: &mut Body<'a>, version: Version) -> Result<Self, PacketError> {
        let packet_id = body.packet_id()?;
        let properties = body.properties(version, Place::SUBSCRIBE)?;
        let bytes = body.rest();
        if bytes.is_empty() {
            return Err(body.protocol());
        }
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let subscription = read_subscription(&mut reader, version).ok_or(body.malformed())?;
            check_filter(subscription.filter, version)?;
            // No-local makes no sense where others share the subscription (MQTT-3.8.3-4).
            if subscription.options.no_local && shared_filter(subscription.filter).is_some() {
                return Err(body.protocol());
            }
        }
        Ok(Self { packet_id, properties, subscriptions: Subscriptions(Source::Received(bytes, version)) })
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.to_be_bytes());
        if version == Version::V5 {
            self.properties.write(out);
        }
        for Subscription { filter, options } in self.subscriptions.iter() {
            write_bytes(filter.as_bytes(), out);
            out.push(if version == Version::V5 { options.bits() } else { options.qos as u8 });
        }
    }
}

/// Only version 5 has shared subscriptions; before, `$share` is a level as any other.
fn check_filter(filter: &str, version: Version) -> Result<(), PacketError> {
    let is_bad_share = version == Version::V5 && shared_filter(filter) == Some(None);
    if is_topic_filter(filter) && !is_bad_share { Ok(()) } else { Err(PacketError::BadTopicFilter) }
}

/// Topic filters of an UNSUBSCRIBE. Equality is equality of the filters in order.
#[derive(Clone, Copy, Debug)]
pub struct Filters<'a>(Source<'a, &'a str>);

impl<'a> Filters<'a> {
    /// These.
    #[must_use]
    pub const fn of(filters: &'a [&'a str]) -> Self {
        Self(Source::Given(filters))
    }

    /// The filters in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (received, given) = match self.0 {
            Source::Received(bytes, _) => (bytes, &[][..]),
            Source::Given(filters) => (&[][..], filters),
        };
        let mut reader = Reader::new(received);
        std::iter::from_fn(move || text(sized(&mut reader)?)).chain(given.iter().copied())
    }
}

impl PartialEq for Filters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Filters<'_> {}

/// Asks for no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Id of the packet.
    pub packet_id: u16,
    /// Properties.
    pub properties: Properties<'a>,
    /// The filters that are no longer subscribed to; one at least.
    pub filters: Filters<'a>,
}

impl<'a> Unsubscribe<'a> {
    pub(super) fn read(body: &mut Body<'a>, version: Version) -> Result<Self, PacketError> {
        let packet_id = body.packet_id()?;
        let properties = body.properties(version, Place::UNSUBSCRIBE)?;
        let bytes = body.rest();
        if bytes.is_empty() {
            return Err(body.protocol());
        }
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let filter = sized(&mut reader).and_then(text).ok_or(body.malformed())?;
            check_filter(filter, version)?;
        }
        Ok(Self { packet_id, properties, filters: Filters(Source::Received(bytes, version)) })
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.to_be_bytes());
        if version == Version::V5 {
            self.properties.write(out);
        }
        self.filters.iter().for_each(|filter| write_bytes(filter.as_bytes(), out));
    }
}

/// Answers a SUBSCRIBE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Id of the SUBSCRIBE.
    pub packet_id: u16,
    /// Properties.
    pub properties: Properties<'a>,
    /// For each subscription the QoS that was granted, or why not.
    pub codes: &'a [u8],
}

impl<'a> SubAck<'a> {
    pub(super) fn read(body: &mut Body<'a>, version: Version) -> Result<Self, PacketError> {
        let packet_id = body.packet_id()?;
        let properties = body.properties(version, Place::SUBACK)?;
        Ok(Self { packet_id, properties, codes: body.rest() })
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.to_be_bytes());
        if version == Version::V5 {
            self.properties.write(out);
        }
        out.extend_from_slice(self.codes);
    }
}

/// Answers an UNSUBSCRIBE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// Id of the UNSUBSCRIBE.
    pub packet_id: u16,
    /// Properties.
    pub properties: Properties<'a>,
    /// For each filter how it went, in version 5; not written before.
    pub codes: &'a [u8],
}

impl<'a> UnsubAck<'a> {
    pub(super) fn read(body: &mut Body<'a>, version: Version) -> Result<Self, PacketError> {
        let packet_id = body.packet_id()?;
        if version != Version::V5 {
            return Ok(Self { packet_id, ..Self::default() });
        }
        let properties = body.properties(version, Place::SUBACK)?;
        Ok(Self { packet_id, properties, codes: body.rest() })
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.to_be_bytes());
        if version == Version::V5 {
            self.properties.write(out);
            out.extend_from_slice(self.codes);
        }
    }
}
