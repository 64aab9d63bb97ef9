//! Listings as Erlang terms. Refuses to know columns beyond their kinds.

use serde_json::Value;

use super::kinds::{self, Kind};
use crate::ctl::protocol::Rows;
use crate::resources::values::binary;

/// Widest line of a row that is not broken up, characters.
const WIDTH: usize = 80;

/// A list of rows, each a list of pairs.
pub(super) fn terms(rows: &Rows) -> String {
    format!("[{}]\n", rows.rows.iter().map(|values| row(rows, values)).collect::<Vec<_>>().join(",\n "))
}

fn row(rows: &Rows, values: &[Value]) -> String {
    let pair =
        |(name, value): (&String, &Value)| format!("{{{},{}}}", atom(name), term(value, kinds::of(name)));
    let pairs: Vec<String> = rows.columns.iter().zip(values).map(pair).collect();
    let short = pairs.iter().map(|pair| pair.chars().count() + 1).sum::<usize>() <= WIDTH;
    format!("[{}]", pairs.join(if short { "," } else { ",\n  " }))
}

fn list(values: &[Value], each: impl Fn(&Value) -> String) -> String {
    format!("[{}]", values.iter().map(each).collect::<Vec<_>>().join(","))
}

/// One value.
fn term(value: &Value, kind: Kind) -> String {
    match (value, kind) {
        (Value::String(text), Kind::Atom) => atom(text),
        (Value::String(text), Kind::TextOrNothing) if text.is_empty() => atom(text),
        (Value::Array(numbers), Kind::Address | Kind::Tuple) => {
            let numbers: Vec<String> = numbers.iter().map(Value::to_string).collect();
            format!("{{{}}}", numbers.join(","))
        }
        (Value::Array(entries), Kind::Table) => list(entries, table_entry),
        (Value::Array(all), kind) => list(all, |value| term(value, kind)),
        (Value::String(text), _) => binary(text),
        (Value::Object(entries), Kind::Settings) if !entries.is_empty() => {
            format!("[{}]", settings(entries, ","))
        }
        (Value::Object(entries), _) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(name, value)| format!("{} => {}", binary(name), term(value, Kind::Plain)));
            format!("#{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        (Value::Null, _) => "undefined".into(),
        (other, _) => other.to_string(),
    }
}

/// Settings as tuples.
pub(super) fn settings(entries: &serde_json::Map<String, Value>, by: &str) -> String {
    let pair =
        |(name, value): (&String, &Value)| format!("{{{},{}}}", binary(name), term(value, Kind::Plain));
    entries.iter().map(pair).collect::<Vec<_>>().join(by)
}

fn table_entry(value: &Value) -> String {
    match kinds::entry(value) {
        Some((name, kind, value)) => format!("{{{},{kind},{}}}", binary(name), typed(kind, value)),
        None => term(value, Kind::Plain),
    }
}

fn typed(kind: &str, value: &Value) -> String {
    match (kind, value) {
        ("table", Value::Array(entries)) => list(entries, table_entry),
        ("array", Value::Array(elements)) => {
            list(elements, |element| match element.as_array().map(Vec::as_slice) {
                Some([Value::String(kind), value]) => format!("{{{kind},{}}}", typed(kind, value)),
                _ => term(element, Kind::Plain),
            })
        }
        _ => term(value, Kind::Plain),
    }
}

/// Bare when it can be read back so, and between quotes otherwise.
fn atom(text: &str) -> String {
    let bare = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '@'));
    if bare { text.into() } else { format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(column: &str, value: Value) -> String {
        terms(&Rows { columns: vec![column.into()], rows: vec![vec![value]] })
    }

    #[test]
    fn columns_have_the_terms_of_rabbitmq() {
        for (column, value, term) in [
            ("name", json!("a\"b"), "<<\"a\\\"b\">>"),
            ("name", json!("é"), "<<\"é\"/utf8>>"),
            ("routing_key", json!(""), "<<>>"),
            ("policy", json!(""), "''"),
            ("type", json!("x-random"), "'x-random'"),
            ("tags", json!(["administrator"]), "[administrator]"),
            ("peer_host", json!([127, 0, 0, 1]), "{127,0,0,1}"),
            ("protocol", json!([0, 9, 1]), "{0,9,1}"),
            ("arguments", json!([["x-max-length", "signedint", 5]]), "[{<<\"x-max-length\">>,signedint,5}]"),
            (
                "arguments",
                json!([["a", "array", [["longstr", "b"]]]]),
                "[{<<\"a\">>,array,[{longstr,<<\"b\">>}]}]",
            ),
            ("effective_policy_definition", json!({}), "#{}"),
            (
                "effective_policy_definition",
                json!({"a": "b", "max-length": 5}),
                "[{<<\"a\">>,<<\"b\">>},{<<\"max-length\">>,5}]",
            ),
        ] {
            assert_eq!(one(column, value), format!("[[{{{column},{term}}}]]\n"));
        }
    }

    #[test]
    fn a_wide_row_stands_on_several_lines() {
        let columns: Vec<String> = (0..9).map(|at| format!("column_{at}")).collect();
        let rows = vec![vec![Value::from(1); 9]];
        assert_eq!(terms(&Rows { columns, rows }).lines().count(), 9);
    }
}
