//! Faults that applications meet, in lapin: returns, refusals, dead letters, cancels, restarts.

use std::time::{Duration, Instant};

use futures_lite::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties};

use crate::broker::{
    DEADLINE, connect, consume, durable_queue, exclusive_queue, next, open, publish, refusal, run,
    run_within, unique,
};

fn table<const N: usize>(pairs: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in pairs {
        table.insert(key.into(), value);
    }
    table
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

#[test]
fn mandatory_message_is_returned_with_its_confirm() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let nowhere = unique("nowhere");
        let confirm = channel
            .basic_publish("".into(), nowhere.as_str().into(), mandatory, b"lost", BasicProperties::default())
            .await
            .unwrap();
        let Confirmation::Ack(Some(returned)) = confirm.await.unwrap() else { panic!("not returned") };
        assert_eq!(
            (returned.reply_code, returned.reply_text.as_str(), returned.delivery.data.as_slice()),
            (312, "NO_ROUTE", &b"lost"[..])
        );
    });
}

#[test]
fn overflow_nacks() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let queue = exclusive_queue(
            &channel,
            table([("x-max-length", 1.into()), ("x-overflow", text("reject-publish"))]),
        )
        .await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        for want in [Confirmation::Ack(None), Confirmation::Nack(None)] {
            let options = BasicPublishOptions::default();
            let confirm = channel
                .basic_publish("".into(), queue.as_str().into(), options, b"x", BasicProperties::default())
                .await
                .unwrap();
            assert_eq!(confirm.await.unwrap(), want);
        }
    });
}

#[test]
fn consumer_ends_when_its_queue_is_deleted() {
    run(|url| async move {
        let (connection, channel) = open(&url).await;
        let queue = durable_queue(&channel, "doomed").await;
        let mut consumer = consume(&channel, &queue, false).await;
        let other = connection.create_channel().await.unwrap();
        other.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        assert!(
            tokio::time::timeout(DEADLINE, consumer.next())
                .await
                .expect("basic.cancel did not come")
                .is_none()
        );
        assert!(channel.status().connected());
    });
}

#[test]
fn priorities() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let queue = exclusive_queue(&channel, table([("x-max-priority", 9.into())])).await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        for priority in [0, 4, 9, 1] {
            publish(&channel, "", &queue, &[priority], BasicProperties::default().with_priority(priority))
                .await;
        }
        channel.wait_for_confirms().await.unwrap();
        let mut consumer = consume(&channel, &queue, true).await;
        for want in [9, 4, 1, 0] {
            assert_eq!(next(&mut consumer).await.data, [want]);
        }
    });
}

#[test]
fn expired_and_rejected_messages_are_dead_lettered() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let graveyard = exclusive_queue(&channel, FieldTable::default()).await;
        let arguments =
            table([("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&graveyard))]);
        let queue = exclusive_queue(&channel, arguments).await;
        let mut dead = consume(&channel, &graveyard, true).await;
        publish(&channel, "", &queue, b"expired", BasicProperties::default().with_expiration("30".into()))
            .await;
        let delivery = next(&mut dead).await;
        assert!(delivery.properties.expiration().is_none());
        let headers = delivery.properties.headers().clone().unwrap();
        let AMQPValue::FieldArray(deaths) = &headers.inner()["x-death"] else { panic!("{headers:?}") };
        let [AMQPValue::FieldTable(death)] = deaths.as_slice() else { panic!("{deaths:?}") };
        assert_eq!(death.inner()["reason"], text("expired"));
        assert_eq!(death.inner()["count"], AMQPValue::LongLongInt(1));
        assert_eq!(death.inner()["queue"], text(&queue));
        assert_eq!(death.inner()["original-expiration"], text("30"));
        assert!(matches!(death.inner()["time"], AMQPValue::Timestamp(_)));

        let mut consumer = consume(&channel, &queue, false).await;
        publish(&channel, "", &queue, b"rejected", BasicProperties::default()).await;
        next(&mut consumer).await.reject(BasicRejectOptions { requeue: false }).await.unwrap();
        assert_eq!(next(&mut dead).await.data, b"rejected");
    });
}

