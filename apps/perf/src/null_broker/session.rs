//! One connection's side of AMQP 0-9-1, as little of it as clients need to publish and consume.
//!
//! Accepts every login and every declaration, remembers none. Refuses to know sockets.

use super::relay::{Message, Relay};
use crate::io::whole_frame;
use anyhow::{Context, Result, bail, ensure};
use wire::amqp091::methods::{basic, channel, confirm, connection, exchange, queue};
use wire::amqp091::{
    ContentHeader, FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, Frame, Method, PROTOCOL_HEADER,
    ShortStr, Table, encode_ack,
};

/// Highest channel number, as RabbitMQ has it.
const CHANNEL_MAX: u16 = 2047;
/// Largest frame in bytes, as RabbitMQ has it.
const FRAME_SIZE_MAX: u32 = 131_072;
/// Largest body in bytes: RabbitMQ's limit before 4.0.
const BODY_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Class and method number of `basic.publish`, as they stand in a frame.
const PUBLISH: [u8; 4] = [0, 60, 0, 40];

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It does.
    GoOn,
    /// It is to be closed once everything is written.
    Close,
}

/// A message that arrives in pieces. Its buffers are kept from one to the next.
#[derive(Debug, Default)]
struct Arriving {
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    properties: Vec<u8>,
    body: Vec<u8>,
    body_bytes: u64,
}

#[derive(Debug, Default)]
struct Channel {
    is_confirming: bool,
    published: u64,
    confirmed: u64,
    arriving: Arriving,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    number: usize,
    greeted: bool,
    then: Then,
    frame_size_max: usize,
    /// The n-th is channel n + 1.
    channels: Vec<Option<Channel>>,
    publishes: bool,
    names: u64,
}

impl Session {
    /// The connection of this number.
    pub(super) const fn new(number: usize) -> Self {
        let frame_size_max = FRAME_SIZE_MAX as usize;
        Self {
            number,
            greeted: false,
            then: Then::GoOn,
            frame_size_max,
            channels: Vec::new(),
            publishes: false,
            names: 0,
        }
    }

    /// Whether it has ever published, and so must wait while others are behind.
    pub(super) const fn publishes(&self) -> bool {
        self.publishes
    }

    /// Whether it goes on.
    pub(super) const fn then(&self) -> Then {
        self.then
    }

    /// Handles all whole frames; confirms what was published in one go. Says how many bytes are done with.
    ///
    /// # Errors
    /// The peer broke the protocol, and the connection is to be dropped.
    pub(super) fn receive(&mut self, bytes: &[u8], relay: &mut Relay) -> Result<usize> {
        let mut at = 0;
        if !self.greeted {
            let Some(header) = bytes.first_chunk::<8>() else { return Ok(0) };
            at += header.len();
            self.greet(*header, relay);
        }
        while self.then == Then::GoOn
            && let Some((frame, taken)) = whole_frame(&bytes[at..])?
        {
            at += match self.whole_publish(frame, &bytes[at + taken..], relay)? {
                Some(content) => taken + content,
                None => {
                    self.frame(frame, relay)?;
                    taken
                }
            };
        }
        if self.publishes {
            self.confirm(relay);
        }
        Ok(at)
    }

    fn greet(&mut self, header: [u8; 8], relay: &mut Relay) {
        self.greeted = true;
        if header != PROTOCOL_HEADER {
            relay.outbox(self.number).extend_from_slice(&PROTOCOL_HEADER);
            self.then = Then::Close;
            return;
        }
        let (server_properties, mechanisms, locales) = (Table::EMPTY, &b"PLAIN AMQPLAIN"[..], &b"en_US"[..]);
        let (version_major, version_minor) = (0, 9);
        self.answer(
            0,
            connection::Start { version_major, version_minor, server_properties, mechanisms, locales },
            relay,
        );
    }

