//! Documents imported, exported and refused.

use super::*;
use crate::commands::run;
use crate::protocol::{Answer, Request};
use broker::{Broker, BrokerOptions};
use serde_json::json;

fn command(broker: &Broker, words: &[&str]) -> Answer {
    let mut words = words.iter().map(|word| (*word).to_owned());
    run(broker, &Request { command: words.next().unwrap(), args: words.collect(), ..Request::default() })
}

fn export(broker: &Broker) -> String {
    let Answer::Done { ok } = command(broker, &["export_definitions"]) else { panic!() };
    ok
}

fn sample() -> Value {
    json!({
        "users": [{"name": "u", "password": "pw", "tags": "administrator, monitoring"}],
        "vhosts": [{"name": "v", "metadata": {"description": "d", "tags": ["t"]}}],
        "permissions": [{"user": "u", "vhost": "v", "configure": ".*", "write": "", "read": "^a"}],
        "topic_permissions":
            [{"user": "u", "vhost": "v", "exchange": "x", "write": ".*", "read": "^{username}"}],
        "global_parameters": [{"name": "cluster_tags", "value": []}],
        "policies": [{"vhost": "v", "name": "p", "pattern": "^q", "apply-to": "queues",
            "definition": {"max-length": 5}, "priority": 1}],
        "queues": [{"name": "q", "vhost": "v", "durable": true, "auto_delete": false, "arguments":
            {"x-max-length": 5, "x-overflow": "reject-publish", "own": {"list": [1, "two", true, null, 2.5]}}}],
        "exchanges": [{"name": "x", "vhost": "v", "type": "topic", "durable": true, "auto_delete": false,
            "internal": false, "arguments": {"alternate-exchange": "amq.fanout"}}],
        "bindings": [{"source": "x", "vhost": "v", "destination": "q", "destination_type": "queue",
            "routing_key": "a.#", "arguments": {"n": -1}}],
    })
}

#[test]
fn an_export_imported_into_an_empty_broker_is_the_same_export() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name| Broker::open(&folder.path().join(name), BrokerOptions::default()).unwrap();
    let (source, target) = (open("source"), open("target"));
    assert_eq!(command(&source, &["import_definitions", &sample().to_string()]), Answer::done());
    let exported = export(&source);
    let document: Value = serde_json::from_str(&exported).unwrap();
    let given = sample();
    assert_eq!(document["bindings"], given["bindings"]);
    assert_eq!(document["exchanges"], given["exchanges"]);
    assert_eq!(document["policies"], given["policies"]);
    assert_eq!(document["queues"][0]["arguments"], given["queues"][0]["arguments"]);
    assert_eq!(command(&target, &["import_definitions", &exported]), Answer::done());
    assert_eq!(export(&target), exported);
    let login = command(&target, &["authenticate_user", "u", "pw"]);
    assert!(matches!(login, Answer::Done { .. }), "{login:?}");
    assert!(target.vhost("v").unwrap().queue(b"q").is_some());
    source.shutdown();
    target.shutdown();
}

#[test]
fn what_exists_and_differs_stays() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    command(&broker, &["import_definitions", &sample().to_string()]);
    let mut other = sample();
    other["queues"][0]["arguments"] = json!({});
    other["exchanges"][0]["type"] = "direct".into();
    assert_eq!(command(&broker, &["import_definitions", &other.to_string()]), Answer::done());
    let document: Value = serde_json::from_str(&export(&broker)).unwrap();
    assert_eq!(document["queues"][0]["arguments"]["x-max-length"], 5);
    assert_eq!(document["exchanges"][0]["type"], "topic");
    broker.shutdown();
}

#[test]
fn mistakes_are_told_and_nothing_else_is_read() {
    let change = |list: &str, key: &str, value: Value| {
        let mut document = sample();
        document[list][0][key] = value;
        read(&document.to_string(), "/").unwrap_err()
    };
    assert!(read("[", "/").unwrap_err().contains("not a definitions document"));
    assert!(change("queues", "durable", "yes".into()).contains("not a definitions document"));
    assert!(change("queues", "name", "q".repeat(256).into()).contains("256"));
    assert!(change("queues", "arguments", json!({"x-queue-type": "quorum"})).contains("quorum"));
    assert!(change("queues", "arguments", json!({"x-max-length": -1})).contains("x-max-length"));
    assert!(change("queues", "arguments", json!({("n".repeat(129)): 1})).contains("129"));
    assert!(change("exchanges", "type", "odd".into()).contains("odd"));
    assert!(change("permissions", "read", "(".into()).contains("'('"));
    assert!(change("users", "password_hash", "AAAA".into()).contains("user 'u'"));
    assert!(change("bindings", "destination_type", "moon".into()).contains("moon"));
}

#[test]
fn entries_of_one_vhosts_document_go_where_asked() {
    let text = r#"{"queues":[{"name":"q","durable":true,"auto_delete":false,"arguments":{}}]}"#;
    assert_eq!(&*read(text, "there").unwrap().queues[0].vhost, b"there");
}
