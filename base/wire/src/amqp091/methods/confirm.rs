//! Class 85: publisher confirms (RabbitMQ's extension).

use super::define::methods;

methods! {
    class 85;

    /// Turns confirms on for the channel.
    Select 10 "confirm.select" {} [
        /// No answer wanted.
        nowait,
    ] {}

    /// Confirms are on.
    SelectOk 11 "confirm.select-ok" {}
}
