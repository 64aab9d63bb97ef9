//! The two lines on the control socket. Knows no command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Largest line either side accepts, bytes.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// Largest definitions document that travels, bytes: quoted inside a line it still fits.
pub const DEFINITIONS_BYTES_MAX: usize = 16 << 20;

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
}

impl Failure {
    /// A refusal with its code.
    pub fn new(exit: u8, error: impl Into<String>) -> Self {
        Self { error: error.into(), exit }
    }
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// A listing.
    Rows(Rows),
    /// What the node says of itself, for people and for programs.
    Facts {
        /// For people.
        text: String,
        /// For programs.
        json: Value,
    },
    /// Done.
    Done {
        /// What to print, may be empty.
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
