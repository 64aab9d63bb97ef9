//! A side of a shovel as the forwarder sees it, whichever protocol it speaks: messages in, messages out, answers.
//!
//! Refuses to know which side it is, and the way between them. A message is kept in the format in which it came; it is converted when it leaves in
//! the other one.

use std::borrow::Cow;

use message::amqp10::{Acquired, encode_head, in_amqp091};
use message::{Format, MessageView};
use wire::amqp091::{
    FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Method, encode_ack, encode_nack, encode_publish,
};

use crate::amqp10::{Answered, Port10};
use crate::client::{CHANNEL, LinkError, closed};
use crate::forward::Arriving;
use crate::headers::Stamps;
use crate::link::Link;

/// A connection on which everything is set up.
pub(crate) enum Port {
    Amqp091(Link),
    Amqp10(Box<Port10>),
}

/// The news of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Publishes are safe: up to this one, or this one alone.
    Confirmed(u64, Reach),
    /// They are refused.
    Refused(u64, Reach),
    /// It takes nothing for now.
    Blocked,
    /// It does again.
    Unblocked,
}

/// Which publishes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One.
    One,
    /// All up to it.
    UpTo,
}

/// Where a message goes.
pub(crate) struct Way<'a> {
    pub(crate) exchange: &'a [u8],
    pub(crate) routing_key: &'a [u8],
    pub(crate) mandatory: bool,
    /// The destination need not answer.
    pub(crate) settled: bool,
}

impl Port {
    pub(crate) fn link(&mut self) -> &mut Link {
        match self {
            Port::Amqp091(link) => link,
            Port::Amqp10(port) => &mut port.link,
        }
    }

    /// Whether so much waits to be written, or the peer asks for so little, that nothing may be published.
    pub(crate) fn is_crowded(&self) -> bool {
        match self {
            Port::Amqp091(link) => link.is_crowded(),
            Port::Amqp10(port) => port.link.is_crowded() || !port.may_send(),
        }
    }

    /// Whether everything is written.
    pub(crate) fn is_flushed(&self) -> bool {
        match self {
            Port::Amqp091(link) => link.is_flushed(),
            Port::Amqp10(port) => port.is_flushed(),
        }
    }

    /// Reads frames until a message is whole, or none is there.
    ///
    /// # Errors
    /// The broker ends something, or the bytes make no sense.
    pub(crate) fn take(&mut self, arriving: &mut Arriving) -> Result<bool, LinkError> {
        let link = match self {
            Port::Amqp10(port) => return port.take(arriving),
            Port::Amqp091(link) => link,
        };
        while let Some(frame) = link.next_frame()? {
            match frame.kind {
                FRAME_METHOD => arriving.method(frame.payload)?,
                FRAME_HEADER => arriving.header(frame.payload)?,
                FRAME_BODY => arriving.body(frame.payload)?,
                _ => {}
            }
            if arriving.is_whole() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads frames; their news of publishes go to `each`.
    ///
    /// # Errors
    /// As [`Self::take`]; a message comes back because the queue is gone.
    pub(crate) fn answers(&mut self, mut each: impl FnMut(Said)) -> Result<(), LinkError> {
        let link = match self {
            Port::Amqp10(port) => {
                return port.answers(|answered| match answered {
                    Answered::Accepted(first, last) => {
                        (first..=last).for_each(|number| each(Said::Confirmed(number, Reach::One)));
                    }
                    Answered::Refused(first, last) => {
                        (first..=last).for_each(|number| each(Said::Refused(number, Reach::One)));
                    }
                });
            }
            Port::Amqp091(link) => link,
        };
        while let Some(frame) = link.next_frame()? {
            if frame.kind != FRAME_METHOD {
                continue;
            }
            let method = Method::decode(frame.payload)?;
            closed(&method)?;
            let reach = |multiple: bool| if multiple { Reach::UpTo } else { Reach::One };
            match method {
                Method::BasicAck(ack) => each(Said::Confirmed(ack.delivery_tag, reach(ack.multiple))),
                Method::BasicNack(nack) => each(Said::Refused(nack.delivery_tag, reach(nack.multiple))),
                Method::BasicReturn(back) => {
                    let text = back.reply_text.str_lossy().into_owned();
                    return Err(LinkError::Returned { code: back.reply_code, text });
                }
                Method::ConnectionBlocked(_) => each(Said::Blocked),
                Method::ConnectionUnblocked(_) => each(Said::Unblocked),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends a message on, with what `stamps` adds; `now_ms` is milliseconds since 1970.
    pub(crate) fn publish(&mut self, way: &Way<'_>, message: &Arriving, stamps: &Stamps, now_ms: u64) {
        let view = MessageView {
            exchange: &message.exchange,
            routing_key: &message.routing_key,
            properties: &message.properties,
            body: &message.body,
        };
        match self {
            Port::Amqp091(link) => {
                let (properties, body) = match view.format() {
                    Format::Amqp10 => {
                        let (properties, body) = in_amqp091(view.properties, view.body);
                        (Cow::Owned(properties), body)
                    }
                    _ => (Cow::Borrowed(view.properties), Cow::Borrowed(view.body)),
                };
                let properties = stamps.apply(&properties, now_ms / 1000);
                let frame_size_max = link.frame_size_max;
                encode_publish(
                    &mut link.output,
                    CHANNEL,
                    way.exchange,
                    way.routing_key,
                    way.mandatory,
                    &properties,
                    &body,
                    frame_size_max,
                );
            }
            Port::Amqp10(port) => {
                let properties = stamps.annotate(view.properties, view.format(), now_ms);
                let mut head = Vec::new();
                let stamped = MessageView { properties: &properties, ..view };
                let rest = encode_head(&stamped, Acquired::default(), &mut head);
                port.send(&[&head, rest], way.settled);
            }
        }
    }

    /// A source may forget all deliveries up to this one.
    pub(crate) fn ack_up_to(&mut self, tag: u64) {
        match self {
            Port::Amqp091(link) => encode_ack(&mut link.output, CHANNEL, tag, true),
            Port::Amqp10(port) => port.accept(tag),
        }
    }

    /// A source gets a delivery back.
    pub(crate) fn give_back(&mut self, tag: u64) {
        match self {
            Port::Amqp091(link) => encode_nack(&mut link.output, CHANNEL, tag, false, true),
            Port::Amqp10(port) => port.give_back(tag),
        }
    }

    /// Closes in order: when it returns without an error the broker has taken everything that was sent.
    ///
    /// # Errors
    /// The connection fails before that.
    pub(crate) async fn close(&mut self) -> Result<(), LinkError> {
        match self {
            Port::Amqp091(link) => link.close().await,
            Port::Amqp10(port) => port.close().await,
        }
    }
}
