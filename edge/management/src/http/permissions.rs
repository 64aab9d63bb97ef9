//! Permissions and topic permissions: listed in all ways, granted, taken.

use broker::Broker;
use broker::policies::permission_pattern_problem;
use metadata::{
    ClearPermissions, ClearTopicPermissions, Command, SetPermissions, SetTopicPermissions, State,
};
use serde_json::{Value, json};

use super::auth::Access;
use super::call::{Call, text};
use super::listing;
use super::problem::Problem;
use super::problem::durable;
use super::reply::{Answer, Reply, put};
use super::route::{Method, Route, route};
use crate::resources::users::{Asked, PermissionRow, TopicPermissionRow};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/permissions", Access::Administrator, "All permissions.", list),
    route(
        Method::Get,
        "/api/vhosts/{vhost}/permissions",
        Access::Administrator,
        "Permissions on a virtual host.",
        list,
    ),
    route(
        Method::Get,
        "/api/users/{user}/permissions",
        Access::Administrator,
        "Permissions of a user.",
        list,
    ),
    route(
        Method::Get,
        "/api/permissions/{vhost}/{user}",
        Access::Administrator,
        "Permissions of a user in a virtual host.",
        show,
    ),
    route(
        Method::Put,
        "/api/permissions/{vhost}/{user}",
        Access::Administrator,
        "Grants: `{\"configure\", \"write\", \"read\"}`, three regular expressions.",
        grant,
    ),
    route(
        Method::Delete,
        "/api/permissions/{vhost}/{user}",
        Access::Administrator,
        "Removes all permissions of a user on a virtual host.",
        take,
    ),
    route(
        Method::Get,
        "/api/topic-permissions",
        Access::Administrator,
        "All topic permissions.",
        list_topics,
    ),
    route(
        Method::Get,
        "/api/vhosts/{vhost}/topic-permissions",
        Access::Administrator,
        "Topic permissions in a virtual host.",
        list_topics,
    ),
    route(
        Method::Get,
        "/api/users/{user}/topic-permissions",
        Access::Administrator,
        "Topic permissions of a user.",
        list_topics,
    ),
    route(
        Method::Get,
        "/api/topic-permissions/{vhost}/{user}",
        Access::Administrator,
        "Topic permissions of a user in a virtual host.",
        show_topics,
    ),
    route(
        Method::Put,
        "/api/topic-permissions/{vhost}/{user}",
        Access::Administrator,
        "Restricts: `{\"exchange\", \"write\", \"read\"}`.",
        restrict,
    ),
    route(
        Method::Delete,
        "/api/topic-permissions/{vhost}/{user}",
        Access::Administrator,
        "Removes all topic permissions of a user in a virtual host.",
        lift,
    ),
    route(
        Method::Get,
        "/api/topic-permissions/{vhost}/{user}/{exchange}",
        Access::Administrator,
        "Topic permissions of a user in a virtual host, on all exchanges.",
        show_topics,
    ),
    route(
        Method::Put,
        "/api/topic-permissions/{vhost}/{user}/{exchange}",
        Access::Administrator,
        "Restricts as the shorter path does: the exchange is that of the body.",
        restrict,
    ),
    route(
        Method::Delete,
        "/api/topic-permissions/{vhost}/{user}/{exchange}",
        Access::Administrator,
        "Removes the topic permissions of a user on an exchange.",
        lift,
    ),
];

/// Refuses a vhost or user in the path that does not exist.
fn check_there(call: &Call) -> Result<(), Problem> {
    let there = call.broker().read_metadata(|state| is_there(call, state));
    if there { Ok(()) } else { Err(Problem::missing()) }
}

fn is_there(call: &Call, state: &State) -> bool {
    call.part_if("vhost").is_none_or(|vhost| state.vhost(vhost.as_bytes()).is_some())
        && call.part_if("user").is_none_or(|user| state.user(user.as_bytes()).is_some())
}

/// The permissions that the path asks for.
fn asked(call: &Call) -> Vec<Value> {
    granted(call.broker(), in_path(call))
}

/// The user whose permissions the path asks for. An exchange in it names only the permission that a DELETE takes, as in RabbitMQ.
fn in_path(call: &Call) -> Asked<'_> {
    Asked { user: call.part_if("user"), vhost: call.part_if("vhost") }
}

