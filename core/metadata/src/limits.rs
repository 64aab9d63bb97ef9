//! Limits of vhosts and users: numbers by name, kept whatever their names are. Refuses to know what they limit.

use std::collections::BTreeMap;

use crate::codec::{Codec, DecodeError, Reader};

/// Limits by name, in order of the names: `max-connections`, `max-queues` of a vhost, `max-connections`, `max-channels`
/// of a user. A negative number is no limit, 0 allows none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<Box<str>, i64>);

impl Limits {
    /// Connections of a vhost or a user.
    pub const CONNECTIONS_MAX: &str = "max-connections";
    /// Queues of a vhost.
    pub const QUEUES_MAX: &str = "max-queues";
    /// Channels of a user on all its connections.
    pub const CHANNELS_MAX: &str = "max-channels";

    /// Sets one.
    pub fn set(&mut self, name: &str, value: i64) {
        self.0.insert(name.into(), value);
    }

    /// Takes one away; one that is not there is fine.
    pub fn clear(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// How many there may be; `None` is no limit.
    #[must_use]
    pub fn bound(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(|value| u64::try_from(*value).ok())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl FromIterator<(Box<str>, i64)> for Limits {
    fn from_iter<I: IntoIterator<Item = (Box<str>, i64)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// A `list` of name and number, names ascending.
impl Codec for Limits {
    fn put(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.0.len()).expect("nobody sets four billion limits");
        count.put(out);
        for (name, value) in &self.0 {
            name.put(out);
            value.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::get(from)?;
        let mut limits = BTreeMap::new();
        for _ in 0..count {
            let (name, value) = (Box::<str>::get(from)?, i64::get(from)?);
            if limits.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(DecodeError::OutOfOrder { what: "limits" });
            }
            limits.insert(name, value);
        }
        Ok(Self(limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_number_is_no_limit_and_zero_allows_none() {
        let limits: Limits = [("a".into(), -1), ("b".into(), 0), ("c".into(), 7)].into_iter().collect();
        let bounds = ["a", "b", "c", "d"].map(|name| limits.bound(name));
        assert_eq!(bounds, [None, Some(0), Some(7), None]);
    }

    #[test]
    fn limits_out_of_order_are_not_decoded() {
        let mut limits: Limits = [("a".into(), 1)].into_iter().collect();
        let mut bytes = Vec::new();
        limits.put(&mut bytes);
        bytes[3] = 2;
        bytes.extend_from_within(4..);
        assert_eq!(Limits::get(&mut Reader::new(&bytes)), Err(DecodeError::OutOfOrder { what: "limits" }));
        limits.set("b", 2);
        bytes.clear();
        limits.put(&mut bytes);
        assert_eq!(Limits::get(&mut Reader::new(&bytes)), Ok(limits));
    }
}
