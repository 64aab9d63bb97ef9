//! Queues that drop repetitions of a message in them: until when, and their memory over a restart.

use message::{PropertiesBuf, TableBuf};

use super::*;

fn config() -> QueueConfig {
    QueueConfig { deduplicates: true, ..durable() }
}

fn marked(mark: &str) -> Vec<u8> {
    let mut headers = TableBuf::new();
    headers.push_str("x-deduplication-header", mark);
    let mut raw = Vec::new();
    PropertiesBuf { headers: Some(headers), ..PropertiesBuf::default() }.encode(&mut raw).unwrap();
    raw
}

impl Bench {
    /// Publishes a message with a mark; tells whether it got in.
    fn offer(&mut self, mark: &str) -> bool {
        let properties = marked(mark);
        let view = MessageView { properties: &properties, ..message(b"m").message };
        let before = self.queue.counts().ready + self.queue.store.unacked + self.world.delivered.len() as u64;
        self.publish(&[IncomingMessage { message: view, ..message(b"") }]);
        self.queue.counts().ready + self.queue.store.unacked + self.world.delivered.len() as u64 > before
    }
}

#[test]
fn what_repeats_a_message_is_dropped_until_that_is_acked() {
    let mut bench = Bench::new(config());
    assert!(bench.offer("a") && bench.offer("b"));
    assert!(!bench.offer("a"));
    bench.consume(consumer(1, 1));
    assert!(!bench.offer("a"), "it is unacked");
    bench.settle(SettleHow::Requeue, MessageSeq(0), 1);
    assert!(!bench.offer("a"), "it came back");
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    assert!(bench.offer("a"));
    assert_eq!(bench.queue.purge(u64::MAX, &mut bench.world), 1);
    assert!(bench.offer("a"), "purged");
}

#[test]
fn messages_without_the_header_repeat_nothing() {
    let mut bench = Bench::new(config());
    bench.publish(&[message(b"m"), message(b"m")]);
    assert_eq!(bench.queue.counts().ready, 2);
}

#[test]
fn duplicates_within_one_batch_and_at_consumers_without_acks_are_seen() {
    let mut bench = Bench::new(config());
    let properties = marked("a");
    let view = MessageView { properties: &properties, ..message(b"m").message };
    bench.publish(&[IncomingMessage { message: view, ..message(b"") }; 3]);
    assert_eq!(bench.queue.counts().ready, 1);
    bench.consume(ConsumerSpec { ack_required: false, ..consumer(1, 0) });
    assert!(bench.offer("a") && bench.offer("a"), "what is delivered without ack has left");
}

#[test]
fn a_duplicate_is_confirmed_no_earlier_than_what_it_repeats() {
    let mut bench = Bench::new(config());
    let properties = marked("a");
    let view = MessageView { properties: &properties, ..message(b"m").message };
    let mut publish =
        || bench.queue.publish(&[IncomingMessage { message: view, ..message(b"") }][..], 0, &mut bench.world);
    let first = publish();
    assert_eq!(publish(), first);
    assert!(first.log_position > 0);
}

#[test]
fn expired_and_dropped_messages_repeat_no_more() {
    let mut bench = Bench::new(QueueConfig { message_ttl_ms: Some(10), max_length: Some(1), ..config() });
    assert!(bench.offer("a"));
    bench.now_ms = 20;
    bench.queue.tick(20, &mut bench.world);
    bench.publish(&[]);
    assert!(bench.offer("a"));
    bench.publish(&[message(b"pushes it out")]);
    bench.publish(&[]);
    assert_eq!(bench.queue.counts().ready, 1);
    bench.offer("a");
    assert_eq!(bench.queue.counts().ready, 1);
}

#[test]
fn a_restart_learns_them_from_memory_and_disk() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..config() });
    for nth in 0..6000 {
        assert!(bench.offer(&format!("{nth:060}")));
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    bench.queue = bench.restarted();
    assert!(bench.queue.stats(0).disk_bytes > 200 << 10);
    bench.queue.tick(0, &mut bench.world);
    bench.run_disk();
    for nth in [0, 1, 2999, 5998, 5999] {
        assert!(!bench.offer(&format!("{nth:060}")), "{nth}");
    }
    assert!(bench.offer("new"));
}
