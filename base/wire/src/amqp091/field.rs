//! Method fields: how each type of the specification's domains is read, checked and written.
//!
//! Refuses to know which method a field belongs to.

use super::{ShortStr, TABLE_DEPTH_MAX, Table, TableError};
use crate::reader::Reader;

/// The fault of a field whose length was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldError {
    NotUtf8,
    Table(TableError),
}

/// One field of a method.
pub(super) trait Field<'a>: Sized {
    /// Reads the field, or `None` if the bytes end before it does.
    fn read(reader: &mut Reader<'a>) -> Option<Self>;

    /// Looks inside the field; only for methods without content, as RabbitMQ does.
    fn check(&self) -> Result<(), FieldError> {
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! number_fields {
    ($($number:ident),*) => { $(
        impl<'a> Field<'a> for $number {
            #[inline]
            fn read(reader: &mut Reader<'a>) -> Option<Self> {
                reader.$number()
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )* };
}

number_fields!(u8, u16, u32, u64);

impl<'a> Field<'a> for ShortStr<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        reader.short_bytes().map(Self::bounded)
    }

    fn check(&self) -> Result<(), FieldError> {
        std::str::from_utf8(self).map(|_| ()).map_err(|_| FieldError::NotUtf8)
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        ShortStr::write(*self, out);
    }
}

/// A long string.
impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        reader.long_bytes()
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        write_long(self, out);
    }
}

impl<'a> Field<'a> for Table<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        reader.long_bytes().map(Table::from_raw)
    }

    fn check(&self) -> Result<(), FieldError> {
        self.validate(TABLE_DEPTH_MAX).map_err(FieldError::Table)
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        write_long(self.raw(), out);
    }
}

/// Appends a four-octet length and the bytes.
#[inline]
pub(super) fn write_long(bytes: &[u8], out: &mut Vec<u8>) {
    let count =
        u32::try_from(bytes.len()).expect("a long string is below 4 GiB: messages are at most 512 MiB");
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Flags of a method, packed low bit first into one octet (AMQP 0-9-1 section 4.2.5.2). No method has more than
/// eight in a row. Bits beyond the defined ones are ignored, as RabbitMQ does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits(u8);

impl Bits {
    #[inline]
    pub(super) const fn of(octet: u8) -> Self {
        Self(octet)
    }

    /// The next flag.
    #[inline]
    pub(super) const fn take(&mut self) -> bool {
        let bit = self.0 & 1 != 0;
        self.0 >>= 1;
        bit
    }

    #[inline]
    pub(super) fn pack<const N: usize>(flags: [bool; N]) -> u8 {
        const { assert!(N <= 8, "more than eight consecutive bits need a second octet") };
        flags.iter().rev().fold(0, |octet, &flag| (octet << 1) | u8::from(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn bits_are_packed_low_bit_first() {
        assert_eq!(Bits::pack([true, false, true]), 0b101);
        assert_eq!(Bits::pack([false, true]), 0b10);
        let mut bits = Bits::of(0b110);
        assert_eq!((bits.take(), bits.take(), bits.take(), bits.take()), (false, true, true, false));
    }
}
