//! Segments of which little is needed.

use super::*;

/// A queue that has given out forty blocks of two messages, all in one segment, and of which every sixth message is left, unacked.
fn sparse(config: &QueueConfig, persistent: bool) -> Bench {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..config.clone() });
    let body = vec![7; 60_000];
    for _ in 0..80 {
        bench.publish(&[IncomingMessage { persistent, ..message(&body) }]);
        bench.run_disk();
    }
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.world.delivered.len(), 80);
    for number in (0..80).filter(|number| number % 6 != 0) {
        bench.settle(SettleHow::Ack, MessageSeq(number), 1);
    }
    bench.segment = 2;
    bench
}

#[test]
fn what_is_needed_of_a_sparse_segment_moves_and_the_segment_goes_after_the_state_record() {
    let mut bench = sparse(&durable(), true);
    assert!(bench.queue.take_may_be_sparse() && !bench.queue.take_may_be_sparse());
    let room = bench.queue.segment_room();
    assert!(room.free_bytes > room.needed_bytes, "{room:?}");
    bench.queue.compact(&mut bench.world);
    bench.run_disk();
    assert_eq!((bench.world.syncs, bench.world.checkpoints), (1, 0));
    assert!(bench.world.deleted.is_empty(), "the log still refers to it");
    bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
    assert_eq!((bench.world.checkpoints, &bench.world.deleted[..]), (1, &[1][..]));
    assert_eq!(bench.queue.segment_room().free_bytes, 0);
    assert_eq!(bench.restarted().counts().ready, 14);
    bench.queue.compact(&mut bench.world);
    assert_eq!((bench.world.checkpoints, bench.world.rewrites.len()), (2, 0), "nothing is left to be done");
}

#[test]
fn transient_messages_move_too_and_a_queue_that_is_not_durable_logs_nothing() {
    for config in [durable(), QueueConfig::default()] {
        let is_durable = config.durable;
        let mut bench = sparse(&config, false);
        bench.queue.compact(&mut bench.world);
        bench.run_disk();
        bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
        let given_up = (bench.world.checkpoints, &bench.world.deleted[..]);
        assert_eq!(given_up, (1, &[1][..]), "durable: {is_durable}");
        assert_eq!((bench.queue.unacked(), bench.world.log.len()), (14, 0));
    }
}

#[test]
fn a_sync_that_fails_keeps_the_old_segments_until_a_later_state_record() {
    let mut bench = sparse(&durable(), true);
    bench.queue.compact(&mut bench.world);
    bench.run_disk();
    bench.queue.blocks_not_synced(&mut bench.world);
    assert_eq!((bench.world.checkpoints, bench.world.deleted.len()), (1, 0));
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
    assert_eq!(bench.world.deleted, [1]);
}

#[test]
fn after_a_restart_what_is_free_in_a_segment_is_known_from_its_length() {
    let mut bench = sparse(&durable(), true);
    bench.segment = 1;
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
    let before = bench.queue.segment_room();
    let all_bytes = bench.disk.values().map(|block| block.len() as u64).sum();
    let mut restarted = bench.restarted_with(|recovering| recovering.note_segment_bytes(1, all_bytes));
    assert!(!restarted.take_may_be_sparse(), "a start alone writes nothing");
    assert_eq!(restarted.segment_room(), before);
    restarted = bench.restarted_with(|recovering| recovering.note_segment_bytes(1, before.needed_bytes));
    assert_eq!(restarted.segment_room().free_bytes, 0, "all that is left in it is needed");
}

#[test]
fn the_sparsest_segments_move_first_and_not_all_at_once() {
    let config = QueueConfig { memory_bytes_max: 64 << 10, ..durable() };
    let mut bench = Bench::new(config);
    // Three segments of five blocks of 7 MB. What is left of them is a block, two and two.
    let body = vec![7; 7_000_000];
    for number in 0..15 {
        bench.segment = 1 + number / 5;
        bench.publish(&[IncomingMessage { persistent: false, ..message(&body) }]);
        bench.run_disk();
    }
    bench.consume(consumer(1, 0));
    bench.run_disk();
    for number in 0..15 {
        if number % 5 >= [1, 2, 2][number as usize / 5] {
            bench.settle(SettleHow::Ack, MessageSeq(number), 1);
        }
    }
    bench.segment = 4;
    let mut gone = Vec::new();
    for _ in 0..3 {
        bench.queue.compact(&mut bench.world);
        bench.run_disk();
        bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
        gone.push(std::mem::take(&mut bench.world.deleted));
        assert_eq!(bench.queue.unacked(), 5);
    }
    assert_eq!(gone, [vec![1, 2], vec![3], vec![]]);
}
