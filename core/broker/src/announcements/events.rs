//! Events on the exchange `amq.rabbitmq.event`, as RabbitMQ's plugin publishes them (B176): the key names the event, the
//! body is empty, everything else stands in the headers, in the order of their names.
//!
//! Nothing is made of an event unless something is bound to the exchange. Refuses to know what happens where.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use message::{ArrayBuf, PropertiesBuf, Table, TableBuf, Value};
use platform::Clock;
use stdx::ConnectionId;

use crate::BrokerOptions;
use crate::announcements::outlet::{Announcement, Outlet};
use crate::announcements::tap::Tap;

/// The exchange of events.
pub(crate) const EVENT_EXCHANGE: &[u8] = b"amq.rabbitmq.event";

/// Where an exchange of the broker's own is, if it is wanted, and how many bindings lead away from it.
pub(crate) struct Audience {
    exchange: &'static [u8],
    vhost: Option<Arc<str>>,
    bindings: AtomicUsize,
}

impl Audience {
    fn new(exchange: &'static [u8], vhost: Option<&str>) -> Audience {
        Audience { exchange, vhost: vhost.map(Arc::from), bindings: AtomicUsize::new(0) }
    }

    fn count(&self, vhost: &[u8], exchange: &[u8], added: bool) {
        let is_ours = self.vhost.as_deref().is_some_and(|own| own.as_bytes() == vhost);
        match (is_ours && exchange == self.exchange, added) {
            (false, _) => 0,
            (true, true) => self.bindings.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.bindings.fetch_sub(1, Ordering::Relaxed),
        };
    }

    #[inline]
    fn is_listening(&self) -> bool {
        self.bindings.load(Ordering::Relaxed) > 0
    }

    /// The vhost, if anybody listens.
    pub(crate) fn heard_in(&self) -> Option<Arc<str>> {
        if self.is_listening() { self.vhost.clone() } else { None }
    }
}

/// Says what the broker says by itself, where anybody listens.
pub(crate) struct Announcer {
    pub(crate) outlet: Outlet,
    pub(crate) node: Box<str>,
    events: Audience,
    /// Tools that ask for events.
    pub(crate) tap: Tap,
    pub(crate) logs: Audience,
    /// The reader of values of runtime parameters.
    pub(crate) parameters: OnceLock<ReadParameter>,
    clock: Arc<dyn Clock>,
}

/// An exchange of the broker's own voice in which it says nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentExchange {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub exchange: String,
    /// How many bindings it has.
    pub bindings: usize,
    /// The key of the configuration that makes the broker speak there.
    pub key: &'static str,
}

/// Reads the text of a runtime parameter's value: a table whose only entry is the value as events have it, of any name.
pub type ReadParameter = fn(&str) -> TableBuf;

impl Announcer {
    /// Nobody listens yet.
    pub(crate) fn new(options: &BrokerOptions, clock: Arc<dyn Clock>) -> Announcer {
        let events = Audience::new(EVENT_EXCHANGE, options.event_exchange_vhost.as_deref());
        let logs = Audience::new(LOG_EXCHANGE, options.log_exchange_vhost.as_deref());
        Announcer {
            outlet: Outlet::default(),
            node: options.node_name.as_str().into(),
            events,
            tap: Tap::default(),
            logs,
            parameters: OnceLock::new(),
            clock,
        }
    }

    /// The value of a runtime parameter, as a header.
    pub(crate) fn parameter(&self, headers: &mut Headers, text: &str) {
        let read = self.parameters.get().map(|read| read(text));
        match read.as_ref().and_then(|table| table.as_table().iter().next()) {
            Some((_, value)) => headers.value("value", value),
            None => headers.text("value", text),
        };
    }

    /// Milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// For tests of others: says nothing.
    #[cfg(test)]
    pub(crate) fn silent() -> Arc<Announcer> {
        Arc::new(Announcer::new(&BrokerOptions::default(), Arc::new(platform::RealClock::new())))
    }

    /// A binding of an exchange has come or gone.
    pub(crate) fn count_binding(&self, vhost: &[u8], exchange: &[u8], added: bool) {
        self.events.count(vhost, exchange, added);
        self.logs.count(vhost, exchange, added);
    }

