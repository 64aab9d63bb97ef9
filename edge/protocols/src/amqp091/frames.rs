//! Which frame may come now: from frames to methods and messages.
//!
//! Refuses to know what methods do. A message whose frames lie together in the read buffer is published from there;
//! others go through the channel's assembly.

use std::sync::Arc;
use std::task::Waker;

use broker::BodyBytes;
use wire::amqp091::methods::{basic, channel};
use wire::amqp091::{
    AlikePublishes, ContentHeader, FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, Frame, Method,
    Parsed, decode_publish, parse_frame,
};

use super::channel::{ChannelState, Mode};
use super::content::{Assembly, BODY_BYTES_KEPT, Content, PUBLISH, Progress};
use super::errors::{Failure, Outcome, ReplyCode};
use super::running::Running;
use crate::budget::{Claim, Overdrawn, Want};

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is dealt with.
    Frame,
    /// It and this many bytes after it are dealt with.
    FrameAnd(usize),
    /// It must wait, for replies that are on the way, the end of an alarm, or room for more of a body; nothing was done.
    Wait,
}

/// Refuses frames that no state of a connection expects: unknown kinds, heartbeats that are none.
pub(crate) fn check_kind(frame: &Frame<'_>) -> Outcome {
    let header_bytes_min = 12;
    match frame.kind {
        FRAME_METHOD | FRAME_BODY => Ok(()),
        FRAME_HEADER if frame.payload.len() >= header_bytes_min => Ok(()),
        FRAME_HEARTBEAT if frame.payload.is_empty() && frame.channel == 0 => Ok(()),
        FRAME_HEARTBEAT if frame.payload.is_empty() => Err(Failure::unexpected_frame(frame)),
        _ => Err(Failure::unknown_frame(frame)),
    }
}

impl Running {
    /// A frame on a channel other than 0, which has the first `frame_bytes` of what has arrived.
    pub(crate) fn channel_frame(
        &mut self,
        frame: &Frame<'_>,
        input: &[u8],
        frame_bytes: usize,
    ) -> Outcome<Taken> {
        self.note_active(frame.channel);
        if frame.kind != FRAME_METHOD {
            check_kind(frame)?;
            return self.content_frame(frame);
        }
        if let Some(publish) = decode_publish(frame.payload) {
            return self.publish_frame(frame, &publish, input, frame_bytes);
        }
        let method = Method::decode(frame.payload).map_err(|error| Failure::bad_method(error, frame))?;
        if !self.pending.is_empty() && !is_pipelined(&method) {
            self.barrier = true;
            return Ok(Taken::Wait);
        }
        let number = frame.channel;
        let Some(channel) = self.channels.get(number) else {
            return self.method_on_closed(number, &method).map(|()| Taken::Frame);
        };
        if !channel.assembly.is_idle() {
            let bytes_max = self.broker.options().message_size_max;
            channel.assembly.frame(frame, bytes_max)?;
        }
        if channel.state == ChannelState::Closing {
            return self.method_on_closing(number, &method).map(|()| Taken::Frame);
        }
        let has_asked = std::mem::take(&mut self.has_asked_leader);
        match self.method(number, &method) {
            Ok(()) => Ok(Taken::Frame),
            Err(failure) if !has_asked && failure.is_of_missing() && self.ask_leader(number) => {
                Ok(Taken::Wait)
            }
            Err(failure) => self.fail(number, failure).map(|()| Taken::Frame),
        }
    }

    fn method_on_closed(&mut self, number: u16, method: &Method<'_>) -> Outcome {
        match method {
            Method::ChannelOpen(_) => {
                self.sync();
                self.open_channel(number)
            }
            // B37: a client that closes twice in one breath is answered twice.
            Method::ChannelClose(_) if self.channels.is_just_closed(number) => {
                self.reply(number, channel::CloseOk {});
                Ok(())
            }
            // B41: frames that the client sent before it knew that the channel is closed.
            _ if self.channels.is_just_closed(number) => Ok(()),
            _ => Err(Failure::channel_not_open(method)),
        }
    }

    /// channel.close is sent: only its answer, or a close that crossed it, count (B41).
    fn method_on_closing(&mut self, number: u16, method: &Method<'_>) -> Outcome {
        match method {
            Method::ChannelCloseOk(_) => {
                self.forget_channel(number);
                Ok(())
            }
            Method::ChannelClose(_) => {
                self.reply(number, channel::CloseOk {});
                Ok(())
            }
            Method::ChannelOpen(_) => Err(second_open(method)),
            _ => Ok(()),
        }
    }

