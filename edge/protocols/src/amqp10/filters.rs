//! Filters of a link that receives: the filters in effect, and the ones that its queue gets.
//!
//! Refuses to know queues: as in RabbitMQ, filters are read for every type of queue, and streams alone have them. Filters that are not known,
//! or not valid, are left out of the answer; the link is not refused.

use std::sync::Arc;

use broker::{Filter, FilterInfo};
use message::amqp10::push_entry;
use message::{ArrayBuf, PropertyFilter, Sql, TableBuf, Value as Value091};
use wire::amqp10::{Described, Descriptor, Map, Value, Writer};

/// The name under which an SQL filter must stand.
const SQL: &[u8] = b"sql-filter";

/// Most bytes of the filters of one link; beyond that none is in effect. They stay in memory as long as the link.
const BYTES_MAX: usize = 16 << 10;

/// The filters of a link.
#[derive(Default)]
pub(crate) struct Filters {
    /// Entries of the map of those in effect.
    pub(crate) effective: Vec<u8>,
    /// Arguments of its consumer.
    pub(crate) arguments: TableBuf,
    /// Messages that it wants.
    pub(crate) wanted: Option<Arc<Filter>>,
}

impl Filters {
    /// Of the map in a source. The later of two that exclude each other counts, as in RabbitMQ.
    pub(crate) fn of(wished: Map<'_>) -> Filters {
        let mut filters = Filters::default();
        if wished.raw().len() > BYTES_MAX {
            tracing::warn!(
                bytes = wished.raw().len(),
                "filters of more than {BYTES_MAX} bytes are not taken"
            );
            return filters;
        }
        let mut wanted = None;
        let entries: Vec<_> = wished.iter().collect();
        let mut taken: Vec<bool> = entries
            .iter()
            .rev()
            .map(|(name, value)| {
                let (Value::Symbol(name), Value::Described(described)) = (name, value) else { return false };
                take_argument(described, &mut filters.arguments) || take_filter(name, described, &mut wanted)
            })
            .collect();
        taken.reverse();
        let mut writer = Writer::new(&mut filters.effective);
        for ((name, value), _) in entries.iter().zip(taken).filter(|(_, is_taken)| *is_taken) {
            writer.value(name);
            writer.value(value);
        }
        filters.wanted = wanted.map(Arc::new);
        filters
    }
}

/// Filters in effect, for lists: a value of a map is a list of tables with key and value, as in RabbitMQ.
pub(crate) fn listed(entries: &[u8]) -> Vec<FilterInfo> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let one = |(name, value): (Value<'_>, Value<'_>)| {
        let described = value.as_described()?;
        let descriptor = match described.descriptor()? {
            Descriptor::Symbol(name) => text(name),
            Descriptor::Code(code) => code.to_string(),
        };
        let mut table = TableBuf::new();
        match described.value()? {
            Value::Map(map) => {
                let mut all = ArrayBuf::new();
                for (key, value) in map.iter() {
                    let mut entry = TableBuf::new();
                    entry.push_str("key", key.as_text()?);
                    push_entry(&mut entry, b"value", &value);
                    all.push_table(entry.as_table());
                }
                table.push_array("value", all.as_array());
            }
            value => push_entry(&mut table, b"value", &value),
        }
        Some(FilterInfo { name: text(name.as_text()?), descriptor, value: table.into_raw() })
    };
    Map::from_raw(entries).iter().filter_map(one).collect()
}

/// A filter that is an argument of a stream's consumers.
fn take_argument(described: &Described<'_>, arguments: &mut TableBuf) -> bool {
    let (Some(Descriptor::Symbol(name)), Some(value)) = (described.descriptor(), described.value()) else {
        return false;
    };
    match (name, value) {
        (b"rabbitmq:stream-offset-spec", Value::Timestamp(millis)) => {
            let seconds = u64::try_from(millis / 1000).unwrap_or(0);
            arguments.push("x-stream-offset", Value091::Timestamp(seconds));
        }
        (b"rabbitmq:stream-offset-spec", Value::Str(spec) | Value::Symbol(spec)) => {
            arguments.push("x-stream-offset", Value091::LongStr(spec));
        }
        (b"rabbitmq:stream-offset-spec", value) => match value.as_i64() {
            Some(offset @ 0..) => {
                arguments.push("x-stream-offset", Value091::I64(offset));
            }
            _ => return false,
        },
        (b"rabbitmq:stream-filter", Value::Str(value)) => {
            arguments.push("x-stream-filter", Value091::LongStr(value));
        }
        (b"rabbitmq:stream-filter", Value::List(values)) => {
            let mut array = ArrayBuf::new();
            for value in values.iter() {
                if let Value::Str(value) = value {
                    array.push_str(value);
                }
            }
            arguments.push_array("x-stream-filter", array.as_array());
        }
        (b"rabbitmq:stream-match-unfiltered", Value::Bool(wish)) => {
            arguments.push("x-stream-match-unfiltered", Value091::Bool(wish));
        }
        _ => return false,
    }
    true
}