#[test]
fn large_and_empty_messages() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let queue = exclusive_queue(&channel, FieldTable::default()).await;
        let large: Vec<u8> = (0..10u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut consumer = consume(&channel, &queue, true).await;
        publish(&channel, "", &queue, &large, BasicProperties::default()).await;
        publish(&channel, "", &queue, b"", BasicProperties::default()).await;
        assert!(next(&mut consumer).await.data == large, "10 MiB came back changed");
        assert!(next(&mut consumer).await.data.is_empty());
    });
}

#[test]
fn header_values_of_all_types_round_trip() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let queue = exclusive_queue(&channel, FieldTable::default()).await;
        let mut array = FieldArray::default();
        for value in [AMQPValue::LongInt(1), text("two"), AMQPValue::Void, AMQPValue::Boolean(true)] {
            array.push(value);
        }
        let headers = table([
            ("bool", AMQPValue::Boolean(true)),
            ("i8", AMQPValue::ShortShortInt(-100)),
            ("u8", AMQPValue::ShortShortUInt(200)),
            ("i16", AMQPValue::ShortInt(-30_000)),
            ("u16", AMQPValue::ShortUInt(60_000)),
            ("i32", AMQPValue::LongInt(-2_000_000_000)),
            ("u32", AMQPValue::LongUInt(4_000_000_000)),
            ("i64", AMQPValue::LongLongInt(i64::MIN)),
            ("f32", AMQPValue::Float(1.5)),
            ("f64", AMQPValue::Double(3.25)),
            ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 })),
            ("text", text("Grüße, 世界")),
            ("bytes", AMQPValue::ByteArray(vec![0, 255, 128].into())),
            ("time", AMQPValue::Timestamp(1_700_000_000)),
            ("void", AMQPValue::Void),
            ("array", AMQPValue::FieldArray(array)),
            (
                "table",
                AMQPValue::FieldTable(table([("deeper", AMQPValue::FieldTable(table([("n", 1.into())])))])),
            ),
        ]);
        let sent = BasicProperties::default()
            .with_headers(headers)
            .with_content_type("text/plain".into())
            .with_content_encoding("utf-8".into())
            .with_delivery_mode(2)
            .with_priority(7)
            .with_correlation_id("c".into())
            .with_reply_to("r".into())
            .with_expiration("60000".into())
            .with_message_id("m".into())
            .with_timestamp(1_700_000_000)
            .with_type("t".into())
            .with_app_id("a".into());
        publish(&channel, "", &queue, b"", sent.clone()).await;
        assert_eq!(next(&mut consume(&channel, &queue, true).await).await.properties, sent);
    });
}

#[test]
fn many_channels_of_one_connection() {
    run(|url| async move {
        let connection = connect(&url).await;
        let mut echoes = Vec::new();
        for i in 0..200 {
            let channel = connection.create_channel().await.unwrap();
            echoes.push(tokio::spawn(async move {
                let queue = exclusive_queue(&channel, FieldTable::default()).await;
                let mut consumer = consume(&channel, &queue, true).await;
                publish(&channel, "", &queue, i.to_string().as_bytes(), BasicProperties::default()).await;
                assert_eq!(next(&mut consumer).await.data, i.to_string().as_bytes());
                channel.close(200, "done".into()).await.unwrap();
            }));
        }
        for echo in echoes {
            echo.await.unwrap();
        }
    });
}

