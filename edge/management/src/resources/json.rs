//! JSON as RabbitMQ reads it: of a name that stands twice in an object the first counts, and a byte order mark is no part of a document.
//! Refuses to know what it is about.
//!
//! A value that is nested very deep is passed over where nobody asks for it, as in RabbitMQ, and refused where somebody does
//! ([`is_too_deep`]).
//!
//! A few bytes of text can become a thousand of memory (`{"":0}`), so read values are counted as they grow and have a bound.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The bytes that editors on Windows put before a text in UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The text behind the mark.
pub(crate) fn unmarked(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Bytes of memory that values may take beside their texts: those of any object that is small enough to be kept.
const VALUES_BYTES_MAX: usize = 4 << 20;

/// Bytes of memory that values of an ordinary request of so many bytes may take.
const fn request_bytes_max(text_bytes: usize) -> usize {
    VALUES_BYTES_MAX + text_bytes
}

/// Bytes that values of a document of so many bytes may take: more than those of queues with an argument each do.
pub(crate) const fn document_bytes_max(text_bytes: usize) -> usize {
    VALUES_BYTES_MAX + 16 * text_bytes
}

/// How deep lists and objects in each other are read; those that are deeper are read as empty ones.
const DEPTH_MAX: usize = 100;

/// Lists and objects in each other that a value which is kept may have: fewer than can be read, so that what is shown of it can be, too.
const KEPT_DEPTH_MAX: usize = 89;

/// The text for a value for which [`is_too_deep`] holds.
pub(crate) const TOO_DEEP: &str = "a value nested deeper than 89 lists and objects";

/// Whether a value cannot be kept for its depth: something in it may be missing.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    fn reaches(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(_) | Value::Object(_) if levels == 0 => true,
            Value::Array(list) => list.iter().any(|inner| reaches(inner, levels - 1)),
            Value::Object(object) => object.values().any(|inner| reaches(inner, levels - 1)),
            _ => false,
        }
    }
    reaches(value, KEPT_DEPTH_MAX)
}

/// Memory of an object with an entry: room for some more comes with the first.
const OBJECT_BYTES: usize = 640;

/// Memory of a further entry, the text of its name aside.
const ENTRY_BYTES: usize = 64;

thread_local! {
    /// Bytes that values read on this thread may still take.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Does something in which values that are read take no more memory than that, all together; beyond, reading ends with an error.
pub(crate) fn within<T>(bytes_max: usize, read: impl FnOnce() -> T) -> T {
    let _former = Former(LEFT.replace(bytes_max));
    read()
}

/// Gives the former bound back, also after a panic.
struct Former(usize);

impl Drop for Former {
    fn drop(&mut self) {
        LEFT.set(self.0);
    }
}

/// Takes memory for what is read.
///
/// # Errors
/// There is none left of what [`within`] gave.
pub(crate) fn take<E: serde::de::Error>(bytes: usize) -> Result<(), E> {
    let left = LEFT.get().checked_sub(bytes);
    left.map(|left| LEFT.set(left)).ok_or_else(|| E::custom("its values take too much memory"))
}

/// The value that a text of an ordinary request is.
///
/// # Errors
/// It is none, or would take far more memory than its text.
pub(crate) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    within(request_bytes_max(text.len()), || parse_bounded(text))
}

/// The value that a text is, as large as the caller has bounded it.
///
/// # Errors
/// As of [`parse`], with the bound of [`within`].
pub(crate) fn parse_bounded(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(text).map(|FirstCounts(value)| value)
}

/// Whether a text is an object, whatever is in it.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'{') && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// A value in which the first of a name counts.
pub(crate) struct FirstCounts(pub(crate) Value);

impl<'de> Deserialize<'de> for FirstCounts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Reading { levels: DEPTH_MAX }.deserialize(from).map(Self)
    }
}

/// How many levels of lists and objects may still come.
#[derive(Clone, Copy)]
struct Reading {
    levels: usize,
}

impl Reading {
    const fn inner(self) -> Option<Self> {
        match self.levels.checked_sub(1) {
            Some(levels) => Some(Self { levels }),
            None => None,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reading {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        take(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let Some(inner) = self.inner() else {
            // Passed over without going deeper: how deep it is does not matter then.
            while from.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Array(list));
        };
        while let Some(value) = from.next_element_seed(inner)? {
            // A list that grows has room for twice as much.
            take(2 * size_of::<Value>())?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let Some(inner) = self.inner() else {
            while from.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Object(object));
        };
        while let Some(name) = from.next_key::<String>()? {
            let value = from.next_value_seed(inner)?;
            take(name.len() + if object.is_empty() { OBJECT_BYTES } else { ENTRY_BYTES })?;
            object.entry(name).or_insert(value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_as_ever_but_the_first_of_a_name_counts() {
        let plain = r#"{"a": [1, -2, 18446744073709551615, 2.5, 1e300, "x\u00e4", null, true, {}, []]}"#;
        assert_eq!(parse(plain.as_bytes()).unwrap(), serde_json::from_str::<Value>(plain).unwrap());
        let twice = br#"{"a": 1, "b": {"c": 2, "c": [3]}, "a": 4}"#;
        assert_eq!(parse(twice).unwrap(), json!({"a": 1, "b": {"c": 2}}));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_and_bad_texts_are_refused() {
        assert_eq!((unmarked("\u{feff}{}"), unmarked("{}")), ("{}", "{}"));
        for bad in ["", "{", "\u{feff}{}", "{}\u{feff}", "[1,]", "nul"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(is_object(b" {\"a\": [1]}") && !is_object(b"[{}]") && !is_object(b"{") && !is_object(b""));
    }

    #[test]
    fn what_is_nested_deep_is_read_as_far_as_it_can_be_kept() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = |levels: usize| {
                format!(r#"{{"deep": {}1{}, "flat": [2]}}"#, open.repeat(levels), close.repeat(levels))
            };
            for levels in [90, 99, 100, 300, 100_000] {
                let read = parse(deep(levels).as_bytes()).unwrap();
                assert!(is_too_deep(&read["deep"]) && read["flat"] == json!([2]), "{levels} {open}");
            }
            let kept = parse(deep(89).as_bytes()).unwrap();
            assert!(!is_too_deep(&kept["deep"]) && kept.to_string().contains('1'), "{open}");
            let (cut, broken) = (&deep(300)[..600], deep(300).replace('1', "x"));
            assert!(parse(cut.as_bytes()).is_err() && parse(broken.as_bytes()).is_err(), "{open}");
        }
    }

    #[test]
    fn a_text_that_would_become_far_larger_is_refused_and_a_long_one_is_read() {
        let million = 1 << 20;
        for bomb in [r#"{"":0},"#, "[0],", r#"{"a":{"b":{}}},"#] {
            let text = format!("[{}0]", bomb.repeat(3 * million));
            assert!(parse(text.as_bytes()).unwrap_err().to_string().starts_with("its values take"), "{bomb}");
        }
        let payload = format!(r#"{{"payload": "{}"}}"#, "x".repeat(20 * million));
        assert!(parse(payload.as_bytes()).is_ok());
        let arguments = format!("[{}0]", "true,".repeat(60_000));
        assert!(parse(arguments.as_bytes()).is_ok(), "as many as an object can have");
        assert!(within(10, || parse_bounded(b"[1]")).is_err() && parse_bounded(b"[1]").is_ok());
    }
}
