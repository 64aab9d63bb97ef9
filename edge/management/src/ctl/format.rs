//! Listings as text, in RabbitMQ's formats. Refuses to know where the text goes.

mod erlang;
mod kinds;

use serde_json::Value;

use crate::ctl::protocol::Rows;
use crate::resources::values::{binary, escaped};
use kinds::Kind;

/// `--formatter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns separated by tabs.
    #[default]
    Table,
    /// A table with lines.
    PrettyTable,
    /// An array of objects.
    Json,
    /// Comma-separated values.
    Csv,
    /// Erlang terms.
    Erlang,
}

impl Format {
    /// The format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "table" => Self::Table,
            "pretty_table" => Self::PrettyTable,
            "json" => Self::Json,
            "csv" => Self::Csv,
            "erlang" => Self::Erlang,
            _ => return None,
        })
    }
}

/// Whether the names of columns are shown in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// First line.
    Shown,
    /// Not at all.
    Hidden,
}

/// The text of a listing, with a line end unless it is empty.
#[must_use]
pub fn render(rows: &Rows, format: Format, headers: Headers) -> String {
    match format {
        Format::Table => table(rows, headers),
        Format::PrettyTable => pretty(rows),
        Format::Json => json(rows),
        Format::Csv => csv(rows),
        Format::Erlang => erlang::terms(rows),
    }
}

fn lines(
    rows: &Rows,
    headers: Headers,
    cell: fn(&Value, Kind) -> String,
    header: fn(&str) -> String,
    by: &str,
) -> String {
    let mut out = String::new();
    if headers == Headers::Shown && !rows.rows.is_empty() {
        out.push_str(&rows.columns.iter().map(|name| header(name)).collect::<Vec<_>>().join(by));
        out.push('\n');
    }
    let kinds: Vec<Kind> = rows.columns.iter().map(|name| kinds::of(name)).collect();
    for row in &rows.rows {
        let cells = row.iter().zip(&kinds).map(|(value, kind)| cell(value, *kind));
        out.push_str(&cells.collect::<Vec<_>>().join(by));
        out.push('\n');
    }
    out
}

fn table(rows: &Rows, headers: Headers) -> String {
    lines(rows, headers, plain, str::to_owned, "\t")
}

/// Everything between quotes, as RabbitMQ does it; `-s` leaves the names of columns there, and a list of nothing is nothing.
fn csv(rows: &Rows) -> String {
    fn quoted(text: &str) -> String {
        format!("\"{}\"", text.replace('"', "\"\""))
    }
    fn cell(value: &Value, kind: Kind) -> String {
        let is_nothing = value.as_array().is_some_and(Vec::is_empty);
        quoted(&if is_nothing { String::new() } else { plain(value, kind) })
    }
    lines(rows, Headers::Shown, cell, quoted, ",")
}

