//! The RabbitMQ tutorials, in lapin. Refuses to know about failures: see `corners`.

use futures_lite::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    ExchangeBindOptions, QueueBindOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation, ExchangeKind};

use crate::broker::{
    connect, consume, durable_queue, exchange, exclusive_queue, expect_nothing, next, open, publish, refusal,
    run,
};

#[test]
fn hello_world() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let queue = exclusive_queue(&channel, FieldTable::default()).await;
        assert!(queue.starts_with("amq.gen-"), "{queue}");
        let mut consumer = consume(&channel, &queue, true).await;
        publish(&channel, "", &queue, b"Hello World!", BasicProperties::default()).await;
        let delivery = next(&mut consumer).await;
        assert_eq!(
            (delivery.data.as_slice(), delivery.routing_key.as_str(), delivery.redelivered),
            (&b"Hello World!"[..], queue.as_str(), false)
        );
    });
}

#[test]
fn work_queue_with_prefetch_one_gives_tasks_to_whoever_is_free() {
    run(|url| async move {
        let (_connection, publisher) = open(&url).await;
        let queue = durable_queue(&publisher, "tasks").await;
        let (slow_connection, slow) = open(&url).await;
        let (_fast_connection, fast) = open(&url).await;
        slow.basic_qos(1, BasicQosOptions::default()).await.unwrap();
        fast.basic_qos(1, BasicQosOptions::default()).await.unwrap();
        let (mut held, mut free) = (consume(&slow, &queue, false).await, consume(&fast, &queue, false).await);
        for i in 0..20 {
            publish(
                &publisher,
                "",
                &queue,
                i.to_string().as_bytes(),
                BasicProperties::default().with_delivery_mode(2),
            )
            .await;
        }
        let first = next(&mut held).await;
        for _ in 0..19 {
            next(&mut free).await.ack(BasicAckOptions::default()).await.unwrap();
        }
        expect_nothing(&mut held).await;
        slow_connection.close(200, "bye".into()).await.unwrap();
        let again = next(&mut free).await;
        assert_eq!((again.data.clone(), again.redelivered), (first.data.clone(), true));
        again.ack(BasicAckOptions::default()).await.unwrap();
    });
}

#[test]
fn publish_subscribe_routing_and_topics() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let keys = ["a", "b.c", "b.c.d", ""];
        let cases: [(ExchangeKind, &str, &[&str]); 5] = [
            (ExchangeKind::Fanout, "", &keys),
            (ExchangeKind::Direct, "b.c", &["b.c"]),
            (ExchangeKind::Topic, "b.*", &["b.c"]),
            (ExchangeKind::Topic, "*.c.#", &["b.c", "b.c.d"]),
            (ExchangeKind::Topic, "#", &keys),
        ];
        for (kind, binding, expected) in cases {
            let name = exchange(&channel, kind.clone(), "exchange").await;
            let queue = exclusive_queue(&channel, FieldTable::default()).await;
            let bind = channel.queue_bind(
                queue.as_str().into(),
                name.as_str().into(),
                binding.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            );
            bind.await.unwrap();
            let mut consumer = consume(&channel, &queue, true).await;
            for key in keys {
                publish(&channel, &name, key, key.as_bytes(), BasicProperties::default()).await;
            }
            for want in expected {
                assert_eq!(next(&mut consumer).await.data, want.as_bytes(), "{kind:?} {binding}");
            }
            channel
                .queue_unbind(
                    queue.as_str().into(),
                    name.as_str().into(),
                    binding.into(),
                    FieldTable::default(),
                )
                .await
                .unwrap();
            expect_nothing(&mut consumer).await;
        }
    });
}

