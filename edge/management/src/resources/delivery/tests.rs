//! Texts of `explain_delivery` in each situation, from facts and from a broker of its own.

use broker::{BrokerOptions, ConsumerHold, ConsumerSpec, SessionHold, Standing};
use queues::ConsumerStats;

use super::*;

fn consumer(prefetch: u32, unacked: u32) -> ConsumerStats {
    let spec = ConsumerSpec {
        id: broker::ConsumerId { connection: broker::ConnectionId::alone(1), token: 1 },
        tag: (*b"tag").into(),
        channel: 1,
        ack_required: true,
        prefetch,
        by_credit: false,
        delivered_before: 0,
        filter: None,
        priority: 0,
        exclusive: false,
        arguments: Box::default(),
    };
    ConsumerStats { spec, unacked, active: true, in_stream: None }
}

fn reason(standing: Standing, session: SessionHold) -> &'static str {
    reasons::of_consumer(&consumer(3, 3), ConsumerHold { standing, session }).0
}

#[test]
fn each_hold_has_its_reason() {
    use SessionHold as S;
    assert_eq!(reason(Standing::InLine, S::None), "in_line");
    assert_eq!(reason(Standing::PrefetchFull, S::None), "prefetch_full");
    assert_eq!(reason(Standing::Paused, S::Output { pending_bytes: 5 }), "socket_full");
    assert_eq!(reason(Standing::Paused, S::LargeMessages { held_bytes: 5 }), "large_messages");
    assert_eq!(
        reason(Standing::Paused, S::ChannelPrefetch { unacked: 1, prefetch: 1 }),
        "channel_prefetch_full"
    );
    assert_eq!(reason(Standing::Inactive, S::None), "inactive");
    assert_eq!(reason(Standing::LowerPriority, S::None), "lower_priority");
    assert_eq!(reason(Standing::Paused, S::Unannounced), "starting");
    assert_eq!(reason(Standing::Paused, S::Gone), "gone");
    let (_, text) = reasons::of_consumer(
        &consumer(3, 3),
        ConsumerHold { standing: Standing::PrefetchFull, session: SessionHold::None },
    );
    assert!(text.contains("prefetch of 3") && text.contains("basic.qos"), "{text}");
}

#[test]
fn a_link_of_amqp_1_0_has_credit_or_has_none() {
    let mut link = consumer(0, 3);
    link.spec.by_credit = true;
    let said = |standing, session| reasons::of_consumer(&link, ConsumerHold { standing, session });
    let (reason, text) = said(Standing::PrefetchFull, SessionHold::None);
    assert!(reason == "no_credit" && text.contains("flow frame; 3 unsettled"), "{reason} {text}");
    let (reason, text) = said(Standing::InLine, SessionHold::None);
    assert!(reason == "in_line" && text.contains("has credit; 3 unsettled"), "{reason} {text}");
    assert_eq!(said(Standing::Paused, SessionHold::Unannounced).0, "starting");
}

