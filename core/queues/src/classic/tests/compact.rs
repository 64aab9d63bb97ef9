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
    assert!(bench.queue.store.take_may_be_sparse() && !bench.queue.store.take_may_be_sparse());
    let room = bench.queue.store.segment_room(0);
    assert!(room.free_bytes > room.needed_bytes, "{room:?}");
    bench.queue.compact(&mut bench.world);
    bench.run_disk();
    assert_eq!((bench.world.syncs, bench.world.checkpoints), (1, 0));
    assert!(bench.world.deleted.is_empty(), "the log still refers to it");
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!((bench.world.checkpoints, &bench.world.deleted[..]), (1, &[1][..]));
    assert_eq!(bench.queue.store.segment_room(0).free_bytes, 0);
    assert_eq!(bench.restarted().counts().ready, 14);
    bench.queue.compact(&mut bench.world);
    assert_eq!((bench.world.checkpoints, bench.world.rewrites.len()), (2, 0), "nothing is left to be done");
}

/// A queue with fifty blocks of 60 messages of 1 KB in one segment, or in the log, of which every message whose number is a multiple of
/// `stays` is left, unacked.
fn hollow(stays: u64, is_in_log: bool) -> Bench {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    bench.world.is_sparse = !is_in_log;
    for first in (0..3000).step_by(10) {
        let bodies: Vec<[u8; 1000]> = (first..first + 10).map(|nth: u64| [(nth / 60) as u8; 1000]).collect();
        bench.publish(&bodies.iter().map(|body| message(body)).collect::<Vec<_>>());
        bench.run_disk();
    }
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.world.delivered.len(), 3000);
    for number in (0..3000).filter(|number| number % stays != 0) {
        bench.settle(SettleHow::Ack, MessageSeq(number), 1);
    }
    bench.segment = 2;
    bench
}

fn live_ratio(queue: &Classic) -> f64 {
    let stats = queue.stats(0);
    stats.live_disk_bytes as f64 / stats.segment_bytes as f64
}

fn compact(bench: &mut Bench) {
    bench.queue.compact(&mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
}

/// Every message that stays comes again, in order, after a restart.
fn assert_stays(bench: &mut Bench, stays: u64) {
    bench.queue = bench.restarted();
    bench.world.delivered.clear();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    let numbers: Vec<u64> = bench.world.delivered.iter().map(|(_, seq, ..)| seq.number()).collect();
    assert_eq!(numbers, (0..3000).step_by(stays as usize).collect::<Vec<u64>>());
    let is_right =
        |(_, seq, _, body): &(u32, MessageSeq, bool, Vec<u8>)| body[..] == [(seq.number() / 60) as u8; 1000];
    assert!(bench.world.delivered.iter().all(is_right));
}

#[test]
fn what_is_settled_amid_blocks_goes_when_every_block_is_needed() {
    let mut bench = hollow(60, false);
    assert!(bench.queue.store.take_may_be_sparse());
    let before = bench.queue.store.segment_room(0);
    assert!(before.free_bytes > 2_500_000 && before.needed_bytes < 70_000, "{before:?}");
    assert!((0.01..0.03).contains(&live_ratio(&bench.queue)), "{}", live_ratio(&bench.queue));
    compact(&mut bench);
    assert_eq!(bench.world.deleted, [1]);
    let after = bench.queue.store.segment_room(0);
    assert_eq!(after.free_bytes, 0);
    assert!(after.needed_bytes <= before.needed_bytes && live_ratio(&bench.queue) > 0.9, "{after:?}");
    bench.world.checkpoints = 0;
    bench.queue.compact(&mut bench.world);
    assert!(bench.world.is_disk_idle() && bench.world.checkpoints == 1, "once is enough");
    // Consumers hold what has moved.
    bench.settle(SettleHow::Requeue, MessageSeq(60), 1);
    bench.run_disk();
    let (_, seq, is_again, body) = bench.world.delivered.last().expect("it comes again");
    assert_eq!((*seq, *is_again, &body[..]), (MessageSeq(60), true, &[1; 1000][..]));
    assert_stays(&mut bench, 60);
}

#[test]
fn a_block_of_which_one_message_of_three_stays_is_compacted_once_more_when_another_goes() {
    let mut bench = hollow(3, false);
    compact(&mut bench);
    let first = bench.queue.store.segment_room(0);
    assert_eq!((first.free_bytes, &bench.world.deleted[..]), (0, &[1][..]));
    bench.segment = 3;
    for number in (0..3000).step_by(3).filter(|number| number % 12 != 0) {
        bench.settle(SettleHow::Ack, MessageSeq(number), 1);
    }
    compact(&mut bench);
    let second = bench.queue.store.segment_room(0);
    assert!(second.free_bytes == 0 && second.needed_bytes * 3 < first.needed_bytes, "{second:?}");
    assert_eq!(bench.world.deleted, [1, 2]);
    assert_stays(&mut bench, 12);
}

#[test]
fn what_lives_of_a_restarted_queue_is_known_without_reading() {
    let mut bench = hollow(60, false);
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    let before = bench.queue.stats(0);
    let mut restarted = bench.restarted();
    assert_eq!(restarted.stats(0).live_disk_bytes, before.live_disk_bytes);
    assert!(live_ratio(&restarted) < 0.03 && bench.world.reads.is_empty());
    let mut compacting = World { is_sparse: true, ..World::default() };
    restarted.compact(&mut compacting);
    assert!(compacting.rewrites.len() > 40, "{}", compacting.rewrites.len());
}

#[test]
fn small_messages_with_little_between_them_are_not_compacted_for_ever() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    for _ in 0..300 {
        bench.publish(&[const { [1, 2, 3] }; 40].each_ref().map(|body| message(body)));
        bench.run_disk();
    }
    bench.queue.store.share_memory(1000);
    bench.queue.relieve(&mut bench.world);
    bench.run_disk();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    for number in (0..12_000).filter(|number| number % 40 != 0) {
        bench.settle(SettleHow::Ack, MessageSeq(number), 1);
    }
    bench.segment = 2;
    compact(&mut bench);
    bench.segment = 3;
    compact(&mut bench);
    assert_eq!((bench.queue.store.segment_room(0).free_bytes, &bench.world.deleted[..]), (0, &[1][..]));
    assert!(live_ratio(&bench.queue) > 0.5, "{}", live_ratio(&bench.queue));
}

