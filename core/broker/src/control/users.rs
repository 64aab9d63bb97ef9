//! Vhosts, users and permissions, for management.

use metadata::{
    AddUser, AddVhost, Batch, Command, Credentials, DeleteUser, DeleteVhost, Hashing, Limits, Outcome,
    SetPermissions, SetUserLimits, SetVhostLimits, SetVhostMetadata, VhostMetadata,
};

use crate::actor::actor;
use crate::call::Commit;
use crate::refused::Refused;
use crate::{Broker, CloseReason};

/// Of a vhost about which nothing is known.
pub fn new_vhost_metadata() -> VhostMetadata {
    VhostMetadata {
        description: "".into(),
        tags: Vec::new(),
        default_queue_type: None,
        protected_from_deletion: false,
    }
}

impl Broker {
    /// Adds a vhost; one that exists stays as it is.
    pub fn add_vhost(&self, name: &str) -> Result<Commit, Refused> {
        self.add_vhost_with(name, new_vhost_metadata())
    }

    /// Adds a vhost about which something is known; one that exists stays as it is. Without a default queue type it gets
    /// the node's (B64).
    pub fn add_vhost_with(&self, name: &str, metadata: VhostMetadata) -> Result<Commit, Refused> {
        let default_queue_type = metadata
            .default_queue_type
            .clone()
            .or_else(|| Some(self.options().default_queue_type.as_str().into()));
        let metadata = VhostMetadata { default_queue_type, ..metadata };
        let add = AddVhost { name: name.as_bytes().into(), metadata };
        let decided = self.decide(&actor(), |state| {
            let is_new = state.vhost(&add.name).is_none();
            let limit = self.options().vhosts_max.filter(|max| state.vhosts().len() as u64 >= *max);
            match limit.filter(|_| is_new) {
                Some(limit) => Err(Refused::VhostLimitReached { name: name.into(), limit }),
                None if is_new && self.seeds_vhosts() => {
                    let mut users = state.users().map(|(name, _)| name.clone()).collect();
                    let commands = self.vhost_with_seeds(add, &mut users)?;
                    Ok(Command::ImportBatch(Batch { commands }))
                }
                None => Ok(Command::AddVhost(add)),
            }
        });
        decided.map(|(_, call)| call)
    }

    /// Changes what is recorded about a vhost.
    pub fn edit_vhost(&self, name: &str, edit: impl FnOnce(&mut VhostMetadata)) -> Result<Commit, Refused> {
        let decided = self.decide(&actor(), |state| {
            let vhost = state.vhost(name.as_bytes()).ok_or_else(|| Refused::NoSuchVhost(name.into()))?;
            let mut metadata = vhost.metadata().clone();
            edit(&mut metadata);
            Ok(Command::SetVhostMetadata(SetVhostMetadata { name: name.as_bytes().into(), metadata }))
        });
        decided.map(|(_, call)| call)
    }

    /// Replaces the limits of a vhost; open connections and existing queues stay. Tells whether anything changed.
    pub fn set_vhost_limits(&self, vhost: &str, limits: Limits) -> Result<(Outcome, Commit), Refused> {
        self.commit(
            &actor(),
            &Command::SetVhostLimits(SetVhostLimits { vhost: vhost.as_bytes().into(), limits }),
        )
    }

    /// Changes the limits of a user; open connections and channels stay.
    pub fn edit_user_limits(&self, user: &str, edit: impl FnOnce(&mut Limits)) -> Result<Commit, Refused> {
        let decided = self.decide(&actor(), |state| {
            let record = state.user(user.as_bytes()).ok_or_else(|| Refused::NoSuchUser(user.into()))?;
            let mut limits = record.limits.clone();
            edit(&mut limits);
            Ok(Command::SetUserLimits(SetUserLimits { name: user.as_bytes().into(), limits }))
        });
        decided.map(|(_, call)| call)
    }

    /// Deletes a vhost and closes its connections (B191).
    pub fn delete_vhost(&self, name: &str) -> Result<Commit, Refused> {
        let (_, call) =
            self.commit(&actor(), &Command::DeleteVhost(DeleteVhost { name: name.as_bytes().into() }))?;
        self.0.connections.close_where(&CloseReason::VhostDeleted(name.into()), |info| info.vhost == name);
        Ok(call)
    }

    /// Adds a user with a password, hashed with SHA-256 (B170).
    pub fn add_user(&self, name: &str, password: &str, tags: &[String]) -> Result<Commit, Refused> {
        let salt = self.services().random_bytes();
        let credentials = Credentials::of_password(Hashing::Sha256, salt, password.as_bytes());
        let credentials = credentials.ok_or(Refused::Unavailable)?;
        let tags = tags.iter().map(|tag| Box::from(&**tag)).collect();
        let command = Command::AddUser(AddUser { name: name.as_bytes().into(), credentials, tags });
        self.commit(&actor(), &command).map(|(_, call)| call)
    }

    /// Deletes a user and closes its connections (B191).
    pub fn delete_user(&self, name: &str) -> Result<Commit, Refused> {
        let (_, call) =
            self.commit(&actor(), &Command::DeleteUser(DeleteUser { name: name.as_bytes().into() }))?;
        self.0.connections.close_where(&CloseReason::UserDeleted(name.into()), |info| info.user == name);
        Ok(call)
    }

    /// Grants permissions on a vhost: configure, write, read patterns.
    pub fn set_permissions(
        &self,
        user: &str,
        vhost: &str,
        patterns: &[String; 3],
    ) -> Result<Commit, Refused> {
        let command = Command::SetPermissions(SetPermissions {
            user: user.as_bytes().into(),
            vhost: vhost.as_bytes().into(),
            configure: patterns[0].as_str().into(),
            write: patterns[1].as_str().into(),
            read: patterns[2].as_str().into(),
        });
        self.commit(&actor(), &command).map(|(_, call)| call)
    }

    /// Any other change of users, vhosts and permissions; answered when durable.
    pub fn apply(&self, command: &Command) -> Result<Commit, Refused> {
        self.commit(&actor(), command).map(|(_, call)| call)
    }

    /// As [`Broker::apply`], with what came of it.
    pub fn apply_telling(&self, command: &Command) -> Result<(Outcome, Commit), Refused> {
        self.commit(&actor(), command)
    }
}
