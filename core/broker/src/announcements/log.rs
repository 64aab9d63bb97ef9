//! Log lines on the exchange `amq.rabbitmq.log`: the key is the level, the body the line, as RabbitMQ's `log.exchange`.
//!
//! Refuses to know what is logged and which lines are wanted. A line about publishing a line is never published.

use std::sync::Arc;

use message::{PropertiesBuf, TableBuf};

use super::events::Announcer;
use super::outlet::{Announcement, THREAD_NAME};
use crate::announcements::events::LOG_EXCHANGE;

/// Where the logging of the process hands lines over; outlives the broker and is then silent.
#[derive(Clone)]
pub struct LogExchange(pub(crate) Arc<Announcer>);

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
