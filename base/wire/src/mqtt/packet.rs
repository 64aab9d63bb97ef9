//! All packets of all versions, decoded in place.
//!
//! Refuses to know which are legal when, and in which direction. A packet that the specification calls malformed or a protocol error, and
//! that shows it by itself, is refused here.

use super::connect::{ConnAck, Connect};
use super::frame::{Frame, REMAINING_LENGTH_MAX, insert_var_int, write_sized};
use super::property::{Place, Properties, PropertyError, sized, write_bytes};
use super::reason;
use super::subscribe::{SubAck, Subscribe, UnsubAck, Unsubscribe};
use super::topic::{is_topic_name, text};
use crate::reader::Reader;

#[cfg(test)]
mod tests;

/// Version of the protocol. The numbers are those of the protocol level in CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// 3.1, by IBM
    V31 = 3,
    /// 3.1.1, by OASIS
    V311 = 4,
    /// 5
    V5 = 5,
}

/// How often a message may be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Qos {
    /// At most once.
    #[default]
    AtMostOnce = 0,
    /// At least once.
    AtLeastOnce = 1,
    /// Exactly once.
    ExactlyOnce = 2,
}

impl Qos {
    /// `None` for 3, which is malformed everywhere.
    #[inline]
    #[must_use]
    pub const fn of_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// A packet that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// It cannot be parsed, or has a reserved bit or value.
    #[error("malformed packet of type {kind}")]
    Malformed {
        /// Type of the packet.
        kind: u8,
    },
    /// It can be parsed, but says what it must not say.
    #[error("protocol error in a packet of type {kind}")]
    Protocol {
        /// Type of the packet.
        kind: u8,
    },
    /// A CONNECT of a protocol or version that is not spoken here.
    #[error("unsupported protocol version {level}")]
    UnsupportedVersion {
        /// The protocol level.
        level: u8,
    },
    /// A topic name with wildcards, or an empty one.
    #[error("invalid topic name")]
    BadTopicName,
    /// A topic filter that is not well-formed.
    #[error("invalid topic filter")]
    BadTopicFilter,
}

impl PacketError {
    /// The reason code that MQTT 5 has for it.
    #[must_use]
    pub const fn reason_code(&self) -> u8 {
        match self {
            Self::Malformed { .. } => reason::MALFORMED_PACKET,
            Self::Protocol { .. } => reason::PROTOCOL_ERROR,
            Self::UnsupportedVersion { .. } => reason::UNSUPPORTED_PROTOCOL_VERSION,
            Self::BadTopicName => reason::TOPIC_NAME_INVALID,
            Self::BadTopicFilter => reason::TOPIC_FILTER_INVALID,
        }
    }
}

/// Reads the body of one packet; knows what to say when it cannot.
pub(super) struct Body<'a> {
    pub(super) kind: u8,
    pub(super) reader: Reader<'a>,
}

impl<'a> Body<'a> {
    #[inline]
    pub(super) const fn malformed(&self) -> PacketError {
        PacketError::Malformed { kind: self.kind }
    }

    #[inline]
    pub(super) const fn protocol(&self) -> PacketError {
        PacketError::Protocol { kind: self.kind }
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, PacketError> {
        self.reader.u8().ok_or(self.malformed())
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Result<u16, PacketError> {
        self.reader.u16().ok_or(self.malformed())
    }

    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], PacketError> {
        sized(&mut self.reader).ok_or(self.malformed())
    }

    #[inline]
    pub(super) fn text(&mut self) -> Result<&'a str, PacketError> {
        text(self.bytes()?).ok_or(self.malformed())
    }

    /// A packet id, which is never 0.
    #[inline]
    pub(super) fn packet_id(&mut self) -> Result<u16, PacketError> {
        match self.u16()? {
            0 => Err(self.protocol()),
            id => Ok(id),
        }
    }

