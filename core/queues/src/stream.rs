//! Streams: the rules of the type. The behaviour of a stream is not decided here: it keeps a log, not messages (`core/broker/src/streams`).

use message::Value;

use crate::arguments::{ArgumentError, ArgumentReason, QueueConfig};
use crate::kind::Kind;

/// Bytes of a segment file unless the stream says otherwise.
const SEGMENT_BYTES_DEFAULT: u64 = 500_000_000;
/// Most bytes of a segment file.
const SEGMENT_BYTES_MAX: u64 = 3_000_000_000;
/// Fewest bytes of a segment file by default, whatever the limit of the stream.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// Segments that a stream with a limit of its bytes has at least.
const SEGMENTS_MIN: u64 = 8;

/// Settings that only streams have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamRules {
    /// `x-max-age`, milliseconds.
    pub max_age_ms: Option<u64>,
    /// `x-stream-max-segment-size-bytes`.
    pub segment_bytes: Option<u64>,
    /// `x-stream-filter-size-bytes`: 16 to 255.
    pub filter_bytes: Option<u8>,
}

impl QueueConfig {
    /// Bytes of a segment file: without a wish few enough that a limit of the stream's bytes can be kept.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        let of_limit = self.max_length_bytes.map_or(u64::MAX, |bytes| bytes / SEGMENTS_MIN);
        let default = SEGMENT_BYTES_DEFAULT.min(of_limit.max(SEGMENT_BYTES_MIN));
        self.stream.segment_bytes.unwrap_or(default)
    }
}

/// The settings of a stream without arguments.
pub(crate) fn rules() -> QueueConfig {
    QueueConfig { kind: Kind::Stream, keeps_all: true, ..QueueConfig::default() }
}

/// A period such as `7D`: years, months, days, hours, minutes, seconds; milliseconds. `None` when it is none.
#[must_use]
pub fn age_ms(text: &[u8]) -> Option<u64> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    const SECOND: u64 = 1000;
    let unit_ms = match unit {
        b'Y' => 365 * 86_400 * SECOND,
        b'M' => 30 * 86_400 * SECOND,
        b'D' => 86_400 * SECOND,
        b'h' => 3600 * SECOND,
        b'm' => 60 * SECOND,
        b's' => SECOND,
        _ => return None,
    };
    number.checked_mul(unit_ms)
}

/// An argument that only streams know. `number` reads one that must be a number from 0 on.
pub(crate) fn read(
    rules: &mut StreamRules,
    name: &str,
    value: &Value<'_>,
    number: impl FnOnce() -> Result<i64, ArgumentError>,
) -> Result<(), ArgumentError> {
    let refuse = |reason| Err(ArgumentError { name: name.into(), reason });
    match name {
        "x-max-age" => {
            let Value::LongStr(text) = value else {
                return refuse(ArgumentReason::UnacceptableType(value.type_name()));
            };
            match age_ms(text) {
                Some(ms) => rules.max_age_ms = Some(ms),
                None => return refuse(ArgumentReason::Atom("invalid_max_age")),
            }
        }
        "x-stream-max-segment-size-bytes" => match number()? as u64 {
            bytes if bytes > SEGMENT_BYTES_MAX => {
                return refuse(ArgumentReason::Plain(
                    "Exceeded max value for x-stream-max-segment-size-bytes".into(),
                ));
            }
            bytes => rules.segment_bytes = Some(bytes),
        },
        "x-stream-filter-size-bytes" => match number()? {
            bytes @ 16..=255 => rules.filter_bytes = Some(bytes as u8),
            _ => {
                return refuse(ArgumentReason::Plain("Invalid value for x-stream-filter-size-bytes".into()));
            }
        },
        "x-initial-cluster-size" if number()? == 0 => return refuse(ArgumentReason::Zero),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_a_number_and_a_unit() {
        assert_eq!(age_ms(b"7D"), Some(7 * 86_400_000));
        assert_eq!(
            (age_ms(b"1h"), age_ms(b"5m"), age_ms(b"30s")),
            (Some(3_600_000), Some(300_000), Some(30_000))
        );
        for text in [&b""[..], b"D", b"7", b"7d", b"-7D", b"7 D", b"99999999999999999999D", b"9999999999999Y"]
        {
            assert_eq!(age_ms(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_small_limit_has_small_segments() {
        let of = |max_length_bytes| QueueConfig { max_length_bytes, ..rules() }.segment_bytes();
        assert_eq!(of(None), SEGMENT_BYTES_DEFAULT);
        assert_eq!((of(Some(80_000_000)), of(Some(1000))), (10_000_000, SEGMENT_BYTES_MIN));
    }
}
