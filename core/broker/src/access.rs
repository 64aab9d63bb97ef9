//! Who may do what: users, their permissions on vhosts, the check that every request passes (B82, B83).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metadata::Limits;
use parking_lot::RwLock;
use regex::bytes::Regex;
use stdx::ConnectionId;

use crate::broker::OpenError;
use crate::cell::Queue;
use crate::cell::crash::Condition;
use crate::refused::{Refused, Resource};
use crate::vhost::Vhost;

/// The three permissions of RabbitMQ's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Create and delete.
    Configure,
    /// Publish, bind to a queue.
    Write,
    /// Consume, bind from an exchange.
    Read,
}

/// A pattern of names. RabbitMQ: an unanchored regular expression; the empty one stands for `^$`.
#[derive(Clone, Debug)]
enum Pattern {
    Everything,
    Nothing,
    Matches(Box<Regex>),
    /// Not a valid expression: matches nothing.
    Broken,
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        match text {
            ".*" | "^.*$" | "^.*" | ".*$" => Pattern::Everything,
            "" | "^$" => Pattern::Nothing,
            _ => Regex::new(text).map_or(Pattern::Broken, |regex| Pattern::Matches(Box::new(regex))),
        }
    }

    fn allows(&self, name: &[u8]) -> bool {
        match self {
            Pattern::Everything => true,
            Pattern::Nothing => name.is_empty(),
            Pattern::Matches(regex) => regex.is_match(name),
            Pattern::Broken => false,
        }
    }
}

/// What a user may do in one vhost.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    configure: Pattern,
    write: Pattern,
    read: Pattern,
}

impl Grants {
    /// From three expressions.
    pub(crate) fn new(configure: &str, write: &str, read: &str) -> Grants {
        Grants { configure: Pattern::new(configure), write: Pattern::new(write), read: Pattern::new(read) }
    }

    fn of(&self, permission: Permission) -> &Pattern {
        match permission {
            Permission::Configure => &self.configure,
            Permission::Write => &self.write,
            Permission::Read => &self.read,
        }
    }
}

/// A user's topic permissions on one exchange: expressions with `{username}`, `{vhost}`, `{client_id}`.
#[derive(Clone, Debug)]
pub(crate) struct TopicGrants {
    pub(crate) write: Box<str>,
    pub(crate) read: Box<str>,
}

/// Whether rights are looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// What was granted, and nothing else.
    Granted,
    /// Everything: a part of this program.
    Internal,
}

#[derive(Default)]
struct Rights {
    vhosts: HashMap<Box<str>, Grants>,
    topics: HashMap<(Box<str>, Box<[u8]>), TopicGrants>,
}

/// A user at run time. Changes of permissions are seen by the sessions that hold it.
pub struct User {
    /// Name.
    pub name: Box<str>,
    standing: Standing,
    tags: RwLock<Vec<Box<str>>>,
    rights: RwLock<Rights>,
    limits: RwLock<Limits>,
    /// Open connections; changes under the lock of the node's connections.
    connections: AtomicU64,
    /// Open channels on all its connections.
    channels: AtomicU64,
    version: AtomicU64,
}

impl User {
    /// Without any permission.
    pub(crate) fn new(name: &str, tags: Vec<Box<str>>) -> User {
        User {
            name: name.into(),
            standing: Standing::Granted,
            tags: RwLock::new(tags),
            rights: RwLock::default(),
            limits: RwLock::default(),
            connections: AtomicU64::new(0),
            channels: AtomicU64::new(0),
            version: AtomicU64::new(1),
        }
    }

    /// A user without a name and any right, for requests that need no login.
    pub fn nobody() -> User {
        User::new("", Vec::new())
    }

    /// As whom parts of this program act, such as shovels within the node: may do everything in every vhost, and publish in
    /// the name of others. No password opens it; RabbitMQ shows it as `none`.
    pub fn internal() -> User {
        let tags = vec!["administrator".into(), "impersonator".into()];
        User { standing: Standing::Internal, ..User::new("none", tags) }
    }

