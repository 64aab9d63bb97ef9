//! Class 60: publishing, consuming, getting and settling messages.
//!
//! Per-message methods have hand-written encoders too ([`crate::amqp091::encode_deliver`] and its kin).

use super::define::methods;
use crate::amqp091::{ShortStr, Table};

methods! {
    class 60;

    /// Limits unsettled deliveries.
    Qos 10 "basic.qos" {
        /// Bytes; only 0 (no limit) is supported by RabbitMQ.
        prefetch_size: u32,
        /// Messages; 0 for no limit.
        prefetch_count: u16,
    } [
        /// For the channel as a whole rather than for each later consumer.
        global,
    ] {}

    /// The limit is set.
    QosOk 11 "basic.qos-ok" {}

    /// Starts a consumer.
    Consume<'a> 20 "basic.consume" {
        /// Ignored.
        ticket: u16,
        /// Queue; empty means the one last declared on the channel.
        queue: ShortStr<'a>,
        /// Consumer tag; empty asks the server for one.
        consumer_tag: ShortStr<'a>,
    } [
        /// Accepted and ignored.
        no_local,
        /// Deliveries count as settled when sent.
        no_ack,
        /// The only consumer of the queue.
        exclusive,
        /// No answer wanted.
        nowait,
    ] {
        /// Optional arguments.
        arguments: Table<'a>,
    }

    /// The consumer is started.
    ConsumeOk<'a> 21 "basic.consume-ok" {
        /// Consumer tag.
        consumer_tag: ShortStr<'a>,
    }

    /// Ends a consumer; from the server: it has ended.
    Cancel<'a> 30 "basic.cancel" {
        /// Consumer tag.
        consumer_tag: ShortStr<'a>,
    } [
        /// No answer wanted.
        nowait,
    ] {}

    /// The consumer is ended.
    CancelOk<'a> 31 "basic.cancel-ok" {
        /// Consumer tag.
        consumer_tag: ShortStr<'a>,
    }

    /// A message from a client; content follows.
    Publish<'a> 40 "basic.publish" (content) {
        /// Ignored.
        ticket: u16,
        /// Exchange; empty is the default exchange.
        exchange: ShortStr<'a>,
        /// Routing key.
        routing_key: ShortStr<'a>,
    } [
        /// Return it if no queue gets it.
        mandatory,
        /// Not supported by RabbitMQ: 540.
        immediate,
    ] {}

    /// An unroutable mandatory message back; content follows.
    Return<'a> 50 "basic.return" (content) {
        /// Reply code.
        reply_code: u16,
        /// Text for people.
        reply_text: ShortStr<'a>,
        /// Exchange it was published to.
        exchange: ShortStr<'a>,
        /// Routing key it was published with.
        routing_key: ShortStr<'a>,
    }

    /// A message for a consumer; content follows.
    Deliver<'a> 60 "basic.deliver" (content) {
        /// Consumer tag.
        consumer_tag: ShortStr<'a>,
        /// Number on the channel, from 1.
        delivery_tag: u64,
    } [
        /// Was delivered before.
        redelivered,
    ] {
        /// Exchange it was published to.
        exchange: ShortStr<'a>,
        /// Routing key it was published with.
        routing_key: ShortStr<'a>,
    }

    /// Asks for one message.
    Get<'a> 70 "basic.get" {
        /// Ignored.
        ticket: u16,
        /// Queue; empty means the one last declared on the channel.
        queue: ShortStr<'a>,
    } [
        /// The delivery counts as settled when sent.
        no_ack,
    ] {}

    /// The message asked for; content follows.
    GetOk<'a> 71 "basic.get-ok" (content) {
        /// Number on the channel, from 1.
        delivery_tag: u64,
    } [
        /// Was delivered before.
        redelivered,
    ] {
        /// Exchange it was published to.
        exchange: ShortStr<'a>,
        /// Routing key it was published with.
        routing_key: ShortStr<'a>,
        /// Ready messages left.
        message_count: u32,
    }

    /// There was no message.
    GetEmpty<'a> 72 "basic.get-empty" {
        /// Empty.
        cluster_id: ShortStr<'a>,
    }

    /// Settles deliveries; from the server: confirms publishes.
    Ack 80 "basic.ack" {
        /// Delivery tag, or publish number.
        delivery_tag: u64,
    } [
        /// All up to and including it; with tag 0, all.
        multiple,
    ] {}

    /// Refuses one delivery.
    Reject 90 "basic.reject" {
        /// Delivery tag.
        delivery_tag: u64,
    } [
        /// Back into the queue rather than dead-lettered or dropped.
        requeue,
    ] {}

    /// Requeues unsettled deliveries, without an answer.
    RecoverAsync 100 "basic.recover-async" {} [
        /// RabbitMQ supports only true.
        requeue,
    ] {}

    /// Requeues unsettled deliveries.
    Recover 110 "basic.recover" {} [
        /// RabbitMQ supports only true.
        requeue,
    ] {}

    /// The deliveries are requeued.
    RecoverOk 111 "basic.recover-ok" {}

    /// Refuses deliveries (RabbitMQ's extension); from the server: refuses publishes.
    Nack 120 "basic.nack" {
        /// Delivery tag, or publish number.
        delivery_tag: u64,
    } [
        /// All up to and including it; with tag 0, all.
        multiple,
        /// Back into the queue rather than dead-lettered or dropped.
        requeue,
    ] {}
}
