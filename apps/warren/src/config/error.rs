//! Errors of a configuration, and how they are told to a person.
//!
//! Refuses to know how problems are found. Values of keys that hold passwords never appear in a text.

use std::fmt;
use std::path::PathBuf;

/// Why a configuration was refused. Nothing of it has been applied.
#[derive(Debug)]
pub enum ConfigError {
    /// The file could not be read.
    Unreadable {
        /// The file as it was named.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The files were read and have at least one problem; all of them are here, in order of files and lines.
    Invalid {
        /// Files as they were named, each with its problems; never empty, nor is one of the lists.
        files: Vec<(PathBuf, Vec<Problem>)>,
    },
    /// An environment variable of RabbitMQ's has a value that does not fit.
    Variable {
        /// Its name.
        name: &'static str,
        /// The values that are expected.
        reason: String,
    },
}

/// One problem of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// The problem of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// Neither blank, comment nor `key = value`.
    NotASetting,
    /// A key without a value.
    NoValue {
        /// The key.
        key: String,
    },
    /// A `'` without its partner on the same line.
    OpenQuote {
        /// The key.
        key: String,
    },
    /// Something after the closing `'` that is not a comment.
    AfterQuote {
        /// The key.
        key: String,
    },
    /// RabbitMQ's `include` directive, which Warren does not have.
    Include,
    /// The file is larger than any configuration has reason to be.
    TooLarge {
        /// The bound, bytes.
        bytes_max: usize,
    },
    /// The file is not UTF-8 text.
    NotText,
    /// No such key.
    UnknownKey {
        /// The key as written.
        key: String,
        /// The known key that looks most like it, if one does.
        nearest: Option<&'static str>,
        /// For a key that RabbitMQ has: the part of it that Warren does not have yet.
        not_yet: Option<&'static str>,
    },
    /// The value does not fit the key.
    BadValue {
        /// The key as written.
        key: String,
        /// The value as written, empty for secrets.
        value: String,
        /// The value that was expected.
        reason: String,
    },
    /// `$(NAME)` names neither a key of the file nor an environment variable, or refers to itself.
    Substitution {
        /// The key whose value holds it.
        key: String,
        /// The name inside the parentheses.
        name: String,
        /// The fault of the value.
        reason: &'static str,
    },
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASetting => f.write_str("expected `key = value`, a comment (#) or a blank line"),
            Self::NoValue { key } => write!(f, "\"{key}\" has no value; write '' for an empty one"),
            Self::OpenQuote { key } => {
                write!(f, "the value of \"{key}\" opens a quote (') and does not close it")
            }
            Self::AfterQuote { key } => write!(f, "only a comment may follow the quoted value of \"{key}\""),
            Self::Include => f.write_str("`include` is not supported; put all settings in one file"),
            Self::TooLarge { bytes_max } => write!(f, "the file is larger than {bytes_max} bytes"),
            Self::NotText => f.write_str("not UTF-8 text"),
            Self::UnknownKey { key, nearest, not_yet } => {
                write!(f, "unknown key \"{key}\"")?;
                match (nearest, not_yet) {
                    (_, Some(part)) => {
                        write!(f, "; Warren does not have {part} yet: remove or comment out this line")
                    }
                    (Some(nearest), None) => write!(f, "; did you mean \"{nearest}\"?"),
                    (None, None) => Ok(()),
                }
            }
            Self::BadValue { key, value, reason } if value.is_empty() => {
                write!(f, "bad value of \"{key}\": {reason}")
            }
            Self::BadValue { key, value, reason } => {
                write!(f, "bad value \"{value}\" of \"{key}\": {reason}")
            }
            Self::Substitution { key, name, reason } => {
                write!(f, "$({name}) in the value of \"{key}\": {reason}")
            }
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(
                f,
                "cannot read the configuration file {}: {source}\nName another with --config, or leave it out to \
                 start with the built-in defaults.",
                path.display()
            ),
            Self::Invalid { files } => {
                for (path, problems) in files {
                    let plural = if problems.len() == 1 { "problem" } else { "problems" };
                    writeln!(f, "{}: {} {plural} in the configuration", path.display(), problems.len())?;
                    for problem in problems {
                        writeln!(f, "  line {}: {}", problem.line, problem.kind)?;
                    }
                }
                write!(f, "All keys that Warren knows: `warren config`.")
            }
            Self::Variable { name, reason } => write!(f, "environment variable {name}: {reason}"),
        }
    }
}

/// The text of the operating system's error is part of ours, hence no source.
impl std::error::Error for ConfigError {}
