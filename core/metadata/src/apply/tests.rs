//! Effects of commands, one by one.

use stdx::ConnectionId;
use wire::amqp091::{TableBuf, Value};

use crate::testing::*;
use crate::*;

fn table(name: &str, value: Value<'_>) -> Arguments {
    let mut table = TableBuf::new();
    table.push(name, value);
    table.into()
}

fn queue_with(name: &str, arguments: Arguments) -> Command {
    Command::DeclareQueue(DeclareQueue { arguments, ..declare_queue(name) })
}

/// The property that differs, received and current.
fn difference(refusal: Refusal) -> (&'static str, Compared, Compared) {
    let Refusal::Inequivalent { what, received, current, .. } = refusal else { panic!("{refusal:?}") };
    (what, received, current)
}

fn argument(compared: &Compared) -> Value<'_> {
    let Compared::Argument(value) = compared else { panic!("{compared:?}") };
    value.value()
}

#[test]
fn a_new_vhost_has_the_predeclared_exchanges_of_b46() {
    let machine = Machine::with_vhost("/");
    let exchanges = machine.state.vhost(b"/").unwrap().exchanges();
    let listed: Vec<_> = exchanges
        .iter()
        .map(|it| (std::str::from_utf8(&it.name).unwrap(), &*it.kind, it.durable, it.internal))
        .collect();
    assert_eq!(
        listed,
        [
            ("", "direct", true, false),
            ("amq.direct", "direct", true, false),
            ("amq.fanout", "fanout", true, false),
            ("amq.headers", "headers", true, false),
            ("amq.match", "headers", true, false),
            ("amq.rabbitmq.trace", "topic", true, true),
            ("amq.topic", "topic", true, false),
        ]
    );
}

#[test]
fn adding_a_vhost_twice_changes_nothing_and_deleting_a_missing_one_is_refused() {
    let mut machine = Machine::with_vhost("/");
    assert!(machine.applied_nothing(&add_vhost("/")));
    let refusal = machine.refused(&Command::DeleteVhost(DeleteVhost { name: name("x") }));
    assert_eq!(refusal, Refusal::NotFound { kind: Kind::Vhost, name: name("x"), vhost: None });
}

#[test]
fn a_protected_vhost_stays() {
    let mut machine = Machine::with_vhost("/");
    let metadata = VhostMetadata { protected_from_deletion: true, ..metadata() };
    machine.ok(&Command::SetVhostMetadata(SetVhostMetadata { name: name("/"), metadata }));
    let refusal = machine.refused(&Command::DeleteVhost(DeleteVhost { name: name("/") }));
    assert_eq!(refusal, Refusal::ProtectedVhost { name: name("/") });
}

#[test]
fn deleting_a_vhost_takes_everything_in_it_and_permissions_on_it() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue("q"));
    machine.ok(&exclusive_queue("mine", 1));
    machine.ok(&bind("amq.fanout", "q", ""));
    machine.ok(&Command::PutUser(PutUser {
        name: name("u"),
        credentials: Credentials::none(),
        tags: vec![],
        limits: Limits::default(),
    }));
    machine.ok(&Command::SetPermissions(SetPermissions {
        user: name("u"),
        vhost: name("/"),
        configure: ".*".into(),
        write: ".*".into(),
        read: ".*".into(),
    }));
    machine.applied.clear();
    machine.ok(&Command::DeleteVhost(DeleteVhost { name: name("/") }));
    let changes = &machine.applied.changes;
    assert!(matches!(
        changes[..3],
        [Change::BindingRemoved(_), Change::QueueDeleted(_), Change::QueueDeleted(_)]
    ));
    assert!(matches!(changes.last(), Some(Change::VhostDeleted(_))));
    assert_eq!(changes.len(), 1 + 2 + 7 + 1);
    assert_eq!(machine.applied.facts.len(), 1, "one fact says it all");
    assert!(machine.state.vhost(b"/").is_none());
    assert!(machine.state.user(b"u").unwrap().permissions.is_empty());
    assert_eq!(machine.state.exclusive_queues(ConnectionId::alone(1)).count(), 0);
}

