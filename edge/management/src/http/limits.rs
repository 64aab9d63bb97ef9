//! Limits of virtual hosts and users.

use broker::Refused;
use metadata::Limits;
use serde_json::{Value, json};

use super::auth::{Access, sees_vhost};
use super::call::Call;
use super::listing;
use super::problem::Problem;
use super::problem::durable;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use super::shapes::lossy;
use crate::resources::limits::{USER_LIMITS, VHOST_LIMITS, limits_of, shown};
use crate::resources::values;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/vhost-limits", Access::Management, "Limits of all virtual hosts.", of_vhosts),
    route(
        Method::Get,
        "/api/vhost-limits/{vhost}",
        Access::VhostSeen,
        "Limits of a virtual host.",
        of_vhosts,
    ),
    route(
        Method::Put,
        "/api/vhost-limits/{vhost}/{limit}",
        Access::Administrator,
        "Sets `max-connections` or `max-queues`: `{\"value\"}`.",
        set_of_vhost,
    ),
    route(
        Method::Delete,
        "/api/vhost-limits/{vhost}/{limit}",
        Access::Administrator,
        "Removes a limit of a virtual host.",
        clear_of_vhost,
    ),
    route(Method::Get, "/api/user-limits", Access::Administrator, "Limits of all users.", of_users),
    route(Method::Get, "/api/user-limits/{user}", Access::Management, "Limits of a user.", of_users),
    route(
        Method::Put,
        "/api/user-limits/{user}/{limit}",
        Access::Administrator,
        "Sets `max-connections` or `max-channels`: `{\"value\"}`.",
        set_of_user,
    ),
    route(
        Method::Delete,
        "/api/user-limits/{user}/{limit}",
        Access::Administrator,
        "Lifts a limit of a user.",
        clear_of_user,
    ),
];

fn of_vhosts(call: &Call) -> Answer {
    let vhost = call.part_if("vhost");
    let limited = call.broker().read_metadata(|state| {
        let asked = state.vhosts().filter(|it| {
            let name = lossy(it.name());
            !it.limits().is_empty()
                && vhost.is_none_or(|vhost| vhost == name)
                && sees_vhost(&call.user, &name)
        });
        asked.map(|it| json!({"vhost": values::text(it.name()), "value": shown(it.limits())})).collect()
    });
    listing::of_values(call, limited)
}

fn of_users(call: &Call) -> Answer {
    let user = call.part_if("user");
    user.map_or(Ok(()), |user| call.check_sees_user(user))?;
    let (there, limited) = call.broker().read_metadata(|state| {
        let asked = state.users().filter(|(name, it)| {
            let name = lossy(name);
            !it.limits.is_empty() && user.is_none_or(|user| user == name)
        });
        let limited = asked.map(|(name, it)| json!({"user": values::text(name), "value": shown(&it.limits)}));
        (user.is_none_or(|user| state.user(user.as_bytes()).is_some()), limited.collect())
    });
    if there { listing::of_values(call, limited) } else { Err(Problem::missing()) }
}

/// `{"value": N}` as limits with one entry.
fn given(call: &Call, known: &[&str], what: &str) -> Result<Limits, String> {
    let object = call.object().map_err(|problem| problem.reason.to_string())?;
    let mut definition = serde_json::Map::new();
    definition.insert(call.part("limit").to_owned(), object["value"].clone());
    limits_of(&Value::Object(definition), known, what)
}

fn set_of_vhost(call: &Call) -> Answer {
    call.object_with(&["value"])?;
    let vhost = call.vhost().map_err(|_| Problem::no_vhost())?;
    let given = given(call, &VHOST_LIMITS, "limits").map_err(|problem| Problem::validation(&problem))?;
    edit_of_vhost(call, vhost.name(), |limits| given.iter().for_each(|(name, value)| limits.set(name, value)))
}

fn clear_of_vhost(call: &Call) -> Answer {
    let vhost = call.vhost().map_err(|_| Problem::no_vhost())?;
    edit_of_vhost(call, vhost.name(), |limits| limits.clear(call.part("limit")))
}

fn edit_of_vhost(call: &Call, vhost: &str, edit: impl FnOnce(&mut Limits)) -> Answer {
    let known = call
        .broker()
        .read_metadata(|state| state.vhost(vhost.as_bytes()).map(|vhost| vhost.limits().clone()));
    let mut limits = known.ok_or_else(Problem::missing)?;
    edit(&mut limits);
    durable(call.broker().set_vhost_limits(vhost, limits))?;
    Ok(Reply::NoContent)
}

fn set_of_user(call: &Call) -> Answer {
    call.object_with(&["value"])?;
    let given = given(call, &USER_LIMITS, "user-limits").map_err(Problem::bad)?;
    let user = call.part("user");
    if call.broker().read_metadata(|state| state.user(user.as_bytes()).is_none()) {
        return Err(Problem::bad(json!(["no_such_user", user])));
    }
    edit_of_user(call, |limits| given.iter().for_each(|(name, value)| limits.set(name, value)))
}

fn clear_of_user(call: &Call) -> Answer {
    edit_of_user(call, |limits| limits.clear(call.part("limit")))
}

fn edit_of_user(call: &Call, edit: impl Fn(&mut Limits)) -> Answer {
    match call.broker().edit_user_limits(call.part("user"), edit) {
        Err(Refused::NoSuchUser(_)) => Err(Problem::missing()),
        other => Ok(other.map(|()| Reply::NoContent)?),
    }
}
