//! Assembling a message from its method, header and body frames when they do not lie in the read buffer together.
//!
//! Refuses to know what becomes of the message. Orders and texts are those of RabbitMQ's command assembler.
//!
//! Bound: the body buffer grows with the bytes that have arrived, never with what the header announces, and the caller that hands
//! frames in knows by how much before it does ([`Assembly::growth`]).

use broker::BodyBuffer;
use wire::amqp091::methods::basic;
use wire::amqp091::{ContentHeader, FRAME_BODY, FRAME_HEADER, Frame};

use super::errors::{Failure, Outcome, ReplyCode};

/// RabbitMQ's hard cap of a body in bytes, whatever is configured (B98).
const BODY_BYTES_CAP: u64 = 512 << 20;

/// Least capacity reserved for a body of several frames.
const BODY_BYTES_FIRST: usize = 64 << 10;

/// Largest buffer that a connection keeps for its next body of several frames. So much it always may have.
pub(crate) const BODY_BYTES_KEPT: usize = 256 << 10;

/// Before a body that may be handed over as it was gathered there is room for so many bytes and the properties: for what its queue stores before
/// it, in which names have 255 bytes each at most.
const HEAD_ROOM_BYTES: usize = 1 << 10;

/// Class and method number of basic.publish, to blame.
pub(crate) const PUBLISH: (u16, u16) = basic::Publish::ID;

/// The frame that may come next on a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// A method.
    #[default]
    Idle,
    /// The content header.
    Header,
    /// Body frames, of this many bytes together.
    Body(u64),
}

/// A complete message, borrowed from the read buffer or from an [`Assembly`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) exchange: &'a [u8],
    pub(crate) routing_key: &'a [u8],
    pub(crate) mandatory: bool,
    pub(crate) immediate: bool,
    pub(crate) properties: &'a [u8],
    pub(crate) body: &'a [u8],
    /// Announced size of the body; larger than `body` only if it was too large to be kept.
    pub(crate) body_size: u64,
}

/// Whether a message is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More frames must come.
    More,
    /// Complete; the body is the last frame's payload alone.
    InFrame,
    /// Complete; the body is in the assembly.
    Gathered,
}

/// The message a channel is in the middle of.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    stage: Stage,
    mandatory: bool,
    immediate: bool,
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    properties: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of room before what has come of the body; 0 while nothing has.
    body_start: usize,
    body_size: u64,
    is_oversize: bool,
}

impl Assembly {
    /// Whether the channel is between messages.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Whether the channel is in the middle of a message: its header or more of its body must come.
    #[inline]
    pub(crate) fn awaits_content(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Memory that the body occupies.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.capacity()
    }

    /// Of that, what nothing was written to yet.
    pub(crate) fn untouched_bytes(&self) -> usize {
        self.body.capacity() - self.body.len()
    }

    /// A body is about to be gathered: takes the connection's spare buffer for it.
    pub(crate) fn lend(&mut self, spare: &mut Vec<u8>) {
        if self.body.capacity() == 0 && matches!(self.stage, Stage::Body(_)) {
            std::mem::swap(&mut self.body, spare);
        }
    }

    /// basic.publish has arrived.
    pub(crate) fn begin(&mut self, publish: &basic::Publish<'_>) {
        self.stage = Stage::Header;
        (self.mandatory, self.immediate) = (publish.mandatory, publish.immediate);
        replace(&mut self.exchange, &publish.exchange);
        replace(&mut self.routing_key, &publish.routing_key);
        self.properties.clear();
        self.body.clear();
        (self.body_start, self.body_size) = (0, 0);
        self.is_oversize = false;
    }

    /// A frame of any kind has arrived in the middle of a message or where one cannot begin. A body larger than
    /// `body_bytes_max` is not kept; it ends as a message whose `body_size` tells.
    pub(crate) fn frame(&mut self, frame: &Frame<'_>, body_bytes_max: u64) -> Outcome<Progress> {
        match self.stage {
            Stage::Idle => Err(unexpected("expected method frame, got non method frame instead")),
            Stage::Header => self.header(frame, body_bytes_max).map_err(|failure| failure.in_method(PUBLISH)),
            Stage::Body(remaining) => {
                self.body(frame, remaining).map_err(|failure| failure.in_method(PUBLISH))
            }
        }
    }

    fn header(&mut self, frame: &Frame<'_>, body_bytes_max: u64) -> Outcome<Progress> {
        let header =
            (frame.kind == FRAME_HEADER).then(|| ContentHeader::decode(frame.payload).ok()).flatten();
        let Some(header) = header.filter(|header| header.weight == 0) else {
            return Err(unexpected(
                "expected content header for class 60, got non content header frame instead",
            ));
        };
        if header.class_id != PUBLISH.0 {
            let class_id = header.class_id;
            let text = format!("expected content header for class 60, got one for class {class_id} instead");
            return Err(unexpected(text));
        }
        if header.body_size > BODY_BYTES_CAP {
            let size = header.body_size;
            let text = format!("content body size {size} exceeds maximum allowed size {BODY_BYTES_CAP}");
            return Err(Failure::new(ReplyCode::FrameError, text));
        }
        replace(&mut self.properties, header.properties);
        self.body_size = header.body_size;
        self.is_oversize = header.body_size > body_bytes_max;
        if header.body_size == 0 {
            self.stage = Stage::Idle;
            return Ok(Progress::Gathered);
        }
        self.stage = Stage::Body(header.body_size);
        Ok(Progress::More)
    }

