//! Properties of MQTT 5 (section 2.2.2.2).
//!
//! ```text
//!  length: 1 to 4 bytes | properties: id u8 | value
//! ```

use super::frame::{VarInt, read_var_int, write_sized, write_var_int};
use super::topic::text;
use crate::reader::Reader;

/// Where properties stand: a bit each, so that a property can say where it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    pub(super) const CONNECT: Self = Self(1);
    pub(super) const WILL: Self = Self(1 << 1);
    pub(super) const CONNACK: Self = Self(1 << 2);
    pub(super) const PUBLISH: Self = Self(1 << 3);
    pub(super) const ACK: Self = Self(1 << 4);
    pub(super) const SUBSCRIBE: Self = Self(1 << 5);
    pub(super) const SUBACK: Self = Self(1 << 6);
    pub(super) const UNSUBSCRIBE: Self = Self(1 << 7);
    pub(super) const DISCONNECT: Self = Self(1 << 8);
    pub(super) const AUTH: Self = Self(1 << 9);
    const ALL: Self = Self(0x03FF);

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, place: Self) -> bool {
        self.0 & place.0 != 0
    }
}

/// How properties are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PropertyError {
    Malformed,
    Protocol,
}

/// A type that a property may have.
trait PropertyValue<'a>: Sized {
    fn read(reader: &mut Reader<'a>) -> Option<Self>;
    fn write(&self, out: &mut Vec<u8>);
}

impl PropertyValue<'_> for u8 {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        reader.u8()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
}

impl PropertyValue<'_> for u16 {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        reader.u16()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl PropertyValue<'_> for u32 {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        reader.u32()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

/// A number of 1 to 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarNumber(pub u32);

impl PropertyValue<'_> for VarNumber {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        var_number(reader).map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_var_int(self.0 as usize, out);
    }
}

impl<'a> PropertyValue<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        text(sized(reader)?)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self.as_bytes(), out);
    }
}

impl<'a> PropertyValue<'a> for &'a [u8] {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        sized(reader)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self, out);
    }
}

impl<'a> PropertyValue<'a> for (&'a str, &'a str) {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some((PropertyValue::read(reader)?, PropertyValue::read(reader)?))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
}

/// Bytes behind a two-octet length.
#[inline]
pub(super) fn sized<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u16()?;
    reader.bytes(length.into())
}

/// Appends bytes behind a two-octet length.
///
/// # Panics
/// If there are more than 65,535.
#[inline]
pub(super) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(bytes.len()).expect("strings and binary data have at most 65,535 bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn var_number(reader: &mut Reader<'_>) -> Option<u32> {
    let VarInt::Complete { value, bytes } = read_var_int(reader.rest()) else { return None };
    reader.bytes(bytes)?;
    Some(value)
}

