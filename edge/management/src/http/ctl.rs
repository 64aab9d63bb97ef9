//! Warren's own: commands of `warren ctl` over HTTP, with the request and the answer of the control socket. Administrators
//! only. Refuses to know what a command does.

use std::io::Write;
use std::time::Duration;

use tokio::runtime::Handle;

use super::app::Change;
use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{About, Answer, Reply};
use super::route::{BodySize, Lane, Method, Route, route};
use crate::ctl::protocol::{Answer as Outcome, Exit, Failure, Request};
use crate::ctl::table;
use crate::resources::policies::OPERATOR_POLICY;

/// How long the answer to `stop` may take on its way before the server stops.
const STOP_PAUSE: Duration = Duration::from_millis(200);

pub(crate) const ROUTES: &[Route] = &[route(
    Method::Post,
    "/api/ctl",
    Access::Administrator,
    "Runs a command of `warren ctl`: `{\"command\": \"list_queues\", \"args\": [\"name\"], \"options\": {\"vhost\": \"/\"}}`, sent \
     as `application/json`. Answers `{columns, rows}`, `{text, json}` or `{ok}`; 400 with `{error, exit}` when the command fails, and `json` where there is more for programs.",
    run,
)
.in_lane(Lane::Watches)
.with_body(BodySize::Definitions)];

/// A page of another site can make a browser send a form with its user's login, but not JSON.
fn check_type(call: &Call) -> Result<(), Problem> {
    let named = call.content_type.as_deref().unwrap_or_default();
    let media = named.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new(415, "unsupported_media_type", "send the command with Content-Type: application/json"))
}

/// Whether it would do what `management.restrictions.operator_policy_changes.disabled` forbids over HTTP.
fn changes_operator_policies(request: &Request) -> bool {
    match request.command.as_str() {
        "set_operator_policy" | "clear_operator_policy" => true,
        "set_parameter" | "clear_parameter" => {
            request.args.first().is_some_and(|component| component == OPERATOR_POLICY)
        }
        _ => false,
    }
}

fn run(call: &Call) -> Answer {
    check_type(call)?;
    let request: Request = serde_json::from_slice(&call.body)
        .map_err(|error| Problem::bad(format!("not a command of warren ctl: {error}")))?;
    tracing::debug!(user = %call.user.name, command = request.command, "a command over HTTP");
    let forbidden = call.app.options.operator_policies == Change::Disabled;
    let outcome = if forbidden && changes_operator_policies(&request) {
        let text = "Error:\nOperator policies cannot be changed over HTTP (management.restrictions.operator_policy_changes.disabled): \
                    run this on the server's machine";
        Outcome::Failed(Failure::new(Exit::UNAVAILABLE, text))
    } else {
        table::run(call.broker(), call.node(), &request)
    };
    if let Outcome::Failed(failure) = &outcome {
        return Ok(Reply::Status(400, serde_json::json!(failure)));
    }
    if table::ends_the_server(&request) {
        stop_soon(call);
    }
    let write =
        move |out: &mut dyn Write| serde_json::to_writer(out, &outcome).map_err(std::io::Error::other);
    Ok(Reply::Stream(Box::new(write), About::default()))
}

fn stop_soon(call: &Call) {
    tracing::info!(user = %call.user.name, "stopping: asked over HTTP");
    let stop = call.node().stop.clone();
    Handle::current().spawn(async move {
        tokio::time::sleep(STOP_PAUSE).await;
        stop.notify_one();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(command: &str, first: &str) -> Request {
        Request { command: command.into(), args: vec![first.into()], ..Request::default() }
    }

    #[test]
    fn operator_policies_are_known_under_all_their_names() {
        assert!(changes_operator_policies(&request("set_operator_policy", "p")));
        assert!(changes_operator_policies(&request("clear_parameter", OPERATOR_POLICY)));
        assert!(!changes_operator_policies(&request("set_parameter", "shovel")));
        assert!(!changes_operator_policies(&request("set_policy", "p")));
    }
}
