//! Warren's own: the last log lines, and how long the stages of a message's way take. Refuses to measure and to log.

use serde_json::json;

use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::stages;

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/logs",
        Access::Monitoring,
        "The newest log lines behind number `after`, oldest first, at most `limit` (200).",
        logs,
    ),
    route(
        Method::Get,
        "/api/stages",
        Access::Monitoring,
        "How long the stages of a message's way take, for each kind of queue: microseconds a batch.",
        stage_times,
    ),
];

/// Log lines in an answer when the query does not say.
const LINES_DEFAULT: u64 = 200;

fn number(call: &Call, name: &str, default: u64) -> Result<u64, Problem> {
    let wrong = |_| Problem::bad(format!("{name} is no number"));
    call.query(name).map_or(Ok(default), |text| text.parse().map_err(wrong))
}

fn logs(call: &Call) -> Answer {
    let limit = usize::try_from(number(call, "limit", LINES_DEFAULT)?).unwrap_or(usize::MAX);
    let lines = call.node().journal.after(number(call, "after", 0)?, limit);
    Ok(Reply::Json(json!({ "lines": lines })))
}

fn stage_times(call: &Call) -> Answer {
    Ok(Reply::Json(stages::status_entry(call.broker())))
}
