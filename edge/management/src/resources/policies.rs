//! Policies and operator policies: checked in RabbitMQ's words, set, cleared, listed. Refuses to know what they do to queues.
//!
//! The HTTP API calls [`NewPolicy::from_json`] and [`put_policy`] (PUT), [`delete_policy`] (DELETE), [`policies`] and [`policy`]
//! (GET), each with [`PolicyKind`] for `/policies` or `/operator-policies`. [`PolicyView`] serialises as RabbitMQ shows a policy. They
//! block until a change is durable; never call them on a thread that runs connections.

mod check;
mod parameters;

use broker::policies::keys::WITHOUT_EFFECT;
use broker::{Broker, Refused};
use metadata::{
    ClearPolicy, Command, Outcome as Applied, PolicyDefinition, PolicyKind, PolicyValue, SetPolicy,
};
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use check::{checked, terms, unknown_settings, validation_failed};
pub(crate) use parameters::{OPERATOR_POLICY, POLICY, policy_parameters};

/// The reason why a policy is refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PolicyProblem {
    /// There is no such vhost.
    NoVhost(String),
    /// There is no policy of that name.
    NoPolicy,
    /// A key is missing: HTTP 400 with the reason `[{key_missing,NAME}]`.
    KeyMissing(&'static str),
    /// Something in it is wrong, in RabbitMQ's words, which begin with `Validation failed` and end with a line end.
    Invalid(String),
    /// The broker refuses: its log has failed, it stops.
    Refused(Refused),
}

/// A policy as somebody wants it, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewPolicy {
    /// A regular expression over names.
    pub pattern: Value,
    /// An object: settings by name.
    pub definition: Value,
    /// A whole number; 0 by default.
    pub priority: Value,
    /// `all` by default.
    pub apply_to: Value,
}

impl NewPolicy {
    /// Reads the body of a PUT; other keys are passed over, as RabbitMQ does.
    ///
    /// # Errors
    /// [`PolicyProblem::KeyMissing`].
    pub(crate) fn from_json(object: &Map<String, Value>) -> Result<Self, PolicyProblem> {
        let needed = |key: &'static str| object.get(key).cloned().ok_or(PolicyProblem::KeyMissing(key));
        Ok(Self {
            pattern: needed("pattern")?,
            definition: needed("definition")?,
            priority: object.get("priority").cloned().unwrap_or_else(|| 0.into()),
            apply_to: object.get("apply-to").cloned().unwrap_or_else(|| "all".into()),
        })
    }
}

/// Whether a policy of that name was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is new.
    Created,
    /// It was there, and is now as asked.
    Updated,
}

/// A policy as RabbitMQ shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PolicyView {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// Over names.
    pub pattern: String,
    /// RabbitMQ's word.
    pub apply_to: &'static str,
    /// Settings by name.
    pub definition: Value,
    /// The highest wins.
    pub priority: i64,
}

/// Sets a policy, in place of the one of that name.
///
/// # Errors
/// [`PolicyProblem`]; nothing has changed then.
pub(crate) fn put_policy(
    broker: &Broker,
    kind: PolicyKind,
    vhost: &str,
    name: &str,
    new: &NewPolicy,
) -> Result<Put, PolicyProblem> {
    let there = broker
        .read_metadata(|state| state.vhost(vhost.as_bytes()).map(|vhost| vhost.policy(kind, name).is_some()));
    let there = there.ok_or_else(|| PolicyProblem::NoVhost(vhost.into()))?;
    let set = checked(kind, vhost, name, new)
        .map_err(|problems| PolicyProblem::Invalid(validation_failed(&problems)))?;
    if broker.vhost(vhost).is_some_and(|vhost| vhost.is_too_slow(&set.pattern)) {
        let problem =
            "pattern takes too long to be matched with the names in this vhost, a simpler one may not";
        return Err(PolicyProblem::Invalid(validation_failed(&[problem.to_owned()])));
    }
    let idle = without_effect(|key| set.definition.get(key).is_some());
    apply(broker, set_command(kind, set))?;
    if let Some(idle) = idle {
        tracing::warn!("policy '{name}' in virtual host '{vhost}': {idle}");
    }
    Ok(if there { Put::Updated } else { Put::Created })
}

