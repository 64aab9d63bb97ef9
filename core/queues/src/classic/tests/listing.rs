//! Figures that listings show of a queue: bytes of persistent messages, bytes in memory, the time of the head.

use message::PropertiesBuf;

use super::*;
use crate::InMemory;

fn transient(body: &[u8]) -> IncomingMessage<'_> {
    IncomingMessage { persistent: false, ..message(body) }
}

fn stamped(timestamp: Option<u64>) -> Vec<u8> {
    let mut raw = Vec::new();
    PropertiesBuf { timestamp, ..PropertiesBuf::default() }.encode(&mut raw).unwrap();
    raw
}

#[test]
fn persistent_bytes_are_those_of_persistent_messages_until_they_are_settled() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"four"), transient(b"seven77"), message(b"22")]);
    let persistent =
        |bench: &Bench| (bench.queue.stats(0).persistent, bench.queue.glance(0).persistent_bytes);
    assert_eq!(persistent(&bench), (2, 6));
    bench.consume(consumer(1, 2));
    assert_eq!(persistent(&bench), (2, 6));
    bench.settle(SettleHow::Ack, MessageSeq(0), 2);
    assert_eq!(persistent(&bench), (1, 2));
    assert_eq!(bench.restarted().stats(0).persistent_bytes, 2);
    bench.settle(SettleHow::Ack, MessageSeq(2), 1);
    assert_eq!(persistent(&bench), (0, 0));
}

#[test]
fn stored_bytes_are_those_of_persistent_messages_with_their_heads_wherever_they_are() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    let body = vec![7; 4096];
    for _ in 0..100 {
        bench.publish(&[message(&body), transient(&body)]);
        bench.run_disk();
    }
    assert!(
        (100 * 4096..100 * 4200).contains(&bench.queue.store.stored_bytes()),
        "{}",
        bench.queue.store.stored_bytes()
    );
    bench.consume(consumer(1, 100));
    bench.run_disk();
    bench.settle(SettleHow::Ack, MessageSeq(0), 100);
    assert!(
        (50 * 4096..50 * 4200).contains(&bench.queue.store.stored_bytes()),
        "{}",
        bench.queue.store.stored_bytes()
    );
}

#[test]
fn what_is_in_memory_is_counted_while_a_backlog_is_on_disk() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    let body = vec![7; 4096];
    bench.publish(&[message(&body), transient(&body)]);
    let all = InMemory { ready: 2, unacked: 0, body_bytes: 8192 };
    assert_eq!(bench.queue.glance(0).in_memory, all);
    for _ in 0..100 {
        bench.publish(&[message(&body), transient(&body)]);
        bench.run_disk();
    }
    let stats = bench.queue.stats(0);
    assert_eq!((stats.ready, stats.persistent_bytes), (202, 101 * 4096));
    let InMemory { ready, unacked: 0, body_bytes } = stats.in_memory else { panic!("{stats:?}") };
    assert!((1..100).contains(&ready) && body_bytes == ready * 4096, "{stats:?}");
    bench.consume(consumer(1, 3));
    bench.run_disk();
    assert_eq!(bench.queue.stats(0).in_memory.unacked, 3);
    assert_eq!(bench.queue.purge(u64::MAX, &mut bench.world), 199);
    let stats = bench.queue.stats(0);
    assert_eq!((stats.unacked, stats.persistent, stats.persistent_bytes), (3, 2, 8192));
}

#[test]
fn the_time_of_the_head_is_the_lesser_of_the_next_and_the_oldest_unacked_message() {
    let mut bench = Bench::new(durable());
    let times = [stamped(None), stamped(Some(500)), stamped(Some(400))];
    let of = |raw: &'static [u8]| -> IncomingMessage<'static> {
        let plain = message(b"m");
        IncomingMessage { message: MessageView { properties: raw, ..plain.message }, ..plain }
    };
    let times = times.map(|raw| &*raw.leak());
    let head = |bench: &Bench| bench.queue.stats(0).head_timestamp_s;
    assert_eq!(head(&bench), None);
    bench.publish(&times.map(of));
    assert_eq!(head(&bench), None, "the head has none");
    bench.consume(consumer(1, 1));
    assert_eq!(head(&bench), Some(500));
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    assert_eq!(head(&bench), Some(400), "500 is unacked, 400 is next");
}

#[test]
fn a_queue_remembers_when_it_was_last_used_and_questions_do_not_count() {
    let mut bench = Bench::new(durable());
    bench.now_ms = 1_000;
    bench.queue.touch(bench.now_ms, &mut bench.world);
    assert_eq!(bench.queue.stats(2_000).active_ms, 0);
    bench.publish(&[message(b"1")]);
    assert_eq!(bench.queue.stats(2_000).active_ms, 1_000);
    bench.now_ms = 3_000;
    bench.consume(consumer(1, 1));
    bench.now_ms = 4_000;
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    bench.now_ms = 5_000;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(bench.queue.stats(6_000).active_ms, 4_000);
}
