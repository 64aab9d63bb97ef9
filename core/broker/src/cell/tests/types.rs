//! A cell runs a queue of any type: one that stores nothing is declared, used, listed, crashes and is deleted.

use queues::QueueConfig;
use stdx::QueueId;

use super::*;
use crate::cell::Life;
use crate::cell::configs::Configs;
use crate::cell::machine::MachineType;
use crate::cell::settings::Terms;
use crate::policies::AppliedPolicies;

/// A queue of [`super::memory_queue::MemoryQueue`] that is found by this name.
fn open(bench: &Bench, name: &str) -> Arc<Queue> {
    let template = bench.declare("template", no_arguments());
    let record = metadata::QueueRecord {
        id: QueueId(1 << 40),
        name: name.as_bytes().into(),
        ..(*template.record).clone()
    };
    let (nothing, configs) = (AppliedPolicies::default(), Configs::default());
    let terms = Terms::of(QueueConfig::default(), no_arguments(), nothing, &configs);
    let queue = Queue::new(Arc::new(record), terms, MachineType::Memory, None, template.place.clone());
    bench.broker.services().register(&queue);
    template.place.vhost.upgrade().expect("it is there").add_queue(queue.clone());
    queue
}

#[test]
fn a_queue_that_keeps_its_messages_in_memory_runs_in_a_cell() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = open(&bench, "light");
    assert_eq!(bench.publish("light", &["one", "two", "three"]), [], "all are confirmed");
    let (seq, body) = bench.get("light").expect("it works").expect("a message");
    assert_eq!((body.as_str(), queue.stats().wait().unacked), ("one", 1));
    queue.settle(SettleHow::Requeue, &[SettleRun { consumer: None, first: seq, count: 1 }]);
    assert_eq!(ready(&queue), 3);
    bench.consume("light", 7).expect("it consumes");
    let consumer = Some(ConsumerId { connection: bench.principal.connection, token: 7 });
    for nth in 0..3 {
        // One at a time: that is its prefetch.
        let delivered = bench.told.delivered.lock().clone();
        assert_eq!(
            (delivered.len(), &delivered[nth].1[..]),
            (nth + 1, ["one", "two", "three"][nth].as_bytes())
        );
        queue.settle(SettleHow::Ack, &[SettleRun { consumer, first: delivered[nth].0, count: 1 }]);
    }
    let stats = queue.stats().wait();
    assert_eq!((stats.ready, stats.unacked, stats.consumers.len()), (0, 0, 1));
    assert_eq!(queue.oldest_log_position(), 0, "nothing of it is logged");
}

#[test]
fn a_queue_of_another_type_that_crashes_is_empty_and_of_its_type_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (queue, other) = (open(&bench, "light"), bench.declare("other", no_arguments()));
    bench.publish("light", &["one", "two"]);
    bench.publish("other", &["three"]);
    let (first, _) = bench.get("light").expect("it works").expect("a message");
    bench.consume("light", 7).expect("it consumes");
    let (second, _) = bench.told.delivered.lock()[0].clone();
    // The consumer has one message. It settles that, and another one that was not its own.
    let consumer = Some(ConsumerId { connection: bench.principal.connection, token: 7 });
    let run = |first| SettleRun { consumer, first, count: 1 };
    queue.settle(SettleHow::Ack, &[run(second), run(first)]);
    assert_ne!(
        queue.life(),
        Life::default(),
        "its count of what the consumer has would be less than nothing"
    );
    while queue.condition() != Condition::Running {
        std::thread::yield_now();
    }
    assert_eq!((ready(&queue), ready(&other)), (0, 1));
    assert_eq!(bench.publish("light", &["four"]), []);
    assert_eq!(bench.get("light").expect("it works").expect("a message").1, "four");
    assert_eq!((queue.machine_type(), *bench.told.cancelled.lock() == [7]), (MachineType::Memory, true));
}