pub(super) fn granted(broker: &Broker, asked: Asked<'_>) -> Vec<Value> {
    let object = |it: PermissionRow| {
        json!({
            "user": it.user,
            "vhost": it.vhost,
            "configure": it.configure,
            "write": it.write,
            "read": it.read,
        })
    };
    PermissionRow::all(broker, asked).into_iter().map(object).collect()
}

fn topics(call: &Call) -> Vec<Value> {
    let object = |it: TopicPermissionRow| {
        json!({
            "user": it.user,
            "vhost": it.vhost,
            "exchange": it.exchange,
            "write": it.write,
            "read": it.read,
        })
    };
    TopicPermissionRow::all(call.broker(), in_path(call)).into_iter().map(object).collect()
}

fn list(call: &Call) -> Answer {
    check_there(call)?;
    listing::of_values(call, asked(call))
}

fn list_topics(call: &Call) -> Answer {
    check_there(call)?;
    listing::of_values(call, topics(call))
}

fn show(call: &Call) -> Answer {
    let found = asked(call).pop().ok_or_else(Problem::missing)?;
    listing::one(call, found)
}

fn show_topics(call: &Call) -> Answer {
    let found = topics(call);
    if found.is_empty() { Err(Problem::missing()) } else { listing::of_values(call, found) }
}

/// Expressions that the broker could not use are refused here rather than granting nothing.
fn patterns<const N: usize>(call: &Call, keys: [&str; N]) -> Result<[Box<str>; N], Problem> {
    let object = call.object_with(&keys)?;
    let mut patterns = [const { String::new() }; N];
    for (key, pattern) in keys.iter().zip(&mut patterns) {
        *pattern = text(&object, key)?.unwrap_or_default().to_owned();
        if let Some(problem) = permission_pattern_problem(pattern) {
            return Err(Problem::bad(json!(["invalid_regexp", pattern.as_str(), problem.text])));
        }
    }
    Ok(patterns.map(String::into_boxed_str))
}

fn check_ends(call: &Call) -> Result<(), Problem> {
    check_there(call).map_err(|_| Problem::bad("vhost_or_user_not_found"))
}

fn grant(call: &Call) -> Answer {
    let [configure, write, read] = patterns(call, ["configure", "write", "read"])?;
    check_ends(call)?;
    let is_new = asked(call).is_empty();
    let (user, vhost) = (call.part("user").as_bytes().into(), call.part("vhost").as_bytes().into());
    let set = SetPermissions { user, vhost, configure, write, read };
    durable(call.broker().apply(Command::SetPermissions(set)))?;
    Ok(put(is_new))
}

fn take(call: &Call) -> Answer {
    if asked(call).is_empty() {
        return Err(Problem::missing());
    }
    let (user, vhost) = (call.part("user").as_bytes().into(), call.part("vhost").as_bytes().into());
    durable(call.broker().apply(Command::ClearPermissions(ClearPermissions { user, vhost })))?;
    Ok(Reply::NoContent)
}

fn restrict(call: &Call) -> Answer {
    let object = call.object_with(&["exchange", "write", "read"])?;
    let [write, read] = patterns(call, ["write", "read"])?;
    check_ends(call)?;
    let exchange = &object["exchange"];
    let no_exchange = || Problem::bad(json!(["no_such_exchange", exchange]));
    let exchange = exchange.as_str().ok_or_else(no_exchange)?;
    if call.vhost()?.exchange(exchange.as_bytes()).is_none() {
        return Err(no_exchange());
    }
    let is_new = topics(call).is_empty();
    let set = SetTopicPermissions {
        user: call.part("user").as_bytes().into(),
        vhost: call.part("vhost").as_bytes().into(),
        exchange: exchange.as_bytes().into(),
        write,
        read,
    };
    durable(call.broker().apply(Command::SetTopicPermissions(set)))?;
    Ok(put(is_new))
}

fn lift(call: &Call) -> Answer {
    if topics(call).is_empty() {
        return Err(Problem::missing());
    }
    let clear = ClearTopicPermissions {
        user: call.part("user").as_bytes().into(),
        vhost: call.part("vhost").as_bytes().into(),
        exchange: call.part_if("exchange").map(|exchange| exchange.as_bytes().into()),
    };
    durable(call.broker().apply(Command::ClearTopicPermissions(clear)))?;
    Ok(Reply::NoContent)
}
