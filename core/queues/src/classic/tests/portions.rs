//! Queues that have much to do at once: they do it in portions, and ask to be woken for the rest.

use super::*;

fn filled(config: QueueConfig, count: usize) -> Bench {
    let mut bench = Bench::new(config);
    bench.publish(&vec![message(b"x"); count]);
    bench
}

/// Wakes the queue as often as it asks for; the most that left at once.
fn wake_until_done(bench: &mut Bench) -> u64 {
    let mut most = 0;
    while bench.world.wakes.pop().is_some_and(|wake_ms| wake_ms <= bench.now_ms) {
        bench.world.wakes.clear();
        let before = bench.queue.counts().ready + bench.queue.store.unacked;
        bench.queue.tick(bench.now_ms, &mut bench.world);
        most = most.max(before - bench.queue.counts().ready - bench.queue.store.unacked);
    }
    most
}

#[test]
fn a_long_queue_that_a_policy_makes_short_lets_others_in_between() {
    let mut bench = filled(durable(), 10_000);
    let config = QueueConfig { max_length: Some(5), ..durable() };
    bench.queue.reconfigure(Arc::new(config), bench.now_ms, &mut bench.world);
    assert!(bench.queue.counts().ready > 8000, "{}", bench.queue.counts().ready);
    assert!(wake_until_done(&mut bench) < 2000);
    assert_eq!(bench.queue.counts().ready, 5);
}

#[test]
fn publishers_do_not_get_ahead_of_a_limit_however_much_they_bring() {
    let mut bench = filled(QueueConfig { max_length: Some(5), ..durable() }, 10_000);
    assert_eq!(bench.queue.counts().ready, 5);
    bench.publish(&vec![message(b"x"); 5000]);
    assert_eq!(bench.queue.counts().ready, 5);
}

#[test]
fn a_full_queue_does_not_grow_while_letters_wait() {
    let mut bench = filled(QueueConfig { max_length: Some(5), dead_letters: true, ..durable() }, 10);
    bench.queue.let_letters_wait(true);
    bench.publish(&vec![message(b"x"); 3000]);
    assert_eq!((bench.queue.counts().ready, bench.world.dead.len()), (5, 3005));
    let config = QueueConfig { max_length: Some(2), dead_letters: true, ..durable() };
    bench.queue.reconfigure(Arc::new(config), bench.now_ms, &mut bench.world);
    assert_eq!(bench.queue.counts().ready, 5, "what is not brought about by publishers waits");
    bench.publish(&[message(b"x")]);
    assert_eq!(bench.queue.counts().ready, 5);
}

#[test]
fn small_messages_drive_out_large_ones_a_few_at_a_time_while_letters_wait() {
    let config = QueueConfig { max_length: Some(20), dead_letters: true, ..durable() };
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 1 << 30, ..config });
    let body = vec![1; 1 << 20];
    bench.publish(&vec![message(&body); 20]);
    bench.queue.let_letters_wait(true);
    bench.publish(&vec![message(b"small"); 20]);
    assert_eq!((bench.world.dead.len(), bench.queue.counts().ready), (4, 36));
    bench.queue.let_letters_wait(false);
    bench.queue.tick(bench.now_ms, &mut bench.world);
    wake_until_done(&mut bench);
    assert_eq!((bench.world.dead.len(), bench.queue.counts().ready), (20, 20));
}

#[test]
fn large_messages_die_a_few_at_a_time() {
    let config = QueueConfig { message_ttl_ms: Some(10), dead_letters: true, ..durable() };
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 1 << 30, ..config });
    let body = vec![1; 1 << 20];
    bench.publish(&vec![message(&body); 20]);
    bench.now_ms = 10;
    let most = wake_until_done(&mut bench);
    assert_eq!((most, bench.world.dead.len()), (4, 20));
}

