//! Tables and arrays being built: owned bytes in wire form.
//!
//! Refuses to bound their size or depth; the reader from the wire does that.

use super::ShortStr;
use super::table::{Array, Entry, Table};
use super::value::Value;

/// A field table in wire form, without the length in front. Equality is equality of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableBuf(Vec<u8>);

impl TableBuf {
    /// The table without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The table as a view.
    #[must_use]
    pub fn as_table(&self) -> Table<'_> {
        Table::from_raw(&self.0)
    }

    /// The bytes, without the length in front.
    #[must_use]
    pub fn into_raw(self) -> Vec<u8> {
        self.0
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the name is longer than 255 bytes: check names from outside with [`ShortStr::new`] first.
    pub fn push<'v>(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value<'v>>) -> &mut Self {
        ShortStr::bounded(name.as_ref()).write(&mut self.0);
        value.into().write(&mut self.0);
        self
    }

    /// The same as [`TableBuf::push`], with the value spelled out.
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_raw(&mut self, name: impl AsRef<[u8]>, value: Value<'_>) -> &mut Self {
        self.push(name, value)
    }

    /// Appends a received entry unchanged.
    pub fn push_entry(&mut self, entry: &Entry<'_>) -> &mut Self {
        self.0.extend_from_slice(entry.raw);
        self
    }

    /// Appends a long string.
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_str(&mut self, name: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> &mut Self {
        self.push(name, Value::LongStr(text.as_ref()))
    }

    /// Appends a 64-bit integer (`l`).
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_i64(&mut self, name: impl AsRef<[u8]>, number: i64) -> &mut Self {
        self.push(name, Value::I64(number))
    }

    /// Appends a 32-bit integer (`I`).
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_i32(&mut self, name: impl AsRef<[u8]>, number: i32) -> &mut Self {
        self.push(name, Value::I32(number))
    }

    /// Appends a flag.
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_bool(&mut self, name: impl AsRef<[u8]>, flag: bool) -> &mut Self {
        self.push(name, Value::Bool(flag))
    }

    /// Appends a timestamp in seconds since 1970.
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_timestamp(&mut self, name: impl AsRef<[u8]>, seconds: u64) -> &mut Self {
        self.push(name, Value::Timestamp(seconds))
    }

    /// Appends a table.
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_table(&mut self, name: impl AsRef<[u8]>, table: Table<'_>) -> &mut Self {
        self.push(name, Value::Table(table))
    }

    /// Appends an array.
    ///
    /// # Panics
    /// As [`TableBuf::push`].
    pub fn push_array(&mut self, name: impl AsRef<[u8]>, array: Array<'_>) -> &mut Self {
        self.push(name, Value::Array(array))
    }

    /// Removes every entry of that name and leaves the others as they are, byte for byte. Says whether there was
    /// one. Entries from the first malformed one on are left alone.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let mut kept = Vec::new();
        let mut walked = 0;
        for entry in self.as_table().entries().map_while(Result::ok) {
            walked += entry.raw.len();
            if entry.name.as_bytes() != name {
                kept.extend_from_slice(entry.raw);
            }
        }
        let removed = kept.len() != walked;
        if removed {
            kept.extend_from_slice(&self.0[walked..]);
            self.0 = kept;
        }
        removed
    }
}

impl From<Table<'_>> for TableBuf {
    fn from(table: Table<'_>) -> Self {
        Self(table.raw().to_vec())
    }
}

/// A field array in wire form, without the length in front. Equality is equality of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArrayBuf(Vec<u8>);

impl ArrayBuf {
    /// The array without elements.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The array as a view.
    #[must_use]
    pub fn as_array(&self) -> Array<'_> {
        Array::from_raw(&self.0)
    }

    /// Whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a value.
    pub fn push<'v>(&mut self, value: impl Into<Value<'v>>) -> &mut Self {
        value.into().write(&mut self.0);
        self
    }

    /// Appends a long string.
    pub fn push_str(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.push(Value::LongStr(text.as_ref()))
    }

    /// Appends a table.
    pub fn push_table(&mut self, table: Table<'_>) -> &mut Self {
        self.push(Value::Table(table))
    }
}

impl From<Array<'_>> for ArrayBuf {
    fn from(array: Array<'_>) -> Self {
        Self(array.raw().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_table_has_the_bytes_of_the_specification() {
        let mut table = TableBuf::new();
        table.push_str("k", "v").push_bool("b", true).push_i64("n", -2);
        assert_eq!(
            table.as_table().raw(),
            b"\x01kS\x00\x00\x00\x01v\x01bt\x01\x01nl\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE"
        );
    }

    #[test]
    fn removing_takes_every_entry_of_the_name_and_keeps_the_rest_byte_for_byte() {
        let mut table = TableBuf::from(Table::from_raw(b"\x01at\x07\x01bV\x01aV\x01cL\0\0\0\0\0\0\0\x01"));
        assert!(table.remove("a"));
        assert_eq!(table.as_table().raw(), b"\x01bV\x01cL\0\0\0\0\0\0\0\x01");
        assert!(!table.remove("a"));
        assert!(!TableBuf::from(Table::from_raw(b"\x09x")).remove("x"));
    }
}
