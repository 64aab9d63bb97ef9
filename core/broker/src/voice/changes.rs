//! Events of changes of metadata: what RabbitMQ tells when something is declared, deleted, set or cleared (B176).

use metadata::{
    Binding, Change, Command, Destination, ExchangeRecord, Limits, QueueRecord, QueueType, State,
};
use wire::amqp091::{TableBuf, Value};

use super::erlang;
use super::events::{Headers, Voice};

impl Voice {
    /// Tells of everything that a command has brought about.
    pub(crate) fn changed(&self, state: &State, command: &Command, changes: &[Change], by: &str) {
        if !self.is_heard() || changes.is_empty() {
            return;
        }
        for change in changes {
            self.object_changed(change, by);
        }
        // A vhost is told of after the exchanges in it.
        for change in changes {
            if let Change::VhostAdded(name) = change {
                self.vhost_told("vhost.created", state, name, by);
            }
        }
        self.commanded(state, command, by);
    }

    fn object_changed(&self, change: &Change, by: &str) {
        match change {
            Change::ExchangeAdded(record) => {
                self.tell("exchange.created", |headers| exchange(headers, record, by));
            }
            Change::ExchangeDeleted(record) => self.tell("exchange.deleted", |headers| {
                headers.text("name", &record.name).text("vhost", &record.vhost).by(by);
            }),
            Change::QueueAdded(record) => self.queue_created(record, by),
            Change::QueueDeleted(record) => self.tell("queue.deleted", |headers| {
                headers
                    .text("name", &record.name)
                    .text("type", module(record.queue_type))
                    .text("vhost", &record.vhost)
                    .by(by);
            }),
            Change::BindingAdded(added) => {
                self.tell("binding.created", |headers| binding(headers, added, by));
            }
            Change::BindingRemoved(gone) => {
                self.tell("binding.deleted", |headers| binding(headers, gone, by));
            }
            Change::VhostDeleted(name) => {
                self.tell("vhost.deleted", |headers| {
                    headers.text("name", name).by(by);
                });
                self.tell("vhost.down", |headers| {
                    headers.text("name", name).text("node", &*self.node).by(super::events::INTERNAL);
                });
            }
            Change::UserDeleted(name) => self.tell("user.deleted", |headers| {
                headers.text("name", name).by(by);
            }),
            _ => {}
        }
    }

    fn queue_created(&self, record: &QueueRecord, by: &str) {
        self.tell("queue.created", |headers| {
            let owner = record.exclusive_owner.map(|owner| self.pid_of_connection(owner));
            headers
                .arguments("arguments", record.arguments.as_table())
                .flag("auto_delete", record.auto_delete)
                .flag("durable", record.durable)
                .flag("exclusive", record.exclusive_owner.is_some())
                .text("leader", &*self.node)
                .texts("members", [&*self.node])
                .text("name", &record.name)
                .text("owner_pid", owner.unwrap_or_default())
                .text("type", module(record.queue_type))
                .text("vhost", &record.vhost)
                .by(by);
        });
    }

    fn vhost_told(&self, key: &str, state: &State, name: &[u8], by: &str) {
        let Some(vhost) = state.vhost(name) else { return };
        let metadata = vhost.metadata();
        self.tell(key, |headers| {
            let mut cluster_state = TableBuf::new();
            cluster_state.push_str(&*self.node, "running");
            headers
                .value("cluster_state", Value::Table(cluster_state.as_table()))
                .text("default_queue_type", metadata.default_queue_type.as_deref().unwrap_or("undefined"))
                .text("description", &*metadata.description)
                .text("metadata", metadata_term(metadata))
                .text("name", name)
                .flag("protected_from_deletion", metadata.protected_from_deletion)
                .texts("tags", metadata.tags.iter().map(|tag| tag.as_bytes()))
                .flag("tracing", false)
                .by(by);
            if key == "vhost.updated" {
                headers.flag("deletion_protection", metadata.protected_from_deletion);
            }
        });
    }

    /// What only the command tells: which part of a user, which permission, which parameter.
    fn commanded(&self, state: &State, command: &Command, by: &str) {
        match command {
            Command::AddUser(add) => self.user_told("user.created", &add.name, by),
            Command::PutUser(put) => self.user_told("user.created", &put.name, by),
            Command::ChangePassword(change) => self.user_told("user.password.changed", &change.name, by),
            Command::ClearPassword(clear) => self.user_told("user.password.cleared", &clear.name, by),
            Command::SetUserTags(set) => self.tell("user.tags.set", |headers| {
                let tags = set.tags.iter().map(|tag| tag.as_bytes());
                headers.text("name", &set.name).texts("tags", tags).by(by);
            }),
            Command::SetUserLimits(set) => {
                let key = if set.limits.is_empty() { "user.limits.cleared" } else { "user.limits.set" };
                self.tell(key, |headers| {
                    limits(headers, &set.limits);
                    headers.text("username", &set.name).by(by);
                });
            }
            Command::SetVhostMetadata(set) => self.vhost_told("vhost.updated", state, &set.name, by),
            Command::SetVhostLimits(set) => self.vhost_limits(&set.vhost, &set.limits, by),
            Command::ImportBatch(batch) => {
                batch.commands.iter().for_each(|command| self.commanded(state, command, by));
            }
            Command::SetPolicy(set) | Command::SetOperatorPolicy(set) => self.policy_set(set, by),
            Command::ClearPolicy(clear) | Command::ClearOperatorPolicy(clear) => {
                self.policy_cleared(clear, by);
            }
            _ => self.permission_or_parameter(command, by),
        }
    }

