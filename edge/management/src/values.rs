//! AMQP field values as JSON, for listings. Refuses to know what arguments mean.

use serde_json::{Map, Value};
use wire::amqp091::{Table, Value as Field};

/// Tables nested deeper than this are shown empty; nothing that a client declares comes near.
const DEPTH_MAX: usize = 16;

/// Bytes as text; what is not UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// A raw field table as an object.
pub(crate) fn table(raw: &[u8]) -> Value {
    nested(Table::from_raw(raw), 0)
}

fn nested(table: Table<'_>, depth: usize) -> Value {
    let mut object = Map::new();
    if depth < DEPTH_MAX {
        for (name, value) in table.iter() {
            object.insert(String::from_utf8_lossy(name).into_owned(), field(value, depth + 1));
        }
    }
    Value::Object(object)
}

fn field(value: Field<'_>, depth: usize) -> Value {
    match value {
        Field::Bool(flag) => flag.into(),
        Field::LongStr(bytes) | Field::Bytes(bytes) => text(bytes),
        Field::Table(inner) => nested(inner, depth),
        Field::Array(array) if depth < DEPTH_MAX => {
            array.iter().map(|element| field(element, depth + 1)).collect()
        }
        Field::Array(_) => Value::Array(Vec::new()),
        Field::Timestamp(seconds) => seconds.into(),
        Field::Decimal { scale, value } => (f64::from(value) / 10f64.powi(scale.into())).into(),
        other => match (other.as_i64(), other.as_f64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => Value::Null,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::TableBuf;

    #[test]
    fn a_table_becomes_an_object() {
        let mut fields = TableBuf::new();
        fields.push("x-max-length", Field::I32(5));
        fields.push("s", Field::LongStr(b"text"));
        fields.push("v", Field::Void);
        let raw = fields.into_raw();
        assert_eq!(table(&raw), serde_json::json!({"x-max-length": 5, "s": "text", "v": null}));
    }
}
