//! Runtime parameters of virtual hosts, and global ones.

use metadata::{ClearGlobalParameter, ClearParameter, Command, Limits, PolicyKind, SetGlobalParameter};
use serde_json::{Value, json};

use super::auth::{Access, enters_vhost, is_policymaker};
use super::call::Call;
use super::listing;
use super::problem::Problem;
use super::problem::durable;
use super::reply::{Answer, Reply, put};
use super::route::{Method, Route, route};
use super::shapes::lossy;
use crate::resources::json::{TOO_DEEP, is_too_deep};
use crate::resources::limits::{limits_of, shown};
use crate::resources::parameters::{CLUSTER_NAME, IMPORTED, LIMITS, VHOST_LIMITS};
use crate::resources::policies::{OPERATOR_POLICY, POLICY, policy_parameters};
use crate::resources::shovels::{self, Author, SHOVEL};
use crate::resources::values;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/parameters", Access::Policymaker, "Runtime parameters.", list),
    route(
        Method::Get,
        "/api/parameters/{component}",
        Access::Policymaker,
        "Runtime parameters of a component.",
        list,
    ),
    route(
        Method::Get,
        "/api/parameters/{component}/{vhost}",
        Access::Policymaker,
        "Runtime parameters of a component in a virtual host.",
        list,
    ),
    route(
        Method::Get,
        "/api/parameters/{component}/{vhost}/{name}",
        Access::Policymaker,
        "One runtime parameter.",
        show,
    ),
    route(
        Method::Put,
        "/api/parameters/{component}/{vhost}/{name}",
        Access::Policymaker,
        "Sets a runtime parameter: `{\"value\"}`.",
        set,
    ),
    route(
        Method::Delete,
        "/api/parameters/{component}/{vhost}/{name}",
        Access::Policymaker,
        "Clears a runtime parameter.",
        clear,
    ),
    route(Method::Get, "/api/global-parameters", Access::Policymaker, "Global parameters.", list_globals),
    route(
        Method::Get,
        "/api/global-parameters/{name}",
        Access::Policymaker,
        "One global parameter.",
        show_global,
    ),
    route(
        Method::Put,
        "/api/global-parameters/{name}",
        Access::Policymaker,
        "Sets a global parameter: `{\"value\"}`, any JSON.",
        set_global,
    ),
    route(
        Method::Delete,
        "/api/global-parameters/{name}",
        Access::Policymaker,
        "Clears a global parameter.",
        clear_global,
    ),
];