    fn body(&mut self, frame: &Frame<'_>, remaining: u64) -> Outcome<Progress> {
        if frame.kind != FRAME_BODY {
            return Err(unexpected("expected content body, got non content body frame instead"));
        }
        let arrived = frame.payload.len() as u64;
        let Some(remaining) = remaining.checked_sub(arrived) else {
            return Err(Failure::new(
                ReplyCode::FrameError,
                "content body frame exceeds remaining content size",
            ));
        };
        self.stage = if remaining == 0 { Stage::Idle } else { Stage::Body(remaining) };
        if arrived == self.body_size && !self.is_oversize {
            return Ok(Progress::InFrame);
        }
        if !self.is_oversize {
            self.gather(frame.payload);
        }
        Ok(if remaining == 0 { Progress::Gathered } else { Progress::More })
    }

    fn gather(&mut self, payload: &[u8]) {
        let capacity = self.capacity_with(payload.len());
        if capacity > self.body.capacity() {
            self.body.reserve_exact(capacity - self.body.len());
        }
        if self.body.is_empty() {
            self.body_start = self.room_before();
            self.body.resize(self.body_start, 0);
        }
        self.body.extend_from_slice(payload);
    }

    /// Bytes of room before the body that is gathered, or will be.
    fn room_before(&self) -> usize {
        match self.body_size > BODY_BYTES_KEPT as u64 {
            true => HEAD_ROOM_BYTES + self.properties.len(),
            false => 0,
        }
    }

    /// Bytes that the body occupies when so much more has come.
    fn capacity_with(&self, payload_bytes: usize) -> usize {
        let room = self.room_before();
        let needed = self.body.len().max(room) + payload_bytes;
        if needed <= self.body.capacity() {
            return self.body.capacity();
        }
        // Doubling bounds the copies; the announced size bounds the waste.
        let announced = self.whole_bytes();
        needed.max(self.body.capacity() * 2).max(BODY_BYTES_FIRST).min(announced).max(needed)
    }

    /// By how many bytes the memory for the body grows when this frame is handed in; 0 also for a frame that is refused then.
    pub(crate) fn growth(&self, frame: &Frame<'_>) -> usize {
        let Stage::Body(remaining) = self.stage else { return 0 };
        let arrived = frame.payload.len() as u64;
        let is_gathered = arrived <= remaining && arrived != self.body_size && !self.is_oversize;
        if frame.kind != FRAME_BODY || !is_gathered {
            return 0;
        }
        self.capacity_with(frame.payload.len()) - self.body.capacity()
    }

    /// Bytes that the body occupies when it is whole.
    pub(crate) fn whole_bytes(&self) -> usize {
        usize::try_from(self.body_size).unwrap_or(usize::MAX).saturating_add(self.room_before())
    }

    /// The complete message; `in_frame` is the last frame's payload when the body is there.
    pub(crate) fn content<'a>(&'a self, in_frame: Option<&'a [u8]>) -> Content<'a> {
        Content {
            exchange: &self.exchange,
            routing_key: &self.routing_key,
            mandatory: self.mandatory,
            immediate: self.immediate,
            properties: &self.properties,
            body: in_frame.unwrap_or(&self.body[self.body_start..]),
            body_size: self.body_size,
        }
    }

    /// The complete body, if its buffer would not be kept for the next one anyway.
    pub(crate) fn take_large(&mut self) -> Option<BodyBuffer> {
        (self.body.len() > BODY_BYTES_KEPT).then(|| {
            let start = std::mem::take(&mut self.body_start);
            BodyBuffer::behind(std::mem::take(&mut self.body), start)
        })
    }

    /// The message is dealt with; its buffer becomes the connection's spare one, unless it is large.
    pub(crate) fn finish(&mut self, spare: &mut Vec<u8>) {
        let mut body = std::mem::take(&mut self.body);
        self.body_start = 0;
        if body.capacity() <= BODY_BYTES_KEPT && body.capacity() > spare.capacity() {
            body.clear();
            *spare = body;
        }
    }
}

