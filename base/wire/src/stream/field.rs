//! Types of the fields of commands.
//!
//! ```text
//!  string  length i16, -1 for null | UTF-8          array  count u32 | items
//!  bytes   length i32, -1 for null | data           map    array of (string, string)
//! ```

use std::fmt;
use std::marker::PhantomData;

use crate::reader::Reader;

/// Something that stands in a command: one value after the other, without padding.
pub trait Field<'a>: Sized {
    /// Reads it, or says `None` if the bytes end too early or are not of this type.
    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Option<Self>;

    /// Appends it.
    #[doc(hidden)]
    fn write(&self, out: &mut Vec<u8>);

    #[cfg(test)]
    #[doc(hidden)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self;
}

macro_rules! numbers {
    ($($number:ident, $reader:ident;)+) => { $(
        impl<'a> Field<'a> for $number {
            #[inline]
            fn read(reader: &mut Reader<'a>) -> Option<Self> {
                reader.$reader().map(|number| $number::from_be_bytes(number.to_be_bytes()))
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            #[cfg(test)]
            fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
                $number::from_le_bytes(*samples.number().to_le_bytes().first_chunk().unwrap())
            }
        }
    )+ };
}

numbers! {
    u8, u8;
    u16, u16;
    u32, u32;
    u64, u64;
    i64, u64;
}

/// One octet that is 0 or 1.
impl<'a> Field<'a> for bool {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        match reader.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        samples.number() % 2 == 1
    }
}

/// A string. Null is read as the empty string; bytes that are not UTF-8 are refused. At most 65,534 bytes.
impl<'a> Field<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let length = reader.u16()?;
        if length == u16::MAX {
            return Some("");
        }
        std::str::from_utf8(reader.bytes(length.into())?).ok()
    }

    /// # Panics
    /// If it is longer than a string can be; names and texts of a broker are bounded far below that.
    fn write(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.len()).ok().filter(|length| *length != u16::MAX);
        let length = length.expect("a string has at most 65,534 bytes");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.as_bytes());
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        samples.text()
    }
}

/// Bytes, or null.
impl<'a> Field<'a> for Option<&'a [u8]> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let length = reader.u32()?;
        if length == u32::MAX {
            return Some(None);
        }
        reader.bytes(usize::try_from(length).ok()?).map(Some)
    }

    /// # Panics
    /// If they are 4 GiB or more, which no `frame_max` lets through.
    fn write(&self, out: &mut Vec<u8>) {
        let Some(bytes) = self else { return out.extend_from_slice(&u32::MAX.to_be_bytes()) };
        let length = u32::try_from(bytes.len()).expect("bytes of a frame are below 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(bytes);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        (!samples.number().is_multiple_of(3)).then(|| samples.text().as_bytes())
    }
}

/// An array: a view of its items, all of which have been walked once.
pub struct List<'a, T> {
    count: u32,
    raw: &'a [u8],
    item: PhantomData<fn() -> T>,
}

impl<'a, T: Field<'a>> List<'a, T> {
    /// The array without items.
    pub const EMPTY: Self = List { count: 0, raw: &[], item: PhantomData };

    /// How many items there are.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Items in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut reader = Reader::new(self.raw);
        (0..self.count).map_while(move |_| T::read(&mut reader))
    }
}

impl<'a> List<'a, (&'a str, &'a str)> {
    /// The value of the first entry with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.iter().find(|(candidate, _)| *candidate == key).map(|(_, value)| value)
    }
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        List { count: 0, raw: &[], item: PhantomData }
    }
}

/// Equality of bytes.
impl<T> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.raw) == (other.count, other.raw)
    }
}

impl<T> Eq for List<'_, T> {}

impl<'a, T: Field<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Field<'a>> Field<'a> for List<'a, T> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let count = reader.u32()?;
        let before = reader.rest();
        // An item has a byte at least: a count that lies ends at the end of the frame.
        for _ in 0..count {
            T::read(reader)?;
        }
        let raw = &before[..before.len() - reader.rest().len()];
        Some(Self { count, raw, item: PhantomData })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(self.raw);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        let mut buf = ListBuf::new();
        for _ in 0..samples.number() % 4 {
            buf.push(&T::sample(samples));
        }
        // Tests may leak: the sample must live as long as the pools do.
        Box::leak(Box::new(buf)).as_list()
    }
}

/// Items of an array to be written. All must be of the type that [`ListBuf::as_list`] is asked for.
#[derive(Clone, Debug, Default)]
pub struct ListBuf {
    count: u32,
    raw: Vec<u8>,
}

impl ListBuf {
    /// Without items.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0, raw: Vec::new() }
    }

    /// An array of these items.
    pub fn of<'b, T: Field<'b>>(items: impl IntoIterator<Item = T>) -> Self {
        let mut buf = Self::new();
        items.into_iter().for_each(|item| buf.push(&item));
        buf
    }

    /// Appends an item.
    pub fn push<'b, T: Field<'b>>(&mut self, item: &T) {
        item.write(&mut self.raw);
        self.count += 1;
    }

    /// The array.
    ///
    /// # Panics
    /// If the items are of another type: a bug in the caller, which would put nonsense on the wire.
    #[must_use]
    pub fn as_list<'a, T: Field<'a>>(&'a self) -> List<'a, T> {
        let list = List { count: self.count, raw: &self.raw, item: PhantomData };
        let mut reader = Reader::new(&self.raw);
        let is_whole = (0..self.count).all(|_| T::read(&mut reader).is_some()) && reader.is_empty();
        assert!(is_whole, "an array is asked for as another type than its items have");
        list
    }
}

