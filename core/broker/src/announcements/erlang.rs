//! AMQP values as Erlang terms in text: RabbitMQ's event exchange writes arguments and client properties so.

use std::fmt::Write;
use std::net::IpAddr;

use message::{ArrayBuf, Table, Value};

/// A table as an array of texts `{<<"name">>,type,value}`.
pub(super) fn entries(table: Table<'_>) -> ArrayBuf {
    let mut texts = ArrayBuf::new();
    for (name, value) in table.iter() {
        let mut text = String::new();
        entry(&mut text, name, &value);
        texts.push_str(text);
    }
    texts
}

/// `{127,0,0,1}`; a text that is no address stays as it is.
pub(super) fn address(text: &str) -> String {
    let joined = |parts: Vec<String>| format!("{{{}}}", parts.join(","));
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => joined(ip.octets().iter().map(u8::to_string).collect()),
        Ok(IpAddr::V6(ip)) => joined(ip.segments().iter().map(u16::to_string).collect()),
        Err(_) => text.to_owned(),
    }
}

/// `<<"text">>`, or the bytes where they are not printable.
pub(super) fn binary(out: &mut String, bytes: &[u8]) {
    out.push_str("<<");
    match std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control)) {
        Some("") => {}
        Some(text) => {
            let _ = write!(out, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        }
        None => {
            let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
            out.push_str(&numbers.join(","));
        }
    }
    out.push_str(">>");
}

fn entry(out: &mut String, name: &[u8], value: &Value<'_>) {
    out.push('{');
    binary(out, name);
    let _ = write!(out, ",{},", value.type_name());
    term(out, value);
    out.push('}');
}

/// A value alone, without its type.
pub(crate) fn value(value: &Value<'_>) -> String {
    let mut out = String::new();
    term(&mut out, value);
    out
}

fn term(out: &mut String, value: &Value<'_>) {
    match value {
        Value::LongStr(bytes) | Value::Bytes(bytes) => binary(out, bytes),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Table(table) => {
            out.push('[');
            for (at, (name, value)) in table.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                entry(out, name, &value);
            }
            out.push(']');
        }
        Value::Array(array) => {
            out.push('[');
            for (at, value) in array.iter().enumerate() {
                let _ = write!(out, "{}{{{},", if at > 0 { "," } else { "" }, value.type_name());
                term(out, &value);
                out.push('}');
            }
            out.push(']');
        }
        Value::Timestamp(seconds) => {
            let _ = write!(out, "{seconds}");
        }
        Value::Decimal { scale, value } => {
            let _ = write!(out, "{{{scale},{value}}}");
        }
        Value::Void => out.push_str("undefined"),
        number => {
            let _ = match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => write!(out, "{number}"),
                (None, Some(number)) => write!(out, "{number:?}"),
                (None, None) => Ok(()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::TableBuf;

    #[test]
    fn arguments_read_as_rabbitmq_writes_them() {
        let mut inner = TableBuf::new();
        inner.push_bool("basic.nack", true);
        let mut table = TableBuf::new();
        table.push_i32("x-max-length", 10).push_str("a\"b", "c").push_table("capabilities", inner.as_table());
        let texts = entries(table.as_table());
        let texts: Vec<_> =
            texts.as_array().iter().filter_map(|text| text.as_long_str().map(<[u8]>::to_vec)).collect();
        let expected = [
            r#"{<<"x-max-length">>,signedint,10}"#,
            r#"{<<"a\"b">>,longstr,<<"c">>}"#,
            r#"{<<"capabilities">>,table,[{<<"basic.nack">>,bool,true}]}"#,
        ];
        assert_eq!(texts, expected.map(|text| text.as_bytes().to_vec()));
    }

    #[test]
    fn values_alone_read_so_too() {
        let mut inner = TableBuf::new();
        inner.push_i32("a", 1);
        assert_eq!(value(&Value::Void), "undefined");
        assert_eq!(value(&Value::Bool(true)), "true");
        assert_eq!(value(&Value::Table(inner.as_table())), r#"[{<<"a">>,signedint,1}]"#);
        assert_eq!(value(&Value::F64(1.5)), "1.5");
    }

    #[test]
    fn addresses_are_tuples() {
        assert_eq!(address("127.0.0.1"), "{127,0,0,1}");
        assert_eq!(address("::1"), "{0,0,0,0,0,0,0,1}");
        assert_eq!(address("somewhere"), "somewhere");
    }
}
