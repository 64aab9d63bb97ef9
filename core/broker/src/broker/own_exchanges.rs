//! The exchanges of the broker's own voice, and events for those who ask by a tool.

use metadata::{Arguments, Command, DeclareExchange};

use crate::Broker;
use crate::actor::INTERNAL;
use crate::announcements::events::{EVENT_EXCHANGE, LOG_EXCHANGE, ReadParameter, SilentExchange};
use crate::announcements::log::LogExchange;
use crate::announcements::tap::Told;
use crate::refused::Refused;

impl Broker {
    /// Declares the exchange of events as RabbitMQ's plugin does, if events are wanted and their vhost exists; for the start,
    /// once all vhosts are there. Waits until it is durable.
    ///
    /// # Errors
    /// Why it cannot be declared: storage has failed, or there is another exchange of that name.
    pub fn declare_event_exchange(&self) -> Result<(), Refused> {
        match &self.options().event_exchange_vhost {
            Some(vhost) => self.declare_own(vhost, EVENT_EXCHANGE),
            None => Ok(()),
        }
    }

    /// Exchanges of events or log lines with bindings, in which the broker publishes nothing: an earlier start did, as it was configured
    /// then. Queues that are bound to them wait for nothing.
    #[must_use]
    pub fn silent_exchanges(&self) -> Vec<SilentExchange> {
        let options = self.options();
        let own = [
            (EVENT_EXCHANGE, options.event_exchange_vhost.as_deref(), "warren.event_exchange"),
            (LOG_EXCHANGE, options.log_exchange_vhost.as_deref(), "log.exchange"),
        ];
        self.read_metadata(|state| {
            let of_vhost = |vhost: &metadata::Vhost| {
                own.map(|(exchange, spoken_in, key)| {
                    let name = String::from_utf8_lossy(vhost.name());
                    let bindings = vhost.binding_count_from(exchange);
                    let exchange = String::from_utf8_lossy(exchange);
                    (bindings > 0 && spoken_in != Some(&*name)).then(|| SilentExchange {
                        vhost: name.into_owned(),
                        exchange: exchange.into_owned(),
                        bindings,
                        key,
                    })
                })
            };
            state.vhosts().flat_map(of_vhost).flatten().collect()
        })
    }

    /// The events behind an event's number, at most the last 10,000 events and 8 MiB of them; without a number only the number
    /// to ask with. When nobody has asked for a minute they are only counted, and after ten not even that; [`Told`] says what was missed.
    #[must_use]
    pub fn events_after(&self, seq: Option<u64>) -> Told {
        let announcer = &self.services().announcer;
        announcer.tap.after(seq, announcer.now_ms())
    }

    /// Values of runtime parameters are told of as this reads them; without it, as the texts that they are. Once.
    pub fn read_parameters_with(&self, read: ReadParameter) {
        let _already = self.services().announcer.parameters.set(read);
    }

    /// Declares a durable, internal topic exchange, if it is not there and its vhost is.
    pub(crate) fn declare_own(&self, vhost: &str, exchange: &[u8]) -> Result<(), Refused> {
        if self.vhost(vhost).is_none_or(|vhost| vhost.exchange(exchange).is_some()) {
            return Ok(());
        }
        let declare = Command::DeclareExchange(DeclareExchange {
            vhost: vhost.as_bytes().into(),
            name: exchange.into(),
            kind: "topic".into(),
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: Arguments::default(),
        });
        self.commit(metadata::Entry::new(INTERNAL, declare))?.wait().map(drop)
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
