//! From the first byte to an attached link: protocol headers, SASL, open, begin, and the queue that is declared on the way.
//!
//! Refuses to know messages.

use wire::amqp10::{
    Attach, AttachTarget, Begin, Close, FRAME_SASL, Flow, Map, Open, PROTOCOL_HEADER, Performative,
    Properties, ReceiverSettleMode, Role, SASL_PROTOCOL_HEADER, SaslCode, SaslInit, SaslPerformative,
    SenderSettleMode, Source, Str, Symbol, Symbols, Target, Transfer, Value, Writer, encode_delivery,
};

use wire::amqp091::{Table, Value as Value091};

use super::session::{CHANNEL, HANDLE, Port10, WINDOW, ended};
use crate::client::{LinkError, Opening};
use crate::link::{FRAME_SIZE_MAX, Link};

/// Heartbeat when the URI asks for none, seconds.
const HEARTBEAT_S: u16 = 10;

/// The node that answers requests, and the handles of the pair of links to it.
const MANAGEMENT: &str = "/management";
const REQUESTS: u32 = 1;
const ANSWERS: u32 = 2;

/// Filters of a source: entries of a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filters(pub(crate) Vec<u8>);

impl Filters {
    /// Of a consumer's arguments, each a filter of its name, as RabbitMQ's shovels make them.
    pub(crate) fn of(arguments: Table<'_>) -> Filters {
        let mut entries = Vec::new();
        let mut writer = Writer::new(&mut entries);
        for (name, value) in arguments.iter() {
            let name = if name == b"x-stream-offset" { b"rabbitmq:stream-offset-spec" } else { name };
            writer.symbol(name);
            writer.described_by_name(name, |writer| match value {
                Value091::LongStr(text) => writer.string(text),
                Value091::Bool(flag) => writer.bool(flag),
                Value091::Timestamp(seconds) => {
                    let ms = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
                    writer.timestamp(ms);
                }
                value => writer.value(&value.as_i64().map_or(Value::Null, Value::Long)),
            });
        }
        Filters(entries)
    }
}

/// A link that is wanted.
pub(crate) struct Wish<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: &'a str,
    /// Messages are sent settled.
    pub(crate) settled: bool,
    /// The filters of a receiver; `None` makes a sender.
    pub(crate) filters: Option<&'a Filters>,
}

