//! The steps of a random history, and how they are drawn. Knows no tables and no model of them.
//!
//! Words are few, so that keys repeat, are empty and have dots beside each other, and patterns overlap.

use message::{ArrayBuf, PropertiesBuf, TableBuf, Value};
use proptest::prelude::*;

use crate::model::{SELECTORS, Sent};

/// Exchanges that there may be at once.
pub(crate) const EXCHANGES: usize = 6;
/// Names of queues.
pub(crate) const QUEUES: u32 = 12;

/// One step of a history. A thing that does not exist, or exists already, is passed over.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bind(Bind),
    /// Once more the binding at this place of the model's list, modulo its length, with other arguments.
    BindAgain(usize, TableBuf),
    /// Removes the binding at this place.
    Unbind(usize),
    /// With all bindings to it; a later object of its name is another one.
    DeleteQueue(u32),
    /// With all bindings from it and to it.
    DeleteExchange(usize),
    /// Of the n-th of the types that the history is about.
    Declare {
        exchange: usize,
        nth_type: usize,
        auto_delete: bool,
    },
    /// One of them never exists.
    Alternate(usize, Option<usize>),
    Publish {
        exchange: usize,
        sent: Box<Sent>,
    },
}

/// A binding to be.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    pub(crate) source: usize,
    pub(crate) key: String,
    pub(crate) arguments: TableBuf,
    pub(crate) to: To,
}

/// Where it is to lead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To {
    Queue(u32),
    Exchange(usize),
}

pub(crate) fn pattern() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => Just("a"), 2 => Just("b"), 1 => Just("c"), 3 => Just(""), 3 => Just("*"), 3 => Just("#"), 1 => Just("a#")
    ];
    prop::collection::vec(word, 0..6).prop_map(|words| words.join("."))
}

pub(crate) fn key() -> impl Strategy<Value = String> {
    let word = prop_oneof![4 => Just("a"), 3 => Just("b"), 1 => Just("c"), 3 => Just(""), 1 => Just("*"), 1 => Just("#")];
    prop_oneof![
        9 => prop::collection::vec(word, 0..7).prop_map(|words| words.join(".")),
        1 => Just("a".repeat(40)),
    ]
}

/// A routing key and those of CC and BCC, some of which repeat it.
fn keys() -> impl Strategy<Value = Vec<String>> {
    (prop::collection::vec(key(), 1..4), prop::bool::weighted(0.2)).prop_map(|(mut keys, repeats)| {
        if repeats {
            keys.push(keys[0].clone());
        }
        keys
    })
}

fn push_value(table: &mut TableBuf, name: &str, value: u8) {
    let mut array = ArrayBuf::new();
    array.push_str("e");
    let value = match value {
        0 => Value::Void,
        1 => Value::I8(1),
        2 => Value::I64(1),
        3 => Value::U16(2),
        4 => Value::F32(1.0),
        5 => Value::F64(1.0),
        6 => Value::Bool(true),
        7 => Value::LongStr(b"1"),
        8 => Value::Bytes(b"1"),
        9 => Value::Timestamp(1),
        10 => Value::Decimal { scale: 1, value: 10 },
        _ => Value::Array(array.as_array()),
    };
    table.push(name, value);
}

fn fields() -> impl Strategy<Value = TableBuf> {
    let name = prop_oneof![Just("h"), Just("i"), Just("j"), Just("x-h"), Just("")];
    prop::collection::vec((name, 0u8..12), 0..4).prop_map(|fields| {
        let mut table = TableBuf::new();
        for (name, value) in fields {
            push_value(&mut table, name, value);
        }
        table
    })
}

/// Of a message: the above, and what delayed and deduplicating exchanges look at.
fn headers() -> impl Strategy<Value = TableBuf> {
    let delay = prop::sample::select(vec![
        Value::I64(5),
        Value::I8(1),
        Value::I64(-5),
        Value::I32(0),
        Value::I64(i64::from(u32::MAX)),
        Value::I64(1 << 32),
        Value::F64(2.5),
        Value::F64(0.5),
        Value::LongStr(b"7"),
        Value::LongStr(b"soon"),
        Value::Bool(true),
    ]);
    let value = prop::sample::select(vec!["one", "two", "three"]);
    let (delay, value) = (prop::option::weighted(0.3, delay), prop::option::weighted(0.4, value));
    (fields(), delay, value).prop_map(|(mut table, delay, value)| {
        if let Some(delay) = delay {
            table.push("x-delay", delay);
        }
        if let Some(value) = value {
            table.push_str("x-deduplication-header", value);
        }
        table
    })
}