#[test]
fn headers_exchange_behind_an_exchange_to_exchange_binding() {
    run(|url| async move {
        let (_connection, channel) = open(&url).await;
        let source = exchange(&channel, ExchangeKind::Fanout, "source").await;
        let headers = exchange(&channel, ExchangeKind::Headers, "headers").await;
        let table = |pairs: &[(&str, AMQPValue)]| {
            let mut table = FieldTable::default();
            for (key, value) in pairs {
                table.insert((*key).into(), value.clone());
            }
            table
        };
        let bind = ExchangeBindOptions::default();
        channel
            .exchange_bind(
                headers.as_str().into(),
                source.as_str().into(),
                "".into(),
                bind,
                FieldTable::default(),
            )
            .await
            .unwrap();
        let queue = exclusive_queue(&channel, FieldTable::default()).await;
        let wanted = table(&[
            ("x-match", AMQPValue::LongString("all".into())),
            ("size", 3.into()),
            ("colour", AMQPValue::LongString("red".into())),
        ]);
        channel
            .queue_bind(
                queue.as_str().into(),
                headers.as_str().into(),
                "".into(),
                QueueBindOptions::default(),
                wanted,
            )
            .await
            .unwrap();
        let mut consumer = consume(&channel, &queue, true).await;
        for (body, size) in [("no", 2), ("yes", 3)] {
            let sent = table(&[("size", size.into()), ("colour", AMQPValue::LongString("red".into()))]);
            publish(&channel, &source, "", body.as_bytes(), BasicProperties::default().with_headers(sent))
                .await;
        }
        assert_eq!(next(&mut consumer).await.data, b"yes");
        expect_nothing(&mut consumer).await;
    });
}

#[test]
fn rpc_with_direct_reply_to() {
    run(|url| async move {
        let (server_connection, server) = open(&url).await;
        let queue = durable_queue(&server, "rpc").await;
        let mut requests = consume(&server, &queue, false).await;
        let serving = tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                let reply_to = request.properties.reply_to().clone().unwrap();
                assert!(reply_to.as_str().starts_with("amq.rabbitmq.reply-to."), "{reply_to}");
                let properties = BasicProperties::default()
                    .with_correlation_id(request.properties.correlation_id().clone().unwrap());
                publish(&server, "", reply_to.as_str(), &request.data.to_ascii_uppercase(), properties).await;
                request.ack(BasicAckOptions::default()).await.unwrap();
            }
        });
        let (client_connection, client) = open(&url).await;
        let mut replies = consume(&client, "amq.rabbitmq.reply-to", true).await;
        for i in 0..100 {
            let properties = BasicProperties::default()
                .with_reply_to("amq.rabbitmq.reply-to".into())
                .with_correlation_id(i.to_string().as_str().into());
            publish(&client, "", &queue, format!("call {i}").as_bytes(), properties).await;
        }
        for _ in 0..100 {
            let reply = next(&mut replies).await;
            let id = reply.properties.correlation_id().clone().unwrap();
            assert_eq!(String::from_utf8(reply.data).unwrap(), format!("CALL {id}"));
        }
        let other = client_connection.create_channel().await.unwrap();
        let acking = other
            .basic_consume(
                "amq.rabbitmq.reply-to".into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await;
        assert_eq!(
            refusal(acking),
            (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge".to_owned())
        );
        server_connection.close(200, "bye".into()).await.unwrap();
        serving.await.unwrap();
    });
}

#[test]
fn publisher_confirms_one_by_one_and_many_at_once() {
    run(|url| async move {
        let connection = connect(&url).await;
        let channel = connection.create_channel().await.unwrap();
        let queue = durable_queue(&channel, "confirms").await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let send = || {
            let properties = BasicProperties::default().with_delivery_mode(2);
            channel.basic_publish(
                "".into(),
                queue.as_str().into(),
                BasicPublishOptions::default(),
                b"x",
                properties,
            )
        };
        for _ in 0..20 {
            assert_eq!(send().await.unwrap().await.unwrap(), Confirmation::Ack(None));
        }
        let mut pending = Vec::new();
        for _ in 0..1000 {
            pending.push(send().await.unwrap());
        }
        for confirm in pending {
            assert_eq!(confirm.await.unwrap(), Confirmation::Ack(None));
        }
        for _ in 0..100 {
            drop(send().await.unwrap());
        }
        assert!(channel.wait_for_confirms().await.unwrap().is_empty());
        assert_eq!(
            channel.queue_purge(queue.as_str().into(), QueuePurgeOptions::default()).await.unwrap(),
            1120
        );
    });
}
