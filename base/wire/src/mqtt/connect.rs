//! CONNECT and CONNACK.

use super::packet::{Body, PacketError, Qos, Version};
use super::property::{Place, Properties, write_bytes};
use super::topic::is_topic_name;

/// A message that is published when the connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// How often it may be delivered.
    pub qos: Qos,
    /// Whether it is to be kept.
    pub retain: bool,
    /// Properties.
    pub properties: Properties<'a>,
    /// Topic.
    pub topic: &'a str,
    /// The message itself, at most 65,535 bytes.
    pub payload: &'a [u8],
}

/// The packet that a client sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// Version of the protocol.
    pub version: Version,
    /// Whether a session of before is to be forgotten.
    pub clean_start: bool,
    /// Seconds within which the client sends something; 0 for never.
    pub keep_alive_s: u16,
    /// Properties.
    pub properties: Properties<'a>,
    /// Name of the client; empty if the server is to choose.
    pub client_id: &'a str,
    /// The message that is published when the connection is lost.
    pub will: Option<Will<'a>>,
    /// User.
    pub user_name: Option<&'a str>,
    /// Password.
    pub password: Option<&'a [u8]>,
}

impl Version {
    /// Name of the protocol in CONNECT.
    const fn protocol_name(self) -> &'static [u8] {
        match self {
            Self::V31 => b"MQIsdp",
            Self::V311 | Self::V5 => b"MQTT",
        }
    }

    fn of(name: &[u8], level: u8) -> Option<Self> {
        let known = [Self::V31, Self::V311, Self::V5];
        known.into_iter().find(|version| *version as u8 == level && version.protocol_name() == name)
    }
}

impl<'a> Connect<'a> {
    /// The version that the body of a CONNECT begins with, whatever follows; `None` if it is not known.
    #[must_use]
    pub fn claimed_version(body: &[u8]) -> Option<Version> {
        let (length, rest) = body.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        Version::of(name, *rest.first()?)
    }

    pub(super) fn read(body: &mut Body<'a>) -> Result<Self, PacketError> {
        let name = body.bytes()?;
        let level = body.u8()?;
        let version = Version::of(name, level).ok_or(PacketError::UnsupportedVersion { level })?;
        let flags = body.u8()?;
        let has = |bit: u8| flags & (1 << bit) != 0;
        let will_qos = Qos::of_bits((flags >> 3) & 3).ok_or(body.malformed())?;
        if version != Version::V31 {
            let has_stray_will = !has(2) && flags & 0b0011_1000 != 0;
            let has_password_only = version == Version::V311 && has(6) && !has(7);
            if has(0) || has_stray_will || has_password_only {
                return Err(body.malformed());
            }
        }
        let keep_alive_s = body.u16()?;
        let properties = body.properties(version, Place::CONNECT)?;
        let client_id = body.text()?;
        let will = if has(2) {
            let properties = body.properties(version, Place::WILL)?;
            let topic = body.text()?;
            if !is_topic_name(topic) {
                return Err(PacketError::BadTopicName);
            }
            Some(Will { qos: will_qos, retain: has(5), properties, topic, payload: body.bytes()? })
        } else {
            None
        };
        let user_name = if has(7) { Some(body.text()?) } else { None };
        let password = if has(6) { Some(body.bytes()?) } else { None };
        let clean_start = has(1);
        Ok(Self { version, clean_start, keep_alive_s, properties, client_id, will, user_name, password })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self.version.protocol_name(), out);
        let mut flags = u8::from(self.clean_start) << 1;
        if let Some(will) = &self.will {
            flags |= 1 << 2 | (will.qos as u8) << 3 | u8::from(will.retain) << 5;
        }
        flags |= u8::from(self.password.is_some()) << 6 | u8::from(self.user_name.is_some()) << 7;
        out.extend_from_slice(&[self.version as u8, flags]);
        out.extend_from_slice(&self.keep_alive_s.to_be_bytes());
        let has_properties = self.version == Version::V5;
        if has_properties {
            self.properties.write(out);
        }
        write_bytes(self.client_id.as_bytes(), out);
        if let Some(will) = &self.will {
            if has_properties {
                will.properties.write(out);
            }
            write_bytes(will.topic.as_bytes(), out);
            write_bytes(will.payload, out);
        }
        if let Some(user_name) = self.user_name {
            write_bytes(user_name.as_bytes(), out);
        }
        if let Some(password) = self.password {
            write_bytes(password, out);
        }
    }
}

/// The server's answer to a CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server has a session of before. Version 3.1 does not say so, but RabbitMQ does there, too.
    pub session_present: bool,
    /// 0, or why not: of the numbers of version 5, or those of before.
    pub code: u8,
    /// Properties.
    pub properties: Properties<'a>,
}

impl<'a> ConnAck<'a> {
    pub(super) fn read(body: &mut Body<'a>, version: Version) -> Result<Self, PacketError> {
        let session_present = match body.u8()? {
            flags if version == Version::V31 => flags & 1 != 0,
            0 => false,
            1 => true,
            _ => return Err(body.malformed()),
        };
        let code = body.u8()?;
        // A server that does not know the version answers in the form of version 3.1.1, without properties.
        let properties = if body.reader.is_empty() {
            Properties::EMPTY
        } else {
            body.properties(version, Place::CONNACK)?
        };
        Ok(Self { session_present, code, properties })
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&[u8::from(self.session_present), self.code]);
        if version == Version::V5 {
            self.properties.write(out);
        }
    }
}
