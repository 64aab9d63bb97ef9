//! Errors that the client gets for a refusal: reply codes, texts, and which frame they travel in.
//!
//! Refuses to know how things are refused: `refusals.rs` translates the broker's reasons. Texts are RabbitMQ's, because
//! clients and their test suites compare them.

use broker::Refused;
use wire::amqp091::methods::{channel, connection};
use wire::amqp091::{Frame, FrameError, Method, MethodError, ShortStr};

use crate::erlang::erlang_binary;
use crate::refusals;
pub(crate) use crate::reply_code::ReplyCode;

/// Class and method number of the method that failed; 0/0 if none (B32).
pub(crate) type MethodId = (u16, u16);

/// The method numbers of "no method in particular".
pub(crate) const NO_METHOD: MethodId = (0, 0);

/// Something the client did that ends its channel or connection. Made when things go wrong only, hence boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(Box<FailureData>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FailureData {
    code: ReplyCode,
    text: String,
    method: MethodId,
}

/// Result of everything that a client may get wrong.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        let (code, text) = refusals::refusal(refused);
        Failure::new(code, text)
    }
}

impl Failure {
    pub(crate) fn new(code: ReplyCode, text: impl Into<String>) -> Failure {
        Failure(Box::new(FailureData { code, text: text.into(), method: NO_METHOD }))
    }

    /// The same, blamed on a method.
    pub(crate) fn in_method(mut self, method: MethodId) -> Failure {
        self.0.method = method;
        self
    }

    /// Whether something was not found, which another node of the cluster may know.
    pub(crate) fn is_of_missing(&self) -> bool {
        self.0.code == ReplyCode::NotFound
    }

    pub(crate) fn is_hard(&self) -> bool {
        self.0.code.is_hard()
    }

    /// `NAME - text`, at most 255 bytes: RabbitMQ keeps 252 and writes three dots (B31).
    pub(crate) fn reply_text(&self) -> String {
        let mut text = String::from(self.0.code.name());
        if !self.0.text.is_empty() {
            text.push_str(" - ");
            text.push_str(&self.0.text);
        }
        if text.len() > 255 {
            let mut cut = 252;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            text.truncate(cut);
            text.push_str("...");
        }
        text
    }

    /// Appends channel.close.
    pub(crate) fn encode_channel_close(&self, number: u16, out: &mut Vec<u8>) {
        let text = self.reply_text();
        let (class_id, method_id) = self.0.method;
        let close = channel::Close {
            reply_code: self.0.code.number(),
            reply_text: ShortStr::clipped(text.as_bytes()),
            class_id,
            method_id,
        };
        close.encode_frame(number, out);
    }

    /// Appends connection.close.
    pub(crate) fn encode_connection_close(&self, out: &mut Vec<u8>) {
        let text = self.reply_text();
        let (class_id, method_id) = self.0.method;
        let close = connection::Close {
            reply_code: self.0.code.number(),
            reply_text: ShortStr::clipped(text.as_bytes()),
            class_id,
            method_id,
        };
        close.encode_frame(0, out);
    }

    /// A frame that is damaged (B23); `payload` is what arrived of it.
    pub(crate) fn bad_frame(error: FrameError, kind: u8, payload: &[u8], payload_size_max: usize) -> Failure {
        let reason = match error {
            FrameError::TooLarge { size, .. } => format!("{{frame_too_large,{size},{payload_size_max}}}"),
            FrameError::BadEnd { octet, .. } => format!("{{invalid_frame_end_marker,{octet}}}"),
        };
        let text = format!("type {kind}, {}: {reason}", snippet(payload));
        Failure::new(ReplyCode::FrameError, text)
    }

    /// A frame of a kind that does not exist, or whose payload is too short for its kind.
    pub(crate) fn unknown_frame(frame: &Frame<'_>) -> Failure {
        let text = format!("type {}, {}: unknown_frame", frame.kind, snippet(frame.payload));
        Failure::new(ReplyCode::FrameError, text)
    }

    /// A frame that may not come now, or not on this channel.
    pub(crate) fn unexpected_frame(frame: &Frame<'_>) -> Failure {
        Failure::new(ReplyCode::UnexpectedFrame, format!("type {}, {}", frame.kind, snippet(frame.payload)))
    }

    /// A method frame that is no method (B42).
    pub(crate) fn bad_method(error: MethodError, frame: &Frame<'_>) -> Failure {
        let fields = || erlang_binary(frame.payload.get(4..).unwrap_or_default());
        match error {
            MethodError::Unknown { class_id, method_id } => Failure::unimplemented((class_id, method_id)),
            MethodError::Malformed { class_id, method_id } => {
                Failure::new(ReplyCode::FrameError, format!("cannot decode {}", fields()))
                    .in_method((class_id, method_id))
            }
            MethodError::BadUtf8 { .. } => Failure::new(ReplyCode::FrameError, "Malformed UTF-8 in shortstr"),
            // RabbitMQ crashes the connection here and says nothing.
            MethodError::BadTable { class_id, method_id, error } => {
                Failure::new(ReplyCode::FrameError, format!("cannot decode a table: {error}"))
                    .in_method((class_id, method_id))
            }
            MethodError::Truncated => Failure::unknown_frame(frame),
        }
    }

