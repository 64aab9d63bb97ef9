//! Rights of users: their permissions on vhosts, the check that every request passes (B82, B83).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metadata::Limits;
use parking_lot::{Mutex, RwLock};
use stdx::ConnectionId;

use crate::cell::Queue;
use crate::cell::condition::Condition;
use crate::cluster::{Counted, CountedKind};
use crate::open_errors::OpenError;
use crate::permission::Permission;
use crate::policies::Pattern;
use crate::refused::{Refused, Resource};
use crate::vhost::Vhost;

/// The rights of a user in one vhost.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    configure: Pattern,
    write: Pattern,
    read: Pattern,
}

impl Grants {
    /// From three expressions.
    pub(crate) fn new(configure: &str, write: &str, read: &str) -> Grants {
        let [configure, write, read] = [configure, write, read].map(Pattern::of_permission);
        Grants { configure, write, read }
    }

    fn of(&self, permission: Permission) -> &Pattern {
        match permission {
            Permission::Configure => &self.configure,
            Permission::Write => &self.write,
            Permission::Read => &self.read,
        }
    }
}

/// A user's topic permissions on one exchange.
#[derive(Clone, Debug)]
pub(crate) struct TopicGrants {
    write: TopicPattern,
    read: TopicPattern,
}

impl TopicGrants {
    /// From two expressions with `{username}`, `{vhost}` and `{client_id}`, of this user in this vhost.
    pub(crate) fn new([write, read]: [&str; 2], username: &str, vhost: &str) -> TopicGrants {
        let pattern = |text: &str| TopicPattern::new(text, username, vhost);
        TopicGrants { write: pattern(write), read: pattern(read) }
    }

    fn of(&self, permission: Permission) -> &TopicPattern {
        if permission == Permission::Write { &self.write } else { &self.read }
    }
}

/// The variable in topic permissions that stands for the client id of MQTT.
const CLIENT_ID: &str = "{client_id}";

/// A pattern of topic permissions.
#[derive(Clone, Debug)]
struct TopicPattern {
    /// For connections without a client id: the variable is text.
    plain: Pattern,
    /// The expression, its user and its vhost, if it names the client id.
    of_clients: Option<Arc<[Box<str>; 3]>>,
}

impl TopicPattern {
    fn new(text: &str, username: &str, vhost: &str) -> TopicPattern {
        let variables = [("{username}", username), ("{vhost}", vhost)];
        let of_clients = text.contains(CLIENT_ID).then(|| Arc::new([text, username, vhost].map(Box::from)));
        TopicPattern { plain: Pattern::of_permission(&expanded(text, &variables)), of_clients }
    }

    fn matches(&self, client: Option<&Client>, key: &[u8]) -> bool {
        match (client, &self.of_clients) {
            (Some(client), Some(expression)) => client.matches(expression, key),
            _ => self.plain.matches(key),
        }
    }
}

/// Patterns that a client keeps, at most: one to publish and one to subscribe on a few exchanges.
const CLIENT_PATTERNS_MAX: usize = 8;

/// A client that has an id, beside its user: of MQTT.
#[derive(Debug)]
pub struct Client {
    /// The client id.
    pub id: Box<str>,
    /// Its patterns of topic permissions, by the expression that they were made of.
    patterns: Mutex<Vec<(Arc<[Box<str>; 3]>, Pattern)>>,
}

impl Client {
    /// A client with this id.
    pub fn new(id: &str) -> Client {
        Client { id: id.into(), patterns: Mutex::default() }
    }

    fn matches(&self, expression: &Arc<[Box<str>; 3]>, key: &[u8]) -> bool {
        let mut patterns = self.patterns.lock();
        if let Some((_, known)) = patterns.iter().find(|(known, _)| Arc::ptr_eq(known, expression)) {
            return known.matches(key);
        }
        let [text, username, vhost] = &**expression;
        let variables = [("{username}", &**username), ("{vhost}", vhost), (CLIENT_ID, &self.id)];
        let pattern = Pattern::of_permission(&expanded(text, &variables));
        let is_match = pattern.matches(key);
        if patterns.len() >= CLIENT_PATTERNS_MAX {
            // Permissions that were changed leave theirs behind.
            patterns.clear();
        }
        patterns.push((expression.clone(), pattern));
        is_match
    }
}

