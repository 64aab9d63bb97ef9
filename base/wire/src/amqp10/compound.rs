//! Lists, maps, arrays and described values as raw bytes, read when asked.
//!
//! Refuses to know what they are for, and never changes them.

use super::value::{DEPTH_MAX, TypeError, Value, take};
use crate::reader::Reader;

/// A list: a view of its items, without size and count. Equality is equality of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List<'a>(&'a [u8]);

impl<'a> List<'a> {
    /// The list without items.
    pub const EMPTY: Self = List(&[]);

    /// A view of these items, unchecked.
    #[inline]
    #[must_use]
    pub const fn from_raw(items: &'a [u8]) -> Self {
        Self(items)
    }

    /// The items as received.
    #[inline]
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.0
    }

    /// Items in order; after an error there are no more.
    #[inline]
    #[must_use]
    pub const fn items(&self) -> Items<'a> {
        Items { reader: Reader::new(self.0) }
    }

    /// Items in order. Ends early at the first malformed one; in a validated list there is none.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.items().map_while(Result::ok)
    }

    /// The item at `index`, counted from 0. Passes over those before it by their sizes.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        let mut reader = Reader::new(self.0);
        for _ in 0..index {
            take(&mut reader).ok()?;
        }
        Value::read(&mut reader).ok()
    }
}

/// Iterator over the items of a [`List`].
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Value<'a>, TypeError>;

    #[inline]
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

/// A map: a view of its keys and values in turn, without size and count. Equality is equality of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Map<'a>(&'a [u8]);

impl<'a> Map<'a> {
    /// The map without entries.
    pub const EMPTY: Self = Map(&[]);

    /// A view of these entries, unchecked.
    #[inline]
    #[must_use]
    pub const fn from_raw(entries: &'a [u8]) -> Self {
        Self(entries)
    }

    /// The entries as received.
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

    /// Keys and values in order; after an error there are no more.
    #[inline]
    #[must_use]
    pub const fn entries(&self) -> Entries<'a> {
        Entries { items: List(self.0).items() }
    }

    /// Keys and values in order. Ends early at the first malformed one; in a validated map there is none.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        self.entries().map_while(Result::ok)
    }

    /// The value of the first key that is a string or symbol of these bytes.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value<'a>> {
        let key = key.as_ref();
        self.iter().find(|(candidate, _)| candidate.as_text() == Some(key)).map(|(_, value)| value)
    }
}

/// Iterator over the entries of a [`Map`].
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    items: Items<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(Value<'a>, Value<'a>), TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = match self.items.next()? {
            Ok(key) => key,
            Err(error) => return Some(Err(error)),
        };
        Some(match self.items.next() {
            Some(value) => value.map(|value| (key, value)),
            None => Err(TypeError::OddMap),
        })
    }
}

/// An array: elements of one constructor, which stands in front of them once.
///
/// Elements without data (`null`, `true`, `uint0`, ...) cost nothing on the wire however many there are. Their number
/// is known, but [`Array::elements`] yields none of them, so that five bytes never cost four billion steps. RabbitMQ
/// does not unfold such arrays either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    count: u32,
    /// Bytes of the constructor, its format code last: a value stays as small as without arrays.
    constructor_bytes: u32,
    /// Constructor and data.
    body: &'a [u8],
}

impl<'a> Array<'a> {
    /// `body`: constructor and data.
    pub(super) fn new(count: u32, body: &'a [u8]) -> Result<Self, TypeError> {
        let mut reader = Reader::new(body);
        let mut code = reader.u8().ok_or(TypeError::Truncated)?;
        let mut levels = 0;
        while code == 0 {
            levels += 1;
            if levels > DEPTH_MAX {
                return Err(TypeError::TooDeep { depth_max: DEPTH_MAX });
            }
            take(&mut reader)?;
            code = reader.u8().ok_or(TypeError::Truncated)?;
        }
        let data = reader.rest();
        let constructor_bytes = u32::try_from(body.len() - data.len()).map_err(|_| TypeError::BadArray)?;
        let is_zero_width = code >> 4 == 4;
        let fits = if is_zero_width { data.is_empty() } else { count as usize <= data.len() };
        if fits { Ok(Self { count, constructor_bytes, body }) } else { Err(TypeError::BadArray) }
    }

