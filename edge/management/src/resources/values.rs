//! AMQP field values as JSON, for listings and definitions, and back. Refuses to know what arguments mean.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use wire::amqp091::{ArrayBuf, Properties, Table, TableBuf, Value as Field};

/// Tables and arrays nested deeper than this are shown empty, and refused here. A listing with types has two levels of JSON for each of
/// them, and readers of JSON, our own among them, go no deeper than 128: a value that is shown and exported can always be read again.
const DEPTH_MAX: usize = 56;

/// Longest name of an argument, bytes, the most that its length octet can say.
const FIELD_NAME_BYTES_MAX: usize = 255;

/// How RabbitMQ shows a void value. A text like it that comes in stays a text, as in RabbitMQ.
const VOID: &str = "undefined";

/// Bytes as text; bytes that are not UTF-8 are replaced.
pub(crate) fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// A raw field table as an object.
pub(crate) fn table(raw: &[u8]) -> Value {
    nested(Table::from_raw(raw), 0)
}

/// A raw field table as a list of `[name, type, value]`, the types by RabbitMQ's names: how listings show arguments.
pub(crate) fn typed(raw: &[u8]) -> Value {
    triples(Table::from_raw(raw), 0)
}

fn triples(table: Table<'_>, depth: usize) -> Value {
    if depth >= DEPTH_MAX {
        return Value::Array(Vec::new());
    }
    let triple = |(name, value): (&[u8], Field<'_>)| -> Value {
        Value::Array(vec![text(name), value.type_name().into(), typed_field(value, depth + 1)])
    };
    table.iter().map(triple).collect()
}

fn typed_field(value: Field<'_>, depth: usize) -> Value {
    match value {
        Field::Table(inner) => triples(inner, depth),
        Field::Void => Value::Null,
        Field::Array(array) if depth < DEPTH_MAX => {
            let pair = |element: Field<'_>| -> Value {
                Value::Array(vec![element.type_name().into(), typed_field(element, depth + 1)])
            };
            array.iter().map(pair).collect()
        }
        other => field(other, depth),
    }
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
            (None, None) => VOID.into(),
        },
    }
}

/// An object as a field table: whole numbers become 64-bit integers, others doubles, texts long strings.
///
/// # Errors
/// Names too long, nesting too deep, numbers out of range; as text for people.
pub(crate) fn raw_table(object: &Map<String, Value>) -> Result<TableBuf, String> {
    table_at(object, 0)
}

fn table_at(object: &Map<String, Value>, depth: usize) -> Result<TableBuf, String> {
    let mut out = TableBuf::new();
    for (name, value) in object {
        if name.len() > FIELD_NAME_BYTES_MAX {
            let length = name.len();
            return Err(format!(
                "an argument's name of {length} bytes, at most {FIELD_NAME_BYTES_MAX} are possible"
            ));
        }
        with_field(value, depth + 1, |field| {
            out.push(name, field);
        })?;
    }
    Ok(out)
}

fn with_field(value: &Value, depth: usize, put: impl FnOnce(Field<'_>)) -> Result<(), String> {
    match value {
        Value::Array(_) | Value::Object(_) if depth > DEPTH_MAX => {
            return Err(format!("arguments nested deeper than {DEPTH_MAX}"));
        }
        Value::Null => put(Field::Void),
        Value::Bool(flag) => put(Field::Bool(*flag)),
        Value::String(text) => put(Field::LongStr(text.as_bytes())),
        Value::Object(inner) => put(Field::Table(table_at(inner, depth)?.as_table())),
        Value::Array(elements) => {
            let mut array = ArrayBuf::new();
            for element in elements {
                push_element(element, depth + 1, &mut array)?;
            }
            put(Field::Array(array.as_array()));
        }
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => put(Field::I64(number)),
            (None, Some(float)) if number.is_f64() => put(Field::F64(float)),
            _ => return Err(format!("the number {number} does not fit into 64 bits")),
        },
    }
    Ok(())
}

fn push_element(element: &Value, depth: usize, array: &mut ArrayBuf) -> Result<(), String> {
    let put: &mut dyn FnMut(Field<'_>) = &mut |field| {
        array.push(field);
    };
    with_field(element, depth, put)
}

