//! What new vhosts start with, as configured. Refuses to know which keys say so.

use broker::VhostSeeds;

use super::options::{DefaultPermissions, Secret};

/// Users, limits and operator policies of new vhosts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeedOptions {
    /// By name.
    pub users: Vec<UserSeed>,
    /// Looked at in the order of their words.
    pub limits: Vec<LimitSeed>,
    /// By name.
    pub operator_policies: Vec<PolicySeed>,
}

/// A user of new vhosts.
#[derive(Debug, Clone, PartialEq)]
pub struct UserSeed {
    /// Name.
    pub name: String,
    /// Over names of vhosts. Default `.*`.
    pub vhost_pattern: String,
    /// Default none: nobody logs in with a password.
    pub password: Option<Secret>,
    /// Default none.
    pub tags: Vec<String>,
    /// Default `.*` three times.
    pub permissions: DefaultPermissions,
}

impl UserSeed {
    /// With nothing said but the name.
    pub fn new(name: &str) -> UserSeed {
        UserSeed {
            name: name.to_owned(),
            vhost_pattern: ".*".to_owned(),
            password: None,
            tags: Vec::new(),
            permissions: DefaultPermissions::default(),
        }
    }
}

/// Limits of new vhosts.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitSeed {
    /// The word in the configuration.
    pub id: String,
    /// Over names of vhosts. Default `.*`.
    pub vhost_pattern: String,
    /// Numbers by RabbitMQ's names.
    pub limits: Vec<(&'static str, i64)>,
}

impl LimitSeed {
    /// With nothing said but the word.
    pub fn new(id: &str) -> LimitSeed {
        LimitSeed { id: id.to_owned(), vhost_pattern: ".*".to_owned(), limits: Vec::new() }
    }
}

/// An operator policy of new vhosts.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySeed {
    /// Name.
    pub name: String,
    /// Over names of vhosts. Default `.*`.
    pub vhost_pattern: String,
    /// Over names of queues. Default `.*`.
    pub pattern: String,
    /// RabbitMQ's word. Default `all`.
    pub apply_to: String,
    /// Numbers by the names of settings.
    pub definition: Vec<(&'static str, i64)>,
}

impl PolicySeed {
    /// With nothing said but the name.
    pub fn new(name: &str) -> PolicySeed {
        let every = || ".*".to_owned();
        let apply_to = "all".to_owned();
        PolicySeed {
            name: name.to_owned(),
            vhost_pattern: every(),
            pattern: every(),
            apply_to,
            definition: Vec::new(),
        }
    }
}

impl SeedOptions {
    /// As the broker takes them. A policy that sets nothing is none.
    pub fn to_broker(&self) -> VhostSeeds {
        let user = |it: &UserSeed| broker::UserSeed {
            name: it.name.clone(),
            vhost_pattern: it.vhost_pattern.clone(),
            password: it.password.as_ref().map(|password| password.expose().to_owned()),
            tags: it.tags.clone(),
            permissions: [&it.permissions.configure, &it.permissions.write, &it.permissions.read]
                .map(String::clone),
        };
        let limit = |it: &LimitSeed| broker::LimitSeed {
            vhost_pattern: it.vhost_pattern.clone(),
            limits: it.limits.clone(),
        };
        let policy = |it: &PolicySeed| broker::PolicySeed {
            name: it.name.clone(),
            vhost_pattern: it.vhost_pattern.clone(),
            pattern: it.pattern.clone(),
            apply_to: it.apply_to.clone(),
            definition: it.definition.clone(),
        };
        let mut limits: Vec<&LimitSeed> = self.limits.iter().collect();
        limits.sort_by(|one, other| one.id.cmp(&other.id));
        VhostSeeds {
            users: self.users.iter().map(user).collect(),
            limits: limits.into_iter().map(limit).collect(),
            operator_policies: self
                .operator_policies
                .iter()
                .filter(|it| !it.definition.is_empty())
                .map(policy)
                .collect(),
        }
    }
}
