//! Events of connections, channels, consumers, logins and alarms (B176).

use message::Table;
use queues::{ConsumerId, ConsumerSpec};
use stdx::ConnectionId;

use super::erlang;
use super::events::{Announcer, Headers};
use crate::Principal;
use crate::actor::INTERNAL;
use crate::alarms::Raised;
use crate::cell::Queue;
use crate::connections::ConnectionInfo;
use crate::services::Services;

/// Version of the protocol as RabbitMQ's events write it.
fn protocol(name: &str) -> &str {
    if name == "AMQP 0-9-1" { "{0,9,1}" } else { name }
}

impl Announcer {
    /// A connection is open.
    pub(crate) fn connection_created(
        &self,
        id: ConnectionId,
        info: &ConnectionInfo,
        vhost: &str,
        user: &str,
    ) {
        self.tell("connection.created", |headers| {
            headers
                .text("auth_mechanism", &info.auth_mechanism)
                .number("channel_max", info.channel_max.into())
                .arguments("client_properties", Table::from_raw(&info.client_properties))
                .number("connected_at", info.connected_at_ms)
                .number("frame_max", info.frame_max.into())
                .number("timeout", info.heartbeat_s.into())
                .text("name", &info.name)
                .text("node", &*self.node)
                .text("pid", self.pid_of_connection(id))
                .number("port", info.port.into())
                .text("type", "network")
                .text("user", user)
                .text("vhost", vhost)
                .by(user);
            ends(headers, info);
            provided(headers, info);
            for name in [
                "peer_cert_issuer",
                "peer_cert_serial_number",
                "peer_cert_subject",
                "peer_cert_validity",
                "ssl_cipher",
                "ssl_hash",
                "ssl_key_exchange",
                "ssl_protocol",
            ] {
                headers.text(name, "");
            }
        });
    }

    /// A connection has gone that was open, or had sent the properties of its client.
    pub(crate) fn connection_closed(&self, id: ConnectionId, info: &ConnectionInfo) {
        self.tell("connection.closed", |headers| {
            headers
                .arguments("client_properties", Table::from_raw(&info.client_properties))
                .text("name", &info.name)
                .text("node", &*self.node)
                .text("pid", self.pid_of_connection(id));
            provided(headers, info);
        });
    }

    /// A channel is open.
    pub(crate) fn channel_created(&self, principal: &Principal, number: u16) {
        self.tell("channel.created", |headers| {
            headers
                .text("connection", self.pid_of_connection(principal.connection))
                .text("name", format!("{} ({number})", principal.connection_name))
                .number("number", number.into())
                .text("pid", self.pid_of_channel(principal.connection, number))
                .text("user", &*principal.user.name)
                .text("vhost", principal.vhost.name())
                .by(&principal.user.name);
        });
    }

    /// A channel has gone.
    pub(crate) fn channel_closed(&self, id: ConnectionId, number: u16, consumers: u32, user: &str) {
        self.tell("channel.closed", |headers| {
            headers
                .number("consumer_count", consumers.into())
                .text("pid", self.pid_of_channel(id, number))
                .by(user);
        });
    }

    /// An alarm has gone on or off.
    pub(crate) fn alarm_changed(&self, before: Raised, after: Raised) {
        for (alarm, source) in [(Raised::MEMORY, "memory"), (Raised::DISK, "disk")] {
            let key = match (before.has(alarm), after.has(alarm)) {
                (false, true) => "alarm.set",
                (true, false) => "alarm.cleared",
                _ => continue,
            };
            self.tell(key, |headers| {
                headers.text("node", &*self.node).text("source", source);
            });
        }
    }
}

/// Both ends of a connection and what runs between them.
pub(crate) fn ends(headers: &mut Headers, info: &ConnectionInfo) {
    headers
        .text("host", erlang::address(&info.host))
        .text("peer_host", erlang::address(&info.peer_host))
        .number("peer_port", info.peer_port.into())
        .text("protocol", protocol(info.protocol))
        .flag("ssl", false);
}

/// The name that the client has given.
fn provided(headers: &mut Headers, info: &ConnectionInfo) {
    if let Some(name) = &info.user_provided_name {
        headers.text("user_provided_name", name);
    }
}

impl Services {
    fn user_of(&self, id: ConnectionId) -> Option<Box<str>> {
        let control = self.control.get().and_then(std::sync::Weak::upgrade)?;
        control.name_and_user(id).map(|(_, user)| user)
    }
}

impl Queue {
    /// A consumer has been added.
    pub(crate) fn tell_consumer_created(&self, spec: &ConsumerSpec) {
        let (announcer, id) = (&self.services().announcer, spec.id.connection);
        announcer.tell("consumer.created", |headers| {
            headers
                .flag("ack_required", spec.ack_required)
                .arguments("arguments", Table::from_raw(&spec.arguments))
                .text("channel", announcer.pid_of_channel(id, spec.channel))
                .text("consumer_tag", &spec.tag)
                .flag("exclusive", spec.exclusive)
                .number("prefetch_count", spec.prefetch.into())
                .text("queue", self.name())
                .text("vhost", self.vhost_name())
                .by(self.services().user_of(id).as_deref().unwrap_or(INTERNAL));
        });
    }

    /// A consumer has gone.
    pub(crate) fn tell_consumer_deleted(&self, id: ConsumerId, channel: u16, tag: &[u8]) {
        let announcer = &self.services().announcer;
        announcer.tell("consumer.deleted", |headers| {
            headers
                .text("channel", announcer.pid_of_channel(id.connection, channel))
                .text("consumer_tag", tag)
                .text("queue", self.name())
                .text("vhost", self.vhost_name())
                .by(self.services().user_of(id.connection).as_deref().unwrap_or(INTERNAL));
        });
    }
}