    /// basic.publish: takes the whole message at once if it lies behind the method, and those behind it that are like it.
    fn publish_frame(
        &mut self,
        frame: &Frame<'_>,
        publish: &basic::Publish<'_>,
        input: &[u8],
        frame_bytes: usize,
    ) -> Outcome<Taken> {
        if !self.pending.is_empty() {
            self.barrier = true;
            return Ok(Taken::Wait);
        }
        let number = frame.channel;
        let Some(channel) = self.channels.get(number) else {
            return self.method_on_closed(number, &Method::BasicPublish(*publish)).map(|()| Taken::Frame);
        };
        if !channel.assembly.is_idle() {
            let bytes_max = self.broker.options().message_size_max;
            channel.assembly.frame(frame, bytes_max)?;
        }
        if !self.gathered.is_empty() {
            self.settle_gathered();
        }
        if !self.settlements.is_empty() && self.publisher.acks_come_first() {
            self.submit();
        }
        let rest = &input[frame_bytes..];
        if let Some((content, header_bytes, consumed)) = self.whole_content(number, publish, rest) {
            if self.stops_at_message() {
                return Ok(Taken::Wait);
            }
            self.content(number, &content)?;
            let (first, behind) = input.split_at(frame_bytes + consumed);
            let more = match AlikePublishes::of(first, frame_bytes, header_bytes) {
                Some(alike) => self.alike_contents(number, &content, &alike, behind)?,
                None => 0,
            };
            return Ok(Taken::FrameAnd(consumed + more));
        }
        self.channel(number).assembly.begin(publish);
        Ok(Taken::Frame)
    }

    /// The message behind a publish, with the bytes of its header frame and of all its frames. All its frames must be there and in order,
    /// and the body in one. Anything odd is left to the assembly.
    #[inline]
    fn whole_content<'a>(
        &self,
        number: u16,
        publish: &basic::Publish<'a>,
        rest: &'a [u8],
    ) -> Option<(Content<'a>, usize, usize)> {
        let (header_frame, header_bytes) = next_of(rest, FRAME_HEADER, number, self.payload_bytes_max)?;
        let header = ContentHeader::decode(header_frame.payload).ok()?;
        if header.class_id != PUBLISH.0 || header.weight != 0 {
            return None;
        }
        let (body, consumed) = if header.body_size == 0 {
            (&[][..], header_bytes)
        } else {
            let (frame, bytes) = next_of(&rest[header_bytes..], FRAME_BODY, number, self.payload_bytes_max)?;
            if frame.payload.len() as u64 != header.body_size {
                return None;
            }
            (frame.payload, header_bytes + bytes)
        };
        let content = Content {
            exchange: publish.exchange.as_bytes(),
            routing_key: publish.routing_key.as_bytes(),
            mandatory: publish.mandatory,
            immediate: publish.immediate,
            properties: header.properties,
            body,
            body_size: header.body_size,
        };
        Some((content, header_bytes, consumed))
    }

    /// A header or body frame on its own.
    fn content_frame(&mut self, frame: &Frame<'_>) -> Outcome<Taken> {
        if !self.pending.is_empty() {
            self.barrier = true;
            return Ok(Taken::Wait);
        }
        let number = frame.channel;
        let bytes_max = self.broker.options().message_size_max;
        let Some(channel) = self.channels.get(number) else {
            if self.channels.is_just_closed(number) {
                return Ok(Taken::Frame);
            }
            let text = "expected method frame, got non method frame instead";
            return Err(Failure::new(ReplyCode::UnexpectedFrame, text));
        };
        if channel.assembly.awaits_content() && self.stops_at_message() {
            return Ok(Taken::Wait);
        }
        let Some(channel) = self.channels.get(number) else { return Ok(Taken::Frame) };
        let before = channel.assembly.held_bytes();
        channel.assembly.lend(&mut self.spare_body);
        self.unfinished.add(channel.assembly.held_bytes() - before);
        let (growth, whole_bytes) = (channel.assembly.growth(frame), channel.assembly.whole_bytes());
        if growth > 0 && !self.may_gather(growth, whole_bytes)? {
            return Ok(Taken::Wait);
        }
        let channel = self.channel(number);
        let progress = channel.assembly.frame(frame, bytes_max);
        let held = channel.assembly.held_bytes();
        let in_frame = match progress? {
            Progress::More => return Ok(Taken::Frame),
            Progress::InFrame => Some(frame.payload),
            Progress::Gathered => None,
        };
        let mut assembly = std::mem::take(&mut channel.assembly);
        let outcome = self.assembled(number, &mut assembly, in_frame);
        assembly.finish(&mut self.spare_body);
        self.finished(held);
        if let Some(channel) = self.channels.get(number) {
            channel.assembly = assembly;
        }
        outcome.map(|()| Taken::Frame)
    }
}

