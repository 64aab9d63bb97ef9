//! An answer as text, by format. Refuses to know where the text goes.

use management::{Answer, Failure, Format, NODE_NAME, Request, Rows, render};
use serde_json::json;

use super::arguments::{Arguments, Banner};

/// The text for standard output.
///
/// # Errors
/// The server refused.
pub(super) fn text(answer: Answer, arguments: &Arguments) -> Result<String, Failure> {
    let json = arguments.format == Format::Json;
    match answer {
        Answer::Failed(failure) => Err(worded(failure, arguments)),
        _ if is_silent_check(&arguments.request) => Ok(String::new()),
        Answer::Rows(rows) if rows.rows.is_empty() && comes_whole(&arguments.request) => {
            Ok(none(&rows, arguments))
        }
        Answer::Rows(rows) => Ok(render(&rows, arguments.format, arguments.headers)),
        Answer::Facts { json: facts, .. } if json => Ok(format!("{facts}\n")),
        Answer::Facts { json: facts, .. } if is_table_of_logins(&facts, arguments) => {
            Ok(render(&logins(&facts), arguments.format, arguments.headers))
        }
        Answer::Facts { text, .. } => Ok(line(text)),
        Answer::Done { ok } if json => Ok(format!("{}\n", done(&arguments.request, &ok))),
        Answer::Done { .. } if arguments.banner == Banner::Hidden && is_advice(&arguments.request) => {
            Ok(String::new())
        }
        Answer::Done { ok } => Ok(line(ok)),
    }
}

/// A refusal as it is asked for: some have words for programs, and some checks say by their exit code alone how it is.
fn worded(mut failure: Failure, arguments: &Arguments) -> Failure {
    let for_programs = failure.json.as_ref().filter(|_| arguments.format == Format::Json);
    match for_programs {
        Some(json) => failure.error = json.to_string(),
        None if failure.json.is_some() && is_silent_check(&arguments.request) => failure.error.clear(),
        None => {}
    }
    failure
}

/// The command whose facts are a table unless they are for programs.
const LOGINS: &str = "list_node_auth_attempt_stats";

/// Whether there are some; else there is a line that says so.
fn is_table_of_logins(facts: &serde_json::Value, arguments: &Arguments) -> bool {
    let is_empty = facts["attempts"].as_array().is_none_or(Vec::is_empty);
    arguments.request.command == LOGINS && !(is_empty && arguments.format == Format::Table)
}

/// Its cells are texts, as in RabbitMQ.
fn logins(facts: &serde_json::Value) -> Rows {
    let columns = ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"];
    let word = |cell: &serde_json::Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    let row = |one: &serde_json::Value| columns.iter().map(|column| word(&one[*column]).into()).collect();
    let rows = facts["attempts"].as_array().into_iter().flatten().map(row).collect();
    Rows { columns: columns.map(String::from).into(), rows }
}

/// Of a check that says by its exit code alone how it is, when nothing else is asked for.
fn is_silent_check(request: &Request) -> bool {
    request.command == "check_alarms" && request.has("silent")
}

/// Whether RabbitMQ shows a list when it has all of it, rather than row by row: that it is empty is a line then.
fn comes_whole(request: &Request) -> bool {
    const LISTS: [&str; 10] = [
        "list_permissions",
        "list_user_permissions",
        "list_topic_permissions",
        "list_user_topic_permissions",
        "list_policies",
        "list_operator_policies",
        "list_parameters",
        "list_vhost_limits",
        "list_user_limits",
        "list_deprecated_features",
    ];
    LISTS.contains(&request.command.as_str())
}

/// Such a list without rows.
fn none(rows: &Rows, arguments: &Arguments) -> String {
    match arguments.format {
        Format::Json => "[]\n".into(),
        Format::Table => "\n".into(),
        format => render(rows, format, arguments.headers),
    }
}

/// Whether the answer only says what to do next, which a quiet command leaves out.
fn is_advice(request: &Request) -> bool {
    request.command == "add_user"
}

fn line(mut text: String) -> String {
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// A result without columns as a JSON object.
fn done(request: &Request, ok: &str) -> serde_json::Value {
    match (request.command.as_str(), ok) {
        (_, "") => json!({"node": NODE_NAME, "result": "ok"}),
        ("add_user", _) => json!({"message": ok, "node": NODE_NAME, "status": "ok"}),
        _ => json!({"message": ok}),
    }
}
