//! The lines of the log about connections, in RabbitMQ's words: accepted, let in, failed, closed. Whoever reaches a port causes some of
//! them, so each kind has a rate of its own, and a line says how many before it were left out.
//!
//! Refuses to know protocols: a session says what happened.

use std::time::Duration;

use parking_lot::Mutex;

use crate::connections::ConnectionInfo;
use crate::log_texts::{Line, Pace, Room, printable};
use crate::{Broker, CloseReason, Principal};

/// A hundred at once, then five a second.
const PACE: Pace = Pace { lines_max: 100, line_ms: 200 };

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// One side has said goodbye, or an error of the connection has been told of already.
    InOrder,
    /// The client's stream has ended without a word.
    Unexpected,
    /// For this reason.
    Failed(&'a str),
}

/// What may still be written about connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLines {
    accepted: Mutex<Room>,
    let_in: Mutex<Room>,
    closed: Mutex<Room>,
    /// Ends of those that were let in.
    broken: Mutex<Room>,
    /// Ends of those that were not: strangers hide no trouble of a user.
    strangers: Mutex<Room>,
    channels: Mutex<Room>,
}

impl Broker {
    /// What is to be added to a line of this kind; `None` if it is not to be written.
    fn room_for(&self, kind: &Mutex<Room>) -> Option<String> {
        let now_ms = self.services().clock.now().as_ms();
        match kind.lock().take(now_ms, PACE) {
            Line::Written { unwritten: 0 } => Some(String::new()),
            Line::Written { unwritten } => {
                Some(format!(" ({unwritten} lines of this kind before it were left out)"))
            }
            Line::LastForNow => Some(
                " (there are so many lines of this kind that not all of them are written from here on)"
                    .into(),
            ),
            Line::Unwritten => None,
        }
    }

    fn connection_lines(&self) -> &ConnectionLines {
        &self.services().counters.connection_lines
    }

    /// A connection has come in; `protocol` is RabbitMQ's word for it: `AMQP`, `MQTT`.
    pub fn log_accepted(&self, protocol: &str, name: &str) {
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(more) = self.room_for(&self.connection_lines().accepted)
        {
            tracing::info!("accepting {protocol} connection {name}{more}");
        }
    }

    /// A connection may use its vhost.
    pub fn log_let_in(&self, info: &ConnectionInfo) {
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(more) = self.room_for(&self.connection_lines().let_in)
        {
            let (user, vhost) = (printable(&info.user), printable(&info.vhost));
            let client = info.user_provided_name.as_deref().map(client_name).unwrap_or_default();
            let name = &info.name;
            tracing::info!(
                "connection {name}{client}: user '{user}' authenticated and granted access to vhost '{vhost}'{more}"
            );
        }
    }

    /// A connection is closed because of an error. What the server itself wants is no error.
    pub fn log_connection_failed(&self, protocol: &str, info: &ConnectionInfo, phase: &str, why: &str) {
        let Some(more) = self.room_for(self.ends_of(info)) else { return };
        let (of, why) = (facts(info), printable(why));
        tracing::error!("Error on {protocol} connection ({of}, state: {phase}): {why}{more}");
    }

    /// The server closes a connection because somebody wants it closed.
    pub fn log_forced(&self, protocol: &str, info: &ConnectionInfo, reason: &CloseReason) {
        let Some(more) = self.room_for(&self.connection_lines().closed) else { return };
        let of = facts(info);
        let why = match reason {
            CloseReason::Shutdown => "the node stops".into(),
            CloseReason::Operator(why) => format!("an operator has asked: {}", printable(why)),
            CloseReason::VhostDeleted(name) => format!("vhost '{}' is deleted", printable(name)),
            CloseReason::UserDeleted(name) => format!("user '{}' is deleted", printable(name)),
        };
        tracing::info!("Closing {protocol} connection ({of}) because {why}{more}");
    }

    /// A channel is closed because of an error.
    pub fn log_channel_failed(&self, principal: &Principal, channel: u16, why: &str) {
        let Some(more) = self.room_for(&self.connection_lines().channels) else { return };
        let (name, why) = (&principal.connection_name, printable(why));
        let (vhost, user) = (printable(principal.vhost.name()), printable(&principal.user.name));
        tracing::error!(
            "Channel error on connection ({name}, vhost: '{vhost}', user: '{user}'), channel {channel}: {why}{more}"
        );
    }

    /// A connection has gone, this long after it came.
    pub fn log_closed(&self, protocol: &str, info: &ConnectionInfo, lasted: Duration, ending: Ending<'_>) {
        let kind = match ending {
            Ending::InOrder => &self.connection_lines().closed,
            Ending::Unexpected | Ending::Failed(_) => self.ends_of(info),
        };
        let Some(more) = self.room_for(kind) else { return };
        let (of, lasted) = (facts(info), duration(lasted));
        let line = format!("closing {protocol} connection ({of}, duration: '{lasted}')");
        match ending {
            Ending::InOrder => tracing::info!("{line}{more}"),
            Ending::Unexpected => tracing::warn!("{line}: client unexpectedly closed TCP connection{more}"),
            Ending::Failed(why) => tracing::error!("{line}: {}{more}", printable(why)),
        }
    }

    fn ends_of(&self, info: &ConnectionInfo) -> &Mutex<Room> {
        let lines = self.connection_lines();
        if info.user.is_empty() { &lines.strangers } else { &lines.broken }
    }
}

fn client_name(name: &str) -> String {
    format!(" ({})", printable(crate::logins::name_within_bounds(name)))
}

/// Both ends, and how far it got.
fn facts(info: &ConnectionInfo) -> String {
    let mut facts = info.name.clone();
    if !info.vhost.is_empty() {
        facts.push_str(&format!(", vhost: '{}'", printable(&info.vhost)));
    }
    if !info.user.is_empty() {
        facts.push_str(&format!(", user: '{}'", printable(&info.user)));
    }
    facts
}

/// As RabbitMQ writes it: `3ms`, `12s`, `4M, 2s`, `1D, 2H, 3M, 4s`.
fn duration(lasted: Duration) -> String {
    let s = lasted.as_secs();
    match (s / 86_400, s / 3_600 % 24, s / 60 % 60, s % 60) {
        (0, 0, 0, 0) => format!("{}ms", lasted.as_millis()),
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}M, {s}s"),
        (0, h, m, s) => format!("{h}H, {m}M, {s}s"),
        (d, h, m, s) => format!("{d}D, {h}H, {m}M, {s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_rabbitmq_does() {
        let of = |ms| duration(Duration::from_millis(ms));
        assert_eq!((of(0), of(999), of(1_500)), ("0ms".into(), "999ms".into(), "1s".into()));
        assert_eq!((of(62_000), of(3_600_000)), ("1M, 2s".into(), "1H, 0M, 0s".into()));
        assert_eq!(of(86_400_000 + 3_723_000), "1D, 1H, 2M, 3s");
    }

    #[test]
    fn a_line_tells_as_much_of_a_connection_as_is_known() {
        let mut info =
            ConnectionInfo { name: "10.0.0.1:1 -> 10.0.0.2:5672".into(), ..ConnectionInfo::default() };
        assert_eq!(facts(&info), "10.0.0.1:1 -> 10.0.0.2:5672");
        (info.vhost, info.user) = ("a\nb".into(), "guest".into());
        assert_eq!(facts(&info), r"10.0.0.1:1 -> 10.0.0.2:5672, vhost: 'a\nb', user: 'guest'");
    }
}