/// Kept as text.
fn embedded(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// The parameters that the path asks for. Limits of vhosts and operator policies are parameters, too, as with RabbitMQ; so are policies for
/// callers that ask for them by their component.
fn found(call: &Call) -> Vec<Value> {
    let (component, vhost) = (call.part_if("component"), call.part_if("vhost"));
    let name = call.part_if("name");
    let mut found = Vec::new();
    call.broker().read_metadata(|state| {
        let asked = state.vhosts().filter(|it| {
            let name = lossy(it.name());
            vhost.is_none_or(|vhost| vhost == name) && enters_vhost(&call.user, &name)
        });
        for it in asked {
            let mut add = |of: &str, named: &str, value: Value| {
                let kept = component.is_none_or(|component| component == of)
                    && name.is_none_or(|name| name == named);
                if kept {
                    let vhost = values::text(it.name());
                    found.push(json!({"component": of, "name": named, "value": value, "vhost": vhost}));
                }
            };
            it.parameters().for_each(|((of, named), value)| add(of, named, embedded(value)));
            let mut add_policies = |of: &str, kind| {
                policy_parameters(it, kind).for_each(|(named, value)| add(of, &named, embedded(&value)));
            };
            add_policies(OPERATOR_POLICY, PolicyKind::Operator);
            if component == Some(POLICY) {
                add_policies(POLICY, PolicyKind::User);
            }
            if !it.limits().is_empty() {
                add(VHOST_LIMITS, LIMITS, shown(it.limits()));
            }
        }
    });
    found
}

fn list(call: &Call) -> Answer {
    listing::of_values(call, found(call))
}

fn show(call: &Call) -> Answer {
    listing::one(call, found(call).pop().ok_or_else(Problem::missing)?)
}

/// Only components that do something are taken.
fn set(call: &Call) -> Answer {
    let object = call.object_with(&["value"])?;
    match (call.part("component"), call.part("name")) {
        (VHOST_LIMITS, LIMITS) => {
            let known = ["max-connections", "max-queues"];
            let limits = limits_of(&object["value"], &known, "limits");
            let limits = limits.map_err(|problem| Problem::validation(&problem))?;
            let is_new = found(call).is_empty();
            durable(call.broker().set_vhost_limits(call.part("vhost"), limits))?;
            Ok(put(is_new))
        }
        (SHOVEL, name) => {
            let (vhost, value) = (call.part("vhost"), &object["value"]);
            let may_open = |vhost: &str| call.broker().vhost(vhost).is_some() && call.user.may_open(vhost);
            let author = Author { name: &call.user.name, may_open: &may_open };
            shovels::check(vhost, name, value, Some(&author)).map_err(|text| Problem::validation(&text))?;
            let is_new = found(call).is_empty();
            durable(shovels::set(call.broker(), vhost, name, value))?;
            Ok(put(is_new))
        }
        (POLICY | OPERATOR_POLICY, _) => Err(Problem::bad("policies may not be set using this method")),
        (component, _) => Err(Problem::validation(&format!("component {component} not found"))),
    }
}

fn clear(call: &Call) -> Answer {
    if found(call).is_empty() {
        return Err(Problem::missing());
    }
    let (component, name) = (call.part("component"), call.part("name"));
    if matches!(component, POLICY | OPERATOR_POLICY) {
        return Err(Problem::bad("policies may not be cleared using this method"));
    }
    if (component, name) == (VHOST_LIMITS, LIMITS) {
        let cleared = call.broker().set_vhost_limits(call.part("vhost"), Limits::default());
        durable(cleared)?;
        return Ok(Reply::NoContent);
    }
    let vhost = call.part("vhost").as_bytes().into();
    let clear = ClearParameter { vhost, component: component.into(), name: name.into() };
    durable(call.broker().apply(Command::ClearParameter(clear)))?;
    Ok(Reply::NoContent)
}

/// Global parameters belong to no vhost.
fn globals(call: &Call) -> Result<Vec<Value>, Problem> {
    if !is_policymaker(&call.user) {
        return Err(Problem::forbidden("User not authorised to access object"));
    }
    let name = call.part_if("name");
    Ok(call.broker().read_metadata(|state| {
        let kept = state
            .global_parameters()
            .filter(|(known, _)| name.is_none_or(|name| name == *known) && *known != IMPORTED);
        kept.map(|(name, value)| json!({"name": name, "value": embedded(value)})).collect()
    }))
}

fn list_globals(call: &Call) -> Answer {
    listing::of_values(call, globals(call)?)
}

fn show_global(call: &Call) -> Answer {
    listing::one(call, globals(call)?.pop().ok_or_else(Problem::missing)?)
}

fn set_global(call: &Call) -> Answer {
    let object = call.object_with(&["value"])?;
    let (name, value) = (call.part("name"), &object["value"]);
    if name == CLUSTER_NAME && !value.is_string() {
        return Err(Problem::bad("the cluster's name is a text"));
    }
    if is_too_deep(value) {
        return Err(Problem::bad(TOO_DEEP));
    }
    let is_new = globals(call)?.is_empty();
    let set = SetGlobalParameter { name: name.into(), value: value.to_string().into() };
    durable(call.broker().apply(Command::SetGlobalParameter(set)))?;
    Ok(put(is_new))
}

fn clear_global(call: &Call) -> Answer {
    if globals(call)?.is_empty() {
        return Err(Problem::missing());
    }
    let clear = ClearGlobalParameter { name: call.part("name").into() };
    durable(call.broker().apply(Command::ClearGlobalParameter(clear)))?;
    Ok(Reply::NoContent)
}
