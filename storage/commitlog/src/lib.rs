//! Append-only log with group commit, per-queue segment files and recovery. Does not know what a message is.