/// A filter of messages. Expressions and property filters exclude each other.
fn take_filter(name: &[u8], described: &Described<'_>, wanted: &mut Option<Filter>) -> bool {
    if name == SQL {
        if wanted.is_some() {
            return false;
        }
        return match Sql::parse(described) {
            Ok(sql) => {
                *wanted = Some(Filter::Sql(sql));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "an SQL filter is not taken");
                false
            }
        };
    }
    let Some(filter) = PropertyFilter::parse(described) else { return false };
    match wanted {
        None => *wanted = Some(Filter::Properties(vec![filter])),
        Some(Filter::Properties(all)) if !all.iter().any(|other| other.is_of_section_of(&filter)) => {
            all.push(filter);
        }
        Some(_) => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use message::Table;

    use super::*;

    type Fill<'f> = &'f dyn Fn(&mut Writer<'_>);

    /// Filters by name and descriptor; the names of those in effect, the arguments, and whether messages are filtered.
    fn filters_of(wished: &[(&str, &str, Fill<'_>)]) -> (Vec<String>, TableBuf, bool) {
        let mut entries = Vec::new();
        for (name, descriptor, value) in wished {
            let mut writer = Writer::new(&mut entries);
            writer.symbol(name.as_bytes());
            writer.described_by_name(descriptor.as_bytes(), |writer| value(writer));
        }
        let filters = Filters::of(Map::from_raw(&entries));
        let names = Map::from_raw(&filters.effective)
            .iter()
            .filter_map(|(name, _)| Some(String::from_utf8_lossy(name.as_text()?).into_owned()));
        (names.collect(), filters.arguments, filters.wanted.is_some())
    }

    #[test]
    fn filters_of_streams_become_arguments() {
        let spec = "rabbitmq:stream-offset-spec";
        let offset = |fill: Fill<'_>| {
            let (names, arguments, _) = filters_of(&[(spec, spec, fill)]);
            let raw = arguments.into_raw();
            let value = Table::from_raw(&raw).get("x-stream-offset").map(|value| format!("{value:?}"));
            (names.len(), value)
        };
        let said = |value: Value091<'_>| (1, Some(format!("{value:?}")));
        assert_eq!(offset(&|writer| writer.string(b"first")), said(Value091::LongStr(b"first")));
        assert_eq!(offset(&|writer| writer.symbol(b"5m")), said(Value091::LongStr(b"5m")));
        assert_eq!(offset(&|writer| writer.ulong(7)), said(Value091::I64(7)));
        assert_eq!(offset(&|writer| writer.timestamp(5500)), said(Value091::Timestamp(5)));
        assert_eq!(offset(&|writer| writer.value(&Value::Long(-1))), (0, None));
        assert_eq!(offset(&|writer| writer.null()), (0, None));
        let (names, arguments, _) = filters_of(&[
            ("f", "rabbitmq:stream-filter", &|writer| {
                writer.list(|writer| {
                    writer.string(b"a");
                    writer.uint(5);
                    writer.string(b"b");
                });
            }),
            ("m", "rabbitmq:stream-match-unfiltered", &|writer| writer.bool(true)),
            ("u", "unknown", &|writer| writer.bool(true)),
        ]);
        assert_eq!(names, ["f", "m"]);
        let raw = arguments.into_raw();
        let table = Table::from_raw(&raw);
        assert_eq!(table.get("x-stream-match-unfiltered"), Some(Value091::Bool(true)));
        let values = table.get("x-stream-filter").and_then(|values| values.as_array()).unwrap();
        assert_eq!(values.iter().count(), 2);
    }

    #[test]
    fn filters_that_are_too_large_are_left_out() {
        let long = "x".repeat(BYTES_MAX);
        let text: Fill<'_> = &|writer| writer.string(long.as_bytes());
        let (names, arguments, _) = filters_of(&[("f", "rabbitmq:stream-filter", text)]);
        assert!(names.is_empty() && arguments.into_raw().is_empty());
    }

    #[test]
    fn one_filter_of_each_section_counts_and_expressions_exclude_them() {
        let subject: Fill<'_> = &|writer| {
            writer.map(|writer| {
                writer.symbol(b"subject");
                writer.string(b"x");
            });
        };
        let own: Fill<'_> = &|writer| {
            writer.map(|writer| {
                writer.string(b"k");
                writer.string(b"v");
            });
        };
        let properties = ("p", "amqp:properties-filter", subject);
        let application = ("a", "amqp:application-properties-filter", own);
        let sql: (&str, &str, Fill<'_>) =
            ("sql-filter", "amqp:sql-filter", &|writer| writer.string(b"k = 'v'"));
        let names = |wished: &[(&str, &str, Fill<'_>)]| filters_of(wished).0.concat();
        assert_eq!(names(&[properties, application]), "pa");
        assert_eq!(names(&[("q", "amqp:properties-filter", subject), properties]), "p");
        assert_eq!(names(&[properties, sql]), "sql-filter");
        assert_eq!(names(&[sql, properties]), "p");
        assert_eq!(names(&[("other", "amqp:sql-filter", sql.2)]), "");
        assert_eq!(names(&[("sql-filter", "amqp:sql-filter", &|writer| writer.string(b"k ="))]), "");
        assert_eq!(names(&[("a", "amqp:application-properties-filter", subject)]), "");
        let (_, arguments, is_filtered) = filters_of(&[properties]);
        assert!(is_filtered && arguments.into_raw().is_empty());
    }
}
