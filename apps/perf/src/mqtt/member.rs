//! The work of a client: publish, read, wait, reconnect, or change its subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};
use wire::mqtt::{
    Ack, ConnAck, Disconnect, Filters, Packet, Properties, Property, Publish, Qos, Subscribe, Subscription,
    SubscriptionOptions, Subscriptions, Unsubscribe,
};

use super::client::{Client, Place};
use super::options::MqttOptions;
use super::publisher::Publisher;
use crate::io::{Poller, Want};
use crate::threads::Counts;

/// The settings that all clients of a run share.
pub(super) struct Shared {
    pub(super) options: MqttOptions,
    pub(super) places: Vec<Place>,
    pub(super) counts: Arc<Counts>,
    /// Clients that have got as far as their work.
    pub(super) ready: AtomicUsize,
}

/// The role of a client.
pub(super) enum Role {
    Publisher(Box<Publisher>),
    Subscriber,
    /// Waits.
    Idle,
    /// Connects again and again.
    Reconnector,
    /// Changes its subscriptions again and again.
    Churner,
}

impl Role {
    const fn name(&self) -> &'static str {
        match self {
            Role::Publisher(_) => "publisher",
            Role::Subscriber => "subscriber",
            Role::Idle => "idle",
            Role::Reconnector => "reconnect",
            Role::Churner => "churn",
        }
    }
}

/// A client and its role.
pub(super) struct Member {
    nth: usize,
    pub(super) role: Role,
    pub(super) client: Option<Client>,
    pub(super) is_ready: bool,
    packet_id: u16,
}

/// The next step after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// The client has got as far as its work.
    Works,
    Reopen,
    Subscribe,
    Unsubscribe,
}

impl Member {
    pub(super) const fn new(nth: usize, role: Role) -> Self {
        Self { nth, role, client: None, is_ready: false, packet_id: 0 }
    }

    fn client_id(&self, options: &MqttOptions) -> String {
        format!("{}-{}-{}", options.id, self.role.name(), self.nth)
    }

    fn is_persistent(&self, options: &MqttOptions) -> bool {
        options.persistent && !matches!(self.role, Role::Publisher(_) | Role::Idle)
    }

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(super) fn open(&mut self, shared: &Shared, poller: &Poller, token: usize) -> Result<()> {
        let options = &shared.options;
        let place = &shared.places[self.nth % shared.places.len()];
        let (id, is_persistent) = (self.client_id(options), self.is_persistent(options));
        let mut client = Client::open(place, options.version(), &id, is_persistent)?;
        if matches!(self.role, Role::Reconnector) {
            shared.counts.published.fetch_add(1, Ordering::Relaxed);
        }
        poller.add(&client.socket, token, Want::Read)?;
        client.flush(poller, token)?;
        self.client = Some(client);
        Ok(())
    }

