//! Users and their permissions, as listings and pages show them.

use broker::Broker;
use metadata::{Name, State, User};
use serde_json::Value;

use super::values::text;

/// A user.
pub(crate) struct UserRow<'a> {
    pub(crate) name: Value,
    pub(crate) user: &'a User,
}

impl<'a> UserRow<'a> {
    pub(crate) fn of(name: &[u8], user: &'a User) -> UserRow<'a> {
        UserRow { name: text(name), user }
    }

    /// All users by name.
    pub(crate) fn all(state: &'a State) -> impl Iterator<Item = UserRow<'a>> {
        state.users().map(|(name, user)| UserRow::of(name, user))
    }

    /// Its tags as a list.
    pub(crate) fn tags(&self) -> Value {
        self.user.tags.iter().map(|tag| &**tag).collect()
    }
}

/// The permissions that somebody asks for: of a user or of all, in a virtual host or in all.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) vhost: Option<&'a str>,
}

impl Asked<'_> {
    fn users<'s>(&self, state: &'s State) -> Vec<(&'s Name, &'s User)> {
        state.users().filter(|(name, _)| self.user.is_none_or(|user| user.as_bytes() == &***name)).collect()
    }

    fn is_in(&self, vhost: &[u8]) -> bool {
        self.vhost.is_none_or(|asked| asked.as_bytes() == vhost)
    }
}

/// The permissions of a user in a virtual host.
pub(crate) struct PermissionRow {
    pub(crate) user: Value,
    pub(crate) vhost: Value,
    pub(crate) configure: Value,
    pub(crate) write: Value,
    pub(crate) read: Value,
}

impl PermissionRow {
    /// By user and virtual host.
    pub(crate) fn all(broker: &Broker, asked: Asked<'_>) -> Vec<PermissionRow> {
        let mut rows = Vec::new();
        broker.read_metadata(|state| {
            for (name, user) in asked.users(state) {
                let here = user.permissions.iter().filter(|(vhost, _)| asked.is_in(vhost));
                rows.extend(here.map(|(vhost, it)| PermissionRow {
                    user: text(name),
                    vhost: text(vhost),
                    configure: (*it.configure).into(),
                    write: (*it.write).into(),
                    read: (*it.read).into(),
                }));
            }
        });
        rows
    }
}

/// The topic permissions of a user on an exchange.
pub(crate) struct TopicPermissionRow {
    pub(crate) user: Value,
    pub(crate) vhost: Value,
    pub(crate) exchange: Value,
    pub(crate) write: Value,
    pub(crate) read: Value,
}

impl TopicPermissionRow {
    /// By user, virtual host and exchange.
    pub(crate) fn all(broker: &Broker, asked: Asked<'_>) -> Vec<TopicPermissionRow> {
        let mut rows = Vec::new();
        broker.read_metadata(|state| {
            for (name, user) in asked.users(state) {
                let here = user.topic_permissions.iter().filter(|((vhost, _), _)| asked.is_in(vhost));
                rows.extend(here.map(|((vhost, exchange), it)| TopicPermissionRow {
                    user: text(name),
                    vhost: text(vhost),
                    exchange: text(exchange),
                    write: (*it.write).into(),
                    read: (*it.read).into(),
                }));
            }
        });
        rows
    }
}
