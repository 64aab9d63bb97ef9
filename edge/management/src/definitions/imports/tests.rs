//! Documents imported, exported and refused.

use broker::{Broker, BrokerOptions};
use metadata::PolicyKind;
use serde_json::{Value, json};

use super::*;
use crate::ctl::protocol::{Answer, Request};
use crate::ctl::table::run;

/// Any password will do.
fn read(document: &str, vhost: &str) -> Result<Import, Problem> {
    super::read(document, Scope::Node(Some(vhost)), &PasswordRule::Any)
}

fn command(broker: &Broker, words: &[&str]) -> Answer {
    let mut words = words.iter().map(|word| (*word).to_owned());
    run(
        broker,
        &crate::resources::node::tests::sample(),
        &Request { command: words.next().unwrap(), args: words.collect(), ..Request::default() },
    )
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
        "parameters": [{"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}}],
        "global_parameters":
            [{"name": "cluster_tags", "value": []}, {"name": "internal_cluster_id", "value": "not ours"}],
        "policies": [],
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
    let mut given = sample();
    given["queues"][0]["arguments"]["x-queue-type"] = "classic".into();
    given["queues"][0]["arguments"]["own"]["list"][3] = "undefined".into();
    assert_eq!(document["bindings"], given["bindings"]);
    assert_eq!(document["exchanges"], given["exchanges"]);
    assert_eq!(document["parameters"], given["parameters"]);
    assert_eq!(document["vhosts"][1]["limits"], json!({"max-queues": 5}));
    assert_eq!(document["global_parameters"], json!([{"name": "cluster_tags", "value": []}]));
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
        read(&document.to_string(), "/").err().unwrap()
    };
    assert!(read("[", "/").err().unwrap().contains("not a definitions document"));
    let told = "queue 'q' in vhost 'v': 'durable': invalid type: string \"yes\", expected a boolean";
    assert_eq!(change("queues", "durable", "yes".into()), told);
    assert!(change("queues", "name", "q".repeat(256).into()).contains("256"));
    assert!(change("queues", "arguments", json!({"x-max-length": -1})).contains("x-max-length"));
    assert!(change("queues", "arguments", json!({("n".repeat(256)): 1})).contains("256"));
    assert!(change("parameters", "value", json!({"max-queues": "x"})).contains("max-queues"));
    assert!(change("users", "password_hash", "AAAA".into()).contains("user 'u'"));
    assert!(change("bindings", "destination_type", "moon".into()).contains("moon"));
}

#[test]
fn an_entry_that_is_wrong_is_named_with_its_field() {
    let told = |document: Value| read(&document.to_string(), "/").err().unwrap();
    for (document, expected) in [
        (json!({"queues": 5}), "'queues' of the document is not a list"),
        (json!({"queues": [null, "x"]}), "entry 2 of 'queues' is not an object"),
        (
            json!({"queues": [{"name": 5}]}),
            "queue without a name, number 1: 'name': invalid type: integer `5`",
        ),
        (
            json!({"queues": [{"vhost": "v"}]}),
            "queue without a name, number 1 in vhost 'v': missing field `name`",
        ),
        (
            json!({"queues": [{"name": "q", "arguments": [1]}]}),
            "queue 'q': 'arguments': arguments are an object",
        ),
        (
            json!({"exchanges": [{"name": "x", "vhost": "v", "type": 5}]}),
            "exchange 'x' in vhost 'v': 'type': invalid",
        ),
        (
            json!({"policies": [{"name": "p", "vhost": 5}]}),
            "policy 'p': 'vhost': the vhost of a policy is a text",
        ),
        (
            json!({"vhosts": [{"name": "v", "metadata": {"tags": 5}}]}),
            "vhost 'v': 'metadata': tags are a list",
        ),
        (
            json!({"users": [{"name": "u", "tags": []}, {"name": "w", "tags": 5}]}),
            "user 'w': 'tags': tags are a list",
        ),
        (json!({"users": [{"name": "u", "tags": [], "limits": 5}]}), "user 'u': limits are an object"),
        (
            json!({"permissions": [{"user": "u", "vhost": "v", "write": "", "read": 5}]}),
            "permissions of user 'u' in vhost 'v': 'read': invalid type: integer `5`",
        ),
        (
            json!({"bindings": [{"source": "x", "destination": "q", "destination_type": "queue", "routing_key": 5}]}),
            "binding of 'x' to 'q': 'routing_key': invalid type: integer `5`",
        ),
        (
            json!({"bindings": [{"source": "x", "destination": "q", "destination_type": "queue"}]}),
            "binding of 'x' to 'q': missing field `routing_key`",
        ),
        (
            json!({"global_parameters": [{"name": 5, "value": 1}]}),
            "global parameter without a name, number 1: 'name'",
        ),
    ] {
        let problem = told(document);
        assert!(problem.starts_with(expected), "{problem}");
    }
}

/// RabbitMQ keeps these names as atoms, and exports them as what JSON takes them for.
#[test]
fn global_parameters_may_be_called_as_words_of_json() {
    let parameters: Vec<_> = [json!(null), json!(true), json!("null"), json!("x")]
        .map(|name| json!({"name": name, "value": {"a": 1}}))
        .into();
    let read = read(&json!({"global_parameters": parameters}).to_string(), "/").unwrap();
    let names: Vec<_> = read.definitions.global_parameters.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["null", "true", "null", "x"]);
}

