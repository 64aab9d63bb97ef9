//! The version of links since which nodes understand a command: while nodes are upgraded one after the other, those of the older release do not know what is new.

use crate::command::Command;

/// The version of what nodes say to each other whose nodes all know the commands before [`QUEUE_EXPIRY`].
const FIRST: u16 = 4;
/// The version that came with [`Command::SetQueueExpiry`].
const QUEUE_EXPIRY: u16 = 5;

impl Command {
    /// The oldest version of what nodes say to each other whose nodes understand the command. A cluster takes a command when all its members
    /// speak that version or a newer one. A new command, or a new value in an old one, gets the version that comes with it.
    #[must_use]
    pub fn since(&self) -> u16 {
        match self {
            Command::ImportBatch(batch) => batch.commands.iter().map(Command::since).max().unwrap_or(FIRST),
            Command::SetQueueExpiry(_) => QUEUE_EXPIRY,
            Command::AddVhost(_)
            | Command::SetVhostMetadata(_)
            | Command::DeleteVhost(_)
            | Command::AddUser(_)
            | Command::PutUser(_)
            | Command::DeleteUser(_)
            | Command::ChangePassword(_)
            | Command::ClearPassword(_)
            | Command::SetUserTags(_)
            | Command::SetUserLimits(_)
            | Command::SetPermissions(_)
            | Command::ClearPermissions(_)
            | Command::SetTopicPermissions(_)
            | Command::ClearTopicPermissions(_)
            | Command::DeclareExchange(_)
            | Command::DeleteExchange(_)
            | Command::DeclareQueue(_)
            | Command::DeleteQueue(_)
            | Command::Bind(_)
            | Command::Unbind(_)
            | Command::DeleteExclusiveQueues(_)
            | Command::SetParameter(_)
            | Command::ClearParameter(_)
            | Command::SetGlobalParameter(_)
            | Command::ClearGlobalParameter(_)
            | Command::SetPolicy(_)
            | Command::ClearPolicy(_)
            | Command::SetVhostLimits(_)
            | Command::SetOperatorPolicy(_)
            | Command::ClearOperatorPolicy(_) => FIRST,
        }
    }
}
