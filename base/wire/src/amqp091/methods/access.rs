//! Class 30: access tickets, which mean nothing any more; some old clients still ask for one.

use super::define::methods;
use crate::amqp091::ShortStr;

methods! {
    class 30;

    /// Asks for a ticket.
    Request<'a> 10 "access.request" {
        /// Ignored.
        realm: ShortStr<'a>,
    } [
        /// Ignored.
        exclusive,
        /// Ignored.
        passive,
        /// Ignored.
        active,
        /// Ignored.
        write,
        /// Ignored.
        read,
    ] {}

    /// The ticket.
    RequestOk 11 "access.request-ok" {
        /// 1 in RabbitMQ's answers.
        ticket: u16,
    }
}
