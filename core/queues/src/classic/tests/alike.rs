//! Messages that are known to differ from the one before in their bodies only become what they would become otherwise.

use super::*;
use crate::record;

const SIZES: [usize; 7] = [12, 12, 0, 300, 12, 5000, 12];

/// The state that a queue with this configuration reaches with the same batches, told which messages are alike or not told.
fn outcome(config: &QueueConfig, is_told: bool) -> (Bench, Vec<Vec<u32>>) {
    let mut bench = Bench::new(config.clone());
    bench.world.is_sparse = false;
    let bodies: Vec<Vec<u8>> = (0..600).map(|nth| vec![nth as u8; SIZES[nth % SIZES.len()]]).collect();
    let one = |nth: usize| IncomingMessage {
        persistent: nth / 40 % 3 != 1,
        priority: (nth / 50 % 2) as u8,
        ttl_ms: (nth / 60 % 4 == 3).then_some(9),
        ..message(&bodies[nth])
    };
    let kind = |nth: usize| (nth / 40 % 3 != 1, nth / 50 % 2, nth / 60 % 4 == 3);
    let rejected = (0..4).map(|part| {
        let batch: Vec<IncomingMessage<'_>> = (part * 150..(part + 1) * 150)
            .map(|nth| {
                let is_alike = is_told && nth % 150 > 0 && kind(nth) == kind(nth - 1);
                IncomingMessage { is_alike, ..one(nth) }
            })
            .collect();
        bench.publish(&batch)
    });
    let rejected = rejected.collect();
    (bench, rejected)
}

/// The content of the log, whichever records carry it.
fn logged(bench: &Bench) -> Vec<(bool, Vec<(u64, Vec<u8>)>)> {
    let read = |(kind, payload): &(RecordKind, Vec<u8>)| {
        if !kind.is_enqueue() {
            return (false, vec![(0, payload.clone())]);
        }
        let mut messages = Vec::new();
        let show = |seq: MessageSeq, stored: &[u8]| messages.push((seq.0, stored.to_vec()));
        assert!(record::each_enqueued(*kind, payload, show));
        (true, messages)
    };
    bench.world.log.iter().map(read).collect()
}

#[test]
fn what_is_alike_takes_little_of_the_log() {
    for max_priority in [0, 1] {
        let logged_bytes = |is_told: bool| {
            let (bench, _) = outcome(&QueueConfig { max_priority, ..durable() }, is_told);
            let has_runs = bench.world.log.iter().any(|(kind, _)| *kind == RecordKind::EnqueueAlike);
            (has_runs, bench.world.log.iter().map(|(_, payload)| payload.len()).sum::<usize>())
        };
        let ((has_runs, told), (has_none, untold)) = (logged_bytes(true), logged_bytes(false));
        assert!(has_runs && !has_none);
        let (messages, runs, saved) = (400, 24, 23);
        assert!(untold - told > (messages - runs) * saved, "{told} instead of {untold}");
    }
}

#[test]
fn where_hardly_two_that_follow_each_other_are_alike_messages_are_logged_whole() {
    let mut bench = Bench::new(QueueConfig { max_priority: 9, ..durable() });
    let one = |nth: usize| IncomingMessage { priority: (nth % 10) as u8, ..message(b"a body") };
    let batch: Vec<IncomingMessage<'_>> = (0..30)
        .map(|nth| match nth {
            5 => IncomingMessage { is_alike: true, ..one(4) },
            _ => one(nth),
        })
        .collect();
    bench.publish(&batch);
    let kinds: Vec<RecordKind> = bench.world.log.iter().map(|(kind, _)| *kind).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == RecordKind::Enqueue), "{kinds:?}");
}

#[test]
fn what_levels_have_in_the_log_of_messages_that_are_alike_is_no_more_than_is_there() {
    let mut bench = Bench::new(QueueConfig { max_priority: 2, memory_bytes_max: 64 << 10, ..durable() });
    bench.world.is_sparse = false;
    let one = |nth: usize| IncomingMessage {
        priority: (nth / 50 % 3) as u8,
        is_alike: !nth.is_multiple_of(50),
        ..message(b"twelve bytes")
    };
    for _ in 0..100 {
        bench.publish(&(0..300).map(one).collect::<Vec<_>>());
        bench.run_disk();
    }
    let stats = bench.queue.stats(0);
    assert!(bench.disk.is_empty() && stats.disk_bytes > 300_000, "{stats:?}");
    // Messages that leave the log are not there twice, and no level has fewer bytes than its bodies.
    assert!(stats.live_disk_bytes <= stats.disk_bytes && stats.disk_bytes < 20 * 30_000, "{stats:?}");
    assert!(stats.live_disk_bytes > stats.disk_bytes / 10 * 9, "{stats:?}");
    for has_state in [false, true] {
        if has_state {
            bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
            bench.run_disk();
        }
        bench.queue = bench.restarted();
        bench.queue.tick(0, &mut bench.world);
        bench.run_disk();
        let stats = bench.queue.stats(0);
        assert!(stats.live_disk_bytes <= stats.disk_bytes && stats.disk_bytes > 50_000, "{stats:?}");
    }
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies(), vec![b"twelve bytes".to_vec(); 30_000]);
}

#[test]
fn whether_messages_are_said_to_be_alike_changes_nothing_that_can_be_seen() {
    let limited = QueueConfig { max_length: Some(333), ..durable() };
    let refusing = QueueConfig { overflow: crate::Overflow::RejectPublish, ..limited.clone() };
    let priorities = QueueConfig { max_priority: 1, ..durable() };
    for config in [durable(), QueueConfig::default(), limited, refusing, priorities] {
        let ((mut told, rejected), (mut untold, expected)) =
            (outcome(&config, true), outcome(&config, false));
        assert_eq!(rejected, expected);
        assert_eq!(logged(&told), logged(&untold));
        assert_eq!(told.queue.stats(0), untold.queue.stats(0));
        for bench in [&mut told, &mut untold] {
            bench.consume(consumer(1, 0));
            bench.run_disk();
            bench.settle(SettleHow::Requeue, MessageSeq(20), 30);
            bench.settle(SettleHow::Ack, MessageSeq(60), 100);
            bench.now_ms = 10;
            bench.queue.tick(10, &mut bench.world);
        }
        assert_eq!(told.world.delivered, untold.world.delivered);
        assert_eq!(logged(&told), logged(&untold));
        assert_eq!(told.queue.stats(10), untold.queue.stats(10));
    }
}

#[test]
fn what_is_stored_of_a_message_alike_is_what_is_stored_of_it_alone() {
    let mut told = Vec::new();
    record::store(&mut told, &message(b"the first"), Some(5));
    let head = 0..told.len() - b"the first".len();
    for body in [&b""[..], b"x", b"another one"] {
        let (mut alone, start) = (Vec::new(), told.len());
        record::store(&mut alone, &message(body), Some(5));
        record::store_alike(&mut told, head.clone(), body);
        assert_eq!(told[start..], alone);
    }
}
