//! Bytes as RabbitMQ's virtual machine prints them, for texts that quote what a client sent.

use std::fmt::Write;

/// Bytes as Erlang prints a binary: text in quotes when all of it is printable, numbers otherwise.
pub(crate) fn erlang_binary(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<<>>".into();
    }
    let printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 8 | 11 | 12 | 27);
    if bytes.iter().all(printable) {
        return format!("<<{}>>", erlang_string(bytes));
    }
    let mut text = String::from("<<");
    for (index, byte) in bytes.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{byte}");
        // More would be cut off by the reply text's 255 bytes anyway.
        if text.len() > 255 {
            break;
        }
    }
    text.push_str(">>");
    text
}

/// Printable bytes in quotes, escaped as Erlang does.
pub(crate) fn erlang_string(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            8 => text.push_str("\\b"),
            11 => text.push_str("\\v"),
            12 => text.push_str("\\f"),
            27 => text.push_str("\\e"),
            _ => text.push(char::from(byte)),
        }
    }
    text.push('"');
    text
}
