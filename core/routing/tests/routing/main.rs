//! Random topologies, churn and messages through the tables and through a model that scans all bindings.

mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use model::{Goal, Model, ModelBinding, SELECTORS};
use proptest::prelude::*;
use routing::{
    BindingTo, Destination, End, Exchange, ExchangeKind, KnownBinding, Lookup, Message, Retired, Scratch,
    explain, route,
};
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
        let message = Message { keys: &keys, headers: headers.map(TableBuf::as_table), properties: None };
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
                let to = match binding.destination {
                    Goal::Queue(_) => BindingTo::ClassicQueue,
                    Goal::Exchange(_) => BindingTo::Exchange,
                };
                let allowed =
                    kind.check_binding(binding.key.as_bytes(), binding.arguments.as_table(), to).is_ok();
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
                self.check_explanation(*exchange, keys, headers.as_ref(), &expected);
                self.check_lookup(*exchange, &keys[0], headers.as_ref());
            }
        }
    }

    /// An explanation comes to the same queues, and names for each a binding that leads there.
    fn check_explanation(
        &mut self,
        exchange: usize,
        keys: &[String],
        headers: Option<&TableBuf>,
        expected: &[u32],
    ) {
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let message = Message { keys: &keys, headers: headers.map(TableBuf::as_table), properties: None };
        let (exchanges, model) = (&self.exchanges, &self.model);
        let alternates = |name: &[u8]| exchanges.iter().find(|exchange| *exchange.name == *name).cloned();
        let bindings = |from: &Exchange<u32>, each: &mut dyn FnMut(KnownBinding<'_, u32>)| {
            for binding in model.bindings().iter().filter(|binding| binding.source as u64 == from.id) {
                let destination = match binding.destination {
                    Goal::Queue(queue) => Destination::Queue(queue),
                    Goal::Exchange(exchange) => Destination::from(&exchanges[exchange]),
                };
                each(KnownBinding {
                    key: binding.key.as_bytes(),
                    arguments: binding.arguments.as_table(),
                    destination,
                });
            }
        };
        let mut told = explain(&exchanges[exchange], &message, &alternates, &bindings, &mut self.scratch);
        told.queues.sort_unstable();
        assert_eq!(told.queues, expected);
        let by_binding = told.steps.iter().flat_map(|step| &step.matched).map(|matched| &matched.destination);
        let mut by_binding: Vec<u32> = by_binding
            .filter_map(|to| if let Destination::Queue(queue) = to { Some(*queue) } else { None })
            .collect();
        by_binding.sort_unstable();
        by_binding.dedup();
        assert_eq!(by_binding, expected);
        for step in &told.steps {
            let matched = !step.matched.is_empty();
            assert_eq!(matched, step.end == End::Matched, "{:?}", step.end);
            assert!(step.nearest.len() == step.missed.min(5) && step.more_matched == 0);
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
    use ExchangeKind::{Direct, Fanout, Headers, JmsTopic, ModulusHash, Topic};
    only.map_or([Direct, Fanout, Topic, Headers, ModulusHash, JmsTopic], |only| [only; EXCHANGES])
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
    fn modulus_hash_exchanges_route_as_the_model(steps in steps()) {
        run(Some(ExchangeKind::ModulusHash), &steps);
    }

    #[test]
    fn jms_topic_exchanges_route_as_the_model(steps in steps()) {
        run(Some(ExchangeKind::JmsTopic), &steps);
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
        let message = Message { keys: &[b"a", b"b", b"a"], ..Message::default() };
        route(&exchange, &message, &|_| None, &mut scratch, &mut out);
        out.sort_unstable();
        assert_eq!(out, (0..5000).collect::<Vec<_>>());
    }
}

/// A binding that any type takes: key and arguments, the n-th of several.
fn any_binding(kind: ExchangeKind, n: u32) -> (&'static [u8], TableBuf) {
    let mut arguments = TableBuf::new();
    let key: &[u8] = match kind {
        ExchangeKind::Topic if n.is_multiple_of(2) => b"a.*",
        ExchangeKind::Topic => b"#.b",
        ExchangeKind::ConsistentHash => b"3",
        ExchangeKind::LocalRandom => b"",
        _ => b"a.b",
    };
    if kind == ExchangeKind::JmsTopic {
        arguments.push_str("rjms_erlang_selector", "true");
    }
    (key, arguments)
}

/// A reader sees either all or nothing of a batch of changes, whenever it looks.
fn churn_while_reading(kind: ExchangeKind) {
    const BATCH: u32 = 200;
    let one_of_them = matches!(
        kind,
        ExchangeKind::ConsistentHash
            | ExchangeKind::ModulusHash
            | ExchangeKind::Random
            | ExchangeKind::LocalRandom
    );
    let full = if one_of_them { 1 } else { BATCH as usize };
    let exchange = Exchange::new(1, b"x", kind);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (exchange, done) = (&exchange, &done);
            scope.spawn(move || {
                let (mut scratch, mut out) = (Scratch::seeded(seed), Vec::new());
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let message = Message { keys: &[b"a.b"], ..Message::default() };
                    route(exchange, &message, &|_| None, &mut scratch, &mut out);
                    assert!(out.is_empty() || out.len() == full, "{}", out.len());
                }
            });
        }
        let mut retired = Retired::new();
        for round in 0..100 {
            let (_, old) = exchange.edit(|table| {
                for queue in 0..BATCH {
                    let (key, arguments) = any_binding(kind, queue);
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

#[test]
fn concurrent_readers_never_see_half_a_batch() {
    ExchangeKind::ALL.iter().copied().for_each(churn_while_reading);
}

/// Every acknowledged binding routes and every acknowledged unbinding does not, while another thread churns: never a lost route,
/// never a phantom.
#[test]
fn a_change_holds_for_every_route_that_begins_after_it() {
    const CHURNED: u32 = 2000;
    let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
    // Steps done: the first CHURNED bind, the others unbind in the same order.
    let (begun, acknowledged) = (AtomicU32::new(0), AtomicU32::new(0));
    let churn = || {
        let mut retired = Retired::new();
        for step in 0..2 * CHURNED {
            let (queue, none) = (step % CHURNED, TableBuf::new());
            let key: &[u8] = [&b"k.k"[..], b"#", b"*.k"][queue as usize % 3];
            let destination = Destination::Queue(queue);
            begun.store(step + 1, Ordering::Release);
            let (changed, old) = exchange.edit(|table| match step < CHURNED {
                true => table.bind(key, none.as_table(), &destination),
                false => table.unbind(key, none.as_table(), &destination),
            });
            assert!(changed);
            retired.retire(old);
            acknowledged.store(step + 1, Ordering::Release);
        }
    };
    let read = || {
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        loop {
            let before = acknowledged.load(Ordering::Acquire);
            let message = Message { keys: &[b"k.k"], ..Message::default() };
            route(&exchange, &message, &|_| None, &mut scratch, &mut out);
            let after = begun.load(Ordering::Acquire);
            let mut is_out = vec![false; CHURNED as usize];
            out.iter().for_each(|queue| is_out[*queue as usize] = true);
            let lost =
                (after.saturating_sub(CHURNED)..before.min(CHURNED)).find(|&queue| !is_out[queue as usize]);
            assert_eq!(lost, None, "bound before {before}, not unbound by {after}");
            let phantom = |queue: &u32| *queue >= after || queue + CHURNED < before;
            assert_eq!(out.iter().find(|queue| phantom(queue)), None, "{before} to {after}");
            if before == 2 * CHURNED {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(read);
        }
        churn();
    });
    assert!(exchange.load().is_empty());
}

/// Adds and removes bindings of a consistent-hash exchange beside a plain list of them.
/// A binding of a ring: queue, key, argument `x`.
type RingBinding = (u32, String, Option<i64>);

fn x(value: Option<i64>) -> TableBuf {
    let mut table = TableBuf::new();
    if let Some(value) = value {
        table.push_i64("x", value);
    }
    table
}

fn ring_of(bindings: &[RingBinding]) -> Vec<(Destination<u32>, u32)> {
    let rebuilt = Exchange::<u32>::new(2, b"y", ExchangeKind::ConsistentHash);
    let _ = rebuilt.edit(|table| {
        for (queue, key, argument) in bindings {
            table.bind(key.as_bytes(), x(*argument).as_table(), &Destination::Queue(*queue));
        }
    });
    rebuilt.load().ring().expect("it is a ring")
}

fn churn_a_ring(steps: &[(RingBinding, bool)], keys: &[String]) {
    let exchange = Exchange::new(1, b"x", ExchangeKind::ConsistentHash);
    let mut bindings: Vec<RingBinding> = Vec::new();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    for (step, add) in steps {
        let (queue, key, argument) = step;
        let place = bindings.iter().position(|binding| binding == step);
        let (arguments, destination) = (x(*argument), Destination::Queue(*queue));
        let _ = exchange.edit(|table| match (add, place) {
            (true, None) => {
                bindings.push(step.clone());
                table.bind(key.as_bytes(), arguments.as_table(), &destination)
            }
            (false, Some(place)) => {
                bindings.remove(place);
                table.unbind(key.as_bytes(), arguments.as_table(), &destination)
            }
            _ => false,
        });
        let mut ring: Vec<(u32, u32)> = Vec::new();
        for (queue, key, _) in &bindings {
            if ring.iter().all(|(seated, _)| seated != queue) {
                ring.push((*queue, key.parse().expect("keys are weights")));
            }
        }
        let seated = exchange.load().ring().expect("it is a ring");
        let expected: Vec<_> =
            ring.iter().map(|&(queue, weight)| (Destination::Queue(queue), weight)).collect();
        assert_eq!(seated, expected);
        assert_eq!(seated, ring_of(&bindings), "as after a restart");
        for key in keys {
            route(
                &exchange,
                &Message { keys: &[key.as_bytes()], ..Message::default() },
                &|_| None,
                &mut scratch,
                &mut out,
            );
            assert_eq!(out.len(), usize::from(!ring.is_empty()));
            assert!(out.iter().all(|queue| ring.iter().any(|(seated, _)| seated == queue)));
        }
    }
}

proptest! {
    #[test]
    fn a_ring_is_a_function_of_the_bindings_in_their_order(
        steps in prop::collection::vec(
            ((0..4_u32, "[+0]?[1-3]", prop::option::of(0..3_i64)), prop::bool::weighted(0.6)),
            0..60,
        ),
        keys in prop::collection::vec(key(), 1..5),
    ) {
        churn_a_ring(&steps, &keys);
    }
}

#[test]
fn chance_gives_each_binding_its_share() {
    let exchange = Exchange::new(1, b"x", ExchangeKind::Random);
    let _ = exchange.edit(|table| {
        for (key, queue) in [("a", 1_u32), ("b", 1), ("c", 1), ("", 2)] {
            table.bind(key.as_bytes(), TableBuf::new().as_table(), &Destination::Queue(queue));
        }
    });
    let (mut scratch, mut out) = (Scratch::seeded(3), Vec::new());
    let mut counts = [0_u32; 3];
    for _ in 0..10_000 {
        route(
            &exchange,
            &Message { keys: &[b"any"], ..Message::default() },
            &|_| None,
            &mut scratch,
            &mut out,
        );
        counts[out[0] as usize] += 1;
    }
    assert!((7_200..7_800).contains(&counts[1]) && counts[1] + counts[2] == 10_000, "{counts:?}");
}