    fn answer<'m>(&self, channel: u16, method: impl Into<Method<'m>>, relay: &mut Relay) {
        method.into().encode_frame(channel, relay.outbox(self.number));
    }

    /// The fast way: a publish whose header and only body frame have arrived too is forwarded from where it lies. Says
    /// how many bytes of content follow the method; `None` if this is anything else.
    #[inline]
    fn whole_publish(&mut self, method: Frame<'_>, rest: &[u8], relay: &mut Relay) -> Result<Option<usize>> {
        if method.kind != FRAME_METHOD || !method.payload.starts_with(&PUBLISH) {
            return Ok(None);
        }
        let Some((header, header_taken)) = whole_frame(rest)? else { return Ok(None) };
        let Some((body, body_taken)) = whole_frame(&rest[header_taken..])? else { return Ok(None) };
        let in_order = header.kind == FRAME_HEADER && body.kind == FRAME_BODY;
        if !in_order || header.channel != method.channel || body.channel != method.channel {
            return Ok(None);
        }
        let content = ContentHeader::decode(header.payload)?;
        if content.body_size != body.payload.len() as u64 {
            return Ok(None);
        }
        let Method::BasicPublish(publish) = Method::decode(method.payload)? else { return Ok(None) };
        let (exchange, routing_key) = (publish.exchange.as_bytes(), publish.routing_key.as_bytes());
        relay.publish(&Message { exchange, routing_key, properties: content.properties, body: body.payload });
        channel_of(&mut self.channels, method.channel)?.published += 1;
        self.publishes = true;
        Ok(Some(header_taken + body_taken))
    }

    fn frame(&mut self, frame: Frame<'_>, relay: &mut Relay) -> Result<()> {
        match frame.kind {
            FRAME_METHOD => self.method(frame.channel, &Method::decode(frame.payload)?, relay),
            FRAME_HEARTBEAT => Ok(()),
            FRAME_HEADER => {
                let header = ContentHeader::decode(frame.payload)?;
                let channel = channel_of(&mut self.channels, frame.channel)?;
                ensure!(header.body_size <= BODY_BYTES_MAX, "a message of {} bytes", header.body_size);
                channel.arriving.begin(&header);
                channel.forward_when_whole(relay)
            }
            FRAME_BODY => {
                let channel = channel_of(&mut self.channels, frame.channel)?;
                channel.arriving.body.extend_from_slice(frame.payload);
                channel.forward_when_whole(relay)
            }
            kind => bail!("a frame of kind {kind}"),
        }
    }

    fn method(&mut self, number: u16, method: &Method<'_>, relay: &mut Relay) -> Result<()> {
        match method {
            Method::BasicPublish(publish) => {
                self.publishes = true;
                channel_of(&mut self.channels, number)?.arriving.announce(publish);
            }
            Method::BasicAck(_) | Method::BasicNack(_) | Method::BasicReject(_) => {}
            _ if number == 0 => self.connection_method(method, relay)?,
            Method::ChannelOpen(_) => {
                ensure!(number <= CHANNEL_MAX, "channel {number}");
                let index = usize::from(number) - 1;
                if self.channels.len() <= index {
                    self.channels.resize_with(index + 1, || None);
                }
                self.channels[index] = Some(Channel::default());
                self.answer(number, channel::OpenOk::default(), relay);
            }
            Method::ChannelClose(_) => {
                relay.cancel(self.number, number, None);
                if let Some(channel) = self.channels.get_mut(usize::from(number) - 1) {
                    *channel = None;
                }
                self.answer(number, channel::CloseOk::default(), relay);
            }
            Method::ConfirmSelect(select) => {
                channel_of(&mut self.channels, number)?.is_confirming = true;
                if !select.nowait {
                    self.answer(number, confirm::SelectOk::default(), relay);
                }
            }
            _ => self.consuming(number, method, relay)?,
        }
        Ok(())
    }

    fn connection_method(&mut self, method: &Method<'_>, relay: &mut Relay) -> Result<()> {
        match method {
            Method::ConnectionStartOk(_) => {
                let (channel_max, frame_max) = (CHANNEL_MAX, FRAME_SIZE_MAX);
                self.answer(0, connection::Tune { channel_max, frame_max, heartbeat: 0 }, relay);
            }
            Method::ConnectionTuneOk(tune) => {
                let frame_max = if tune.frame_max == 0 { FRAME_SIZE_MAX } else { tune.frame_max };
                ensure!((4096..=FRAME_SIZE_MAX).contains(&frame_max), "a frame_max of {frame_max}");
                self.frame_size_max = frame_max as usize;
            }
            Method::ConnectionOpen(_) => self.answer(0, connection::OpenOk::default(), relay),
            Method::ConnectionClose(_) => {
                self.answer(0, connection::CloseOk::default(), relay);
                self.then = Then::Close;
            }
            Method::ConnectionCloseOk(_) => self.then = Then::Close,
            _ => bail!("{} is not for a null broker", method.name()),
        }
        Ok(())
    }

    fn consuming(&mut self, number: u16, method: &Method<'_>, relay: &mut Relay) -> Result<()> {
        match method {
            Method::BasicQos(_) => self.answer(number, basic::QosOk::default(), relay),
            Method::BasicConsume(consume) => {
                let name = self.name_or(consume.consumer_tag);
                let consumer_tag = ShortStr::bounded(&name);
                if !consume.nowait {
                    self.answer(number, basic::ConsumeOk { consumer_tag }, relay);
                }
                relay.consume(self.number, number, &name, self.frame_size_max);
            }
            Method::BasicCancel(basic::Cancel { consumer_tag, nowait }) => {
                relay.cancel(self.number, number, Some(consumer_tag));
                if !nowait {
                    self.answer(number, basic::CancelOk { consumer_tag: *consumer_tag }, relay);
                }
            }
            Method::BasicGet(_) => self.answer(number, basic::GetEmpty::default(), relay),
            Method::BasicRecover(_) => self.answer(number, basic::RecoverOk::default(), relay),
            _ => self.declaring(number, method, relay)?,
        }
        Ok(())
    }

    /// Says yes to everything that names queues, exchanges and bindings.
    fn declaring(&mut self, number: u16, method: &Method<'_>, relay: &mut Relay) -> Result<()> {
        let (nowait, answer): (bool, Method<'_>) = match method {
            Method::QueueDeclare(declare) => {
                let name = self.name_or(declare.queue);
                let declared = queue::DeclareOk { queue: ShortStr::bounded(&name), ..Default::default() };
                if !declare.nowait {
                    self.answer(number, declared, relay);
                }
                return Ok(());
            }
            Method::QueueBind(bind) => (bind.nowait, queue::BindOk::default().into()),
            Method::QueueUnbind(_) => (false, queue::UnbindOk::default().into()),
            Method::QueuePurge(purge) => (purge.nowait, queue::PurgeOk::default().into()),
            Method::QueueDelete(delete) => (delete.nowait, queue::DeleteOk::default().into()),
            Method::ExchangeDeclare(declare) => (declare.nowait, exchange::DeclareOk::default().into()),
            Method::ExchangeDelete(delete) => (delete.nowait, exchange::DeleteOk::default().into()),
            Method::ExchangeBind(bind) => (bind.nowait, exchange::BindOk::default().into()),
            Method::ExchangeUnbind(unbind) => (unbind.nowait, exchange::UnbindOk::default().into()),
            _ => bail!("{} is not for a null broker", method.name()),
        };
        if !nowait {
            self.answer(number, answer, relay);
        }
        Ok(())
    }

    /// The name, or a new one if it is empty.
    fn name_or(&mut self, name: ShortStr<'_>) -> Vec<u8> {
        if !name.is_empty() {
            return name.to_vec();
        }
        self.names += 1;
        format!("null-{}-{}", self.number, self.names).into_bytes()
    }

    /// One acknowledgement per channel for everything that was published since the last.
    fn confirm(&mut self, relay: &mut Relay) {
        for (number, channel) in (1..).zip(&mut self.channels) {
            let Some(channel) = channel else { continue };
            if channel.is_confirming && channel.published > channel.confirmed {
                channel.confirmed = channel.published;
                encode_ack(relay.outbox(self.number), number, channel.confirmed, true);
            }
        }
    }
}