#[test]
fn blocks_that_leave_the_log_take_with_them_only_what_lives() {
    let mut bench = hollow(60, true);
    let stats = bench.queue.stats(0);
    assert!(bench.disk.is_empty() && stats.segment_bytes > 2_500_000, "{}", stats.segment_bytes);
    assert!((0.01..0.03).contains(&live_ratio(&bench.queue)), "{}", live_ratio(&bench.queue));
    let kept_bytes: u64 = bench.queue.store.log_uses().map(|(_, kept_bytes)| kept_bytes).sum();
    assert!(kept_bytes < 70_000, "{kept_bytes}");
    let end = bench.world.log_end;
    bench.queue.checkpoint(u64::MAX, std::slice::from_ref(&(0..end)), &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.queue.store.log_ranges().count(), 0);
    let written: usize = bench.disk.values().map(|block| block.len()).sum();
    assert!(written < 70_000 && live_ratio(&bench.queue) > 0.9, "{written}");
    assert_stays(&mut bench, 60);
}

/// A queue with 40,000 messages of 12 bytes that are alike, in segments or in the log, of which every tenth is left, unacked.
fn alike_and_hollow(is_in_log: bool) -> Bench {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    bench.world.is_sparse = !is_in_log;
    for first in (0..40_000u64).step_by(200) {
        let bodies: Vec<[u8; 12]> = (first..first + 200).map(|nth| [nth as u8; 12]).collect();
        let one = |(nth, body)| IncomingMessage { is_alike: nth > 0, ..message(body) };
        let batch: Vec<_> = bodies.iter().map(|body| &body[..]).enumerate().map(one).collect();
        bench.publish(&batch);
        bench.run_disk();
    }
    let live = live_ratio(&bench.queue);
    assert!((0.9..=1.0).contains(&live), "{live}");
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.world.delivered.len(), 40_000);
    for number in (0..40_000).filter(|number| number % 10 != 0) {
        bench.settle(SettleHow::Ack, MessageSeq(number), 1);
    }
    bench.segment = 2;
    let live = live_ratio(&bench.queue);
    assert!((0.09..0.12).contains(&live), "{live}");
    bench
}

#[test]
fn what_lives_of_messages_that_are_alike_leaves_their_segments_in_less_than_a_fifth() {
    let mut bench = alike_and_hollow(false);
    let before = bench.queue.stats(0).segment_bytes;
    assert!(before < 40_000 * 18, "{before}");
    let room = bench.queue.store.segment_room(0);
    assert!(room.needed_bytes * 5 < before && room.free_bytes * 5 > before * 4, "{room:?}");
    compact(&mut bench);
    let after = bench.queue.stats(0).segment_bytes;
    assert!(bench.world.deleted == [1] && after <= room.needed_bytes, "{after} of {room:?}");
    bench.queue = bench.restarted();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    let numbers = bench.world.delivered[40_000..].iter().map(|(_, seq, ..)| seq.number());
    assert!(numbers.eq((0..40_000).step_by(10)));
}