    /// None in versions before 5.
    #[inline]
    pub(super) fn properties(
        &mut self,
        version: Version,
        place: Place,
    ) -> Result<Properties<'a>, PacketError> {
        if version != Version::V5 {
            return Ok(Properties::EMPTY);
        }
        Properties::read(&mut self.reader, place).map_err(|error| match error {
            PropertyError::Malformed => self.malformed(),
            PropertyError::Protocol => self.protocol(),
        })
    }

    /// The bytes that have not been read yet.
    #[inline]
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::replace(&mut self.reader, Reader::new(&[])).rest()
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether it may have been sent before.
    pub dup: bool,
    /// How often it may be delivered.
    pub qos: Qos,
    /// Whether it is to be kept, or was kept.
    pub retain: bool,
    /// Topic; empty in version 5 if a topic alias says it.
    pub topic: &'a str,
    /// Its id; not looked at for QoS 0, never 0 otherwise.
    pub packet_id: u16,
    /// Properties.
    pub properties: Properties<'a>,
    /// The message itself.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    const KIND: u8 = 3;

    #[inline]
    fn read(body: &mut Body<'a>, flags: u8, version: Version) -> Result<Self, PacketError> {
        let qos = Qos::of_bits((flags >> 1) & 3).ok_or(body.malformed())?;
        let topic = body.text()?;
        let packet_id = if qos == Qos::AtMostOnce { 0 } else { body.packet_id()? };
        let properties = body.properties(version, Place::PUBLISH)?;
        // An alias may stand for the topic in version 5.
        let is_known = if topic.is_empty() { version == Version::V5 } else { is_topic_name(topic) };
        if !is_known {
            return Err(PacketError::BadTopicName);
        }
        let payload = body.rest();
        Ok(Self { dup: flags & 8 != 0, qos, retain: flags & 1 != 0, topic, packet_id, properties, payload })
    }

    /// Appends all of the packet that stands in front of a payload of `payload_bytes` bytes, which the caller appends.
    /// `self.payload` is not looked at.
    ///
    /// # Panics
    /// If the topic has more than 65,535 bytes, or the packet more than 268,435,455.
    #[inline]
    pub fn encode_head(&self, version: Version, payload_bytes: usize, out: &mut Vec<u8>) {
        let flags = (u8::from(self.dup) << 3) | ((self.qos as u8) << 1) | u8::from(self.retain);
        out.push((Self::KIND << 4) | flags);
        let start = out.len();
        write_bytes(self.topic.as_bytes(), out);
        if self.qos != Qos::AtMostOnce {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
        }
        if version == Version::V5 {
            self.properties.write(out);
        }
        let length = out.len() - start + payload_bytes;
        assert!(length <= REMAINING_LENGTH_MAX, "a packet that is longer than packets can be");
        insert_var_int(length, start, out);
    }

    /// Appends the whole packet.
    #[inline]
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        self.encode_head(version, self.payload.len(), out);
        out.extend_from_slice(self.payload);
    }
}

/// The answers to a publish, one step after the other: PUBACK, PUBREC, PUBREL and PUBCOMP are all alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Id of the publish.
    pub packet_id: u16,
    /// How it went, in version 5; 0 otherwise.
    pub reason_code: u8,
    /// Properties.
    pub properties: Properties<'a>,
}

impl<'a> Ack<'a> {
    #[inline]
    fn read(body: &mut Body<'a>, version: Version) -> Result<Self, PacketError> {
        let packet_id = body.packet_id()?;
        let (reason_code, properties) = reason_and_properties(body, version, Place::ACK)?;
        Ok(Self { packet_id, reason_code, properties })
    }

    #[inline]
    fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.to_be_bytes());
        write_reason_and_properties(self.reason_code, &self.properties, version, out);
    }
}

/// Reads a reason code and properties that are left out at the end when they say nothing.
#[inline]
fn reason_and_properties<'a>(
    body: &mut Body<'a>,
    version: Version,
    place: Place,
) -> Result<(u8, Properties<'a>), PacketError> {
    if version != Version::V5 || body.reader.is_empty() {
        return Ok((0, Properties::EMPTY));
    }
    let reason_code = body.u8()?;
    if body.reader.is_empty() {
        return Ok((reason_code, Properties::EMPTY));
    }
    Ok((reason_code, body.properties(version, place)?))
}

#[inline]
fn write_reason_and_properties(
    reason_code: u8,
    properties: &Properties<'_>,
    version: Version,
    out: &mut Vec<u8>,
) {
    if version != Version::V5 || (reason_code == 0 && properties.is_empty()) {
        return;
    }
    out.push(reason_code);
    if !properties.is_empty() {
        properties.write(out);
    }
}

/// The end of a connection. The server sends it in version 5 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// Why, in version 5; 0 otherwise.
    pub reason_code: u8,
    /// Properties.
    pub properties: Properties<'a>,
}

/// A step of extended authentication; version 5 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Which step.
    pub reason_code: u8,
    /// Method and data.
    pub properties: Properties<'a>,
}

