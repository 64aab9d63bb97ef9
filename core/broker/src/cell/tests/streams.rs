//! The cell of a stream: a confirmed message is committed and there after a power cut, also when the declaration was not durable at first;
//! consumers read on where they say.

use message::{Filter, TableBuf};
use platform::{SimClock, SimDisk};
use queues::Credit;
use streamlog::Seek;

use super::*;
use crate::test_broker::{driven, driven_on};
use crate::{Driven, Engine, FileSizes};

fn stream_arguments() -> TableBuf {
    let mut arguments = TableBuf::new();
    arguments.push_str("x-queue-type", "stream");
    arguments
}

fn declare(broker: &Broker, principal: &Principal, name: &str) -> Arc<Queue> {
    let arguments = stream_arguments();
    let declare = QueueDeclare {
        name: name.as_bytes(),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: arguments.as_table(),
    };
    drop(broker.declare_queue(principal, declare).expect("it can be declared"));
    principal.vhost.queue(name.as_bytes()).expect("it is there at once")
}

/// Publishes with confirms; returns the sink that is told of them.
fn publish(broker: &Broker, principal: &Principal, bodies: &[String]) -> Arc<Told> {
    let (told, mut channel) = (Arc::<Told>::default(), PublishChannel::new());
    channel.enable_confirms(told.clone());
    let mut publisher = Publisher::new(broker, principal);
    for body in bodies {
        let message = Incoming {
            mandatory: false,
            exchange: b"",
            routing_key: b"s",
            properties: PERSISTENT,
            body: body.as_bytes(),
        };
        publisher.publish(&mut channel, message).expect("it is routed");
    }
    told
}

fn consume(broker: &Broker, principal: &Principal, offset: i64, prefetch: u32) -> (Arc<Queue>, Arc<Told>) {
    attach(broker, principal, spec(principal, offset, prefetch))
}

fn attach(broker: &Broker, principal: &Principal, spec: ConsumerSpec) -> (Arc<Queue>, Arc<Told>) {
    let (id, told) = (spec.id, Arc::<Told>::default());
    let request = ConsumeRequest { queue: b"s", spec };
    let (queue, call) = broker.consume(principal, request, told.clone()).expect("streams take it");
    call.wait().expect("streams take it");
    queue.resume(id);
    (queue, told)
}

fn spec(principal: &Principal, offset: i64, prefetch: u32) -> ConsumerSpec {
    let mut arguments = TableBuf::new();
    arguments.push_i64("x-stream-offset", offset);
    ConsumerSpec {
        id: ConsumerId { connection: principal.connection, token: 1 },
        tag: b"tag"[..].into(),
        channel: 1,
        ack_required: true,
        prefetch,
        priority: 0,
        exclusive: false,
        by_credit: false,
        delivered_before: 0,
        filter: None,
        arguments: arguments.as_table().raw().into(),
    }
}

#[test]
fn nothing_is_confirmed_before_the_declaration_is_durable() {
    let (broker, mut driver, principal, _) = driven();
    declare(&broker, &principal, "s");
    let told = publish(&broker, &principal, &["one".to_owned()]);
    for _ in 0..100 {
        assert_ne!(driver.step(Engine::Streams), Driven::Worked);
        driver.step(Engine::MessageLog);
    }
    assert!(told.confirmed.lock().is_empty());
    driver.run_until_idle();
    assert_eq!(told.confirmed.lock().len(), 1);
}

#[test]
fn what_was_confirmed_is_there_after_power_cuts_under_its_offset() {
    let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
    let mut confirmed: Vec<String> = Vec::new();
    for life in 0..12_u64 {
        let (broker, mut driver, principal) = driven_on(&disk, &clock, FileSizes::default());
        let queue = declare(&broker, &principal, "s");
        driver.run_until_idle();
        let log = queue.stream_log().expect("it is a stream");
        let found = log.committed_next() as usize;
        assert!(found >= confirmed.len(), "life {life}");
        let (_, told) = consume(&broker, &principal, 0, 10_000);
        driver.run_until_idle();
        let read: Vec<String> = told
            .delivered
            .lock()
            .iter()
            .map(|(_, body)| String::from_utf8_lossy(body).into_owned())
            .collect();
        assert_eq!(read.len(), found);
        assert_eq!(read[..confirmed.len()], confirmed);
        confirmed = read;
        let bodies: Vec<String> = (0..20).map(|nth| format!("{life}.{nth}")).collect();
        let told = publish(&broker, &principal, &bodies);
        // In some lives the power goes before the round is over.
        if life % 3 == 0 {
            driver.run_until_idle();
            assert_eq!(told.confirmed.lock().len(), 1);
        } else {
            for _ in 0..life % 5 {
                let _ = driver.step(Engine::Streams);
            }
        }
        if !told.confirmed.lock().is_empty() {
            confirmed.extend(bodies);
        }
        disk.crash(life);
        drop(driver);
    }
}

