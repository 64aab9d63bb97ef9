//! Field tables and arrays as raw bytes, read when asked.
//!
//! Refuses to know what entries mean and never changes them: order, duplicates and empty names stay (B114).
//!
//! ```text
//!  table  entry*          entry  name length u8 | name | value
//!  array  value*          value  type octet | bytes of that type
//! ```
//!
//! The four-octet length in front of a table or array is not part of the views.

use super::ShortStr;
use super::value::Value;
use crate::reader::Reader;

/// How deep tables and arrays may be nested: the outermost is 1. RabbitMQ has no bound and recurses; every client's
/// headers and arguments, `x-death` included, stay below 5.
pub const TABLE_DEPTH_MAX: usize = 256;

/// The reason why bytes are no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// An entry runs past the end.
    #[error("an entry runs past the end")]
    Truncated,
    /// No such type octet.
    #[error("unknown type octet {kind:#04x}")]
    UnknownType {
        /// The octet.
        kind: u8,
    },
    /// Nested deeper than allowed.
    #[error("nested deeper than {depth_max}")]
    TooDeep {
        /// Levels allowed.
        depth_max: usize,
    },
}

/// A field table: a view of its raw bytes, without the length in front.
///
/// Equality is equality of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table<'a>(&'a [u8]);

/// One entry of a [`Table`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// Name, as received.
    pub name: ShortStr<'a>,
    /// Value.
    pub value: Value<'a>,
    /// The whole entry as received, to be copied elsewhere unchanged.
    pub raw: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table without entries.
    pub const EMPTY: Self = Table(&[]);

    /// A view of these bytes, unchecked.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: &'a [u8]) -> Self {
        Self(raw)
    }

    /// The bytes, without the length in front.
    #[inline]
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.0
    }

    /// Whether there are no entries.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in order. Ends early at the first malformed entry; in a validated table there is none.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Value<'a>)> + use<'a> {
        self.entries().map_while(Result::ok).map(|entry| (entry.name.as_bytes(), entry.value))
    }

    /// Entries in order; after an error there are no more.
    #[inline]
    #[must_use]
    pub const fn entries(&self) -> Entries<'a> {
        Entries { reader: Reader::new(self.0) }
    }

    /// The first entry of that name, as RabbitMQ looks names up.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<Value<'a>> {
        let name = name.as_ref();
        self.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// Walks everything once, nested tables and arrays too. `depth_max` levels are allowed, this table being the
    /// first; more than [`TABLE_DEPTH_MAX`] is treated as that.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn validate(&self, depth_max: usize) -> Result<(), TableError> {
        let depth_max = depth_max.min(TABLE_DEPTH_MAX);
        validate_table(*self, depth_max, depth_max)
    }
}

/// Iterator over the entries of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
}

impl<'a> Entries<'a> {
    fn read(&mut self) -> Result<Entry<'a>, TableError> {
        let before = self.reader.rest();
        let name = self.reader.short_bytes().map(ShortStr::bounded).ok_or(TableError::Truncated)?;
        let value = Value::read(&mut self.reader)?;
        let raw = &before[..before.len() - self.reader.rest().len()];
        Ok(Entry { name, value, raw })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(entry)
    }
}

/// A field array: a view of its raw bytes, without the length in front.
///
/// Equality is equality of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    /// The array without elements.
    pub const EMPTY: Self = Array(&[]);

    /// A view of these bytes, unchecked.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: &'a [u8]) -> Self {
        Self(raw)
    }

    /// The bytes, without the length in front.
    #[inline]
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.0
    }

    /// Whether there are no elements.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Values in order. Ends early at the first malformed one; in a validated table there is none.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.elements().map_while(Result::ok)
    }

    /// Values in order; after an error there are no more.
    #[inline]
    #[must_use]
    pub const fn elements(&self) -> Elements<'a> {
        Elements { reader: Reader::new(self.0) }
    }

    /// As [`Table::validate`].
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn validate(&self, depth_max: usize) -> Result<(), TableError> {
        let depth_max = depth_max.min(TABLE_DEPTH_MAX);
        validate_array(*self, depth_max, depth_max)
    }
}

/// Iterator over the values of an [`Array`].
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let value = Value::read(&mut self.reader);
        if value.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(value)
    }
}