#[test]
fn exchange_properties_are_compared_in_the_order_of_b47() {
    let mut machine = Machine::with_vhost("/");
    let declared = declare_exchange("x", "direct");
    machine.ok(&Command::DeclareExchange(declared.clone()));
    assert!(matches!(machine.ok(&exchange("x", "direct")), Outcome::ExchangeExists(_)));
    let mut all_wrong = DeclareExchange {
        kind: "fanout".into(),
        durable: false,
        auto_delete: true,
        internal: true,
        arguments: table("alternate-exchange", Value::LongStr(b"ae")),
        ..declared.clone()
    };
    let mut seen = vec![];
    for step in 0..5 {
        let (what, received, current) =
            difference(machine.refused(&Command::DeclareExchange(all_wrong.clone())));
        seen.push(what);
        match step {
            0 => all_wrong.kind = declared.kind.clone(),
            1 => all_wrong.durable = true,
            2 => all_wrong.auto_delete = false,
            3 => all_wrong.internal = false,
            _ => {
                assert_eq!(argument(&received), Value::LongStr(b"ae"));
                assert_eq!(current, Compared::Absent);
            }
        }
    }
    assert_eq!(seen, ["type", "durable", "auto_delete", "internal", "alternate-exchange"]);
}

#[test]
fn unknown_arguments_are_not_compared() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue_with("q", table("x-mine", Value::I32(1))));
    assert!(matches!(machine.ok(&queue("q")), Outcome::QueueExists(_)));
    let foreign = queue_with("q", table("x-max-age", Value::LongStr(b"1D")));
    assert!(matches!(machine.ok(&foreign), Outcome::QueueExists(_)));
}

#[test]
fn queue_arguments_compare_by_number_and_tell_type_and_value() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue("plain"));
    machine.ok(&queue_with("limited", table("x-max-length", Value::I32(10))));
    assert!(matches!(
        machine.ok(&queue_with("limited", table("x-max-length", Value::I64(10)))),
        Outcome::QueueExists(_)
    ));
    let ttl = queue_with("plain", table("x-message-ttl", Value::I32(1000)));
    let (what, received, current) = difference(machine.refused(&ttl));
    assert_eq!((what, current), ("x-message-ttl", Compared::Absent));
    assert_eq!((argument(&received), argument(&received).type_name()), (Value::I32(1000), "signedint"));
    let text = queue_with("limited", table("x-max-length", Value::LongStr(b"10")));
    assert_eq!(difference(machine.refused(&text)).0, "x-max-length");
}

#[test]
fn an_absent_queue_type_is_classic() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue("q"));
    let same = queue_with("q", table("x-queue-type", Value::LongStr(b"classic")));
    assert!(matches!(machine.ok(&same), Outcome::QueueExists(_)));
    let undefined = queue_with("q", table("x-queue-type", Value::LongStr(b"undefined")));
    assert_eq!(difference(machine.refused(&undefined)).0, "x-queue-type");
    let quorum = queue_with("q", table("x-queue-type", Value::LongStr(b"quorum")));
    let (what, received, current) = difference(machine.refused(&quorum));
    assert_eq!(what, "x-queue-type");
    assert_eq!(
        (argument(&received), argument(&current)),
        (Value::LongStr(b"quorum"), Value::LongStr(b"classic"))
    );
}

#[test]
fn exclusivity_is_checked_before_everything_else() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&exclusive_queue("mine", 1));
    machine.ok(&queue("open"));
    assert!(
        matches!(machine.ok(&exclusive_queue("mine", 1)), Outcome::QueueExists(_)),
        "durable is folded, B67"
    );
    for locked in [exclusive_queue("mine", 2), queue("mine"), exclusive_queue("open", 1)] {
        assert!(matches!(machine.refused(&locked), Refusal::Locked { .. }), "{locked:?}");
    }
    let (what, received, current) = difference(machine.refused(&transient_queue("open")));
    assert_eq!((what, received, current), ("durable", Compared::Flag(false), Compared::Flag(true)));
}

#[test]
fn exclusive_queues_go_with_their_connection_only() {
    let mut machine = Machine::with_vhost("/");
    for (queue, owner) in [("b", 1), ("a", 1), ("other", 2)] {
        machine.ok(&exclusive_queue(queue, owner));
    }
    machine.ok(&bind("amq.fanout", "a", ""));
    machine.applied.clear();
    machine.ok(&Command::DeleteExclusiveQueues(DeleteExclusiveQueues { owner: ConnectionId::alone(1) }));
    let gone: Vec<_> = machine.applied.changes.iter().map(change_name).collect();
    assert_eq!(gone, ["-queue b", "-binding amq.fanout", "-queue a"], "oldest first");
    assert!(machine.applied.facts.is_empty());
    assert!(machine.state.vhost(b"/").unwrap().queue(b"other").is_some());
}

