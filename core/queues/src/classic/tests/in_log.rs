//! Backlogs that stay where they were logged.

use std::ops::Range;

use super::{Bench, consumer, durable, message};
use crate::logged::LogRange;
use crate::record::RecordKind;
use crate::{DiskAnswer, IncomingMessage, Machine, MessageSeq, QueueConfig, SettleHow};
use message::MessageView;

/// A backlog of 100 messages of 10 KB, published one by one, with room for little in memory. The log has nothing else.
fn backlog() -> Bench {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..durable() });
    bench.world.is_sparse = false;
    for nth in 0..100 {
        bench.publish(&[message(&vec![nth; 10_000])]);
        bench.run_disk();
    }
    bench
}

fn checkpoint(bench: &mut Bench, vacate: &[std::ops::Range<u64>]) {
    bench.queue.checkpoint(u64::MAX, vacate, &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(std::mem::take(&mut bench.world.checkpoints), 1);
}

/// All messages come, in order, to a queue in this place.
fn assert_whole(bench: &mut Bench) {
    bench.consume(consumer(1, 0));
    bench.run_disk();
    let bodies: Vec<u8> = bench.bodies().iter().map(|body| body[0]).collect();
    assert_eq!(bodies, (0..100).collect::<Vec<u8>>());
    assert!(bench.bodies().iter().all(|body| body.len() == 10_000));
}

#[test]
fn a_backlog_that_lies_together_in_the_log_is_written_nowhere_else() {
    let mut bench = backlog();
    let stats = bench.queue.stats(0);
    assert!(bench.disk.is_empty() && stats.disk_bytes > 500_000, "{}", stats.disk_bytes);
    assert_eq!(stats.segment_bytes, stats.disk_bytes);
    assert!(stats.resident_bytes < 500_000, "{} in memory", stats.resident_bytes);
    assert_whole(&mut bench);
    bench.settle(SettleHow::Ack, MessageSeq(0), 100);
    assert_eq!((bench.queue.stats(0).disk_bytes, bench.queue.store.log_ranges().count()), (0, 0));
}

#[test]
fn what_the_log_holds_of_a_backlog_is_counted_once_though_blocks_and_levels_share_records() {
    for max_priority in [0, 1] {
        let config = QueueConfig { memory_bytes_max: 512 << 10, max_priority, ..durable() };
        let mut bench = Bench::new(config);
        bench.world.is_sparse = false;
        let body = vec![7; 3000];
        for first in (0..1200).step_by(8) {
            let priority = |nth: u32| (nth / 100 % 2) as u8;
            let batch: Vec<_> = (first..first + 8)
                .map(|nth| IncomingMessage { priority: priority(nth), ..message(&body) })
                .collect();
            bench.publish(&batch);
            bench.run_disk();
        }
        let ranges: Vec<LogRange> = bench.queue.store.log_ranges().collect();
        let is_needed =
            |record: &Range<u64>| ranges.iter().any(|range| range.touches(std::slice::from_ref(record)));
        let records = bench.world.ranges.iter().filter(|record| is_needed(record));
        let needed_bytes: u64 = records.map(|record| record.end - record.start).sum();
        let in_segments: u64 = bench.disk.values().map(|block| block.len() as u64).sum();
        assert_eq!(bench.queue.stats(0).disk_bytes, needed_bytes + in_segments, "{max_priority}");
        bench.consume(consumer(1, 0));
        bench.run_disk();
        assert_eq!(bench.bodies().len(), 1200);
    }
}

#[test]
fn a_backlog_that_others_interrupt_goes_to_segments() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..durable() });
    for nth in 0..100 {
        bench.publish(&[message(&vec![nth; 10_000])]);
        bench.run_disk();
    }
    assert!(bench.disk.len() > 8);
    assert_eq!(bench.queue.store.log_ranges().count(), 0);
}

#[test]
fn what_a_checkpoint_would_write_is_known_before_it_is_written() {
    for (is_sparse, bodies) in [(false, [10_000; 100]), (true, [10_000; 100]), (true, [300; 100])] {
        let mut bench = Bench::new(QueueConfig { memory_bytes_max: 16 << 20, ..durable() });
        bench.world.is_sparse = is_sparse;
        for body_bytes in bodies {
            bench.publish(&[message(&vec![1; body_bytes])]);
        }
        bench.consume(consumer(1, 0));
        for settled in [0, 5, 40] {
            bench.settle(SettleHow::Ack, MessageSeq(0), settled);
            let expected = bench.queue.store.checkpoint_bytes();
            bench.disk.clear();
            checkpoint(&mut bench, &[]);
            let (_, state) = bench.world.log.last().expect("a state record");
            let written =
                state.len() as u64 + bench.disk.values().map(|block| block.len() as u64).sum::<u64>();
            let is_near = written <= expected + 1000 && expected <= written + written / 4;
            assert!(is_near, "{is_sparse}, {settled} settled: {written} of {expected} bytes");
        }
    }
}

