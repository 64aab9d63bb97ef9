//! Where the broker is, unique names, and the small steps that the tests share. Refuses to know any one behaviour.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_lite::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ErrorKind, ExchangeKind};

/// The time that any wait may take: a hang is a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(15);

/// The broker's URL, or `None` (and a line that says so) when nobody named one.
pub(crate) fn url() -> Option<String> {
    let url = std::env::var("AMQP_URL").ok();
    if url.is_none() {
        println!("SKIPPED: AMQP_URL is not set, so lapin was NOT tested");
    }
    url
}

/// Runs a test on a runtime of its own, with a deadline.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(String) -> F) {
    run_within(DEADLINE * 2, test);
}

pub(crate) fn run_within<F: Future<Output = ()>>(deadline: Duration, test: impl FnOnce(String) -> F) {
    let Some(url) = url() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(deadline, test(url)).await.expect("the test hangs") });
}

/// A name that no other test and no other run uses.
pub(crate) fn unique(stem: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("rust.{}.{now_ns}.{}.{stem}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn connect(url: &str) -> Connection {
    Connection::connect(url, ConnectionProperties::default()).await.unwrap()
}

pub(crate) async fn open(url: &str) -> (Connection, Channel) {
    let connection = connect(url).await;
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// A server-named queue that goes with its connection.
pub(crate) async fn exclusive_queue(channel: &Channel, arguments: FieldTable) -> String {
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("".into(), options, arguments).await.unwrap().name().to_string()
}

/// A durable queue; it expires by itself some time after the test.
pub(crate) async fn durable_queue(channel: &Channel, stem: &str) -> String {
    let name = unique(stem);
    let mut arguments = FieldTable::default();
    arguments.insert("x-expires".into(), 120_000.into());
    channel.queue_declare(name.as_str().into(), QueueDeclareOptions::durable(), arguments).await.unwrap();
    name
}

/// A durable exchange that goes when its last binding goes.
pub(crate) async fn exchange(channel: &Channel, kind: ExchangeKind, stem: &str) -> String {
    let name = unique(stem);
    let options =
        ExchangeDeclareOptions { durable: true, auto_delete: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(name.as_str().into(), kind, options, FieldTable::default()).await.unwrap();
    name
}

pub(crate) async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &[u8],
    properties: BasicProperties,
) {
    channel
        .basic_publish(exchange.into(), key.into(), BasicPublishOptions::default(), body, properties)
        .await
        .unwrap();
}

pub(crate) async fn consume(channel: &Channel, queue: &str, no_ack: bool) -> Consumer {
    let options = BasicConsumeOptions { no_ack, ..BasicConsumeOptions::default() };
    channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap()
}

pub(crate) async fn next(consumer: &mut Consumer) -> Delivery {
    tokio::time::timeout(DEADLINE, consumer.next())
        .await
        .expect("no delivery came")
        .expect("the consumer ended")
        .unwrap()
}

pub(crate) async fn expect_nothing(consumer: &mut Consumer) {
    let waited = tokio::time::timeout(Duration::from_millis(100), consumer.next()).await;
    assert!(waited.is_err(), "an unexpected delivery: {waited:?}");
}

/// Reply code and text of what the broker refused.
pub(crate) fn refusal<T: std::fmt::Debug>(result: lapin::Result<T>) -> (u16, String) {
    let error = result.unwrap_err();
    match error.kind() {
        ErrorKind::ProtocolError(refused) => (refused.get_id(), refused.get_message().to_string()),
        _ => panic!("not a refusal by the broker: {error:?}"),
    }
}
