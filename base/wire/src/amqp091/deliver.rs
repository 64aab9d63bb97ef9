//! Encoders for what goes over the wire once per message: content with its method, and settlements.
//!
//! They write straight into the outbox, reserve once, and build no intermediate values. Refuses to know where
//! properties and bodies come from; both are copied as they are.

use std::ops::Deref;

use super::ShortStr;
use super::frame::{FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD, frame_head};
use super::header::HEADER_FIXED_BYTES;
use super::methods::basic;
use super::short_str::is_same;

/// Bytes of a frame before its payload.
const FRAME_HEAD_BYTES: usize = 7;

/// Bytes of class and method number.
const METHOD_KEY_BYTES: usize = 4;

/// The largest body piece per frame when `frame_size_max` (whole frame, in bytes; 0 for no limit) was negotiated.
#[inline]
fn piece_bytes_max(frame_size_max: usize) -> usize {
    match frame_size_max {
        0 => usize::MAX,
        _ => frame_size_max.saturating_sub(FRAME_OVERHEAD).max(1),
    }
}

/// Starts a method frame and makes room for the method, the header and the body in one go.
#[inline]
fn begin_content(
    out: &mut Vec<u8>,
    (channel, frame_size_max): (u16, usize),
    (key, fields_bytes): (u32, usize),
    properties_raw: &[u8],
    body: &[u8],
) {
    let pieces = if body.is_empty() { 0 } else { body.len().div_ceil(piece_bytes_max(frame_size_max)) };
    let method_bytes = METHOD_KEY_BYTES + fields_bytes;
    let header_bytes = HEADER_FIXED_BYTES + properties_raw.len();
    out.reserve(method_bytes + header_bytes + body.len() + FRAME_OVERHEAD * (2 + pieces));
    out.extend_from_slice(&frame_head(FRAME_METHOD, channel, method_bytes));
    out.extend_from_slice(&key.to_be_bytes());
}

/// Ends the method frame; appends the header frame and the body frames. An empty body has none (B113).
#[inline]
fn end_content(
    out: &mut Vec<u8>,
    (channel, frame_size_max): (u16, usize),
    properties_raw: &[u8],
    body: &[u8],
) {
    end_head(out, channel, properties_raw, body.len());
    for piece in body.chunks(piece_bytes_max(frame_size_max)) {
        out.extend_from_slice(&frame_head(FRAME_BODY, channel, piece.len()));
        out.extend_from_slice(piece);
        out.push(FRAME_END);
    }
}

/// Ends the method frame; appends the header frame.
#[inline]
fn end_head(out: &mut Vec<u8>, channel: u16, properties_raw: &[u8], body_bytes: usize) {
    let [a, b, c, d, e, f, g] = frame_head(FRAME_HEADER, channel, HEADER_FIXED_BYTES + properties_raw.len());
    // end of the method frame; header frame's head; class 60; weight 0
    out.extend_from_slice(&[FRAME_END, a, b, c, d, e, f, g, 0, 60, 0, 0]);
    out.extend_from_slice(&(body_bytes as u64).to_be_bytes());
    out.extend_from_slice(properties_raw);
    out.push(FRAME_END);
}

/// Appends the fields of `basic.deliver`.
#[inline(always)]
fn write_deliver(
    out: &mut Vec<u8>,
    consumer_tag: &[u8],
    delivery_tag: u64,
    redelivered: bool,
    exchange: &[u8],
    routing_key: &[u8],
) {
    ShortStr::bounded(consumer_tag).write(out);
    let [a, b, c, d, e, f, g, h] = delivery_tag.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, e, f, g, h, u8::from(redelivered)]);
    ShortStr::bounded(exchange).write(out);
    ShortStr::bounded(routing_key).write(out);
}

