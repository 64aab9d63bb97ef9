//! Bodies that a queue shares with others.

use super::*;

impl Bench {
    fn share(&mut self, id: u64, bytes: usize) -> HeldBody {
        let bytes = Arc::new(crate::BodyBuffer::from(vec![id as u8; bytes]));
        self.shared.insert(id, bytes.clone());
        HeldBody { body: SharedBody::named(id, bytes.len() as u32), bytes }
    }

    fn publish_shared(&mut self, held: &HeldBody) {
        self.publish(&[IncomingMessage { shared: Some(held), ..message(&held.bytes) }]);
    }
}

#[test]
fn a_shared_body_counts_in_full_and_is_stored_as_a_reference() {
    let mut bench = Bench::new(durable());
    let held = bench.share(7, 20_000);
    bench.publish_shared(&held);
    let stats = bench.queue.stats(0);
    assert_eq!((stats.ready_bytes, bench.queue.store.shared_bytes()), (20_000, 20_000));
    assert!(stats.memory_bytes < 1000, "{}", stats.memory_bytes);
    let (kind, payload) = &bench.world.log[0];
    assert_eq!((*kind, &bench.world.bodies_logged[..]), (RecordKind::EnqueueShared, &[7][..]));
    assert!(payload.len() < 100);
    bench.consume(consumer(1, 0));
    assert_eq!(bench.bodies(), [&held.bytes[..]]);
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    assert_eq!(
        (bench.queue.resident_bytes(), bench.queue.store.bodies().len()),
        (bench.queue.resident_bytes(), 0)
    );
    assert_eq!(bench.queue.store.shared_bytes(), 0);
}

#[test]
fn bodies_beyond_the_memory_bound_are_let_go_and_asked_for_again() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 256 << 10, ..durable() });
    let held: Vec<HeldBody> = (0..40).map(|id| bench.share(id, 20_000)).collect();
    held.iter().for_each(|held| bench.publish_shared(held));
    bench.run_disk();
    assert!(bench.queue.resident_bytes() < 400 << 10, "{}", bench.queue.resident_bytes());
    assert!(!bench.world.let_go.is_empty());
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies(), held.iter().map(|held| &held.bytes[..]).collect::<Vec<_>>());
    bench.settle(SettleHow::Ack, MessageSeq(0), 40);
    assert_eq!(bench.queue.stats(0).disk_bytes, 0);
    assert!(bench.queue.store.bodies().is_empty());
}

#[test]
fn a_state_record_names_the_bodies_of_blocks_in_segments_and_of_those_it_carries() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 100 << 10, ..durable() });
    let held: Vec<HeldBody> = (0..20).map(|id| bench.share(id + 1, 20_000)).collect();
    held.iter().for_each(|held| bench.publish_shared(held));
    bench.run_disk();
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), 0, &mut bench.world));
    let (kind, state) = bench.world.log.pop().expect("a state record");
    assert_eq!(kind, RecordKind::State);
    let mut recovering = Recovering::default();
    recovering.apply(kind, &state, &(0..1)).expect("what was written is read");
    assert_eq!(recovering.bodies().map(|body| body.id).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    assert_eq!((recovering.contents(), recovering.body_id_max()), ((20, 400_000), 20));
    (0..state.len()).for_each(|end| {
        assert!(Recovering::default().apply(kind, &state[..end], &(0..1)).is_err(), "cut at {end}");
    });
    recovering.retain_bodies(|body| body.id % 2 == 0);
    assert_eq!(recovering.contents(), (10, 200_000));
    bench.queue = Classic::recovered(recovering, bench.queue.config().clone(), 0, &mut SharedBody::clone);
    bench.consume(consumer(1, 0));
    bench.run_disk();
    let even: Vec<&[u8]> = held.iter().skip(1).step_by(2).map(|held| &held.bytes[..]).collect();
    assert_eq!(bench.bodies(), even);
}