fn change_name(change: &Change) -> String {
    match change {
        Change::QueueDeleted(queue) => format!("-queue {}", queue.name.escape_ascii()),
        Change::ExchangeDeleted(exchange) => format!("-exchange {}", exchange.name.escape_ascii()),
        Change::BindingRemoved(binding) => format!("-binding {}", binding.source.name.escape_ascii()),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_redeclared_name_gets_a_new_identifier_and_a_guarded_deletion_misses_it() {
    let mut machine = Machine::with_vhost("/");
    let Outcome::QueueCreated(first) = machine.ok(&queue("q")) else { panic!() };
    machine.ok(&delete_queue("q"));
    let Outcome::QueueCreated(second) = machine.ok(&queue("q")) else { panic!() };
    assert_ne!(first.id, second.id);
    let stale = DeleteQueue { vhost: name("/"), name: name("q"), id: Some(first.id) };
    assert!(machine.applied_nothing(&Command::DeleteQueue(stale)));
    assert!(machine.applied_nothing(&delete_queue("missing")));
}

#[test]
fn transient_identifiers_are_apart_and_tell_their_incarnation() {
    let mut machine = Machine::with_vhost("/");
    let Outcome::QueueCreated(durable) = machine.ok(&queue("d")) else { panic!() };
    let Outcome::QueueCreated(first_life) = machine.ok(&transient_queue("t")) else { panic!() };
    let mut again = State::decode_snapshot(&machine.snapshot()).unwrap();
    again.begin_incarnation(1);
    let Ok(Outcome::QueueCreated(second_life)) = again.apply(&transient_queue("t"), &mut Applied::default())
    else {
        panic!()
    };
    assert_ne!(first_life.id, second_life.id);
    assert!(durable.id.0 < 1 << 63 && first_life.id.0 >= 1 << 63);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_source_side_binding_not_before_it_had_one() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&auto_delete_exchange("x"));
    machine.ok(&queue("q"));
    machine.ok(&bind_exchange("amq.fanout", "x", ""));
    machine.ok(&unbind("x", "q", "a"));
    machine.ok(&bind("x", "q", "a"));
    machine.ok(&bind("x", "q", "b"));
    machine.ok(&unbind("x", "q", "a"));
    assert!(machine.state.vhost(b"/").unwrap().exchange(b"x").is_some());
    machine.applied.clear();
    machine.ok(&unbind("x", "q", "b"));
    let gone: Vec<_> = machine.applied.changes.iter().map(change_name).collect();
    assert_eq!(gone, ["-binding x", "-binding amq.fanout", "-exchange x"]);
}

#[test]
fn auto_delete_cascades_through_a_chain_of_exchanges() {
    let mut machine = Machine::with_vhost("/");
    for exchange in ["a", "b", "c"] {
        machine.ok(&auto_delete_exchange(exchange));
    }
    machine.ok(&queue("q"));
    machine.ok(&bind_exchange("a", "b", ""));
    machine.ok(&bind_exchange("b", "c", ""));
    machine.ok(&bind("c", "q", ""));
    machine.applied.clear();
    machine.ok(&delete_queue("q"));
    let gone: Vec<_> = machine.applied.changes.iter().map(change_name).collect();
    assert_eq!(
        gone,
        ["-binding c", "-queue q", "-binding b", "-exchange c", "-binding a", "-exchange b", "-exchange a"]
    );
    assert_eq!(machine.applied.facts.len(), 4, "queue and three exchanges; bindings go with them");
}

#[test]
fn a_self_bound_exchange_can_be_deleted() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&auto_delete_exchange("x"));
    machine.ok(&bind_exchange("x", "x", ""));
    machine.ok(&delete_exchange("x", DeleteWhen::Always));
    assert_eq!(machine.state.vhost(b"/").unwrap().binding_count(), 0);
}

#[test]
fn deleting_exchanges_follows_b51_to_b53() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&exchange("x", "direct"));
    machine.ok(&queue("q"));
    machine.ok(&bind("x", "q", ""));
    machine.ok(&bind_exchange("amq.fanout", "x", ""));
    assert!(matches!(machine.refused(&delete_exchange("x", DeleteWhen::Unused)), Refusal::InUse { .. }));
    let system = machine.refused(&delete_exchange("amq.direct", DeleteWhen::Always));
    assert!(matches!(system, Refusal::SystemExchange { .. }));
    assert_eq!(machine.refused(&delete_exchange("", DeleteWhen::Always)), Refusal::DefaultExchange);
    assert_eq!(machine.refused(&bind("", "q", "")), Refusal::DefaultExchange);
    assert_eq!(machine.refused(&bind_exchange("x", "", "")), Refusal::DefaultExchange);
    machine.ok(&unbind("x", "q", ""));
    machine.ok(&delete_exchange("x", DeleteWhen::Unused));
    assert!(machine.applied_nothing(&delete_exchange("x", DeleteWhen::Always)));
}

