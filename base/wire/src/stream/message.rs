//! Any frame of the protocol, decoded in place.
//!
//! Refuses to know which are legal when, and in which direction.

use super::bodies::Body;
use super::deliver::Deliver;
use super::field::Field;
use super::frame::{Frame, write_frame_with};
use super::publish::Publish;
use super::{commands, requests, responses};
use crate::reader::Reader;

#[cfg(test)]
mod tests;

/// A frame that is none of the protocol's. RabbitMQ answers all of these with a close of code 0x0d, unknown frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No such command, or no such version of it.
    #[error("unknown command {key:#06x} of version {version}")]
    Unknown {
        /// Key, without the response bit.
        key: u16,
        /// Version.
        version: u16,
    },
    /// The body ends too early, goes on too long, or has something that is not of the type it must have.
    #[error("cannot decode command {key:#06x} of version {version}")]
    Malformed {
        /// Key, without the response bit.
        key: u16,
        /// Version.
        version: u16,
    },
}

macro_rules! body_enum {
    ($(#[$meta:meta])* $name:ident in $module:ident { $( $variant:ident $(<$lifetime:lifetime>)?, )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $(
                #[doc = concat!("`", stringify!($module), "::", stringify!($variant), "`")]
                $variant($module::$variant $(<$lifetime>)?),
            )+
        }

        impl<'a> $name<'a> {
            /// Key of the command, without the response bit.
            #[must_use]
            pub const fn key(&self) -> u16 {
                match self { $( Self::$variant(_) => $module::$variant::KEY, )+ }
            }

            fn read(key: u16, reader: &mut Reader<'a>) -> Option<Option<Self>> {
                match key {
                    $( $module::$variant::KEY => Some($module::$variant::read(reader).map(Self::$variant)), )+
                    _ => None,
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                match self { $( Self::$variant(body) => body.write(out), )+ }
            }

            #[cfg(test)]
            fn one_of_each(samples: &mut super::samples::Samples<'a>) -> Vec<Self> {
                vec![ $( Self::$variant($module::$variant::sample(samples)), )+ ]
            }
        }

        $(
            impl<'a> From<$module::$variant $(<$lifetime>)?> for $name<'a> {
                fn from(body: $module::$variant $(<$lifetime>)?) -> Self {
                    Self::$variant(body)
                }
            }
        )+
    };
}

body_enum! {
    /// Requests that the other side must answer.
    Request in requests {
        DeclarePublisher<'a>,
        QueryPublisherSequence<'a>,
        DeletePublisher,
        Subscribe<'a>,
        QueryOffset<'a>,
        Unsubscribe,
        Create<'a>,
        Delete<'a>,
        Metadata<'a>,
        PeerProperties<'a>,
        SaslHandshake,
        SaslAuthenticate<'a>,
        Open<'a>,
        Close<'a>,
        Route<'a>,
        Partitions<'a>,
        ConsumerUpdate,
        ExchangeCommandVersions<'a>,
        StreamStats<'a>,
        CreateSuperStream<'a>,
        DeleteSuperStream<'a>,
        ResolveOffsetSpec<'a>,
    }
}

body_enum! {
    /// An answer.
    Response in responses {
        DeclarePublisher,
        QueryPublisherSequence,
        DeletePublisher,
        Subscribe,
        QueryOffset,
        Unsubscribe,
        Create,
        Delete,
        Metadata<'a>,
        PeerProperties<'a>,
        SaslHandshake<'a>,
        SaslAuthenticate<'a>,
        Open<'a>,
        Close,
        Route<'a>,
        Partitions<'a>,
        ConsumerUpdate,
        ExchangeCommandVersions<'a>,
        StreamStats<'a>,
        CreateSuperStream,
        DeleteSuperStream,
        ResolveOffsetSpec,
    }
}

body_enum! {
    /// Commands that nobody answers, but for publishes and deliveries.
    Command in commands {
        PublishConfirm<'a>,
        PublishError<'a>,
        Credit,
        StoreOffset<'a>,
        MetadataUpdate<'a>,
        Tune,
        Heartbeat,
    }
}

