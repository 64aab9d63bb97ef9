//! The answer of a leader to a member that lacks messages, and why a member does not take what a leader sends.

use crate::record::RecordKind;

/// The next part of what a member lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Records for it.
    Records(Vec<(RecordKind, Vec<u8>)>),
    /// A block has to be read from disk, and is asked for, or letters have to be safe. To be tried again when the disk has answered, or after
    /// [`crate::Machine::letters_taken`].
    Waits,
    /// It lacks nothing.
    End,
}

/// The answer to somebody who has a message that a leader before this one handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The message is unacked, and theirs to settle.
    Granted,
    /// It is gone, or somebody else has it.
    Refused,
    /// Its block has to be read from disk, and is asked for. To be tried again when the disk has answered, before others.
    Waits,
}

/// A record of a leader that a member does not take. It is as if it had not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowError {
    /// It cannot be what a leader of this version logs.
    Damaged,
    /// A message in it has a body that other queues of the leader have, too, and that does not come with it.
    NotWhole,
    /// It is about the leader's own disk.
    Local,
    /// The queue leads.
    Leads,
}

impl std::fmt::Display for FollowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FollowError::Damaged => "a record of the leader is damaged",
            FollowError::NotWhole => "a record of the leader comes without the body of a message",
            FollowError::Local => "a record of the leader is about its own disk",
            FollowError::Leads => "the queue leads, and takes no records of another leader",
        })
    }
}

impl std::error::Error for FollowError {}
