//! Events on the exchange `amq.rabbitmq.event`, as RabbitMQ's plugin publishes them (B176): the key names the event, the
//! body is empty, everything else stands in the headers, in the order of their names.
//!
//! Nothing is made of an event unless something is bound to the exchange. Refuses to know what happens where.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metadata::{Arguments, Command, DeclareExchange};
use platform::Clock;
use stdx::ConnectionId;
use wire::amqp091::{ArrayBuf, PropertiesBuf, Table, TableBuf, Value};

use super::outlet::{Announcement, Outlet};
use crate::Broker;
use crate::refused::Refused;

/// The exchange of events.
pub(crate) const EVENT_EXCHANGE: &[u8] = b"amq.rabbitmq.event";

/// Whoever changes something by a tool, in RabbitMQ's words.
pub(crate) const CLI: &str = "rmq-cli";

/// What changes by itself, in RabbitMQ's words.
pub(crate) const INTERNAL: &str = "rmq-internal";

/// The broker's own voice: what it says, and whether anybody listens.
pub(crate) struct Voice {
    pub(crate) outlet: Outlet,
    pub(crate) node: Box<str>,
    event_vhost: Option<Arc<str>>,
    /// Bindings of the event exchange.
    listeners: AtomicUsize,
    clock: Arc<dyn Clock>,
}

impl Voice {
    /// Events go to a vhost, or nowhere.
    pub(crate) fn new(node: &str, event_vhost: Option<&str>, clock: Arc<dyn Clock>) -> Voice {
        let (outlet, listeners) = (Outlet::default(), AtomicUsize::new(0));
        Voice { outlet, node: node.into(), event_vhost: event_vhost.map(Arc::from), listeners, clock }
    }

    /// For tests of others: says nothing.
    #[cfg(test)]
    pub(crate) fn silent() -> Arc<Voice> {
        Arc::new(Voice::new("", None, Arc::new(platform::RealClock::new())))
    }

    /// A binding of an exchange has come or gone.
    pub(crate) fn count_binding(&self, vhost: &[u8], exchange: &[u8], added: bool) {
        let is_ours = self.event_vhost.as_deref().is_some_and(|own| own.as_bytes() == vhost);
        if exchange != EVENT_EXCHANGE || !is_ours {
            return;
        }
        if added {
            self.listeners.fetch_add(1, Ordering::Relaxed);
        } else {
            self.listeners.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether anybody listens to events.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    /// Publishes an event if anybody listens.
    pub(crate) fn tell(&self, key: &str, fill: impl FnOnce(&mut Headers)) {
        let Some(vhost) = self.event_vhost.clone().filter(|_| self.is_heard()) else { return };
        let now_ms = self.clock.wall_ms();
        let mut headers = Headers::default();
        fill(&mut headers);
        headers.number("timestamp_in_ms", now_ms);
        let properties = PropertiesBuf {
            headers: Some(headers.into_table()),
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

    /// What RabbitMQ shows as the process of a connection.
    pub(crate) fn pid_of_connection(&self, id: ConnectionId) -> String {
        format!("<{}.{}.0.0>", self.node, id.0)
    }

    /// What RabbitMQ shows as the process of a channel.
    pub(crate) fn pid_of_channel(&self, id: ConnectionId, channel: u16) -> String {
        format!("<{}.{}.{channel}.0>", self.node, id.0)
    }
}

impl Broker {
    /// Declares the exchange of events as RabbitMQ's plugin does, if events are wanted and their vhost exists; for the start,
    /// once all vhosts are there. Waits until it is durable.
    ///
    /// # Errors
    /// Why it cannot be declared: storage has failed, or there is another exchange of that name.
    pub fn declare_event_exchange(&self) -> Result<(), Refused> {
        let Some(vhost) = &self.options().event_exchange_vhost else { return Ok(()) };
        if self.vhost(vhost).is_none_or(|vhost| vhost.exchange(EVENT_EXCHANGE).is_some()) {
            return Ok(());
        }
        let declare = Command::DeclareExchange(DeclareExchange {
            vhost: vhost.as_bytes().into(),
            name: EVENT_EXCHANGE.into(),
            kind: "topic".into(),
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: Arguments::default(),
        });
        self.commit(INTERNAL, &declare)?.1.wait()
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

    /// A 64-bit integer; what does not fit is the largest.
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

    /// A table of arguments, in Erlang's notation.
    pub(crate) fn arguments(&mut self, name: &str, arguments: Table<'_>) -> &mut Self {
        self.value(name, Value::Array(super::erlang::entries(arguments).as_array()))
    }

    /// Whose doing it is.
    pub(crate) fn by(&mut self, user: &str) -> &mut Self {
        self.text("user_who_performed_action", user)
    }

    fn into_table(mut self) -> TableBuf {
        self.0.sort_by(|one, other| one.0.cmp(&other.0));
        let raw: Vec<u8> = self.0.into_iter().flat_map(|(_, entry)| entry).collect();
        TableBuf::from(Table::from_raw(&raw))
    }
}
