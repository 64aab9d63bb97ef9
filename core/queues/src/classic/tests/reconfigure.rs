//! Queues whose policies change while they live: effects at once, and effects on later messages only.

use super::*;

fn with(bench: &mut Bench, change: impl FnOnce(&mut QueueConfig)) {
    let mut config = (**bench.queue.config()).clone();
    change(&mut config);
    bench.queue.reconfigure(Arc::new(config), bench.now_ms, &mut bench.world);
}

#[test]
fn a_shorter_length_drops_from_the_head_at_once_and_is_logged() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"1"), message(b"2"), message(b"3")]);
    with(&mut bench, |config| config.max_length = Some(1));
    assert_eq!(bench.queue.counts().ready, 1);
    assert_eq!(bench.restarted().counts().ready, 1);
    with(&mut bench, |config| config.max_length = None);
    bench.publish(&[message(b"4")]);
    assert_eq!(bench.queue.counts().ready, 2);
}

#[test]
fn a_shorter_length_reaches_what_lies_on_disk() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    let body = vec![7; 4096];
    for _ in 0..200 {
        bench.publish(&[message(&body)]);
        bench.run_disk();
    }
    with(&mut bench, |config| config.max_length = Some(3));
    bench.run_disk();
    assert_eq!(bench.queue.counts().ready, 3);
}

#[test]
fn messages_keep_the_time_to_live_they_came_with() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"old")]);
    with(&mut bench, |config| config.message_ttl_ms = Some(10));
    bench.publish(&[message(b"new")]);
    bench.now_ms = 20;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(bench.queue.counts().ready, 2, "the old one stands before the new one");
    bench.consume(consumer(1, 0));
    assert_eq!(bench.bodies(), [b"old"]);
}

#[test]
fn the_time_without_use_starts_when_it_is_set() {
    let mut bench = Bench::new(durable());
    bench.now_ms = 1000;
    with(&mut bench, |config| config.expires_ms = Some(50));
    assert_eq!(bench.world.wakes, [1050]);
    bench.now_ms = 1049;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert!(bench.world.gone.is_empty());
    bench.now_ms = 1050;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(bench.world.gone, [Gone::Unused]);
}

#[test]
fn the_dead_are_handed_out_while_that_is_wanted() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"1"), message(b"2"), message(b"3"), message(b"4")]);
    with(&mut bench, |config| (config.dead_letters, config.max_length) = (true, Some(2)));
    assert_eq!(
        bench.world.dead,
        [(DeadReason::MaxLength, b"1".to_vec()), (DeadReason::MaxLength, b"2".to_vec())]
    );
    // Their removal is logged when their letters are, though by then nobody wants letters any more.
    with(&mut bench, |config| (config.dead_letters, config.max_length) = (false, Some(1)));
    assert_eq!(bench.world.dead.len(), 2);
    assert_eq!(bench.restarted().counts().ready, 3);
    let removals = std::mem::take(&mut bench.world.removals);
    bench.queue.letters_taken(&removals, bench.now_ms, &mut bench.world);
    assert_eq!(bench.restarted().counts().ready, 1);
}

#[test]
fn a_limit_that_refuses_takes_over_from_one_that_drops() {
    let mut bench = Bench::new(QueueConfig { max_length: Some(1), ..durable() });
    assert!(bench.publish(&[message(b"1"), message(b"2")]).is_empty());
    with(&mut bench, |config| config.overflow = crate::Overflow::RejectPublish);
    assert_eq!(bench.publish(&[message(b"3")]), [0]);
}
