//! The finding of a parser of frames.

/// The finding at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<F> {
    /// A whole frame.
    Complete {
        /// The frame.
        frame: F,
        /// Bytes it takes at the front of the buffer.
        consumed: usize,
    },
    /// More bytes must arrive first.
    Incomplete {
        /// Length in bytes, counted from the front of the buffer, below which trying again is pointless.
        needed: usize,
    },
}
