//! Facts about a message that queues need: read once, when it is published.

use crate::{Format, MessageView, Properties, Property, amqp10, mqtt};

/// Longest time to live, milliseconds: ten years (B99).
const TTL_MS_MAX: u64 = 315_360_000_000;

/// Facts about a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// It is to survive a restart.
    pub persistent: bool,
    /// Priority; 0 when it has none.
    pub priority: u8,
    /// Its own time to live, milliseconds.
    pub ttl_ms: Option<u64>,
}

/// An `expiration` that is no number of milliseconds, or more than ten years: its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadExpiration(pub Box<[u8]>);

impl Facts {
    /// Of a message.
    ///
    /// # Errors
    /// AMQP 0-9-1 only: its expiration is no number of milliseconds.
    #[inline]
    pub fn of(message: &MessageView<'_>) -> Result<Facts, BadExpiration> {
        match message.format() {
            Format::Amqp091 => Facts::of_properties(&Properties::new(message.properties)),
            Format::Amqp10 => {
                let header = amqp10::header(message.properties);
                let (persistent, priority) = (header.durable.unwrap_or(false), header.priority.unwrap_or(0));
                Ok(Facts { persistent, priority, ttl_ms: header.ttl.map(u64::from) })
            }
            Format::Mqtt => Ok(Facts {
                persistent: mqtt::is_persistent(message.properties),
                priority: 0,
                ttl_ms: mqtt::ttl_ms(message.properties),
            }),
        }
    }

    /// The same of properties of AMQP 0-9-1. The flags word tells what is absent, which is the common case.
    #[inline]
    fn of_properties(properties: &Properties<'_>) -> Result<Facts, BadExpiration> {
        let persistent = properties.has(Property::DeliveryMode) && properties.delivery_mode() == Some(2);
        let priority =
            if properties.has(Property::Priority) { properties.priority().unwrap_or(0) } else { 0 };
        let ttl_ms = if properties.has(Property::Expiration) { ttl_ms(properties)? } else { None };
        Ok(Facts { persistent, priority, ttl_ms })
    }
}

fn ttl_ms(properties: &Properties<'_>) -> Result<Option<u64>, BadExpiration> {
    properties.expiration().map(|text| parse_expiration(&text)).transpose()
}

/// B99: digits only, at most ten years.
fn parse_expiration(text: &[u8]) -> Result<u64, BadExpiration> {
    let bad = || BadExpiration(text.into());
    // Erlang's reader takes a leading plus.
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
    match digits.parse::<u64>() {
        Ok(ms) if ms <= TTL_MS_MAX => Ok(ms),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiration_is_digits_of_at_most_ten_years() {
        assert_eq!(parse_expiration(b"0"), Ok(0));
        assert_eq!(parse_expiration(b"1000"), Ok(1000));
        assert_eq!(parse_expiration(b"+1000"), Ok(1000));
        for bad in [&b""[..], b"-1", b"1.5", b"abc", b"12 ", b"315360000001", b"99999999999999999999999"] {
            assert_eq!(parse_expiration(bad), Err(BadExpiration(bad.into())));
        }
    }
}
