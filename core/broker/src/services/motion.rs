//! Who does what need not be waited for.

/// Who does what need not be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// Threads of the broker's own.
    Threads,
    /// Whoever drives it, step by step.
    Steps,
}
