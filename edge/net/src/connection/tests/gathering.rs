//! Messages of many publishers for one consumer, on a thread that has all of them to serve.

use super::*;

/// More than a thread serves before it counts as busy.
const PUBLISHERS: usize = 40;

/// Publishers and one consumer of a queue, all of them served by the thread that asks.
async fn connected() -> (Vec<Client>, Client) {
    let mut consumer = Client::opened(0).await;
    consumer.open_channel().await;
    let queue = ShortStr::bounded(b"all");
    consumer.send(1, &[queue::Declare { queue, ..queue::Declare::default() }.into()]).await;
    consumer.expect("queue.declare-ok").await;
    consumer.send(1, &[basic::Consume { queue, no_ack: true, ..basic::Consume::default() }.into()]).await;
    consumer.expect("basic.consume-ok").await;
    let mut publishers = Vec::new();
    for _ in 0..PUBLISHERS {
        let mut publisher = Client::of(consumer.broker.clone(), consumer.folder.clone()).open(0).await;
        publisher.open_channel().await;
        publishers.push(publisher);
    }
    (publishers, consumer)
}

#[test]
fn a_busy_thread_writes_to_a_consumer_once_for_many_publishers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let all = async {
        let (mut publishers, mut consumer) = connected().await;
        let mut message = Vec::new();
        wire::amqp091::encode_publish(&mut message, 1, b"", b"all", false, &[0; 2], b"abc", 4096);
        let before = consumer.writes.load(Ordering::Relaxed);
        // Without a turn for anybody else: the pipes have room.
        for publisher in &mut publishers {
            publisher.stream.write_all(&message).await.expect("it reads");
        }
        for _ in 0..PUBLISHERS {
            consumer.expect("basic.deliver").await;
            consumer.frame().await.expect("a header");
            assert_eq!(consumer.frame().await.expect("a body").1, b"abc");
        }
        let writes = consumer.writes.load(Ordering::Relaxed) - before;
        assert!(writes < PUBLISHERS / 4, "{writes} writes for {PUBLISHERS} messages");
        consumer.broker.shutdown();
    };
    // On the one thread that serves.
    runtime.block_on(async { tokio::spawn(all).await.expect("no panic") });
}
