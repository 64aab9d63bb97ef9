//! Random topologies, churn and messages through the tables and through a model that scans all bindings.

mod model;

use std::sync::Arc;

use model::{Goal, Model, ModelBinding};
use proptest::prelude::*;
use routing::{Destination, Exchange, ExchangeKind, Lookup, Message, Retired, Scratch, route};
use wire::amqp091::{ArrayBuf, TableBuf, Value};

const EXCHANGES: usize = 6;
const QUEUES: u32 = 12;

/// One step of a test.
#[derive(Clone, Debug)]
enum Step {
    Bind(ModelBinding),
    /// Removes the binding at this place of the model's list, modulo its length.
    Unbind(usize),
    Alternate(usize, Option<usize>),
    Publish {
        exchange: usize,
        keys: Vec<String>,
        headers: Option<TableBuf>,
    },
}

fn pattern() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => Just("a"), 2 => Just("b"), 1 => Just("c"), 2 => Just(""), 3 => Just("*"), 3 => Just("#"), 1 => Just("a#")
    ];
    prop::collection::vec(word, 0..6).prop_map(|words| words.join("."))
}

fn key() -> impl Strategy<Value = String> {
    let word = prop_oneof![4 => Just("a"), 3 => Just("b"), 1 => Just("c"), 2 => Just(""), 1 => Just("*"), 1 => Just("#")];
    prop_oneof![
        9 => prop::collection::vec(word, 0..7).prop_map(|words| words.join(".")),
        1 => Just("a".repeat(40)),
    ]
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

fn arguments() -> impl Strategy<Value = TableBuf> {
    let mode =
        prop::option::of(prop_oneof![Just("all"), Just("any"), Just("all-with-x"), Just("any-with-x")]);
    (mode, fields()).prop_map(|(mode, mut table)| {
        if let Some(mode) = mode {
            table.push_str("x-match", mode);
        }
        table
    })
}

fn binding() -> impl Strategy<Value = ModelBinding> {
    let destination = prop_oneof![
        4 => (0..QUEUES).prop_map(Goal::Queue),
        1 => (0..EXCHANGES).prop_map(Goal::Exchange),
    ];
    (0..EXCHANGES, pattern(), arguments(), destination).prop_map(|(source, key, arguments, destination)| {
        ModelBinding { source, key, arguments, destination }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => binding().prop_map(Step::Bind),
        3 => any::<usize>().prop_map(Step::Unbind),
        1 => (0..EXCHANGES, prop::option::of(0..EXCHANGES + 1)).prop_map(|(x, alternate)| Step::Alternate(x, alternate)),
        6 => (0..EXCHANGES, prop::collection::vec(key(), 1..4), prop::option::of(fields()))
            .prop_map(|(exchange, keys, headers)| Step::Publish { exchange, keys, headers }),
    ]
}

/// The tables under test beside the model.
struct Pair {
    exchanges: Vec<Arc<Exchange<u32>>>,
    model: Model,
    scratch: Scratch<u32>,
    retired: Retired<u32>,
}

impl Pair {
    fn new(kinds: &[ExchangeKind]) -> Self {
        let named =
            |(id, &kind): (usize, _)| Arc::new(Exchange::new(id as u64, id.to_string().as_bytes(), kind));
        Self {
            exchanges: kinds.iter().enumerate().map(named).collect(),
            model: Model::new(kinds),
            scratch: Scratch::new(),
            retired: Retired::new(),
        }
    }

    fn change(&mut self, binding: &ModelBinding, add: bool) {
        let destination = match binding.destination {
            Goal::Queue(queue) => Destination::Queue(queue),
            Goal::Exchange(exchange) => Destination::from(&self.exchanges[exchange]),
        };
        let (key, arguments) = (binding.key.as_bytes(), binding.arguments.as_table());
        let (_, old) = self.exchanges[binding.source].edit(|table| match add {
            true => table.bind(key, arguments, &destination),
            false => table.unbind(key, arguments, &destination),
        });
        self.retired.retire(old);
    }

    fn routed(&mut self, exchange: usize, keys: &[String], headers: Option<&TableBuf>) -> Vec<u32> {
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let message = Message { keys: &keys, headers: headers.map(TableBuf::as_table) };
        let exchanges = &self.exchanges;
        let alternates = |name: &[u8]| exchanges.iter().find(|exchange| *exchange.name == *name).cloned();
        let mut out = Vec::new();
        route(&exchanges[exchange], &message, &alternates, &mut self.scratch, &mut out);
        out.sort_unstable();
        out
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Bind(binding) => {
                let kind = self.exchanges[binding.source].kind;
                let allowed =
                    kind.check_binding(binding.key.as_bytes(), binding.arguments.as_table()).is_ok();
                if allowed && self.model.add(binding) {
                    self.change(binding, true);
                }
            }
            Step::Unbind(place) => {
                if let Some(binding) = self.model.remove(*place) {
                    self.change(&binding, false);
                }
            }
            Step::Alternate(exchange, alternate) => {
                self.exchanges[*exchange]
                    .set_alternate(alternate.map(|x| x.to_string()).as_deref().map(str::as_bytes));
                self.model.alternates[*exchange] = alternate.filter(|&x| x < EXCHANGES);
            }
            Step::Publish { exchange, keys, headers } => {
                let expected = self.model.route(*exchange, keys, headers.as_ref());
                assert_eq!(self.routed(*exchange, keys, headers.as_ref()), expected);
                self.check_lookup(*exchange, &keys[0], headers.as_ref());
            }
        }
    }

    /// What a lookup by key promises is what the bindings of that exchange alone say.
    fn check_lookup(&self, exchange: usize, key: &str, headers: Option<&TableBuf>) {
        let table = self.exchanges[exchange].load();
        let matching = self.model.matching(exchange, &[key.to_owned()], headers);
        let queues: Option<Vec<u32>> = match table.lookup(key.as_bytes()) {
            Lookup::Walk => return,
            Lookup::Nothing => Some(Vec::new()),
            Lookup::Queues(queues) => Some(queues.iter().copied().collect()),
        };
        let mut expected: Vec<_> = matching.into_iter().collect();
        let mut found: Vec<_> = queues.into_iter().flatten().map(Goal::Queue).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }

    /// Removes all bindings; what is left must be nothing.
    fn finish(mut self) {
        while let Some(binding) = self.model.remove(0) {
            self.change(&binding, false);
        }
        for exchange in &self.exchanges {
            assert!(exchange.load().is_empty(), "{exchange:?}");
            assert_eq!(Arc::strong_count(exchange), 1);
        }
        assert_eq!(self.retired.free(), 0);
    }
}

fn kinds(only: Option<ExchangeKind>) -> [ExchangeKind; EXCHANGES] {
    let mixed = ExchangeKind::ALL.iter().copied().cycle();
    let mut kinds = [ExchangeKind::Direct; EXCHANGES];
    for (kind, next) in kinds.iter_mut().zip(mixed) {
        *kind = only.unwrap_or(next);
    }
    kinds
}

fn run(only: Option<ExchangeKind>, steps: &[Step]) {
    let mut pair = Pair::new(&kinds(only));
    for step in steps {
        pair.run(step);
    }
    pair.finish();
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..120)
}

