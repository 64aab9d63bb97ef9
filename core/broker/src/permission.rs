//! The purpose of a permission.

/// The three permissions of RabbitMQ's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Create and delete.
    Configure,
    /// Publish, bind to a queue.
    Write,
    /// Consume, bind from an exchange.
    Read,
}
