//! Consumers without sockets: deliveries in, settlements out.

use super::*;
use wire::amqp091::{Method, Parsed, parse_frame};

pub(crate) fn settings(settle: Settle, count_max: u64) -> ReceiverSettings {
    ReceiverSettings {
        number: 0,
        settle,
        answer: Answer::Ack,
        tx_size: 0,
        source: Source::Consume,
        interval_ns: 0,
        work: None,
        count_max,
        clock: Clock::Monotonic,
        stamp_in_header: false,
        verbosity: Verbosity::Silent,
    }
}

/// Lets `act` use a receiver at this time; gives what it wrote, as words, and how much it received.
fn at(
    now_ns: u64,
    receiver: &mut Receiver,
    figures: &Figures,
    act: impl FnOnce(&mut Receiver, &mut Outlet<'_, '_>),
) -> (Vec<String>, u64) {
    let (mut acks, mut received, mut latency) = (Vec::new(), 0, Batch::new(&figures.latency));
    let mut out = Outlet {
        channel: 1,
        acks: &mut acks,
        latency: &mut latency,
        figures,
        received: &mut received,
        now_ns,
        elapsed_ns: now_ns,
    };
    act(receiver, &mut out);
    drop(latency);
    (words(&acks), received)
}

fn words(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 4096) {
        found.push(match Method::decode(frame.payload).unwrap() {
            Method::BasicAck(ack) => format!("ack {} {}", ack.delivery_tag, ack.multiple),
            Method::BasicNack(nack) => {
                format!("nack {} {} {}", nack.delivery_tag, nack.multiple, nack.requeue)
            }
            method => method.name().to_owned(),
        });
        bytes = &bytes[consumed..];
    }
    found
}

fn deliver(receiver: &mut Receiver, tag: u64, now_ns: u64, figures: &Figures) -> (Vec<String>, u64) {
    at(now_ns, receiver, figures, |receiver, out| {
        receiver.delivery_tag = tag;
        receiver.latency_ns = Some(1000);
        receiver.complete(out);
    })
}

#[test]
fn deliveries_are_settled_as_asked_and_none_after_the_last() {
    let figures = Figures::default();
    let all = |settings: ReceiverSettings| {
        let mut receiver = Receiver::new(settings);
        (1..=5).flat_map(|tag| deliver(&mut receiver, tag, 0, &figures).0).collect::<Vec<_>>()
    };
    assert_eq!(all(settings(Settle::Auto, u64::MAX)), [""; 0]);
    assert_eq!(all(settings(Settle::Each, 2)), ["ack 1 false", "ack 2 false"]);
    assert_eq!(all(settings(Settle::Every(2), u64::MAX)), ["ack 2 true", "ack 4 true"]);
    assert_eq!(all(settings(Settle::Every(2), 3)), ["ack 2 true", "ack 3 true"]);
    let refused = ReceiverSettings { answer: Answer::Requeue, ..settings(Settle::Every(3), u64::MAX) };
    assert_eq!(all(refused), ["nack 3 true true"]);
    let in_tx = ReceiverSettings { tx_size: 2, answer: Answer::Drop, ..settings(Settle::Each, 3) };
    assert_eq!(
        all(in_tx),
        ["nack 1 false false", "nack 2 false false", "tx.commit", "nack 3 false false", "tx.commit"]
    );
}

#[test]
fn what_is_unsettled_at_the_end_is_settled() {
    let figures = Figures::default();
    let mut receiver = Receiver::new(ReceiverSettings { tx_size: 9, ..settings(Settle::Every(4), u64::MAX) });
    (1..=6).for_each(|tag| drop(deliver(&mut receiver, tag, 0, &figures)));
    let mut bytes = Vec::new();
    receiver.finish(1, &mut bytes);
    assert_eq!(words(&bytes), ["ack 6 true", "tx.commit"]);
}

#[test]
fn a_consumer_with_latency_works_on_one_message_at_a_time() {
    let figures = Figures::default();
    let work = Cycle::new(&["5:1".parse().unwrap()]).map(Arc::new);
    let mut receiver = Receiver::new(ReceiverSettings { work, ..settings(Settle::Each, u64::MAX) });
    assert_eq!(deliver(&mut receiver, 1, 10_000, &figures), (vec![], 1));
    assert_eq!(deliver(&mut receiver, 2, 11_000, &figures), (vec![], 0));
    assert_eq!(receiver.wakes_ns(), Some(15_000));
    let go_on = |now_ns, receiver: &mut Receiver| at(now_ns, receiver, &figures, Receiver::work);
    assert_eq!(go_on(15_000, &mut receiver), (vec!["ack 1 false".to_owned()], 1));
    assert_eq!(receiver.wakes_ns(), Some(20_000));
    assert_eq!(go_on(50_000, &mut receiver), (vec!["ack 2 false".to_owned()], 0));
    assert_eq!(receiver.wakes_ns(), None);
    // The second waited 4 us on top of the one it took to arrive.
    let times = figures.latency.lock();
    assert_eq!(times.max(), times.highest_equivalent(5_000));
}

#[test]
fn a_rate_is_kept_even_if_it_is_woken_late() {
    let figures = Figures::default();
    let mut receiver = Receiver::new(ReceiverSettings { interval_ns: 100, ..settings(Settle::Auto, 3) });
    let received: u64 = (1..=5).map(|tag| deliver(&mut receiver, tag, 1000, &figures).1).sum();
    assert_eq!((received, receiver.wakes_ns()), (1, Some(1100)));
    assert_eq!(at(1250, &mut receiver, &figures, Receiver::work).1, 2);
    assert_eq!((receiver.waiting(), receiver.wakes_ns()), (2, None));
    assert_eq!(figures.consumers_done.load(Relaxed), 1);
}

#[test]
fn a_polling_consumer_asks_after_each_message_and_after_a_pause_when_there_is_none() {
    let figures = Figures::default();
    let source = Source::Poll { queue: "q".to_owned(), interval_ns: 0 };
    let mut receiver = Receiver::new(ReceiverSettings { source, ..settings(Settle::Each, 2) });
    let mut bytes = Vec::new();
    receiver.poll_first(1, &mut bytes);
    assert_eq!(words(&bytes), ["basic.get"]);
    assert_eq!(deliver(&mut receiver, 1, 0, &figures).0, ["ack 1 false", "basic.get"]);
    receiver.note_empty(1000);
    assert_eq!(receiver.wakes_ns(), Some(101_000));
    assert_eq!(deliver(&mut receiver, 2, 200_000, &figures).0, ["ack 2 false"]);
}