    /// A method that only servers send, or that RabbitMQ does not implement (B42).
    pub(crate) fn unimplemented(method: MethodId) -> Failure {
        Failure::new(ReplyCode::CommandInvalid, "unimplemented method").in_method(method)
    }

    /// A method on a channel that is not open (B37).
    pub(crate) fn channel_not_open(method: &Method<'_>) -> Failure {
        Failure::new(ReplyCode::ChannelError, "expected 'channel.open'").in_method(method.id())
    }

    /// A method on channel 0 that may not come now.
    pub(crate) fn unexpected_method(method: &Method<'_>, state: &str) -> Failure {
        let text = format!("unexpected method in connection state {state}");
        Failure::new(ReplyCode::ChannelError, text).in_method(method.id())
    }
}

/// `all octets = <<...>>` or the first 16 of them.
fn snippet(payload: &[u8]) -> String {
    match payload.get(..16) {
        Some(first) if payload.len() > 16 => format!("first 16 octets = {}", erlang_binary(first)),
        _ => format!("all octets = {}", erlang_binary(payload)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Frame<'_> {
        Frame { kind, channel: 1, payload }
    }

    #[test]
    fn texts_longer_than_255_bytes_end_in_three_dots() {
        let text = Failure::new(ReplyCode::NotFound, "x".repeat(300)).reply_text();
        assert_eq!(text.len(), 255);
        assert!(text.starts_with("NOT_FOUND - xxx") && text.ends_with("x..."));
        let text = Failure::new(ReplyCode::NotFound, "é".repeat(300)).reply_text();
        assert!(text.len() <= 255 && text.ends_with("é..."));
        let fits = Failure::new(ReplyCode::NotFound, "x".repeat(255 - "NOT_FOUND - ".len()));
        assert!(fits.reply_text().ends_with("xx"));
    }

    #[test]
    fn a_code_without_explanation_stands_alone() {
        assert_eq!(Failure::new(ReplyCode::InternalError, "").reply_text(), "INTERNAL_ERROR");
    }

    #[test]
    fn damaged_frames_are_described_as_rabbitmq_does() {
        let bad_end = FrameError::BadEnd { kind: 3, channel: 1, size: 5, octet: 121 };
        assert_eq!(
            Failure::bad_frame(bad_end, 3, b"hello", 131_064).reply_text(),
            "FRAME_ERROR - type 3, all octets = <<\"hello\">>: {invalid_frame_end_marker,121}"
        );
        let too_large = FrameError::TooLarge { size: 131_073, max: 131_072 };
        assert_eq!(
            Failure::bad_frame(too_large, 3, b"", 131_064).reply_text(),
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}"
        );
        assert_eq!(
            Failure::unknown_frame(&frame(4, b"abcdefghijklmnopqrstuvwxyz")).reply_text(),
            "FRAME_ERROR - type 4, first 16 octets = <<\"abcdefghijklmnop\">>: unknown_frame"
        );
        assert_eq!(
            Failure::unexpected_frame(&frame(1, &[0, 20, 0, 10, 0])).reply_text(),
            "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"
        );
        assert_eq!(
            Failure::unexpected_frame(&frame(8, &[])).reply_text(),
            "UNEXPECTED_FRAME - type 8, all octets = <<>>"
        );
    }

    #[test]
    fn undecodable_methods_name_themselves() {
        let payload = b"\0\x32\0\x0a\0\0\x03abc";
        let error = Method::decode(payload).unwrap_err();
        let failure = Failure::bad_method(error, &frame(1, payload));
        assert_eq!(failure.reply_text(), "FRAME_ERROR - cannot decode <<0,0,3,97,98,99>>");
        assert_eq!(failure.0.method, (50, 10));
        let payload = b"\0\x63\0\x01";
        let failure = Failure::bad_method(Method::decode(payload).unwrap_err(), &frame(1, payload));
        assert_eq!(failure.reply_text(), "COMMAND_INVALID - unimplemented method");
        assert_eq!(failure.0.method, (99, 1));
        let payload = b"\0\x3c";
        let failure = Failure::bad_method(Method::decode(payload).unwrap_err(), &frame(1, payload));
        assert_eq!(failure.reply_text(), "FRAME_ERROR - type 1, all octets = <<0,60>>: unknown_frame");
    }

    #[test]
    fn only_the_codes_of_channels_are_soft() {
        for code in [ReplyCode::AccessRefused, ReplyCode::NotFound, ReplyCode::PreconditionFailed] {
            assert!(!code.is_hard());
        }
        for code in [ReplyCode::ConnectionForced, ReplyCode::FrameError, ReplyCode::NotAllowed] {
            assert!(code.is_hard());
        }
    }

    #[test]
    fn binaries_print_as_in_erlang() {
        assert_eq!(erlang_binary(b"a\"b"), "<<\"a\\\"b\">>");
        assert_eq!(erlang_binary(&[0, 255]), "<<0,255>>");
    }
}