#[test]
fn channel_errors_leave_the_connection_open() {
    run(|url| async move {
        let connection = connect(&url).await;
        let missing = unique("missing");
        let channel = connection.create_channel().await.unwrap();
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(missing.as_str().into(), passive, FieldTable::default()).await;
        assert_eq!(refusal(declared), (404, format!("NOT_FOUND - no queue '{missing}' in vhost '/'")));

        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let publish = channel.basic_publish(
            missing.as_str().into(),
            "".into(),
            BasicPublishOptions::default(),
            b"",
            BasicProperties::default(),
        );
        let confirmed = publish.await.unwrap().await;
        assert_eq!(refusal(confirmed), (404, format!("NOT_FOUND - no exchange '{missing}' in vhost '/'")));

        let channel = connection.create_channel().await.unwrap();
        let queue = durable_queue(&channel, "declared").await;
        let declared = channel
            .queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), FieldTable::default())
            .await;
        let text = format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '{queue}' in vhost '/': received none but current is the value '120000' of type 'signedint'"
        );
        assert_eq!(refusal(declared), (406, text));
        assert!(connection.status().connected());
    });
}

#[test]
fn wrong_password_and_missing_vhost_are_refused() {
    run(|url| async move {
        let wrong = url.replace("guest:guest@", "guest:wrong@");
        let connected = Connection::connect(&wrong, ConnectionProperties::default()).await;
        let text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.";
        assert_eq!(refusal(connected.map(drop)), (403, text.to_owned()));
        let nowhere = format!("{}/nowhere", url.trim_end_matches("/%2F").trim_end_matches("/%2f"));
        let connected = Connection::connect(&nowhere, ConnectionProperties::default()).await;
        assert_eq!(refusal(connected.map(drop)), (530, "NOT_ALLOWED - vhost nowhere not found".to_owned()));
    });
}

/// lapin's own recovery: connection, channel, queue and consumer come back, and the test goes on with the same objects.
#[test]
fn reconnects_after_a_broker_restart() {
    let Ok(command) = std::env::var("BROKER_RESTART") else {
        println!("SKIPPED: BROKER_RESTART is not set, so reconnecting was NOT tested");
        return;
    };
    run_within(Duration::from_secs(90), |url| async move {
        let properties = ConnectionProperties::default().enable_auto_recover().configure_backoff(|backoff| {
            backoff
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Duration::from_millis(300))
                .with_max_times(200)
        });
        let connection = Connection::connect(&url, properties).await.unwrap();
        let (publisher, receiver) =
            (connection.create_channel().await.unwrap(), connection.create_channel().await.unwrap());
        let queue = durable_queue(&receiver, "survivor").await;
        let mut consumer = receiver
            .basic_consume(
                queue.as_str().into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        publish(&publisher, "", &queue, b"before", BasicProperties::default().with_delivery_mode(2)).await;
        next(&mut consumer).await.ack(BasicAckOptions::default()).await.unwrap();

        let restarted = tokio::process::Command::new("sh").arg("-c").arg(&command).output().await.unwrap();
        assert!(restarted.status.success(), "{restarted:?}");

        let end = Instant::now() + Duration::from_secs(45);
        let persistent = || BasicProperties::default().with_delivery_mode(2);
        while let Err(error) = publisher
            .basic_publish(
                "".into(),
                queue.as_str().into(),
                BasicPublishOptions::default(),
                b"after",
                persistent(),
            )
            .await
        {
            assert!(Instant::now() < end, "publishing does not work again: {error:?}");
            let _ = publisher.wait_for_recovery(error).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        loop {
            assert!(Instant::now() < end, "the consumer did not come back");
            match tokio::time::timeout(DEADLINE, consumer.next())
                .await
                .expect("no delivery after the restart")
            {
                Some(Ok(delivery)) => {
                    let after = delivery.data == b"after";
                    delivery.ack(BasicAckOptions::default()).await.unwrap();
                    if after {
                        break;
                    }
                }
                Some(Err(error)) => receiver.wait_for_recovery(error).await.unwrap(),
                None => panic!("the consumer ended"),
            }
        }
    });
}
