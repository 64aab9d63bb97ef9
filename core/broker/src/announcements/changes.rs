//! Events of changes of metadata, as RabbitMQ tells them when something is declared, deleted, set or cleared (B176).

use message::{TableBuf, Value};
use metadata::{
    Binding, Change, ClearPolicy, Command, Destination, ExchangeRecord, Limits, PolicyKind, QueueRecord,
    QueueType, State,
};

use super::before::{Before, Ending};
use super::erlang;
use super::events::{Announcer, Headers};
use crate::actor::INTERNAL;

/// A command that was applied, and what came of it.
#[derive(Clone, Copy)]
pub(crate) struct Done<'a> {
    pub(crate) command: &'a Command,
    pub(crate) changes: &'a [Change],
    pub(crate) before: &'a Before,
    /// The user who makes the change.
    pub(crate) by: &'a str,
}

impl Announcer {
    /// Tells of everything that a command has brought about.
    pub(crate) fn changed(&self, state: &State, done: &Done<'_>) {
        if !self.is_heard() || done.changes.is_empty() {
            return;
        }
        if let Some(ending) = &done.before.ending {
            self.vhost_ends(ending, done.by);
        }
        for change in done.changes {
            self.object_changed(change, done);
        }
        // A vhost is told of after the exchanges in it.
        for change in done.changes {
            if let Change::VhostAdded(name) = change {
                self.vhost_told("vhost.created", state, name, done.by);
            }
        }
        self.commanded(state, done.command, done);
    }

