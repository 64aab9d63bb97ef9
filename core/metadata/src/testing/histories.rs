//! Random commands over few names, so that they meet.

use proptest::collection::vec;
use proptest::prelude::*;
use stdx::{ConnectionId, QueueId};
use wire::amqp091::TableBuf;

use super::{metadata, name};
use crate::*;

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = Name> {
    proptest::sample::select(names).prop_map(name)
}

fn vhosts() -> impl Strategy<Value = Name> {
    one_of(&["/", "/", "/", "/", "v"])
}

fn users() -> impl Strategy<Value = Name> {
    one_of(&["u", "w"])
}

fn exchanges() -> impl Strategy<Value = Name> {
    one_of(&["", "amq.topic", "a", "b", "c", "d"])
}

fn queues() -> impl Strategy<Value = Name> {
    one_of(&["p", "q", "r", "s"])
}

fn words() -> impl Strategy<Value = Box<str>> {
    proptest::sample::select(&["", "x", "yy"][..]).prop_map(Into::into)
}

fn arguments() -> impl Strategy<Value = Arguments> {
    proptest::option::weighted(0.2, 0..2_i64).prop_map(|number| {
        let mut table = TableBuf::new();
        if let Some(number) = number {
            table.push_i64("x-max-length", number);
        }
        table.into()
    })
}

fn destinations() -> impl Strategy<Value = DestinationName> {
    prop_oneof![queues().prop_map(DestinationName::Queue), exchanges().prop_map(DestinationName::Exchange)]
}

fn binds() -> impl Strategy<Value = Bind> {
    (vhosts(), exchanges(), destinations(), one_of(&["", "k"]), arguments()).prop_map(
        |(vhost, source, destination, key, arguments)| Bind { vhost, source, destination, key, arguments },
    )
}

fn queue_commands() -> impl Strategy<Value = Command> {
    let owner = || (0..3_u64).prop_map(ConnectionId::alone);
    let queue_type =
        proptest::sample::select(&[QueueType::Classic, QueueType::Quorum, QueueType::Stream][..]);
    let flags = (any::<bool>(), any::<bool>());
    prop_oneof![
        4 => (vhosts(), queues(), flags, proptest::option::weighted(0.3, owner()), arguments(), queue_type).prop_map(
            |(vhost, name, (durable, auto_delete), exclusive_owner, arguments, queue_type)| {
                Command::DeclareQueue(DeclareQueue {
                    vhost, name, durable, auto_delete, exclusive_owner, arguments, queue_type,
                })
            },
        ),
        2 => (vhosts(), queues(), proptest::option::weighted(0.2, (0..40_u64).prop_map(QueueId)))
            .prop_map(|(vhost, name, id)| Command::DeleteQueue(DeleteQueue { vhost, name, id })),
        2 => (vhosts(), queues(), (0..40_u64).prop_map(QueueId), proptest::option::of(1..4_u64)).prop_map(
            |(vhost, name, id, expires_ms)| {
                Command::SetQueueExpiry(SetQueueExpiry { vhost, name, id, expires_ms })
            },
        ),
        1 => owner().prop_map(|owner| Command::DeleteExclusiveQueues(DeleteExclusiveQueues { owner })),
    ]
}

fn exchange_commands() -> impl Strategy<Value = Command> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let when = proptest::sample::select(&[DeleteWhen::Always, DeleteWhen::Unused][..]);
    prop_oneof![
        2 => (vhosts(), exchanges(), words(), flags, arguments()).prop_map(
            |(vhost, name, kind, (durable, auto_delete, internal), arguments)| {
                Command::DeclareExchange(DeclareExchange {
                    vhost, name, kind, durable, auto_delete, internal, arguments,
                })
            },
        ),
        1 => (vhosts(), exchanges(), when)
            .prop_map(|(vhost, name, when)| Command::DeleteExchange(DeleteExchange { vhost, name, when })),
    ]
}

fn binding_commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => binds().prop_map(Command::Bind),
        1 => binds().prop_map(|Bind { vhost, source, destination, key, arguments }| {
            Command::Unbind(Unbind { vhost, source, destination, key, arguments })
        }),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    vec((words(), any::<i64>()), 0..3).prop_map(|all| all.into_iter().collect())
}

