//! Choosing columns of a listing. Refuses to know what is listed.

use serde_json::Value;

use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};

/// A column: its name, and its value for an item.
pub(crate) type Column<T> = (&'static str, fn(&T) -> Value);

/// The columns asked for, or these defaults.
///
/// # Errors
/// Names that are no columns, exit 64.
pub(crate) fn chosen<T>(
    request: &Request,
    known: &[Column<T>],
    defaults: &[&'static str],
) -> Result<Vec<Column<T>>, Failure> {
    let asked: Vec<&str> = match request.args.len() {
        0 => defaults.to_vec(),
        _ => request
            .args
            .iter()
            .flat_map(|words| words.split([',', ' ']))
            .filter(|it| !it.is_empty())
            .collect(),
    };
    let find = |name: &str| known.iter().find(|(known, _)| *known == name).copied();
    let unknown: Vec<&str> = asked.iter().copied().filter(|name| find(name).is_none()).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        let text = format!("Error (argument validation): Info key(s) {unknown} are not supported");
        return Err(Failure::new(Exit::USAGE, text));
    }
    Ok(asked.into_iter().filter_map(find).collect())
}

/// The listing of items by columns.
pub(crate) fn rows<T>(columns: &[Column<T>], items: impl IntoIterator<Item = T>) -> Answer {
    let rows =
        items.into_iter().map(|item| columns.iter().map(|(_, value)| value(&item)).collect()).collect();
    Answer::Rows(Rows { columns: columns.iter().map(|(name, _)| (*name).into()).collect(), rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_in_the_order_asked_and_unknown_ones_are_refused() {
        let known: &[Column<u64>] = &[("a", |it| (*it).into()), ("b", |it| (it * 2).into())];
        let request = |args: &[&str]| Request {
            args: args.iter().map(|word| (*word).into()).collect(),
            ..Request::default()
        };
        let columns = chosen(&request(&["b", "a"]), known, &["a"]).unwrap();
        let Answer::Rows(listing) = rows(&columns, [1]) else { panic!() };
        assert_eq!(listing.rows, [[Value::from(2), Value::from(1)]]);
        assert_eq!(chosen(&request(&[]), known, &["a"]).unwrap().len(), 1);
        assert_eq!(chosen(&request(&["c"]), known, &["a"]).err().map(|it| it.exit), Some(64));
    }
}
