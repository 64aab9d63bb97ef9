//! The trace of a vhost: the switch, and what channels add to it.

use std::sync::Arc;

use message::MessageView;
use queues::GotMessage;

use crate::announcements::trace::{Place, delivered};
use crate::announcements::trace_switch::Tracing;
use crate::cell::Queue;
use crate::{Broker, Principal};

impl Broker {
    /// Switches the trace of a vhost; `false` if there is no such vhost.
    pub fn trace(&self, vhost: &str, tracing: Tracing) -> bool {
        let found = self.vhost(vhost);
        found.inspect(|vhost| vhost.trace().set(tracing)).is_some()
    }

    /// Whether messages of a vhost are traced.
    pub fn tracing(&self, vhost: &str) -> Tracing {
        let is_on = self.vhost(vhost).is_some_and(|vhost| vhost.trace().is_on());
        if is_on { Tracing::On } else { Tracing::Off }
    }

    /// A channel hands the client what it got by basic.get; costs one look at a flag unless the vhost is traced.
    pub fn trace_got(&self, principal: &Principal, channel: u16, queue: &Queue, got: &GotMessage) {
        if !principal.vhost.trace().is_on() {
            return;
        }
        let message = MessageView {
            exchange: &got.exchange,
            routing_key: &got.routing_key,
            properties: &got.properties,
            body: &got.body,
        };
        let vhost = principal.vhost.shared_name();
        let place = self.place(principal, &vhost, channel);
        delivered(place, queue, message, &got.annotations, got.redelivered)
            .into_iter()
            .for_each(|copy| self.services().announcer.outlet.say(copy));
    }

    /// Where a channel of a connection stands.
    pub(crate) fn place<'a>(
        &'a self,
        principal: &'a Principal,
        vhost: &'a Arc<str>,
        channel: u16,
    ) -> Place<'a> {
        let node = &self.options().node_name;
        Place { vhost, node, connection: &principal.connection_name, channel, user: &principal.user.name }
    }
}
