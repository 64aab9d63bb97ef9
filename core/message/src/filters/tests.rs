//! Filters on messages made by hand. The answers are those of RabbitMQ 4.3.

use wire::amqp10::{MessageId, Properties, Str, Symbol, Timestamp, Value, Writer, write_data_head};

use super::*;

/// A message with a priority, some properties and application properties.
fn message() -> Vec<u8> {
    let mut out = Vec::new();
    Header { priority: Some(7), ..Header::default() }.encode(&mut out);
    let properties = Properties {
        message_id: Some(MessageId::Ulong(42)),
        user_id: Some(b"guest"),
        to: Some(Str(b"/queues/q")),
        subject: Some(Str(b"order.created")),
        content_type: Some(Symbol(b"text/plain")),
        creation_time: Some(Timestamp(1_700_000_000_000)),
        group_sequence: Some(3),
        ..Properties::EMPTY
    };
    properties.encode(&mut out);
    Writer::new(&mut out).described(SectionKind::ApplicationProperties as u64, |writer| {
        writer.map(|writer| {
            for (name, value) in [
                ("region", Value::Str(b"eu-west")),
                ("count", Value::Int(-5)),
                ("ratio", Value::Double(1.5)),
                ("ok", Value::Bool(true)),
                ("nothing", Value::Null),
                ("lines", Value::Str(b"a\nb")),
                ("odd name", Value::Str("grün_100%".as_bytes())),
            ] {
                writer.string(name.as_bytes());
                writer.value(&value);
            }
        });
    });
    write_data_head(4, &mut out);
    out.extend_from_slice(b"body");
    out
}

fn described(name: &str, value: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    Writer::new(&mut out).described_by_name(name.as_bytes(), value);
    out
}

fn property_filter(name: &str, fields: &[(Value<'_>, Value<'_>)]) -> Option<PropertyFilter> {
    let bytes = described(name, |writer| {
        writer.map(|writer| {
            for (name, value) in fields {
                writer.value(name);
                writer.value(value);
            }
        });
    });
    let (value, _) = Value::parse(&bytes).unwrap();
    PropertyFilter::parse(&value.as_described().unwrap())
}

fn of_properties(name: &str, value: Value<'_>) -> Option<bool> {
    let filter = property_filter("amqp:properties-filter", &[(Value::Symbol(name.as_bytes()), value)])?;
    Some(Filter::Properties(vec![filter]).passes(&message(), 0))
}

fn of_application(name: &str, value: Value<'_>) -> Option<bool> {
    let field = (Value::Str(name.as_bytes()), value);
    let filter = property_filter("amqp:application-properties-filter", &[field])?;
    Some(Filter::Properties(vec![filter]).passes(&message(), 0))
}

#[test]
fn properties_are_compared_with_modifiers_and_by_their_types() {
    assert_eq!(of_properties("message-id", Value::Ulong(42)), Some(true));
    assert_eq!(of_properties("message-id", Value::Str(b"42")), Some(false));
    assert_eq!(of_properties("user-id", Value::Binary(b"guest")), Some(true));
    assert_eq!(of_properties("subject", Value::Str(b"order.created")), Some(true));
    assert_eq!(of_properties("subject", Value::Str(b"&p:order.")), Some(true));
    assert_eq!(of_properties("subject", Value::Str(b"&s:.created")), Some(true));
    assert_eq!(of_properties("subject", Value::Str(b"&s:.deleted")), Some(false));
    assert_eq!(of_properties("subject", Value::Str(b"&&p:order.")), Some(false));
    assert_eq!(of_properties("group-id", Value::Str(b"&p:")), Some(false), "there is none");
    assert_eq!(of_properties("creation-time", Value::Timestamp(1_700_000_000_000)), Some(true));
    assert_eq!(of_properties("group-sequence", Value::Uint(3)), Some(true));
    // Filters that are not taken.
    assert_eq!(of_properties("subject", Value::Str(b"&x:order")), None);
    assert_eq!(of_properties("subject", Value::Symbol(b"order")), None);
    assert_eq!(of_properties("group-sequence", Value::Ulong(3)), None);
    assert_eq!(of_properties("none", Value::Str(b"x")), None);
}

#[test]
fn application_properties_are_compared_across_types_of_numbers() {
    assert_eq!(of_application("region", Value::Str(b"&p:eu")), Some(true));
    assert_eq!(of_application("region", Value::Symbol(b"eu-west")), Some(true));
    assert_eq!(of_application("count", Value::Long(-5)), Some(true));
    assert_eq!(of_application("count", Value::Float(-5.0)), Some(true));
    assert_eq!(of_application("ratio", Value::Float(1.5)), Some(true));
    assert_eq!(of_application("ok", Value::Bool(true)), Some(true));
    assert_eq!(of_application("ok", Value::Bool(false)), Some(false));
    assert_eq!(of_application("region", Value::Null), Some(true));
    assert_eq!(of_application("nothing", Value::Null), Some(true));
    assert_eq!(of_application("none", Value::Null), Some(false));
    let field = || (Value::Str(b"region"), Value::Null);
    let many: Vec<_> = (0..17).map(|_| field()).collect();
    assert!(property_filter("amqp:application-properties-filter", &many[..16]).is_some());
    assert!(property_filter("amqp:application-properties-filter", &many).is_none());
    assert!(property_filter("amqp:application-properties-filter", &[]).is_none());
    assert!(property_filter("amqp:something-else", &[field()]).is_none());
}

