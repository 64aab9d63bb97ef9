//! lapin over TLS. All it needs is in the environment: `TLS_PORT` and `TLS_CA`, a bundle in PEM; with `TLS_CERT` and `TLS_KEY` it shows a
//! certificate of its own and logs in with it.

use lapin::options::{BasicAckOptions, BasicPublishOptions, ConfirmSelectOptions};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};

use crate::broker::{consume, exclusive_queue, next};

#[test]
fn encrypted() {
    let (Ok(port), Ok(authorities)) = (std::env::var("TLS_PORT"), std::env::var("TLS_CA")) else {
        println!("SKIPPED: TLS_PORT is not set, so lapin over TLS was NOT tested");
        return;
    };
    let file = |name: &str| std::env::var(name).ok().map(|path| std::fs::read(path).unwrap());
    let identity = file("TLS_CERT").map(|pem| OwnedIdentity::PKCS8 { pem, key: file("TLS_KEY").unwrap() });
    let url = match identity {
        Some(_) => format!("amqps://localhost:{port}/%2f?auth_mechanism=external"),
        None => format!("amqps://guest:guest@localhost:{port}/%2f"),
    };
    let config = OwnedTLSConfig { identity, cert_chain: Some(std::fs::read_to_string(authorities).unwrap()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let runtime = lapin::runtime::default_runtime().unwrap();
        let properties = ConnectionProperties::default();
        let connection = Connection::connect_with_config(&url, properties, config, runtime).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let queue = exclusive_queue(&channel, FieldTable::default()).await;
        let body = vec![7; 300_000];
        let options = BasicPublishOptions::default();
        let published = channel.basic_publish(
            "".into(),
            queue.as_str().into(),
            options,
            &body,
            BasicProperties::default(),
        );
        assert!(published.await.unwrap().await.unwrap().is_ack());
        let mut consumer = consume(&channel, &queue, false).await;
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.data, body);
        delivery.ack(BasicAckOptions::default()).await.unwrap();
        connection.close(200, "done".into()).await.unwrap();
    });
}
