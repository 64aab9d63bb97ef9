//! Refusals of the HTTP API: a status and RabbitMQ's `{"error", "reason"}`. The one translation from refusals of the broker.

use std::borrow::Cow;

use broker::Refused;
use protocols::reply_of;
use serde_json::{Value, json};

/// A request that is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) error: &'static str,
    pub(crate) reason: Value,
}

impl Problem {
    pub(crate) fn new(status: u16, error: &'static str, reason: impl Into<Value>) -> Self {
        Self { status, error, reason: reason.into() }
    }

    /// There is no such thing.
    pub(crate) fn missing() -> Self {
        Self::new(404, "Object Not Found", "Not Found")
    }

    /// Something is to be made or done in a vhost that does not exist.
    pub(crate) fn no_vhost() -> Self {
        Self::new(404, "not_found", "vhost_not_found")
    }

    /// There may be such a thing, but not for this user.
    pub(crate) fn hidden() -> Self {
        Self::new(404, "not_found", "Not Found")
    }

    /// The request makes no sense.
    pub(crate) fn bad(reason: impl Into<Value>) -> Self {
        Self::new(400, "bad_request", reason)
    }

    /// The user may not do that. RabbitMQ spells it so, and answers 401.
    pub(crate) fn forbidden(reason: &str) -> Self {
        Self::new(401, "not_authorised", reason)
    }

    /// The node cannot do that now.
    pub(crate) fn unavailable(reason: impl Into<Value>) -> Self {
        Self::new(503, "unavailable", reason)
    }

    /// Keys that a body lacks, in RabbitMQ's words.
    pub(crate) fn keys_missing(keys: &[&str]) -> Self {
        let terms: Vec<String> = keys.iter().map(|key| format!("{{key_missing,{key}}}")).collect();
        Self::bad(format!("[{}]", terms.join(",")))
    }

    /// A setting that a component refuses.
    pub(crate) fn validation(problem: &str) -> Self {
        Self::bad(format!("Validation failed\n\n{problem}\n"))
    }

    /// A publish that is refused: RabbitMQ makes it over a channel, and shows how that was closed.
    pub(crate) fn of_publish(refused: Refused) -> Self {
        match Self::from(refused.clone()) {
            unavailable @ Self { status: 503, .. } => unavailable,
            _ => {
                let reply = reply_of(refused);
                Self::bad(format!("{} {} - {}", reply.code, reply.name, reply.text))
            }
        }
    }

    /// A basic.get that is refused: as a publish, but for permissions.
    pub(crate) fn of_get(refused: Refused) -> Self {
        match Self::from(refused.clone()) {
            Self { status: 401, .. } => {
                let reply = reply_of(refused);
                Self::forbidden(&format!("{} - {}", reply.name, reply.text))
            }
            _ => Self::of_publish(refused),
        }
    }

    /// The body that the client reads. A reason repeats the client's text, as in RabbitMQ, but not all of something long.
    pub(crate) fn body(&self) -> Value {
        json!({"error": self.error, "reason": within_bounds(&self.reason)})
    }
}

/// Longest text in a reason, bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Most elements of a list in a reason.
const ELEMENTS_MAX: usize = 16;

/// A longer text ends with three dots; a list or an object in it is a text then.
fn within_bounds(reason: &Value) -> Value {
    match reason {
        Value::Array(elements) => elements.iter().take(ELEMENTS_MAX).map(one_within_bounds).collect(),
        one => one_within_bounds(one),
    }
}

fn one_within_bounds(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => Cow::from(text),
        other => other.to_string().into(),
    };
    match text.len() > TEXT_BYTES_MAX {
        true => format!("{}...", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into(),
        false => value.clone(),
    }
}

/// Texts are those that an AMQP client would get; codes become what RabbitMQ's API makes of them.
impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoSuchVhost(_) | Refused::NoSuchUser(_) => return Self::missing(),
            Refused::ProtectedVhost(name) => {
                let text =
                    format!("Refusing to delete virtual host '{name}' because it is protected from deletion");
                return Self::new(412, "precondition_failed", text);
            }
            Refused::VhostLimitReached { name, limit } => {
                return Self::bad(format!("cannot create vhost '{name}': vhost limit of {limit} is reached"));
            }
            Refused::Storage(why) => return Self::unavailable(&*why),
            _ => {}
        }
        let reply = reply_of(refused);
        match reply.code {
            403 => Self::forbidden("Access refused."),
            404 => Self::new(404, "not_found", reply.text),
            _ => Self::bad(reply.text),
        }
    }
}

/// Waits until a change of management's own is durable.
///
/// # Errors
/// The refusal of the broker.
pub(crate) fn durable<T: Unpin>(
    commit: Result<broker::Call<Result<T, broker::Refused>>, broker::Refused>,
) -> Result<(), Problem> {
    commit?.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::Resource;

    #[test]
    fn refusals_of_the_broker_have_rabbitmqs_texts() {
        let queue = Resource::queue("/", b"q");
        let missing = Problem::from(Refused::NotFound(queue.clone()));
        assert_eq!(missing, Problem::new(404, "not_found", "no queue 'q' in vhost '/'"));
        assert_eq!(
            Problem::from(Refused::InUse(queue.clone())),
            Problem::bad("queue 'q' in vhost '/' in use")
        );
        assert_eq!(Problem::from(Refused::ReservedPrefix(queue)), Problem::forbidden("Access refused."));
        assert_eq!(Problem::from(Refused::ProtectedVhost("v".into())).status, 412);
    }

    #[test]
    fn a_reason_repeats_what_was_sent_but_not_all_of_something_long() {
        let long = "\u{e4}".repeat(100_000);
        let kept = format!("{}...", &long[..TEXT_BYTES_MAX]);
        let said = |reason: Value| Problem::bad(reason).body()["reason"].clone();
        assert_eq!(said(long.as_str().into()), json!(kept));
        assert_eq!(
            said(json!(["invalid_regexp", long, "too large"])),
            json!(["invalid_regexp", kept, "too large"])
        );
        let object = json!({"a": [1, long]});
        let shown = said(json!(["not_string", object]));
        let text = shown[1].as_str().expect("it is a text then");
        assert!(
            text.starts_with("{\"a\":[1,\"") && text.ends_with("...") && text.len() <= TEXT_BYTES_MAX + 3
        );
        assert_eq!(said(json!(vec!["x"; 500])).as_array().map(Vec::len), Some(ELEMENTS_MAX));
        let short = json!(["not_string", {"a": [1, null]}]);
        assert_eq!(said(short.clone()), short);
    }

    #[test]
    fn missing_keys_are_named_in_order() {
        let text = "[{key_missing,ackmode},{key_missing,encoding}]";
        assert_eq!(Problem::keys_missing(&["ackmode", "encoding"]), Problem::bad(text));
    }

    #[test]
    fn refused_publishes_and_gets_show_how_a_channel_would_be_closed() {
        let internal = Refused::InternalExchange(Resource::exchange("/", b"x"));
        let text = "cannot publish to internal exchange 'x' in vhost '/'";
        let said = Problem::of_publish(internal.clone());
        assert_eq!(said, Problem::bad(format!("403 ACCESS_REFUSED - {text}")));
        assert_eq!(Problem::of_get(internal), Problem::forbidden(&format!("ACCESS_REFUSED - {text}")));
        assert_eq!(Problem::of_publish(Refused::Storage("full".into())), Problem::unavailable("full"));
    }
}