/// An expression with what its variables stand for, which is no expression whatever is in it. Between `\Q` and `\E`, too.
fn expanded(pattern: &str, variables: &[(&str, &str)]) -> String {
    let (mut out, mut rest, mut is_quoting) = (String::with_capacity(pattern.len()), pattern, false);
    while let Some(first) = rest.chars().next() {
        if let Some((name, value)) = variables.iter().find(|(name, _)| rest.starts_with(name)) {
            let value = literal(value);
            out.push_str(&if is_quoting { format!("\\E{value}\\Q") } else { value });
            rest = &rest[name.len()..];
            continue;
        }
        let mut len = first.len_utf8();
        if rest.starts_with(if is_quoting { "\\E" } else { "\\Q" }) {
            is_quoting = !is_quoting;
            len = 2;
        } else if first == '\\' && !is_quoting {
            len += rest[1..].chars().next().map_or(0, char::len_utf8);
        }
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    out
}

/// An expression that matches that and nothing else.
fn literal(text: &str) -> String {
    let escaped = |it: char| (!it.is_ascii_alphanumeric()).then_some('\\').into_iter().chain([it]);
    text.chars().flat_map(escaped).collect()
}

/// Whether rights are looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The granted permissions, and nothing else.
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
    connections: Arc<AtomicU64>,
    /// Open channels on all its connections.
    channels: Arc<AtomicU64>,
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
            connections: Arc::default(),
            channels: Arc::default(),
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

    /// Its connections, if there is a limit.
    pub(crate) fn counted(&self) -> Option<Counted> {
        let counted = || Counted::new(CountedKind::User, &self.name, &self.connections);
        self.bound(Limits::CONNECTIONS_MAX).map(|_| counted())
    }

    /// Its channels, if there is a limit.
    pub(crate) fn counted_channels(&self) -> Option<Counted> {
        let counted = || Counted::new(CountedKind::Channels, &self.name, &self.channels);
        self.bound(Limits::CHANNELS_MAX).map(|_| counted())
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
        self.rights.read().vhosts.get(vhost).is_some_and(|grants| grants.of(permission).matches(name))
    }

    fn allows_topic(
        &self,
        vhost: &str,
        exchange: &[u8],
        permission: Permission,
        client: Option<&Client>,
        key: &[u8],
    ) -> bool {
        let rights = self.rights.read();
        let Some(grants) = rights.topics.get(&(Box::from(vhost), Box::from(exchange))) else { return true };
        grants.of(permission).matches(client, key)
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
    /// The client, where it has an id: topic permissions may name it.
    pub client: Option<Arc<Client>>,
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
        let client = self.client.as_deref();
        if self.user.allows_topic(self.vhost.name(), exchange, permission, client, key) {
            return Ok(());
        }
        Err(Refused::TopicAccess {
            permission,
            routing_key: key.into(),
            exchange: Resource::exchange(self.vhost.name(), exchange),
            user: self.user.name.clone(),
        })
    }

    /// Whether a subscription that was bound to a topic exchange before may go on.
    ///
    /// # Errors
    /// [`Refused::TopicAccess`].
    pub fn check_subscription(&self, exchange: &[u8], key: &[u8]) -> Result<(), Refused> {
        if !self.user.has_topic_permissions() {
            return Ok(());
        }
        self.check_topic(Permission::Read, exchange, key)
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
        self.check_home(&queue)?;
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
        assert!(internal.allows_topic("any", b"t", Permission::Write, None, b"k"));
    }

    #[test]
    fn a_broken_expression_allows_nothing() {
        assert!(!user("(").allows("/", Permission::Configure, b"("));
    }

    #[test]
    fn patterns_are_read_as_rabbitmq_reads_them_byte_by_byte() {
        let allows =
            |pattern: &str, name: &str| user(pattern).allows("/", Permission::Configure, name.as_bytes());
        assert!(allows("^\\w+$", "orders") && !allows("^\\w+$", "äöü"));
        assert!(allows("^(?!orders).*", "billing") && !allows("^(?!orders).*", "orders-eu"));
        assert!(allows("^(?!orders)\\w*", "billing") && !allows("^(?!orders)\\w*", "orders"));
        assert!(allows("\\<a", "<a") && !allows("\\<a", "a"));
        assert!(allows("^[a-z&&b]+$", "a&b") && !allows("^[a-z&&b]+$", "a1"));
        assert!(allows("^\\Qa.b\\E$", "a.b") && !allows("^\\Qa.b\\E$", "axb"));
        assert!(allows("^..$", "ä") && !allows("^.$", "ä") && !allows("(?i)^Ä$", "ä"));
        assert!(allows("^.*$", "any") && !allows("^.*$", "a\nb"));
    }

    #[test]
    fn what_takes_too_many_steps_to_decide_is_not_allowed() {
        let slow = "(.?)(.?)(.?)(.?)(.?)(.?)\\w*\\w*\\w*\\w*z\\1$";
        let excluding = user(&format!("^(?!{slow})"));
        assert!(!excluding.allows("/", Permission::Configure, &[b'a'; 200]));
        assert!(excluding.allows("/", Permission::Configure, b"b"));
        assert!(!user(&format!("^{slow}")).allows("/", Permission::Configure, &[b'a'; 200]));
    }

    /// Whether a user of this name, in this vhost, may write with that permission.
    fn may_write(username: &str, vhost: &str, pattern: &str, key: &str) -> bool {
        let user = User::new(username, Vec::new());
        let grants = TopicGrants::new([pattern, ".*"], username, vhost);
        user.set_rights(HashMap::new(), HashMap::from([((vhost.into(), b"t"[..].into()), grants)]));
        user.allows_topic(vhost, b"t", Permission::Write, None, key.as_bytes())
    }

    #[test]
    fn topic_patterns_may_name_the_client() {
        let user = User::new("u", Vec::new());
        let set = |pattern: &str| {
            let grants = TopicGrants::new([pattern, ".*"], "u", "/");
            user.set_rights(HashMap::new(), HashMap::from([(("/".into(), b"t"[..].into()), grants)]));
        };
        let client = Client::new("a.b");
        let allows =
            |key: &str| user.allows_topic("/", b"t", Permission::Write, Some(&client), key.as_bytes());
        set("^{client_id}-{username}$");
        assert!(allows("a.b-u") && !allows("axb-u") && !allows("{client_id}-u"));
        set("^x{client_id}$");
        assert!(allows("xa.b") && !allows("a.b-u"), "changes count at once");
        for nth in 0..20 {
            set(&format!("^{nth}{{client_id}}$"));
            assert!(allows(&format!("{nth}a.b")) && !allows("xa.b"));
        }
        assert!(client.patterns.lock().len() <= CLIENT_PATTERNS_MAX);
        set("^u$");
        assert!(allows("u"));
    }

    #[test]
    fn topic_patterns_may_name_the_user_and_the_vhost() {
        assert!(
            may_write("u", "/", "^{username}\\.", "u.x") && !may_write("u", "/", "^{username}\\.", "v.x")
        );
        assert!(may_write("u", "shop", "^{vhost}-{username}$", "shop-u"));
        assert!(may_write("u", "/", "", "") && !may_write("u", "/", "", "u"));
        assert!(
            may_write("u", "/", "^(?!{username})", "v.x") && !may_write("u", "/", "^(?!{username})", "u.x")
        );
        assert!(may_write("u", "/", "^{client_id}$", "{client_id}") && !may_write("u", "/", "(", "("));
        let user = User::new("u", Vec::new());
        assert!(user.allows_topic("/", b"other", Permission::Write, None, b"v.x"));
    }

    #[test]
    fn names_are_no_expressions_in_topic_patterns() {
        for name in ["a.b", "a-b_c", ".*", "(", "a\\", "\\E.*\\Q", "ä ö", "{vhost}", "#", "a\nb"] {
            for pattern in
                ["^{username}\\.x$", "^\\Q{username}.x\\E$", "^\\Q{username}\\E\\.x$", "(?x)^{username}\\.x$"]
            {
                assert!(may_write(name, "/", pattern, &format!("{name}.x")), "{name} {pattern}");
                assert!(!may_write(name, "/", pattern, "other.x"), "{name} {pattern}");
            }
        }
    }
}