    fn object_changed(&self, change: &Change, done: &Done<'_>) {
        let by = done.by;
        match change {
            Change::ExchangeAdded(record) => {
                self.tell("exchange.created", |headers| exchange(headers, record, by));
            }
            Change::ExchangeDeleted(record) => self.tell("exchange.deleted", |headers| {
                let by = if goes_by_itself(done.command) { INTERNAL } else { by };
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
                let is_of_vhost = matches!(done.command, Command::DeleteVhost(_));
                let by = if is_of_vhost || goes_by_itself(done.command) { INTERNAL } else { by };
                self.tell("binding.deleted", |headers| binding(headers, gone, by));
            }
            Change::VhostDeleted(name) => {
                self.tell("vhost.deleted", |headers| {
                    headers.text("name", name).by(by);
                });
                self.tell("vhost.down", |headers| {
                    headers.text("name", name).text("node", &*self.node).by(INTERNAL);
                });
            }
            Change::UserDeleted(name) => self.user_told("user.deleted", name, by),
            _ => {}
        }
    }

    /// Tells the things that go with a vhost, apart from those that have changes of their own.
    fn vhost_ends(&self, ending: &Ending, by: &str) {
        for (key, users) in
            [("permission.deleted", &ending.grants), ("topic.permission.deleted", &ending.topic_grants)]
        {
            for user in users {
                self.tell(key, |headers| {
                    headers.text("user", user).text("vhost", &ending.vhost).by(by);
                });
            }
        }
        for (component, name) in &ending.parameters {
            self.parameter_cleared(component, name, Some(&*ending.vhost), by);
        }
        if ending.has_limits {
            self.vhost_limits(&ending.vhost, &Limits::default(), by);
        }
        for (kind, name) in &ending.policies {
            let clear = ClearPolicy { vhost: ending.vhost.clone(), name: name.clone() };
            self.policy_cleared(*kind, &clear, by);
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

    /// Tells details that only the command has: which part of a user, which permission, which parameter.
    fn commanded(&self, state: &State, command: &Command, done: &Done<'_>) {
        let by = done.by;
        match command {
            Command::AddUser(add) => {
                self.user_told("user.created", &add.name, by);
                if !add.tags.is_empty() {
                    self.tags_set(&add.name, &add.tags, by);
                }
            }
            Command::PutUser(put) => {
                let is_known = done.before.had_user(&put.name);
                self.user_told(
                    if is_known { "user.password.changed" } else { "user.created" },
                    &put.name,
                    by,
                );
                self.tags_set(&put.name, &put.tags, by);
            }
            Command::ChangePassword(change) => self.user_told("user.password.changed", &change.name, by),
            Command::ClearPassword(clear) => self.user_told("user.password.cleared", &clear.name, by),
            Command::SetUserTags(set) => self.tags_set(&set.name, &set.tags, by),
            Command::SetUserLimits(set) if done.before.takes_limits(&set.limits) => {
                self.user_limits("user.limits.cleared", &set.name, &Limits::default(), by);
            }
            Command::SetUserLimits(set) => self.user_limits("user.limits.set", &set.name, &set.limits, by),
            Command::SetVhostMetadata(set) => {
                let added =
                    |change: &Change| matches!(change, Change::VhostAdded(name) if **name == *set.name);
                if !done.changes.iter().any(added) {
                    self.vhost_told("vhost.updated", state, &set.name, by);
                }
            }
            Command::SetVhostLimits(set) => self.vhost_limits(&set.vhost, &set.limits, by),
            Command::ImportBatch(batch) => {
                for command in &batch.commands {
                    self.commanded(state, command, done);
                    if let Command::PutUser(put) = command {
                        self.user_limits("user.limits.set", &put.name, &put.limits, by);
                    }
                }
            }
            Command::SetPolicy(set) => self.policy_set(PolicyKind::User, set, by),
            Command::SetOperatorPolicy(set) => self.policy_set(PolicyKind::Operator, set, by),
            Command::ClearPolicy(clear) => self.policy_cleared(PolicyKind::User, clear, by),
            Command::ClearOperatorPolicy(clear) => self.policy_cleared(PolicyKind::Operator, clear, by),
            _ => self.permission_or_parameter(command, by),
        }
    }

    fn tags_set(&self, name: &[u8], tags: &[Box<str>], by: &str) {
        self.tell("user.tags.set", |headers| {
            headers.text("name", name).texts("tags", tags.iter().map(|tag| tag.as_bytes())).by(by);
        });
    }

    fn user_limits(&self, key: &str, name: &[u8], all: &Limits, by: &str) {
        self.tell(key, |headers| {
            limits(headers, all);
            headers.text("name", "limits").text("username", name).by(by);
        });
    }

    /// A parameter of a vhost, or a global one.
    pub(super) fn parameter_cleared(&self, component: &str, name: &str, vhost: Option<&[u8]>, by: &str) {
        self.tell("parameter.cleared", |headers| {
            headers.text("component", component).text("name", name);
            if let Some(vhost) = vhost {
                headers.text("vhost", vhost);
            }
            headers.by(by);
        });
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
            headers.text("name", "limits").text("vhost", vhost).by(by);
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
                headers.text("component", &*set.component).text("name", &*set.name);
                self.parameter(headers, &set.value);
                headers.text("vhost", &set.vhost).by(by);
            }),
            Command::ClearParameter(clear) => {
                self.parameter_cleared(&clear.component, &clear.name, Some(&clear.vhost), by);
            }
            Command::SetGlobalParameter(set) => self.tell("parameter.set", |headers| {
                headers.text("component", "global").text("name", &*set.name);
                self.parameter(headers, &set.value);
                headers.by(by);
            }),
            Command::ClearGlobalParameter(clear) => self.parameter_cleared("global", &clear.name, None, by),
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

/// Whether bindings, and exchanges that go with their last one, go as a consequence: a queue is deleted.
fn goes_by_itself(command: &Command) -> bool {
    matches!(command, Command::DeleteQueue(_) | Command::DeleteExclusiveQueues(_))
}

fn limits(headers: &mut Headers, limits: &Limits) {
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
    if metadata.protected_from_deletion {
        term.push_str(",protected_from_deletion => true");
    }
    term.push('}');
    term
}
