//! Which protocol a message came by. The properties themselves say it: no record, block or struct has a place of its own for it.
//!
//! ```text
//!  AMQP 0-9-1   flags u16 (bit 1 is clear) | list
//!  others       format u8 | 0x02 | what the format keeps beside the body
//! ```
//!
//! Properties of AMQP 0-9-1 begin with a word of flags whose bits 1 and 0 mean nothing there. The session clears them.

/// Bit 1 of the flags word of AMQP 0-9-1: the properties are those of another protocol.
const MARK: u8 = 0x02;

/// The protocol by which a message came, and whose bytes it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Format {
    /// AMQP 0-9-1: properties are flags and list, the body is the payload.
    #[default]
    Amqp091 = 0,
    /// AMQP 1.0: the properties are header and message annotations, the body is the bare message and the footer.
    Amqp10 = 1,
    /// MQTT: the properties are QoS, retain and the properties of MQTT 5, the body is the payload.
    Mqtt = 2,
}

impl Format {
    /// Of stored properties. Bytes of a format that this build does not know are read as AMQP 0-9-1 without properties.
    #[inline]
    #[must_use]
    pub const fn of(properties: &[u8]) -> Format {
        match properties {
            [1, MARK, ..] => Format::Amqp10,
            [2, MARK, ..] => Format::Mqtt,
            _ => Format::Amqp091,
        }
    }

    /// The bytes with which stored properties of this format begin; empty for AMQP 0-9-1, which has none of its own.
    #[must_use]
    pub const fn prefix(self) -> &'static [u8] {
        match self {
            Format::Amqp091 => &[],
            Format::Amqp10 => &[1, MARK],
            Format::Mqtt => &[2, MARK],
        }
    }

    /// Stored properties without their prefix.
    #[inline]
    #[must_use]
    pub fn kept(properties: &[u8]) -> &[u8] {
        &properties[Format::of(properties).prefix().len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_tell_their_format() {
        for format in [Format::Amqp10, Format::Mqtt] {
            let stored = [format.prefix(), b"kept"].concat();
            assert_eq!((Format::of(&stored), Format::kept(&stored)), (format, &b"kept"[..]));
        }
        for list in [&[][..], &[0], &[0, 0], &[0x80, 0, 1, b'x'], &[1, 0], &[2, 1]] {
            assert_eq!((Format::of(list), Format::kept(list)), (Format::Amqp091, list));
        }
    }
}
