//! Shares: of an exchange that gives each message to one of its bindings, each binding gets as much as the others.

use message::TableBuf;
use proptest::prelude::*;
use routing::{Destination, Exchange, ExchangeKind, Message, Scratch, route};

/// Messages per case.
const MESSAGES: u32 = 4000;

/// Bindings of a queue each, told apart by their arguments alone, and those of them that go again.
fn bound(kind: ExchangeKind, queues: &[u32], gone: &[usize]) -> (Exchange<u32>, Vec<u32>) {
    let exchange = Exchange::new(1, b"x", kind);
    let mut left: Vec<(usize, u32)> = queues.iter().copied().enumerate().collect();
    let change = |(number, queue): (usize, u32), is_added: bool| {
        let mut arguments = TableBuf::new();
        arguments.push_i64("n", number as i64);
        let (arguments, to) = (arguments.as_table(), Destination::Queue(queue));
        let _ = exchange.edit(|table| match is_added {
            true => table.bind(b"", arguments, &to),
            false => table.unbind(b"", arguments, &to),
        });
    };
    left.iter().for_each(|binding| change(*binding, true));
    for place in gone {
        if left.len() > 1 {
            change(left.remove(place % left.len()), false);
        }
    }
    (exchange, left.into_iter().map(|(_, queue)| queue).collect())
}

/// Each binding's share is within seven times the spread of chance: of all cases of all runs, none should fail by it.
fn check_shares(kind: ExchangeKind, queues: &[u32], gone: &[usize], seed: u64) {
    let (exchange, left) = bound(kind, queues, gone);
    let (mut scratch, mut out) = (Scratch::seeded(seed), Vec::new());
    let mut counts = [0_u32; 8];
    for _ in 0..MESSAGES {
        let message = Message { keys: &[b"any"], ..Message::default() };
        route(&exchange, &message, &|_| None, &mut scratch, &mut out);
        assert_eq!(out.len(), 1);
        counts[out[0] as usize] += 1;
    }
    for (queue, count) in counts.into_iter().enumerate() {
        let share = left.iter().filter(|other| **other as usize == queue).count() as f64 / left.len() as f64;
        let expected = share * f64::from(MESSAGES);
        let spread = (expected * (1.0 - share)).sqrt();
        let is_fair = (f64::from(count) - expected).abs() <= 7.0 * spread;
        assert!(is_fair, "queue {queue} got {count} and not {expected} +- {spread} of {left:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chance_gives_each_binding_its_share(
        queues in prop::collection::vec(0..8_u32, 1..20),
        gone in prop::collection::vec(any::<usize>(), 0..12),
        is_local in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let kind = if is_local { ExchangeKind::LocalRandom } else { ExchangeKind::Random };
        check_shares(kind, &queues, &gone, seed);
    }
}
