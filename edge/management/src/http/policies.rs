//! Policies and operator policies: listed, shown, set, cleared. Refuses to know what they do.

use metadata::PolicyKind;
use serde_json::Value;

use super::auth::{Access, enters_vhost};
use super::call::Call;
use super::listing;
use super::problem::Problem;
use super::reply::{Answer, Reply, put};
use super::route::{Method, Route, route};
use crate::resources::policies::{
    NewPolicy, PolicyProblem, PolicyView, Put, delete_policy, policies, policy, put_policy,
};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/policies", Access::Management, "Policies of all virtual hosts.", list),
    route(Method::Get, "/api/policies/{vhost}", Access::Vhost, "Policies of a virtual host.", list),
    route(Method::Get, "/api/policies/{vhost}/{name}", Access::Policymaker, "One policy.", show),
    route(
        Method::Put,
        "/api/policies/{vhost}/{name}",
        Access::Policymaker,
        "Sets a policy: `{\"pattern\", \"definition\", \"priority\", \"apply-to\"}`.",
        set,
    ),
    route(Method::Delete, "/api/policies/{vhost}/{name}", Access::Policymaker, "Clears a policy.", clear),
    route(
        Method::Get,
        "/api/operator-policies",
        Access::Management,
        "Operator policies of all virtual hosts.",
        list_operator,
    ),
    route(
        Method::Get,
        "/api/operator-policies/{vhost}",
        Access::Vhost,
        "Operator policies of a virtual host.",
        list_operator,
    ),
    route(
        Method::Get,
        "/api/operator-policies/{vhost}/{name}",
        Access::Administrator,
        "One operator policy.",
        show_operator,
    ),
    route(
        Method::Put,
        "/api/operator-policies/{vhost}/{name}",
        Access::Administrator,
        "Sets an operator policy, as a policy.",
        set_operator,
    ),
    route(
        Method::Delete,
        "/api/operator-policies/{vhost}/{name}",
        Access::Administrator,
        "Clears an operator policy.",
        clear_operator,
    ),
];

/// Texts are RabbitMQ's.
impl From<PolicyProblem> for Problem {
    fn from(problem: PolicyProblem) -> Self {
        match problem {
            PolicyProblem::NoVhost(_) | PolicyProblem::NoPolicy => Self::missing(),
            PolicyProblem::KeyMissing(key) => Self::keys_missing(&[key]),
            PolicyProblem::Invalid(text) => Self::bad(text),
            PolicyProblem::Refused(refused) => refused.into(),
        }
    }
}

fn value(view: &PolicyView) -> Value {
    serde_json::to_value(view).expect("names and numbers are JSON")
}

fn listed(call: &Call, kind: PolicyKind) -> Answer {
    let mut all = policies(call.broker(), kind, call.part_if("vhost"))?;
    all.retain(|policy| enters_vhost(&call.user, &policy.vhost));
    listing::of_values(call, all.iter().map(value).collect())
}

fn shown(call: &Call, kind: PolicyKind) -> Answer {
    let found = policy(call.broker(), kind, call.part("vhost"), call.part("name"));
    listing::one(call, value(&found.ok_or_else(Problem::missing)?))
}

fn put_one(call: &Call, kind: PolicyKind) -> Answer {
    call.broker().vhost(call.part("vhost")).ok_or_else(Problem::no_vhost)?;
    let new = NewPolicy::from_json(&call.object_with(&["pattern", "definition"])?)?;
    let done = put_policy(call.broker(), kind, call.part("vhost"), call.part("name"), &new)?;
    Ok(put(done == Put::Created))
}

fn clear_one(call: &Call, kind: PolicyKind) -> Answer {
    delete_policy(call.broker(), kind, call.part("vhost"), call.part("name"))?;
    Ok(Reply::NoContent)
}

fn list(call: &Call) -> Answer {
    listed(call, PolicyKind::User)
}

fn show(call: &Call) -> Answer {
    shown(call, PolicyKind::User)
}

fn set(call: &Call) -> Answer {
    put_one(call, PolicyKind::User)
}

fn clear(call: &Call) -> Answer {
    clear_one(call, PolicyKind::User)
}

fn list_operator(call: &Call) -> Answer {
    listed(call, PolicyKind::Operator)
}

fn show_operator(call: &Call) -> Answer {
    shown(call, PolicyKind::Operator)
}

/// `management.restrictions.operator_policy_changes.disabled`. Unlike RabbitMQ's, ours can still be read then.
fn check_changes(call: &Call) -> Result<(), Problem> {
    call.app.options.operator_policies.check("editing of operator policies")
}

fn set_operator(call: &Call) -> Answer {
    check_changes(call)?;
    put_one(call, PolicyKind::Operator)
}

fn clear_operator(call: &Call) -> Answer {
    check_changes(call)?;
    clear_one(call, PolicyKind::Operator)
}