#[test]
fn an_entry_without_a_vhost_goes_to_the_one_that_is_asked_for_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let binding = json!({"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "k"});
    let policy = json!({"name": "p", "pattern": "a", "definition": {"max-length": 1}});
    let limits = json!({"component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}});
    let operator = json!({"component": "operator_policy", "name": "o", "value": policy});
    let permissions = json!({"user": "guest", "configure": "", "write": "", "read": "", "exchange": ""});
    for (list, entry, named) in [
        ("queues", json!({"name": "q"}), "queue 'q'"),
        ("queues", json!({"name": "q", "vhost": null}), "queue 'q'"),
        ("exchanges", json!({"name": "x", "type": "topic"}), "exchange 'x'"),
        ("bindings", binding, "binding of 'x'"),
        ("policies", policy.clone(), "policy 'p'"),
        ("parameters", limits, "parameter 'limits'"),
        ("parameters", operator, "operator policy 'o'"),
        ("permissions", permissions.clone(), "permissions of user 'guest'"),
        ("topic_permissions", permissions, "topic permissions of user 'guest'"),
    ] {
        let document =
            json!({"queues": [{"name": "whole", "vhost": "/"}, {"name": "q", "vhost": "/"}], list: [entry]});
        let refused =
            import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node);
        assert!(refused.unwrap_err().starts_with(&format!("{named} names no vhost; ")), "{list}");
        assert!(broker.vhost("/").unwrap().queue(b"whole").is_none(), "{list}");
        assert!(read(&document.to_string(), "there").is_ok(), "{list}");
    }
    broker.shutdown();
}

#[test]
fn what_is_null_or_left_out_takes_no_password_tag_or_permission_away_and_restricts_nothing_else() {
    let change = |list: &str, key: &str, value: Option<Value>| {
        let mut document = sample();
        let entry = document[list][0].as_object_mut().unwrap();
        match value {
            Some(value) => entry.insert(key.into(), value),
            None => entry.remove(key),
        };
        read(&document.to_string(), "/").err().unwrap()
    };
    assert!(change("users", "password", Some(Value::Null)).contains("invalid type: null"));
    assert!(change("users", "password_hash", Some(Value::Null)).contains("invalid type: null"));
    assert!(change("users", "tags", None).contains("missing field `tags`"));
    assert!(change("permissions", "configure", Some(Value::Null)).contains("invalid type: null"));
    assert!(change("permissions", "configure", None).contains("configure is missing"));
    assert_eq!(
        change("topic_permissions", "exchange", None),
        "topic permissions of user 'u': exchange is missing"
    );
    let null = change("topic_permissions", "exchange", Some(Value::Null));
    assert!(null.starts_with("topic permissions of user 'u' in vhost 'v': 'exchange': invalid type: null"));
    let both = change("users", "password_hash", Some("AAAA".into()));
    assert!(both.contains("both password and password_hash"), "{both}");
}

/// RabbitMQ exports such of bindings that were made over its HTTP API.
#[test]
fn a_routing_key_that_is_null_is_the_empty_one() {
    let mut document = sample();
    document["bindings"][0]["routing_key"] = Value::Null;
    let binding = &read(&document.to_string(), "/").unwrap().definitions.bindings[0];
    assert_eq!((&*binding.source, &*binding.key), (&b"x"[..], &b""[..]));
}

#[test]
fn a_hashing_algorithm_is_that_of_a_hash_and_not_of_a_password() {
    let user = |key: &str, value: &str| {
        let user = json!({"name": "u", "tags": [], "hashing_algorithm": "nope", key: value});
        read(&json!({"users": [user]}).to_string(), "/")
    };
    let taken = user("password", "pw").unwrap();
    assert!(taken.definitions.users[0].credentials.verify(b"pw"));
    let refused = user("password_hash", "5HWYEZ5YcDvLAJIM8eUqs9e9Z2+gyE4NfKQT8A9CSNbPqtKT").unwrap_err();
    assert_eq!(refused, "user 'u': unknown hashing algorithm 'nope'");
}

#[test]
fn entries_of_one_vhosts_document_go_where_asked() {
    let text = r#"{"queues":[{"name":"q","durable":true,"auto_delete":false,"arguments":{}}]}"#;
    assert_eq!(&*read(text, "there").unwrap().definitions.queues[0].vhost, b"there");
}

/// A document with one of each thing that Warren does not have.
fn mixed() -> Value {
    let mut document = sample();
    let queues = document["queues"].as_array_mut().unwrap();
    for kind in ["x-even", "x-odd"] {
        queues.push(json!({"name": kind, "vhost": "v", "durable": true, "auto_delete": false,
            "arguments": {"x-queue-type": kind, "x-max-length": -1}}));
    }
    let exchange =
        json!({"name": "odd", "vhost": "v", "type": "x-odd", "durable": true, "auto_delete": false});
    document["exchanges"].as_array_mut().unwrap().push(exchange);
    for (source, destination) in [("x", "x-even"), ("odd", "q")] {
        document["bindings"].as_array_mut().unwrap().push(json!({"source": source, "vhost": "v",
            "destination": destination, "destination_type": "queue", "routing_key": ""}));
    }
    document["policies"] =
        json!([{"vhost": "v", "name": "p", "pattern": "^q", "definition": {"ha-mode": "all"}}]);
    let parameters = document["parameters"].as_array_mut().unwrap();
    parameters.push(json!({"vhost": "v", "component": "shovel", "name": "s", "value": {}}));
    parameters.push(json!({"vhost": "v", "component": "operator_policy", "name": "o",
        "value": {"pattern": "", "definition": {"dead-letter-exchange": "x"}, "priority": 0}}));
    document["permissions"][0]["read"] = "(?R)".into();
    document
}

#[test]
fn a_default_queue_type_that_no_queue_can_have_is_told_and_becomes_classic() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let vhost =
        |name: &str, kind: &str| json!({"name": name, "metadata": {"default_queue_type": kind, "tags": []}});
    let document =
        json!({"vhosts": [vhost("q", "x-odd"), vhost("r", "quorum"), vhost("c", "classic"), vhost("u", "undefined")]}).to_string();
    let import = |unsupported| import(&broker, &document, Scope::Node(None), unsupported, Importer::Node);
    let refused = import(Unsupported::Refused).unwrap_err();
    assert!(refused.contains("1 default queue type") && broker.vhost("q").is_none(), "{refused}");
    let skipped =
        "skipped: default queue type 'x-odd' in vhost 'q': queues declared without a type are classic";
    assert_eq!(import(Unsupported::Skipped).unwrap(), [skipped]);
    let kind = |name: &[u8]| {
        broker.read_metadata(|state| state.vhost(name).unwrap().metadata().default_queue_type.clone())
    };
    assert_eq!(
        [&b"q"[..], b"r", b"c", b"u"].map(kind).map(|kind| kind.unwrap()),
        ["classic", "quorum", "classic", "classic"].map(Box::from)
    );
    broker.shutdown();
}

#[test]
fn what_warren_does_not_have_refuses_the_document_or_is_left_out_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let document = mixed().to_string();
    let refused =
        import(&broker, &document, Scope::Node(None), Unsupported::Refused, Importer::Node).unwrap_err();
    for part in
        ["2 queues of types it does not know, 1 exchange, 2 bindings", "1 policy", "--skip-unsupported"]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(broker.vhost("v").is_none(), "nothing was imported");
    let skipped =
        import(&broker, &document, Scope::Node(None), Unsupported::Skipped, Importer::Node).unwrap();
    assert_eq!(skipped.len(), 9, "{skipped:#?}");
    assert!(
        skipped.contains(&"skipped: queue 'x-even' in vhost 'v': type 'x-even'".to_owned()),
        "{skipped:#?}"
    );
    let vhost = broker.vhost("v").unwrap();
    assert!(vhost.queue(b"q").is_some() && vhost.queue(b"x-even").is_none());
    broker.shutdown();
}

