//! The client's side of AMQP 0-9-1 as far as a shovel needs it: the handshake, one channel, calls that are answered.
//!
//! Refuses to know what is moved.

use std::future::poll_fn;
use std::io;

use wire::amqp091::methods::{basic, channel, confirm, connection, queue};
use wire::amqp091::sasl::{Credentials, encode_plain};
use wire::amqp091::{FRAME_METHOD, Method, PROTOCOL_HEADER, ShortStr, Table, TableBuf};

use crate::link::{FRAME_SIZE_MAX, Link, Wanted};

/// The one channel of a connection.
pub(crate) const CHANNEL: u16 = 1;

/// Heartbeat when the URI asks for none, seconds: that of RabbitMQ's own client.
const HEARTBEAT_S: u16 = 10;

/// Why a connection cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The socket has failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The broker has closed connection or channel.
    #[error("{code} {text}")]
    Closed {
        /// Reply code.
        code: u16,
        /// Reply text.
        text: String,
    },
    /// The broker of AMQP 1.0 has ended link, session or connection.
    #[error("{what} ended: {condition} {text}")]
    Ended {
        /// The thing that has ended.
        what: &'static str,
        /// Condition; empty if it gave none.
        condition: String,
        /// Its words.
        text: String,
    },
    /// The broker has cancelled the consumer: its queue is gone.
    #[error("the source queue was deleted or has crashed: the consumer was cancelled")]
    Cancelled,
    /// A message came back: the destination queue is gone.
    #[error("the destination queue is gone: a message came back with {code} {text}")]
    Returned {
        /// Reply code.
        code: u16,
        /// Reply text.
        text: String,
    },
    /// The broker's bytes are not of the protocol, or not in order.
    #[error("{0}")]
    Protocol(String),
    /// The attempt took too long.
    #[error("timed out")]
    Timeout,
}

impl From<wire::amqp091::FrameError> for LinkError {
    fn from(error: wire::amqp091::FrameError) -> Self {
        LinkError::Protocol(error.to_string())
    }
}

impl From<wire::amqp10::FrameError> for LinkError {
    fn from(error: wire::amqp10::FrameError) -> Self {
        LinkError::Protocol(error.to_string())
    }
}

impl From<wire::amqp091::MethodError> for LinkError {
    fn from(error: wire::amqp091::MethodError) -> Self {
        LinkError::Protocol(error.to_string())
    }
}

/// The parameters of a new connection.
pub(crate) struct Opening<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) vhost: &'a str,
    /// The vhost for AMQP 1.0; `None` leaves it to the broker.
    pub(crate) vhost10: Option<&'a str>,
    /// The URI names no user: AMQP 1.0 has a login for that.
    pub(crate) is_anonymous: bool,
    /// Name of the connection in listings.
    pub(crate) name: &'a str,
    /// `None` asks for the default.
    pub(crate) heartbeat_s: Option<u16>,
}

/// A close that the broker sends, as an error. The caller looks at every method with it.
pub(crate) fn closed(method: &Method<'_>) -> Result<(), LinkError> {
    let (code, text) = match method {
        Method::ConnectionClose(close) => (close.reply_code, close.reply_text),
        Method::ChannelClose(close) => (close.reply_code, close.reply_text),
        _ => return Ok(()),
    };
    Err(LinkError::Closed { code, text: text.str_lossy().into_owned() })
}

fn short(text: &str) -> Result<ShortStr<'_>, LinkError> {
    let too_long =
        || LinkError::Protocol(format!("a name of {} bytes, at most 255 are possible", text.len()));
    ShortStr::new(text.as_bytes()).ok_or_else(too_long)
}

