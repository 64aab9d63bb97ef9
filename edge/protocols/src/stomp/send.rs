//! SEND: destination, properties, then the broker.
//!
//! Refuses to know queues beyond their names.

use broker::Incoming;
use wire::stomp::Headers;

use super::destination::{Destination, not_for};
use super::errors::Trouble;
use super::headers::encode_properties;
use super::running::{Done, Handled, Running};
use super::subscribe::named_queue;

/// Names of declared queues that are remembered. A queue beyond that is declared again.
const DECLARED_MAX: usize = 4_096;

impl Running {
    /// A message.
    pub(crate) fn send(&mut self, headers: Headers<'_>, body: &[u8]) -> Result<Handled, Trouble> {
        let missing =
            || Trouble::told("Missing destination", "\"SEND\" must include a 'destination' header\n");
        let destination = headers.get(b"destination").ok_or_else(missing)?;
        if headers.get(b"message-id").is_some() {
            return Err(Trouble::told("Invalid header", "'message-id' is not allowed on 'SEND'.\n"));
        }
        if self.is_held_by_alarms() {
            return Ok(Handled::Later);
        }
        let work = self.work.clone();
        let topics = work.settings.topic_exchange.as_bytes();
        let (exchange, key): (&[u8], Box<[u8]>) = match Destination::parse(&destination)? {
            Destination::Queue(name) if !self.has_declared(&name) => return self.declare(name, headers),
            Destination::Queue(name) | Destination::Existing(name) => (b"", name),
            Destination::Topic(key) => (topics, key),
            Destination::Exchange(name, key) => return self.publish(headers, (&name, &key), body),
            Destination::TempQueue => return Err(not_for(&destination, "SEND")),
        };
        self.publish(headers, (exchange, &key), body)
    }

    /// The queue is made with the first message that goes there.
    fn declare(&mut self, name: Box<[u8]>, headers: Headers<'_>) -> Result<Handled, Trouble> {
        let declaration = named_queue(name, headers)?;
        self.submit();
        let work = self.work.clone();
        Ok(Handled::Prepares(Box::pin(async move {
            let declared = work.declare(&declaration).await;
            Done::Declared(declared.map(|_| declaration.name).map_err(Trouble::from))
        })))
    }

    /// Whether the connection has declared a queue, which is still there.
    pub(crate) fn has_declared(&self, name: &[u8]) -> bool {
        self.declared.contains(name) && self.work.principal.vhost.queue(name).is_some()
    }

    /// A queue is there.
    pub(crate) fn declared(&mut self, name: Box<[u8]>) {
        if self.declared.len() >= DECLARED_MAX {
            self.declared.clear();
        }
        self.declared.insert(name);
    }

    fn publish(
        &mut self,
        headers: Headers<'_>,
        (exchange, routing_key): (&[u8], &[u8]),
        body: &[u8],
    ) -> Result<Handled, Trouble> {
        let reply_to = headers.get(b"reply-to").filter(|text| text.starts_with(b"/temp-queue/"));
        let reply_to: Option<Vec<u8>> = match reply_to {
            Some(name) => match self.temp_queues.get(&*name) {
                Some(queue) => Some(queue.to_vec()),
                None => return self.make_temp_queue(&name),
            },
            None => None,
        };
        let mut properties = std::mem::take(&mut self.properties);
        properties.clear();
        encode_properties(headers, reply_to.as_deref(), &mut properties)?;
        let incoming = Incoming { exchange, routing_key, properties: &properties, body, mandatory: false };
        let receipt = headers.get(b"receipt");
        // The confirm may come before the call returns.
        let number = self.confirming.latest_publish() + 1;
        if let Some(receipt) = &receipt {
            self.work.with_side(|side| side.note_receipt(number, receipt));
        }
        let channel = if receipt.is_some() { &mut self.confirming } else { &mut self.plain };
        let published = self.publisher.publish(channel, incoming);
        self.properties = properties;
        if let Err(refused) = published {
            self.work.with_side(|side| side.take_receipt(number));
            return Err(refused.into());
        }
        Ok(Handled::Taken)
    }
}