    /// Whether the user has a tag, such as `administrator` or `impersonator`.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.read().iter().any(|own| &**own == tag)
    }

    /// All its tags, in the order in which they were set.
    pub fn tags(&self) -> Vec<Box<str>> {
        self.tags.read().clone()
    }

    pub(crate) fn set_tags(&self, tags: Vec<Box<str>>) {
        *self.tags.write() = tags;
        self.changed();
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
    }

    /// How many of the things that this limit is about there may be; `None` is no limit.
    pub(crate) fn bound(&self, limit: &str) -> Option<u64> {
        self.limits.read().bound(limit)
    }

    pub(crate) fn connections(&self) -> &AtomicU64 {
        &self.connections
    }

    pub(crate) fn channels(&self) -> &AtomicU64 {
        &self.channels
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Grows with every change of rights.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces everything the user may do.
    pub(crate) fn set_rights(
        &self,
        vhosts: HashMap<Box<str>, Grants>,
        topics: HashMap<(Box<str>, Box<[u8]>), TopicGrants>,
    ) {
        *self.rights.write() = Rights { vhosts, topics };
        self.changed();
    }

    /// Whether the user may open a vhost: any permission row will do.
    pub fn may_open(&self, vhost: &str) -> bool {
        self.standing == Standing::Internal || self.rights.read().vhosts.contains_key(vhost)
    }

    /// Whether any topic permission exists for the user.
    pub(crate) fn has_topic_permissions(&self) -> bool {
        !self.rights.read().topics.is_empty()
    }

    fn allows(&self, vhost: &str, permission: Permission, name: &[u8]) -> bool {
        if self.standing == Standing::Internal {
            return true;
        }
        self.rights.read().vhosts.get(vhost).is_some_and(|grants| grants.of(permission).allows(name))
    }

    fn allows_topic(&self, vhost: &str, exchange: &[u8], permission: Permission, key: &[u8]) -> bool {
        let rights = self.rights.read();
        let Some(grants) = rights.topics.get(&(Box::from(vhost), Box::from(exchange))) else { return true };
        let text = if permission == Permission::Write { &grants.write } else { &grants.read };
        let text =
            text.replace("{username}", &regex::escape(&self.name)).replace("{vhost}", &regex::escape(vhost));
        Pattern::new(&text).allows(key)
    }
}

/// On whose behalf a session acts.
#[derive(Clone)]
pub struct Principal {
    /// The user.
    pub user: Arc<User>,
    /// The vhost that connection.open chose.
    pub vhost: Arc<Vhost>,
    /// The connection; owner of exclusive queues.
    pub connection: ConnectionId,
    /// The connection's name in listings and traces.
    pub connection_name: Arc<str>,
}

impl Principal {
    fn check(
        &self,
        permission: Permission,
        resource: impl FnOnce() -> Resource,
        name: &[u8],
    ) -> Result<(), Refused> {
        if self.user.allows(self.vhost.name(), permission, name) {
            return Ok(());
        }
        Err(Refused::Access { permission, resource: resource(), user: self.user.name.clone() })
    }

    /// Whether the user may still be in the vhost.
    ///
    /// # Errors
    /// [`OpenError::AccessRefused`].
    pub fn check_vhost(&self) -> Result<(), OpenError> {
        if self.user.may_open(self.vhost.name()) { Ok(()) } else { Err(OpenError::AccessRefused) }
    }

    /// The permission on an exchange; the default one is checked as `amq.default` (B51).
    pub fn check_exchange(&self, permission: Permission, name: &[u8]) -> Result<(), Refused> {
        let name = if name.is_empty() { &b"amq.default"[..] } else { name };
        self.check(permission, || Resource::exchange(self.vhost.name(), name), name)
    }

