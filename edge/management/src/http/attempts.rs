//! Logins that were tried, by protocol, and by address and user while that is recorded.

use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::ctl::upkeep::{login_attempts, login_sources};

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/auth/attempts/{node}",
        Access::Monitoring,
        "Attempts to log in, by protocol.",
        list,
    ),
    route(
        Method::Delete,
        "/api/auth/attempts/{node}",
        Access::Administrator,
        "Counts logins from 0 again.",
        set_back,
    ),
    route(
        Method::Get,
        "/api/auth/attempts/{node}/source",
        Access::Monitoring,
        "Logins by address and user, recorded after `rabbitmq-diagnostics enable_auth_attempt_source_tracking`.",
        sources,
    ),
    route(
        Method::Delete,
        "/api/auth/attempts/{node}/source",
        Access::Administrator,
        "Counts logins from 0 again.",
        set_back,
    ),
];

fn check_node(call: &Call) -> Result<(), Problem> {
    call.check_node(call.part("node"))
}

fn list(call: &Call) -> Answer {
    check_node(call)?;
    Ok(Reply::Json(login_attempts(call.broker()).into()))
}

fn sources(call: &Call) -> Answer {
    check_node(call)?;
    Ok(Reply::Json(login_sources(call.broker()).into()))
}

fn set_back(call: &Call) -> Answer {
    check_node(call)?;
    call.broker().set_logins_back();
    Ok(Reply::NoContent)
}
