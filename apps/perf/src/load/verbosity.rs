//! A line per message, for `--verbose`: the words are PerfTest's.
//!
//! Refuses to be fast: it is for slow rates.

use std::io::Write;
use wire::amqp091::{FRAME_BODY, FRAME_HEADER, Parsed, Properties, parse_frame};

/// Whether each message is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// No.
    Silent,
    /// Yes.
    Line,
    /// With properties and body.
    Full,
}

/// Tells that a message was published; `message` are its frames.
#[cold]
pub(crate) fn published(verbosity: Verbosity, publisher: usize, number: u64, sent_ns: u64, message: &[u8]) {
    let more = if verbosity == Verbosity::Full { content(message) } else { String::new() };
    say(&format!(
        "publisher {publisher}: message published, timestamp = {sent_ns}, publishing ID = {number}{more}"
    ));
}

/// Tells that a message was received.
#[cold]
pub(crate) fn received(consumer: usize, delivery_tag: u64, sent_ns: u64) {
    say(&format!(
        "consumer {consumer}: received message, timestamp = {sent_ns}, delivery tag = {delivery_tag}"
    ));
}

/// Tells that messages were settled.
#[cold]
pub(crate) fn settled(consumer: usize, delivery_tag: u64, word: &str, count: u32) {
    say(&format!(
        "consumer {consumer}: {word} message(s), delivery tag = {delivery_tag}, message count = {count}"
    ));
}

/// Properties and body of a message, from its frames.
fn content(mut frames: &[u8]) -> String {
    let mut text = String::new();
    while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(frames, usize::MAX / 2) {
        match frame.kind {
            FRAME_HEADER => {
                // Class, weight and size stand before the properties.
                let properties = Properties::new(frame.payload.get(12..).unwrap_or_default());
                text += &format!(", headers = {:?}, body = ", properties.headers());
            }
            FRAME_BODY => text += &String::from_utf8_lossy(frame.payload),
            _ => {}
        }
        frames = &frames[consumed..];
    }
    text
}

fn say(line: &str) {
    // Nobody is left to tell when the terminal is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}