    /// The permission on a queue.
    pub fn check_queue(&self, permission: Permission, name: &[u8]) -> Result<(), Refused> {
        self.check(permission, || Resource::queue(self.vhost.name(), name), name)
    }

    /// Any one permission on a name (passive declare, B56).
    pub(crate) fn check_any(&self, resource: &Resource) -> Result<(), Refused> {
        let all = [Permission::Configure, Permission::Write, Permission::Read];
        if all.iter().any(|permission| self.user.allows(self.vhost.name(), *permission, &resource.name)) {
            return Ok(());
        }
        let (permission, user) = (Permission::Configure, self.user.name.clone());
        Err(Refused::Access { permission, resource: resource.clone(), user })
    }

    /// The topic permission for a key on a topic exchange.
    pub(crate) fn check_topic(
        &self,
        permission: Permission,
        exchange: &[u8],
        key: &[u8],
    ) -> Result<(), Refused> {
        if self.user.allows_topic(self.vhost.name(), exchange, permission, key) {
            return Ok(());
        }
        Err(Refused::TopicAccess {
            permission,
            routing_key: key.into(),
            exchange: Resource::exchange(self.vhost.name(), exchange),
            user: self.user.name.clone(),
        })
    }

    /// A queue that exists and is not another connection's exclusive one (B65).
    pub(crate) fn usable_queue(&self, name: &[u8]) -> Result<Arc<Queue>, Refused> {
        let resource = || Resource::queue(self.vhost.name(), name);
        let queue = self.vhost.queue(name).ok_or_else(|| Refused::NotFound(resource()))?;
        match queue.exclusive_owner() {
            Some(owner) if owner != self.connection => Err(Refused::Locked(resource())),
            _ => Ok(queue),
        }
    }

    /// As [`Principal::usable_queue`], and it is in service (B71).
    pub(crate) fn serving_queue(&self, name: &[u8]) -> Result<Arc<Queue>, Refused> {
        let queue = self.usable_queue(name)?;
        match queue.condition() {
            Condition::Crashed => Err(Refused::Crashed(queue.resource())),
            Condition::Running | Condition::Deleted => Ok(queue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(configure: &str) -> User {
        let user = User::new("u", Vec::new());
        user.set_rights(HashMap::from([("/".into(), Grants::new(configure, "", ".*"))]), HashMap::new());
        user
    }

    #[test]
    fn patterns_are_unanchored_and_the_empty_one_matches_only_the_empty_name() {
        let user = user("^a-");
        assert!(user.allows("/", Permission::Configure, b"a-1"));
        assert!(!user.allows("/", Permission::Configure, b"b-a-1"));
        assert!(!user.allows("/", Permission::Write, b"x"));
        assert!(user.allows("/", Permission::Write, b""));
        assert!(user.allows("/", Permission::Read, b"anything"));
        assert!(!user.allows("other", Permission::Read, b"anything"));
    }

    #[test]
    fn parts_of_the_program_may_do_everything() {
        let internal = User::internal();
        assert!(internal.may_open("any") && internal.allows("any", Permission::Write, b"x"));
        assert!(internal.allows_topic("any", b"t", Permission::Write, b"k"));
    }

    #[test]
    fn a_broken_expression_allows_nothing() {
        assert!(!user("(").allows("/", Permission::Configure, b"("));
    }

    #[test]
    fn topic_patterns_may_name_the_user() {
        let user = user(".*");
        let grants = TopicGrants { write: "^{username}\\.".into(), read: ".*".into() };
        user.set_rights(HashMap::new(), HashMap::from([(("/".into(), b"t"[..].into()), grants)]));
        assert!(user.allows_topic("/", b"t", Permission::Write, b"u.x"));
        assert!(!user.allows_topic("/", b"t", Permission::Write, b"v.x"));
        assert!(user.allows_topic("/", b"other", Permission::Write, b"v.x"));
    }
}