    fn user_told(&self, key: &str, name: &[u8], by: &str) {
        self.tell(key, |headers| {
            headers.text("name", name).by(by);
        });
    }

    fn vhost_limits(&self, vhost: &[u8], all: &Limits, by: &str) {
        let is_empty = all.is_empty();
        let key = if is_empty { "parameter.cleared" } else { "parameter.set" };
        self.tell(key, |headers| {
            headers.text("component", "vhost-limits").text("name", "limits").text("vhost", vhost).by(by);
            if !is_empty {
                let mut table = TableBuf::new();
                all.iter().for_each(|(name, value)| {
                    table.push_i64(name, value);
                });
                headers.value("value", Value::Table(table.as_table()));
            }
        });
        self.tell(if is_empty { "vhost.limits.cleared" } else { "vhost.limits.set" }, |headers| {
            limits(headers, all);
            headers.text("vhost", vhost).by(by);
        });
    }

    fn permission_or_parameter(&self, command: &Command, by: &str) {
        match command {
            Command::SetPermissions(set) => self.tell("permission.created", |headers| {
                headers
                    .text("configure", &*set.configure)
                    .text("write", &*set.write)
                    .text("read", &*set.read);
                headers.text("user", &set.user).text("vhost", &set.vhost).by(by);
            }),
            Command::ClearPermissions(clear) => self.tell("permission.deleted", |headers| {
                headers.text("user", &clear.user).text("vhost", &clear.vhost).by(by);
            }),
            Command::SetTopicPermissions(set) => self.tell("topic.permission.created", |headers| {
                headers.text("exchange", &set.exchange).text("write", &*set.write).text("read", &*set.read);
                headers.text("user", &set.user).text("vhost", &set.vhost).by(by);
            }),
            Command::ClearTopicPermissions(clear) => self.tell("topic.permission.deleted", |headers| {
                headers.text("user", &clear.user).text("vhost", &clear.vhost).by(by);
            }),
            Command::SetParameter(set) => self.tell("parameter.set", |headers| {
                headers
                    .text("component", &*set.component)
                    .text("name", &*set.name)
                    .text("value", &*set.value);
                headers.text("vhost", &set.vhost).by(by);
            }),
            Command::ClearParameter(clear) => self.tell("parameter.cleared", |headers| {
                headers.text("component", &*clear.component).text("name", &*clear.name);
                headers.text("vhost", &clear.vhost).by(by);
            }),
            Command::SetGlobalParameter(set) => self.tell("parameter.set", |headers| {
                headers
                    .text("component", "global")
                    .text("name", &*set.name)
                    .text("value", &*set.value)
                    .by(by);
            }),
            Command::ClearGlobalParameter(clear) => self.tell("parameter.cleared", |headers| {
                headers.text("component", "global").text("name", &*clear.name).by(by);
            }),
            _ => {}
        }
    }
}

fn exchange(headers: &mut Headers, record: &ExchangeRecord, by: &str) {
    headers
        .arguments("arguments", record.arguments.as_table())
        .flag("auto_delete", record.auto_delete)
        .flag("durable", record.durable)
        .flag("internal", record.internal)
        .text("name", &record.name)
        .text("policy", "")
        .text("type", &*record.kind)
        .text("vhost", &record.vhost)
        .by(by);
}

fn binding(headers: &mut Headers, binding: &Binding, by: &str) {
    let (kind, name) = match &binding.destination {
        Destination::Queue(queue) => ("queue", &queue.name),
        Destination::Exchange(exchange) => ("exchange", &exchange.name),
    };
    headers
        .arguments("arguments", binding.arguments.as_table())
        .text("destination_kind", kind)
        .text("destination_name", name)
        .text("routing_key", &binding.key)
        .text("source_kind", "exchange")
        .text("source_name", &binding.source.name)
        .text("vhost", &binding.source.vhost)
        .by(by);
}

fn limits(headers: &mut Headers, limits: &Limits) {
    headers.text("name", "limits");
    for (name, value) in limits.iter() {
        headers.value(name, Value::I64(value));
    }
}

/// The module that implements queues of a type in RabbitMQ.
pub(super) const fn module(queue_type: QueueType) -> &'static str {
    match queue_type {
        QueueType::Classic => "rabbit_classic_queue",
        QueueType::Quorum => "rabbit_quorum_queue",
        QueueType::Stream => "rabbit_stream_queue",
    }
}

/// A vhost's metadata as RabbitMQ writes them: an Erlang map in text.
fn metadata_term(metadata: &metadata::VhostMetadata) -> String {
    let mut term = String::from("#{description => ");
    erlang::binary(&mut term, metadata.description.as_bytes());
    term.push_str(",tags => [");
    term.push_str(&metadata.tags.join(","));
    term.push(']');
    if let Some(kind) = &metadata.default_queue_type {
        term.push_str(",default_queue_type => ");
        erlang::binary(&mut term, kind.as_bytes());
    }
    term.push('}');
    term
}
