//! Consumers that are served by credit: limits, drain, and a referee over random histories.

use super::*;
use crate::{Credit, CreditNews, Kind};

fn by_credit(token: u32) -> ConsumerSpec {
    ConsumerSpec { by_credit: true, ..consumer(token, 0) }
}

fn id(token: u32) -> ConsumerId {
    ConsumerId { connection: ConnectionId::alone(1), token }
}

impl BenchOf<Classic> {
    fn credit(&mut self, token: u32, limit: u32, drain: bool) {
        self.queue.credit(id(token), Credit { limit, drain }, self.now_ms, &mut self.world);
    }

    fn drained(&mut self) -> Vec<(u32, u32)> {
        let news = std::mem::take(&mut self.world.credit_news);
        let drained = news.into_iter().filter_map(|(token, news)| match news {
            CreditNews::Drained { limit } => Some((token, limit)),
            CreditNews::Noted { .. } | CreditNews::Activity { .. } => None,
        });
        drained.collect()
    }
}

#[test]
fn a_consumer_gets_as_many_as_it_has_asked_for_and_no_more() {
    let mut bench = Bench::new(QueueConfig::default());
    bench.consume(by_credit(1));
    bench.publish(&[message(b"a"), message(b"b"), message(b"c"), message(b"d")]);
    assert!(bench.world.delivered.is_empty(), "without credit nothing comes");
    bench.credit(1, 2, false);
    assert_eq!(bench.world.delivered.len(), 2);
    assert_eq!(bench.world.credit_news, [(1, CreditNews::Noted { available: 2 })]);
    // The same limit again, as a client says that has not seen the deliveries yet.
    bench.credit(1, 2, false);
    assert_eq!(bench.world.delivered.len(), 2);
    // Settling gives no credit.
    bench.settle(SettleHow::Ack, bench.world.delivered[0].1, 2);
    assert_eq!(bench.world.delivered.len(), 2);
    bench.credit(1, 3, false);
    assert_eq!(bench.world.delivered.len(), 3);
    // A lower limit than what was delivered is no credit.
    bench.credit(1, 1, false);
    assert_eq!(bench.world.delivered.len(), 3);
}

#[test]
fn the_credit_of_a_consumer_that_comes_from_another_leader_counts_on() {
    let mut bench = Bench::new(QueueConfig::default());
    let delivered_before = u32::MAX - 1;
    bench.consume(ConsumerSpec { delivered_before, ..by_credit(1) });
    bench.publish(&[message(b"a"), message(b"b"), message(b"c"), message(b"d"), message(b"e")]);
    assert!(bench.world.delivered.is_empty(), "it has asked for nothing yet");
    bench.credit(1, delivered_before.wrapping_add(3), false);
    assert_eq!(bench.world.delivered.len(), 3);
    bench.credit(1, delivered_before.wrapping_add(9), true);
    assert_eq!(bench.world.delivered.len(), 5);
    assert_eq!(bench.drained(), [(1, delivered_before.wrapping_add(9))]);
}

/// Consumers that were told whether they are the active one.
fn told(bench: &mut BenchOf<Classic>) -> Vec<(u32, bool)> {
    let news = std::mem::take(&mut bench.world.credit_news);
    let told = news.into_iter().filter_map(|(token, news)| match news {
        CreditNews::Activity { is_active, .. } => Some((token, is_active)),
        _ => None,
    });
    told.collect()
}

#[test]
fn consumers_of_a_quorum_queue_are_told_who_is_active() {
    let config = QueueConfig {
        kind: Kind::Quorum,
        single_active: true,
        yields_to_priority: true,
        ..QueueConfig::default()
    };
    let mut bench = Bench::new(config);
    bench.consume(by_credit(1));
    bench.consume(by_credit(2));
    assert_eq!(told(&mut bench), [(1, true)], "the first one hears it at once");
    bench.credit(1, 5, false);
    bench.credit(2, 5, false);
    assert_eq!(told(&mut bench), [(1, true), (2, false)]);
    bench.consume(ConsumerSpec { priority: 3, ..by_credit(3) });
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(told(&mut bench), [(1, false), (3, true)]);
    bench.queue.cancel(id(3), bench.now_ms, &mut bench.world);
    assert_eq!(told(&mut bench), [(1, true)]);
    let mut bench = Bench::new(QueueConfig { single_active: true, ..QueueConfig::default() });
    bench.consume(by_credit(1));
    bench.credit(1, 5, false);
    assert_eq!(told(&mut bench), [], "a classic queue tells nobody");
}