/// Appends `basic.deliver`, its content header and as many body frames as needed.
///
/// `properties_raw` are the property flags and list as received. `frame_size_max` is the negotiated `frame_max`:
/// the whole frame in bytes, overhead included; 0 for no limit. It bounds body frames only, as in RabbitMQ.
///
/// # Panics
/// If the consumer tag, exchange or routing key has more than 255 bytes; they all came in as short strings.
#[inline]
#[expect(clippy::too_many_arguments, reason = "one call per delivery, straight from the queue's own fields")]
pub fn encode_deliver(
    out: &mut Vec<u8>,
    channel: u16,
    consumer_tag: &[u8],
    delivery_tag: u64,
    redelivered: bool,
    exchange: &[u8],
    routing_key: &[u8],
    properties_raw: &[u8],
    body: &[u8],
    frame_size_max: usize,
) {
    let fields_bytes = 12 + consumer_tag.len() + exchange.len() + routing_key.len();
    let link = (channel, frame_size_max);
    begin_content(out, link, (basic::Deliver::KEY, fields_bytes), properties_raw, body);
    write_deliver(out, consumer_tag, delivery_tag, redelivered, exchange, routing_key);
    end_content(out, link, properties_raw, body);
}

/// Appends what [`encode_deliver`] does, but for the body, of which there are so many bytes: its frames follow, see [`BodyFrames`].
///
/// # Panics
/// As [`encode_deliver`].
#[expect(clippy::too_many_arguments, reason = "the same shape as encode_deliver")]
pub fn encode_deliver_head(
    out: &mut Vec<u8>,
    channel: u16,
    consumer_tag: &[u8],
    delivery_tag: u64,
    redelivered: bool,
    exchange: &[u8],
    routing_key: &[u8],
    properties_raw: &[u8],
    body_bytes: usize,
) {
    let fields_bytes = 12 + consumer_tag.len() + exchange.len() + routing_key.len();
    begin_content(out, (channel, 0), (basic::Deliver::KEY, fields_bytes), properties_raw, &[]);
    write_deliver(out, consumer_tag, delivery_tag, redelivered, exchange, routing_key);
    end_head(out, channel, properties_raw, body_bytes);
}

/// The frames of one body, written piece by piece, so that no second copy of all of it is needed.
#[derive(Debug)]
pub struct BodyFrames<B> {
    body: B,
    channel: u16,
    piece_bytes_max: usize,
    /// Bytes of the body that were written.
    written: usize,
    /// Bytes of the frame that was begun last that are still to be written; without its end.
    frame_left: usize,
}

impl<B: Deref<Target = [u8]>> BodyFrames<B> {
    /// Of a body that is not empty; `frame_size_max` as in [`encode_deliver`].
    #[must_use]
    pub fn new(channel: u16, frame_size_max: usize, body: B) -> BodyFrames<B> {
        BodyFrames {
            body,
            channel,
            piece_bytes_max: piece_bytes_max(frame_size_max),
            written: 0,
            frame_left: 0,
        }
    }

    /// The parts that the delivery is made of.
    #[must_use]
    pub fn body(&self) -> &B {
        &self.body
    }

    /// Bytes that are still to be written, frames included.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        let behind = self.body.len() - self.written - self.frame_left;
        let end_bytes = usize::from(self.frame_left > 0);
        self.frame_left + end_bytes + behind + FRAME_OVERHEAD * behind.div_ceil(self.piece_bytes_max)
    }

    /// Appends the next bytes, about `bytes_max` at most: more by what is around a frame.
    pub fn write(&mut self, out: &mut Vec<u8>, bytes_max: usize) {
        out.reserve(bytes_max.min(self.bytes_left()) + FRAME_OVERHEAD);
        let end = out.len() + bytes_max;
        while out.len() < end && self.written < self.body.len() {
            if self.frame_left == 0 {
                self.frame_left = self.piece_bytes_max.min(self.body.len() - self.written);
                out.extend_from_slice(&frame_head(FRAME_BODY, self.channel, self.frame_left));
            }
            let bytes = self.frame_left.min(end.saturating_sub(out.len()).max(1));
            out.extend_from_slice(&self.body[self.written..self.written + bytes]);
            self.written += bytes;
            self.frame_left -= bytes;
            if self.frame_left == 0 {
                out.push(FRAME_END);
            }
        }
    }
}