    /// Reads once, and answers. Whether the client has got as far as its work with it.
    ///
    /// # Errors
    /// The broker ends the connection or refuses something.
    pub(super) fn serve(
        &mut self,
        shared: &Shared,
        poller: &Poller,
        token: usize,
        buffer: &mut [u8],
    ) -> Result<bool> {
        let Some(mut client) = self.client.take() else { return Ok(false) };
        let (role, counts, version) = (&mut self.role, &*shared.counts, client.version);
        let (mut next, mut received, mut sent_ns) = (Next::Nothing, 0_u64, None);
        client.read(buffer, |output, packet| {
            match packet {
                Packet::Publish(publish) => {
                    received += 1;
                    sent_ns = sent_ns.or_else(|| publish.payload.first_chunk().copied());
                    acknowledge(publish, |answer| answer.encode(version, output));
                }
                Packet::PubRel(ack) => {
                    let ack = Ack { packet_id: ack.packet_id, ..Ack::default() };
                    Packet::PubComp(ack).encode(version, output);
                }
                packet => {
                    let answered = after(role, packet, counts, &mut |it| it.encode(version, output))?;
                    next = if answered == Next::Nothing { next } else { answered };
                }
            }
            Ok(())
        })?;
        self.client = Some(client);
        if received > 0 {
            counts.consumed.fetch_add(received, Ordering::Relaxed);
            counts.groups.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(time) = sent_ns.filter(|_| shared.options.size >= 8) {
            counts.record_latency(u64::from_be_bytes(time));
        }
        self.go_on(next, shared, poller, token)
    }

    fn go_on(&mut self, next: Next, shared: &Shared, poller: &Poller, token: usize) -> Result<bool> {
        let is_first = matches!(next, Next::Works | Next::Reopen | Next::Unsubscribe) && !self.is_ready;
        self.is_ready |= is_first;
        match next {
            Next::Subscribe => self.subscribe(&shared.options),
            Next::Unsubscribe => self.unsubscribe(&shared.options),
            Next::Reopen => {
                if let Some(mut client) = self.client.take() {
                    client.write(&Packet::Disconnect(Disconnect::default()));
                    client.flush(poller, token)?;
                }
                self.open(shared, poller, token)?;
            }
            Next::Nothing | Next::Works => {}
        }
        if let Some(client) = &mut self.client {
            client.flush(poller, token)?;
        }
        Ok(is_first)
    }

    /// The topic filters that the client subscribes to.
    fn filters(&self, options: &MqttOptions) -> Vec<String> {
        match &self.role {
            Role::Subscriber => vec![options.filter(self.nth).to_owned()],
            Role::Churner => {
                let own = |at: u16| format!("{}/churn/{}/{at}", options.id, self.nth);
                (0..options.batch_size).map(own).collect()
            }
            role => vec![format!("{}/{}/{}", options.id, role.name(), self.nth)],
        }
    }

    fn next_packet_id(&mut self) -> u16 {
        self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
        self.packet_id
    }

    fn subscribe(&mut self, options: &MqttOptions) {
        let filters = self.filters(options);
        let how = SubscriptionOptions { qos: options.qos(), ..SubscriptionOptions::default() };
        let all: Vec<_> = filters.iter().map(|filter| Subscription { filter, options: how }).collect();
        let subscriptions = Subscriptions::of(&all);
        let packet_id = self.next_packet_id();
        let Some(client) = &mut self.client else { return };
        client.write(&Packet::Subscribe(Subscribe {
            packet_id,
            properties: Properties::EMPTY,
            subscriptions,
        }));
    }

    fn unsubscribe(&mut self, options: &MqttOptions) {
        let filters = self.filters(options);
        let all: Vec<_> = filters.iter().map(String::as_str).collect();
        let packet_id = self.next_packet_id();
        let Some(client) = &mut self.client else { return };
        let filters = Filters::of(&all);
        client.write(&Packet::Unsubscribe(Unsubscribe { packet_id, properties: Properties::EMPTY, filters }));
    }

    /// Ends the session that outlives the connection, where there is one.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(super) fn forget(&mut self, shared: &Shared) -> Result<()> {
        self.client = None;
        if !self.is_persistent(&shared.options) || shared.options.keep {
            return Ok(());
        }
        let place = &shared.places[self.nth % shared.places.len()];
        let id = self.client_id(&shared.options);
        let mut client = Client::open(place, shared.options.version(), &id, false)?;
        client.socket.set_nonblocking(false)?;
        std::io::Write::write_all(&mut client.socket, &client.output)?;
        let mut is_gone = false;
        while !is_gone {
            client.read(&mut [0; 512], |_, packet| {
                is_gone = matches!(packet, Packet::ConnAck(_));
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Answers a message as its QoS demands.
fn acknowledge(publish: &Publish<'_>, write: impl FnOnce(&Packet<'_>)) {
    let ack = Ack { packet_id: publish.packet_id, ..Ack::default() };
    match publish.qos {
        Qos::AtMostOnce => {}
        Qos::AtLeastOnce => write(&Packet::PubAck(ack)),
        Qos::ExactlyOnce => write(&Packet::PubRec(ack)),
    }
}

/// The next step of a client of this role after this packet.
fn after(
    role: &mut Role,
    packet: &Packet<'_>,
    counts: &Counts,
    write: &mut dyn FnMut(&Packet<'_>),
) -> Result<Next> {
    match (role, packet) {
        (_, Packet::ConnAck(ack)) if ack.code != 0 => {
            bail!("the broker refuses the login: {:#04x}", ack.code)
        }
        (Role::Publisher(publisher), Packet::ConnAck(ack)) => {
            publisher.window = publisher.window.min(receive_max(ack));
            Ok(Next::Works)
        }
        (_, Packet::ConnAck(_)) => Ok(Next::Subscribe),
        (Role::Publisher(publisher), packet) => {
            publisher.answered(packet, write, counts);
            Ok(Next::Nothing)
        }
        (_, Packet::SubAck(ack)) if ack.codes.iter().any(|code| *code >= 0x80) => {
            bail!("the broker refuses a subscription: {:02x?}", ack.codes)
        }
        (Role::Reconnector, Packet::SubAck(_)) => {
            counts.confirmed.fetch_add(1, Ordering::Relaxed);
            Ok(Next::Reopen)
        }
        (Role::Churner, Packet::SubAck(ack)) => {
            counts.published.fetch_add(ack.codes.len() as u64, Ordering::Relaxed);
            counts.confirmed.fetch_add(ack.codes.len() as u64, Ordering::Relaxed);
            Ok(Next::Unsubscribe)
        }
        (Role::Churner, Packet::UnsubAck(_)) => Ok(Next::Subscribe),
        (_, Packet::SubAck(_)) => Ok(Next::Works),
        _ => Ok(Next::Nothing),
    }
}

/// Messages that the broker takes without an answer.
fn receive_max(ack: &ConnAck<'_>) -> u64 {
    let maximum = ack.properties.iter().find_map(|property| match property {
        Property::ReceiveMaximum(count) => Some(count),
        _ => None,
    });
    maximum.map_or(u64::from(u16::MAX), |count| u64::from(count.max(1)))
}
