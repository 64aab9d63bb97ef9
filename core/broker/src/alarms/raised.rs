//! Which alarms are on, and what people are told of them. Refuses to know why.

/// Which alarms are on. Cheap to copy and compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raised(pub(super) u8);

impl Raised {
    /// This process occupies more memory than it may.
    pub const MEMORY: Raised = Raised(1);
    /// Too little space is free for the data directory.
    pub const DISK: Raised = Raised(2);
    /// A sync of a file has failed: nothing durable is accepted before a restart. Blocks nobody; it is refused.
    pub const STORAGE_FAILED: Raised = Raised(4);
    /// The disk is full: a log cannot write what it has.
    pub const LOG_WAITS: Raised = Raised(8);
    /// A write found no room, and there is not enough since: only what makes room is written. Comes with [`Self::DISK`].
    pub const DISK_FULL: Raised = Raised(16);
    /// Another node of the cluster occupies more memory than it may.
    pub const MEMORY_ELSEWHERE: Raised = Raised(32);
    /// Another node of the cluster has too little space.
    pub const DISK_ELSEWHERE: Raised = Raised(64);
    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Raised) -> Raised {
        Raised(self.0 | other.0)
    }

    /// Whether all of `other` are on.
    #[must_use]
    pub const fn has(self, other: Raised) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any is on that stops publishers.
    #[must_use]
    pub const fn blocks(self) -> bool {
        let elsewhere = Raised::MEMORY_ELSEWHERE.0 | Raised::DISK_ELSEWHERE.0;
        self.0 & (Raised::MEMORY.0 | Raised::DISK.0 | elsewhere) != 0
    }

    /// RabbitMQ's reason in connection.blocked (B27); empty when nobody is blocked.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        let is_memory_short = self.has(Raised::MEMORY) || self.has(Raised::MEMORY_ELSEWHERE);
        let is_disk_short = self.has(Raised::DISK) || self.has(Raised::DISK_ELSEWHERE);
        match (is_memory_short, is_disk_short) {
            (true, true) => "low on disk & memory",
            (true, false) => "low on memory",
            (false, true) => "low on disk",
            (false, false) => "",
        }
    }
}
