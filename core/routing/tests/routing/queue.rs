//! A stand-in for a queue in these tests: another one under the same name is not the same queue.

use std::cmp::Ordering;

use routing::QueueHandle;

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Queue {
    /// Numbers in place of names.
    pub(crate) name: u32,
    /// How many of that name there were before.
    pub(crate) life: u32,
}

impl QueueHandle for Queue {
    type Exchange = routing::Exchange<Queue>;

    fn cmp_names(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}