/// A time in milliseconds since 1970 as RabbitMQ writes it: `2026-11-21T16:52:03.258+00:00`.
pub(crate) fn iso_time(at_ms: u64) -> String {
    let (seconds, ms) = (at_ms / 1_000, at_ms % 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last one of its year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// Takes logins out of all texts that are URIs.
fn hide_logins(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_login(text).unwrap_or_else(|| std::mem::take(text)),
        Value::Array(list) => list.iter_mut().for_each(hide_logins),
        Value::Object(object) => object.values_mut().for_each(hide_logins),
        _ => {}
    }
}

/// A URI without the login in it; `None` when there is none.
fn without_login(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (_, host) = authority.rsplit_once('@')?;
    Some(format!("{scheme}://{host}{tail}"))
}

/// The value of a runtime parameter as RabbitMQ's events have it (B176), under the name `value`: an object becomes a table, an object
/// in it the text of an Erlang term. A value that is no JSON stays a text. Logins in URIs are left out: a reader of events need not have
/// the right to see the shovels of other vhosts.
#[must_use]
pub fn of_event(text: &str) -> TableBuf {
    let mut out = TableBuf::new();
    let read = serde_json::from_str(text).map(|mut value| {
        hide_logins(&mut value);
        value
    });
    match read {
        Ok(Value::Object(object)) if !object.is_empty() => {
            let mut inner = TableBuf::new();
            for (name, value) in object.iter().filter(|(name, _)| name.len() <= FIELD_NAME_BYTES_MAX) {
                with_told(value, |field| {
                    inner.push(name, field);
                });
            }
            out.push_table("value", inner.as_table());
        }
        Ok(Value::Object(_)) => {
            out.push_array("value", ArrayBuf::new().as_array());
        }
        Ok(value) => with_told(&value, |field| {
            out.push("value", field);
        }),
        Err(_) => {
            out.push_str("value", without_login(text).as_deref().unwrap_or(text));
        }
    }
    out
}

fn with_told(value: &Value, put: impl FnOnce(Field<'_>)) {
    match value {
        Value::Null => put(Field::LongStr(b"null")),
        Value::Object(_) => put(Field::LongStr(crate::resources::shovels::term(value).as_bytes())),
        Value::Array(elements) => {
            let mut array = ArrayBuf::new();
            for element in elements {
                let put: &mut dyn FnMut(Field<'_>) = &mut |field| {
                    array.push(field);
                };
                with_told(element, put);
            }
            put(Field::Array(array.as_array()));
        }
        Value::Bool(flag) => put(Field::Bool(*flag)),
        Value::String(text) => put(Field::LongStr(text.as_bytes())),
        Value::Number(number) => match number.as_i64() {
            Some(number) => put(Field::I64(number)),
            None => put(Field::F64(number.as_f64().unwrap_or(f64::MAX))),
        },
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A text that does nothing to a terminal: control characters as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.into();
    }
    text.chars()
        .map(|it| if it.is_control() { it.escape_default().to_string() } else { it.to_string() })
        .collect()
}

/// A text as a binary of Erlang: `<<"text">>`.
pub(crate) fn binary(text: &str) -> String {
    if text.is_empty() {
        return "<<>>".into();
    }
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '"' | '\\' => escaped.extend(['\\', it]),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            control if control.is_control() => escaped.push_str(&format!("\\x{{{:x}}}", u32::from(control))),
            other => escaped.push(other),
        }
    }
    if text.is_ascii() { format!("<<\"{escaped}\">>") } else { format!("<<\"{escaped}\"/utf8>>") }
}