macro_rules! property_enum {
    ($( $(#[$meta:meta])* $name:ident = $id:literal ($type:ty) in $places:expr; )+) => {
        /// One property.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Property<'a> {
            $( $(#[$meta])* $name($type), )+
        }

        impl<'a> Property<'a> {
            /// Its identifier.
            #[must_use]
            pub const fn id(&self) -> u8 {
                match self { $( Self::$name(_) => $id, )+ }
            }

            fn places(id: u8) -> Option<Place> {
                match id { $( $id => Some($places), )+ _ => None }
            }

            fn read(reader: &mut Reader<'a>) -> Option<Self> {
                match reader.u8()? {
                    $( $id => PropertyValue::read(reader).map(Self::$name), )+
                    _ => None,
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.push(self.id());
                match self { $( Self::$name(value) => value.write(out), )+ }
            }
        }
    };
}

const MESSAGE: Place = Place::PUBLISH.or(Place::WILL);
const LIMITS: Place = Place::CONNECT.or(Place::CONNACK);
const REASONS: Place = Place::CONNACK.or(Place::ACK).or(Place::SUBACK).or(Place::DISCONNECT).or(Place::AUTH);

property_enum! {
    /// 1: the payload is UTF-8.
    PayloadFormatIndicator = 0x01 (u8) in MESSAGE;
    /// Seconds the message is good for.
    MessageExpiryInterval = 0x02 (u32) in MESSAGE;
    /// MIME type of the payload.
    ContentType = 0x03 (&'a str) in MESSAGE;
    /// Topic for the response.
    ResponseTopic = 0x08 (&'a str) in MESSAGE;
    /// Correlates a response with its request.
    CorrelationData = 0x09 (&'a [u8]) in MESSAGE;
    /// Number of a subscription; 1 at least.
    SubscriptionIdentifier = 0x0B (VarNumber) in Place::PUBLISH.or(Place::SUBSCRIBE);
    /// Seconds that the session outlives its connection.
    SessionExpiryInterval = 0x11 (u32) in LIMITS.or(Place::DISCONNECT);
    /// Client id that the server chose.
    AssignedClientIdentifier = 0x12 (&'a str) in Place::CONNACK;
    /// Keep alive that holds, in seconds.
    ServerKeepAlive = 0x13 (u16) in Place::CONNACK;
    /// Method of extended authentication.
    AuthenticationMethod = 0x15 (&'a str) in LIMITS.or(Place::AUTH);
    /// The data of the authentication method.
    AuthenticationData = 0x16 (&'a [u8]) in LIMITS.or(Place::AUTH);
    /// 0: no reason strings and user properties, except where they are needed.
    RequestProblemInformation = 0x17 (u8) in Place::CONNECT;
    /// Seconds before the will is published.
    WillDelayInterval = 0x18 (u32) in Place::WILL;
    /// 1: the client wants response information.
    RequestResponseInformation = 0x19 (u8) in Place::CONNECT;
    /// From which response topics can be made.
    ResponseInformation = 0x1A (&'a str) in Place::CONNACK;
    /// Another server to use.
    ServerReference = 0x1C (&'a str) in Place::CONNACK.or(Place::DISCONNECT);
    /// The reason, in words.
    ReasonString = 0x1F (&'a str) in REASONS;
    /// Publishes of QoS 1 and 2 that may be unanswered; 1 at least.
    ReceiveMaximum = 0x21 (u16) in LIMITS;
    /// Highest topic alias.
    TopicAliasMaximum = 0x22 (u16) in LIMITS;
    /// Number that stands for the topic; 1 at least.
    TopicAlias = 0x23 (u16) in Place::PUBLISH;
    /// Highest QoS: 0 or 1; absent for 2.
    MaximumQos = 0x24 (u8) in Place::CONNACK;
    /// 0: no retained messages.
    RetainAvailable = 0x25 (u8) in Place::CONNACK;
    /// A name and a value; may come several times.
    UserProperty = 0x26 ((&'a str, &'a str)) in Place::ALL;
    /// Largest packet in bytes; 1 at least.
    MaximumPacketSize = 0x27 (u32) in LIMITS;
    /// 0: no wildcards.
    WildcardSubscriptionAvailable = 0x28 (u8) in Place::CONNACK;
    /// 0: no subscription identifiers.
    SubscriptionIdentifierAvailable = 0x29 (u8) in Place::CONNACK;
    /// 0: no shared subscriptions.
    SharedSubscriptionAvailable = 0x2A (u8) in Place::CONNACK;
}

impl Property<'_> {
    /// Appends the property alone, without a length of all.
    ///
    /// # Panics
    /// If a string has more than 65,535 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    /// Whether the value is one that the property may have. All single bytes are flags.
    const fn is_in_range(&self) -> bool {
        match self {
            Self::SubscriptionIdentifier(VarNumber(0))
            | Self::ReceiveMaximum(0)
            | Self::TopicAlias(0)
            | Self::MaximumPacketSize(0) => false,
            Self::PayloadFormatIndicator(flag)
            | Self::RequestProblemInformation(flag)
            | Self::RequestResponseInformation(flag)
            | Self::MaximumQos(flag)
            | Self::RetainAvailable(flag)
            | Self::WildcardSubscriptionAvailable(flag)
            | Self::SubscriptionIdentifierAvailable(flag)
            | Self::SharedSubscriptionAvailable(flag) => *flag <= 1,
            _ => true,
        }
    }
}

/// Properties of a packet or a will: those received, as a view of their bytes, or those given to be written.
///
/// Versions before 5 have none, and do not write any. Equality is equality of the properties in order.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Received(&'a [u8]),
    Given(&'a [Property<'a>]),
}

impl<'a> Properties<'a> {
    /// None.
    pub const EMPTY: Self = Self(Source::Received(&[]));

    /// These. The caller answers for their being allowed where they are written.
    #[must_use]
    pub const fn of(properties: &'a [Property<'a>]) -> Self {
        Self(Source::Given(properties))
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        match self.0 {
            Source::Received(bytes) => bytes.is_empty(),
            Source::Given(properties) => properties.is_empty(),
        }
    }

    /// Properties in bytes made by [`Property::encode`], one after the other without a length. The first unreadable one ends them.
    #[must_use]
    pub const fn from_raw(bytes: &'a [u8]) -> Self {
        Self(Source::Received(bytes))
    }

    /// The properties in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let (received, given) = match self.0 {
            Source::Received(bytes) => (bytes, &[][..]),
            Source::Given(properties) => (&[][..], properties),
        };
        let mut reader = Reader::new(received);
        std::iter::from_fn(move || Property::read(&mut reader)).chain(given.iter().copied())
    }

    /// Reads length and properties, and checks that each may stand here, and may come as often as it does.
    pub(super) fn read(reader: &mut Reader<'a>, place: Place) -> Result<Self, PropertyError> {
        let length = var_number(reader).ok_or(PropertyError::Malformed)?;
        let bytes = reader.bytes(length as usize).ok_or(PropertyError::Malformed)?;
        let mut properties = Reader::new(bytes);
        let mut seen = 0_u64;
        while let Some(id) = properties.rest().first() {
            let places = Property::places(*id).ok_or(PropertyError::Malformed)?;
            let property = Property::read(&mut properties).ok_or(PropertyError::Malformed)?;
            let may_repeat = match property {
                Property::UserProperty(_) => true,
                Property::SubscriptionIdentifier(_) => place == Place::PUBLISH,
                _ => false,
            };
            let is_repeated = seen & (1 << id) != 0 && !may_repeat;
            if !places.has(place) || is_repeated || !property.is_in_range() {
                return Err(PropertyError::Protocol);
            }
            seen |= 1 << id;
        }
        Ok(Self(Source::Received(bytes)))
    }

    /// Appends length and properties.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self.0 {
            Source::Received(bytes) => {
                write_var_int(bytes.len(), out);
                out.extend_from_slice(bytes);
            }
            Source::Given(properties) => {
                write_sized(out, |out| properties.iter().for_each(|property| property.write(out)));
            }
        }
    }
}

impl Default for Properties<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Properties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Properties<'_> {}