#[test]
fn drain_is_answered_when_there_is_nothing_left() {
    let mut bench = Bench::new(QueueConfig::default());
    bench.consume(by_credit(1));
    bench.publish(&[message(b"a")]);
    bench.credit(1, 5, true);
    assert_eq!((bench.world.delivered.len(), bench.drained()), (1, vec![(1, 5)]));
    // The credit is given up: the next message waits for more.
    bench.publish(&[message(b"b")]);
    assert_eq!((bench.world.delivered.len(), bench.drained()), (1, vec![]));
    bench.credit(1, 6, false);
    assert_eq!(bench.world.delivered.len(), 2);
    // Drain with no credit left has nothing to give up.
    bench.credit(1, 6, true);
    assert_eq!(bench.drained(), []);
}

#[test]
fn a_paused_consumer_drains_when_it_has_taken_what_there_is() {
    let mut bench = Bench::new(QueueConfig::default());
    bench.world.room = Some(0);
    bench.consume(by_credit(1));
    bench.publish(&[message(b"a")]);
    bench.credit(1, 5, true);
    assert_eq!(bench.drained(), []);
    bench.world.room = None;
    bench.queue.resume(id(1), 0, &mut bench.world);
    assert_eq!((bench.world.delivered.len(), bench.drained()), (1, vec![(1, 5)]));
}

#[test]
fn one_that_is_not_the_single_active_consumer_drains_at_once() {
    let mut bench = Bench::new(QueueConfig { single_active: true, ..QueueConfig::default() });
    bench.consume(by_credit(1));
    bench.consume(by_credit(2));
    bench.publish(&[message(b"a")]);
    bench.credit(2, 5, true);
    assert_eq!((bench.world.delivered.len(), bench.drained()), (0, vec![(2, 5)]));
}

#[test]
fn limits_wrap_around() {
    let mut bench = Bench::new(QueueConfig::default());
    bench.consume(by_credit(1));
    // Drained credit counts as delivered: so the count gets far without messages.
    for limit in [i32::MAX.cast_unsigned(), u32::MAX - 1, 1] {
        bench.credit(1, limit, true);
        assert_eq!(bench.drained(), [(1, limit)]);
    }
    bench.publish(&[message(b"a"), message(b"b"), message(b"c")]);
    bench.credit(1, 3, false);
    assert_eq!(bench.world.delivered.len(), 2);
}

#[test]
fn in_random_histories_nobody_gets_more_than_asked_and_no_drain_is_forgotten() {
    for seed in 1..300u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut bench = Bench::new(QueueConfig::default());
        let (mut limit, mut delivered, mut drains) = ([0u32; 3], [0u32; 3], [false; 3]);
        (1..=3).for_each(|token| bench.consume(by_credit(token)));
        for _ in 0..200 {
            let token = random(3) as u32 + 1;
            let at = token as usize - 1;
            match random(4) {
                0 => drop(bench.publish(&vec![message(b"x"); random(4) as usize])),
                1 => {
                    (limit[at], drains[at]) = (delivered[at] + random(5) as u32, random(3) == 0);
                    bench.credit(token, limit[at], drains[at]);
                }
                2 => {
                    bench.world.room = Some(random(3) as usize);
                    bench.queue.resume(id(token), 0, &mut bench.world);
                }
                _ => {
                    bench.world.room = None;
                    (1..=3).for_each(|token| bench.queue.resume(id(token), 0, &mut bench.world));
                }
            }
            for (token, ..) in std::mem::take(&mut bench.world.delivered) {
                let at = token as usize - 1;
                delivered[at] += 1;
                assert!(delivered[at] <= limit[at], "seed {seed}: {token} got more than it asked for");
            }
            for (token, at_limit) in bench.drained() {
                let at = token as usize - 1;
                assert!(drains[at] && at_limit == limit[at], "seed {seed}: drained {token} to {at_limit}");
                (delivered[at], drains[at]) = (at_limit, false);
            }
            if bench.world.room.is_none() {
                let wants = (0..3).any(|at| limit[at] > delivered[at]);
                let ready = bench.queue.counts().ready;
                assert!(!(wants && ready > 0), "seed {seed}: {ready} wait beside credit");
                let forgotten = (0..3).any(|at| drains[at] && limit[at] > delivered[at] && ready == 0);
                assert!(!forgotten, "seed {seed}: credit was not given up");
            }
        }
    }
}
