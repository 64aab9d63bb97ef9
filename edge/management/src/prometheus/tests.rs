//! Pages of a real broker.

use std::io;
use std::sync::Arc;

use broker::{Broker, BrokerOptions, Incoming, Principal, PublishChannel, Publisher, QueueDeclare};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ExtraMetrics, Kind, Login, Page, Prometheus, PrometheusOptions};
use crate::http::HttpListener;
use crate::resources::node::tests::sample;

struct One;

impl ExtraMetrics for One {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.single("one", Kind::Gauge, "One.", 1.0)
    }
}

struct World {
    broker: Broker,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        World { broker, _folder: folder }
    }

    fn principal(&self) -> Principal {
        let user = self.broker.authenticate("guest", b"guest", true).unwrap();
        let vhost = self.broker.vhost("/").unwrap();
        Principal {
            user,
            vhost,
            connection: self.broker.next_connection_id(),
            connection_name: "test".into(),
            client: None,
        }
    }

    fn declare(&self, name: &str) {
        let declare = QueueDeclare {
            name: name.as_bytes(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: wire::amqp091::Table::EMPTY,
        };
        self.broker.declare_queue(&self.principal(), declare).unwrap();
    }

    /// Status and body of requests, one after the other.
    async fn get(&self, options: PrometheusOptions, requests: &[&str]) -> Vec<(u16, String)> {
        let pages = Prometheus::new(self.broker.clone(), sample(), options, vec![Arc::new(One)]);
        let listener = HttpListener::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listener.local_address().unwrap();
        let serving = tokio::spawn(listener.serve(pages.router()));
        let mut answers = Vec::new();
        for request in requests {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            answers.push((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()));
        }
        serving.abort();
        answers
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn sums_and_objects_show_what_was_published() {
    let world = World::new();
    world.declare("a\"b");
    let principal = world.principal();
    let mut publisher = Publisher::new(&world.broker, &principal);
    let mut channel = PublishChannel::new();
    for body in [&b"x"[..], &[0; 500]] {
        let message =
            Incoming { exchange: b"", routing_key: b"a\"b", properties: &[0, 0], body, mandatory: false };
        publisher.publish(&mut channel, message).unwrap();
    }
    drop(publisher);
    let pages = ["GET /metrics HTTP/1.1", "GET /metrics/per-object HTTP/1.1"];
    let answers = run(world.get(PrometheusOptions::default(), &pages));
    for line in [
        "rabbitmq_queue_messages_ready 2",
        "rabbitmq_queue_messages_bytes 501",
        "rabbitmq_queues 1",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"100\"} 1",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"1000\"} 2",
        "warren_one 1",
        "warren_delivery_stalls_total 0",
        "rabbitmq_exchange_messages_published_total 2",
        "rabbitmq_alarms_memory_used_watermark 0",
    ] {
        assert!(answers[0].1.contains(&format!("\n{line}\n")), "{line}");
    }
    let line = "rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"a\\\"b\"} 2";
    assert!(answers[1].1.contains(line), "{}", answers[1].1);
    world.broker.shutdown();
}

#[test]
fn only_what_is_asked_for_is_shown_and_nonsense_is_refused() {
    let world = World::new();
    world.declare("one");
    world.declare("two");
    let requests = [
        "GET /metrics/detailed?family=queue_coarse_metrics&vhost=%2F&queue=two HTTP/1.1",
        "GET /metrics/detailed?family=queue_coarse_metrics&vhost=other HTTP/1.1",
        "GET /metrics/detailed?family=nonsense HTTP/1.1",
        "GET /metrics/nonsense HTTP/1.1",
        "POST /metrics HTTP/1.1",
        "GET / HTTP/1.1",
    ];
    let answers = run(world.get(PrometheusOptions::default(), &requests));
    assert!(answers[0].1.contains("queue=\"two\"") && !answers[0].1.contains("queue=\"one\""));
    assert!(!answers[1].1.contains("queue=\"") && !answers[2].1.contains("queue_messages"));
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 200, 404, 405, 404]);
    world.broker.shutdown();
}

#[test]
fn where_a_login_is_asked_for_only_monitoring_users_read() {
    let world = World::new();
    let options = PrometheusOptions { login: Login::Monitoring, ..PrometheusOptions::default() };
    let requests = [
        "GET /metrics HTTP/1.1",
        "GET /metrics HTTP/1.1\r\nAuthorization: Basic Z3Vlc3Q6d3Jvbmc=",
        "GET /metrics HTTP/1.1\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=",
    ];
    let answers = run(world.get(options, &requests));
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [401, 401, 200]);
    world.broker.shutdown();
}