    /// How many elements the array says it has; at most one per byte of data, or any number if elements have none.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Format code of the elements, without descriptors.
    #[must_use]
    pub const fn code(&self) -> u8 {
        self.body[self.constructor_bytes as usize - 1]
    }

    const fn data(&self) -> &'a [u8] {
        self.body.split_at(self.constructor_bytes as usize).1
    }

    /// The descriptors behind the first marker 0x00, markers between them; empty if there are none.
    const fn descriptors(&self) -> &'a [u8] {
        match self.body.split_at(self.constructor_bytes as usize - 1).0 {
            [_, descriptors @ ..] => descriptors,
            [] => &[],
        }
    }

    /// The outermost descriptor of the elements, if they are described.
    #[must_use]
    pub fn descriptor(&self) -> Option<Value<'a>> {
        Value::read(&mut Reader::new(self.descriptors())).ok()
    }

    /// Elements in order, without their descriptors; after an error there are no more.
    #[must_use]
    pub const fn elements(&self) -> Elements<'a> {
        let left = if self.code() >> 4 == 4 { 0 } else { self.count };
        Elements { reader: Reader::new(self.data()), code: self.code(), left }
    }

    /// Constructor and data: all that follows the count.
    pub(super) fn write_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.body);
    }

    pub(super) fn validate_within(&self, depth_left: usize) -> Result<(), TypeError> {
        if !self.descriptors().is_empty() {
            let mut reader = Reader::new(self.descriptors());
            loop {
                Value::read(&mut reader)?.validate_within(depth_left)?;
                match reader.u8() {
                    None => break,
                    Some(0) => {}
                    Some(code) => return Err(TypeError::UnknownCode { code }),
                }
            }
        }
        let mut elements = self.elements();
        for element in elements.by_ref() {
            element?.validate_within(depth_left)?;
        }
        if !elements.reader.is_empty() {
            return Err(TypeError::BadArray);
        }
        match self.code() {
            0x40..=0x45 => Ok(()),
            code if code >> 4 == 4 => Err(TypeError::UnknownCode { code }),
            // An array without elements still has a constructor, which must be one.
            code if self.count == 0 => match Value::read_of_code(code, &mut Reader::new(&[])) {
                Err(error @ TypeError::UnknownCode { .. }) => Err(error),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Iterator over the elements of an [`Array`].
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    reader: Reader<'a>,
    code: u8,
    left: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>, TypeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let element = Value::read_of_code(self.code, &mut self.reader);
        if element.is_err() {
            self.left = 0;
        }
        Some(element)
    }
}

/// A described value: descriptor and value, each with its constructor. Equality is equality of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'a> {
    descriptor: &'a [u8],
    value: &'a [u8],
}

/// The descriptor in front of a described value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor<'a> {
    /// A number: domain in the high half, id in the low half. The specification's own have domain 0.
    Code(u64),
    /// A name.
    Symbol(&'a [u8]),
}

impl<'a> Described<'a> {
    /// Reads what follows the marker 0x00.
    #[inline]
    pub(super) fn read_behind_marker(reader: &mut Reader<'a>) -> Result<Self, TypeError> {
        let descriptor = take(reader)?;
        let value = take(reader)?;
        Ok(Self { descriptor, value })
    }

