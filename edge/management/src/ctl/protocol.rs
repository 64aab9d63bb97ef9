//! The two lines on the control socket, and the documents that may follow them. Knows no command.
//!
//! A large last argument of a request, or a large answer, does not stand in its line: the line says how many bytes of it follow,
//! and they follow as they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Largest line of a request, bytes.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// Largest line of an answer, bytes: some millions of queues.
pub(crate) const ANSWER_BYTES_MAX: u64 = 512 << 20;

/// Largest definitions document that travels, bytes: four million bindings. It is in memory once on either side, and what is
/// read from it beside it.
pub const DEFINITIONS_BYTES_MAX: usize = 512 << 20;

/// From this length on, bytes, a text follows its line.
pub(crate) const DOCUMENT_BYTES_MIN: usize = 64 << 10;

/// RabbitMQ's exit codes, which are those of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit;

impl Exit {
    /// Unknown command or wrong arguments.
    pub const USAGE: u8 = 64;
    /// The data given do not fit: wrong password, no such object.
    pub const DATA: u8 = 65;
    /// No such user.
    pub const NO_USER: u8 = 67;
    /// The node or something on it is not available.
    pub const UNAVAILABLE: u8 = 69;
    /// Something went wrong inside.
    pub const SOFTWARE: u8 = 70;
    /// No answer in time.
    pub const NOT_NOW: u8 = 75;
    /// The user may not do that, or the password is wrong.
    pub const NO_PERMISSION: u8 = 77;
}

/// One command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// RabbitMQ's name of it.
    pub command: String,
    /// Positional arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Options by long name: `vhost`, `if-empty`, ...; flags have an empty value.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl Request {
    /// The vhost asked for; `/` by default.
    #[must_use]
    pub fn vhost(&self) -> &str {
        self.options.get("vhost").map_or("/", String::as_str)
    }

    /// Whether a flag is there.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.options.contains_key(flag)
    }
}

/// A request as it travels.
#[derive(Debug, Deserialize)]
pub(crate) struct Received {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// Bytes that follow the line: the last argument. 0 when all arguments are in the line.
    #[serde(default)]
    pub(crate) document_bytes: u64,
}

/// The line of a request whose last argument follows.
#[derive(Debug, Serialize)]
pub(crate) struct Announced<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) options: &'a BTreeMap<String, String>,
    pub(crate) document_bytes: u64,
}

/// The line of an answer [`Answer::Done`] whose text follows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DocumentFollows {
    pub(crate) document_bytes: u64,
}

/// A listing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Names of columns.
    pub columns: Vec<String>,
    /// As many values as columns in each.
    pub rows: Vec<Vec<Value>>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Everything to print on standard error.
    pub error: String,
    /// The code to exit with, see [`Exit`].
    pub exit: u8,
    /// The same for programs, which ask for it with `--formatter json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
}

impl Failure {
    /// A refusal with its code.
    pub fn new(exit: u8, error: impl Into<String>) -> Self {
        Self { error: error.into(), exit, json: None }
    }

    /// The same with what programs get instead of the text.
    pub(crate) fn with_json(self, json: Value) -> Self {
        Self { json: Some(json), ..self }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// A listing.
    Rows(Rows),
    /// The facts about the node, for people and for programs.
    Facts {
        /// For people.
        text: String,
        /// For programs.
        json: Value,
    },
    /// Done.
    Done {
        /// The text to print, may be empty.
        ok: String,
    },
    /// Refused.
    Failed(Failure),
}

impl Answer {
    /// Done, with nothing to say.
    #[must_use]
    pub fn done() -> Self {
        Self::Done { ok: String::new() }
    }

    /// The facts about the node.
    pub(crate) fn facts(text: String, json: Value) -> Self {
        Self::Facts { text, json }
    }

    /// That something is as it should be, in the form that RabbitMQ's tools give it for programs.
    pub(crate) fn message(text: &str) -> Self {
        Self::facts(text.into(), json!({"message": text, "result": "ok"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_told_from_the_others() {
        let rows = Rows { columns: vec!["name".into()], rows: vec![vec!["q".into()]] };
        let facts = Answer::Facts { text: "a".into(), json: Value::Null };
        for answer in
            [Answer::Rows(rows), facts, Answer::done(), Answer::Failed(Failure::new(Exit::DATA, "no"))]
        {
            let line = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), answer);
        }
    }

    #[test]
    fn a_request_needs_only_its_command() {
        let request: Request = serde_json::from_str(r#"{"command":"ping"}"#).unwrap();
        assert_eq!((request.vhost(), request.has("vhost")), ("/", false));
    }
}
