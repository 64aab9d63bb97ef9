//! Many Raft groups on one log: replicas that agree on a list of entries.
//!
//! A [`Group`] is one replica. It takes messages, ticks and durable positions, and returns [`Effects`]: what to send and what to apply.
//! A [`Recovery`] makes one from its records. Entries are opaque bytes. Knows no messages of clients, queues, sockets, threads or
//! clocks. Consensus itself is a [`Kernel`], which sees heads of entries only; [`RaftRs`] is the one there is. Records are drawn in
//! `docs/formats/groups.md`.

mod entries;
mod group;
mod heads;
mod kernel;
mod log;
mod members;
mod raft_messages;
mod raft_rs;
mod reading;
mod records;
mod recovery;

pub use group::{Apply, Body, Effects, Envelope, Group, Settings};
pub use heads::Heads;
pub use kernel::{
    EntryKind, Head, Installed, Kernel, Message, MessageKind, Peer, Ready, Refused, ReplicaId, Role, Start,
    Status, Timing,
};
pub use log::{EntryLog, Place};
pub use members::{Change, MEMBERS_MAX, Members};
pub use raft_rs::RaftRs;
pub use records::{CHECKPOINT, ENTRY, INSTALLED, RecordError, VOTE, entry_body};
pub use recovery::{Recovery, RecoveryError};