#[test]
fn policies_come_in_are_at_work_and_go_out_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let mut document = sample();
    let policy = json!({"vhost": "v", "name": "p", "pattern": "^q", "apply-to": "queues",
        "definition": {"max-length": 5, "overflow": "reject-publish"}, "priority": 2});
    let value = json!({"pattern": "", "apply-to": "all", "definition": {"max-length": 3}, "priority": 0});
    let operator = json!({"vhost": "v", "component": "operator_policy", "name": "o", "value": value});
    document["policies"] = json!([policy]);
    document["parameters"].as_array_mut().unwrap().push(operator.clone());
    import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node).unwrap();
    let settings = broker.vhost("v").unwrap().queue(b"q").unwrap().policies().definition();
    assert_eq!(settings.to_json(), r#"{"max-length":3,"overflow":"reject-publish"}"#);
    let request = crate::Request::default();
    let crate::Answer::Done { ok } =
        crate::definitions::export::export_definitions(&broker, &request).unwrap()
    else {
        panic!()
    };
    let exported: Value = serde_json::from_str(&ok).unwrap();
    assert_eq!(exported["policies"], json!([policy]));
    assert!(exported["parameters"].as_array().unwrap().contains(&operator), "{exported}");

    document["policies"][0]["definition"]["max-length"] = "x".into();
    let told =
        import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Skipped, Importer::Node)
            .unwrap_err();
    assert_eq!(told, "policy 'p': <<\"x\">> is not a valid maximum length");
    broker.shutdown();
}

