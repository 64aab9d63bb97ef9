//! How often a queue has crashed, and what it still waits for.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Reloads of one queue while the node runs: the cause of its crash may be in a message.
const RELOADS_MAX: u32 = 3;

/// How often a queue has crashed: a token of the machine of one life means nothing to that of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life(pub(super) u32);

/// A cell's knowledge of its reloads.
pub(super) struct Reloads {
    pub(super) crashes: AtomicU32,
    pub(super) left: AtomicU32,
    /// Requests to the disk without an answer: an answer must not reach the machine of a later life.
    pub(super) disk_requests: AtomicU32,
    /// The disk was asked for something at some time.
    has_asked: AtomicBool,
}

impl Reloads {
    pub(super) fn new() -> Reloads {
        Reloads {
            crashes: AtomicU32::new(0),
            left: AtomicU32::new(RELOADS_MAX),
            disk_requests: AtomicU32::new(0),
            has_asked: AtomicBool::new(false),
        }
    }

    /// The machine is gone.
    pub(super) fn crashed(&self) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }

    /// The disk was asked for something.
    pub(crate) fn disk_asked(&self) {
        self.disk_requests.fetch_add(1, Ordering::Relaxed);
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Whether the disk was asked for something at some time.
    pub(super) fn has_asked_disk(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// The disk has answered.
    pub(super) fn disk_answered(&self) {
        self.disk_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests to the disk without an answer.
    pub(super) fn disk_requests(&self) -> u32 {
        self.disk_requests.load(Ordering::Relaxed)
    }

    /// No reload will be tried any more.
    pub(super) fn forbid(&self) {
        self.left.store(0, Ordering::Relaxed);
    }
}
