//! News of connections and channels: events and lines of the log.

use std::time::Duration;

use crate::announcements::sessions::ends;
use crate::connection_lines::{ConnectionLines, Ending, Told};
use crate::connections::{CloseReason, ConnectionInfo};
use crate::logins::{LoginOutcome, LoginProtocol, name_within_bounds};
use crate::{Broker, Principal};

impl Broker {
    /// A client has tried to log in with this name, on a connection of which this much is known.
    pub fn login_tried(&self, info: &ConnectionInfo, user: &str, mechanism: &str, outcome: LoginOutcome) {
        let key = match outcome {
            LoginOutcome::Succeeded => "user.authentication.success",
            LoginOutcome::Refused => "user.authentication.failure",
        };
        let over = LoginProtocol::of_connection(info.protocol);
        self.services().counters.logins.count(over, &info.peer_host, user, outcome);
        self.services().announcer.tell(key, |headers| {
            headers
                .text("auth_mechanism", mechanism)
                .text("connection_name", &info.name)
                .text("connection_type", "network")
                .text("name", user);
            ends(headers, info);
            if outcome == LoginOutcome::Refused {
                headers.characters("error", &format!("user '{user}' - invalid credentials"));
            }
        });
        if outcome == LoginOutcome::Refused {
            self.services().announcer.connection_closed(self.next_connection_id(), info);
        }
    }
}

/// A connection as lines of the log name it.
fn told(info: &ConnectionInfo) -> Told<'_> {
    Told { name: &info.name, vhost: &info.vhost, user: &info.user }
}

/// Lines of the log about connections; `protocol` is RabbitMQ's word for it: `AMQP`, `MQTT`. Each kind has a rate.
impl Broker {
    fn lines(&self) -> (&ConnectionLines, u64) {
        (&self.services().counters.connection_lines, self.services().clock.now().as_ms())
    }

    /// A connection has come in.
    pub fn log_accepted(&self, protocol: &str, name: &str) {
        let (lines, now_ms) = self.lines();
        lines.accepted(now_ms, protocol, name);
    }

    /// A connection may use its vhost.
    pub fn log_let_in(&self, info: &ConnectionInfo) {
        let (lines, now_ms) = self.lines();
        lines.let_in(now_ms, told(info), info.user_provided_name.as_deref().map(name_within_bounds));
    }

    /// A connection is closed because of an error of its client; `phase` is RabbitMQ's word for how far it got.
    pub fn log_connection_failed(&self, protocol: &str, info: &ConnectionInfo, phase: &str, why: &str) {
        let (lines, now_ms) = self.lines();
        lines.failed(now_ms, protocol, told(info), phase, why);
    }

    /// The server closes a connection because somebody wants it closed.
    pub fn log_forced(&self, protocol: &str, info: &ConnectionInfo, reason: &CloseReason) {
        let why = match reason {
            CloseReason::Shutdown => "the node stops".into(),
            CloseReason::Operator(why) => format!("an operator has asked: {why}"),
            CloseReason::VhostDeleted(name) => format!("vhost '{name}' is deleted"),
            CloseReason::UserDeleted(name) => format!("user '{name}' is deleted"),
            CloseReason::TakenOver => "another connection has the same client id".into(),
        };
        let (lines, now_ms) = self.lines();
        lines.forced(now_ms, protocol, told(info), &why);
    }

    /// A channel is closed because of an error.
    pub fn log_channel_failed(&self, principal: &Principal, channel: u16, why: &str) {
        let (name, vhost) = (&*principal.connection_name, principal.vhost.name());
        let (lines, now_ms) = self.lines();
        lines.channel_failed(now_ms, Told { name, vhost, user: &principal.user.name }, channel, why);
    }

    /// A connection has gone, this long after it came.
    pub fn log_closed(&self, protocol: &str, info: &ConnectionInfo, lasted: Duration, ending: Ending<'_>) {
        let (lines, now_ms) = self.lines();
        lines.closed(now_ms, protocol, told(info), lasted, ending);
    }
}