#[test]
fn policies_with_patterns_that_cannot_be_used_are_left_out_as_permissions_are() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let policy = |name: &str, pattern: &str| json!({"vhost": "/", "name": name, "pattern": pattern, "definition": {"max-length": 5}, "priority": 0});
    let operator = |name: &str, pattern: &str| json!({"vhost": "/", "component": "operator_policy", "name": name, "value": policy(name, pattern)});
    let document = json!({
        "policies": [policy("kept", "^k"), policy("p", "(a)?(?(1)b|c)"), policy("recursive", "(?R)")],
        "parameters": [operator("kept", "^k"), operator("o", "a{65535}")],
    });
    let (text, node, stage) = (document.to_string(), Scope::Node(None), Scope::Vhost("/"));
    let import = |scope, unsupported| import(&broker, &text, scope, unsupported, Importer::Node);
    let count = |kind| crate::resources::policies::policies(&broker, kind, Some("/")).unwrap().len();
    for scope in [node, stage] {
        let refused = import(scope, Unsupported::Refused).unwrap_err();
        for part in ["2 policies with settings or patterns", "1 operator policy,", "With --skip-unsupported"]
        {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
    assert_eq!((count(PolicyKind::User), count(PolicyKind::Operator)), (0, 0), "nothing was imported");
    for scope in [node, stage] {
        let skipped = import(scope, Unsupported::Skipped).unwrap();
        for (line, expected) in skipped.iter().zip([
            "skipped: policy 'p' in vhost '/': pattern '(a)?(?(1)b|c)': ",
            "skipped: policy 'recursive' in vhost '/': pattern '(?R)': ",
            "skipped: operator policy 'o' in vhost '/': pattern 'a{65535}': regular expression is too large",
        ]) {
            assert!(line.starts_with(expected), "{line}");
        }
        assert_eq!((skipped.len(), count(PolicyKind::User), count(PolicyKind::Operator)), (3, 1, 1));
    }
    broker.shutdown();
}

#[test]
fn entries_about_things_that_are_not_there_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let mut document = sample();
    document["permissions"][0]["user"] = "nobody".into();
    let told =
        import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node)
            .unwrap_err();
    assert!(told.contains("permissions of user 'nobody': user 'nobody' does not exist"), "{told}");
    assert!(broker.vhost("v").unwrap().queue(b"q").is_some(), "the rest is there");
    broker.shutdown();
}

#[test]
fn whoever_brings_bindings_from_the_exchange_of_events_learns_which_key_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    for (exchange, key) in
        [("amq.rabbitmq.event", "warren.event_exchange = true"), ("amq.rabbitmq.log", "log.exchange = true")]
    {
        let mut document = sample();
        document["bindings"][0]["source"] = exchange.into();
        let import =
            import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node);
        let told = import.unwrap_err();
        assert!(told.contains(&format!("exchange '{exchange}' does not exist: `{key}`")), "{told}");
    }
    broker.shutdown();
}

