//! Threads that do work that nobody waits for.

/// The threads that do work that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// Threads of the broker's own.
    Threads,
    /// The driver of the broker, step by step.
    Steps,
}