/// Properties that are there, by RabbitMQ's names; none at all is an empty list, as with RabbitMQ.
pub(crate) fn properties(properties: &Properties<'_>) -> Value {
    let mut object = Map::new();
    let texts = [
        ("content_type", properties.content_type()),
        ("content_encoding", properties.content_encoding()),
        ("correlation_id", properties.correlation_id()),
        ("reply_to", properties.reply_to()),
        ("expiration", properties.expiration()),
        ("message_id", properties.message_id()),
        ("type", properties.type_()),
        ("user_id", properties.user_id()),
        ("app_id", properties.app_id()),
        ("cluster_id", properties.cluster_id()),
    ];
    for (name, value) in texts {
        value.map(|value| object.insert(name.into(), text(&value)));
    }
    let numbers = [
        ("delivery_mode", properties.delivery_mode().map(u64::from)),
        ("priority", properties.priority().map(u64::from)),
        ("timestamp", properties.timestamp()),
    ];
    for (name, value) in numbers {
        value.map(|value| object.insert(name.into(), value.into()));
    }
    properties.headers().map(|headers| object.insert("headers".into(), table(headers.raw())));
    if object.is_empty() { json!([]) } else { Value::Object(object) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::TableBuf;

    #[test]
    fn times_are_written_as_rabbitmq_writes_them() {
        assert_eq!(iso_time(0), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(iso_time(1_795_279_923_258), "2026-11-21T16:52:03.258+00:00");
        assert_eq!(iso_time(951_782_400_007), "2000-02-29T00:00:00.007+00:00");
        assert_eq!(iso_time(4_107_542_399_999), "2100-02-28T23:59:59.999+00:00");
    }

    #[test]
    fn a_table_becomes_an_object() {
        let mut fields = TableBuf::new();
        fields.push("x-max-length", Field::I32(5));
        fields.push("s", Field::LongStr(b"text"));
        fields.push("v", Field::Void);
        let raw = fields.into_raw();
        assert_eq!(table(&raw), serde_json::json!({"x-max-length": 5, "s": "text", "v": "undefined"}));
    }

    #[test]
    fn a_listing_names_the_types_of_arguments() {
        let mut inner = TableBuf::new();
        inner.push("n", Field::I64(1));
        let mut fields = TableBuf::new();
        fields.push("x-max-length", Field::I32(5));
        fields.push("t", Field::Table(inner.as_table()));
        fields.push("v", Field::Void);
        let expected = serde_json::json!([
            ["x-max-length", "signedint", 5],
            ["t", "table", [["n", "long", 1]]],
            ["v", "void", null],
        ]);
        assert_eq!(typed(&fields.into_raw()), expected);
    }

    #[test]
    fn an_object_becomes_a_table_and_the_same_object_again() {
        let object = serde_json::json!({"a": [1, [-2], {"b": {"c": true}}], "d": "text", "e": 2.5});
        let read = raw_table(object.as_object().unwrap()).unwrap();
        assert_eq!(read.as_table().get("d"), Some(Field::LongStr(b"text")));
        assert_eq!(table(&read.into_raw()), object);
    }

    #[test]
    fn null_becomes_a_void_value_and_its_word_a_text() {
        let object = serde_json::json!({"a": [null], "t": "undefined", "v": null});
        let read = raw_table(object.as_object().unwrap()).unwrap();
        assert_eq!(read.as_table().get("t"), Some(Field::LongStr(b"undefined")));
        assert_eq!(read.as_table().get("v"), Some(Field::Void));
        let shown = serde_json::json!({"a": ["undefined"], "t": "undefined", "v": "undefined"});
        assert_eq!(table(&read.into_raw()), shown);
    }

    #[test]
    fn events_show_parameters_without_logins() {
        let told = of_event(
            r#"{"src-uri": ["amqp://u:se@cret@h/v?heartbeat=1", "amqp://"], "dest-uri": "amqp://u:secret@h", "src-queue": "a@b"}"#,
        );
        let text = table(told.as_table().raw()).to_string();
        assert!(
            !text.contains("cret") && text.contains("amqp://h/v?heartbeat=1") && text.contains("a@b"),
            "{text}"
        );
        assert_eq!(without_login("amqp://h/a@b"), None);
        assert_eq!(without_login("http://u@[::1]:5/x").as_deref(), Some("http://[::1]:5/x"));
    }

    #[test]
    fn what_is_shown_of_deep_arguments_can_be_read_again() {
        for depth in [DEPTH_MAX - 1, wire::amqp091::TABLE_DEPTH_MAX - 1] {
            let mut raw = TableBuf::new();
            raw.push("bottom", Field::Bool(true));
            for level in 1..depth {
                let mut outer = TableBuf::new();
                if level % 2 == 0 {
                    outer.push("t", Field::Table(raw.as_table()));
                } else {
                    let mut array = ArrayBuf::new();
                    array.push(Field::Table(raw.as_table()));
                    outer.push("a", Field::Array(array.as_array()));
                }
                raw = outer;
            }
            let raw = raw.into_raw();
            for shown in [table(&raw), typed(&raw)] {
                let answer = serde_json::json!({"rows": [[{"arguments": shown}]]}).to_string();
                let read: Value = serde_json::from_str(&answer).expect("not too deep");
                assert_eq!(read["rows"][0][0]["arguments"], shown);
            }
        }
        let mut deep = serde_json::json!("bottom");
        for level in 0..DEPTH_MAX - 1 {
            deep = if level % 2 == 0 { serde_json::json!([deep]) } else { serde_json::json!({"t": deep}) };
        }
        let object = serde_json::json!({"deep": deep});
        let raw = raw_table(object.as_object().unwrap()).unwrap().into_raw();
        assert_eq!(table(&raw), object);
        assert!(typed(&raw).to_string().contains("bottom"));
    }

    #[test]
    fn what_a_table_cannot_hold_is_refused() {
        let mut deep = serde_json::json!(1);
        for _ in 0..DEPTH_MAX + 1 {
            deep = serde_json::json!([deep]);
        }
        for bad in [serde_json::json!({"deep": deep}), serde_json::json!({"big": u64::MAX})] {
            assert!(raw_table(bad.as_object().unwrap()).is_err());
        }
    }
}