// The recursion goes at most TABLE_DEPTH_MAX deep: `depth_left` is clamped to it by the public entry points.
fn validate_table(table: Table<'_>, depth_left: usize, depth_max: usize) -> Result<(), TableError> {
    let depth_left = depth_left.checked_sub(1).ok_or(TableError::TooDeep { depth_max })?;
    for entry in table.entries() {
        validate_value(entry?.value, depth_left, depth_max)?;
    }
    Ok(())
}

fn validate_array(array: Array<'_>, depth_left: usize, depth_max: usize) -> Result<(), TableError> {
    let depth_left = depth_left.checked_sub(1).ok_or(TableError::TooDeep { depth_max })?;
    for value in array.elements() {
        validate_value(value?, depth_left, depth_max)?;
    }
    Ok(())
}

fn validate_value(value: Value<'_>, depth_left: usize, depth_max: usize) -> Result<(), TableError> {
    match value {
        Value::Table(table) => validate_table(table, depth_left, depth_max),
        Value::Array(array) => validate_array(array, depth_left, depth_max),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ArrayBuf, TableBuf};
    use super::*;

    /// A table with `depth` levels, itself included.
    fn nested(depth: usize) -> TableBuf {
        let mut table = TableBuf::new();
        for _ in 1..depth {
            let mut outer = TableBuf::new();
            outer.push_table("a", table.as_table());
            table = outer;
        }
        table
    }

    #[test]
    fn nesting_is_allowed_to_the_bound_and_no_deeper() {
        let allowed = nested(TABLE_DEPTH_MAX);
        assert_eq!(allowed.as_table().validate(TABLE_DEPTH_MAX), Ok(()));
        let deep = nested(TABLE_DEPTH_MAX + 1);
        let error = TableError::TooDeep { depth_max: TABLE_DEPTH_MAX };
        assert_eq!(deep.as_table().validate(TABLE_DEPTH_MAX), Err(error));
        assert_eq!(deep.as_table().validate(usize::MAX), Err(error));
        assert_eq!(nested(3).as_table().validate(2), Err(TableError::TooDeep { depth_max: 2 }));
    }

    #[test]
    fn ten_thousand_levels_are_refused_at_the_bound() {
        let deep = nested(10_000);
        let error = TableError::TooDeep { depth_max: TABLE_DEPTH_MAX };
        assert_eq!(deep.as_table().validate(TABLE_DEPTH_MAX), Err(error));
    }

    #[test]
    fn arrays_count_as_levels() {
        let mut array = ArrayBuf::new();
        for _ in 1..TABLE_DEPTH_MAX {
            let mut outer = ArrayBuf::new();
            outer.push(Value::Array(array.as_array()));
            array = outer;
        }
        assert_eq!(array.as_array().validate(TABLE_DEPTH_MAX), Ok(()));
        let mut table = TableBuf::new();
        table.push("a", Value::Array(array.as_array()));
        assert!(matches!(table.as_table().validate(TABLE_DEPTH_MAX), Err(TableError::TooDeep { .. })));
    }

    #[test]
    fn order_duplicates_and_empty_names_stay() {
        let table = Table::from_raw(b"\x01bt\x01\x01aV\x00V\x01bt\x00");
        assert_eq!(table.validate(1), Ok(()));
        let names: Vec<&[u8]> = table.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"b"[..], b"a", b"", b"b"]);
        assert_eq!(table.get("b"), Some(Value::Bool(true)), "the first of a name wins");
        assert_eq!(table.get("c"), None);
        let copied: Vec<u8> = table.entries().flat_map(|entry| entry.unwrap().raw.to_vec()).collect();
        assert_eq!(copied, table.raw());
    }

    #[test]
    fn a_malformed_entry_ends_the_walk() {
        let table = Table::from_raw(b"\x01aV\x05b");
        assert_eq!(table.validate(1), Err(TableError::Truncated));
        assert_eq!(table.iter().count(), 1);
        assert_eq!(table.entries().count(), 2);
        assert_eq!(Table::from_raw(b"\x01az").validate(1), Err(TableError::UnknownType { kind: b'z' }));
        assert_eq!(Table::from_raw(b"\x01aF\xFF\xFF\xFF\xFF").validate(1), Err(TableError::Truncated));
    }

    #[test]
    fn a_malformed_nested_entry_is_found() {
        assert_eq!(Table::from_raw(b"\x01aF\x00\x00\x00\x01\x07").validate(2), Err(TableError::Truncated));
        let array = b"\x01aA\x00\x00\x00\x02Vz";
        assert_eq!(Table::from_raw(array).validate(2), Err(TableError::UnknownType { kind: b'z' }));
    }
}