/// Any packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Type 1.
    Connect(Connect<'a>),
    /// Type 2.
    ConnAck(ConnAck<'a>),
    /// Type 3.
    Publish(Publish<'a>),
    /// Type 4: a publish of QoS 1 is done.
    PubAck(Ack<'a>),
    /// Type 5: a publish of QoS 2 has arrived.
    PubRec(Ack<'a>),
    /// Type 6: it will not be sent again.
    PubRel(Ack<'a>),
    /// Type 7: it is done.
    PubComp(Ack<'a>),
    /// Type 8.
    Subscribe(Subscribe<'a>),
    /// Type 9.
    SubAck(SubAck<'a>),
    /// Type 10.
    Unsubscribe(Unsubscribe<'a>),
    /// Type 11.
    UnsubAck(UnsubAck<'a>),
    /// Type 12.
    PingReq,
    /// Type 13.
    PingResp,
    /// Type 14.
    Disconnect(Disconnect<'a>),
    /// Type 15.
    Auth(Auth<'a>),
}

/// Flags that PUBREL, SUBSCRIBE and UNSUBSCRIBE have, as if they were of QoS 1.
const FLAGS_QOS_1: u8 = 2;
/// The flag that version 3.1 may set in those packets.
const FLAG_DUP: u8 = 8;

impl<'a> Packet<'a> {
    /// Decodes a packet of this version. A CONNECT says its version itself: `version` is not looked at then.
    ///
    /// # Errors
    /// See [`PacketError`]. Bytes behind the last field are malformed.
    #[inline]
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, PacketError> {
        let Frame { kind, flags, body } = *frame;
        let mut body = Body { kind, reader: Reader::new(body) };
        if kind == Publish::KIND {
            return Publish::read(&mut body, flags, version).map(Self::Publish);
        }
        let expected = if matches!(kind, 6 | 8 | 10) { FLAGS_QOS_1 } else { 0 };
        let ignored = if version == Version::V31 && expected != 0 { FLAG_DUP } else { 0 };
        if flags & !ignored != expected {
            return Err(body.malformed());
        }
        let packet = match kind {
            1 => Self::Connect(Connect::read(&mut body)?),
            2 => Self::ConnAck(ConnAck::read(&mut body, version)?),
            4 => Self::PubAck(Ack::read(&mut body, version)?),
            5 => Self::PubRec(Ack::read(&mut body, version)?),
            6 => Self::PubRel(Ack::read(&mut body, version)?),
            7 => Self::PubComp(Ack::read(&mut body, version)?),
            8 => Self::Subscribe(Subscribe::read(&mut body, version)?),
            9 => Self::SubAck(SubAck::read(&mut body, version)?),
            10 => Self::Unsubscribe(Unsubscribe::read(&mut body, version)?),
            11 => Self::UnsubAck(UnsubAck::read(&mut body, version)?),
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => {
                let (reason_code, properties) = reason_and_properties(&mut body, version, Place::DISCONNECT)?;
                Self::Disconnect(Disconnect { reason_code, properties })
            }
            15 if version == Version::V5 => {
                let (reason_code, properties) = reason_and_properties(&mut body, version, Place::AUTH)?;
                Self::Auth(Auth { reason_code, properties })
            }
            _ => return Err(body.malformed()),
        };
        if body.reader.is_empty() { Ok(packet) } else { Err(body.malformed()) }
    }

    /// Type of the packet.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Connect(_) => 1,
            Self::ConnAck(_) => 2,
            Self::Publish(_) => Publish::KIND,
            Self::PubAck(_) => 4,
            Self::PubRec(_) => 5,
            Self::PubRel(_) => 6,
            Self::PubComp(_) => 7,
            Self::Subscribe(_) => 8,
            Self::SubAck(_) => 9,
            Self::Unsubscribe(_) => 10,
            Self::UnsubAck(_) => 11,
            Self::PingReq => 12,
            Self::PingResp => 13,
            Self::Disconnect(_) => 14,
            Self::Auth(_) => 15,
        }
    }

    /// Appends the whole packet. Parts that this version does not have, such as properties before version 5, are left out. A CONNECT says
    /// its version itself.
    ///
    /// # Panics
    /// If a string has more than 65,535 bytes, or the packet more than 268,435,455.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let flags = if matches!(self.kind(), 6 | 8 | 10) { FLAGS_QOS_1 } else { 0 };
        if let Self::Publish(publish) = self {
            return publish.encode(version, out);
        }
        out.push((self.kind() << 4) | flags);
        write_sized(out, |out| match self {
            Self::Connect(connect) => connect.write(out),
            Self::ConnAck(ack) => ack.write(version, out),
            Self::PubAck(ack) | Self::PubRec(ack) | Self::PubRel(ack) | Self::PubComp(ack) => {
                ack.write(version, out);
            }
            Self::Subscribe(subscribe) => subscribe.write(version, out),
            Self::SubAck(ack) => ack.write(version, out),
            Self::Unsubscribe(unsubscribe) => unsubscribe.write(version, out),
            Self::UnsubAck(ack) => ack.write(version, out),
            Self::Disconnect(Disconnect { reason_code, properties })
            | Self::Auth(Auth { reason_code, properties }) => {
                write_reason_and_properties(*reason_code, properties, version, out);
            }
            Self::Publish(_) | Self::PingReq | Self::PingResp => {}
        });
    }
}