    /// The descriptor, if it is a number or a symbol, as all known ones are.
    #[inline]
    #[must_use]
    pub fn descriptor(&self) -> Option<Descriptor<'a>> {
        match *self.descriptor {
            [0x53, code] => Some(Descriptor::Code(code.into())),
            _ => match self.read_descriptor().ok()? {
                Value::Ulong(code) => Some(Descriptor::Code(code)),
                Value::Symbol(name) => Some(Descriptor::Symbol(name)),
                _ => None,
            },
        }
    }

    /// The value, or `None` if it is malformed.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<Value<'a>> {
        self.read_value().ok()
    }

    /// The descriptor's bytes, constructor included.
    #[must_use]
    pub const fn raw_descriptor(&self) -> &'a [u8] {
        self.descriptor
    }

    /// The value's bytes, constructor included.
    #[must_use]
    pub const fn raw_value(&self) -> &'a [u8] {
        self.value
    }

    pub(super) fn read_descriptor(&self) -> Result<Value<'a>, TypeError> {
        Value::read(&mut Reader::new(self.descriptor))
    }

    pub(super) fn read_value(&self) -> Result<Value<'a>, TypeError> {
        Value::read(&mut Reader::new(self.value))
    }
}

/// Passes over the elements of an array one by one, without reading them: how many there really are.
pub(super) fn count_items(items: &[u8]) -> u32 {
    let mut reader = Reader::new(items);
    let mut count = 0;
    while !reader.is_empty() && take(&mut reader).is_ok() {
        count += 1;
    }
    count
}

// Keeps the width table of `skip_data` and the readers of `Value` in step.
#[cfg(test)]
mod tests {
    use super::super::value::skip_data;
    use super::*;

    #[test]
    fn what_is_read_is_as_wide_as_what_is_skipped() {
        let bytes = [0; 64];
        for code in 0x40..=0xFF {
            let mut read = Reader::new(&bytes);
            let mut skipped = Reader::new(&bytes);
            if Value::read_of_code(code, &mut read).is_ok() {
                skip_data(code, &mut skipped).unwrap();
                assert_eq!(read.rest().len(), skipped.rest().len(), "{code:#x}");
            }
        }
    }

    #[test]
    fn arrays_of_elements_without_data_say_their_number_only() {
        let bytes = b"\xF0\x00\x00\x00\x05\xFF\xFF\xFF\xFF\x40";
        let (Value::Array(array), 10) = Value::parse(bytes).unwrap() else { panic!("an array") };
        assert_eq!((array.len(), array.elements().count()), (u32::MAX, 0));
        assert_eq!(Value::Array(array).validate(), Ok(()));
        assert_eq!(Value::parse(b"\xE0\x03\x02\x40\x40"), Err(TypeError::BadArray));
    }

    #[test]
    fn an_array_of_described_elements_is_read() {
        // The example of section 1.2: two URLs.
        let bytes = b"\xE0\x0D\x02\x00\xA3\x03URL\xA1\x01a\x02bc";
        let (value, used) = Value::parse(bytes).unwrap();
        let Value::Array(array) = value else { panic!("an array") };
        assert_eq!((used, array.descriptor()), (bytes.len(), Some(Value::Symbol(b"URL"))));
        let elements: Vec<_> = array.elements().map(Result::unwrap).collect();
        assert_eq!(elements, [Value::Str(b"a"), Value::Str(b"bc")]);
        assert_eq!(value.validate(), Ok(()));
    }

    #[test]
    fn a_count_that_lies_is_refused_or_ignored() {
        assert_eq!(Value::parse(b"\xF0\x00\x00\x00\x06\xFF\xFF\xFF\xFF\x50\x01"), Err(TypeError::BadArray));
        let (value, _) = Value::parse(b"\xE0\x04\x01\x50\x01\x02").unwrap();
        assert_eq!(value.validate(), Err(TypeError::BadArray));
        let (value, _) = Value::parse(b"\xC0\x03\x63\x41\x42").unwrap();
        assert_eq!(value.as_list().unwrap().iter().count(), 2, "the count of a list is not looked at");
        let (value, _) = Value::parse(b"\xC1\x03\x03\x41\x42").unwrap();
        assert_eq!(value.validate(), Ok(()));
        let (value, _) = Value::parse(b"\xC1\x02\x02\x41").unwrap();
        assert_eq!(value.validate(), Err(TypeError::OddMap));
    }
}