/// Deliveries to one consumer, one after the other: of one that differs from the one before in its tag and body only, which is the
/// rule, everything else is copied from an earlier one in one piece.
#[derive(Debug)]
pub struct DeliverRun<'a> {
    channel: u16,
    consumer_tag: &'a [u8],
    frame_size_max: usize,
    like: Option<Encoded<'a>>,
}

/// The delivery that those behind it are like, if its body is in one frame. Not always the latest: wide loads of what was written a moment
/// ago in pieces wait until it is in the cache.
#[derive(Debug)]
struct Encoded<'a> {
    /// Where it begins in the output.
    at: usize,
    /// Bytes before the body, of which there are `body_bytes`.
    head_bytes: usize,
    exchange: &'a [u8],
    routing_key: &'a [u8],
    properties_raw: &'a [u8],
    body_bytes: usize,
}

/// Whether bytes are those of an earlier delivery: at the same place, as a rule.
#[inline]
fn is_known(earlier: &[u8], bytes: &[u8]) -> bool {
    std::ptr::eq(earlier, bytes) || is_same(earlier, bytes)
}

impl<'a> DeliverRun<'a> {
    /// For a consumer on a channel; arguments as in [`encode_deliver`].
    #[inline]
    #[must_use]
    pub fn new(channel: u16, consumer_tag: &'a [u8], frame_size_max: usize) -> DeliverRun<'a> {
        DeliverRun { channel, consumer_tag, frame_size_max, like: None }
    }

    /// As [`encode_deliver`]. From the first call to the last, `out` only grows. Returns false for a delivery that differs from an earlier one
    /// in its tag and body only.
    ///
    /// # Panics
    /// As [`encode_deliver`], or if `out` became shorter.
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "one call per delivery, straight from the queue's own fields"
    )]
    pub fn push(
        &mut self,
        out: &mut Vec<u8>,
        delivery_tag: u64,
        redelivered: bool,
        exchange: &'a [u8],
        routing_key: &'a [u8],
        properties_raw: &'a [u8],
        body: &[u8],
    ) -> bool {
        let at = out.len();
        let is_alike = |like: &&Encoded<'_>| {
            like.body_bytes == body.len()
                && is_known(like.exchange, exchange)
                && is_known(like.routing_key, routing_key)
                && is_known(like.properties_raw, properties_raw)
        };
        if let Some(like) = self.like.as_ref().filter(is_alike) {
            out.reserve(like.head_bytes + body.len() + 1);
            out.extend_from_within(like.at..like.at + like.head_bytes);
            // Behind the frame's head, the method's number, and the consumer tag with its length.
            let tag_at = at + FRAME_HEAD_BYTES + METHOD_KEY_BYTES + 1 + self.consumer_tag.len();
            out[tag_at..tag_at + 8].copy_from_slice(&delivery_tag.to_be_bytes());
            out[tag_at + 8] = u8::from(redelivered);
            if !body.is_empty() {
                out.extend_from_slice(body);
                out.push(FRAME_END);
            }
            return false;
        }
        let Self { channel, consumer_tag, frame_size_max, .. } = *self;
        encode_deliver(
            out,
            channel,
            consumer_tag,
            delivery_tag,
            redelivered,
            exchange,
            routing_key,
            properties_raw,
            body,
            frame_size_max,
        );
        let end_bytes = usize::from(!body.is_empty());
        let head_bytes = out.len() - at - body.len() - end_bytes;
        let is_whole = body.len() <= piece_bytes_max(frame_size_max);
        self.like = is_whole.then_some(Encoded {
            at,
            head_bytes,
            exchange,
            routing_key,
            properties_raw,
            body_bytes: body.len(),
        });
        true
    }
}

/// Appends `basic.get-ok`, its content header and body frames; `message_count` is what is left in the queue.
///
/// Other arguments, and panics, as in [`encode_deliver`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "the same shape as encode_deliver")]
pub fn encode_get_ok(
    out: &mut Vec<u8>,
    channel: u16,
    delivery_tag: u64,
    redelivered: bool,
    exchange: &[u8],
    routing_key: &[u8],
    message_count: u32,
    properties_raw: &[u8],
    body: &[u8],
    frame_size_max: usize,
) {
    let fields_bytes = 15 + exchange.len() + routing_key.len();
    let link = (channel, frame_size_max);
    begin_content(out, link, (basic::GetOk::KEY, fields_bytes), properties_raw, body);
    out.extend_from_slice(&delivery_tag.to_be_bytes());
    out.push(u8::from(redelivered));
    ShortStr::bounded(exchange).write(out);
    ShortStr::bounded(routing_key).write(out);
    out.extend_from_slice(&message_count.to_be_bytes());
    end_content(out, link, properties_raw, body);
}