impl Link {
    pub(crate) async fn progress(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_progress(cx, Wanted::Input)).await
    }

    /// Waits for the method that `take` knows; others are passed over, a close is an error.
    async fn answer<T>(&mut self, take: impl Fn(&Method<'_>) -> Option<T>) -> Result<T, LinkError> {
        loop {
            while let Some(frame) = self.next_frame()? {
                if frame.kind != FRAME_METHOD {
                    continue;
                }
                let method = Method::decode(frame.payload)?;
                closed(&method)?;
                if let Some(taken) = take(&method) {
                    return Ok(taken);
                }
            }
            self.progress().await?;
        }
    }

    fn send<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        method.into().encode_frame(channel, &mut self.output);
    }

    /// From the protocol header to an open channel.
    ///
    /// # Errors
    /// The broker refuses: wrong password (403), vhost (530), limits.
    pub(crate) async fn open(&mut self, opening: &Opening<'_>) -> Result<(), LinkError> {
        self.output.extend_from_slice(&PROTOCOL_HEADER);
        self.answer(|method| matches!(method, Method::ConnectionStart(_)).then_some(())).await?;
        let properties = client_properties(opening.name);
        let (user, password) = (opening.user.as_bytes(), opening.password.as_bytes());
        let response = encode_plain(Credentials { user, password });
        let mechanism = short("PLAIN")?;
        let (client_properties, response, locale) = (properties.as_table(), &response[..], short("en_US")?);
        self.send(0, connection::StartOk { client_properties, mechanism, response, locale });
        let tune =
            |method: &Method<'_>| if let Method::ConnectionTune(tune) = method { Some(*tune) } else { None };
        let tune = self.answer(tune).await?;
        let frame_max = if tune.frame_max == 0 { FRAME_SIZE_MAX } else { tune.frame_max.min(FRAME_SIZE_MAX) };
        let wanted_s = opening.heartbeat_s.unwrap_or(HEARTBEAT_S);
        let heartbeat =
            if wanted_s == 0 || tune.heartbeat == 0 { wanted_s } else { wanted_s.min(tune.heartbeat) };
        self.frame_size_max = frame_max as usize;
        self.send(0, connection::TuneOk { channel_max: tune.channel_max, frame_max, heartbeat });
        self.send(0, connection::Open { virtual_host: short(opening.vhost)?, ..connection::Open::default() });
        self.answer(|method| matches!(method, Method::ConnectionOpenOk(_)).then_some(())).await?;
        self.set_heartbeat(heartbeat);
        self.open_channel().await
    }

    async fn open_channel(&mut self) -> Result<(), LinkError> {
        self.send(CHANNEL, channel::Open::default());
        self.answer(|method| matches!(method, Method::ChannelOpenOk(_)).then_some(())).await
    }

    async fn declared(&mut self, declare: queue::Declare<'_>) -> Result<(String, u64), LinkError> {
        self.send(CHANNEL, declare);
        self.answer(|method| match method {
            Method::QueueDeclareOk(ok) => {
                Some((ok.queue.str_lossy().into_owned(), u64::from(ok.message_count)))
            }
            _ => None,
        })
        .await
    }

    /// Number of messages of a queue that is there.
    ///
    /// # Errors
    /// 404 when it is not; the channel is closed then.
    pub(crate) async fn queue_length(&mut self, name: &str) -> Result<u64, LinkError> {
        let declare = queue::Declare { queue: short(name)?, passive: true, ..queue::Declare::default() };
        Ok(self.declared(declare).await?.1)
    }

    /// Declares a durable queue unless it is there, whatever its arguments; gives its length.
    pub(crate) async fn ensure_queue(&mut self, name: &str, arguments: Table<'_>) -> Result<u64, LinkError> {
        match self.queue_length(name).await {
            Err(LinkError::Closed { code: 404, .. }) => {}
            other => return other,
        }
        self.send(CHANNEL, channel::CloseOk {});
        self.open_channel().await?;
        let declare =
            queue::Declare { queue: short(name)?, durable: true, arguments, ..queue::Declare::default() };
        Ok(self.declared(declare).await?.1)
    }

    /// Declares an exclusive queue and binds it; gives its name.
    pub(crate) async fn queue_of_exchange(
        &mut self,
        exchange: &str,
        key: &str,
        arguments: Table<'_>,
    ) -> Result<String, LinkError> {
        let declare = queue::Declare { exclusive: true, arguments, ..queue::Declare::default() };
        let (name, _) = self.declared(declare).await?;
        let bind = queue::Bind {
            queue: short(&name)?,
            exchange: short(exchange)?,
            routing_key: short(key)?,
            ..queue::Bind::default()
        };
        self.send(CHANNEL, bind);
        self.answer(|method| matches!(method, Method::QueueBindOk(_)).then_some(())).await?;
        Ok(name)
    }

    /// From now on publishes are confirmed.
    pub(crate) async fn select_confirms(&mut self) -> Result<(), LinkError> {
        self.send(CHANNEL, confirm::Select::default());
        self.answer(|method| matches!(method, Method::ConfirmSelectOk(_)).then_some(())).await
    }

    /// Deliveries come from now on.
    pub(crate) async fn consume(&mut self, consuming: &Consuming<'_>) -> Result<(), LinkError> {
        let qos = basic::Qos { prefetch_count: consuming.prefetch_count, ..basic::Qos::default() };
        self.send(CHANNEL, qos);
        self.answer(|method| matches!(method, Method::BasicQosOk(_)).then_some(())).await?;
        let consume = basic::Consume {
            queue: short(consuming.queue)?,
            consumer_tag: short(consuming.tag)?,
            no_ack: consuming.no_ack,
            arguments: consuming.arguments,
            ..basic::Consume::default()
        };
        self.send(CHANNEL, consume);
        self.answer(|method| matches!(method, Method::BasicConsumeOk(_)).then_some(())).await
    }

    /// Closes in order: when it returns without an error the broker has taken everything that was sent.
    pub(crate) async fn close(&mut self) -> Result<(), LinkError> {
        let close = connection::Close {
            reply_code: 200,
            reply_text: short("Goodbye")?,
            ..connection::Close::default()
        };
        self.send(0, close);
        self.answer(|method| matches!(method, Method::ConnectionCloseOk(_)).then_some(())).await
    }
}

/// How a queue is consumed from.
pub(crate) struct Consuming<'a> {
    pub(crate) queue: &'a str,
    pub(crate) tag: &'a str,
    pub(crate) prefetch_count: u16,
    pub(crate) no_ack: bool,
    pub(crate) arguments: Table<'a>,
}

fn client_properties(name: &str) -> TableBuf {
    let mut capabilities = TableBuf::new();
    for one in [
        "authentication_failure_close",
        "basic.nack",
        "connection.blocked",
        "consumer_cancel_notify",
        "publisher_confirms",
    ] {
        capabilities.push_bool(one, true);
    }
    let mut properties = TableBuf::new();
    properties.push_table("capabilities", capabilities.as_table());
    properties.push_str("connection_name", name);
    properties.push_str("product", "Warren shovel");
    properties.push_str("version", env!("CARGO_PKG_VERSION"));
    properties
}
