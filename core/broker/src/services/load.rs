//! How much log and segments have to store.

/// How much log and segments have to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Anything may be brought.
    Light,
    /// Work that can wait does, such as messages that are to become dead letters.
    Heavy,
    /// Publishers wait.
    Full,
}
