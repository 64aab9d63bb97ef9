//! Queues whose messages leave by themselves: waiting messages, their order, and the state after a restart.

use super::*;

type Bench = BenchOf<Delayed>;

fn config() -> QueueConfig {
    QueueConfig { dead_letters: true, ..durable() }
}

fn delayed(body: &[u8], delay_ms: u64) -> IncomingMessage<'_> {
    IncomingMessage { ttl_ms: Some(delay_ms), ..message(body) }
}

impl Bench {
    fn tick_at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.queue.tick(now_ms, &mut self.world);
    }

    fn left(&self) -> Vec<&[u8]> {
        self.world.dead.iter().map(|(_, body)| &body[..]).collect()
    }
}

/// Numbers that look random and are the same in every run.
fn scattered(nth: u64) -> u64 {
    (nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}

#[test]
fn messages_leave_when_they_are_due_the_soonest_first() {
    let mut bench = Bench::new(config());
    bench.publish(&[delayed(b"late", 300), delayed(b"soon", 100), delayed(b"middle", 200)]);
    assert_eq!((bench.queue.counts().ready, bench.queue.store.unacked), (0, 3));
    assert_eq!(bench.world.wakes, [100]);
    bench.tick_at(99);
    assert!(bench.left().is_empty());
    bench.tick_at(100);
    assert_eq!(bench.left(), [b"soon"]);
    assert_eq!(bench.world.wakes.last(), Some(&200));
    bench.tick_at(1000);
    assert_eq!(bench.left(), [&b"soon"[..], b"middle", b"late"]);
    assert!(bench.world.dead.iter().all(|(reason, _)| *reason == DeadReason::Due));
    assert_eq!(bench.queue.store.unacked, 0);
}

#[test]
fn a_wake_up_that_comes_before_its_time_asks_for_no_other() {
    let mut bench = Bench::new(config());
    bench.publish(&[delayed(b"2", 200)]);
    bench.publish(&[delayed(b"1", 100)]);
    bench.tick_at(100);
    bench.tick_at(150);
    bench.tick_at(150);
    assert_eq!(bench.world.wakes, [200, 100, 200]);
}

#[test]
fn what_left_is_logged_as_gone_only_when_it_is_safe_where_it_went() {
    let mut bench = Bench::new(config());
    bench.publish(&[delayed(b"1", 10), delayed(b"2", 20), delayed(b"3", 30)]);
    bench.tick_at(10);
    bench.take_letters();
    bench.tick_at(20);
    assert_eq!(bench.left(), [b"1", b"2"]);
    bench.queue = bench.restarted();
    assert_eq!(bench.queue.store.unacked, 2);
    bench.world.dead.clear();
    bench.tick_at(30);
    assert_eq!(bench.left(), [b"2", b"3"]);
}

#[test]
fn transient_messages_do_not_survive_and_wait_all_the_same() {
    let mut bench = Bench::new(config());
    bench.publish(&[IncomingMessage { persistent: false, ..delayed(b"1", 10) }]);
    assert!(bench.world.log.is_empty());
    assert_eq!(bench.restarted().store.unacked, 0);
    bench.tick_at(10);
    assert_eq!((bench.left().len(), bench.world.removals.len()), (1, 0));
}

#[test]
fn a_dropped_message_does_not_leave_also_after_a_restart() {
    let mut bench = Bench::new(config());
    bench.publish(&[delayed(b"one", 10), delayed(b"2", 20), delayed(b"3", 30)]);
    let listed = bench.queue.scheduled(2);
    assert_eq!(listed.iter().map(|one| one.due_ms).collect::<Vec<_>>(), [10, 20]);
    assert_eq!(listed[0].shown, Some((b"q"[..].into(), 3)));
    let seq = listed[0].seq;
    assert!(bench.queue.drop_scheduled(seq, &mut bench.world));
    assert!(!bench.queue.drop_scheduled(seq, &mut bench.world));
    assert!(!bench.queue.drop_scheduled(MessageSeq(77), &mut bench.world));
    bench.queue = bench.restarted();
    bench.tick_at(25);
    assert_eq!(bench.left(), [b"2"]);
    bench.take_letters();
    assert_eq!(bench.queue.purge(u64::MAX, &mut bench.world), 1);
    assert_eq!((bench.restarted().store.unacked, bench.queue.scheduled(9).len()), (0, 0));
    assert_eq!(bench.queue.oldest_log_position(), 0);
}

#[test]
fn a_checkpoint_holds_back_what_is_due_until_it_is_over() {
    let mut bench = Bench::new(config());
    bench.publish(&[delayed(b"1", 10), delayed(b"2", 20)]);
    bench.tick_at(10);
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    bench.tick_at(20);
    assert_eq!(bench.left(), [b"1"], "the letter of the first is not logged yet");
    bench.take_letters();
    assert_eq!((bench.left(), bench.world.checkpoints), (vec![&b"1"[..], b"2"], 1));
    assert_eq!(bench.restarted().store.unacked, 1);
}

#[test]
fn a_long_backlog_goes_to_disk_and_leaves_in_order_before_and_after_a_restart() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..config() });
    let bodies: Vec<Vec<u8>> =
        (0..2000).map(|nth| [&scattered(nth).to_be_bytes()[..], &[7; 500]].concat()).collect();
    for (nth, body) in bodies.iter().enumerate() {
        bench.publish(&[delayed(body, scattered(nth as u64) + 1)]);
        bench.run_disk();
    }
    let stats = bench.queue.stats(0);
    assert!(stats.disk_bytes > 800 << 10, "most of it is on disk: {stats:?}");
    let middle = 1 << 19;
    bench.tick_at(middle);
    bench.run_disk();
    bench.take_letters();
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    bench.queue = bench.restarted();
    bench.tick_at(middle + 1);
    bench.run_disk();
    assert_eq!(bench.queue.scheduled(usize::MAX).len() as u64, bench.queue.store.unacked);
    bench.tick_at(1 << 20);
    bench.run_disk();
    let left: Vec<Vec<u8>> = bench.left().into_iter().map(<[u8]>::to_vec).collect();
    let mut expected = bodies;
    expected.sort();
    assert_eq!(left.len(), expected.len());
    assert!(left == expected, "in order of their due times");
}

