//! Vhosts, users and permissions, for management.

use metadata::{
    AddUser, AddVhost, Batch, Command, Condition, Credentials, DeleteUser, DeleteVhost, Entry, Hashing,
    Limits, Name, Placement, SetPermissions, SetUserLimits, SetVhostLimits, SetVhostMetadata, State,
    VhostMetadata, VhostRoom,
};

use crate::actor::actor;
use crate::call::{Call, Changed, Commit};
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
        let room = |name: &Name| {
            let room = |count_max| Condition::RoomForVhost(VhostRoom { name: name.clone(), count_max });
            self.options().vhosts_max.map(room)
        };
        let (by, limit) = (actor(), room(&add.name));
        if !self.seeds_vhosts() {
            let mut entry = Entry::new(&by, Command::AddVhost(add));
            entry.conditions.extend(limit);
            return self.commit_then(entry, |_, _| ());
        }
        let is_new = Condition::NoVhost(add.name.clone());
        let mut users = self.read_metadata(|state| state.users().map(|(name, _)| name.clone()).collect());
        let commands = self.vhost_with_seeds(add, &mut users)?;
        let mut entry = Entry::new(&by, Command::ImportBatch(Batch { commands })).only_if(is_new);
        entry.conditions.extend(limit);
        let (reply, call) = Call::pair();
        self.0.propose(entry, move |inner, came| match came {
            Ok(followed) => {
                inner.committing.when_durable(followed.position, Box::new(move |done| reply.send(done)));
            }
            // One that exists stays as it is.
            Err(Refused::Outdated) => reply.send(Ok(())),
            Err(refused) => reply.send(Err(refused)),
        });
        call.or_refused()
    }

    /// Changes what is recorded about a vhost; `edit` is called again when somebody else was faster. Blocks until that is durable: never on a thread that
    /// runs connections.
    ///
    /// # Errors
    /// [`Refused::NoSuchVhost`], or that nothing durable can be promised.
    pub fn edit_vhost(&self, name: &str, edit: impl Fn(&mut VhostMetadata)) -> Result<(), Refused> {
        self.edit(|state| {
            let vhost = state.vhost(name.as_bytes()).ok_or_else(|| Refused::NoSuchVhost(name.into()))?;
            let (name, was) = (Name::from(name.as_bytes()), vhost.metadata().clone());
            let mut metadata = was.clone();
            edit(&mut metadata);
            let command = Command::SetVhostMetadata(SetVhostMetadata { name: name.clone(), metadata });
            Ok((command, Condition::VhostIs(AddVhost { name, metadata: was })))
        })
    }

    /// Proposes what is made from the state until nothing it is made from has changed meanwhile.
    fn edit(&self, make: impl Fn(&State) -> Result<(Command, Condition), Refused>) -> Result<(), Refused> {
        loop {
            let (command, condition) = self.read_metadata(&make)?;
            let entry = Entry::new(&actor(), command).only_if(condition);
            match self.commit(entry).and_then(Call::wait) {
                Err(Refused::Outdated) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Replaces the limits of a vhost; open connections and existing queues stay. Tells whether anything changed.
    pub fn set_vhost_limits(&self, vhost: &str, limits: Limits) -> Result<Changed, Refused> {
        self.apply_telling(Command::SetVhostLimits(SetVhostLimits { vhost: vhost.as_bytes().into(), limits }))
    }

    /// Changes the limits of a user; open connections and channels stay. `edit` is called again when somebody else was faster. Blocks until that is
    /// durable: never on a thread that runs connections.
    ///
    /// # Errors
    /// [`Refused::NoSuchUser`], or that nothing durable can be promised.
    pub fn edit_user_limits(&self, user: &str, edit: impl Fn(&mut Limits)) -> Result<(), Refused> {
        self.edit(|state| {
            let record = state.user(user.as_bytes()).ok_or_else(|| Refused::NoSuchUser(user.into()))?;
            let (name, were) = (Name::from(user.as_bytes()), record.limits.clone());
            let mut limits = were.clone();
            edit(&mut limits);
            let command = Command::SetUserLimits(SetUserLimits { name: name.clone(), limits });
            Ok((command, Condition::UserLimitsAre(SetUserLimits { name, limits: were })))
        })
    }

    /// Deletes a vhost and closes its connections (B191).
    pub fn delete_vhost(&self, name: &str) -> Result<Commit, Refused> {
        let entry = Entry::new(&actor(), Command::DeleteVhost(DeleteVhost { name: name.as_bytes().into() }));
        let name = name.to_owned();
        self.commit_then(entry, move |inner, _| {
            let reason = CloseReason::VhostDeleted(name.as_str().into());
            inner.connections.close_where(&reason, |info| info.vhost == name);
        })
    }

    /// Adds a user with a password, hashed with SHA-256 (B170).
    pub fn add_user(&self, name: &str, password: &str, tags: &[String]) -> Result<Commit, Refused> {
        let salt = self.services().random_bytes();
        let credentials = Credentials::of_password(Hashing::Sha256, salt, password.as_bytes());
        let credentials = credentials.ok_or(Refused::Unavailable)?;
        let tags = tags.iter().map(|tag| Box::from(&**tag)).collect();
        let command = Command::AddUser(AddUser { name: name.as_bytes().into(), credentials, tags });
        self.apply(command)
    }

    /// Deletes a user and closes its connections (B191).
    pub fn delete_user(&self, name: &str) -> Result<Commit, Refused> {
        let entry = Entry::new(&actor(), Command::DeleteUser(DeleteUser { name: name.as_bytes().into() }));
        let name = name.to_owned();
        self.commit_then(entry, move |inner, _| {
            let reason = CloseReason::UserDeleted(name.as_str().into());
            inner.connections.close_where(&reason, |info| info.user == name);
        })
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
        self.apply(command)
    }

    /// Any other change of users, vhosts and permissions; answered when it is followed and durable.
    pub fn apply(&self, command: Command) -> Result<Commit, Refused> {
        self.commit_then(Entry::new(&actor(), command), |_, _| ())
    }

    /// As [`Broker::apply`], with what came of it.
    pub fn apply_telling(&self, command: Command) -> Result<Changed, Refused> {
        let is_import = matches!(command, Command::ImportBatch(_));
        let mut entry = Entry::new(&actor(), command);
        if is_import && self.cluster().is_some() {
            let otherwise = match self.options().placement {
                Placement::Balanced => Placement::ArgumentsOrBalanced,
                _ => Placement::ArgumentsOrLocal,
            };
            entry = entry.only_if(Condition::HomeOfQueue(otherwise));
        }
        self.commit(entry)
    }
}