#[test]
fn prefetch_is_credit_and_a_deleted_stream_cancels_its_consumers() {
    let (broker, mut driver, principal, _) = driven();
    declare(&broker, &principal, "s");
    let bodies: Vec<String> = (0..30).map(|nth| nth.to_string()).collect();
    publish(&broker, &principal, &bodies);
    driver.run_until_idle();
    let (queue, told) = consume(&broker, &principal, 10, 4);
    driver.run_until_idle();
    let seqs = || told.delivered.lock().iter().map(|(seq, _)| seq.0).collect::<Vec<_>>();
    assert_eq!(seqs(), [10, 11, 12, 13]);
    let consumer = Some(ConsumerId { connection: principal.connection, token: 1 });
    queue.settle(SettleHow::Reject, &[SettleRun { consumer, first: MessageSeq(10), count: 3 }]);
    driver.run_until_idle();
    assert_eq!(seqs(), (10..17).collect::<Vec<_>>());
    let log = queue.stream_log().expect("it is a stream");
    assert_eq!(log.resolve(Seek::Offset(7)).expect("it is there"), 7);
    drop(broker.delete_queue(&principal, b"s", false, false).expect("it may go"));
    driver.run_until_idle();
    assert_eq!(*told.cancelled.lock(), [1]);
    assert!(log.check().is_err() && log.append().is_err());
    assert_eq!(declare(&broker, &principal, "s").stream_log().expect("a new one").committed_next(), 0);
}

#[test]
fn a_consumer_by_credit_gets_what_it_asks_for_and_its_drain_is_answered_at_the_end() {
    let (broker, mut driver, principal, _) = driven();
    declare(&broker, &principal, "s");
    let bodies: Vec<String> = (0..30).map(|nth| nth.to_string()).collect();
    publish(&broker, &principal, &bodies);
    driver.run_until_idle();
    let spec = ConsumerSpec { by_credit: true, ack_required: false, ..spec(&principal, 10, 0) };
    let id = spec.id;
    let (queue, told) = attach(&broker, &principal, spec);
    driver.run_until_idle();
    let seqs = || told.delivered.lock().iter().map(|(seq, _)| seq.0).collect::<Vec<_>>();
    assert!(seqs().is_empty(), "without credit nothing comes");
    queue.credit(id, Credit { limit: 5, drain: false });
    driver.run_until_idle();
    assert_eq!(seqs(), (10..15).collect::<Vec<_>>());
    assert_eq!(*told.credit_news.lock(), [CreditNews::Noted { available: 15 }]);
    queue.settle(SettleHow::Ack, &[SettleRun { consumer: Some(id), first: MessageSeq(10), count: 5 }]);
    queue.credit(id, Credit { limit: 5, drain: true });
    driver.run_until_idle();
    assert_eq!(seqs().len(), 5, "settling gives no credit, and there is none to give up");
    queue.credit(id, Credit { limit: 100, drain: true });
    driver.run_until_idle();
    assert_eq!(seqs(), (10..30).collect::<Vec<_>>());
    let drained = CreditNews::Drained { limit: 100 };
    assert_eq!(told.credit_news.lock().iter().filter(|news| **news == drained).count(), 1);
    publish(&broker, &principal, &bodies);
    driver.run_until_idle();
    assert_eq!(seqs().len(), 20, "what was given up is gone");
    queue.credit(id, Credit { limit: 101, drain: false });
    driver.run_until_idle();
    assert_eq!(seqs().len(), 21);
}

#[test]
fn a_filter_passes_messages_over_without_using_credit() {
    let (broker, mut driver, principal, _) = driven();
    declare(&broker, &principal, "s");
    let bodies: Vec<String> = (0..10_000).map(|nth| nth.to_string()).collect();
    publish(&broker, &principal, &bodies);
    driver.run_until_idle();
    let filter = |text: &str| Some(Arc::new(Filter::Sql(message::Sql::compile(text).expect("it is one"))));
    for (text, count) in [("p.subject IS NOT NULL", 0), ("header.priority = 4", 10_000)] {
        let filter = filter(text);
        let spec = ConsumerSpec { by_credit: true, filter, ..spec(&principal, 0, 0) };
        let id = spec.id;
        let (queue, told) = attach(&broker, &principal, spec);
        queue.credit(id, Credit { limit: 20_000, drain: true });
        driver.run_until_idle();
        let seqs: Vec<u64> = told.delivered.lock().iter().map(|(seq, _)| seq.0).collect();
        assert_eq!(seqs, (0..count).collect::<Vec<_>>(), "{text}");
        let drained = CreditNews::Drained { limit: 20_000 };
        assert_eq!(told.credit_news.lock().iter().filter(|news| **news == drained).count(), 1, "{text}");
        drop(queue.cancel(id));
        driver.run_until_idle();
    }
}
