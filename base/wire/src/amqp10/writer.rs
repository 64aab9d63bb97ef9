//! Values appended to a caller's buffer, in the shortest encodings that RabbitMQ writes, too.
//!
//! Refuses to know what values are for. Sizes and counts are filled in behind: nothing is collected first.

use super::compound::{Array, count_items};
use super::value::Value;

const LIST: u8 = 0xC0;
const MAP: u8 = 0xC1;
const ARRAY: u8 = 0xE0;
/// Set in the format code of a compound value whose size and count have four bytes.
const WIDE: u8 = 0x10;

/// Appends values to a buffer.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// Values written since the innermost compound value began.
    count: u32,
}

/// A place to which a [`Writer`] can go back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    length: usize,
    count: u32,
}

/// Elements of an array that are not of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("elements of an array differ in their types")]
pub struct MixedArray;

impl<'o> Writer<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, count: 0 }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { length: self.out.len(), count: self.count }
    }

    pub(super) fn go_back(&mut self, mark: Mark) {
        self.out.truncate(mark.length);
        self.count = mark.count;
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.out.extend_from_slice(&bytes);
        self.count += 1;
    }

    #[inline]
    fn put_with<const N: usize>(&mut self, code: u8, data: [u8; N]) {
        self.out.push(code);
        self.put(data);
    }

    /// `null`
    pub fn null(&mut self) {
        self.put([0x40]);
    }

    /// `boolean`
    pub fn bool(&mut self, flag: bool) {
        self.put([if flag { 0x41 } else { 0x42 }]);
    }

    /// `ubyte`
    pub fn ubyte(&mut self, number: u8) {
        self.put([0x50, number]);
    }

    /// `ushort`
    pub fn ushort(&mut self, number: u16) {
        self.put_with(0x60, number.to_be_bytes());
    }

    /// `uint`
    #[inline]
    pub fn uint(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(0) => self.put([0x43]),
            Ok(small) => self.put([0x52, small]),
            Err(_) => self.put_with(0x70, number.to_be_bytes()),
        }
    }

    /// `ulong`
    pub fn ulong(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(0) => self.put([0x44]),
            Ok(small) => self.put([0x53, small]),
            Err(_) => self.put_with(0x80, number.to_be_bytes()),
        }
    }

    /// `timestamp`: milliseconds since 1970
    pub fn timestamp(&mut self, millis: i64) {
        self.put_with(0x83, millis.to_be_bytes());
    }

    /// `uuid`
    pub fn uuid(&mut self, bytes: [u8; 16]) {
        self.put_with(0x98, bytes);
    }

    /// `binary`
    ///
    /// # Panics
    /// Like all that takes bytes: if there are 4 GiB or more, which no bound of a broker lets through.
    #[inline]
    pub fn binary(&mut self, bytes: &[u8]) {
        self.sized(0xA0, bytes);
    }

    /// `string`; the caller answers for its being UTF-8.
    #[inline]
    pub fn string(&mut self, bytes: &[u8]) {
        self.sized(0xA1, bytes);
    }

    /// `symbol`; the caller answers for its being ASCII.
    pub fn symbol(&mut self, bytes: &[u8]) {
        self.sized(0xA3, bytes);
    }

    #[inline]
    fn sized(&mut self, code: u8, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(size) => self.out.extend_from_slice(&[code, size]),
            Err(_) => {
                self.out.push(code | WIDE);
                self.out.extend_from_slice(&size(bytes.len()));
            }
        }
        self.out.extend_from_slice(bytes);
        self.count += 1;
    }

    /// A list of what `items` appends.
    pub fn list(&mut self, items: impl FnOnce(&mut Self)) {
        self.compound(LIST, items);
    }

    /// A map of what `entries` appends: a key, its value, the next key, and so on.
    pub fn map(&mut self, entries: impl FnOnce(&mut Self)) {
        self.compound(MAP, entries);
    }

    fn compound(&mut self, code: u8, items: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[code, 0, 0]);
        let outer = std::mem::replace(&mut self.count, 0);
        items(self);
        let count = std::mem::replace(&mut self.count, outer + 1);
        self.close(start, count);
    }

    /// Fills in size and count of what was begun at `start` with three bytes; makes room for wide ones if need be.
    fn close(&mut self, start: usize, count: u32) {
        let body = start + 3;
        let bytes = self.out.len() - body;
        match (u8::try_from(bytes + 1), u8::try_from(count)) {
            (Ok(_), Ok(0)) if self.out[start] == LIST => {
                self.out.truncate(start);
                self.out.push(0x45);
            }
            (Ok(size), Ok(count)) => {
                self.out[start + 1] = size;
                self.out[start + 2] = count;
            }
            _ => {
                let end = self.out.len();
                self.out.extend_from_slice(&[0; 6]);
                self.out.copy_within(body..end, body + 6);
                self.out[start] |= WIDE;
                self.out[start + 1..start + 5].copy_from_slice(&size(bytes + 4));
                self.out[start + 5..start + 9].copy_from_slice(&count.to_be_bytes());
            }
        }
    }

    /// A value described by the number `descriptor`; `value` appends exactly one value.
    pub fn described(&mut self, descriptor: u64, value: impl FnOnce(&mut Self)) {
        self.out.push(0);
        let outer = self.count;
        self.ulong(descriptor);
        value(self);
        debug_assert_eq!(self.count, outer + 2, "a described value has one value");
        self.count = outer + 1;
    }

    /// A value described by the symbol `descriptor`; `value` appends exactly one value.
    pub fn described_by_name(&mut self, descriptor: &[u8], value: impl FnOnce(&mut Self)) {
        self.out.push(0);
        let outer = self.count;
        self.symbol(descriptor);
        value(self);
        debug_assert_eq!(self.count, outer + 2, "a described value has one value");
        self.count = outer + 1;
    }

    /// An array of symbols; with four-byte sizes, as RabbitMQ has them.
    pub fn symbols<'v>(&mut self, symbols: impl IntoIterator<Item = &'v [u8]>) {
        let start = self.out.len();
        self.out.extend_from_slice(&[ARRAY, 0, 0, 0xB3]);
        let mut count = 0;
        for symbol in symbols {
            self.out.extend_from_slice(&size(symbol.len()));
            self.out.extend_from_slice(symbol);
            count += 1;
        }
        self.close(start, count);
        self.count += 1;
    }

    /// An array of values of one type, which must not be described. Without elements it is an array of `null`.
    ///
    /// # Errors
    /// [`MixedArray`] if they are not of one type, or described; nothing is appended then.
    pub fn array<'v>(&mut self, elements: impl IntoIterator<Item = Value<'v>>) -> Result<(), MixedArray> {
        let mark = self.mark();
        self.out.extend_from_slice(&[ARRAY, 0, 0]);
        let mut code = None;
        let mut count = 0;
        for element in elements {
            let own = wide_code(&element);
            if own == 0 || *code.get_or_insert(own) != own {
                self.go_back(mark);
                return Err(MixedArray);
            }
            if count == 0 {
                self.out.push(own);
            }
            self.wide_data(&element);
            count += 1;
        }
        if code.is_none() {
            self.out.push(0x40);
        }
        self.close(mark.length, count);
        self.count += 1;
        Ok(())
    }

    /// Appends a value that is encoded already.
    #[inline]
    pub fn raw(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
        self.count += 1;
    }

    /// Appends any value. Items of compound values stay as they are encoded.
    pub fn value(&mut self, value: &Value<'_>) {
        match *value {
            Value::Null => self.null(),
            Value::Bool(flag) => self.bool(flag),
            Value::Uint(number) => self.uint(number),
            Value::Ulong(number) => self.ulong(number),
            Value::Int(number) => match i8::try_from(number) {
                Ok(small) => self.put([0x54, small.cast_unsigned()]),
                Err(_) => self.put_with(0x71, number.to_be_bytes()),
            },
            Value::Long(number) => match i8::try_from(number) {
                Ok(small) => self.put([0x55, small.cast_unsigned()]),
                Err(_) => self.put_with(0x81, number.to_be_bytes()),
            },
            Value::Binary(bytes) => self.binary(bytes),
            Value::Str(bytes) => self.string(bytes),
            Value::Symbol(bytes) => self.symbol(bytes),
            Value::List(list) => self.compound_raw(LIST, list.raw()),
            Value::Map(map) => self.compound_raw(MAP, map.raw()),
            Value::Array(array) => self.array_raw(&array),
            Value::Described(described) => {
                self.out.push(0);
                self.out.extend_from_slice(described.raw_descriptor());
                self.raw(described.raw_value());
            }
            _ => {
                self.out.push(wide_code(value));
                self.wide_data(value);
                self.count += 1;
            }
        }
    }

    fn compound_raw(&mut self, code: u8, items: &[u8]) {
        let start = self.out.len();
        self.out.extend_from_slice(&[code, 0, 0]);
        self.out.extend_from_slice(items);
        self.close(start, count_items(items));
        self.count += 1;
    }

    fn array_raw(&mut self, array: &Array<'_>) {
        let start = self.out.len();
        self.out.extend_from_slice(&[ARRAY, 0, 0]);
        array.write_body(self.out);
        self.close(start, array.len());
        self.count += 1;
    }

    /// The data behind [`wide_code`]; nothing for described values.
    fn wide_data(&mut self, value: &Value<'_>) {
        let out = &mut *self.out;
        match *value {
            Value::Null | Value::Described(_) => {}
            Value::Bool(flag) => out.push(flag.into()),
            Value::Ubyte(number) => out.push(number),
            Value::Byte(number) => out.push(number.cast_unsigned()),
            Value::Ushort(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Short(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Uint(number) | Value::Char(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Int(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Float(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Ulong(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Long(number) | Value::Timestamp(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Double(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Decimal32(bytes) => out.extend_from_slice(&bytes),
            Value::Decimal64(bytes) => out.extend_from_slice(&bytes),
            Value::Decimal128(bytes) | Value::Uuid(bytes) => out.extend_from_slice(&bytes),
            Value::Binary(bytes) | Value::Str(bytes) | Value::Symbol(bytes) => {
                out.extend_from_slice(&size(bytes.len()));
                out.extend_from_slice(bytes);
            }
            Value::List(list) => {
                wide_body(out, count_items(list.raw()), |out| out.extend_from_slice(list.raw()));
            }
            Value::Map(map) => wide_body(out, count_items(map.raw()), |out| out.extend_from_slice(map.raw())),
            Value::Array(array) => wide_body(out, array.len(), |out| array.write_body(out)),
        }
    }
}

fn wide_body(out: &mut Vec<u8>, count: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&count.to_be_bytes());
    write(out);
    let bytes = out.len() - start - 4;
    out[start..start + 4].copy_from_slice(&size(bytes));
}

/// The widest format code of the value's type, as arrays have it; 0 if it is described.
const fn wide_code(value: &Value<'_>) -> u8 {
    match value {
        Value::Described(_) => 0,
        Value::Null => 0x40,
        Value::Ubyte(_) => 0x50,
        Value::Byte(_) => 0x51,
        Value::Bool(_) => 0x56,
        Value::Ushort(_) => 0x60,
        Value::Short(_) => 0x61,
        Value::Uint(_) => 0x70,
        Value::Int(_) => 0x71,
        Value::Float(_) => 0x72,
        Value::Char(_) => 0x73,
        Value::Decimal32(_) => 0x74,
        Value::Ulong(_) => 0x80,
        Value::Long(_) => 0x81,
        Value::Double(_) => 0x82,
        Value::Timestamp(_) => 0x83,
        Value::Decimal64(_) => 0x84,
        Value::Decimal128(_) => 0x94,
        Value::Uuid(_) => 0x98,
        Value::Binary(_) => 0xB0,
        Value::Str(_) => 0xB1,
        Value::Symbol(_) => 0xB3,
        Value::List(_) => 0xD0,
        Value::Map(_) => 0xD1,
        Value::Array(_) => 0xF0,
    }
}

/// A size in four bytes.
pub(super) fn size(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a value is below 4 GiB: messages are at most 512 MiB").to_be_bytes()
}