fn sql(text: &str) -> bool {
    let sql = Sql::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Filter::Sql(sql).passes(&message(), 1_000)
}

#[test]
fn expressions_are_true_false_or_unknown() {
    for text in [
        "TRUE",
        "region = 'eu-west'",
        "region <> 'us' AND region != 'asia'",
        "properties.subject LIKE 'order.%'",
        "p.subject LIKE '%created' AND p.subject LIKE 'order%ted' AND p.subject NOT LIKE 'x%'",
        "p.subject LIKE 'o_der.%ed'",
        "[odd name] LIKE 'gr_n!_100!%' ESCAPE '!'",
        "header.priority > 6 AND h.priority = 7.0",
        "p.message_id = 42 AND p.group_sequence IN (1, 2, 3)",
        "count * 2 + 1 = -9 AND -count = 5 AND +count < 0",
        "count / 2 = -2.5 AND count % 3 = -2",
        "count - 1 * 2 = -7 AND (count - 1) * 2 = -12",
        "ratio > 1 AND ratio <= 1.5E0",
        "none IS NULL AND nothing IS NULL AND region IS NOT NULL AND p.group_id IS NULL",
        "NOT none IS NOT NULL",
        "none = 1 OR TRUE",
        "NOT (none = 1 AND FALSE)",
        "region NOT IN ('us', 'asia') AND ok",
        "ok = TRUE AND NOT ok = FALSE",
        "p.user_id = 0x6775657374",
        "application_properties.region > 'aa' AND a.region < \"zz\"",
        "UTC() = 1000 AND p.creation_time > UTC()",
        "region = 'eu-west' OR 1 = 2 AND 1 = 3",
        "NOT 1 = 2 AND 1 = 1",
        "'it''s' = \"it's\"",
        "lines LIKE 'a%b'",
    ] {
        assert!(sql(text), "{text}");
    }
    for text in [
        "FALSE",
        "none = 1",
        "none <> 1",
        "NOT none = 1",
        "none = 1 AND TRUE",
        "none + 1 = 1",
        "region > 5",
        "region = 5",
        "ok > FALSE",
        "1 / 0 = 1",
        "1 % 0 IN (1)",
        "none IN (1)",
        "none NOT IN (1)",
        "none LIKE '%'",
        "count LIKE '%'",
        "region",
        "1",
        "lines LIKE 'a%_'",
    ] {
        assert!(!sql(text), "{text}");
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    for text in [
        "",
        "region =",
        "region = = 'x'",
        "1 = 1 = 1",
        "(TRUE",
        "TRUE)",
        "and = 1",
        "Date = 1",
        "p.nothing = 1",
        "x-y.z = 1",
        "region LIKE 5",
        "region LIKE 'a!' ESCAPE '!'",
        "region LIKE 'a' ESCAPE '!!'",
        "(region) IS NULL",
        "region NOT 'x'",
        "region IN ()",
        "'open",
        "[open",
        "a ; b",
        "--1 = 1",
        "UTC = 1",
        "grün = 1",
    ] {
        assert!(Sql::compile(text).is_err(), "{text}");
    }
    let long = format!("'{}' = ''", "x".repeat(4096));
    assert_eq!(Sql::compile(&long), Err(SqlError::TooLong));
    assert_eq!(Sql::compile(&"NOT ".repeat(200)), Err(SqlError::Syntax(800)));
    assert_eq!(Sql::compile(&"NOT ".repeat(201)), Err(SqlError::TooLong));
    assert!(Sql::compile(&format!("{}TRUE{}", "(".repeat(99), ")".repeat(99))).is_ok());
}

#[test]
fn an_expression_is_described_by_name_or_code() {
    let parse = |bytes: &[u8]| Sql::parse(&Value::parse(bytes).unwrap().0.as_described().unwrap());
    assert!(parse(&described("amqp:sql-filter", |writer| writer.string(b"TRUE"))).is_ok());
    let mut by_code = Vec::new();
    Writer::new(&mut by_code).described(0x120, |writer| writer.string(b"TRUE"));
    assert!(parse(&by_code).is_ok());
    let other = described("amqp:sql-filter", |writer| writer.symbol(b"TRUE"));
    assert_eq!(parse(&other), Err(SqlError::NoSql));
    assert_eq!(parse(&described("other", |writer| writer.string(b"TRUE"))), Err(SqlError::NoSql));
}

#[test]
fn a_pattern_that_would_take_for_ever_ends() {
    let text = "a".repeat(100_000);
    let like = super::like::Like::parse(&"%a_".repeat(50), None).unwrap();
    assert_eq!(like.matches(text.as_bytes()), Some(true));
    let like = super::like::Like::parse(&format!("{}b", "%a".repeat(1000)), None).unwrap();
    assert_eq!(like.matches(text.as_bytes()), Some(false));
    assert_eq!(like.matches(b"\xff"), None);
}

#[test]
fn whatever_comes_as_a_message_is_looked_at() {
    let whole = message();
    let sql = Filter::Sql(Sql::compile("region = 'x' OR p.subject = 'y' OR TRUE").unwrap());
    for end in 0..whole.len() {
        assert!(sql.passes(&whole[..end], 0));
    }
}