fn replace(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

fn unexpected(text: impl Into<String>) -> Failure {
    Failure::new(ReplyCode::UnexpectedFrame, text)
}

#[cfg(test)]
mod tests {
    use wire::amqp091::{FRAME_METHOD, ShortStr};

    use super::*;

    const MAX: u64 = 1 << 20;

    fn started() -> Assembly {
        let mut assembly = Assembly::default();
        let publish = basic::Publish {
            exchange: ShortStr::bounded(b"x"),
            routing_key: ShortStr::bounded(b"k"),
            mandatory: true,
            ..basic::Publish::default()
        };
        assembly.begin(&publish);
        assembly
    }

    fn header_of(class_id: u16, weight: u16, body_size: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        ContentHeader { class_id, weight, body_size, properties: &[0, 0] }.encode_frame(1, &mut frame);
        frame[7..frame.len() - 1].to_vec()
    }

    fn frame(kind: u8, payload: &[u8]) -> Frame<'_> {
        Frame { kind, channel: 1, payload }
    }

    fn header(assembly: &mut Assembly, body_size: u64) -> Outcome<Progress> {
        assembly.frame(&frame(FRAME_HEADER, &header_of(60, 0, body_size)), MAX)
    }

    fn body(assembly: &mut Assembly, payload: &[u8]) -> Outcome<Progress> {
        assembly.frame(&frame(FRAME_BODY, payload), MAX)
    }

    fn text(outcome: Outcome<Progress>) -> String {
        outcome.unwrap_err().reply_text()
    }

    #[test]
    fn a_body_in_one_frame_is_not_copied() {
        let mut assembly = started();
        assert_eq!(header(&mut assembly, 5), Ok(Progress::More));
        assert_eq!(body(&mut assembly, b"hello"), Ok(Progress::InFrame));
        assert_eq!(assembly.held_bytes(), 0);
        let content = assembly.content(Some(b"hello"));
        assert_eq!(
            (content.exchange, content.routing_key, content.body),
            (&b"x"[..], &b"k"[..], &b"hello"[..])
        );
        assert!(content.mandatory && !content.immediate && assembly.is_idle());
    }

    #[test]
    fn an_empty_body_has_no_frame() {
        let mut assembly = started();
        assert_eq!(header(&mut assembly, 0), Ok(Progress::Gathered));
        assert_eq!(assembly.content(None).body, b"");
        assert!(assembly.is_idle());
    }

    #[test]
    fn several_frames_are_gathered_and_empty_ones_tolerated() {
        let mut assembly = started();
        assert_eq!(header(&mut assembly, 4), Ok(Progress::More));
        for (part, growth) in [(&b""[..], 0), (b"ab", 4), (b"", 0), (b"c", 0)] {
            assert_eq!(assembly.growth(&frame(FRAME_BODY, part)), growth);
            assert_eq!(body(&mut assembly, part), Ok(Progress::More));
        }
        assert_eq!(body(&mut assembly, b"d"), Ok(Progress::Gathered));
        assert_eq!(assembly.content(None).body, b"abcd");
    }

    #[test]
    fn a_lying_size_reserves_nothing_in_advance() {
        let mut assembly = started();
        assert_eq!(
            assembly.frame(&frame(FRAME_HEADER, &header_of(60, 0, 400 << 20)), u64::MAX),
            Ok(Progress::More)
        );
        assert_eq!(assembly.held_bytes(), 0);
        assert_eq!(assembly.growth(&frame(FRAME_BODY, &[0; 1000])), BODY_BYTES_FIRST);
        assert_eq!(body(&mut assembly, &[0; 1000]), Ok(Progress::More));
        assert_eq!(assembly.held_bytes(), BODY_BYTES_FIRST);
    }

    #[test]
    fn a_body_above_the_bound_is_swallowed_and_reported() {
        let mut assembly = started();
        assert_eq!(header(&mut assembly, MAX + 1), Ok(Progress::More));
        assert_eq!(body(&mut assembly, &vec![0; MAX as usize]), Ok(Progress::More));
        assert_eq!(body(&mut assembly, &[0]), Ok(Progress::Gathered));
        assert_eq!(assembly.held_bytes(), 0);
        assert_eq!(assembly.content(None).body_size, MAX + 1);
    }

    #[test]
    fn frames_out_of_order_are_named_in_rabbitmqs_words() {
        let idle = |kind| text(Assembly::default().frame(&frame(kind, &[0; 14]), MAX));
        let expected = "UNEXPECTED_FRAME - expected method frame, got non method frame instead";
        assert_eq!(idle(FRAME_HEADER), expected);
        assert_eq!(idle(FRAME_BODY), expected);
        let expected =
            "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead";
        assert_eq!(text(started().frame(&frame(FRAME_METHOD, &[0; 14]), MAX)), expected);
        assert_eq!(text(body(&mut started(), b"x")), expected);
        assert_eq!(text(started().frame(&frame(FRAME_HEADER, &header_of(60, 7, 1)), MAX)), expected);
        assert_eq!(
            text(started().frame(&frame(FRAME_HEADER, &header_of(50, 0, 1)), MAX)),
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
        );
        let mut assembly = started();
        header(&mut assembly, 3).unwrap();
        assert_eq!(
            text(assembly.frame(&frame(FRAME_METHOD, &[0; 4]), MAX)),
            "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
        );
    }

    #[test]
    fn sizes_that_cannot_be_are_frame_errors() {
        let mut assembly = started();
        header(&mut assembly, 3).unwrap();
        assert_eq!(
            text(body(&mut assembly, b"four")),
            "FRAME_ERROR - content body frame exceeds remaining content size"
        );
        assert_eq!(
            text(header(&mut started(), u64::MAX)),
            "FRAME_ERROR - content body size 18446744073709551615 exceeds maximum allowed size 536870912"
        );
    }
}
