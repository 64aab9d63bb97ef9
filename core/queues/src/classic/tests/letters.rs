//! Parts of a queue that wait while dead letters are under way: checkpoints, the log, segments.

use super::*;

/// A queue whose first message has died, in a checkpoint that waits for its letter. Messages that follow live ten milliseconds longer.
fn waiting() -> Bench {
    let mut bench = Bench::new(QueueConfig { dead_letters: true, ..durable() });
    let mortal = |ttl_ms| IncomingMessage { ttl_ms: Some(ttl_ms), ..message(b"mortal") };
    bench.publish(&[mortal(10), mortal(20), message(b"next")]);
    bench.now_ms = 10;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!((bench.world.dead.len(), bench.world.removals.len()), (1, 1));
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.world.checkpoints, 0);
    bench.now_ms = 21;
    bench.world.wakes.clear();
    bench.queue.get(GetToken(0), bench.now_ms, &mut bench.world);
    assert!(bench.world.got.is_empty(), "the first in the queue must not die now");
    bench
}

fn state_records(bench: &Bench) -> usize {
    bench.world.log.iter().filter(|(kind, _)| *kind == RecordKind::State).count()
}

#[test]
fn what_waits_behind_the_dead_does_not_wait_for_letters_that_find_nobody() {
    let mut bench = waiting();
    bench.now_ms = 1500;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    let wake_ms = *bench.world.wakes.last().expect("it asks to be woken again");
    assert!(bench.world.got.is_empty());
    bench.now_ms = wake_ms;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!(bench.world.got, [Some(b"next".to_vec())]);
    assert_eq!((bench.world.checkpoints, state_records(&bench)), (1, 0));
    assert_ne!(bench.queue.oldest_log_position(), 0, "the log is needed as before");
    assert_eq!(bench.restarted().counts().ready, 3, "neither letter is safe");
}

#[test]
fn the_checkpoint_after_one_that_was_given_up_succeeds_when_the_letters_are_safe() {
    let mut bench = waiting();
    bench.now_ms = 5000;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    let removals = std::mem::take(&mut bench.world.removals);
    assert_eq!(removals.len(), 2);
    bench.queue.letters_taken(&removals, bench.now_ms, &mut bench.world);
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!((bench.world.checkpoints, state_records(&bench)), (2, 1));
    assert_eq!(bench.restarted().counts().ready, 1);
}

#[test]
fn letters_that_are_safe_in_time_end_the_checkpoint_with_a_state_record() {
    let mut bench = waiting();
    bench.take_letters();
    assert_eq!((bench.world.checkpoints, state_records(&bench)), (1, 1));
    assert_eq!(bench.world.got, [Some(b"next".to_vec())]);
}

#[test]
fn a_queue_that_holds_nothing_but_the_dying_needs_the_log_until_their_letters_are_safe() {
    let mut bench = Bench::new(QueueConfig { dead_letters: true, ..durable() });
    bench.publish(&[message(b"dies"), message(b"goes")]);
    bench.consume(consumer(1, 0));
    bench.settle(SettleHow::Reject, MessageSeq(0), 1);
    bench.settle(SettleHow::Ack, MessageSeq(1), 1);
    assert_ne!(bench.queue.oldest_log_position(), 0, "only its record has the first");
    assert_eq!(bench.restarted().counts().ready, 1);
    bench.take_letters();
    assert_eq!(bench.queue.oldest_log_position(), 0);
    assert_eq!(bench.restarted().counts().ready, 0);
}

#[test]
fn segments_of_the_dying_stay_until_their_letters_are_safe() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, dead_letters: true, ..durable() });
    bench.consume(consumer(1, 0));
    for _ in 0..200 {
        bench.publish(&[message(&[3; 10_000])]);
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(state_records(&bench), 1, "segments hold what no other record does");
    bench.settle(SettleHow::Reject, MessageSeq(0), 200);
    bench.run_disk();
    assert_eq!((bench.queue.store.unacked, bench.world.removals.len()), (0, 200));
    assert_eq!(bench.world.deleted, [0; 0]);
    bench.take_letters();
    assert_eq!(bench.world.deleted, [1]);
}

#[test]
fn what_is_written_after_the_sync_of_a_checkpoint_stays_in_memory_until_its_state_record() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 64 << 10, ..durable() });
    bench.publish(&[message(b"first")]);
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    assert_eq!(bench.world.syncs, 1);
    for _ in 0..200 {
        bench.publish(&[message(&[3; 10_000])]);
        bench.run_disk();
    }
    assert!(bench.queue.stats(0).disk_bytes > 1 << 20, "most of it is on disk, nobody knows how safely");
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.world.checkpoints, 1);
    let again = bench.restarted();
    assert_eq!((again.counts().ready, again.store.blocks_on_disk()), (201, 0), "the record holds all of it");
    bench.publish(&[message(b"last")]);
    let kept = bench.queue.resident_bytes();
    assert!(kept < 400_000, "{kept} bytes: now it may leave");
}
