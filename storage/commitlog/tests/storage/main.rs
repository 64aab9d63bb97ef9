//! The storage crate from outside: formats against golden files, recovery from every kind of bad end, seeded crashes.

#![expect(
    clippy::unwrap_used,
    reason = "tests; clippy exempts only functions marked #[test], not their helpers"
)]

mod crash;
mod fixtures;
mod golden;
mod log_kept;
mod log_names;
mod log_recovery;
mod log_room;
mod log_writing;
mod real_disk;
mod segments;
