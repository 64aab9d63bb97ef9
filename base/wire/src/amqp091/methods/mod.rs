//! The fields of every method, one module per class, one definition per method.
//!
//! Class and method numbers and field order were compared with the codec of RabbitMQ 4.3.6.

pub mod access;
pub mod basic;
pub mod channel;
pub mod confirm;
pub mod connection;
mod define;
pub mod exchange;
pub mod queue;
pub mod tx;

pub(super) use define::MethodFields;