impl Link {
    /// Waits for the performative that `take` knows; others are passed over, an end is an error.
    async fn answer10<T>(
        &mut self,
        mut take: impl FnMut(&Performative<'_>, &[u8]) -> Option<T>,
    ) -> Result<T, LinkError> {
        loop {
            while let Some(frame) = self.next_frame10()? {
                if frame.body.is_empty() {
                    continue;
                }
                let decoded = Performative::decode(frame.body);
                let (performative, payload) =
                    decoded.map_err(|error| LinkError::Protocol(error.to_string()))?;
                if let Some(taken) = take(&performative, payload) {
                    return Ok(taken);
                }
                match performative {
                    Performative::Detach(detach) => return Err(ended("link", detach.error)),
                    Performative::End(end) => return Err(ended("session", end.error)),
                    Performative::Close(close) => return Err(ended("connection", close.error)),
                    _ => {}
                }
            }
            self.progress().await?;
        }
    }

    /// Waits for the peer to say the same protocol header.
    async fn header10(&mut self, header: [u8; 8]) -> Result<(), LinkError> {
        self.output.extend_from_slice(&header);
        loop {
            if let Some(said) = self.next_bytes() {
                let wrong = || LinkError::Protocol(format!("the broker does not speak AMQP 1.0: {said:?}"));
                return if said == header { Ok(()) } else { Err(wrong()) };
            }
            self.progress().await?;
        }
    }

    async fn log_in(&mut self, opening: &Opening<'_>) -> Result<(), LinkError> {
        self.header10(SASL_PROTOCOL_HEADER).await?;
        let plain = format!("\0{}\0{}", opening.user, opening.password);
        let init = match opening.is_anonymous {
            true => SaslInit { mechanism: Symbol(b"ANONYMOUS"), initial_response: None, hostname: None },
            false => SaslInit {
                mechanism: Symbol(b"PLAIN"),
                initial_response: Some(plain.as_bytes()),
                hostname: None,
            },
        };
        init.encode_frame(0, &mut self.output);
        loop {
            while let Some(frame) = self.next_frame10()? {
                if frame.kind != FRAME_SASL {
                    return Err(LinkError::Protocol("another frame than one of SASL".into()));
                }
                let decoded = SaslPerformative::decode(frame.body);
                match decoded.map_err(|error| LinkError::Protocol(error.to_string()))?.0 {
                    SaslPerformative::SaslOutcome(outcome) if outcome.code == SaslCode::Ok => return Ok(()),
                    SaslPerformative::SaslOutcome(outcome) => {
                        let text = format!("SASL outcome {:?}", outcome.code);
                        let condition = "amqp:unauthorized-access".into();
                        return Err(LinkError::Ended { what: "connection", condition, text });
                    }
                    _ => {}
                }
            }
            self.progress().await?;
        }
    }
}

impl Port10 {
    /// From the protocol header to an open session; `host` is what the client calls the broker.
    ///
    /// # Errors
    /// The broker refuses, or speaks something else.
    pub(crate) async fn open(mut link: Link, opening: &Opening<'_>, host: &str) -> Result<Port10, LinkError> {
        link.log_in(opening).await?;
        link.header10(PROTOCOL_HEADER).await?;
        let wanted_s = opening.heartbeat_s.unwrap_or(HEARTBEAT_S);
        let vhost = opening.vhost10.map(|vhost| format!("vhost:{vhost}"));
        let mut properties = Vec::new();
        let mut writer = Writer::new(&mut properties);
        for (name, text) in [("product", "Warren shovel"), ("version", env!("CARGO_PKG_VERSION"))] {
            writer.symbol(name.as_bytes());
            writer.string(text.as_bytes());
        }
        let open = Open {
            container_id: opening.name,
            hostname: Some(vhost.as_deref().unwrap_or(host)),
            max_frame_size: FRAME_SIZE_MAX,
            channel_max: 0,
            idle_time_out: (wanted_s > 0).then(|| u32::from(wanted_s) * 2000),
            outgoing_locales: Symbols::EMPTY,
            incoming_locales: Symbols::EMPTY,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::from_raw(&properties),
        };
        open.encode_frame(0, &mut link.output);
        let (frame_size, idle_ms) = link
            .answer10(|performative, _| match performative {
                Performative::Open(open) => Some((open.max_frame_size, open.idle_time_out.unwrap_or(0))),
                _ => None,
            })
            .await?;
        link.frame_size_max = frame_size.clamp(512, FRAME_SIZE_MAX) as usize;
        let peer_s = u16::try_from(idle_ms / 1000).unwrap_or(u16::MAX);
        let least_s = if wanted_s == 0 { peer_s } else { wanted_s.min(peer_s.max(1)) };
        link.set_heartbeat(if peer_s == 0 { wanted_s } else { least_s });
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: WINDOW,
            outgoing_window: WINDOW,
            handle_max: ANSWERS,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::EMPTY,
        };
        begin.encode_frame(CHANNEL, &mut link.output);
        let (next_incoming_id, window) = link
            .answer10(|performative, _| match performative {
                Performative::Begin(begin) => Some((begin.next_outgoing_id, begin.incoming_window)),
                _ => None,
            })
            .await?;
        let mut port = Port10::new(link);
        (port.next_incoming_id, port.window) = (next_incoming_id, window);
        Ok(port)
    }