/// The open channel of this number.
#[inline]
fn channel_of(channels: &mut [Option<Channel>], number: u16) -> Result<&mut Channel> {
    let index = usize::from(number).checked_sub(1);
    let channel = index.and_then(|index| channels.get_mut(index)).and_then(Option::as_mut);
    channel.with_context(|| format!("channel {number} is not open"))
}

impl Channel {
    fn forward_when_whole(&mut self, relay: &mut Relay) -> Result<()> {
        let Arriving { exchange, routing_key, properties, body, body_bytes } = &self.arriving;
        ensure!(body.len() as u64 <= *body_bytes, "a body is longer than its header said");
        if body.len() as u64 == *body_bytes {
            relay.publish(&Message { exchange, routing_key, properties, body });
            self.published += 1;
            // A body frame without a header is longer than this.
            self.arriving.body_bytes = 0;
            self.arriving.body.clear();
        }
        Ok(())
    }
}

impl Arriving {
    fn announce(&mut self, publish: &basic::Publish<'_>) {
        self.exchange.clear();
        self.exchange.extend_from_slice(&publish.exchange);
        self.routing_key.clear();
        self.routing_key.extend_from_slice(&publish.routing_key);
    }

    fn begin(&mut self, header: &ContentHeader<'_>) {
        self.properties.clear();
        self.properties.extend_from_slice(header.properties);
        self.body.clear();
        self.body_bytes = header.body_size;
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Deliver;
    use super::*;
    use wire::amqp091::encode_publish;

    /// A session that is past the handshake, with channel 1 open, confirming and consuming.
    fn open() -> (Session, Relay) {
        let (mut session, mut relay) = (Session::new(0), Relay::new(Deliver::RoundRobin));
        relay.join(0);
        let mut bytes = PROTOCOL_HEADER.to_vec();
        connection::StartOk::default().encode_frame(0, &mut bytes);
        connection::TuneOk { channel_max: 1, frame_max: 4096, heartbeat: 0 }.encode_frame(0, &mut bytes);
        connection::Open::default().encode_frame(0, &mut bytes);
        channel::Open::default().encode_frame(1, &mut bytes);
        confirm::Select::default().encode_frame(1, &mut bytes);
        basic::Consume::default().encode_frame(1, &mut bytes);
        assert_eq!(session.receive(&bytes, &mut relay).unwrap(), bytes.len());
        let answers = ["connection.start", "connection.tune", "connection.open-ok", "channel.open-ok"];
        assert_eq!(drain(&mut relay), [&answers[..], &["confirm.select-ok", "basic.consume-ok"]].concat());
        (session, relay)
    }

    fn drain(relay: &mut Relay) -> Vec<&'static str> {
        let mut names = Vec::new();
        relay.drain(|_, mut bytes| {
            while let Some((frame, taken)) = whole_frame(bytes).unwrap() {
                names.push(match frame.kind {
                    FRAME_METHOD => Method::decode(frame.payload).unwrap().name(),
                    FRAME_HEADER => "header",
                    _ => "body",
                });
                bytes = &bytes[taken..];
            }
        });
        names
    }

