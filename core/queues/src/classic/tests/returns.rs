//! The rules of quorum queues: a message that comes back is counted, goes out first, and dies when it failed too often.

use super::*;
use crate::{Kind, Peeked, Retry, RetryOf};

fn quorum() -> QueueConfig {
    QueueConfig { durable: true, ..Kind::Quorum.rules() }
}

fn with_priority(body: &[u8], priority: u8) -> IncomingMessage<'_> {
    const PRIORITY: &[u8] = &[0x08, 0, 9];
    let message = MessageView { properties: PRIORITY, ..message(body).message };
    IncomingMessage { message, priority, ..super::message(body) }
}

fn bodies(bench: &Bench) -> Vec<Vec<u8>> {
    bench.world.delivered.iter().map(|(_, _, _, body)| body.clone()).collect()
}

fn seq(bench: &Bench, body: &[u8]) -> MessageSeq {
    let found = bench.world.delivered.iter().rfind(|(_, _, _, known)| known == body);
    found.expect("it was delivered").1
}

#[test]
fn what_comes_back_goes_out_before_all_others_in_the_order_in_which_it_came_back() {
    let mut bench = Bench::new(quorum());
    bench.publish(&[with_priority(b"low", 0), message(b"none"), with_priority(b"high", 9)]);
    bench.consume(consumer(1, 3));
    assert_eq!(bodies(&bench), [&b"high"[..], b"none", b"low"], "a message without priority has 4");
    bench.publish(&[with_priority(b"highest", 31)]);
    let [low, none] = [&b"low"[..], b"none"].map(|body| seq(&bench, body));
    bench.queue.cancel(consumer(1, 3).id, 0, &mut bench.world);
    bench.settle(SettleHow::Requeue, low, 1);
    bench.settle(SettleHow::Fail, none, 1);
    assert_eq!(bench.queue.stats(0).ready_returned, 2);
    bench.world.delivered.clear();
    bench.consume(consumer(2, 3));
    assert_eq!(bodies(&bench), [&b"low"[..], b"none", b"highest"]);
    assert!(bench.world.delivered[0].2, "it is redelivered");
}

#[test]
fn a_message_that_failed_too_often_dies_and_a_released_one_does_not() {
    let mut bench = Bench::new(QueueConfig { delivery_limit: Some(2), dead_letters: true, ..quorum() });
    bench.publish(&[message(b"m")]);
    bench.consume(consumer(1, 1));
    for _ in 0..5 {
        bench.settle(SettleHow::Requeue, seq(&bench, b"m"), 1);
    }
    for _ in 0..2 {
        bench.settle(SettleHow::Fail, seq(&bench, b"m"), 1);
        assert!(bench.world.dead.is_empty());
    }
    bench.settle(SettleHow::Fail, seq(&bench, b"m"), 1);
    assert_eq!(bench.world.dead, [(DeadReason::DeliveryLimit, b"m".to_vec())]);
    assert_eq!((bench.queue.stats(0).ready, bench.queue.stats(0).unacked), (0, 0));
}

#[test]
fn counts_survive_a_restart_and_a_checkpoint() {
    for has_checkpoint in [false, true] {
        let mut bench = Bench::new(QueueConfig { delivery_limit: Some(2), ..quorum() });
        bench.publish(&[message(b"a"), message(b"b"), message(b"c")]);
        bench.consume(consumer(1, 3));
        for _ in 0..2 {
            bench.settle(SettleHow::Fail, seq(&bench, b"b"), 1);
        }
        if has_checkpoint {
            bench.queue.checkpoint(bench.world.log_end, &[], &mut bench.world);
            bench.run_disk();
        }
        let mut again = bench.restarted();
        let mut world = World::default();
        assert!(again.add_consumer(consumer(1, 3), 0));
        again.resume(consumer(1, 3).id, 0, &mut world);
        let seen: Vec<_> =
            world.delivered.iter().map(|(_, _, is_again, body)| (&body[..], *is_again)).collect();
        // A message in front of one that came back was handed out, too. Nothing tells that of the one behind.
        assert_eq!(seen, [(&b"b"[..], true), (b"a", true), (b"c", false)], "{has_checkpoint}");
        let run = SettleRun { consumer: Some(consumer(1, 3).id), first: world.delivered[0].1, count: 1 };
        again.settle(SettleHow::Fail, &[run], 0, &mut world);
        assert_eq!(again.counts().ready, 0, "the third failure is one too many: {has_checkpoint}");
    }
}

#[test]
fn a_delayed_retry_waits_longer_each_time() {
    let retry = Retry { of: RetryOf::Failed, min_ms: Some(100), max_ms: Some(150) };
    let mut bench = Bench::new(QueueConfig { retry, ..quorum() });
    bench.publish(&[message(b"m")]);
    bench.consume(consumer(1, 1));
    for (delay_ms, times) in [(100, 2), (150, 3)] {
        bench.settle(SettleHow::Fail, seq(&bench, b"m"), 1);
        assert_eq!((bench.queue.stats(0).delayed, bench.world.delivered.len()), (1, times - 1));
        assert_eq!(bench.world.wakes.last(), Some(&(bench.now_ms + delay_ms)));
        bench.now_ms += delay_ms;
        bench.queue.tick(bench.now_ms, &mut bench.world);
        assert_eq!(bench.world.delivered.len(), times);
    }
}

