//! States of shovels; restarting and deleting them. Their parameters are set as all runtime parameters are.

use metadata::{ClearParameter, Command, Outcome};
use serde_json::{Value, json};
use shovel::Report;

use super::auth::{Access, enters_vhost};
use super::call::Call;
use super::listing;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::shovels::{SHOVEL, object, parameter};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/shovels", Access::Monitoring, "Shovels and how they are.", list),
    route(
        Method::Get,
        "/api/shovels/{vhost}",
        Access::Monitoring,
        "Shovels of a virtual host with their state.",
        list,
    ),
    route(Method::Get, "/api/shovels/{vhost}/{name}", Access::Monitoring, "One shovel and how it is.", show),
    route(
        Method::Get,
        "/api/shovels/vhost/{vhost}/{name}",
        Access::Monitoring,
        "The parameter of a shovel, without the credentials of its URIs.",
        show_parameter,
    ),
    route(
        Method::Delete,
        "/api/shovels/vhost/{vhost}/{name}",
        Access::Policymaker,
        "Deletes a shovel with its parameter.",
        delete,
    ),
    route(
        Method::Delete,
        "/api/shovels/vhost/{vhost}/{name}/restart",
        Access::Policymaker,
        "Stops a shovel in order and starts it again.",
        restart,
    ),
];

fn reports(call: &Call) -> Vec<Report> {
    let vhost = call.part_if("vhost");
    let mut all: Vec<Report> = call.node().shovels.iter().flat_map(shovel::Shovels::reports).collect();
    all.retain(|it| vhost.is_none_or(|vhost| vhost == it.vhost) && enters_vhost(&call.user, &it.vhost));
    all
}

fn list(call: &Call) -> Answer {
    if call.part_if("vhost").is_some() {
        call.vhost()?;
    }
    listing::of_values(call, reports(call).iter().map(object).collect())
}

fn show(call: &Call) -> Answer {
    let found = reports(call).into_iter().find(|it| it.name == call.part("name"));
    listing::one(call, object(&found.ok_or_else(Problem::missing)?))
}

fn show_parameter(call: &Call) -> Answer {
    let (vhost, name) = (call.part("vhost"), call.part("name"));
    let value: Option<Value> = call.broker().read_metadata(|state| {
        let vhost = state.vhost(vhost.as_bytes())?;
        let mut all = vhost.parameters();
        all.find(|((of, named), _)| &**of == SHOVEL && &**named == name).map(|(_, value)| parameter(value))
    });
    let value = value.ok_or_else(Problem::missing)?;
    listing::one(call, json!({"value": value, "vhost": vhost, "component": SHOVEL, "name": name}))
}

fn delete(call: &Call) -> Answer {
    let (vhost, name) = (call.part("vhost").as_bytes().into(), call.part("name").into());
    let clear = ClearParameter { vhost, component: SHOVEL.into(), name };
    match call.broker().apply_telling(Command::ClearParameter(clear)).and_then(broker::Call::wait)? {
        Outcome::Unchanged => Err(Problem::missing()),
        _ => Ok(Reply::NoContent),
    }
}

fn restart(call: &Call) -> Answer {
    let restarted = call.node().shovels.as_ref().map(|it| it.restart(call.part("vhost"), call.part("name")));
    match restarted {
        Some(Ok(())) => Ok(Reply::NoContent),
        _ => Err(Problem::missing()),
    }
}
