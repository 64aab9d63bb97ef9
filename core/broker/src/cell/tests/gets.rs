//! basic.get whose answer comes from the disk, and those who do not wait for it.

use super::*;
use crate::GotMessage;
use crate::driven::{Driven, Driver, Engine};
use crate::test_broker::driven;

/// A queue with two messages on disk, in blocks of their own, because the node was short of memory. The bytes of the first are 1, of the second 2.
fn on_disk() -> (Broker, Driver, Principal, Arc<Queue>) {
    let (broker, mut driver, principal, _) = driven();
    let arguments = no_arguments();
    let declare = QueueDeclare { name: b"q", durable: true, exclusive: false, auto_delete: false, arguments };
    broker.declare_queue(&principal, declare).expect("it can be declared");
    let queue = principal.vhost.queue(b"q").expect("it is declared");
    driver.run_until_idle();
    for byte in [1, 2] {
        let (routing_key, properties, body) = (&b"q"[..], PERSISTENT, &vec![byte; 70_000][..]);
        let message = Incoming { mandatory: false, exchange: b"", routing_key, properties, body };
        let mut publisher = Publisher::new(&broker, &principal);
        publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
        drop(publisher);
        driver.run_until_idle();
    }
    let services = broker.services();
    services.memory_shares().note_used(2, 1);
    assert!(services.relieve_queues());
    while driver.step(Engine::Segments) == Driven::Worked {}
    services.memory_shares().note_used(0, 1);
    assert!(queue.memory_bytes().1 < 1000, "{:?}", queue.memory_bytes());
    (broker, driver, principal, queue)
}

fn get(
    broker: &Broker,
    principal: &Principal,
    ack_required: bool,
) -> Call<Result<Option<GotMessage>, Refused>> {
    let (_, mut call) = broker.get(principal, b"q", ack_required).expect("the queue is there");
    assert!(call.try_take().is_none(), "the disk is asked");
    call
}

fn counts(queue: &Arc<Queue>) -> (u64, u64) {
    let stats = queue.stats().wait();
    (stats.ready, stats.unacked)
}

#[test]
fn what_several_asked_for_who_are_gone_is_in_the_queue_again() {
    let (broker, mut driver, principal, queue) = on_disk();
    (0..3).for_each(|_| drop(get(&broker, &principal, true)));
    driver.run_until_idle();
    assert_eq!(counts(&queue), (2, 0));
}

#[test]
fn what_one_asked_for_who_is_gone_is_for_the_next_and_settled_if_that_one_acks_nothing() {
    let (broker, mut driver, principal, queue) = on_disk();
    drop(get(&broker, &principal, true));
    let mut next = get(&broker, &principal, false);
    driver.run_until_idle();
    let got = next.try_take().expect("it is answered").expect("it is in service").expect("a message");
    assert_eq!((got.body[0], counts(&queue)), (1, (1, 0)));
}
