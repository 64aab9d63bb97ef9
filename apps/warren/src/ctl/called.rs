//! The name that the program was called by. Refuses to know what it does under that name.

use std::ffi::OsStr;
use std::path::Path;

/// What the program was called as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// `warren ctl`.
    Warren,
    /// `rabbitmqctl`.
    Rabbitmqctl,
    /// `rabbitmq-diagnostics`.
    RabbitmqDiagnostics,
}

impl Called {
    /// By the program's path: one of RabbitMQ's tools, if it is named so.
    #[must_use]
    pub fn from_program(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_stem()?;
        [Self::Rabbitmqctl, Self::RabbitmqDiagnostics].into_iter().find(|called| name == called.name())
    }

    /// How it stands in usage lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Warren => "warren ctl",
            Self::Rabbitmqctl => "rabbitmqctl",
            Self::RabbitmqDiagnostics => "rabbitmq-diagnostics",
        }
    }
}
