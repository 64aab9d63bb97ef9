//! Readers beside a writer: the changes that a route may see. Threads with real timing, no model.

use std::sync::atomic::{AtomicU32, Ordering};

use message::TableBuf;
use routing::{Destination, Exchange, ExchangeKind, Message, Retired, Scratch, route};

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