#[test]
fn what_lives_of_messages_that_are_alike_leaves_the_log_in_less_than_a_fifth() {
    let mut bench = alike_and_hollow(true);
    let in_log = bench.queue.stats(0).segment_bytes;
    assert!(in_log < 40_000 * 18, "{in_log}");
    let kept_bytes: u64 = bench.queue.store.log_uses().map(|(_, kept_bytes)| kept_bytes).sum();
    assert!(kept_bytes * 5 < in_log, "{kept_bytes} of {in_log}");
    let end = bench.world.log_end;
    bench.queue.checkpoint(u64::MAX, std::slice::from_ref(&(0..end)), &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.queue.store.log_ranges().count(), 0);
    let written: u64 = bench.disk.values().map(|block| block.len() as u64).sum();
    assert!(written <= kept_bytes, "{written} of {kept_bytes}");
}

#[test]
fn of_a_log_that_queues_share_each_has_its_own_records_live() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    (bench.world.is_sparse, bench.world.others_bytes) = (false, 6_000);
    for _ in 0..200 {
        let batch: Vec<_> =
            (0..200).map(|nth| IncomingMessage { is_alike: nth > 0, ..message(b"twelve bytes") }).collect();
        bench.publish(&batch);
        bench.run_disk();
    }
    let own_part = |bench: &Bench| {
        let own: u64 = bench.world.log.iter().map(|(_, payload)| payload.len() as u64 + 1).sum();
        let last = bench.world.ranges.last().expect("it has logged").end;
        own as f64 / last as f64
    };
    assert!(bench.queue.store.log_ranges().count() > 5);
    let (live, own) = (live_ratio(&bench.queue), own_part(&bench));
    // A record that ends a block and begins the next belongs to both.
    assert!((own..own * 1.1).contains(&live), "{live} of {own}");
    bench.queue = bench.restarted();
    bench.queue.relieve(&mut bench.world);
    bench.run_disk();
    let restarted = live_ratio(&bench.queue);
    assert!((own..own * 1.1).contains(&restarted), "{restarted} of {own}");
    // Blocks that are read back count as before.
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.world.delivered.len(), 40_000);
    let read = live_ratio(&bench.queue);
    assert!((own..own * 1.1).contains(&read), "{read} of {own}");
}

#[test]
fn transient_messages_move_too_and_a_queue_that_is_not_durable_logs_nothing() {
    for config in [durable(), QueueConfig::default()] {
        let is_durable = config.durable;
        let mut bench = sparse(&config, false);
        bench.queue.compact(&mut bench.world);
        bench.run_disk();
        assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
        let given_up = (bench.world.checkpoints, &bench.world.deleted[..]);
        assert_eq!(given_up, (1, &[1][..]), "durable: {is_durable}");
        assert_eq!((bench.queue.store.unacked, bench.world.log.len()), (14, 0));
    }
}

#[test]
fn a_sync_that_fails_keeps_the_old_segments_until_a_later_state_record() {
    let mut bench = sparse(&durable(), true);
    bench.queue.compact(&mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(false), bench.now_ms, &mut bench.world));
    assert_eq!((bench.world.checkpoints, bench.world.deleted.len()), (1, 0));
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.world.deleted, [1]);
}

#[test]
fn after_a_restart_what_is_free_in_a_segment_is_known_from_its_length() {
    let mut bench = sparse(&durable(), true);
    bench.segment = 1;
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    let before = bench.queue.store.segment_room(0);
    let all_bytes = bench.disk.values().map(|block| block.len() as u64).sum();
    let mut restarted = bench.restarted_with(|recovering| recovering.note_segment_bytes(1, all_bytes));
    assert!(!restarted.store.take_may_be_sparse(), "a start alone writes nothing");
    assert_eq!(restarted.store.segment_room(0), before);
    restarted = bench.restarted_with(|recovering| recovering.note_segment_bytes(1, before.needed_bytes));
    assert_eq!(restarted.store.segment_room(0).free_bytes, 0, "all that is left in it is needed");
}

#[test]
fn the_sparsest_segments_move_first_and_not_all_at_once() {
    let config = QueueConfig { memory_bytes_max: 64 << 10, ..durable() };
    let mut bench = Bench::new(config);
    // Three segments of five blocks of 7 MB. One, two and two blocks of them are left.
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
        assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
        gone.push(std::mem::take(&mut bench.world.deleted));
        assert_eq!(bench.queue.store.unacked, 5);
    }
    assert_eq!(gone, [vec![1, 2], vec![3], vec![]]);
}