/// A value in a table: no tabs, line ends or terminal controls whatever a client named things.
fn plain(value: &Value, kind: Kind) -> String {
    match (value, kind) {
        (Value::Array(numbers), Kind::Address) => kinds::address(numbers).unwrap_or_default(),
        (Value::Array(numbers), Kind::Tuple) => {
            format!("{{{}}}", numbers.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
        }
        (Value::Array(entries), Kind::Table) => nested("table", &Value::Array(entries.clone())),
        (Value::Array(all), _) => {
            format!("[{}]", all.iter().map(|value| plain(value, Kind::Plain)).collect::<Vec<_>>().join(", "))
        }
        (Value::String(text), _) => escaped(text),
        (Value::Object(entries), Kind::Settings) if !entries.is_empty() => {
            let pair = |(name, value): (&String, &Value)| {
                format!("{{{}, {}}}", binary(name), plain(value, Kind::Plain))
            };
            format!("[{}]", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        (Value::Object(entries), _) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(name, value)| format!("{}: {}", escaped(name), plain(value, Kind::Plain)));
            format!("#{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        (Value::Null, _) => String::new(),
        (other, _) => other.to_string(),
    }
}

/// A value inside a table of arguments, by its type: `[{"x-max-length",5}]`.
fn nested(kind: &str, value: &Value) -> String {
    let list = |values: &[Value], each: fn(&Value) -> String| {
        format!("[{}]", values.iter().map(each).collect::<Vec<_>>().join(","))
    };
    match (kind, value) {
        ("table", Value::Array(entries)) => list(entries, |entry| match kinds::entry(entry) {
            Some((name, kind, value)) => format!("{{\"{}\",{}}}", escaped(name), nested(kind, value)),
            None => entry.to_string(),
        }),
        ("array", Value::Array(elements)) => {
            list(elements, |element| match element.as_array().map(Vec::as_slice) {
                Some([Value::String(kind), value]) => nested(kind, value),
                _ => element.to_string(),
            })
        }
        (_, Value::String(text)) => format!("\"{}\"", escaped(text)),
        (_, Value::Null) => "undefined".into(),
        (_, other) => other.to_string(),
    }
}

/// Always with the names of columns, as RabbitMQ draws it.
fn pretty(rows: &Rows) -> String {
    if rows.rows.is_empty() {
        return String::new();
    }
    let mut cells: Vec<Vec<String>> = vec![rows.columns.clone()];
    let kinds: Vec<Kind> = rows.columns.iter().map(|name| kinds::of(name)).collect();
    let cell = |(value, kind): (&Value, &Kind)| match value {
        Value::Array(all) if *kind == Kind::Atom => {
            all.iter().map(|value| plain(value, Kind::Plain)).collect::<Vec<_>>().join(", ")
        }
        Value::Object(entries) if *kind == Kind::Settings && !entries.is_empty() => {
            erlang::settings(entries, "")
        }
        value => plain(value, *kind),
    };
    cells.extend(rows.rows.iter().map(|row| row.iter().zip(&kinds).map(cell).collect()));
    let width = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.columns.len()).map(width).collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", dashes.join(middle))
    };
    let mut out = rule("┌", "┬", "┐");
    for (at, row) in cells.iter().enumerate() {
        if at >= 1 {
            out.push_str(&rule("├", "┼", "┤"));
        }
        for (cell, width) in row.iter().zip(&widths) {
            let padding = " ".repeat(width - cell.chars().count());
            out.push_str(&format!("│ {cell}{padding} "));
        }
        out.push_str("│\n");
    }
    out + &rule("└", "┴", "┘")
}

fn json(rows: &Rows) -> String {
    let object = |row: &Vec<Value>| {
        let entries = rows.columns.iter().zip(row);
        let entries = entries.map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    };
    let objects: Vec<String> = rows.rows.iter().map(object).collect();
    if objects.is_empty() {
        return "[\n]\n".into();
    }
    format!("[\n{}\n]\n", objects.join("\n,"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Rows {
        Rows {
            columns: ["name", "messages", "arguments", "host"].map(String::from).into(),
            rows: vec![vec![
                "a\tb".into(),
                2.into(),
                json!([["x-max-length", "signedint", 5], ["a", "array", [["longstr", "b"]]]]),
                json!([127, 0, 0, 1]),
            ]],
        }
    }

    #[test]
    fn a_table_has_tabs_between_columns_and_none_inside() {
        let text = render(&sample(), Format::Table, Headers::Shown);
        let expected =
            "name\tmessages\targuments\thost\na\\tb\t2\t[{\"x-max-length\",5},{\"a\",[\"b\"]}]\t127.0.0.1\n";
        assert_eq!(text, expected);
        assert_eq!(render(&sample(), Format::Table, Headers::Hidden).lines().count(), 1);
        assert_eq!(render(&Rows::default(), Format::Table, Headers::Shown), "");
    }

    #[test]
    fn json_is_json_and_keeps_the_order_of_columns() {
        let text = render(&sample(), Format::Json, Headers::Shown);
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[0]["arguments"][0], json!(["x-max-length", "signedint", 5]));
        assert_eq!(parsed[0]["host"], json!([127, 0, 0, 1]));
        assert!(text.starts_with("[\n{\"name\":"));
        assert_eq!(render(&Rows::default(), Format::Json, Headers::Shown), "[\n]\n");
    }

    #[test]
    fn csv_quotes_everything_and_a_list_of_nothing_is_nothing() {
        let text = render(&sample(), Format::Csv, Headers::Hidden);
        assert!(text.starts_with("\"name\",\"messages\","), "{text}");
        assert!(text.contains("\n\"a\\tb\",\"2\",\"[{\"\"x-max-length\"\",5}"), "{text}");
        let nothing = Rows { columns: vec!["arguments".into()], rows: vec![vec![json!([])]] };
        assert_eq!(render(&nothing, Format::Csv, Headers::Shown), "\"arguments\"\n\"\"\n");
        assert_eq!(render(&nothing, Format::Table, Headers::Hidden), "[]\n");
    }

    #[test]
    fn a_pretty_table_is_as_wide_as_its_widest_cell_and_has_rules_between_its_rows() {
        let mut rows = sample();
        rows.rows.push(rows.rows[0].clone());
        let text = render(&rows, Format::PrettyTable, Headers::Shown);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        assert_eq!(widths.len(), 7);
    }
}
