//! An answer as text, by format. Refuses to know where the text goes.

use management::{Answer, Failure, Format, NODE_NAME, Request, render};
use serde_json::json;

use super::arguments::{Arguments, Banner};

/// What goes to standard output.
///
/// # Errors
/// The server refused.
pub(super) fn text(answer: Answer, arguments: &Arguments) -> Result<String, Failure> {
    let json = arguments.format == Format::Json;
    match answer {
        Answer::Failed(failure) => Err(failure),
        Answer::Rows(rows) => Ok(render(&rows, arguments.format, arguments.headers)),
        Answer::Facts { json: facts, .. } if json => Ok(format!("{facts}\n")),
        Answer::Facts { text, .. } => Ok(line(text)),
        Answer::Done { ok } if json => Ok(format!("{}\n", done(&arguments.request, &ok))),
        Answer::Done { .. } if arguments.banner == Banner::Hidden && is_advice(&arguments.request) => {
            Ok(String::new())
        }
        Answer::Done { ok } => Ok(line(ok)),
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
