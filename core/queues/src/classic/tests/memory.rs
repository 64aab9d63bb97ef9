//! Memory of a queue: with very many levels, and when the node is short of memory.

use super::{Bench, consumer, durable, message};
use crate::{DiskAnswer, GetToken, IncomingMessage, Machine, MessageSeq, QueueConfig, SettleHow};

/// 8,000 messages of 500 bytes on 256 levels, a block or two on each.
fn many_levels() -> Bench {
    let mut bench =
        Bench::new(QueueConfig { max_priority: 255, memory_bytes_max: 256 << 10, ..QueueConfig::default() });
    for nth in 0..8_000_u16 {
        let mut body = [0; 500];
        body[..2].copy_from_slice(&nth.to_be_bytes());
        let transient = IncomingMessage { persistent: false, priority: nth as u8, ..message(&body) };
        bench.publish(&[transient]);
        bench.run_disk();
    }
    bench
}

#[test]
fn many_levels_have_no_more_memory_than_one_but_for_blocks_too_small_to_be_written() {
    let bench = many_levels();
    // 16 KiB a level would be 4 MiB; nothing above that is kept.
    assert!(bench.queue.resident_bytes() <= 256 * (16 << 10), "{}", bench.queue.resident_bytes());
    let mut bench =
        Bench::new(QueueConfig { max_priority: 255, memory_bytes_max: 6 << 20, ..QueueConfig::default() });
    let body = vec![7; 2_000];
    for nth in 0..8_000_u16 {
        bench.publish(&[IncomingMessage { persistent: false, priority: nth as u8, ..message(&body) }]);
        bench.run_disk();
        assert!(bench.queue.resident_bytes() <= (6 << 20) + 4_096, "{}", bench.queue.resident_bytes());
    }
}

#[test]
fn messages_of_many_levels_come_highest_first_from_wherever_they_are() {
    let mut bench = many_levels();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    let came: Vec<u16> = bench.bodies().iter().map(|body| u16::from_be_bytes([body[0], body[1]])).collect();
    let mut expected: Vec<u16> = (0..8_000).collect();
    expected.sort_by_key(|nth| (std::cmp::Reverse(*nth as u8), *nth));
    assert_eq!(came, expected);
}

#[test]
fn a_node_short_of_memory_leaves_short_queues_nothing_that_the_log_has() {
    for persistent in [true, false] {
        let mut bench = Bench::new(durable());
        bench.world.is_sparse = false;
        let body = [1; 5_000];
        bench.publish(&[IncomingMessage { persistent, ..message(&body) }]);
        bench.publish(&[IncomingMessage { persistent, ..message(&body) }]);
        bench.run_disk();
        let before = bench.queue.resident_bytes();
        assert!(before > 10_000);
        bench.queue.store.share_memory(0);
        bench.queue.relieve(&mut bench.world);
        bench.run_disk();
        // Messages that are in memory only are too few to be written.
        assert_eq!(bench.queue.resident_bytes(), if persistent { 0 } else { before });
        assert!(bench.disk.is_empty());
        for token in 0..2 {
            bench.queue.get(GetToken(token), bench.now_ms, &mut bench.world);
            bench.run_disk();
        }
        assert_eq!(bench.world.got, [Some(body.to_vec()), Some(body.to_vec())]);
    }
}

/// A queue short of memory that lets nothing die for now, with its first message on disk and rejected, or over its limit. How often it is
/// read back until it has died: each time something is stored one turn of it may let messages die, and what was asked for comes later.
fn reads_until_it_dies(reject: bool) -> usize {
    let mut bench = Bench::new(QueueConfig { dead_letters: true, ..durable() });
    for _ in 0..4 {
        bench.publish(&[message(&[1; 50_000])]);
    }
    if reject {
        bench.queue.get(GetToken(0), bench.now_ms, &mut bench.world);
    }
    bench.queue.store.share_memory(4 << 10);
    bench.queue.relieve(&mut bench.world);
    bench.run_disk();
    bench.queue.let_letters_wait(true);
    if reject {
        bench.settle(SettleHow::Reject, MessageSeq(0), 1);
    } else {
        let limited = QueueConfig { max_length: Some(3), ..(**bench.queue.config()).clone() };
        bench.queue.reconfigure(limited.into(), bench.now_ms, &mut bench.world);
    }
    let mut reads = 0;
    for _ in 0..10 {
        reads += bench.world.reads.len();
        bench.queue.let_letters_wait(true);
        bench.run_disk();
        bench.queue.let_letters_wait(false);
        bench.queue.tick(bench.now_ms, &mut bench.world);
    }
    assert_eq!(bench.world.dead.len(), 1);
    reads
}

#[test]
fn what_is_read_back_to_die_stays_in_memory_until_it_does_however_little_there_is() {
    assert_eq!(reads_until_it_dies(true), 1);
    assert_eq!(reads_until_it_dies(false), 1);
}

#[test]
fn a_block_that_found_no_room_is_not_tried_again_by_time_but_when_something_happens() {
    let mut bench = Bench::new(durable());
    bench.queue.store.share_memory(4 << 10);
    // Messages that the log has need not be written.
    let transient = IncomingMessage { persistent: false, ..message(&[1; 50_000]) };
    (0..4).for_each(|_| drop(bench.publish(&[transient])));
    let fail = |bench: &mut Bench| {
        let writes = std::mem::take(&mut bench.world.writes);
        for (token, _) in &writes {
            assert!(bench.queue.disk_answered(
                DiskAnswer::Written(*token, None),
                bench.now_ms,
                &mut bench.world
            ));
        }
        writes.len()
    };
    assert!(fail(&mut bench) > 0);
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(fail(&mut bench), 0);
    bench.publish(&[transient]);
    assert!(fail(&mut bench) > 0);
}