#[test]
fn a_restarted_queue_asks_for_the_bodies_of_what_the_log_held() {
    let mut bench = Bench::new(durable());
    let held = bench.share(3, 20_000);
    bench.publish_shared(&held);
    bench.publish(&[message(b"own")]);
    bench.queue = bench.restarted();
    bench.publish(&[message(b"new")]);
    bench.consume(consumer(1, 0));
    let (_, own, bodies) = &bench.world.reads[0];
    assert_eq!((*own, bodies.len()), (None, 1));
    assert!(bench.bodies().is_empty());
    bench.run_disk();
    assert_eq!(bench.bodies(), [&held.bytes[..], b"own", b"new"]);
}

#[test]
fn a_body_is_kept_until_the_log_knows_that_its_letter_is_safe() {
    let mut bench = Bench::new(QueueConfig { dead_letters: true, ..durable() });
    let held = bench.share(3, 20_000);
    bench.publish_shared(&held);
    bench.consume(consumer(1, 0));
    bench.settle(SettleHow::Reject, MessageSeq(0), 1);
    assert_eq!(bench.queue.store.bodies().len(), 1);
    let removals = std::mem::take(&mut bench.world.removals);
    bench.queue.letters_taken(&removals, 0, &mut bench.world);
    assert!(bench.queue.store.bodies().is_empty());
}

#[test]
fn bytes_of_another_length_are_refused() {
    let mut bench = Bench::new(durable());
    let held = bench.share(3, 20_000);
    bench.publish_shared(&held);
    bench.queue = bench.restarted();
    bench.consume(consumer(1, 0));
    let (token, _, bodies) = bench.world.reads.remove(0);
    let short = HeldBody { body: bodies[0].clone(), bytes: Arc::new(vec![3; 19_999].into()) };
    assert!(!bench.queue.disk_answered(DiskAnswer::Read(token, None, &[short]), 0, &mut bench.world));
}

#[test]
fn a_backlog_in_the_log_names_its_bodies_and_asks_for_them_when_it_is_read_there() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 256 << 10, ..durable() });
    bench.world.is_sparse = false;
    let held: Vec<HeldBody> = (0..40).map(|id| bench.share(id + 1, 20_000)).collect();
    for held in &held {
        bench.publish_shared(held);
        bench.run_disk();
    }
    assert!(bench.disk.is_empty() && bench.queue.store.log_ranges().next().is_some());
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), 0, &mut bench.world));
    bench.queue = bench.restarted();
    assert!(bench.queue.store.log_ranges().next().is_some());
    assert_eq!(bench.queue.store.bodies().len(), 40);
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies(), held.iter().map(|held| &held.bytes[..]).collect::<Vec<_>>());
    bench.settle(SettleHow::Ack, MessageSeq(0), 40);
    assert!(bench.queue.store.bodies().is_empty());
}

#[test]
fn small_blocks_go_along_with_a_compaction_and_need_not_be_written_when_memory_is_short_later() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 100 << 10, ..durable() });
    let held: Vec<HeldBody> = (0..40).map(|id| bench.share(id + 1, 20_000)).collect();
    for held in &held {
        bench.publish_shared(held);
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), 0, &mut bench.world));
    // Most of the segment is of nobody.
    bench.queue = bench.restarted_with(|recovering| recovering.note_segment_bytes(1, 1 << 20));
    bench.segment = 2;
    bench.queue.compact(&mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), 0, &mut bench.world));
    assert_eq!(bench.world.deleted, [1]);
    bench.queue = bench.restarted();
    let blocks_on_disk = bench.disk.len();
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies(), held.iter().map(|held| &held.bytes[..]).collect::<Vec<_>>());
    assert!(bench.queue.resident_bytes() < 200 << 10, "{}", bench.queue.resident_bytes());
    assert_eq!(bench.disk.len(), blocks_on_disk, "nothing is written that the state record does not name");
}