#[test]
fn more_vhosts_than_there_may_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = BrokerOptions { vhosts_max: Some(1), ..BrokerOptions::default() };
    let broker = Broker::open(folder.path(), options).unwrap();
    let refused =
        import(&broker, &sample().to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node)
            .unwrap_err();
    assert!(refused.contains("vhost limit of 1 is reached"), "{refused}");
    broker.shutdown();
}

/// As `rabbitmqctl export_definitions` of 3.10 writes them.
#[test]
fn objects_that_were_exported_as_lists_of_pairs_are_objects() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let document = json!({
        "vhosts": [{"name": "v"}],
        "parameters": [
            {"vhost": "v", "component": "operator_policy", "name": "o",
             "value": {"pattern": ".*", "apply-to": "queues", "priority": 1, "definition": [["message-ttl", 60000]]}},
            {"vhost": "v", "component": "shovel", "name": "s",
             "value": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": ["amqp://"], "dest-queue": "b",
                       "dest-publish-properties": [["delivery_mode", 2]], "src-queue-args": []}},
        ],
    });
    import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node).unwrap();
    let exported: Value = serde_json::from_str(&export(&broker)).unwrap();
    let values: Vec<_> = exported["parameters"].as_array().unwrap().iter().map(|it| &it["value"]).collect();
    assert!(values.iter().any(|value| value["definition"] == json!({"message-ttl": 60000})), "{values:?}");
    assert!(values.iter().any(|value| value["dest-publish-properties"] == json!({"delivery_mode": 2})));
    broker.shutdown();
}

#[test]
fn who_imports_a_vhost_may_do_everything_in_it_unless_the_document_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    broker.add_user("u", "pw", &[]).unwrap().wait().unwrap();
    let permission = json!({"user": "u", "vhost": "said", "configure": "^a", "write": "", "read": ""});
    let document =
        json!({"vhosts": [{"name": "new"}, {"name": "said"}, {"name": "/"}], "permissions": [permission]});
    import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::User("u"))
        .unwrap();
    let configure = |vhost: &str| {
        broker.read_metadata(|state| {
            let granted = state.user(b"u").unwrap().permissions.get(vhost.as_bytes());
            granted.map(|it| it.configure.to_string())
        })
    };
    assert_eq!(configure("new").as_deref(), Some(".*"));
    assert_eq!(configure("said").as_deref(), Some("^a"));
    assert_eq!(configure("/"), None, "it was there");
    broker.shutdown();
}

#[test]
fn a_vhosts_protection_stays_when_a_document_does_not_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let after = |document: Value| {
        import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node)
            .unwrap();
        is_protected(&broker, &b"v"[..].into())
    };
    assert!(after(json!({"vhosts": [{"name": "v", "metadata": {"protected_from_deletion": true}}]})));
    assert!(after(json!({"vhosts": [{"name": "v"}]})));
    assert!(!after(json!({"vhosts": [{"name": "v", "metadata": {"protected_from_deletion": false}}]})));
    broker.shutdown();
}

#[test]
fn what_is_left_out_by_hand_is_as_in_rabbitmq() {
    let text = r#"{"queues":[{"name":"q"}],"exchanges":[{"name":"x","type":"topic","arguments":[]}],
        "bindings":[{"source":"x","destination":"q","destination_type":"queue","routing_key":"k"},
                    {"source":"","destination":"q","destination_type":"queue","routing_key":"q"}]}"#;
    let read_all = read(text, "/").unwrap().definitions;
    let (queue, exchange) = (&read_all.queues[0], &read_all.exchanges[0]);
    assert_eq!((queue.durable, queue.auto_delete), (true, false));
    assert_eq!((exchange.durable, exchange.auto_delete, exchange.internal), (true, false, false));
    assert_eq!(read_all.bindings.len(), 1, "all queues are bound to the default exchange");
    for arguments in ["null", "5", r#"["a"]"#] {
        let text = format!(r#"{{"queues":[{{"name":"q","arguments":{arguments}}}]}}"#);
        assert!(read(&text, "/").is_err(), "{arguments}");
    }
}

#[test]
fn imported_queues_have_their_type_in_their_arguments() {
    let text = r#"{"queues":[{"name":"q","durable":true,"auto_delete":false,"arguments":{"z":1,"a":1}}]}"#;
    let queue = &read(text, "/").unwrap().definitions.queues[0];
    assert_eq!(
        crate::resources::values::table(queue.arguments.raw()),
        json!({"a": 1, "x-queue-type": "classic", "z": 1})
    );
}