/// An array at the end of a command that is left out when it is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trailing<'a, T>(pub List<'a, T>);

impl<T> Default for Trailing<'_, T> {
    fn default() -> Self {
        Self(List::default())
    }
}

impl<'a, T: Field<'a> + fmt::Debug> fmt::Debug for Trailing<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Trailing<'a, T> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        if reader.is_empty() { Some(Self::default()) } else { List::read(reader).map(Self) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if !self.0.is_empty() {
            self.0.write(out);
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        Self(List::sample(samples))
    }
}

/// Bytes at the end of a command that are left out when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailingBytes<'a>(pub &'a [u8]);

impl<'a> Field<'a> for TrailingBytes<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        if reader.is_empty() {
            return Some(Self(&[]));
        }
        Option::<&'a [u8]>::read(reader).map(|bytes| Self(bytes.unwrap_or_default()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        if !self.0.is_empty() {
            Some(self.0).write(out);
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        Self(samples.text().as_bytes())
    }
}

/// Where a consumer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetSpec {
    /// Nowhere: only in answers to consumer updates.
    #[default]
    None,
    /// The first message that is there.
    First,
    /// The last chunk.
    Last,
    /// The next message that is published.
    Next,
    /// This offset.
    Offset(u64),
    /// The first chunk of this time or later, milliseconds since 1970.
    Timestamp(i64),
}

impl<'a> Field<'a> for OffsetSpec {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(match reader.u16()? {
            0 => Self::None,
            1 => Self::First,
            2 => Self::Last,
            3 => Self::Next,
            4 => Self::Offset(reader.u64()?),
            5 => Self::Timestamp(reader.u64()?.cast_signed()),
            _ => return None,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (kind, value): (u16, Option<u64>) = match *self {
            Self::None => (0, None),
            Self::First => (1, None),
            Self::Last => (2, None),
            Self::Next => (3, None),
            Self::Offset(offset) => (4, Some(offset)),
            Self::Timestamp(millis) => (5, Some(millis.cast_unsigned())),
        };
        kind.write(out);
        if let Some(value) = value {
            value.write(out);
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        match samples.number() % 6 {
            0 => Self::None,
            1 => Self::First,
            2 => Self::Last,
            3 => Self::Next,
            4 => Self::Offset(samples.number()),
            _ => Self::Timestamp(samples.number().cast_signed()),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident $index:tt),+);)+) => { $(
        impl<'a, $($part: Field<'a>),+> Field<'a> for ($($part,)+) {
            #[inline]
            fn read(reader: &mut Reader<'a>) -> Option<Self> {
                Some(($($part::read(reader)?,)+))
            }

            fn write(&self, out: &mut Vec<u8>) {
                $( self.$index.write(out); )+
            }

            #[cfg(test)]
            fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
                ($($part::sample(samples),)+)
            }
        }
    )+ };
}

tuples! {
    (A 0, B 1);
}

/// A struct whose fields stand one after the other.
macro_rules! records {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lifetime:lifetime>)? { $( $(#[$field_meta:meta])* $field:ident : $type:ty ),+ $(,)? }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$lifetime>)? {
            $( $(#[$field_meta])* pub $field: $type, )+
        }

        impl<'a> Field<'a> for $name $(<$lifetime>)? {
            #[inline]
            fn read(reader: &mut Reader<'a>) -> Option<Self> {
                Some(Self { $( $field: Field::read(reader)?, )+ })
            }

            fn write(&self, out: &mut Vec<u8>) {
                $( self.$field.write(out); )+
            }

            #[cfg(test)]
            fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
                Self { $( $field: Field::sample(samples), )+ }
            }
        }
    )+ };
}

records! {
    /// Versions of a command that one side speaks.
    CommandVersions {
        /// Which command.
        key: u16,
        /// Lowest version.
        min: u16,
        /// Highest version.
        max: u16,
    }

    /// A node, as clients reach it.
    Broker<'a> {
        /// How streams of the same answer name it.
        reference: u16,
        /// Host name or address.
        host: &'a str,
        /// Port.
        port: u32,
    }

    /// The known facts about a stream.
    StreamMetadata<'a> {
        /// Name.
        stream: &'a str,
        /// Whether the rest says something.
        code: super::ResponseCode,
        /// Node of the leader; [`NO_LEADER`] if there is none.
        leader: u16,
        /// Nodes of the replicas.
        replicas: List<'a, u16>,
    }

    /// A message that was not taken.
    PublishingError {
        /// Its publishing id.
        publishing_id: u64,
        /// Why.
        code: super::ResponseCode,
    }
}

/// The reference of a leader that is not known.
pub const NO_LEADER: u16 = u16::MAX;