/// Appends `basic.return`, its content header and body frames.
///
/// `reply_text` must be at most 255 bytes too; other arguments, and panics, as in [`encode_deliver`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "the same shape as encode_deliver")]
pub fn encode_return(
    out: &mut Vec<u8>,
    channel: u16,
    reply_code: u16,
    reply_text: &[u8],
    exchange: &[u8],
    routing_key: &[u8],
    properties_raw: &[u8],
    body: &[u8],
    frame_size_max: usize,
) {
    let fields_bytes = 5 + reply_text.len() + exchange.len() + routing_key.len();
    let link = (channel, frame_size_max);
    begin_content(out, link, (basic::Return::KEY, fields_bytes), properties_raw, body);
    out.extend_from_slice(&reply_code.to_be_bytes());
    ShortStr::bounded(reply_text).write(out);
    ShortStr::bounded(exchange).write(out);
    ShortStr::bounded(routing_key).write(out);
    end_content(out, link, properties_raw, body);
}

/// Appends `basic.publish`, its content header and body frames, for clients.
///
/// `mandatory` asks for an unroutable message back. Other arguments, and panics, as in [`encode_deliver`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "the same shape as encode_deliver")]
pub fn encode_publish(
    out: &mut Vec<u8>,
    channel: u16,
    exchange: &[u8],
    routing_key: &[u8],
    mandatory: bool,
    properties_raw: &[u8],
    body: &[u8],
    frame_size_max: usize,
) {
    let fields_bytes = 5 + exchange.len() + routing_key.len();
    let link = (channel, frame_size_max);
    begin_content(out, link, (basic::Publish::KEY, fields_bytes), properties_raw, body);
    out.extend_from_slice(&[0, 0]);
    ShortStr::bounded(exchange).write(out);
    ShortStr::bounded(routing_key).write(out);
    out.push(u8::from(mandatory));
    end_content(out, link, properties_raw, body);
}

/// Appends `basic.ack`.
#[inline]
pub fn encode_ack(out: &mut Vec<u8>, channel: u16, delivery_tag: u64, multiple: bool) {
    encode_settlement(out, channel, basic::Ack::KEY, delivery_tag, u8::from(multiple));
}

/// Appends `basic.nack`.
#[inline]
pub fn encode_nack(out: &mut Vec<u8>, channel: u16, delivery_tag: u64, multiple: bool, requeue: bool) {
    let bits = u8::from(multiple) | (u8::from(requeue) << 1);
    encode_settlement(out, channel, basic::Nack::KEY, delivery_tag, bits);
}

/// Appends `basic.reject`.
#[inline]
pub fn encode_reject(out: &mut Vec<u8>, channel: u16, delivery_tag: u64, requeue: bool) {
    encode_settlement(out, channel, basic::Reject::KEY, delivery_tag, u8::from(requeue));
}

/// The three settlements have one layout: delivery tag, then bits; 21 bytes on the wire, written at once.
#[inline]
fn encode_settlement(out: &mut Vec<u8>, channel: u16, key: u32, delivery_tag: u64, bits: u8) {
    const FIELDS_BYTES: usize = METHOD_KEY_BYTES + 8 + 1;
    let mut frame = [0; FIELDS_BYTES + FRAME_OVERHEAD];
    frame[..7].copy_from_slice(&frame_head(FRAME_METHOD, channel, FIELDS_BYTES));
    frame[7..11].copy_from_slice(&key.to_be_bytes());
    frame[11..19].copy_from_slice(&delivery_tag.to_be_bytes());
    frame[19] = bits;
    frame[20] = FRAME_END;
    out.extend_from_slice(&frame);
}

#[cfg(test)]
mod tests;
