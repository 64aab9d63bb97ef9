//! Objects that every new vhost starts with: users, limits and operator policies by the vhost's name. Refuses to know makers of vhosts,
//! and touches none that exists.

use metadata::{
    ApplyTo, Command, Limits, Name, PolicyDefinition, PolicyValue, SetPermissions, SetPolicy, SetVhostLimits,
};
use stdx::Secret;

use crate::policies::Pattern;

/// The objects that new vhosts start with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostSeeds {
    /// Users with permissions; those of all entries that match.
    pub users: Vec<UserSeed>,
    /// Limits; those of the entry that matches whose word is the first.
    pub limits: Vec<LimitSeed>,
    /// Operator policies; those of all entries that match.
    pub operator_policies: Vec<PolicySeed>,
}

/// A user of new vhosts. One of that name that exists stays as it is and gets the permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSeed {
    /// Name.
    pub name: String,
    /// Regular expression over names of vhosts. Default `.*`.
    pub vhost_pattern: String,
    /// Without one, the default, nobody logs in with a password.
    pub password: Option<Secret>,
    /// Tags. Default none.
    pub tags: Vec<String>,
    /// Configure, write and read patterns. Default `.*` three times.
    pub permissions: [String; 3],
}

/// Limits of new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSeed {
    /// The word that stands for the entry.
    pub id: String,
    /// Regular expression over names of vhosts. Default `.*`.
    pub vhost_pattern: String,
    /// Numbers by RabbitMQ's names.
    pub limits: Vec<(&'static str, i64)>,
}

/// An operator policy of new vhosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySeed {
    /// Name.
    pub name: String,
    /// Regular expression over names of vhosts. Default `.*`.
    pub vhost_pattern: String,
    /// Regular expression over names of queues. Default `.*`.
    pub pattern: String,
    /// RabbitMQ's word: `queues`, `all`, ...; one that is none counts as `all`, the default.
    pub apply_to: String,
    /// Numbers by the names of settings; a policy without any is not made.
    pub definition: Vec<(&'static str, i64)>,
}

/// Matches every name.
fn every() -> String {
    ".*".to_owned()
}

impl UserSeed {
    /// With nothing said but the name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let permissions = [every(), every(), every()];
        Self { name: name.to_owned(), vhost_pattern: every(), password: None, tags: Vec::new(), permissions }
    }
}

impl LimitSeed {
    /// With nothing said but the word.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), vhost_pattern: every(), limits: Vec::new() }
    }
}

impl PolicySeed {
    /// With nothing said but the name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let apply_to = "all".to_owned();
        let (name, definition) = (name.to_owned(), Vec::new());
        Self { name, vhost_pattern: every(), pattern: every(), apply_to, definition }
    }
}

impl VhostSeeds {
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.limits.is_empty() && self.operator_policies.is_empty()
    }
}

pub(crate) fn matches(pattern: &str, vhost: &[u8]) -> bool {
    Pattern::new(pattern).matches(vhost)
}

impl LimitSeed {
    pub(crate) fn command(&self, vhost: &Name) -> Command {
        let limits: Limits = self.limits.iter().map(|(name, value)| (Box::from(*name), *value)).collect();
        Command::SetVhostLimits(SetVhostLimits { vhost: vhost.clone(), limits })
    }
}

impl PolicySeed {
    pub(crate) fn command(&self, vhost: &Name) -> Command {
        let mut definition = PolicyDefinition::default();
        self.definition.iter().for_each(|(name, value)| definition.set(name, PolicyValue::Integer(*value)));
        Command::SetOperatorPolicy(SetPolicy {
            vhost: vhost.clone(),
            name: self.name.as_str().into(),
            pattern: self.pattern.as_str().into(),
            apply_to: ApplyTo::from_name(&self.apply_to).unwrap_or_default(),
            priority: 0,
            definition,
        })
    }
}

impl UserSeed {
    pub(crate) fn permissions(&self, vhost: &Name) -> Command {
        let [configure, write, read] = self.permissions.each_ref().map(|pattern| pattern.as_str().into());
        let (user, vhost) = (self.name.as_bytes().into(), vhost.clone());
        Command::SetPermissions(SetPermissions { user, vhost, configure, write, read })
    }
}
