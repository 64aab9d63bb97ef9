//! Lines of the log about changes of vhosts, users, permissions, policies, limits and runtime parameters, in RabbitMQ's words.
//!
//! Refuses to know queues, exchanges and bindings: applications change those. Values of parameters may hold passwords and are not written.

use std::iter::Peekable;

use metadata::{Change, Command, Limits, Name, PolicyKind, SetPolicy, State};

use crate::log_texts::{printable, quoted};

/// A command that was applied, as far as lines tell of it.
pub(crate) struct Told<'a, F> {
    pub(crate) command: &'a Command,
    pub(crate) changes: &'a [Change],
    /// The user who caused it.
    pub(crate) by: &'a str,
    /// Whether a user was there before.
    pub(crate) had_user: F,
}

/// Writes a line for each change that a command has brought about.
pub(crate) fn log<F: Fn(&Name) -> bool>(state: &State, done: &Told<'_, F>) {
    if done.changes.is_empty() || !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let mut changes = done.changes.iter().filter(|change| is_told(change)).peekable();
    match done.command {
        Command::ImportBatch(batch) => {
            batch.commands.iter().for_each(|command| told(state, command, &mut changes, done));
        }
        command => told(state, command, &mut changes, done),
    }
}

/// Whether somebody who reads the log wants to know.
fn is_told(change: &Change) -> bool {
    !matches!(
        change,
        Change::ExchangeAdded(_)
            | Change::ExchangeDeleted(_)
            | Change::QueueAdded(_)
            | Change::QueueChanged(_)
            | Change::QueueDeleted(_)
            | Change::BindingAdded(_)
            | Change::BindingRemoved(_)
    )
}

/// Writes the lines of one command, if the next change is its own: a command that is refused, or changes nothing, has none.
fn told<'a, F: Fn(&Name) -> bool>(
    state: &State,
    command: &Command,
    changes: &mut Peekable<impl Iterator<Item = &'a Change>>,
    done: &Told<'_, F>,
) {
    let mut own = false;
    while changes.next_if(|change| is_of(command, change)).is_some() {
        own = true;
    }
    if own {
        lines(state, command, done);
    }
}

fn is_of(command: &Command, change: &Change) -> bool {
    match (command, change) {
        (Command::AddVhost(it), Change::VhostAdded(name)) => **name == *it.name,
        (Command::SetVhostMetadata(it), Change::VhostAdded(name) | Change::VhostChanged(name)) => {
            **name == *it.name
        }
        (Command::SetVhostLimits(it), Change::VhostChanged(name)) => **name == *it.vhost,
        (Command::DeleteVhost(_), _) => true,
        (Command::AddUser(it), Change::UserChanged(name)) => *name == it.name,
        (Command::PutUser(it), Change::UserChanged(name)) => *name == it.name,
        (Command::ChangePassword(it), Change::UserChanged(name)) => *name == it.name,
        (Command::ClearPassword(it), Change::UserChanged(name)) => *name == it.name,
        (Command::SetUserTags(it), Change::UserChanged(name)) => *name == it.name,
        (Command::SetUserLimits(it), Change::UserChanged(name)) => *name == it.name,
        (Command::DeleteUser(_), _) => true,
        (Command::SetPermissions(it), Change::PermissionsChanged { user, vhost }) => {
            (user, vhost) == (&it.user, &it.vhost)
        }
        (Command::ClearPermissions(it), Change::PermissionsChanged { user, vhost }) => {
            (user, vhost) == (&it.user, &it.vhost)
        }
        (Command::SetTopicPermissions(it), Change::TopicPermissionsChanged { user, vhost }) => {
            (user, vhost) == (&it.user, &it.vhost)
        }
        (Command::ClearTopicPermissions(it), Change::TopicPermissionsChanged { user, vhost }) => {
            (user, vhost) == (&it.user, &it.vhost)
        }
        _ => is_of_rules(command, change),
    }
}

fn is_of_rules(command: &Command, change: &Change) -> bool {
    match (command, change) {
        (
            Command::SetPolicy(SetPolicy { vhost: of, name: it, .. })
            | Command::SetOperatorPolicy(SetPolicy { vhost: of, name: it, .. }),
            Change::PolicyChanged { vhost, name, .. },
        ) => (vhost, name) == (of, it),
        (
            Command::ClearPolicy(it) | Command::ClearOperatorPolicy(it),
            Change::PolicyChanged { vhost, name, .. },
        ) => (vhost, name) == (&it.vhost, &it.name),
        (Command::SetParameter(it), Change::ParameterChanged { vhost, component, name }) => {
            (vhost, component, name) == (&it.vhost, &it.component, &it.name)
        }
        (Command::ClearParameter(it), Change::ParameterChanged { vhost, component, name }) => {
            (vhost, component, name) == (&it.vhost, &it.component, &it.name)
        }
        (Command::SetGlobalParameter(it), Change::GlobalParameterChanged { name }) => *name == it.name,
        (Command::ClearGlobalParameter(it), Change::GlobalParameterChanged { name }) => *name == it.name,
        _ => false,
    }
}

