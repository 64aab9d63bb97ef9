//! Checkpoints that come while letters of the dead are under way.

use super::*;

/// A queue whose first message has died, in a checkpoint that waits for its letter. What follows lives ten milliseconds longer.
fn waiting() -> Bench {
    let mut bench = Bench::new(QueueConfig { dead_letters: true, ..durable() });
    let mortal = |ttl_ms| IncomingMessage { ttl_ms: Some(ttl_ms), ..message(b"mortal") };
    bench.publish(&[mortal(10), mortal(20), message(b"next")]);
    bench.now_ms = 10;
    bench.queue.tick(bench.now_ms, &mut bench.world);
    assert_eq!((bench.world.dead.len(), bench.world.removals.len()), (1, 1));
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
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
    bench.queue.blocks_synced(bench.now_ms, &mut bench.world);
    assert_eq!((bench.world.checkpoints, state_records(&bench)), (2, 1));
    assert_eq!(bench.restarted().counts().ready, 1);
}

#[test]
fn letters_that_are_safe_in_time_end_the_checkpoint_with_a_state_record() {
    let mut bench = waiting();
    let removals = std::mem::take(&mut bench.world.removals);
    bench.queue.letters_taken(&removals, bench.now_ms, &mut bench.world);
    assert_eq!((bench.world.checkpoints, state_records(&bench)), (1, 1));
    assert_eq!(bench.world.got, [Some(b"next".to_vec())]);
}
