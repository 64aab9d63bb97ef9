//! Status of a shovel, for listings. Refuses to know how it is shown.

use crate::definition::Definition;

/// A shovel and how it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Where its parameter is.
    pub vhost: String,
    /// Name of the parameter.
    pub name: String,
    /// When the state has changed last, milliseconds since 1970.
    pub changed_at_ms: u64,
    /// The work of the shovel; `None` when the parameter cannot be read.
    pub definition: Option<std::sync::Arc<Definition>>,
    /// How it is.
    pub state: State,
}

/// How a shovel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It connects.
    Starting,
    /// It moves messages.
    Running(Progress),
    /// It waits until it tries again, or its parameter cannot be read.
    Terminated {
        /// Why.
        reason: String,
    },
}

impl State {
    /// Name of [`State::Starting`], as RabbitMQ has it.
    pub const STARTING: &str = "starting";
    /// Name of [`State::Running`].
    pub const RUNNING: &str = "running";
    /// Name of [`State::Terminated`].
    pub const TERMINATED: &str = "terminated";

    /// RabbitMQ's name of it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            State::Starting => State::STARTING,
            State::Running(_) => State::RUNNING,
            State::Terminated { .. } => State::TERMINATED,
        }
    }
}

/// How far a running shovel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Source in use, without credentials.
    pub source_uri: String,
    /// Destination in use, without credentials.
    pub destination_uri: String,
    /// Messages that are read and not published yet.
    pub pending: u64,
    /// Messages published since it runs.
    pub forwarded: u64,
    /// Messages still to publish.
    pub remaining: Count,
    /// Messages still to settle.
    pub remaining_unacked: Count,
    /// Whether the destination takes messages.
    pub blocked: Blocked,
}

/// How many messages are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// There is no end.
    Unlimited,
    /// So many.
    Messages(u64),
}

/// Whether the destination takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// It does.
    Running,
    /// It has sent connection.blocked.
    Blocked,
}
