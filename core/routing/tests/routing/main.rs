//! Random topologies, churn and messages through the tables and through a model that scans all bindings.

#![expect(
    clippy::unwrap_used,
    reason = "tests; clippy exempts only functions marked #[test], not their helpers"
)]

mod chance;
mod hashes;
mod model;
mod pair;
mod queue;
mod ring;
mod steps;
mod stress;

use message::{PropertiesBuf, TableBuf};
use pair::{Pair, TypeName};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use routing::{Destination, Exchange, ExchangeKind, Message, Scratch, route};
use steps::{Bind, History, Step, To};

/// All types, and delayed exchanges of all of those that route in different ways.
const TYPES: &[TypeName] = &[
    ("direct", None),
    ("fanout", None),
    ("topic", None),
    ("headers", None),
    ("x-modulus-hash", None),
    ("x-consistent-hash", None),
    ("x-consistent-hash", Some(("hash-header", "h"))),
    ("x-consistent-hash", Some(("hash-property", "message_id"))),
    ("x-random", None),
    ("x-local-random", None),
    ("x-jms-topic", None),
    ("x-recent-history", None),
    ("x-message-deduplication", None),
    ("x-delayed-message", Some(("x-delayed-type", "direct"))),
    ("x-delayed-message", Some(("x-delayed-type", "topic"))),
    ("x-delayed-message", Some(("x-delayed-type", "headers"))),
    ("x-delayed-message", Some(("x-delayed-type", "x-random"))),
    ("x-delayed-message", Some(("x-delayed-type", "fanout"))),
];

/// Rings by all that there is to hash.
const RINGS: &[TypeName] = &[
    ("x-consistent-hash", None),
    ("x-consistent-hash", Some(("hash-header", "h"))),
    ("x-consistent-hash", Some(("hash-header", "i"))),
    ("x-consistent-hash", Some(("hash-property", "message_id"))),
    ("x-consistent-hash", Some(("hash-property", "correlation_id"))),
    ("x-consistent-hash", Some(("hash-property", "timestamp"))),
];

const TOPIC: &[TypeName] = &[("topic", None)];
const DEDUPLICATING: &[TypeName] = &[("x-message-deduplication", None)];

fn run(types: &'static [TypeName], history: &History) -> Pair {
    let mut pair = Pair::new(types);
    for (exchange, (nth_type, auto_delete)) in history.declared.iter().enumerate() {
        pair.declare(exchange, *nth_type, *auto_delete);
    }
    history.steps.iter().for_each(|step| pair.run(step));
    pair
}

/// A test for each of the types alone.
macro_rules! each_alone {
    ($($name:ident = $types:expr;)+) => {
        proptest! { $(
            #[test]
            fn $name(history in steps::histories()) {
                run(const { $types }, &history).finish();
            }
        )+ }
    };
}

each_alone! {
    direct_exchanges_route_as_the_model = &[("direct", None)];
    fanout_exchanges_route_as_the_model = &[("fanout", None)];
    topic_exchanges_route_as_the_model = TOPIC;
    headers_exchanges_route_as_the_model = &[("headers", None)];
    modulus_hash_exchanges_route_as_the_model = &[("x-modulus-hash", None)];
    consistent_hash_exchanges_route_as_the_model = RINGS;
    random_exchanges_route_as_the_model = &[("x-random", None)];
    local_random_exchanges_route_as_the_model = &[("x-local-random", None)];
    jms_topic_exchanges_route_as_the_model = &[("x-jms-topic", None)];
    recent_history_exchanges_route_as_the_model = &[("x-recent-history", None)];
    deduplicating_exchanges_route_as_the_model = DEDUPLICATING;
    delayed_exchanges_route_as_the_model = &[
        ("x-delayed-message", Some(("x-delayed-type", "topic"))),
        ("x-delayed-message", Some(("x-delayed-type", "fanout"))),
        ("x-delayed-message", Some(("x-delayed-type", "x-random"))),
    ];
}

#[test]
fn every_type_there_is_takes_part() {
    for name in routing::ExchangeType::names() {
        assert!(TYPES.iter().any(|(other, _)| *other == name), "{name}");
    }
}

proptest! {
    #[test]
    fn exchanges_of_all_types_together_route_as_the_model(history in steps::histories()) {
        run(TYPES, &history).finish();
    }
}

proptest! {
    #[test]
    fn topic_patterns_alone_route_as_the_model(
        patterns in prop::collection::vec((steps::pattern(), 0..steps::QUEUES), 0..60),
        keys in prop::collection::vec(steps::key(), 1..20),
    ) {
        let mut pair = Pair::new(TOPIC);
        pair.declare(0, 0, false);
        for (key, queue) in patterns {
            let bind = Bind { source: 0, key, arguments: TableBuf::new(), to: To::Queue(queue) };
            pair.run(&Step::Bind(bind));
        }
        for key in keys {
            let sent = model::Sent { keys: vec![key], headers: None, properties: PropertiesBuf::default() };
            pair.run(&Step::Publish { exchange: 0, sent: Box::new(sent) });
        }
        pair.finish();
    }
}

/// Else the histories above would prove less than they seem to.
#[test]
fn histories_have_what_is_hard() {
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..500 {
        let history = steps::histories().new_tree(&mut runner).expect("it is drawn").current();
        let pair = run([TYPES, TOPIC, DEDUPLICATING, RINGS][number % 4], &history);
        for (what, count) in &pair.seen {
            *seen.entry(*what).or_insert(0) += count;
        }
        pair.finish();
    }
    assert_eq!(seen.len(), 19, "{seen:?}");
    assert!(seen.values().all(|count| *count >= 3), "{seen:?}");
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
