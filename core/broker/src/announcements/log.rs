//! Log lines on the exchange `amq.rabbitmq.log`: the key is the level, the body the line, as RabbitMQ's `log.exchange`.
//!
//! Refuses to know what is logged and which lines are wanted. A line about publishing a line is never published.

use std::sync::Arc;

use message::{PropertiesBuf, TableBuf};

use super::events::Announcer;
use super::outlet::{Announcement, THREAD_NAME};
use crate::Broker;
use crate::refused::Refused;

/// The exchange of log lines.
pub(crate) const LOG_EXCHANGE: &[u8] = b"amq.rabbitmq.log";

/// Where the logging of the process hands lines over; outlives the broker and is then silent.
#[derive(Clone)]
pub struct LogExchange(Arc<Announcer>);

impl LogExchange {
    /// Publishes a line if anybody listens. Never waits and never logs; a line that does not fit is dropped and counted.
    pub fn say(&self, level: &str, line: &[u8]) {
        let announcer = &self.0;
        let Some(vhost) = announcer.logs.heard_in() else { return };
        if std::thread::current().name() == Some(THREAD_NAME) {
            return;
        }
        let mut headers = TableBuf::new();
        headers.push_str("node", &*announcer.node);
        let properties = PropertiesBuf {
            content_type: Some(b"text/plain".to_vec()),
            headers: Some(headers),
            timestamp: Some(announcer.now_ms() / 1000),
            ..PropertiesBuf::default()
        };
        let mut raw = Vec::new();
        properties.encode(&mut raw).expect("the only string among them is short");
        announcer.outlet.say(Announcement {
            vhost,
            exchange: LOG_EXCHANGE,
            key: level.into(),
            properties: raw,
            body: line.into(),
        });
    }
}

impl Broker {
    /// Declares the exchange of log lines as RabbitMQ does, if one is wanted and its vhost exists; for the start, once all
    /// vhosts are there. `None` if there is none. Waits until it is durable.
    ///
    /// # Errors
    /// Why it cannot be declared: storage has failed, or there is another exchange of that name.
    pub fn declare_log_exchange(&self) -> Result<Option<LogExchange>, Refused> {
        let Some(vhost) = &self.options().log_exchange_vhost else { return Ok(None) };
        self.declare_own(vhost, LOG_EXCHANGE)?;
        Ok(Some(LogExchange(self.services().announcer.clone())))
    }
}