    /// Whether anybody listens to events.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        self.events.is_listening() || self.tap.is_on()
    }

    /// Publishes an event if anybody listens, and keeps it for those who ask.
    pub(crate) fn tell(&self, key: &str, fill: impl FnOnce(&mut Headers)) {
        if !self.is_heard() {
            return;
        }
        let now_ms = self.clock.wall_ms();
        let mut headers = Headers::default();
        fill(&mut headers);
        headers.number("timestamp_in_ms", now_ms);
        let headers = headers.into_table();
        if self.tap.is_on() {
            self.tap.keep(key, &headers, now_ms);
        }
        let Some(vhost) = self.events.heard_in() else { return };
        let properties = PropertiesBuf {
            headers: Some(headers),
            delivery_mode: Some(2),
            timestamp: Some(now_ms / 1000),
            ..PropertiesBuf::default()
        };
        let mut raw = Vec::new();
        properties.encode(&mut raw).expect("there is no string among them");
        self.outlet.say(Announcement {
            vhost,
            exchange: EVENT_EXCHANGE,
            key: key.into(),
            properties: raw,
            body: Box::default(),
        });
    }

    /// The process id that RabbitMQ shows for a connection.
    pub(crate) fn pid_of_connection(&self, id: ConnectionId) -> String {
        format!("<{}.{}.0.0>", self.node, id.count)
    }

    /// The process id that RabbitMQ shows for a channel.
    pub(crate) fn pid_of_channel(&self, id: ConnectionId, channel: u16) -> String {
        format!("<{}.{}.{channel}.0>", self.node, id.count)
    }
}

/// Headers of an event.
#[derive(Default)]
pub(crate) struct Headers(Vec<(Box<str>, Vec<u8>)>);

impl Headers {
    /// A header of any type.
    pub(crate) fn value<'v>(&mut self, name: &str, value: impl Into<Value<'v>>) -> &mut Self {
        let mut one = TableBuf::new();
        one.push(name, value);
        self.0.push((name.into(), one.into_raw()));
        self
    }

    /// A long string.
    pub(crate) fn text(&mut self, name: &str, text: impl AsRef<[u8]>) -> &mut Self {
        self.value(name, Value::LongStr(text.as_ref()))
    }

    /// A flag.
    pub(crate) fn flag(&mut self, name: &str, flag: bool) -> &mut Self {
        self.value(name, Value::Bool(flag))
    }

    /// A 64-bit integer; a number that does not fit becomes the largest.
    pub(crate) fn number(&mut self, name: &str, number: u64) -> &mut Self {
        self.value(name, Value::I64(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// An array of long strings.
    pub(crate) fn texts<T: AsRef<[u8]>>(
        &mut self,
        name: &str,
        texts: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        let mut array = ArrayBuf::new();
        for text in texts {
            array.push_str(text);
        }
        self.value(name, Value::Array(array.as_array()))
    }

    /// A text as an array of its characters: RabbitMQ writes some so.
    pub(crate) fn characters(&mut self, name: &str, text: &str) -> &mut Self {
        let mut array = ArrayBuf::new();
        for character in text.chars() {
            array.push(Value::I64(u32::from(character).into()));
        }
        self.value(name, Value::Array(array.as_array()))
    }

    /// A table of arguments, in Erlang's notation.
    pub(crate) fn arguments(&mut self, name: &str, arguments: Table<'_>) -> &mut Self {
        self.value(name, Value::Array(super::erlang::entries(arguments).as_array()))
    }

    /// Names the user who caused the event.
    pub(crate) fn by(&mut self, user: &str) -> &mut Self {
        self.text("user_who_performed_action", user)
    }

    fn into_table(mut self) -> TableBuf {
        self.0.sort_by(|one, other| one.0.cmp(&other.0));
        let raw: Vec<u8> = self.0.into_iter().flat_map(|(_, entry)| entry).collect();
        TableBuf::from(Table::from_raw(&raw))
    }
}

/// The exchange of log lines.
pub(crate) const LOG_EXCHANGE: &[u8] = b"amq.rabbitmq.log";
