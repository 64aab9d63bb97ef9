//! How a log behaves. Knows nothing of configuration files.

/// The step that makes a record count as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Written and `fdatasync`ed: survives a power cut.
    #[default]
    Fsync,
    /// Written to the operating system: survives the end of the process, not a power cut. A file is still synced when it is
    /// sealed, and everything when the log is closed.
    Os,
}

/// Limits and policies of one log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// A file is sealed, and the next one begun, before a write would make it larger than this. One write (all that gathered
    /// during the one before) always goes into one file, so a file may exceed it by that. Default 64 MiB.
    pub file_bytes_max: u64,
    /// Above this many bytes appended but not yet durable, [`crate::Log::over_bound`] says so; appending itself never waits or
    /// refuses, the callers stop reading their sockets. Default 64 MiB.
    pub pending_bytes_max: u64,
    /// Small writes are made into space that was filled with zeros in steps of this size, which makes their `fdatasync`
    /// cheaper (figures: `docs/formats/log.md`). 0 turns it off. Default 1 MiB.
    pub prefill_bytes: u64,
    /// The step that counts as durable. Default [`SyncPolicy::Fsync`].
    pub sync: SyncPolicy,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            file_bytes_max: 64 << 20,
            pending_bytes_max: 64 << 20,
            prefill_bytes: 1 << 20,
            sync: SyncPolicy::Fsync,
        }
    }
}
