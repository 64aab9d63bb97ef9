//! Vhosts, users and permissions, for management.

use metadata::{
    AddUser, AddVhost, Command, Credentials, DeleteUser, DeleteVhost, Hashing, SetPermissions, VhostMetadata,
};

use crate::call::Commit;
use crate::refused::Refused;
use crate::{Broker, CloseReason};

impl Broker {
    /// Adds a vhost; one that exists stays as it is.
    pub fn add_vhost(&self, name: &str) -> Result<Commit, Refused> {
        let metadata = VhostMetadata {
            description: "".into(),
            tags: Vec::new(),
            default_queue_type: None,
            protected_from_deletion: false,
        };
        self.commit(&Command::AddVhost(AddVhost { name: name.as_bytes().into(), metadata }))
            .map(|(_, call)| call)
    }

    /// Deletes a vhost and closes its connections (B191).
    pub fn delete_vhost(&self, name: &str) -> Result<Commit, Refused> {
        let (_, call) = self.commit(&Command::DeleteVhost(DeleteVhost { name: name.as_bytes().into() }))?;
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
        self.commit(&command).map(|(_, call)| call)
    }

    /// Deletes a user and closes its connections (B191).
    pub fn delete_user(&self, name: &str) -> Result<Commit, Refused> {
        let (_, call) = self.commit(&Command::DeleteUser(DeleteUser { name: name.as_bytes().into() }))?;
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
        self.commit(&command).map(|(_, call)| call)
    }

    /// Any other change of users, vhosts and permissions; answered when durable.
    pub fn apply(&self, command: &Command) -> Result<Commit, Refused> {
        self.commit(command).map(|(_, call)| call)
    }
}
