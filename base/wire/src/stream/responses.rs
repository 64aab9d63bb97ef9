//! Bodies of responses.

use super::bodies::bodies;
use super::field::{Broker, CommandVersions, List, OffsetSpec, StreamMetadata, Trailing, TrailingBytes};

bodies! {
    /// Answers [`super::requests::DeclarePublisher`].
    DeclarePublisher 0x0001 (code) {}

    /// Answers [`super::requests::QueryPublisherSequence`].
    QueryPublisherSequence 0x0005 (code) {
        /// Last publishing id that is stored; 0 if there is none.
        sequence: u64,
    }

    /// Answers [`super::requests::DeletePublisher`].
    DeletePublisher 0x0006 (code) {}

    /// Answers [`super::requests::Subscribe`].
    Subscribe 0x0007 (code) {}

    /// Answers [`super::requests::QueryOffset`].
    QueryOffset 0x000b (code) {
        /// The offset; 0 if there is none.
        offset: u64,
    }

    /// Answers [`super::requests::Unsubscribe`].
    Unsubscribe 0x000c (code) {}

    /// Answers [`super::requests::Create`].
    Create 0x000d (code) {}

    /// Answers [`super::requests::Delete`].
    Delete 0x000e (code) {}

    /// Answers [`super::requests::Metadata`]. Each stream has a code; the answer has none.
    Metadata<'a> 0x000f {
        /// Nodes.
        brokers: List<'a, Broker<'a>>,
        /// Streams.
        streams: List<'a, StreamMetadata<'a>>,
    }

    /// Answers [`super::requests::PeerProperties`].
    PeerProperties<'a> 0x0011 (code) {
        /// Product, version, platform, ...
        properties: List<'a, (&'a str, &'a str)>,
    }

    /// Answers [`super::requests::SaslHandshake`].
    SaslHandshake<'a> 0x0012 (code) {
        /// Mechanisms that may be used.
        mechanisms: List<'a, &'a str>,
    }

    /// Answers [`super::requests::SaslAuthenticate`].
    SaslAuthenticate<'a> 0x0013 (code) {
        /// The challenge, if that is what the code says. Four bytes of length, as clients read it.
        challenge: TrailingBytes<'a>,
    }

    /// Answers [`super::requests::Open`].
    Open<'a> 0x0015 (code) {
        /// `advertised_host`, `advertised_port`.
        properties: Trailing<'a, (&'a str, &'a str)>,
    }

    /// Answers [`super::requests::Close`].
    Close 0x0016 (code) {}

    /// Answers [`super::requests::Route`].
    Route<'a> 0x0018 (code) {
        /// Streams.
        streams: List<'a, &'a str>,
    }

    /// Answers [`super::requests::Partitions`].
    Partitions<'a> 0x0019 (code) {
        /// Streams, in order.
        streams: List<'a, &'a str>,
    }

    /// Answers [`super::requests::ConsumerUpdate`].
    ConsumerUpdate 0x001a (code) {
        /// Where the consumer wants to begin.
        offset: OffsetSpec,
    }

    /// Answers [`super::requests::ExchangeCommandVersions`].
    ExchangeCommandVersions<'a> 0x001b (code) {
        /// Commands and versions.
        commands: List<'a, CommandVersions>,
    }

    /// Answers [`super::requests::StreamStats`].
    StreamStats<'a> 0x001c (code) {
        /// Names and numbers.
        stats: List<'a, (&'a str, i64)>,
    }

    /// Answers [`super::requests::CreateSuperStream`].
    CreateSuperStream 0x001d (code) {}

    /// Answers [`super::requests::DeleteSuperStream`].
    DeleteSuperStream 0x001e (code) {}

    /// Answers [`super::requests::ResolveOffsetSpec`].
    ResolveOffsetSpec 0x001f (code) {
        /// Always an offset until now.
        offset: OffsetSpec,
    }
}
