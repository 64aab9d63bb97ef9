//! Rings of consistent-hash exchanges: which destinations sit on them, in which order, after any changes.

use message::TableBuf;
use proptest::prelude::*;
use routing::{Destination, Exchange, ExchangeKind, Message, Scratch, route};

use crate::{hashes, model, steps};

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

/// Adds and removes bindings of a consistent-hash exchange beside a plain list of them.
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
            let weights = bindings.iter().map(|(queue, key, _)| (*queue, key.as_str()));
            let expected = model::bucket(weights, hashes::of_binary(key.as_bytes()).into());
            assert_eq!(out, Vec::from_iter(expected));
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
        keys in prop::collection::vec(steps::key(), 1..5),
    ) {
        churn_a_ring(&steps, &keys);
    }
}