#[test]
fn bindings_need_both_ends_and_the_source_is_missed_first() {
    let mut machine = Machine::with_vhost("/");
    let missing = |kind, missing| Refusal::NotFound { kind, name: name(missing), vhost: Some(name("/")) };
    assert_eq!(machine.refused(&bind("x", "q", "")), missing(Kind::Exchange, "x"));
    assert_eq!(machine.refused(&bind("amq.direct", "q", "")), missing(Kind::Queue, "q"));
    assert_eq!(machine.refused(&bind_exchange("amq.direct", "y", "")), missing(Kind::Exchange, "y"));
    assert!(machine.applied_nothing(&unbind("x", "q", "")));
}

#[test]
fn arguments_are_part_of_a_bindings_identity() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue("q"));
    let plain = bind_to("amq.headers", DestinationName::Queue(name("q")), "k");
    let with = Bind { arguments: table("x-match", Value::LongStr(b"any")), ..plain.clone() };
    machine.ok(&Command::Bind(plain.clone()));
    machine.ok(&Command::Bind(with.clone()));
    assert!(machine.applied_nothing(&Command::Bind(plain)));
    let vhost = machine.state.vhost(b"/").unwrap();
    assert_eq!(vhost.bindings_from(b"amq.headers").len(), 2);
    machine.ok(&unbind("amq.headers", "q", "k"));
    let left = machine.state.vhost(b"/").unwrap().bindings_to(&DestinationName::Queue(name("q")));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].arguments, with.arguments);
}

#[test]
fn only_what_survives_a_restart_is_logged() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&transient_queue("t"));
    machine.ok(&bind("amq.fanout", "t", ""));
    machine.ok(&delete_queue("t"));
    assert!(!machine.applied.is_durable());
    machine.ok(&auto_delete_exchange("x"));
    machine.ok(&transient_queue("t"));
    machine.ok(&bind("x", "t", ""));
    machine.applied.clear();
    machine.ok(&delete_queue("t"));
    assert!(
        matches!(machine.applied.facts[..], [Fact::ExchangeDeleted(_)]),
        "a durable exchange went because of it"
    );
}

#[test]
fn users_are_added_once_changed_and_deleted_with_their_permissions() {
    let mut machine = Machine::with_vhost("/");
    let secret = Credentials::of_password(Hashing::Sha256, *b"salt", b"secret").unwrap();
    let add = Command::AddUser(AddUser { name: name("u"), credentials: secret.clone(), tags: vec![] });
    machine.ok(&add);
    assert_eq!(machine.refused(&add), Refusal::AlreadyExists { kind: Kind::User, name: name("u") });
    let grant = |vhost| SetPermissions {
        user: name("u"),
        vhost: name(vhost),
        configure: "".into(),
        write: ".*".into(),
        read: "^a".into(),
    };
    assert!(matches!(
        machine.refused(&Command::SetPermissions(grant("x"))),
        Refusal::NotFound { kind: Kind::Vhost, .. }
    ));
    machine.ok(&Command::SetPermissions(grant("/")));
    machine.ok(&Command::SetUserTags(SetUserTags { name: name("u"), tags: vec!["administrator".into()] }));
    let user = machine.state.user(b"u").unwrap();
    assert!(user.credentials.verify(b"secret") && user.permissions.len() == 1 && user.tags.len() == 1);
    machine.ok(&Command::ClearPassword(ClearPassword { name: name("u") }));
    assert!(!machine.state.user(b"u").unwrap().credentials.verify(b"secret"));
    machine.ok(&Command::DeleteUser(DeleteUser { name: name("u") }));
    machine.ok(&add);
    assert!(machine.state.user(b"u").unwrap().permissions.is_empty());
}

#[test]
fn topic_permissions_are_cleared_one_by_one_or_together() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&Command::AddUser(AddUser {
        name: name("u"),
        credentials: Credentials::none(),
        tags: vec![],
    }));
    for exchange in ["a", "b", "c"] {
        machine.ok(&Command::SetTopicPermissions(SetTopicPermissions {
            user: name("u"),
            vhost: name("/"),
            exchange: name(exchange),
            write: ".*".into(),
            read: ".*".into(),
        }));
    }
    let clear = |exchange: Option<&str>| {
        let exchange = exchange.map(name);
        Command::ClearTopicPermissions(ClearTopicPermissions { user: name("u"), vhost: name("/"), exchange })
    };
    machine.ok(&clear(Some("b")));
    assert_eq!(machine.state.user(b"u").unwrap().topic_permissions.len(), 2);
    machine.ok(&clear(None));
    assert!(machine.applied_nothing(&clear(None)));
}

