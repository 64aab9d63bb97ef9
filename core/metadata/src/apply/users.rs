//! Users, their passwords, tags and permissions.

use crate::changes::{Applied, Change, Outcome};
use crate::command::{
    AddUser, ChangePassword, ClearPassword, ClearPermissions, ClearTopicPermissions, Credentials, DeleteUser,
    Name, PutUser, SetPermissions, SetTopicPermissions, SetUserLimits, SetUserTags,
};
use crate::facts::Fact;
use crate::limits::Limits;
use crate::records::{Permissions, TopicPermissions, User};
use crate::refusal::{Kind, Refusal};
use crate::state::{State, not_found};

impl State {
    pub(crate) fn add_user(&mut self, add: &AddUser, applied: &mut Applied) -> Result<Outcome, Refusal> {
        if self.users.contains_key(&add.name) {
            return Err(Refusal::AlreadyExists { kind: Kind::User, name: add.name.clone() });
        }
        let AddUser { name, credentials, tags } = add.clone();
        Ok(self.put_user(&PutUser { name, credentials, tags, limits: Limits::default() }, applied))
    }

    pub(crate) fn put_user(&mut self, put: &PutUser, applied: &mut Applied) -> Outcome {
        if self.users.get(&put.name).is_some_and(|user| user.to_put(&put.name) == *put) {
            return Outcome::Unchanged;
        }
        self.store_user(put);
        applied.push(Change::UserChanged(put.name.clone()), Fact::UserSet(put.clone()));
        Outcome::Changed
    }

    /// Makes or replaces a user; permissions stay.
    pub(crate) fn store_user(&mut self, put: &PutUser) {
        let PutUser { name, credentials, tags, limits } = put.clone();
        let (permissions, topic_permissions) = self
            .users
            .remove(&name)
            .map_or_else(Default::default, |user| (user.permissions, user.topic_permissions));
        self.users.insert(name, User { credentials, tags, limits, permissions, topic_permissions });
    }

    /// Replaces part of a user that exists.
    fn edit_user(
        &mut self,
        name: &Name,
        applied: &mut Applied,
        edit: impl FnOnce(&mut PutUser),
    ) -> Result<Outcome, Refusal> {
        let mut put = self.user_mut(name)?.to_put(name);
        edit(&mut put);
        Ok(self.put_user(&put, applied))
    }

    pub(crate) fn change_password(
        &mut self,
        change: &ChangePassword,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.edit_user(&change.name, applied, |user| user.credentials = change.credentials.clone())
    }

    pub(crate) fn clear_password(
        &mut self,
        clear: &ClearPassword,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.edit_user(&clear.name, applied, |user| user.credentials = Credentials::none())
    }

    pub(crate) fn set_user_tags(
        &mut self,
        set: &SetUserTags,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.edit_user(&set.name, applied, |user| user.tags.clone_from(&set.tags))
    }

    pub(crate) fn set_user_limits(
        &mut self,
        set: &SetUserLimits,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.edit_user(&set.name, applied, |user| user.limits.clone_from(&set.limits))
    }

    pub(crate) fn delete_user(
        &mut self,
        delete: &DeleteUser,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.users.remove(&delete.name).ok_or_else(|| not_found(Kind::User, &delete.name))?;
        applied.push(Change::UserDeleted(delete.name.clone()), Fact::UserDeleted(delete.clone()));
        Ok(Outcome::Changed)
    }

    /// The user, once the vhost is known to exist.
    fn user_on_vhost(&mut self, user: &Name, vhost: &Name) -> Result<&mut User, Refusal> {
        if !self.users.contains_key(user) {
            return Err(not_found(Kind::User, user));
        }
        self.vhost_mut(vhost)?;
        self.user_mut(user)
    }

    pub(crate) fn set_permissions(
        &mut self,
        set: &SetPermissions,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let user = self.user_on_vhost(&set.user, &set.vhost)?;
        let SetPermissions { configure, write, read, .. } = set.clone();
        let granted = Permissions { configure, write, read };
        if user.permissions.get(&set.vhost) == Some(&granted) {
            return Ok(Outcome::Unchanged);
        }
        user.permissions.insert(set.vhost.clone(), granted);
        applied.push(permissions_changed(&set.user, &set.vhost), Fact::PermissionsSet(set.clone()));
        Ok(Outcome::Changed)
    }

    pub(crate) fn clear_permissions(
        &mut self,
        clear: &ClearPermissions,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if self.user_on_vhost(&clear.user, &clear.vhost)?.permissions.remove(&clear.vhost).is_none() {
            return Ok(Outcome::Unchanged);
        }
        applied.push(permissions_changed(&clear.user, &clear.vhost), Fact::PermissionsCleared(clear.clone()));
        Ok(Outcome::Changed)
    }

    pub(crate) fn set_topic_permissions(
        &mut self,
        set: &SetTopicPermissions,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let user = self.user_on_vhost(&set.user, &set.vhost)?;
        let SetTopicPermissions { vhost, exchange, write, read, .. } = set.clone();
        let (place, granted) = ((vhost, exchange), TopicPermissions { write, read });
        if user.topic_permissions.get(&place) == Some(&granted) {
            return Ok(Outcome::Unchanged);
        }
        user.topic_permissions.insert(place, granted);
        applied
            .push(topic_permissions_changed(&set.user, &set.vhost), Fact::TopicPermissionsSet(set.clone()));
        Ok(Outcome::Changed)
    }

    pub(crate) fn clear_topic_permissions(
        &mut self,
        clear: &ClearTopicPermissions,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if self.user_on_vhost(&clear.user, &clear.vhost)?.drop_topic_permissions(clear) == 0 {
            return Ok(Outcome::Unchanged);
        }
        let change = topic_permissions_changed(&clear.user, &clear.vhost);
        applied.push(change, Fact::TopicPermissionsCleared(clear.clone()));
        Ok(Outcome::Changed)
    }
}

impl User {
    /// Drops the topic permissions named and tells how many there were.
    pub(crate) fn drop_topic_permissions(&mut self, clear: &ClearTopicPermissions) -> usize {
        let before = self.topic_permissions.len();
        self.topic_permissions.retain(|(vhost, exchange), _| {
            *vhost != clear.vhost || clear.exchange.as_ref().is_some_and(|cleared| cleared != exchange)
        });
        before - self.topic_permissions.len()
    }
}

fn permissions_changed(user: &Name, vhost: &Name) -> Change {
    Change::PermissionsChanged { user: user.clone(), vhost: vhost.clone() }
}

fn topic_permissions_changed(user: &Name, vhost: &Name) -> Change {
    Change::TopicPermissionsChanged { user: user.clone(), vhost: vhost.clone() }
}