#[test]
fn definitions_for_a_vhost_touch_nothing_outside_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    for name in ["stage", "v"] {
        broker.add_vhost(name).unwrap().wait().unwrap();
    }
    let mut document = sample();
    document["users"] = json!([{"name": "guest", "password": "other", "tags": ""}]);
    document["vhosts"] = json!([{"name": "another"}]);
    document["global_parameters"] = json!([{"name": "g", "value": 1}]);
    document["policies"] =
        json!([{"vhost": "v", "name": "p", "pattern": "q", "definition": {"max-length": 5}}]);
    let stage = Scope::Vhost("stage");
    import(&broker, &document.to_string(), stage, Unsupported::Refused, Importer::Node).unwrap();
    let exported: Value = serde_json::from_str(&export(&broker)).unwrap();
    for part in ["queues", "exchanges", "bindings", "policies", "parameters"] {
        let entries = exported[part].as_array().unwrap();
        assert!(entries.len() == 1 && entries[0]["vhost"] == "stage", "{part}: {entries:?}");
    }
    assert!(broker.vhost("another").is_none() && broker.authenticate("guest", b"guest", true).is_some());
    assert_eq!((&exported["topic_permissions"], &exported["global_parameters"]), (&json!([]), &json!([])));
    assert!(broker.authenticate("u", b"pw", true).is_none());
    broker.shutdown();
}

#[test]
fn more_queues_or_exchanges_than_there_may_be_are_refused_and_nothing_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let options = BrokerOptions { queues_max: Some(3), exchanges_max: Some(20), ..BrokerOptions::default() };
    let broker = Broker::open(folder.path(), options).unwrap();
    let many = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"name": format!("n{n}"), "vhost": "v", "type": "topic"})).collect()
    };
    let taken = |document: Value| {
        import(&broker, &document.to_string(), Scope::Node(None), Unsupported::Refused, Importer::Node)
    };
    taken(json!({"vhosts": [{"name": "v"}]})).unwrap();
    let limits: metadata::Limits = [("max-queues".into(), 2)].into_iter().collect();
    broker.set_vhost_limits("v", limits).unwrap().wait().unwrap();
    let queues = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"name": format!("n{n}"), "vhost": "v"})).collect()
    };
    assert!(taken(json!({"queues": queues(2)})).is_ok() && taken(json!({"queues": queues(2)})).is_ok());
    let refused = taken(json!({"queues": queues(3)})).unwrap_err();
    assert_eq!(
        refused,
        "Adding 1 queue(s) to virtual host \"v\" would exceed the limit of 2 queue(s).\n\n\
         This virtual host currently has 2 queue(s) defined.\n\nImport aborted!"
    );
    let elsewhere = json!({"queues": [{"name": "a", "vhost": "/"}, {"name": "b", "vhost": "/"}]});
    let refused = taken(elsewhere).unwrap_err();
    assert!(refused.starts_with("Adding 2 queue(s) would exceed the cluster's limit of 3"), "{refused}");
    let refused = taken(json!({"exchanges": many(9)})).unwrap_err();
    assert!(refused.contains("limit of 20 exchange(s)"), "{refused}");
    assert_eq!((broker.queue_count(), broker.vhost("v").unwrap().exchange(b"n0").is_some()), (2, false));
    broker.shutdown();
}

#[test]
fn topic_permissions_are_for_exchanges_that_are_there_or_come_along() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    let taken = |exchange: &str, unsupported| {
        let restricted =
            json!({"user": "guest", "vhost": "/", "exchange": exchange, "write": "", "read": ""});
        let document = json!({"topic_permissions": [restricted], "exchanges": [{"name": "new", "vhost": "/", "type": "topic"}]});
        import(&broker, &document.to_string(), Scope::Node(None), unsupported, Importer::Node)
    };
    let refused = taken("none", Unsupported::Refused).unwrap_err();
    assert!(
        refused.contains("exchange 'none' does not exist in vhost '/'; nothing was imported"),
        "{refused}"
    );
    assert!(broker.vhost("/").unwrap().exchange(b"new").is_none());
    for exchange in ["", "amq.topic", "new"] {
        assert_eq!(taken(exchange, Unsupported::Refused), Ok(Vec::new()), "{exchange}");
    }
    assert_eq!(taken("none", Unsupported::Skipped), Ok(Vec::new()), "it restricts whoever declares it");
    broker.shutdown();
}
