//! Headers made comparable: RabbitMQ's notion of equal values as equal bytes.
//!
//! Refuses to know bindings.
//!
//! ```text
//!  class u8 | value
//!
//!  class  i  integers of every width, as i64        d  floats of both widths, as the bits of an f64
//!         S  long strings and byte arrays           t  booleans      T  timestamps     D  decimals
//!         A  arrays and F tables: their raw bytes, so types matter inside             V  void
//! ```
//!
//! Seen with RabbitMQ 4.3.6: integers compare across widths, floats too, an integer never equals a float or a boolean; long strings
//! equal byte arrays; inside arrays and tables types count. The one difference, on purpose: here a timestamp equals the same
//! timestamp only; there a binding's equals an integer header of its seconds, and a header's an integer of its milliseconds.

use message::{Table, Value};

/// Appends class and value.
pub(super) fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    if let Some(number) = value.as_i64() {
        out.push(b'i');
        out.extend_from_slice(&number.to_be_bytes());
        return;
    }
    if let Some(number) = value.as_f64() {
        out.push(b'd');
        out.extend_from_slice(&number.to_bits().to_be_bytes());
        return;
    }
    match value {
        Value::LongStr(bytes) | Value::Bytes(bytes) => write_bytes(b'S', bytes, out),
        Value::Bool(flag) => write_bytes(b't', &[u8::from(flag)], out),
        Value::Timestamp(seconds) => write_bytes(b'T', &seconds.to_be_bytes(), out),
        Value::Decimal { scale, value } => {
            write_bytes(b'D', &[scale], out);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Array(array) => write_bytes(b'A', array.raw(), out),
        Value::Table(table) => write_bytes(b'F', table.raw(), out),
        _ => out.push(b'V'),
    }
}

fn write_bytes(class: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(class);
    out.extend_from_slice(bytes);
}

/// A message's headers made comparable. Reused from message to message; holds at most about as many bytes as the largest
/// headers it saw, plus 24 per header.
#[derive(Default)]
pub(crate) struct HeaderView {
    bytes: Vec<u8>,
    /// Ordered by name; each name once.
    headers: Vec<Header>,
}

#[derive(Clone, Copy)]
struct Header {
    start: usize,
    name_end: usize,
    end: usize,
}

impl HeaderView {
    /// Takes the headers of another message. Of several headers with one name the last counts.
    pub(crate) fn fill(&mut self, headers: Option<Table<'_>>) {
        self.bytes.clear();
        self.headers.clear();
        for (name, value) in headers.iter().flat_map(Table::iter) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(name);
            let name_end = self.bytes.len();
            write_value(value, &mut self.bytes);
            self.headers.push(Header { start, name_end, end: self.bytes.len() });
        }
        let bytes = &self.bytes;
        let name = |header: &Header| &bytes[header.start..header.name_end];
        // Within a name, later ones first.
        self.headers
            .sort_unstable_by(|one, other| name(one).cmp(name(other)).then(other.start.cmp(&one.start)));
        self.headers.dedup_by(|next, kept| name(next) == name(kept));
    }

    /// Each header: its name, and class and value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = &self.bytes;
        self.headers
            .iter()
            .map(|header| (&bytes[header.start..header.name_end], &bytes[header.name_end..header.end]))
    }
}

#[cfg(test)]
mod tests {
    use message::{ArrayBuf, TableBuf};

    use super::*;

    fn equal(one: Value<'_>, other: Value<'_>) -> bool {
        let mut bytes = [Vec::new(), Vec::new()];
        write_value(one, &mut bytes[0]);
        write_value(other, &mut bytes[1]);
        bytes[0] == bytes[1]
    }

    #[test]
    fn values_are_equal_when_rabbitmq_says_so() {
        assert!(equal(Value::I8(1), Value::I64(1)));
        assert!(equal(Value::U8(255), Value::I32(255)));
        assert!(!equal(Value::U8(255), Value::I8(-1)));
        assert!(equal(Value::F32(1.5), Value::F64(1.5)));
        assert!(!equal(Value::F64(0.0), Value::F64(-0.0)));
        assert!(equal(Value::LongStr(b"x"), Value::Bytes(b"x")));
        for other in [Value::F64(1.0), Value::Bool(true), Value::Timestamp(1), Value::LongStr(b"1")] {
            assert!(!equal(Value::I32(1), other));
        }
        let arrays = [Value::I32(1), Value::I64(1)].map(|one| {
            let mut array = ArrayBuf::new();
            array.push(one);
            array
        });
        assert!(equal(Value::Array(arrays[0].as_array()), Value::Array(arrays[0].as_array())));
        assert!(!equal(Value::Array(arrays[0].as_array()), Value::Array(arrays[1].as_array())));
    }

    #[test]
    fn the_last_of_several_headers_with_one_name_counts() {
        let mut table = TableBuf::new();
        table.push_i64("a", 1).push_i64("b", 2).push_i64("a", 3);
        let mut view = HeaderView::default();
        view.fill(Some(table.as_table()));
        let mut three = Vec::new();
        write_value(Value::I64(3), &mut three);
        let mut two = Vec::new();
        write_value(Value::I64(2), &mut two);
        assert_eq!(view.iter().collect::<Vec<_>>(), [(&b"a"[..], &*three), (b"b", &two)]);
    }
}
