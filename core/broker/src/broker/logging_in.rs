//! Logins: their counts, log lines and events.

use crate::Broker;
use crate::log_texts::Line;
use crate::login_lines::Reason;
use crate::logins::{
    LoginOutcome, LoginProtocol, LoginRecording, LoginSource, LoginTotals, name_within_bounds,
};

impl Broker {
    /// Somebody has tried to log in to the HTTP API; `user` is the name that was given, empty without one.
    pub fn http_login_tried(&self, address: &str, user: &str, outcome: LoginOutcome) {
        self.services().counters.logins.count(LoginProtocol::Http, address, user, outcome);
    }

    /// Logins over a protocol since the start, or since they were set back.
    #[must_use]
    pub fn logins(&self, protocol: LoginProtocol) -> LoginTotals {
        self.services().counters.logins.now(protocol)
    }

    /// Logins count from 0 again, their sources too.
    pub fn set_logins_back(&self) {
        self.services().counters.logins.set_back();
    }

    /// Begins or ends to record where logins come from, until the node stops. Off at the start.
    pub fn record_login_sources(&self, recording: LoginRecording) {
        self.services().counters.logins.record_sources(recording);
    }

    /// Logins by where they came from, of the times in which that was recorded; at most [`LOGIN_SOURCES_MAX`].
    #[must_use]
    pub fn login_sources(&self) -> Vec<(LoginSource, LoginTotals)> {
        self.services().counters.logins.sources()
    }
}

impl Broker {
    /// Writes a line about a refused login, unless there are too many.
    pub(crate) fn log_refused_login(&self, user: &str, reason: Reason) {
        let services = self.services();
        let line = services.counters.refusal_lines.take(reason, services.clock.now());
        let (user, why) = (name_within_bounds(user), reason.words());
        match line {
            Line::Written { unwritten: 0 } => tracing::warn!(user, "login refused: {why}"),
            Line::Written { unwritten } => {
                tracing::warn!(
                    user,
                    "login refused: {why}; {unwritten} more before it were not written here"
                );
            }
            Line::LastForNow => tracing::warn!(
                "logins are refused so often that not all of them are written here any more; /api/auth/attempts counts them"
            ),
            Line::Unwritten => {}
        }
    }
}