fn user_commands() -> impl Strategy<Value = Command> {
    let credentials = || {
        words().prop_map(|word| Credentials::of_password(Hashing::Sha512, *b"salt", word.as_bytes()).unwrap())
    };
    prop_oneof![
        (users(), credentials(), vec(words(), 0..2))
            .prop_map(|(name, credentials, tags)| Command::AddUser(AddUser { name, credentials, tags })),
        (users(), credentials(), vec(words(), 0..2), limits()).prop_map(
            |(name, credentials, tags, limits)| {
                Command::PutUser(PutUser { name, credentials, tags, limits })
            }
        ),
        users().prop_map(|name| Command::DeleteUser(DeleteUser { name })),
        (users(), credentials())
            .prop_map(|(name, credentials)| Command::ChangePassword(ChangePassword { name, credentials })),
        users().prop_map(|name| Command::ClearPassword(ClearPassword { name })),
        (users(), vec(words(), 0..2))
            .prop_map(|(name, tags)| Command::SetUserTags(SetUserTags { name, tags })),
        (users(), limits()).prop_map(|(name, limits)| Command::SetUserLimits(SetUserLimits { name, limits })),
    ]
}

fn permission_commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        (users(), vhosts(), words(), words(), words()).prop_map(|(user, vhost, configure, write, read)| {
            Command::SetPermissions(SetPermissions { user, vhost, configure, write, read })
        }),
        (users(), vhosts())
            .prop_map(|(user, vhost)| Command::ClearPermissions(ClearPermissions { user, vhost })),
        (users(), vhosts(), exchanges(), words(), words()).prop_map(
            |(user, vhost, exchange, write, read)| {
                Command::SetTopicPermissions(SetTopicPermissions { user, vhost, exchange, write, read })
            }
        ),
        (users(), vhosts(), proptest::option::of(exchanges())).prop_map(|(user, vhost, exchange)| {
            Command::ClearTopicPermissions(ClearTopicPermissions { user, vhost, exchange })
        }),
    ]
}

fn parameter_commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        (vhosts(), words(), words(), words()).prop_map(|(vhost, component, name, value)| {
            Command::SetParameter(SetParameter { vhost, component, name, value })
        }),
        (vhosts(), words(), words()).prop_map(|(vhost, component, name)| {
            Command::ClearParameter(ClearParameter { vhost, component, name })
        }),
        (words(), words())
            .prop_map(|(name, value)| Command::SetGlobalParameter(SetGlobalParameter { name, value })),
        words().prop_map(|name| Command::ClearGlobalParameter(ClearGlobalParameter { name })),
        (vhosts(), words(), words(), any::<i64>()).prop_map(|(vhost, name, pattern, priority)| {
            let (apply_to, value) = (ApplyTo::Queues, PolicyValue::Text(pattern.clone()));
            let definition = [(name.clone(), value), ("n".into(), PolicyValue::Integer(priority))];
            let definition = definition.into_iter().collect();
            let set = SetPolicy { vhost, name, pattern, apply_to, priority, definition };
            if priority % 2 == 0 { Command::SetPolicy(set) } else { Command::SetOperatorPolicy(set) }
        }),
        (vhosts(), words(), any::<bool>()).prop_map(|(vhost, name, operator)| {
            let clear = ClearPolicy { vhost, name };
            if operator { Command::ClearOperatorPolicy(clear) } else { Command::ClearPolicy(clear) }
        }),
    ]
}

fn vhost_commands() -> impl Strategy<Value = Command> {
    let random = (words(), any::<bool>()).prop_map(|(description, protected_from_deletion)| VhostMetadata {
        default_queue_type: Some(description.clone()),
        tags: vec![description.clone()],
        description,
        protected_from_deletion,
    });
    prop_oneof![
        4 => vhosts().prop_map(|name| Command::AddVhost(AddVhost { name, metadata: metadata() })),
        1 => (vhosts(), random)
            .prop_map(|(name, metadata)| Command::SetVhostMetadata(SetVhostMetadata { name, metadata })),
        1 => (vhosts(), limits())
            .prop_map(|(vhost, limits)| Command::SetVhostLimits(SetVhostLimits { vhost, limits })),
        1 => vhosts().prop_map(|name| Command::DeleteVhost(DeleteVhost { name })),
    ]
}

pub(crate) fn commands() -> impl Strategy<Value = Command> {
    let single = || {
        prop_oneof![
            1 => vhost_commands(),
            2 => user_commands(),
            2 => permission_commands(),
            1 => parameter_commands(),
            6 => exchange_commands(),
            8 => queue_commands(),
            10 => binding_commands(),
        ]
        .boxed()
    };
    let batch = vec(single(), 0..6).prop_map(|commands| Command::ImportBatch(Batch { commands }));
    prop_oneof![15 => single(), 1 => batch]
}