/// Any frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Messages of a publisher.
    Publish(Publish<'a>),
    /// A chunk for a consumer.
    Deliver(Deliver<'a>),
    /// Another command without an answer.
    Command(Command<'a>),
    /// A request.
    Request {
        /// Comes back in the response.
        correlation_id: u32,
        /// The request.
        request: Request<'a>,
    },
    /// The response to a request.
    Response {
        /// That of the request.
        correlation_id: u32,
        /// The answer.
        response: Response<'a>,
    },
    /// The client's [`commands::Tune`] with the response bit; some clients set it, some do not.
    TuneResponse(commands::Tune),
    /// Credit was refused.
    CreditError(commands::CreditError),
}

impl<'a> Message<'a> {
    /// Decodes a frame. Bytes behind the last field are refused, as RabbitMQ does.
    ///
    /// All lengths in a publish have been checked then; the chunk of a delivery has not been looked at.
    ///
    /// # Errors
    /// See [`MessageError`].
    #[inline]
    pub fn decode(frame: &Frame<'a>) -> Result<Self, MessageError> {
        let Frame { key, version, .. } = *frame;
        let mut reader = Reader::new(frame.body);
        let message = if frame.is_response {
            Self::read_response(frame, &mut reader)
        } else {
            Self::read_command(frame, &mut reader)
        };
        match message {
            Some(Some(message)) if reader.is_empty() => Ok(message),
            Some(_) => Err(MessageError::Malformed { key, version }),
            None => Err(MessageError::Unknown { key, version }),
        }
    }

    /// `None`: no such command; `Some(None)`: it cannot be read.
    #[inline]
    #[expect(clippy::option_option, reason = "two different absences, told apart by the only caller")]
    fn read_command(frame: &Frame<'a>, reader: &mut Reader<'a>) -> Option<Option<Self>> {
        match (frame.key, frame.version) {
            (Publish::KEY, 1 | 2) => return Some(Publish::read(frame.version, reader).map(Self::Publish)),
            (Deliver::KEY, 1 | 2) => return Some(Deliver::read(frame.version, reader).map(Self::Deliver)),
            (_, 1) => {}
            _ => return None,
        }
        if let Some(command) = Command::read(frame.key, reader) {
            return Some(command.map(Self::Command));
        }
        // The correlation id is read behind the key is known: an unknown command may have none.
        let Some(correlation_id) = reader.u32() else {
            return Request::read(frame.key, reader).map(|_| None);
        };
        let request = Request::read(frame.key, reader)?;
        Some(request.map(|request| Self::Request { correlation_id, request }))
    }

    #[expect(clippy::option_option, reason = "two different absences, told apart by the only caller")]
    fn read_response(frame: &Frame<'a>, reader: &mut Reader<'a>) -> Option<Option<Self>> {
        match (frame.key, frame.version) {
            (commands::Tune::KEY, 1) => return Some(commands::Tune::read(reader).map(Self::TuneResponse)),
            (commands::CreditError::KEY, 1) => {
                return Some(commands::CreditError::read(reader).map(Self::CreditError));
            }
            (_, 1) => {}
            _ => return None,
        }
        let Some(correlation_id) = reader.u32() else {
            return Response::read(frame.key, reader).map(|_| None);
        };
        let response = Response::read(frame.key, reader)?;
        if frame.key == responses::ConsumerUpdate::KEY {
            // Some clients put a value behind specifications that have none; RabbitMQ passes over it.
            let _passed_over = reader.bytes(reader.rest().len());
        }
        Some(response.map(|response| Self::Response { correlation_id, response }))
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Publish(publish) => publish.encode(out),
            Self::Deliver(deliver) => deliver.encode(out),
            Self::Command(command) => {
                write_frame_with(command.key(), false, 1, out, |out| command.write(out));
            }
            Self::Request { correlation_id, request } => {
                write_frame_with(request.key(), false, 1, out, |out| {
                    correlation_id.write(out);
                    request.write(out);
                });
            }
            Self::Response { correlation_id, response } => {
                write_frame_with(response.key(), true, 1, out, |out| {
                    correlation_id.write(out);
                    response.write(out);
                });
            }
            Self::TuneResponse(tune) => {
                write_frame_with(commands::Tune::KEY, true, 1, out, |out| tune.write(out));
            }
            Self::CreditError(error) => {
                write_frame_with(commands::CreditError::KEY, true, 1, out, |out| error.write(out));
            }
        }
    }
}

impl Request<'_> {
    /// Appends the whole frame.
    pub fn encode(&self, correlation_id: u32, out: &mut Vec<u8>) {
        Message::Request { correlation_id, request: *self }.encode(out);
    }
}

impl Response<'_> {
    /// Appends the whole frame.
    pub fn encode(&self, correlation_id: u32, out: &mut Vec<u8>) {
        Message::Response { correlation_id, response: *self }.encode(out);
    }
}

impl Command<'_> {
    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Message::Command(*self).encode(out);
    }
}
