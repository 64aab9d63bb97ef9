//! Policies over the broker's control plane: applied to what is there, to what comes, and after a restart.

use std::path::Path;
use std::sync::Arc;

use metadata::{
    ApplyTo, Batch, ClearPolicy, Command, DeclareExchange, DeclareQueue, PolicyDefinition, QueueType,
    SetPolicy,
};

use crate::{Broker, BrokerOptions, Queue};

fn open(dir: &Path) -> Broker {
    Broker::open(dir, BrokerOptions { fsync: false, ..BrokerOptions::default() }).unwrap()
}

fn done(broker: &Broker, command: &Command) {
    broker.apply(command.clone()).unwrap().wait().unwrap();
}

fn set(name: &str, pattern: &str, priority: i64, definition: &str) -> SetPolicy {
    SetPolicy {
        vhost: b"/".as_slice().into(),
        name: name.into(),
        pattern: pattern.into(),
        apply_to: ApplyTo::All,
        priority,
        definition: PolicyDefinition::from_json(definition).unwrap(),
    }
}

fn clear(name: &str) -> ClearPolicy {
    ClearPolicy { vhost: b"/".as_slice().into(), name: name.into() }
}

fn declare(name: &str) -> Command {
    Command::DeclareQueue(DeclareQueue {
        vhost: b"/".as_slice().into(),
        name: name.as_bytes().into(),
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: metadata::Arguments::default(),
        queue_type: QueueType::Classic,
    })
}

fn queue(broker: &Broker, name: &str) -> Arc<Queue> {
    broker.vhost("/").unwrap().queue(name.as_bytes()).unwrap()
}

fn length(broker: &Broker, name: &str) -> Option<u64> {
    queue(broker, name).config().max_length
}

#[test]
fn policies_apply_to_what_is_there_and_to_what_comes_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let broker = open(folder.path());
    done(&broker, &declare("q.before"));
    done(&broker, &Command::SetPolicy(set("low", "^q", 0, r#"{"dead-letter-exchange":"x","max-length":9}"#)));
    done(&broker, &Command::SetPolicy(set("high", "^q", 1, r#"{"max-length":5}"#)));
    done(&broker, &Command::SetOperatorPolicy(set("bound", "after$", 0, r#"{"max-length":3}"#)));
    done(&broker, &declare("q.after"));
    let check = |broker: &Broker| {
        assert_eq!((length(broker, "q.before"), length(broker, "q.after")), (Some(5), Some(3)));
        let after = queue(broker, "q.after").policies();
        assert_eq!(after.policy().map(|it| &*it.name), Some("high"));
        assert_eq!(after.operator_policy().map(|it| &*it.name), Some("bound"));
        assert_eq!(queue(broker, "q.after").dead_letter_target(), None, "one policy applies, not all");
    };
    check(&broker);
    broker.shutdown();
    drop(broker);
    let broker = open(folder.path());
    check(&broker);
    done(&broker, &Command::ClearPolicy(clear("high")));
    assert_eq!((length(&broker, "q.before"), length(&broker, "q.after")), (Some(9), Some(3)));
    assert!(queue(&broker, "q.before").dead_letter_target().is_some());
    done(&broker, &Command::ClearOperatorPolicy(clear("bound")));
    done(&broker, &Command::ClearPolicy(clear("low")));
    assert_eq!((length(&broker, "q.before"), length(&broker, "q.after")), (None, None));
    assert!(queue(&broker, "q.before").policies().is_empty());
    broker.shutdown();
}

#[test]
fn an_import_of_queues_and_policies_in_any_order_gives_each_queue_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let broker = open(folder.path());
    let first = Command::SetPolicy(set("first", "^q", 0, r#"{"max-length":1}"#));
    let second = Command::SetPolicy(set("second", "^q", 7, r#"{"max-length":2}"#));
    let commands = vec![declare("q1"), first, declare("q2"), second, declare("q3")];
    done(&broker, &Command::ImportBatch(Batch { commands }));
    assert_eq!(["q1", "q2", "q3"].map(|name| length(&broker, name)), [Some(2); 3]);
    broker.shutdown();
}

#[test]
fn an_exchange_gets_its_alternate_by_policy_and_loses_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let broker = open(folder.path());
    done(
        &broker,
        &Command::DeclareExchange(DeclareExchange {
            vhost: b"/".as_slice().into(),
            name: b"events".as_slice().into(),
            kind: "fanout".into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: metadata::Arguments::default(),
        }),
    );
    let alternate = || {
        let exchange = broker.vhost("/").unwrap().exchange(b"events").unwrap();
        exchange.alternate().map(|name| name.to_vec())
    };
    done(&broker, &Command::SetPolicy(set("ways", "^e", 0, r#"{"alternate-exchange":"amq.fanout"}"#)));
    assert_eq!(alternate(), Some(b"amq.fanout".to_vec()));
    done(&broker, &Command::ClearPolicy(clear("ways")));
    assert_eq!(alternate(), None);
    broker.shutdown();
}
