//! Keys of where log lines go.

use crate::config::key::{Key, Section, Take};
use crate::config::options::LogOptions;
use crate::logging::{LogFilter, LogFormat};
use std::path::PathBuf;

const LEVELS: &str =
    "`debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, `emergency` or `none`";

pub(super) static SECTION: Section = Section {
    title: "Logging",
    about: "Where log lines go. The levels are RabbitMQ's; `notice` counts as `info`, and everything above `error` \
            as `error`.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "log.console",
        alias: None,
        take: Take::Boolean { set: |options, on| options.log.console.switch = on.into() },
        default: "true",
        doc: "Writes log lines to standard error. RabbitMQ's default is `false`, with a log file instead.",
        example: "log.console = false",
    },
    Key {
        name: "log.console.level",
        alias: None,
        take: Take::Text {
            shape: LEVELS,
            set: |options, value| {
                options.log.console.filter = LogFilter::level(value)?;
                Ok(())
            },
        },
        default: "info",
        doc: "Least important lines to write to standard error.",
        example: "log.console.level = warning",
    },
    Key {
        name: "log.console.formatter",
        alias: None,
        take: Take::Choice {
            of: &["plaintext", "json"],
            not_yet: &[],
            set: |options, value| options.log.console.format = format(value),
        },
        default: "plaintext",
        doc: "Shape of the lines on standard error: for people, or one JSON object per line.",
        example: "log.console.formatter = json",
    },
    Key {
        name: "log.dir",
        alias: None,
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                options.log.file.dir = Some(PathBuf::from(value));
                Ok(())
            },
        },
        default: "",
        doc: "Folder of the log file; set, it turns the log file on under the name `warren.log`.",
        example: "log.dir = /var/log/warren",
    },
    Key {
        name: "log.file",
        alias: None,
        take: Take::Text {
            shape: "path, or `false`",
            set: |options, value| {
                file(&mut options.log, value);
                Ok(())
            },
        },
        default: "",
        doc: "Appends log lines to this file, relative to `log.dir` if that is set; `false` writes none. Warren \
              does not rotate it: use logrotate with `copytruncate`.",
        example: "log.file = warren.log",
    },
    Key {
        name: "log.file.level",
        alias: None,
        take: Take::Text {
            shape: LEVELS,
            set: |options, value| {
                options.log.file.filter = LogFilter::level(value)?;
                Ok(())
            },
        },
        default: "info",
        doc: "Least important lines to write to the log file.",
        example: "log.file.level = debug",
    },
    Key {
        name: "log.file.formatter",
        alias: None,
        take: Take::Choice {
            of: &["plaintext", "json"],
            not_yet: &[],
            set: |options, value| options.log.file.format = format(value),
        },
        default: "plaintext",
        doc: "Shape of the lines in the log file.",
        example: "log.file.formatter = json",
    },
    Key {
        name: "log.exchange",
        alias: None,
        take: Take::Boolean { set: |options, on| options.log.exchange.switch = on.into() },
        default: "false",
        doc: "Declares the topic exchange `amq.rabbitmq.log` in the default virtual host and publishes log lines \
              there, with their level as the key. When queues take lines too slowly, lines are dropped.",
        example: "log.exchange = true",
    },
    Key {
        name: "log.exchange.level",
        alias: None,
        take: Take::Text {
            shape: LEVELS,
            set: |options, value| {
                options.log.exchange.filter = LogFilter::level(value)?;
                Ok(())
            },
        },
        default: "info",
        doc: "Least important lines to publish.",
        example: "log.exchange.level = warning",
    },
    Key {
        name: "log.exchange.formatter",
        alias: None,
        take: Take::Choice {
            of: &["plaintext", "json"],
            not_yet: &[],
            set: |options, value| options.log.exchange.format = format(value),
        },
        default: "plaintext",
        doc: "Shape of the lines that are published.",
        example: "log.exchange.formatter = json",
    },
];

fn format(value: &str) -> LogFormat {
    if value == "json" { LogFormat::Json } else { LogFormat::Human }
}

fn file(log: &mut LogOptions, value: &str) {
    log.file.refused = value == "false";
    log.file.name = (value != "false" && !value.is_empty()).then(|| PathBuf::from(value));
}
