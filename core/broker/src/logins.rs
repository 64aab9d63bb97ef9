//! Logins that were tried: how many over each protocol, and, while an operator wants to know, from where and as whom. Refuses to
//! know passwords, and what a login is for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::stats::Tick;

/// Sources that are told apart at most; logins from others are counted by protocol only.
pub const LOGIN_SOURCES_MAX: usize = 10_000;

/// Longest name of a user that is kept, bytes: the protocol's. Of a longer one the beginning is.
const NAME_BYTES_MAX: usize = 255;

/// Over which protocol somebody logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoginProtocol {
    /// AMQP 0-9-1.
    Amqp091,
    /// AMQP 1.0.
    Amqp10,
    /// MQTT of any version.
    Mqtt,
    /// The stream protocol.
    Stream,
    /// The HTTP API: each of its requests is a login.
    Http,
}

impl LoginProtocol {
    /// All of them.
    pub const ALL: [LoginProtocol; 5] = [
        LoginProtocol::Amqp091,
        LoginProtocol::Amqp10,
        LoginProtocol::Mqtt,
        LoginProtocol::Stream,
        LoginProtocol::Http,
    ];

    /// RabbitMQ's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LoginProtocol::Amqp091 => "amqp091",
            LoginProtocol::Amqp10 => "amqp10",
            LoginProtocol::Mqtt => "mqtt",
            LoginProtocol::Stream => "stream",
            LoginProtocol::Http => "http",
        }
    }

    /// That of a connection, by what listings call its protocol.
    pub(crate) fn of_connection(shown: &str) -> LoginProtocol {
        match shown {
            "AMQP 1-0" => LoginProtocol::Amqp10,
            _ if shown.contains("MQTT") => LoginProtocol::Mqtt,
            _ if shown.starts_with("stream") => LoginProtocol::Stream,
            _ => LoginProtocol::Amqp091,
        }
    }
}

/// Logins since the start, or since somebody set them back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginTotals {
    /// Logins that succeeded.
    pub succeeded: u64,
    /// Logins that were refused.
    pub refused: u64,
}

impl LoginTotals {
    /// All of them.
    #[must_use]
    pub fn tried(self) -> u64 {
        self.succeeded + self.refused
    }
}

/// Where logins come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoginSource {
    /// The peer's address.
    pub address: Box<str>,
    /// The name that was given; empty without one.
    pub user: Box<str>,
    /// Over what.
    pub protocol: LoginProtocol,
}

/// Whether sources are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRecording {
    /// From now on.
    On,
    /// Not any more; the records stay until they are set back.
    Off,
}

/// The counts of logins.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// In the order of [`LoginProtocol::ALL`].
    counted: [Counted; LoginProtocol::ALL.len()],
    records: AtomicBool,
    sources: Mutex<BTreeMap<LoginSource, LoginTotals>>,
}

#[derive(Debug, Default)]
struct Counted {
    succeeded: Tick,
    refused: Tick,
}

impl Logins {
    /// One more.
    pub(crate) fn count(&self, protocol: LoginProtocol, address: &str, user: &str, outcome: LoginOutcome) {
        let counted = self.of(protocol);
        match outcome {
            LoginOutcome::Succeeded => counted.succeeded.count(),
            LoginOutcome::Refused => counted.refused.count(),
        }
        if self.records.load(Ordering::Relaxed) {
            self.record(protocol, address, user, outcome);
        }
    }

    fn record(&self, protocol: LoginProtocol, address: &str, user: &str, outcome: LoginOutcome) {
        let source = LoginSource { address: address.into(), user: name_within_bounds(user).into(), protocol };
        let mut sources = self.sources.lock();
        if sources.len() >= LOGIN_SOURCES_MAX && !sources.contains_key(&source) {
            return;
        }
        let totals = sources.entry(source).or_default();
        match outcome {
            LoginOutcome::Succeeded => totals.succeeded += 1,
            LoginOutcome::Refused => totals.refused += 1,
        }
    }

    /// Logins count from 0 again, their sources too.
    pub(crate) fn set_back(&self) {
        for counted in &self.counted {
            counted.succeeded.set_back();
            counted.refused.set_back();
        }
        self.sources.lock().clear();
    }

    /// Begins or ends to record where logins come from.
    pub(crate) fn record_sources(&self, recording: LoginRecording) {
        self.records.store(recording == LoginRecording::On, Ordering::Relaxed);
    }

    /// Logins by where they came from.
    pub(crate) fn sources(&self) -> Vec<(LoginSource, LoginTotals)> {
        self.sources.lock().iter().map(|(source, totals)| (source.clone(), *totals)).collect()
    }

    fn of(&self, protocol: LoginProtocol) -> &Counted {
        &self.counted[protocol as usize]
    }

    /// The logins over one protocol.
    pub(crate) fn now(&self, protocol: LoginProtocol) -> LoginTotals {
        let counted = self.of(protocol);
        LoginTotals { succeeded: counted.succeeded.now(), refused: counted.refused.now() }
    }
}

/// As much of a name that somebody gave as a name can have.
pub(crate) fn name_within_bounds(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// The outcome of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginOutcome {
    /// The user is let in.
    Succeeded,
    /// User, password or address are wrong.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart_while_somebody_wants_to_know() {
        let logins = Logins::default();
        let count = |user: &str, outcome| logins.count(LoginProtocol::Http, "::1", user, outcome);
        count("guest", LoginOutcome::Succeeded);
        assert!(logins.sources.lock().is_empty());
        logins.records.store(true, Ordering::Relaxed);
        count("guest", LoginOutcome::Refused);
        count(&"é".repeat(200), LoginOutcome::Refused);
        let sources = logins.sources.lock();
        let lengths: Vec<(usize, u64)> =
            sources.iter().map(|(it, totals)| (it.user.len(), totals.refused)).collect();
        assert_eq!(lengths, [(5, 1), (254, 1)], "a name is cut between characters");
        assert_eq!(logins.now(LoginProtocol::Http), LoginTotals { succeeded: 1, refused: 2 });
        assert_eq!(logins.now(LoginProtocol::Amqp091).tried(), 0);
    }

    #[test]
    fn protocols_stand_in_order_and_are_known_by_what_listings_call_them() {
        for (place, protocol) in LoginProtocol::ALL.into_iter().enumerate() {
            assert_eq!(place, protocol as usize);
        }
        let shown = ["AMQP 0-9-1", "AMQP 1-0", "MQTT 5-0", "Web MQTT 3-1-1", "stream"];
        let names = shown.map(|shown| LoginProtocol::of_connection(shown).name());
        assert_eq!(names, ["amqp091", "amqp10", "mqtt", "mqtt", "stream"]);
    }

    #[test]
    fn no_more_sources_are_kept_than_there_may_be_and_known_ones_go_on() {
        let logins = Logins::default();
        logins.records.store(true, Ordering::Relaxed);
        let count = |user: usize| {
            logins.count(LoginProtocol::Amqp091, "10.0.0.1", &user.to_string(), LoginOutcome::Refused);
        };
        (0..LOGIN_SOURCES_MAX + 10).for_each(count);
        count(0);
        let sources = logins.sources.lock();
        let first = &sources
            [&LoginSource { address: "10.0.0.1".into(), user: "0".into(), protocol: LoginProtocol::Amqp091 }];
        assert_eq!((sources.len(), first.refused), (LOGIN_SOURCES_MAX, 2));
    }
}