/// Which settings of a policy change nothing here, in words; `None` if all do something.
pub(crate) fn without_effect(is_set: impl Fn(&str) -> bool) -> Option<String> {
    let keys: Vec<&str> = WITHOUT_EFFECT.iter().copied().filter(|key| is_set(key)).collect();
    match keys.as_slice() {
        [] => None,
        [key] => Some(format!("{key} has no effect")),
        _ => Some(format!("{} have no effect", keys.join(", "))),
    }
}

/// Removes a policy.
///
/// # Errors
/// [`PolicyProblem::NoPolicy`] also where there is no such vhost.
pub(crate) fn delete_policy(
    broker: &Broker,
    kind: PolicyKind,
    vhost: &str,
    name: &str,
) -> Result<(), PolicyProblem> {
    let clear = ClearPolicy { vhost: vhost.as_bytes().into(), name: name.into() };
    let clear = match kind {
        PolicyKind::User => Command::ClearPolicy(clear),
        PolicyKind::Operator => Command::ClearOperatorPolicy(clear),
    };
    match apply(broker, clear) {
        Ok(Applied::Unchanged) | Err(PolicyProblem::NoVhost(_)) => Err(PolicyProblem::NoPolicy),
        other => other.map(|_| ()),
    }
}

/// The policies of a vhost, or of all, by vhost, priority and name.
///
/// # Errors
/// [`PolicyProblem::NoVhost`].
pub(crate) fn policies(
    broker: &Broker,
    kind: PolicyKind,
    vhost: Option<&str>,
) -> Result<Vec<PolicyView>, PolicyProblem> {
    broker.read_metadata(|state| match vhost {
        None => Ok(state.vhosts().flat_map(|vhost| views(vhost, kind)).collect()),
        Some(name) => match state.vhost(name.as_bytes()) {
            Some(vhost) => Ok(views(vhost, kind)),
            None => Err(PolicyProblem::NoVhost(name.into())),
        },
    })
}

/// One policy; `None` when there is no such policy or vhost.
#[must_use]
pub(crate) fn policy(broker: &Broker, kind: PolicyKind, vhost: &str, name: &str) -> Option<PolicyView> {
    broker.read_metadata(|state| {
        let vhost = state.vhost(vhost.as_bytes())?;
        vhost.policy(kind, name).map(|policy| view(vhost.name(), name, policy))
    })
}

/// Settings as an object.
#[must_use]
pub(crate) fn definition_object(definition: &PolicyDefinition) -> Value {
    let value = |value: &PolicyValue| match value {
        PolicyValue::Integer(number) => Value::from(*number),
        PolicyValue::Text(text) => Value::from(&**text),
    };
    Value::Object(definition.iter().map(|(name, of)| (name.to_owned(), value(of))).collect())
}

fn set_command(kind: PolicyKind, set: SetPolicy) -> Command {
    match kind {
        PolicyKind::User => Command::SetPolicy(set),
        PolicyKind::Operator => Command::SetOperatorPolicy(set),
    }
}

fn apply(broker: &Broker, command: Command) -> Result<Applied, PolicyProblem> {
    let problem = |refused| match refused {
        Refused::NoSuchVhost(name) => PolicyProblem::NoVhost(name.into()),
        other => PolicyProblem::Refused(other),
    };
    broker.apply_telling(command).and_then(broker::Call::wait).map_err(problem)
}

fn views(vhost: &metadata::Vhost, kind: PolicyKind) -> Vec<PolicyView> {
    let mut views: Vec<_> =
        vhost.policies(kind).map(|(name, policy)| view(vhost.name(), name, policy)).collect();
    views.sort_by_key(|view| view.priority);
    views
}

fn view(vhost: &[u8], name: &str, policy: &metadata::Policy) -> PolicyView {
    PolicyView {
        vhost: String::from_utf8_lossy(vhost).into_owned(),
        name: name.into(),
        pattern: (*policy.pattern).into(),
        apply_to: policy.apply_to.name(),
        definition: definition_object(&policy.definition),
        priority: policy.priority,
    }
}
