//! The contents of a new vhost.

use std::collections::BTreeSet;

use metadata::{AddUser, AddVhost, Command, Credentials, Hashing, Name};

use crate::Broker;
use crate::control::seeds::{PolicySeed, UserSeed, matches};
use crate::refused::Refused;

impl Broker {
    /// The commands that make a new vhost what the options say, itself first. Users that are not in `users` are made, and then are
    /// in it.
    ///
    /// # Errors
    /// [`Refused::Unavailable`] when a password cannot be hashed.
    pub fn vhost_with_seeds(
        &self,
        add: AddVhost,
        users: &mut BTreeSet<Name>,
    ) -> Result<Vec<Command>, Refused> {
        let (seeds, vhost) = (&self.options().vhost_seeds, add.name.clone());
        let mut commands = vec![Command::AddVhost(add)];
        let limits = seeds.limits.iter().filter(|seed| matches(&seed.vhost_pattern, &vhost));
        let limits = limits.min_by(|one, other| one.id.cmp(&other.id));
        commands.extend(limits.map(|seed| seed.command(&vhost)));
        let says = |seed: &&PolicySeed| !seed.definition.is_empty() && matches(&seed.vhost_pattern, &vhost);
        let policies = seeds.operator_policies.iter().filter(says);
        commands.extend(policies.map(|seed| seed.command(&vhost)));
        for seed in seeds.users.iter().filter(|seed| matches(&seed.vhost_pattern, &vhost)) {
            let name: Name = seed.name.as_bytes().into();
            if users.insert(name.clone()) {
                commands.push(Command::AddUser(self.user_of(seed, name)?));
            }
            commands.push(seed.permissions(&vhost));
        }
        Ok(commands)
    }

    /// Whether new vhosts start with anything but their exchanges.
    pub fn seeds_vhosts(&self) -> bool {
        !self.options().vhost_seeds.is_empty()
    }

    fn user_of(&self, seed: &UserSeed, name: Name) -> Result<AddUser, Refused> {
        let credentials = match &seed.password {
            None => Credentials::none(),
            Some(password) => {
                let salt = self.services().random_bytes();
                Credentials::of_password(Hashing::Sha256, salt, password.expose().as_bytes())
                    .ok_or(Refused::Unavailable)?
            }
        };
        let tags = seed.tags.iter().map(|tag| Box::from(&**tag)).collect();
        Ok(AddUser { name, credentials, tags })
    }
}
