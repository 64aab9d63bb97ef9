//! Class 50: queues and their bindings.

use super::define::methods;
use crate::amqp091::{ShortStr, Table};

methods! {
    class 50;

    /// Creates a queue, or checks it against an existing one.
    Declare<'a> 10 "queue.declare" {
        /// Ignored.
        ticket: u16,
        /// Name; empty asks the server for one.
        queue: ShortStr<'a>,
    } [
        /// Only look whether it exists.
        passive,
        /// Survives a restart.
        durable,
        /// Only for this connection, and gone with it.
        exclusive,
        /// Goes with its last consumer.
        auto_delete,
        /// No answer wanted.
        nowait,
    ] {
        /// Optional arguments.
        arguments: Table<'a>,
    }

    /// The queue is there.
    DeclareOk<'a> 11 "queue.declare-ok" {
        /// Name.
        queue: ShortStr<'a>,
        /// Ready messages.
        message_count: u32,
        /// Consumers.
        consumer_count: u32,
    }

    /// Binds a queue to an exchange.
    Bind<'a> 20 "queue.bind" {
        /// Ignored.
        ticket: u16,
        /// Queue; empty means the one last declared on the channel.
        queue: ShortStr<'a>,
        /// Exchange that routes.
        exchange: ShortStr<'a>,
        /// Binding key.
        routing_key: ShortStr<'a>,
    } [
        /// No answer wanted.
        nowait,
    ] {
        /// Arguments; part of the binding's identity.
        arguments: Table<'a>,
    }

    /// The binding is there.
    BindOk 21 "queue.bind-ok" {}

    /// Drops the ready messages.
    Purge<'a> 30 "queue.purge" {
        /// Ignored.
        ticket: u16,
        /// Queue; empty means the one last declared on the channel.
        queue: ShortStr<'a>,
    } [
        /// No answer wanted.
        nowait,
    ] {}

    /// The queue was purged.
    PurgeOk 31 "queue.purge-ok" {
        /// Messages dropped.
        message_count: u32,
    }

    /// Deletes a queue.
    Delete<'a> 40 "queue.delete" {
        /// Ignored.
        ticket: u16,
        /// Queue; empty means the one last declared on the channel.
        queue: ShortStr<'a>,
    } [
        /// Only if it has no consumers.
        if_unused,
        /// Only if it has no messages.
        if_empty,
        /// No answer wanted.
        nowait,
    ] {}

    /// The queue is gone.
    DeleteOk 41 "queue.delete-ok" {
        /// Messages that went with it.
        message_count: u32,
    }

    /// Removes a binding. There is no nowait here.
    Unbind<'a> 50 "queue.unbind" {
        /// Ignored.
        ticket: u16,
        /// Queue; empty means the one last declared on the channel.
        queue: ShortStr<'a>,
        /// Exchange that routes.
        exchange: ShortStr<'a>,
        /// Binding key.
        routing_key: ShortStr<'a>,
        /// Arguments; part of the binding's identity.
        arguments: Table<'a>,
    }

    /// The binding is gone.
    UnbindOk 51 "queue.unbind-ok" {}
}
