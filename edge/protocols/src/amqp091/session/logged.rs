//! Lines of the log about a connection.

use std::time::Duration;

use broker::{CloseReason, Ending};

use super::super::errors::Failure;
use super::{HEADER_BYTES, Session};
use crate::connection::Phase as _;

/// RabbitMQ's word for this protocol.
const PROTOCOL: &str = "AMQP";

impl Session {
    /// The connection was accepted from a socket: the log tells of it from now on. Connections of parts of this program are not told of.
    pub(super) fn log_accepted(&mut self) {
        self.own.is_logged = true;
        self.broker.log_accepted(PROTOCOL, &self.peer.connection_name());
    }

    pub(super) fn log_let_in(&self) {
        if self.own.is_logged {
            self.broker.log_let_in(&self.control.info.lock());
        }
    }

    /// An error ends the connection. [`Session::log_forced`] told of ends that the server wants.
    pub(super) fn log_failure(&mut self, failure: &Failure) {
        if self.own.is_logged && !self.own.said_goodbye {
            let info = self.control.info.lock();
            self.broker.log_connection_failed(PROTOCOL, &info, self.phase.name(), &failure.reply_text());
        }
        self.own.said_goodbye = true;
    }

    /// The client has given a wrong name or password; which of them, another line says, with the rate of such lines.
    pub(super) fn log_refused_login(&mut self) {
        if self.own.is_logged && !self.own.said_goodbye {
            let info = self.control.info.lock();
            let why = format!("{} login refused", info.auth_mechanism);
            self.broker.log_connection_failed(PROTOCOL, &info, self.phase.name(), &why);
        }
        self.own.said_goodbye = true;
    }

    pub(super) fn log_forced(&mut self, reason: &CloseReason) {
        if self.own.is_logged && !self.own.said_goodbye {
            self.broker.log_forced(PROTOCOL, &self.control.info.lock(), reason);
        }
        self.own.said_goodbye = true;
    }

    /// The last line about the connection.
    pub(super) fn log_end(&mut self, ending: Ending<'_>) {
        if std::mem::take(&mut self.own.is_logged) {
            let lasted = Duration::from_millis(self.now.since_ms(self.own.started));
            self.broker.log_closed(PROTOCOL, &self.control.info.lock(), lasted, ending);
        }
    }
}

/// Why the first bytes are no AMQP 0-9-1.
pub(super) fn not_amqp(header: [u8; HEADER_BYTES]) -> String {
    const HTTP: [&[u8]; 5] = [b"GET ", b"HEAD ", b"PUT ", b"POST ", b"CONNECT "];
    let advice = "Ensure the client is connecting to the correct port.";
    if HTTP.iter().any(|verb| header.starts_with(verb)) {
        return format!("HTTP request detected on AMQP port. {advice}");
    }
    if header.starts_with(&[22, 3]) {
        return format!("TLS client detected on non-TLS AMQP port. {advice}");
    }
    match header {
        [b'A', b'M', b'Q', b'P', version @ ..] => {
            format!("the client asks for a version of AMQP that is not supported: {version:?}")
        }
        _ => format!("client did not start with AMQP protocol header: \"{}\"", header.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_who_knocks_at_the_wrong_door() {
        assert!(not_amqp(*b"GET / HT").starts_with("HTTP request detected"));
        assert!(not_amqp([22, 3, 1, 2, 0, 1, 0, 1]).starts_with("TLS client detected"));
        assert!(not_amqp(*b"AMQP\x00\x01\x00\x00").ends_with("not supported: [0, 1, 0, 0]"));
        assert!(not_amqp(*b"xx\nxxxxx").ends_with(r#""xx\nxxxxx""#));
    }
}