#[tokio::test]
async fn a_queue_without_consumers_and_one_that_is_not_there_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    tokio::task::spawn_blocking(move || {
        let user = broker.authenticate("guest", b"guest", true).unwrap();
        let vhost = broker.vhost("/").unwrap();
        let connection = broker.next_connection_id();
        let principal =
            broker::Principal { user, vhost, connection, connection_name: "test".into(), client: None };
        let declare = broker::QueueDeclare {
            name: b"q",
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: wire::amqp091::Table::EMPTY,
        };
        broker.declare_queue(&principal, declare).unwrap();
        let explained = explain_delivery(&broker, "/", "q").unwrap();
        assert_eq!((explained.state, explained.ready, explained.head), ("running", 0, "none"));
        assert!(explained.verdict.contains("no consumer"), "{}", explained.verdict);
        let text = explained.text();
        for line in ["Consumers: 0", "Publishers: not held", "Alarms: none", "confirmed after fsync"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(explain_delivery(&broker, "/", "x").is_none());
        assert!(explain_delivery(&broker, "x", "q").is_none());
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn messages_that_expired_before_somebody_came_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    tokio::task::spawn_blocking(move || {
        let mut explained = silent_queue(&broker);
        (explained.state, explained.expired_total) = ("running", 7);
        explained.consumers.push(served());
        assert!(
            reasons::verdict(&explained).contains("7 expired before"),
            "{}",
            reasons::verdict(&explained)
        );
        (explained.delivered_total, explained.dropped_total, explained.message_ttl_ms) = (1, 2, Some(30));
        assert!(
            reasons::verdict(&explained).contains("expired or dropped"),
            "{}",
            reasons::verdict(&explained)
        );
        let text = explained.text();
        for line in ["live for 30 ms", "7 messages expired", "2 messages were dropped"] {
            assert!(text.contains(line), "{text}");
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn letters_that_wait_for_room_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    tokio::task::spawn_blocking(move || {
        let mut explained = silent_queue(&broker);
        (explained.state, explained.ready) = ("running", 7);
        assert!(reasons::verdict(&explained).starts_with("Nobody consumes"));
        explained.letters_await_room = true;
        let verdict = reasons::verdict(&explained);
        assert!(
            verdict.contains("wait until the disk alarm clears") && verdict.contains("7 ready"),
            "{verdict}"
        );
        assert!(!verdict.contains("consume and ack"), "no other queue holds anything: {verdict}");
        explained.room_held_by = vec!["'dead' (5 messages)".into()];
        let verdict = reasons::verdict(&explained);
        assert!(verdict.contains("consume and ack, or purge, what 'dead' (5 messages) hold"), "{verdict}");
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_standstill_says_how_long_and_an_empty_queue_names_the_alarm_that_holds_its_publishers() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    tokio::task::spawn_blocking(move || {
        let mut explained = silent_queue(&broker);
        explained.state = "running";
        explained.publishers_held_by = vec!["the memory alarm is on"];
        let verdict = reasons::verdict(&explained);
        assert!(verdict.contains("no consumer") && verdict.contains("the memory alarm is on"), "{verdict}");
        explained.consumers.push(served());
        explained.ready = 3;
        for (head, still_ms, expected) in [
            ("disk", 20_500, "on their way from disk to consumers; nothing was delivered for 20 s."),
            ("disk", 10, "on their way from disk to consumers."),
            ("memory", 2_000, "ready for 1 of 1 consumers; nothing was delivered for 2 s."),
            ("memory", 0, "being delivered to 1 of 1 consumers."),
        ] {
            (explained.head, explained.still_ms) = (head, still_ms);
            let verdict = reasons::verdict(&explained);
            assert!(verdict.ends_with(expected), "{verdict}");
        }
    })
    .await
    .unwrap();
}

fn served() -> ConsumerExplanation {
    ConsumerExplanation {
        tag: "t".into(),
        connection: "c".into(),
        channel: 1,
        unacked: 0,
        prefetch: 1,
        subscription: None,
        credits: None,
        offset_lag: None,
        skipped: None,
        ack_required: true,
        is_served: true,
        reason: "in_line",
        text: String::new(),
    }
}

fn silent_queue(broker: &Broker) -> DeliveryExplanation {
    let user = broker.authenticate("guest", b"guest", true).unwrap();
    let vhost = broker.vhost("/").unwrap();
    let connection = broker.next_connection_id();
    let principal =
        broker::Principal { user, vhost, connection, connection_name: "test".into(), client: None };
    let declare = broker::QueueDeclare {
        name: b"q",
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: wire::amqp091::Table::EMPTY,
    };
    broker.declare_queue(&principal, declare).unwrap();
    silent(broker, &broker.vhost("/").unwrap().queue(b"q").unwrap())
}

#[test]
fn a_stream_tells_how_far_its_consumers_are_behind() {
    let reader = |credits, offset_lag| {
        let consumer = StreamConsumer {
            stream: "s".into(),
            id: 3,
            credits,
            consumed: 0,
            offset: 0,
            offset_lag,
            is_active: true,
            is_single_active: false,
            properties: Vec::new(),
        };
        let (reason, text) = reasons::of_subscription(&consumer, 0);
        let lag = Some(offset_lag);
        ConsumerExplanation {
            is_served: reason == "in_line",
            reason,
            text,
            subscription: Some(3),
            offset_lag: lag,
            skipped: Some(4),
            ..served()
        }
    };
    assert_eq!(reader(0, 5).reason, "no_credit");
    let line = reader(2, 5).line();
    assert!(
        line.contains("(subscription 3): is served; credit for 2 chunks; 5 messages behind; 4 in compressed"),
        "{line}"
    );
}
