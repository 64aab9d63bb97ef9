//! The command line of `rabbitmqctl`: options anywhere, then the command and its arguments. Knows no command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use management::{Format, Headers, Request};

/// How much to say besides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Banner {
    /// What is being done.
    Shown,
    /// Nothing.
    Hidden,
}

/// A command line that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Arguments {
    /// For the server; its command is empty when none was given.
    pub(super) request: Request,
    /// Shape of listings.
    pub(super) format: Format,
    /// Names of columns.
    pub(super) headers: Headers,
    /// What is being done.
    pub(super) banner: Banner,
    /// Folder of the server.
    pub(super) data_dir: Option<PathBuf>,
    /// Longest wait for the answer.
    pub(super) timeout: Option<Duration>,
}

/// Options with a value: short, long, name in the request.
const VALUED: &[(&str, &str)] = &[
    ("-p", "vhost"),
    ("-n", "node"),
    ("-t", "timeout"),
    ("", "formatter"),
    ("", "format"),
    ("", "data-dir"),
    ("", "erlang-cookie"),
    ("", "printer"),
    ("", "description"),
    ("", "tags"),
    ("", "default-queue-type"),
    ("", "protected-from-deletion"),
    ("", "user"),
];

/// Options without one.
const FLAGS: &[(&str, &str)] = &[
    ("-q", "quiet"),
    ("-s", "silent"),
    ("-l", "longnames"),
    ("", "no-table-headers"),
    ("-e", "if-empty"),
    ("-u", "if-unused"),
    ("", "global"),
    ("", "skip-unsupported"),
    ("", "online"),
    ("", "offline"),
    ("", "local"),
    ("", "dry-run"),
    ("-h", "help"),
    ("", "version"),
];

fn named(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    let long = word.strip_prefix("--");
    table
        .iter()
        .find(|(short, name)| long == Some(*name) || (!short.is_empty() && *short == word))
        .map(|it| it.1)
}

/// Reads a command line; the error is a text for the user.
pub(super) fn parse(words: Vec<OsString>) -> Result<Arguments, String> {
    let mut options: BTreeMap<String, String> = BTreeMap::new();
    let mut positional = Vec::new();
    let mut words = words.into_iter().map(|word| {
        word.into_string().map_err(|word| format!("not valid UTF-8: {}", word.to_string_lossy()))
    });
    while let Some(word) = words.next() {
        let word = word?;
        if word == "--" {
            positional.extend(words.by_ref().collect::<Result<Vec<_>, _>>()?);
        } else if let Some(flag) = named(FLAGS, &word) {
            options.insert(flag.into(), String::new());
        } else if let Some(option) = named(VALUED, &word) {
            let value = words.next().ok_or_else(|| format!("option {word} needs a value"))??;
            options.insert(option.into(), value);
        } else if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            let option = named(VALUED, option).ok_or_else(|| format!("invalid option {option}"))?;
            options.insert(option.into(), value.into());
        } else if word.len() > 1 && word.starts_with('-') && !is_number(&word) {
            return Err(format!("invalid option {word}"));
        } else {
            positional.push(word);
        }
    }
    arguments(options, positional)
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}

fn arguments(mut options: BTreeMap<String, String>, mut words: Vec<String>) -> Result<Arguments, String> {
    let format = match options.remove("formatter") {
        None => Format::default(),
        Some(name) => Format::from_name(&name).ok_or_else(|| format!("unknown formatter {name}"))?,
    };
    let timeout = match options.remove("timeout").as_deref() {
        None => Some(Duration::from_secs(60)),
        Some("infinity") => None,
        Some(text) => {
            let seconds: u32 =
                text.parse().ok().filter(|it| *it > 0).ok_or("timeout must be a positive number")?;
            Some(Duration::from_secs(seconds.into()))
        }
    };
    let silent = options.contains_key("silent");
    let hidden = silent || options.contains_key("no-table-headers");
    let machine = matches!(format, Format::Json | Format::Csv);
    Ok(Arguments {
        data_dir: options.remove("data-dir").map(PathBuf::from),
        headers: if hidden { Headers::Hidden } else { Headers::Shown },
        banner: if silent || machine || options.contains_key("quiet") {
            Banner::Hidden
        } else {
            Banner::Shown
        },
        request: Request {
            command: if words.is_empty() { String::new() } else { words.remove(0) },
            args: words,
            options,
        },
        format,
        timeout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Arguments, String> {
        parse(line.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_are_read_wherever_they_stand() {
        let line = [
            "-q",
            "--data-dir",
            "/d",
            "list_queues",
            "-p",
            "v",
            "name",
            "messages",
            "--formatter=json",
            "-n",
            "x",
        ];
        let read = read(&line).unwrap();
        assert_eq!(read.request.command, "list_queues");
        assert_eq!(read.request.args, ["name", "messages"]);
        assert_eq!((read.request.vhost(), read.format, read.banner), ("v", Format::Json, Banner::Hidden));
        assert_eq!(read.data_dir, Some(PathBuf::from("/d")));
    }

    #[test]
    fn empty_arguments_and_all_behind_two_dashes_are_positional() {
        let read = read(&["set_permissions", "u", "", "", "--", "-x"]).unwrap();
        assert_eq!(read.request.args, ["u", "", "", "-x"]);
        assert_eq!((read.banner, read.headers), (Banner::Shown, Headers::Shown));
    }

    #[test]
    fn mistakes_are_told() {
        assert!(read(&["list_queues", "--bogus"]).unwrap_err().contains("--bogus"));
        assert!(read(&["list_queues", "-p"]).unwrap_err().contains("-p"));
        assert!(read(&["list_queues", "--formatter", "xml"]).unwrap_err().contains("xml"));
        assert!(read(&["-t", "0", "ping"]).is_err());
        assert_eq!(read(&[]).unwrap().request.command, "");
    }
}