impl Running {
    /// A message that came in several frames. A large body is handed over as it was gathered.
    fn assembled(&mut self, number: u16, assembly: &mut Assembly, in_frame: Option<&[u8]>) -> Outcome {
        let Some(body) = assembly.take_large() else {
            return self.content(number, &assembly.content(in_frame));
        };
        let body: BodyBytes = Arc::new(body);
        self.publisher.lend_body(body.clone());
        let outcome = self.content(number, &assembly.content(Some(&body)));
        drop(body);
        self.publisher.end_lent();
        outcome
    }
}

/// Where the connection stands that wants to gather more of a body than there may be room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Room {
    /// It wants nothing.
    #[default]
    Unasked,
    /// It waits for this much; nothing is parsed meanwhile.
    Awaited(Want),
    /// It has it, for the frame that comes next.
    Granted,
}

impl Running {
    /// Whether a body, which occupies so many bytes when it is whole, may grow; otherwise the frame waits.
    fn may_gather(&mut self, growth: usize, whole_bytes: usize) -> Outcome<bool> {
        if self.room == Room::Unasked {
            if self.unfinished.held_bytes() + growth <= BODY_BYTES_KEPT {
                self.unfinished.add(growth);
                return Ok(true);
            }
            self.room = Room::Awaited(Want { bytes: growth, finish_bytes: whole_bytes });
            self.ask_for_room()?;
        }
        let is_granted = self.room == Room::Granted;
        if is_granted {
            self.room = Room::Unasked;
        }
        Ok(is_granted)
    }

    /// Asks for what is awaited, if anything is.
    pub(crate) fn ask_for_room(&mut self) -> Outcome {
        let Room::Awaited(want) = self.room else { return Ok(()) };
        let outbox = &self.sink.outbox;
        let claim = self.unfinished.claim(want, || Waker::from(outbox.clone()));
        if claim.map_err(too_much_unfinished)? == Claim::Granted {
            self.room = Room::Granted;
            self.show_unfinished();
        }
        Ok(())
    }

    /// Something of this size that was not whole is, or was given up.
    pub(crate) fn finished(&mut self, bytes: usize) {
        if bytes > 0 {
            self.unfinished.give_back(bytes);
            self.show_unfinished();
        }
    }

    /// For those who ask where memory is.
    pub(crate) fn show_unfinished(&self) {
        let memory_bytes = self.unfinished_memory();
        self.sink.outbox.lock().state().unfinished_bytes = memory_bytes;
    }

    /// Bytes that the process occupies for unfinished things: pages that nothing was written to are not there.
    pub(crate) fn unfinished_memory(&self) -> usize {
        let held_bytes = self.unfinished.held_bytes();
        if held_bytes <= BODY_BYTES_KEPT {
            return held_bytes;
        }
        let untouched_bytes = self.channels.iter().map(|channel| match &channel.mode {
            Mode::Transaction(transaction) => {
                transaction.untouched_bytes() + channel.assembly.untouched_bytes()
            }
            _ => channel.assembly.untouched_bytes(),
        });
        held_bytes.saturating_sub(untouched_bytes.sum())
    }
}

/// The bytes that the client has sent cannot be taken back: the connection ends.
fn too_much_unfinished(overdrawn: Overdrawn) -> Failure {
    Failure::new(ReplyCode::ResourceError, overdrawn.to_string()).in_method(PUBLISH)
}

/// The next frame if it is whole and of this kind and channel, with its size on the wire.
#[inline]
fn next_of(bytes: &[u8], kind: u8, channel: u16, payload_bytes_max: usize) -> Option<(Frame<'_>, usize)> {
    match parse_frame(bytes, payload_bytes_max) {
        Ok(Parsed::Complete { frame, consumed }) if frame.kind == kind && frame.channel == channel => {
            Some((frame, consumed))
        }
        _ => None,
    }
}

/// Methods whose replies may be on the way at the same time, answered in order.
fn is_pipelined(method: &Method<'_>) -> bool {
    match method {
        Method::ExchangeDeclare(declare) => !declare.passive,
        Method::QueueDeclare(declare) => !declare.passive,
        Method::ExchangeDelete(_)
        | Method::ExchangeBind(_)
        | Method::ExchangeUnbind(_)
        | Method::QueueDelete(_)
        | Method::QueueBind(_)
        | Method::QueueUnbind(_) => true,
        _ => false,
    }
}

/// B37.
pub(crate) fn second_open(method: &Method<'_>) -> Failure {
    Failure::new(ReplyCode::ChannelError, "second 'channel.open' seen").in_method(method.id())
}