proptest! {
    #[test]
    fn direct_exchanges_route_as_the_model(steps in steps()) {
        run(Some(ExchangeKind::Direct), &steps);
    }

    #[test]
    fn fanout_exchanges_route_as_the_model(steps in steps()) {
        run(Some(ExchangeKind::Fanout), &steps);
    }

    #[test]
    fn topic_exchanges_route_as_the_model(steps in steps()) {
        run(Some(ExchangeKind::Topic), &steps);
    }

    #[test]
    fn headers_exchanges_route_as_the_model(steps in steps()) {
        run(Some(ExchangeKind::Headers), &steps);
    }

    #[test]
    fn exchanges_of_all_types_together_route_as_the_model(steps in steps()) {
        run(None, &steps);
    }

    #[test]
    fn topic_patterns_alone_route_as_the_model(
        patterns in prop::collection::vec((pattern(), 0..QUEUES), 0..60),
        keys in prop::collection::vec(key(), 1..20),
    ) {
        let mut pair = Pair::new(&kinds(Some(ExchangeKind::Topic)));
        for (key, queue) in patterns {
            let arguments = TableBuf::new();
            pair.run(&Step::Bind(ModelBinding { source: 0, key, arguments, destination: Goal::Queue(queue) }));
        }
        for key in keys {
            pair.run(&Step::Publish { exchange: 0, keys: vec![key], headers: None });
        }
        pair.finish();
    }
}

#[test]
fn large_results_are_merged_without_repeats() {
    let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
    let _ = exchange.edit(|table| {
        for queue in 0..3000u32 {
            table.bind(b"a", TableBuf::new().as_table(), &Destination::Queue(queue));
            table.bind(b"#", TableBuf::new().as_table(), &Destination::Queue(queue + 1000));
            table.bind(b"*", TableBuf::new().as_table(), &Destination::Queue(queue + 2000));
        }
    });
    let mut scratch = Scratch::new();
    let mut out = Vec::new();
    for _ in 0..2 {
        let message = Message { keys: &[b"a", b"b", b"a"], headers: None };
        route(&exchange, &message, &|_| None, &mut scratch, &mut out);
        out.sort_unstable();
        assert_eq!(out, (0..5000).collect::<Vec<_>>());
    }
}

/// A reader sees either all or nothing of a batch of changes, whenever it looks.
#[test]
fn concurrent_readers_never_see_half_a_batch() {
    let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut scratch, mut out) = (Scratch::new(), Vec::new());
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let message = Message { keys: &[b"a.b"], headers: None };
                    route(&exchange, &message, &|_| None, &mut scratch, &mut out);
                    assert!(out.is_empty() || out.len() == 200, "{}", out.len());
                }
            });
        }
        let mut retired = Retired::new();
        for round in 0..200 {
            let (_, old) = exchange.edit(|table| {
                for queue in 0..200u32 {
                    let key: &[u8] = if queue % 2 == 0 { b"a.*" } else { b"#.b" };
                    let arguments = TableBuf::new();
                    if round % 2 == 0 {
                        table.bind(key, arguments.as_table(), &Destination::Queue(queue));
                    } else {
                        table.unbind(key, arguments.as_table(), &Destination::Queue(queue));
                    }
                }
            });
            retired.retire(old);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
