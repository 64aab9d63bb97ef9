//! Bodies of requests. The other side answers them under the same correlation id.

use super::bodies::bodies;
use super::field::{CommandVersions, List, OffsetSpec, Trailing};

bodies! {
    /// Makes the connection a publisher of a stream.
    DeclarePublisher<'a> 0x0001 {
        /// Id of the publisher on this connection.
        publisher_id: u8,
        /// Name for deduplication; empty for none.
        reference: &'a str,
        /// Stream.
        stream: &'a str,
    }

    /// Asks for the last publishing id that a named publisher has stored.
    QueryPublisherSequence<'a> 0x0005 {
        /// Name of the publisher.
        reference: &'a str,
        /// Stream.
        stream: &'a str,
    }

    /// Ends a publisher.
    DeletePublisher 0x0006 {
        /// Its id.
        publisher_id: u8,
    }

    /// Makes the connection a consumer of a stream.
    Subscribe<'a> 0x0007 {
        /// Id of the subscription on this connection.
        subscription_id: u8,
        /// Stream.
        stream: &'a str,
        /// Where to begin.
        offset: OffsetSpec,
        /// Chunks that may be delivered at first.
        credit: u16,
        /// Options, such as `single-active-consumer`, `name`, `filter.0`.
        properties: Trailing<'a, (&'a str, &'a str)>,
    }

    /// Asks for the offset that is stored under a name.
    QueryOffset<'a> 0x000b {
        /// Name.
        reference: &'a str,
        /// Stream.
        stream: &'a str,
    }

    /// Ends a subscription.
    Unsubscribe 0x000c {
        /// Its id.
        subscription_id: u8,
    }

    /// Creates a stream.
    Create<'a> 0x000d {
        /// Name.
        stream: &'a str,
        /// Arguments, such as `max-age`.
        arguments: List<'a, (&'a str, &'a str)>,
    }

    /// Deletes a stream.
    Delete<'a> 0x000e {
        /// Name.
        stream: &'a str,
    }

    /// Asks where streams are.
    Metadata<'a> 0x000f {
        /// Their names.
        streams: List<'a, &'a str>,
    }

    /// Tells what the client is, and asks what the server is.
    PeerProperties<'a> 0x0011 {
        /// Product, version, platform, ...
        properties: List<'a, (&'a str, &'a str)>,
    }

    /// Asks for the mechanisms of login.
    SaslHandshake 0x0012 {}

    /// Logs in, or answers a challenge.
    SaslAuthenticate<'a> 0x0013 {
        /// Mechanism.
        mechanism: &'a str,
        /// The response of the mechanism.
        response: Option<&'a [u8]>,
    }

    /// Chooses the virtual host.
    Open<'a> 0x0015 {
        /// Its name.
        virtual_host: &'a str,
    }

    /// Ends the connection. Both sides may ask for it.
    Close<'a> 0x0016 {
        /// Why.
        code: super::ResponseCode,
        /// Why, in words.
        reason: &'a str,
    }

    /// Asks which streams of a super stream a routing key leads to.
    Route<'a> 0x0018 {
        /// Routing key.
        routing_key: &'a str,
        /// Super stream.
        super_stream: &'a str,
    }

    /// Asks for the streams of a super stream.
    Partitions<'a> 0x0019 {
        /// Super stream.
        super_stream: &'a str,
    }

    /// Tells a consumer of a group whether it is the active one. The server asks, the client answers.
    ConsumerUpdate 0x001a {
        /// The subscription.
        subscription_id: u8,
        /// Whether it is active now.
        active: bool,
    }

    /// Tells which commands the client speaks, and asks for those of the server.
    ExchangeCommandVersions<'a> 0x001b {
        /// Commands and versions.
        commands: List<'a, CommandVersions>,
    }

    /// Asks for numbers of a stream.
    StreamStats<'a> 0x001c {
        /// Stream.
        stream: &'a str,
    }

    /// Creates a super stream with its partitions.
    CreateSuperStream<'a> 0x001d {
        /// Name.
        name: &'a str,
        /// Names of the partitions.
        partitions: List<'a, &'a str>,
        /// Their binding keys, in the same order.
        binding_keys: List<'a, &'a str>,
        /// Arguments of each partition.
        arguments: List<'a, (&'a str, &'a str)>,
    }

    /// Deletes a super stream and its partitions.
    DeleteSuperStream<'a> 0x001e {
        /// Name.
        name: &'a str,
    }

    /// Asks which offset an offset specification stands for.
    ResolveOffsetSpec<'a> 0x001f {
        /// Stream.
        stream: &'a str,
        /// The offset to resolve.
        offset: OffsetSpec,
        /// Options, such as `filter.0`.
        properties: Trailing<'a, (&'a str, &'a str)>,
    }
}
