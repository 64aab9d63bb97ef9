//! Following the server's log or its events: asks again and again for the lines behind those that were shown. Refuses to know where they come
//! from.

use std::time::{Duration, Instant};

use management::{Answer, CallError, Exit, Failure, Request};

use super::server::Server;

/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(250);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Why following ended early.
pub(super) enum Ended {
    /// The server did not answer.
    Unanswered(CallError, Duration),
    /// It answered, with a refusal.
    Refused(Failure),
    /// Nobody reads what is shown.
    Unread(anyhow::Error),
}

/// Whether this command goes on until somebody ends it.
pub(super) fn follows(command: &str) -> bool {
    matches!(command, "log_tail_stream" | "consume_event_stream")
}

/// Until when to follow; `None` is for ever.
///
/// # Errors
/// A duration that is no number of seconds.
pub(super) fn end(request: &Request) -> Result<Option<Instant>, Failure> {
    match request.options.get("duration").map(String::as_str) {
        None | Some("infinity") => Ok(None),
        Some(text) => match text.parse::<u32>() {
            Ok(seconds) => Ok(Some(Instant::now() + Duration::from_secs(seconds.into()))),
            Err(_) => {
                let text = format!(
                    "Error (argument validation): Invalid options for this command:\n--duration : {text}"
                );
                Err(Failure::new(Exit::USAGE, text))
            }
        },
    }
}

/// Shows lines as they come, from now on.
pub(super) fn follow(
    server: &Server,
    request: &Request,
    end: Option<Instant>,
    mut show: impl FnMut(&str) -> anyhow::Result<()>,
) -> Result<(), Ended> {
    let mut asked = Request { args: Vec::new(), ..request.clone() };
    loop {
        let answer = server.call(&asked, ANSWER).map_err(|error| Ended::Unanswered(error, ANSWER))?;
        let (text, json) = match answer {
            Answer::Facts { text, json } => (text, json),
            Answer::Failed(failure) => return Err(Ended::Refused(failure)),
            _ => return Ok(()),
        };
        if !text.is_empty() {
            show(&format!("{text}\n")).map_err(Ended::Unread)?;
        }
        asked.args = vec![json["newest"].to_string()];
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}