#[test]
fn what_the_next_state_record_has_is_known_about_without_looking_at_blocks() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 16 << 20, ..durable() });
    assert_eq!(bench.queue.store.state_bytes(), 0);
    let publish = |bench: &mut Bench, messages: usize| {
        (0..messages).for_each(|_| drop(bench.publish(&[message(&[1; 300])])));
        bench.queue.store.state_bytes()
    };
    let stated = |bench: &mut Bench| {
        checkpoint(bench, &[]);
        bench.world.log.last().expect("a state record").1.len() as u32
    };
    let assert_near = |expected: u32, written: u32| {
        assert!(expected.abs_diff(written) < written / 10, "{expected} of {written} bytes");
    };
    let expected = publish(&mut bench, 20);
    assert_near(expected, stated(&mut bench));
    let expected = publish(&mut bench, 10);
    assert_near(expected, stated(&mut bench));
    bench.consume(consumer(1, 0));
    bench.settle(SettleHow::Ack, MessageSeq(0), 15);
    let expected = bench.queue.store.state_bytes();
    assert_near(expected, stated(&mut bench));
    assert_eq!(publish(&mut bench, 2_000), 16 * 1024, "more than that goes elsewhere");
}

#[test]
fn what_comes_during_a_checkpoint_takes_little_more_in_the_state_record_than_in_the_log() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 16 << 20, ..durable() });
    bench.world.is_sparse = true;
    let (key, body) = ([b'k'; 250], [7; 20]);
    let one = message(&body);
    let first = IncomingMessage { message: MessageView { routing_key: &key, ..one.message }, ..one };
    let batch: Vec<_> = (0..2000).map(|nth| IncomingMessage { is_alike: nth > 0, ..first }).collect();
    bench.publish(&batch[..1]);
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.publish(&batch);
    let records = bench.world.log.iter().map(|(_, record)| record.len());
    let logged_bytes: usize = records.sum();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    let (kind, state) = bench.world.log.last().expect("a record");
    assert_eq!(*kind, RecordKind::State);
    assert!(state.len() < logged_bytes + logged_bytes / 8, "{} bytes of {logged_bytes}", state.len());
    bench.queue = bench.restarted();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies(), vec![body.to_vec(); 2001]);
}

#[test]
fn a_state_record_refers_to_the_log_and_a_restart_finds_the_messages_there() {
    let mut bench = backlog();
    checkpoint(&mut bench, &[]);
    assert!(bench.disk.is_empty());
    let (kind, state) = bench.world.log.last().expect("a state record");
    assert!(*kind == RecordKind::State && state.len() < 20_000, "{} bytes", state.len());
    let ranges: Vec<LogRange> = bench.queue.store.log_ranges().collect();
    bench.queue = bench.restarted();
    assert_eq!(bench.queue.store.log_ranges().collect::<Vec<_>>(), ranges);
    assert_eq!(bench.queue.store.stated_end(), ranges.iter().map(|range| range.end()).max().unwrap_or(0));
    assert_whole(&mut bench);
}

#[test]
fn what_is_to_leave_the_log_is_needed_there_until_a_state_record_says_where_it_is() {
    let mut bench = backlog();
    checkpoint(&mut bench, &[]);
    let all: Vec<LogRange> = bench.queue.store.log_ranges().collect();
    let part = all[1].position..all[2].end();
    bench.queue.checkpoint(0, std::slice::from_ref(&part), &mut bench.world);
    let in_part = |bench: &Bench| {
        bench.queue.store.log_ranges().any(|range| range.touches(std::slice::from_ref(&part)))
    };
    bench.run_disk();
    assert!(bench.disk.len() >= 2 && in_part(&bench), "a crash would bring them back there");
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert!(!in_part(&bench) && bench.queue.store.log_ranges().next().is_some());
    bench.queue = bench.restarted();
    assert!(!in_part(&bench));
    assert_whole(&mut bench);
}

#[test]
fn a_block_whose_messages_came_before_the_latest_state_record_does_not_stay_in_the_log() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..durable() });
    bench.world.is_sparse = false;
    bench.publish(&[message(&[0; 10_000])]);
    checkpoint(&mut bench, &[]);
    for nth in 1..100 {
        bench.publish(&[message(&vec![nth; 10_000])]);
        bench.run_disk();
    }
    let state_end = bench.world.ranges[1].end;
    assert!(bench.queue.store.log_ranges().next().is_some());
    assert!(bench.queue.store.log_ranges().all(|range| range.position >= state_end));
    assert_whole(&mut bench);
}

#[test]
fn the_log_is_needed_while_a_message_in_it_is_dying() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, dead_letters: true, ..durable() });
    bench.world.is_sparse = false;
    for nth in 0..100 {
        bench.publish(&[message(&vec![nth; 10_000])]);
        bench.run_disk();
    }
    bench.consume(consumer(1, 0));
    bench.run_disk();
    bench.settle(SettleHow::Reject, MessageSeq(0), 100);
    bench.run_disk();
    assert!(bench.queue.store.log_ranges().next().is_some());
    let removals = std::mem::take(&mut bench.world.removals);
    bench.queue.letters_taken(&removals, 0, &mut bench.world);
    assert_eq!(bench.queue.store.log_ranges().count(), 0);
}

#[test]
fn large_batches_are_logged_in_records_that_no_two_blocks_share() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    bench.world.is_sparse = false;
    let body = [7; 1000];
    // As a commit of a transaction brings them: half a MiB at once.
    for _ in 0..4 {
        bench.publish(&vec![message(&body); 500]);
    }
    bench.run_disk();
    assert!(bench.disk.is_empty(), "nothing is written a second time");
    let ranges: Vec<LogRange> = bench.queue.store.log_ranges().collect();
    let bytes: u64 = ranges.iter().map(|range| u64::from(range.bytes)).sum();
    assert!(bytes < 2000 * 1200, "{bytes} bytes are read for 2,000,000: {ranges:?}");
    bench.queue = bench.restarted();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies().len(), 2000);
}