/// The lines of a command that was not refused.
fn lines<F: Fn(&Name) -> bool>(state: &State, command: &Command, done: &Told<'_, F>) {
    let by = done.by;
    match command {
        Command::AddVhost(add) => vhost(state, "Adding", &add.name, by),
        Command::SetVhostMetadata(set) => vhost(state, "Updated metadata of", &set.name, by),
        Command::DeleteVhost(delete) => tracing::info!(by, "Deleted vhost {}", quoted(&delete.name)),
        Command::SetVhostLimits(set) => limits("vhost", &set.vhost, &set.limits, by),
        Command::AddUser(add) => {
            tracing::info!(by, "Created user {}", quoted(&add.name));
            if !add.tags.is_empty() {
                tags(&add.name, &add.tags, by);
            }
        }
        Command::PutUser(put) => {
            if (done.had_user)(&put.name) {
                tracing::info!(by, "Successfully changed password for user {}", quoted(&put.name));
            } else {
                tracing::info!(by, "Created user {}", quoted(&put.name));
            }
            tags(&put.name, &put.tags, by);
        }
        Command::DeleteUser(delete) => tracing::info!(by, "Deleted user {}", quoted(&delete.name)),
        Command::ChangePassword(change) => {
            tracing::info!(by, "Successfully changed password for user {}", quoted(&change.name));
        }
        Command::ClearPassword(clear) => {
            tracing::info!(by, "Clearing password for user {}", quoted(&clear.name));
        }
        Command::SetUserTags(set) => tags(&set.name, &set.tags, by),
        Command::SetUserLimits(set) => limits("user", &set.name, &set.limits, by),
        Command::SetPolicy(set) => policy(PolicyKind::User, set, by),
        Command::SetOperatorPolicy(set) => policy(PolicyKind::Operator, set, by),
        Command::ClearPolicy(clear) => {
            let vhost = quoted(&clear.vhost);
            tracing::info!(by, "Cleared policy {} in virtual host {vhost}", quoted(clear.name.as_bytes()));
        }
        Command::ClearOperatorPolicy(clear) => {
            let vhost = quoted(&clear.vhost);
            tracing::info!(
                by,
                "Cleared operator policy {} in virtual host {vhost}",
                quoted(clear.name.as_bytes())
            );
        }
        _ => permissions(command, by),
    }
}

fn permissions(command: &Command, by: &str) {
    match command {
        Command::SetPermissions(set) => {
            let [configure, write, read] =
                [&set.configure, &set.write, &set.read].map(|pattern| quoted(pattern.as_bytes()));
            tracing::info!(
                by,
                "Successfully set permissions for user {} in virtual host {} to {configure}, {write}, {read}",
                quoted(&set.user),
                quoted(&set.vhost),
            );
        }
        Command::ClearPermissions(clear) => tracing::info!(
            by,
            "Successfully cleared permissions for user {} in virtual host {}",
            quoted(&clear.user),
            quoted(&clear.vhost),
        ),
        Command::SetTopicPermissions(set) => {
            let [write, read] = [&set.write, &set.read].map(|pattern| quoted(pattern.as_bytes()));
            tracing::info!(
                by,
                "Successfully set topic permissions on exchange {} for user {} in virtual host {} to {write}, {read}",
                quoted(&set.exchange),
                quoted(&set.user),
                quoted(&set.vhost),
            );
        }
        Command::ClearTopicPermissions(clear) => tracing::info!(
            by,
            "Successfully cleared topic permissions for user {} in virtual host {}",
            quoted(&clear.user),
            quoted(&clear.vhost),
        ),
        _ => parameters(command, by),
    }
}

fn parameters(command: &Command, by: &str) {
    match command {
        Command::SetParameter(set) => {
            let (component, name) = (printable(&set.component), quoted(set.name.as_bytes()));
            tracing::info!(by, "Set {component} parameter {name} in virtual host {}", quoted(&set.vhost));
        }
        Command::ClearParameter(clear) => {
            let (component, name) = (printable(&clear.component), quoted(clear.name.as_bytes()));
            tracing::info!(
                by,
                "Cleared {component} parameter {name} in virtual host {}",
                quoted(&clear.vhost)
            );
        }
        Command::SetGlobalParameter(set) => {
            tracing::info!(by, "Set global parameter {}", quoted(set.name.as_bytes()));
        }
        Command::ClearGlobalParameter(clear) => {
            tracing::info!(by, "Cleared global parameter {}", quoted(clear.name.as_bytes()));
        }
        _ => {}
    }
}

fn vhost(state: &State, done: &str, name: &Name, by: &str) {
    let Some(vhost) = state.vhost(name) else { return };
    let metadata = vhost.metadata();
    let (description, tags) = (quoted(metadata.description.as_bytes()), metadata.tags.join(","));
    tracing::info!(
        by,
        "{done} vhost {} (description: {description}, tags: [{}])",
        quoted(name),
        printable(&tags)
    );
}

fn tags(name: &Name, tags: &[Box<str>], by: &str) {
    let tags = tags.join(", ");
    tracing::info!(by, "Successfully set user tags for user {} to [{}]", quoted(name), printable(&tags));
}

fn policy(kind: PolicyKind, set: &SetPolicy, by: &str) {
    let what = match kind {
        PolicyKind::User => "policy",
        PolicyKind::Operator => "operator policy",
    };
    tracing::info!(
        by,
        "Successfully set {what} {} matching {} names in virtual host {} using pattern {}",
        quoted(set.name.as_bytes()),
        set.apply_to.name(),
        quoted(&set.vhost),
        quoted(set.pattern.as_bytes()),
    );
}

fn limits(what: &str, name: &Name, limits: &Limits, by: &str) {
    if limits.is_empty() {
        tracing::info!(by, "Cleared limits of {what} {}", quoted(name));
        return;
    }
    let all: Vec<String> = limits.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    tracing::info!(
        by,
        "Successfully set limits of {what} {} to {}",
        quoted(name),
        printable(&all.join(", "))
    );
}
