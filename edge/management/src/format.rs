//! Listings as text, in RabbitMQ's formats. Refuses to know where the text goes.

use serde_json::Value;

use crate::protocol::Rows;

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
        Format::PrettyTable => pretty(rows, headers),
        Format::Json => json(rows),
        Format::Csv => csv(rows, headers),
        Format::Erlang => erlang(rows),
    }
}

fn lines(
    rows: &Rows,
    headers: Headers,
    cell: fn(&Value) -> String,
    header: fn(&str) -> String,
    by: &str,
) -> String {
    let mut out = String::new();
    if headers == Headers::Shown && !rows.rows.is_empty() {
        out.push_str(&rows.columns.iter().map(|name| header(name)).collect::<Vec<_>>().join(by));
        out.push('\n');
    }
    for row in &rows.rows {
        out.push_str(&row.iter().map(cell).collect::<Vec<_>>().join(by));
        out.push('\n');
    }
    out
}

fn table(rows: &Rows, headers: Headers) -> String {
    lines(rows, headers, plain, str::to_owned, "\t")
}

fn csv(rows: &Rows, headers: Headers) -> String {
    fn quoted(text: &str) -> String {
        format!("\"{}\"", text.replace('"', "\"\""))
    }
    fn cell(value: &Value) -> String {
        match value {
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            other => quoted(&plain(other)),
        }
    }
    lines(rows, headers, cell, quoted, ",")
}

/// A value in a table: no tabs, line ends or terminal controls whatever a client named things.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Null => String::new(),
        Value::Array(all) => format!("[{}]", all.iter().map(plain).collect::<Vec<_>>().join(", ")),
        Value::Object(_) => nested(value),
        other => other.to_string(),
    }
}

fn escaped(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.into();
    }
    text.chars()
        .map(|it| if it.is_control() { it.escape_default().to_string() } else { it.to_string() })
        .collect()
}

/// A value inside a table of arguments: `[{"x-max-length",5}]`.
fn nested(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().map(|(name, value)| {
                let name = escaped(name);
                format!("{{\"{name}\",{}}}", nested(value))
            });
            format!("[{}]", entries.collect::<Vec<_>>().join(","))
        }
        Value::Array(all) => format!("[{}]", all.iter().map(nested).collect::<Vec<_>>().join(",")),
        Value::String(text) => format!("\"{}\"", escaped(text)),
        Value::Null => "undefined".into(),
        other => other.to_string(),
    }
}

fn pretty(rows: &Rows, headers: Headers) -> String {
    let mut cells: Vec<Vec<String>> = Vec::new();
    if headers == Headers::Shown {
        cells.push(rows.columns.clone());
    }
    cells.extend(rows.rows.iter().map(|row| row.iter().map(plain).collect()));
    if rows.rows.is_empty() {
        return String::new();
    }
    let width = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.columns.len()).map(width).collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", dashes.join(middle))
    };
    let mut out = rule("┌", "┬", "┐");
    for (at, row) in cells.iter().enumerate() {
        if at > 0 {
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
    format!("[\n{}\n]\n", objects.join("\n,"))
}

fn erlang(rows: &Rows) -> String {
    fn term(value: &Value) -> String {
        match value {
            Value::String(text) => format!("<<\"{}\">>", text.replace('\\', "\\\\").replace('"', "\\\"")),
            Value::Array(all) => format!("[{}]", all.iter().map(term).collect::<Vec<_>>().join(",")),
            Value::Object(entries) => {
                let name = |name: &String| term(&Value::from(name.as_str()));
                let entries = entries.iter().map(|(key, value)| format!("{{{},{}}}", name(key), term(value)));
                format!("[{}]", entries.collect::<Vec<_>>().join(","))
            }
            Value::Null => "undefined".into(),
            other => other.to_string(),
        }
    }
    let row = |row: &Vec<Value>| {
        let pairs = rows.columns.iter().zip(row).map(|(name, value)| format!("{{{name},{}}}", term(value)));
        format!("[{}]", pairs.collect::<Vec<_>>().join(","))
    };
    format!("[{}]\n", rows.rows.iter().map(row).collect::<Vec<_>>().join(",\n "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Rows {
        Rows {
            columns: vec!["name".into(), "messages".into(), "arguments".into()],
            rows: vec![vec!["a\tb".into(), 2.into(), json!({"x-max-length": 5})]],
        }
    }

    #[test]
    fn a_table_has_tabs_between_columns_and_none_inside() {
        let text = render(&sample(), Format::Table, Headers::Shown);
        assert_eq!(text, "name\tmessages\targuments\na\\tb\t2\t[{\"x-max-length\",5}]\n");
        assert_eq!(render(&sample(), Format::Table, Headers::Hidden).lines().count(), 1);
    }

    #[test]
    fn json_is_json_and_keeps_the_order_of_columns() {
        let text = render(&sample(), Format::Json, Headers::Shown);
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed, json!([{"name": "a\tb", "messages": 2, "arguments": {"x-max-length": 5}}]));
        assert!(text.starts_with("[\n{\"name\":"));
        assert_eq!(render(&Rows::default(), Format::Json, Headers::Shown), "[\n\n]\n");
    }

    #[test]
    fn csv_quotes_text_and_erlang_makes_binaries() {
        assert!(render(&sample(), Format::Csv, Headers::Hidden).starts_with("\"a\\tb\",2,"));
        let text = render(&sample(), Format::Erlang, Headers::Hidden);
        assert_eq!(text, "[[{name,<<\"a\tb\">>},{messages,2},{arguments,[{<<\"x-max-length\">>,5}]}]]\n");
    }

    #[test]
    fn a_pretty_table_is_as_wide_as_its_widest_cell() {
        let text = render(&sample(), Format::PrettyTable, Headers::Shown);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }
}