#[test]
fn who_acks_twice_does_not_ack_what_stands_in_the_line() {
    let mut bench = Bench::new(quorum());
    bench.publish(&[message(b"m")]);
    bench.consume(consumer(1, 1));
    let seq = seq(&bench, b"m");
    bench.queue.cancel(consumer(1, 1).id, 0, &mut bench.world);
    bench.settle(SettleHow::Requeue, seq, 1);
    bench.settle(SettleHow::Ack, seq, 1);
    bench.settle(SettleHow::Requeue, seq, 1);
    assert_eq!((bench.queue.stats(0).ready, bench.queue.stats(0).unacked), (1, 0));
}

#[test]
fn a_transient_message_survives_a_restart_and_a_purge_takes_what_came_back() {
    let mut bench = Bench::new(quorum());
    bench.publish(&[IncomingMessage { persistent: false, ..message(b"a") }, message(b"b")]);
    assert_eq!(bench.restarted().counts().ready, 2);
    bench.consume(consumer(1, 1));
    bench.queue.cancel(consumer(1, 1).id, 0, &mut bench.world);
    bench.settle(SettleHow::Requeue, seq(&bench, b"a"), 1);
    assert_eq!(bench.queue.purge(10, &mut bench.world), 2);
    assert_eq!((bench.restarted().counts().ready, bench.queue.stats(0).ready), (0, 0));
}

#[test]
fn a_consumer_of_higher_priority_becomes_the_active_one_when_the_other_has_nothing() {
    let mut bench = Bench::new(QueueConfig { single_active: true, ..quorum() });
    bench.publish(&[message(b"1"), message(b"2"), message(b"3")]);
    bench.consume(consumer(1, 1));
    bench.consume(ConsumerSpec { priority: 5, ..consumer(2, 0) });
    assert_eq!(bench.world.delivered.len(), 1, "the first one still has a message");
    bench.settle(SettleHow::Ack, seq(&bench, b"1"), 1);
    let takers: Vec<u32> = bench.world.delivered.iter().map(|(taker, ..)| *taker).collect();
    assert_eq!(takers, [1, 2, 2]);
}

/// The body at a position, and how often it failed; `None` where no message is.
fn shown(queue: &mut Classic, position: u64, world: &mut World) -> Option<(Vec<u8>, u32)> {
    match queue.show_ready(position, world) {
        Peeked::Nothing => None,
        Peeked::Waits => panic!("it is in memory"),
        Peeked::Message { body, failed, .. } => Some((body.into(), failed)),
    }
}

#[test]
fn ready_messages_are_shown_by_their_position_and_stay_as_they_are() {
    let mut bench = Bench::new(quorum());
    bench.publish(&[with_priority(b"low", 0), message(b"none"), message(b"held"), with_priority(b"high", 9)]);
    bench.consume(consumer(1, 3));
    let none = seq(&bench, b"none");
    bench.queue.cancel(consumer(1, 3).id, 0, &mut bench.world);
    bench.settle(SettleHow::Fail, none, 1);
    let before = bench.queue.stats(0);
    for _ in 0..2 {
        let all: Vec<_> = (0..3).map(|at| shown(&mut bench.queue, at, &mut bench.world)).collect();
        assert_eq!(all, [Some((b"none".to_vec(), 1)), Some((b"low".to_vec(), 0)), None]);
    }
    assert_eq!(bench.queue.stats(0).ready, before.ready);
    assert_eq!(bench.world.delivered.len(), 3, "nobody got anything");
}

#[test]
fn after_a_restart_messages_are_shown_in_their_order_as_soon_as_the_disk_has_answered() {
    let mut bench = Bench::new(quorum());
    let all: Vec<Vec<u8>> = (0..200_u32).map(|nth| nth.to_be_bytes().repeat(500)).collect();
    bench.publish(&all.iter().map(|body| message(body)).collect::<Vec<_>>());
    bench.consume(consumer(1, 3));
    let third = seq(&bench, &all[2]);
    bench.settle(SettleHow::Ack, third, 1);
    bench.queue = bench.restarted();
    let mut left: Vec<_> = all.clone();
    left.remove(2);
    for (position, wanted) in left.iter().enumerate() {
        let found = loop {
            match bench.queue.show_ready(position as u64, &mut bench.world) {
                Peeked::Waits => bench.run_disk(),
                Peeked::Nothing => break None,
                Peeked::Message { body, .. } => break Some(body),
            }
        };
        assert_eq!(found.as_deref(), Some(&wanted[..]), "position {position}");
    }
    assert_eq!(bench.queue.show_ready(199, &mut bench.world), Peeked::Nothing);
}
