//! A disk that publishers fill until they are stopped, under queues whose messages die into others: the reserve and
//! the room for dead letters are short there. All sizes are a small part of the usual ones, so that a disk of some hundred KiB is like one of 10 to 400 MB.
//!
//! Reading order: `plan` (what there is), `disk` (how much room), `ledger` (the oracle), `history` (lives in which the disk becomes full),
//! `ending` (nobody publishes any more: all that is owed comes, within a bounded time, and then publishers may go on).

mod disk;
mod ending;
mod history;
mod ledger;
mod plan;

pub use history::run;