#[test]
fn a_batch_inside_a_batch_is_refused() {
    let inner = Command::ImportBatch(Batch { commands: vec![] });
    let outer = Command::ImportBatch(Batch { commands: vec![add_vhost("x"), inner] });
    assert_eq!(Machine::new().refused(&outer), Refusal::NestedBatch);
    let mut bytes = Vec::new();
    outer.encode(&mut bytes);
    assert_eq!(Command::decode(&bytes), Err(DecodeError::NestedBatch));
}

#[test]
fn a_queue_with_many_bindings_goes_in_time_linear_in_them() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue("other"));
    machine.ok(&queue("q"));
    for key in 0..20_000 {
        machine.ok(&bind("amq.topic", "other", &key.to_string()));
        machine.ok(&bind("amq.topic", "q", &key.to_string()));
    }
    machine.applied.clear();
    machine.ok(&delete_queue("q"));
    assert_eq!(machine.applied.changes.len(), 20_001);
    assert_eq!(machine.applied.facts.len(), 1);
    assert_eq!(machine.state.vhost(b"/").unwrap().binding_count_from(b"amq.topic"), 20_000);
}

#[test]
fn facts_that_do_not_fit_are_told_and_change_nothing() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&queue("q"));
    let facts = machine.applied.facts.clone();
    let before = machine.snapshot();
    assert_eq!(machine.state.replay(&facts[0]), Err(Contradiction::AlreadyThere));
    let missing = NameInVhost { vhost: name("/"), name: name("no") };
    assert_eq!(machine.state.replay(&Fact::QueueDeleted(missing.clone())), Err(Contradiction::NoQueue));
    assert_eq!(machine.state.replay(&Fact::ExchangeDeleted(missing)), Err(Contradiction::NoExchange));
    let endless = Fact::IdsUsed(IdsFact { next: u64::MAX });
    assert_eq!(machine.state.replay(&endless), Err(Contradiction::BadId));
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn a_queue_gets_another_expiry_and_stays_the_same_queue() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&exchange("x", "topic"));
    let mut arguments = TableBuf::new();
    arguments.push_i64("x-expires", 1000).push_i64("x-max-length", 5);
    machine.ok(&queue_with("q", arguments.into()));
    machine.ok(&bind("x", "q", "k"));
    let record = |machine: &Machine| machine.state.vhost(b"/").unwrap().queue(b"q").unwrap().clone();
    let before = record(&machine);
    let set = |id, expires_ms| {
        Command::SetQueueExpiry(SetQueueExpiry { vhost: name("/"), name: name("q"), id, expires_ms })
    };
    assert!(machine.applied_nothing(&set(before.id, Some(1000))));
    assert!(machine.applied_nothing(&set(stdx::QueueId(before.id.0 + 1), Some(7))), "another incarnation");
    machine.ok(&set(before.id, Some(7)));
    let after = record(&machine);
    assert_eq!((after.id, &after.name, after.durable), (before.id, &before.name, true));
    let expiry =
        |record: &QueueRecord| record.arguments.as_table().get("x-expires").and_then(|it| it.as_i64());
    assert_eq!(expiry(&after), Some(7));
    assert_eq!(after.arguments.as_table().get("x-max-length").and_then(|it| it.as_i64()), Some(5));
    let vhost = machine.state.vhost(b"/").unwrap();
    let [binding] = vhost.bindings_from(b"x")[..] else { panic!("one binding") };
    assert_eq!(binding.destination, Destination::Queue(after.clone()));
    let Refusal::Inequivalent { what, .. } = machine.refused(&queue_with("q", before.arguments.clone()))
    else {
        panic!("it has other arguments")
    };
    assert_eq!(what, "x-expires");
    machine.ok(&set(before.id, None));
    assert_eq!(expiry(&record(&machine)), None);
    machine.ok(&exclusive_queue("e", 1));
    let exclusive = machine.state.vhost(b"/").unwrap().queue(b"e").unwrap().id;
    let never = SetQueueExpiry { vhost: name("/"), name: name("e"), id: exclusive, expires_ms: Some(9) };
    assert!(machine.applied_nothing(&Command::SetQueueExpiry(never)));
}