#[test]
fn millions_of_small_messages_cost_some_bytes_each() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, durable: false, ..config() });
    const COUNT: u64 = 100_000;
    for first in (0..COUNT).step_by(100) {
        let batch: Vec<_> = (first..first + 100).map(|nth| delayed(&[5; 20], scattered(nth) + 1)).collect();
        bench.publish(&batch);
        bench.run_disk();
    }
    let bytes = (bench.queue.stats(0).memory_bytes - (256 << 10)) / COUNT;
    assert!(bytes <= 48, "{bytes} bytes a message");
}

#[test]
fn a_crowd_that_is_due_at_once_leaves_in_parts() {
    let mut bench = Bench::new(config());
    let body = vec![1; 100_000];
    bench.publish(&vec![delayed(&body, 5); 100]);
    bench.tick_at(5);
    assert!((40..60).contains(&bench.left().len()), "{}", bench.left().len());
    assert_eq!(bench.world.wakes.last(), Some(&5));
    while bench.queue.store.unacked > 0 {
        bench.tick_at(5);
        bench.run_disk();
    }
    assert_eq!(bench.left().len(), 100);
}

#[test]
fn bytes_of_what_waits_on_disk_are_those_of_all_that_waits_after_a_restart_too() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..config() });
    for nth in 0..2000 {
        bench.publish(&[delayed(&[7; 500], 1000 + nth)]);
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    bench.queue = bench.restarted();
    let bytes = |bench: &Bench| (bench.queue.stats(0).ready_bytes, bench.queue.stats(0).unacked_bytes);
    assert_eq!(bytes(&bench), (0, 2000 * 500));
    bench.queue.purge(u64::MAX, &mut bench.world);
    assert_eq!((bench.queue.store.unacked, bytes(&bench)), (0, (0, 0)));
}
