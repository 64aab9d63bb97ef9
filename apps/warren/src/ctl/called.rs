//! The name that the program was called by. Refuses to know what it does under that name.

use std::ffi::OsStr;
use std::path::Path;

/// The name that the program was called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// `warren ctl`.
    Warren,
    /// `rabbitmqctl`.
    Rabbitmqctl,
    /// `rabbitmq-diagnostics`.
    RabbitmqDiagnostics,
    /// `rabbitmq-queues`.
    RabbitmqQueues,
    /// `rabbitmq-upgrade`.
    RabbitmqUpgrade,
    /// `rabbitmq-plugins`, or `warren plugins`.
    RabbitmqPlugins,
    /// `rabbitmq-streams`.
    RabbitmqStreams,
}

/// Prefix of the names of commands of `rabbitmq-plugins`, which are everyday words, among all others.
const PLUGINS_PREFIX: &str = "plugins_";

impl Called {
    /// By the program's path: one of RabbitMQ's tools, if it is named so.
    #[must_use]
    pub fn from_program(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_stem()?;
        let all = [
            Self::Rabbitmqctl,
            Self::RabbitmqDiagnostics,
            Self::RabbitmqQueues,
            Self::RabbitmqUpgrade,
            Self::RabbitmqPlugins,
            Self::RabbitmqStreams,
        ];
        all.into_iter().find(|called| name == called.name())
    }

    /// The command that a word of the command line means.
    pub(super) fn command(self, word: &str) -> String {
        let own = format!("{PLUGINS_PREFIX}{word}");
        if self == Self::RabbitmqPlugins && super::catalogue::find(&own).is_some() {
            own
        } else {
            word.into()
        }
    }

    /// How a command is written on the command line.
    pub(super) fn word(self, command: &'static str) -> &'static str {
        match self {
            Self::RabbitmqPlugins => command.strip_prefix(PLUGINS_PREFIX).unwrap_or(command),
            _ => command,
        }
    }

    /// Whether its guide and its completions show a section: those that are about what the tool is for.
    pub(super) fn shows(self, section: &str) -> bool {
        match self {
            Self::RabbitmqPlugins => matches!(section, "Help" | "Plugins"),
            Self::RabbitmqStreams => section == "Help",
            _ => true,
        }
    }

    /// How it stands in usage lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Warren => "warren ctl",
            Self::Rabbitmqctl => "rabbitmqctl",
            Self::RabbitmqDiagnostics => "rabbitmq-diagnostics",
            Self::RabbitmqQueues => "rabbitmq-queues",
            Self::RabbitmqUpgrade => "rabbitmq-upgrade",
            Self::RabbitmqPlugins => "rabbitmq-plugins",
            Self::RabbitmqStreams => "rabbitmq-streams",
        }
    }
}