    #[test]
    fn publishes_come_back_as_deliveries_however_they_are_cut() {
        for piece_bytes in [7, 60, 10_000] {
            let (mut session, mut relay) = open();
            let mut bytes = Vec::new();
            for body_bytes in [0, 5, 5000] {
                encode_publish(&mut bytes, 1, b"e", b"k", false, &[0, 0], &vec![1; body_bytes], 4096);
            }
            let (mut rest, mut names) = (Vec::new(), Vec::new());
            for piece in bytes.chunks(piece_bytes) {
                rest.extend_from_slice(piece);
                let done = session.receive(&rest, &mut relay).unwrap();
                rest.drain(..done);
                names.extend(drain(&mut relay).into_iter().filter(|name| *name != "basic.ack"));
            }
            let expected = [
                "basic.deliver",
                "header",
                "basic.deliver",
                "header",
                "body",
                "basic.deliver",
                "header",
                "body",
                "body",
            ];
            assert_eq!(names, expected, "{piece_bytes}");
        }
    }

    #[test]
    fn everything_that_was_published_in_one_read_is_confirmed_at_once() {
        let (mut session, mut relay) = open();
        let mut bytes = Vec::new();
        for _ in 0..3 {
            encode_publish(&mut bytes, 1, b"e", b"k", false, &[0, 0], b"x", 4096);
        }
        session.receive(&bytes, &mut relay).unwrap();
        assert_eq!(drain(&mut relay).into_iter().filter(|name| *name == "basic.ack").count(), 1);
    }

    #[test]
    fn a_peer_that_breaks_the_protocol_is_dropped() {
        let long = {
            let mut bytes = Vec::new();
            basic::Publish::default().encode_frame(1, &mut bytes);
            let header = ContentHeader { class_id: 60, weight: 0, body_size: u64::MAX, properties: &[0, 0] };
            header.encode_frame(1, &mut bytes);
            bytes
        };
        let mut unopened = Vec::new();
        encode_publish(&mut unopened, 9, b"", b"", false, &[0, 0], b"x", 4096);
        for bytes in
            [&b"\x03\x00\x01\x00\x00\x00\x01x\xCE"[..], b"\x01\x00\x01\xFF\xFF\xFF\xFF", &long, &unopened]
        {
            let (mut session, mut relay) = open();
            assert!(session.receive(bytes, &mut relay).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn another_protocol_gets_ours_and_the_door() {
        let (mut session, mut relay) = (Session::new(0), Relay::new(Deliver::All));
        relay.join(0);
        session.receive(b"GET / HT", &mut relay).unwrap();
        assert_eq!(session.then(), Then::Close);
    }
}
