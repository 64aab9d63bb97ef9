//! Logins that were tried, protocol by protocol. Refuses to know who tried: addresses are not recorded.

use serde_json::json;

use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::table::{Method, Route, route};
use crate::node::NODE_NAME;
use crate::upkeep::login_attempts;

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/auth/attempts/{node}",
        Access::Monitoring,
        "Logins that were tried, by protocol.",
        list,
    ),
    route(
        Method::Delete,
        "/api/auth/attempts/{node}",
        Access::Monitoring,
        "Counts logins from 0 again.",
        set_back,
    ),
    route(
        Method::Get,
        "/api/auth/attempts/{node}/source",
        Access::Monitoring,
        "Logins by address; empty, as with RabbitMQ unless it is told to record them.",
        sources,
    ),
    route(
        Method::Delete,
        "/api/auth/attempts/{node}/source",
        Access::Monitoring,
        "Counts logins from 0 again.",
        set_back,
    ),
];

fn check_node(call: &Call) -> Result<(), Problem> {
    if call.part("node") == NODE_NAME { Ok(()) } else { Err(Problem::missing()) }
}

fn list(call: &Call) -> Answer {
    check_node(call)?;
    Ok(Reply::Json(login_attempts(call.broker()).into()))
}

fn sources(call: &Call) -> Answer {
    check_node(call)?;
    Ok(Reply::Json(json!([])))
}

fn set_back(call: &Call) -> Answer {
    check_node(call)?;
    call.broker().set_logins_back();
    Ok(Reply::NoContent)
}