/// The properties that rings may look at.
fn properties() -> impl Strategy<Value = PropertiesBuf> {
    let text = || prop::option::of("[a-z]{0,14}".prop_map(String::into_bytes));
    (text(), text(), prop::option::of(any::<u64>())).prop_map(|(message_id, correlation_id, timestamp)| {
        PropertiesBuf { message_id, correlation_id, timestamp, ..PropertiesBuf::default() }
    })
}

/// A message.
pub(crate) fn sent() -> impl Strategy<Value = Sent> {
    (keys(), prop::option::of(headers()), properties()).prop_map(|(keys, headers, properties)| Sent {
        keys,
        headers,
        properties,
    })
}

fn arguments() -> impl Strategy<Value = TableBuf> {
    let mode =
        prop::option::of(prop_oneof![Just("all"), Just("any"), Just("all-with-x"), Just("any-with-x")]);
    let selector = prop::option::of(prop::sample::select(SELECTORS));
    (mode, fields(), selector).prop_map(|(mode, mut table, selector)| {
        if let Some(mode) = mode {
            table.push_str("x-match", mode);
        }
        if let Some((text, _)) = selector {
            table.push_str("rjms_erlang_selector", text);
        }
        table
    })
}

fn bind(mix: Mix) -> impl Strategy<Value = Bind> {
    let to = prop_oneof![
        mix.to_queues => (0..QUEUES).prop_map(To::Queue),
        1 => (0..EXCHANGES).prop_map(To::Exchange),
    ];
    (0..EXCHANGES, pattern(), arguments(), to).prop_map(|(source, key, arguments, to)| Bind {
        source,
        key,
        arguments,
        to,
    })
}

fn declare() -> impl Strategy<Value = Step> {
    (0..EXCHANGES, any::<usize>(), any::<bool>())
        .prop_map(|(exchange, nth_type, auto_delete)| Step::Declare { exchange, nth_type, auto_delete })
}

/// Of what a history has more and of what less.
#[derive(Clone, Copy)]
struct Mix {
    /// Bindings to queues for one between exchanges.
    to_queues: u32,
    unbind: u32,
}

/// Many bindings.
const DENSE: Mix = Mix { to_queues: 4, unbind: 3 };
/// Few, so that exchanges lose the last one that they have.
const SPARSE: Mix = Mix { to_queues: 1, unbind: 10 };

fn step(mix: Mix) -> impl Strategy<Value = Step> {
    let alternate = (0..EXCHANGES, prop::option::weighted(0.8, 0..EXCHANGES + 1));
    let publish = (0..EXCHANGES, sent());
    prop_oneof![
        8 => bind(mix).prop_map(Step::Bind),
        2 => (any::<usize>(), arguments()).prop_map(|(place, arguments)| Step::BindAgain(place, arguments)),
        mix.unbind => any::<usize>().prop_map(Step::Unbind),
        1 => (0..QUEUES).prop_map(Step::DeleteQueue),
        1 => (0..EXCHANGES).prop_map(Step::DeleteExchange),
        3 => declare(),
        2 => alternate.prop_map(|(exchange, alternate)| Step::Alternate(exchange, alternate)),
        8 => publish.prop_map(|(exchange, sent)| Step::Publish { exchange, sent: Box::new(sent) }),
    ]
}

/// Exchanges as they are at first, each of the n-th of the types that the history is about, some of which delete themselves;
/// and what happens then.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) declared: Vec<(usize, bool)>,
    pub(crate) steps: Vec<Step>,
}

pub(crate) fn histories() -> impl Strategy<Value = History> {
    let declared = prop::collection::vec((any::<usize>(), prop::bool::weighted(0.4)), EXCHANGES);
    let steps = prop_oneof![
        2 => prop::collection::vec(step(DENSE), 0..120),
        1 => prop::collection::vec(step(SPARSE), 0..120),
    ];
    (declared, steps).prop_map(|(declared, steps)| History { declared, steps })
}
