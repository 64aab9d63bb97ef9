//! Class 40: exchanges, and bindings between them (RabbitMQ's extension).

use super::define::methods;
use crate::amqp091::{ShortStr, Table};

methods! {
    class 40;

    /// Creates an exchange, or checks it against an existing one.
    Declare<'a> 10 "exchange.declare" {
        /// Ignored.
        ticket: u16,
        /// Name.
        exchange: ShortStr<'a>,
        /// Type, such as `topic`.
        exchange_type: ShortStr<'a>,
    } [
        /// Only look whether it exists.
        passive,
        /// Survives a restart.
        durable,
        /// Goes with its last binding.
        auto_delete,
        /// Refuses publishes from clients.
        internal,
        /// No answer wanted.
        nowait,
    ] {
        /// Optional arguments.
        arguments: Table<'a>,
    }

    /// The exchange is there.
    DeclareOk 11 "exchange.declare-ok" {}

    /// Deletes an exchange.
    Delete<'a> 20 "exchange.delete" {
        /// Ignored.
        ticket: u16,
        /// Name.
        exchange: ShortStr<'a>,
    } [
        /// Only if it has no bindings.
        if_unused,
        /// No answer wanted.
        nowait,
    ] {}

    /// The exchange is gone.
    DeleteOk 21 "exchange.delete-ok" {}

    /// Binds exchange to exchange.
    Bind<'a> 30 "exchange.bind" {
        /// Ignored.
        ticket: u16,
        /// Exchange that receives.
        destination: ShortStr<'a>,
        /// Exchange that routes.
        source: ShortStr<'a>,
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
    BindOk 31 "exchange.bind-ok" {}

    /// Removes a binding between exchanges.
    Unbind<'a> 40 "exchange.unbind" {
        /// Ignored.
        ticket: u16,
        /// Exchange that receives.
        destination: ShortStr<'a>,
        /// Exchange that routes.
        source: ShortStr<'a>,
        /// Binding key.
        routing_key: ShortStr<'a>,
    } [
        /// No answer wanted.
        nowait,
    ] {
        /// Arguments; part of the binding's identity.
        arguments: Table<'a>,
    }

    /// The binding is gone. RabbitMQ numbers it 51, not 41.
    UnbindOk 51 "exchange.unbind-ok" {}
}
