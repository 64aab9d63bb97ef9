//! Answers requests of other nodes with what this node has: its connections and channels, and what it has counted.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::app::App;
use super::call::Call;
use super::elsewhere::{Asked, Said};
use super::reply::Reply;
use super::route::Method;
use super::table;

/// Paths of routes that nodes answer for each other.
const PATHS: [&str; 14] = [
    "/api/nodes",
    "/api/nodes/{node}",
    "/api/vhosts",
    "/api/vhosts/{vhost}",
    "/api/exchanges/{vhost}/{name}",
    "/api/overview",
    "/api/connections",
    "/api/vhosts/{vhost}/connections",
    "/api/connections/{name}",
    "/api/connections/username/{user}",
    "/api/connections/{name}/sessions",
    "/api/channels",
    "/api/vhosts/{vhost}/channels",
    "/api/channels/{name}",
];
const CHANNELS_OF_CONNECTION: &str = "/api/connections/{connection}/channels";

/// Answers a request of another node with what this node has.
pub(crate) fn answer(app: &App, asked: Asked) -> Value {
    json!(said(app, asked).unwrap_or(Said { status: 404, body: Value::Null }))
}

fn said(app: &App, asked: Asked) -> Option<Said> {
    let method = if asked.is_delete { Method::Delete } else { Method::Get };
    let is_answered = |path: &str| PATHS.contains(&path) || path == CHANNELS_OF_CONNECTION;
    let route = table::all()
        .find(|route| route.path == asked.route && route.method == method)
        .filter(|route| is_answered(route.path))?;
    let call = Call {
        app: app.0.clone(),
        route: route.path,
        user: app.0.broker.authenticate_proved(&asked.user, true)?,
        path: asked.path,
        query: asked.query,
        body: Vec::new(),
        reason: asked.reason,
        known: None,
        content_type: None,
        room: RefCell::default(),
        is_from_node: true,
    };
    Some(match (route.handler)(&call) {
        Ok(Reply::Json(body)) => Said { status: 200, body },
        Ok(Reply::Stream(write, _)) => {
            let mut bytes = Vec::new();
            write(&mut bytes).ok()?;
            Said { status: 200, body: serde_json::from_slice(&bytes).ok()? }
        }
        Ok(_) => Said { status: 204, body: Value::Null },
        Err(problem) => Said { status: problem.status, body: problem.reason },
    })
}
