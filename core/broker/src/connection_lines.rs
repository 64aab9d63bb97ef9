//! The lines of the log about connections, in RabbitMQ's words: accepted, let in, failed, closed. Anybody who reaches a port causes some of
//! them, so each kind has a rate of its own, and a line says how many before it were left out.
//!
//! Refuses to know protocols: a session says what happened.

use std::time::Duration;

use parking_lot::Mutex;

use crate::log_texts::{Line, Pace, Room, printable};

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

/// The number of lines about connections that may still be written.
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

/// A connection, as far as lines tell of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told<'a> {
    /// Both ends.
    pub(crate) name: &'a str,
    /// Empty until a vhost is asked for.
    pub(crate) vhost: &'a str,
    /// Empty until somebody has logged in.
    pub(crate) user: &'a str,
}

/// Text that is added to a line of this kind; `None` if it is not to be written.
fn room_for(kind: &Mutex<Room>, now_ms: u64) -> Option<String> {
    match kind.lock().take(now_ms, PACE) {
        Line::Written { unwritten: 0 } => Some(String::new()),
        Line::Written { unwritten } => {
            Some(format!(" ({unwritten} lines of this kind before it were left out)"))
        }
        Line::LastForNow => Some(
            " (there are so many lines of this kind that not all of them are written from here on)".into(),
        ),
        Line::Unwritten => None,
    }
}

impl ConnectionLines {
    /// A connection has come in; `protocol` is RabbitMQ's word for it: `AMQP`, `MQTT`.
    pub(crate) fn accepted(&self, now_ms: u64, protocol: &str, name: &str) {
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(more) = room_for(&self.accepted, now_ms)
        {
            tracing::info!("accepting {protocol} connection {name}{more}");
        }
    }

    /// A connection may use its vhost; `client` is the name that it has given itself.
    pub(crate) fn let_in(&self, now_ms: u64, told: Told<'_>, client: Option<&str>) {
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(more) = room_for(&self.let_in, now_ms)
        {
            let Told { name, vhost, user } = told;
            let (user, vhost) = (printable(user), printable(vhost));
            let client = client.map(|client| format!(" ({})", printable(client))).unwrap_or_default();
            tracing::info!(
                "connection {name}{client}: user '{user}' authenticated and granted access to vhost '{vhost}'{more}"
            );
        }
    }

    /// A connection is closed because of an error of its client.
    pub(crate) fn failed(&self, now_ms: u64, protocol: &str, told: Told<'_>, phase: &str, why: &str) {
        let Some(more) = room_for(self.ends_of(told), now_ms) else { return };
        let (of, why) = (told.facts(), printable(why));
        tracing::error!("Error on {protocol} connection ({of}, state: {phase}): {why}{more}");
    }

    /// The server closes a connection because somebody wants it closed.
    pub(crate) fn forced(&self, now_ms: u64, protocol: &str, told: Told<'_>, why: &str) {
        let Some(more) = room_for(&self.closed, now_ms) else { return };
        let (of, why) = (told.facts(), printable(why));
        tracing::info!("Closing {protocol} connection ({of}) because {why}{more}");
    }

    /// A channel is closed because of an error.
    pub(crate) fn channel_failed(&self, now_ms: u64, told: Told<'_>, channel: u16, why: &str) {
        let Some(more) = room_for(&self.channels, now_ms) else { return };
        let (of, why) = (told.facts(), printable(why));
        tracing::error!("Channel error on connection ({of}), channel {channel}: {why}{more}");
    }

    /// A connection has gone, this long after it came.
    pub(crate) fn closed(
        &self,
        now_ms: u64,
        protocol: &str,
        told: Told<'_>,
        lasted: Duration,
        ending: Ending<'_>,
    ) {
        let kind = match ending {
            Ending::InOrder => &self.closed,
            Ending::Unexpected | Ending::Failed(_) => self.ends_of(told),
        };
        let Some(more) = room_for(kind, now_ms) else { return };
        let (of, lasted) = (told.facts(), duration(lasted));
        let line = format!("closing {protocol} connection ({of}, duration: '{lasted}')");
        match ending {
            Ending::InOrder => tracing::info!("{line}{more}"),
            Ending::Unexpected => tracing::warn!("{line}: client unexpectedly closed TCP connection{more}"),
            Ending::Failed(why) => tracing::error!("{line}: {}{more}", printable(why)),
        }
    }

    fn ends_of(&self, told: Told<'_>) -> &Mutex<Room> {
        if told.user.is_empty() { &self.strangers } else { &self.broken }
    }
}

impl Told<'_> {
    /// Both ends, and how far it got.
    fn facts(self) -> String {
        let mut facts = self.name.to_owned();
        if !self.vhost.is_empty() {
            facts.push_str(&format!(", vhost: '{}'", printable(self.vhost)));
        }
        if !self.user.is_empty() {
            facts.push_str(&format!(", user: '{}'", printable(self.user)));
        }
        facts
    }
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
        let mut told = Told { name: "10.0.0.1:1 -> 10.0.0.2:5672", ..Told::default() };
        assert_eq!(told.facts(), "10.0.0.1:1 -> 10.0.0.2:5672");
        (told.vhost, told.user) = ("a\nb", "guest");
        assert_eq!(told.facts(), r"10.0.0.1:1 -> 10.0.0.2:5672, vhost: 'a\nb', user: 'guest'");
    }
}