#[test]
fn rejected_messages_that_wait_for_letters_before_them_follow_in_portions() {
    let mut bench = filled(QueueConfig { dead_letters: true, ..durable() }, 5000);
    bench.consume(consumer(1, 0));
    bench.queue.let_letters_wait(true);
    bench.settle(SettleHow::Reject, MessageSeq(0), 5000);
    assert_eq!((bench.world.dead.len(), bench.queue.store.unacked), (0, 5000));
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert!(bench.world.dead.is_empty());
    bench.queue.let_letters_wait(false);
    bench.world.wakes.push(0);
    assert!(wake_until_done(&mut bench) < 2000);
    assert_eq!((bench.world.dead.len(), bench.queue.store.unacked), (5000, 0));
}

#[test]
fn what_is_rejected_later_dies_later_though_letters_need_not_wait_any_more() {
    let mut bench = filled(QueueConfig { dead_letters: true, ..durable() }, 0);
    bench.publish(&[message(b"1"), message(b"2")]);
    bench.consume(consumer(1, 0));
    bench.queue.let_letters_wait(true);
    bench.settle(SettleHow::Reject, MessageSeq(0), 1);
    bench.queue.let_letters_wait(false);
    bench.settle(SettleHow::Reject, MessageSeq(1), 1);
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(bench.world.dead.iter().map(|(_, body)| body[0]).collect::<Vec<_>>(), *b"12");
}

#[test]
fn a_purge_takes_no_more_than_it_is_told_and_ends_with_less() {
    let mut bench = filled(durable(), 2500);
    let purged: Vec<u64> = (0..3).map(|_| bench.queue.purge(1000, &mut bench.world)).collect();
    assert_eq!(purged, [1000, 1000, 500]);
    assert_eq!((bench.queue.counts().ready, bench.queue.stats(0).ready_bytes), (0, 0));
}

#[test]
fn the_length_in_bytes_is_exact_after_a_crash_between_portions_of_a_purge() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..durable() });
    let bodies: Vec<Vec<u8>> = (0..2000).map(|number| vec![1; number % 300]).collect();
    for body in &bodies {
        bench.publish(&[message(body)]);
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    bench.queue = bench.restarted();
    for portion in [1, 2, 700] {
        let ready = bench.queue.counts().ready;
        assert!(bench.queue.purge(portion, &mut bench.world) >= portion);
        assert!(bench.queue.counts().ready <= ready - portion);
        let left = bench.queue.counts().ready as usize;
        let bytes: usize = bodies[bodies.len() - left..].iter().map(Vec::len).sum();
        assert_eq!(bench.restarted().stats(0).ready_bytes, bytes as u64, "{left} are left");
    }
}

#[test]
fn who_gets_from_a_queue_whose_dead_await_room_is_told_that_there_is_nothing() {
    let mut bench = Bench::new(QueueConfig { dead_letters: true, ..durable() });
    let mortal = IncomingMessage { ttl_ms: Some(10), ..message(b"mortal") };
    bench.publish(&[mortal, message(b"next")]);
    bench.now_ms = 20;
    bench.queue.let_letters_wait(true);
    bench.queue.get(GetToken(0), bench.now_ms, &mut bench.world);
    assert_eq!(bench.world.got, [], "it is about to die");
    bench.queue.let_disk_be_short(true);
    bench.queue.let_letters_wait(false);
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!((&bench.world.got[..], bench.queue.counts().ready), (&[None][..], 2));
    let do_wait = |bench: &Bench, now_ms| bench.queue.delivery_view(now_ms).deaths_await_room;
    assert_eq!([9, 20].map(|now_ms| do_wait(&bench, now_ms)), [false, true]);
    bench.queue.let_disk_be_short(false);
    assert!(!do_wait(&bench, 20));
    bench.queue.get(GetToken(1), bench.now_ms, &mut bench.world);
    assert_eq!(bench.world.got, [None, Some(b"next".to_vec())]);
    assert_eq!(bench.world.dead.len(), 1);
}
