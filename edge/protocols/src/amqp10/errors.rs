//! The answer to a client that is refused something: a condition, a text, and the frame that they travel in.
//!
//! Refuses to know how things are refused: `refusals.rs` translates the broker's reasons. Texts are RabbitMQ's.

use wire::amqp10::{Close, Detach, End, Error, Map, Symbol};

/// An error as AMQP 1.0 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Symbol of the condition, one of `wire::amqp10::conditions`.
    pub(crate) condition: &'static str,
    /// Description for the client.
    pub(crate) text: String,
}

/// The part that ends because of it: link, session or connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A link.
    Link(Trouble),
    /// A session with all its links.
    Session(Trouble),
    /// The connection.
    Connection(Trouble),
}

/// Result of everything that a client may get wrong.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Trouble {
    pub(crate) fn new(condition: &'static str, text: impl Into<String>) -> Trouble {
        Trouble { condition, text: text.into() }
    }

    /// As it stands in a frame.
    pub(crate) fn view(&self) -> Error<'_> {
        Error {
            condition: Symbol(self.condition.as_bytes()),
            description: Some(&self.text),
            info: Map::EMPTY,
        }
    }

    /// Appends a detach that ends the link.
    pub(crate) fn encode_detach(&self, channel: u16, handle: u32, out: &mut Vec<u8>) {
        Detach { handle, closed: true, error: Some(self.view()) }.encode_frame(channel, out);
    }

    /// Appends the end of a session.
    pub(crate) fn encode_end(&self, channel: u16, out: &mut Vec<u8>) {
        End { error: Some(self.view()) }.encode_frame(channel, out);
    }

    /// Appends the close of the connection.
    pub(crate) fn encode_close(&self, out: &mut Vec<u8>) {
        Close { error: Some(self.view()) }.encode_frame(0, out);
    }
}

impl Failure {
    pub(crate) fn link(condition: &'static str, text: impl Into<String>) -> Failure {
        Failure::Link(Trouble::new(condition, text))
    }

    pub(crate) fn session(condition: &'static str, text: impl Into<String>) -> Failure {
        Failure::Session(Trouble::new(condition, text))
    }

    pub(crate) fn connection(condition: &'static str, text: impl Into<String>) -> Failure {
        Failure::Connection(Trouble::new(condition, text))
    }
}
