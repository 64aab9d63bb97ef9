//! Things that a command is about to end or replace, as far as its events tell of it. Refuses to know the outcome of the command.

use std::collections::HashSet;

use metadata::{Command, Limits, Name, PolicyKind, SetUserLimits, State, Vhost};

use super::events::Announcer;

/// The state before a command.
#[derive(Default)]
pub(crate) struct Before {
    /// Users that are put again.
    users: HashSet<Name>,
    /// A user keeps some of its limits.
    has_fewer_limits: bool,
    /// A vhost that goes.
    pub(super) ending: Option<Ending>,
}

/// Things that go with a vhost besides its queues and exchanges.
pub(super) struct Ending {
    pub(super) vhost: Name,
    /// Users with permissions.
    pub(super) grants: Vec<Name>,
    /// Users with permissions on topics.
    pub(super) topic_grants: Vec<Name>,
    /// Component and name.
    pub(super) parameters: Vec<(Box<str>, Box<str>)>,
    pub(super) policies: Vec<(PolicyKind, Box<str>)>,
    pub(super) has_limits: bool,
}

impl Before {
    /// Whether a user was there.
    pub(crate) fn had_user(&self, name: &Name) -> bool {
        self.users.contains(name)
    }

    /// Whether a command takes limits of a user away rather than setting some.
    pub(super) fn takes_limits(&self, limits: &Limits) -> bool {
        limits.is_empty() || self.has_fewer_limits
    }
}

impl Announcer {
    /// To be asked before a command is applied.
    pub(crate) fn look(&self, state: &State, command: &Command) -> Before {
        let mut before = Before::default();
        if self.is_heard() {
            look(&mut before, state, command);
        } else {
            look_for_lines(&mut before, state, command);
        }
        before
    }
}

fn look(before: &mut Before, state: &State, command: &Command) {
    match command {
        Command::PutUser(put) if state.user(&put.name).is_some() => {
            before.users.insert(put.name.clone());
        }
        Command::SetUserLimits(set) => before.has_fewer_limits = has_fewer(state, set),
        Command::DeleteVhost(delete) => {
            before.ending = state.vhost(&delete.name).map(|vhost| ending(state, vhost));
        }
        Command::ImportBatch(batch) => batch.commands.iter().for_each(|one| look(before, state, one)),
        _ => {}
    }
}

/// Facts for the log, whether or not anybody listens to events.
fn look_for_lines(before: &mut Before, state: &State, command: &Command) {
    match command {
        Command::PutUser(_) => look(before, state, command),
        Command::ImportBatch(batch) => {
            batch.commands.iter().for_each(|one| look_for_lines(before, state, one));
        }
        _ => {}
    }
}

fn has_fewer(state: &State, set: &SetUserLimits) -> bool {
    let count = |limits: &Limits| limits.iter().count();
    state.user(&set.name).is_some_and(|user| count(&set.limits) < count(&user.limits))
}

fn ending(state: &State, vhost: &Vhost) -> Ending {
    let name = vhost.name();
    let mut ending = Ending {
        vhost: (&**name).into(),
        grants: Vec::new(),
        topic_grants: Vec::new(),
        parameters: vhost.parameters().map(|(key, _)| key.clone()).collect(),
        policies: Vec::new(),
        has_limits: !vhost.limits().is_empty(),
    };
    for (user, record) in state.users() {
        if record.permissions.contains_key(&**name) {
            ending.grants.push(user.clone());
        }
        if record.topic_permissions.keys().any(|(of, _)| **of == **name) {
            ending.topic_grants.push(user.clone());
        }
    }
    for kind in [PolicyKind::User, PolicyKind::Operator] {
        ending.policies.extend(vhost.policies(kind).map(|(name, _)| (kind, name.into())));
    }
    ending
}