    /// Attaches the one link.
    ///
    /// # Errors
    /// The broker refuses it.
    pub(crate) async fn attach(&mut self, wish: &Wish<'_>) -> Result<(), LinkError> {
        let source = Source {
            address: Some(wish.address),
            filter: wish.filters.map_or(Map::EMPTY, |filters| Map::from_raw(&filters.0)),
            ..Source::default()
        };
        let target = Target { address: Some(wish.address), ..Target::default() };
        let is_receiver = wish.filters.is_some();
        let attach = Attach {
            snd_settle_mode: match wish.settled {
                true => SenderSettleMode::Settled,
                false => SenderSettleMode::Unsettled,
            },
            source: Some(if is_receiver { source } else { Source::default() }),
            target: Some(AttachTarget::Target(if is_receiver { Target::default() } else { target })),
            ..bare(wish.name, HANDLE, if is_receiver { Role::Receiver } else { Role::Sender })
        };
        attach.encode_frame(CHANNEL, &mut self.link.output);
        let told = |performative: &Performative<'_>, _: &[u8]| match performative {
            Performative::Attach(attach) => Some((
                if is_receiver { attach.source.is_some() } else { attach.target.is_some() },
                (attach.initial_delivery_count.unwrap_or(0), attach.handle),
            )),
            _ => None,
        };
        let (is_there, (delivery_count, handle)) = self.link.answer10(told).await?;
        if !is_there {
            // The reason follows in a detach.
            let never = |_: &Performative<'_>, _: &[u8]| None::<()>;
            self.link.answer10(never).await?;
        }
        (self.received, self.remote_handle) = (delivery_count, handle);
        Ok(())
    }

    /// Declares a durable queue over the management node. Whether that works is not asked, as in RabbitMQ: the attach that follows tells.
    ///
    /// # Errors
    /// The broker ends session or connection.
    pub(crate) async fn declare(&mut self, queue_path: &str) -> Result<(), LinkError> {
        let mut paired = Vec::new();
        let mut writer = Writer::new(&mut paired);
        writer.symbol(b"paired");
        writer.value(&Value::Bool(true));
        for (handle, role) in [(REQUESTS, Role::Sender), (ANSWERS, Role::Receiver)] {
            let node = Some(MANAGEMENT);
            let attach = Attach {
                snd_settle_mode: SenderSettleMode::Settled,
                source: Some(Source { address: node, ..Source::default() }),
                target: Some(AttachTarget::Target(Target { address: node, ..Target::default() })),
                properties: Map::from_raw(&paired),
                ..bare("management", handle, role)
            };
            attach.encode_frame(CHANNEL, &mut self.link.output);
            self.link
                .answer10(|performative, _| matches!(performative, Performative::Attach(_)).then_some(()))
                .await?;
        }
        let flow = Flow {
            next_incoming_id: Some(self.next_incoming_id),
            incoming_window: WINDOW,
            next_outgoing_id: 0,
            outgoing_window: WINDOW,
            handle: Some(ANSWERS),
            delivery_count: Some(0),
            link_credit: Some(1),
            available: None,
            drain: false,
            echo: false,
            properties: Map::EMPTY,
        };
        flow.encode_frame(CHANNEL, &mut self.link.output);
        self.request(queue_path);
        self.link
            .answer10(|performative, _| matches!(performative, Performative::Transfer(_)).then_some(()))
            .await?;
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        for handle in [REQUESTS, ANSWERS] {
            let detach = wire::amqp10::Detach { handle, closed: true, error: None };
            detach.encode_frame(CHANNEL, &mut self.link.output);
            self.link
                .answer10(|performative, _| matches!(performative, Performative::Detach(_)).then_some(()))
                .await?;
        }
        Ok(())
    }

    /// Sends the request that declares a queue.
    fn request(&mut self, queue_path: &str) {
        let mut message = Vec::new();
        let properties = Properties {
            message_id: Some(wire::amqp10::MessageId::Ulong(1)),
            to: Some(Str(queue_path.as_bytes())),
            subject: Some(Str(b"PUT")),
            reply_to: Some(Str(b"$me")),
            ..Properties::EMPTY
        };
        properties.encode(&mut message);
        Writer::new(&mut message).described(0x77, |writer| {
            writer.map(|writer| {
                writer.string(b"durable");
                writer.bool(true);
                writer.string(b"arguments");
                writer.map(|_| ());
            });
        });
        let transfer = Transfer {
            delivery_id: Some(0),
            delivery_tag: Some(b"r"),
            message_format: Some(0),
            settled: Some(true),
            ..Transfer::of(REQUESTS)
        };
        encode_delivery(CHANNEL, &transfer, &[&message], self.link.frame_size_max, &mut self.link.output);
        self.sent_frames(1);
    }

    /// Closes in order: when it returns without an error the broker has taken everything that was sent.
    pub(crate) async fn close(&mut self) -> Result<(), LinkError> {
        Close { error: None }.encode_frame(0, &mut self.link.output);
        self.link
            .answer10(|performative, _| matches!(performative, Performative::Close(_)).then_some(()))
            .await
    }
}

/// An attach with nothing but what must be there.
fn bare(name: &str, handle: u32, role: Role) -> Attach<'_> {
    Attach {
        name,
        handle,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: None,
        target: None,
        unsettled: Map::EMPTY,
        incomplete_unsettled: false,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    }
}
