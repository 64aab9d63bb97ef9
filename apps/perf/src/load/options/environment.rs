//! Options that PerfTest takes from the environment: `--multi-ack-every` from `MULTI_ACK_EVERY`, and so on.
//!
//! As with PerfTest a variable wins over an argument, and a flag is set by `true` only. Values of options that may be given several times
//! are separated by commas. `RABBITMQ_PERF_TEST_ENV_PREFIX` stands before every name if it is set. Options that PerfTest has not are not
//! read: their short names (`JSON`, `QUIET`, ...) belong to others in many a shell.
//!
//! Arguments are spelled out before they come here: each option is one word.
//!
//! Refuses to know what the options mean.

use super::spelling::{LONG_FORMS, OURS, refusal};
use super::words::{takes_value, with_value};
use clap::{Arg, ArgAction, Command};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;

/// The variable whose value stands before all names.
const PREFIX: &str = "RABBITMQ_PERF_TEST_ENV_PREFIX";

/// Options of PerfTest's that only make sense as an argument.
const NOT_READ: [&str; 4] = ["environment-variables", "help", "metrics-help", "version"];

/// Looks up the value of a variable, if it is set.
pub(super) type Lookup<'l> = &'l dyn Fn(&str) -> Option<OsString>;

/// Arguments with those of the environment in place of the same ones, and the names of the variables that were used.
///
/// # Errors
/// A variable asks for something that is not in this build; the text says what.
pub(super) fn applied(
    args: Vec<OsString>,
    command: &Command,
    lookup: Lookup<'_>,
) -> Result<(Vec<OsString>, Vec<String>), String> {
    let prefix = prefix(lookup);
    let is_set = |long: &str| lookup(&variable(&prefix, long)).is_some_and(|value| !is(&value, "false"));
    let refused = LONG_FORMS.iter().filter(|long| is_set(long)).find_map(|long| refusal(OsStr::new(long)));
    if let Some(why) = refused {
        return Err(format!("the environment has {why}"));
    }
    let given: Vec<(&Arg, String, OsString)> = known(command)
        .filter_map(|(arg, long)| {
            let name = variable(&prefix, long);
            let value = lookup(&name)?;
            Some((arg, name, value))
        })
        .collect();
    let mut all =
        without(args, command, |arg| given.iter().any(|(given, ..)| given.get_id() == arg.get_id()));
    given.iter().for_each(|(arg, _, value)| spell(arg, value, &mut all));
    Ok((all, given.into_iter().map(|(_, name, _)| name).collect()))
}

/// Every variable that is read, a line each, with what it stands for.
pub(super) fn listing(command: &Command, lookup: Lookup<'_>) -> String {
    let prefix = prefix(lookup);
    let mut lines: Vec<String> = known(command)
        .map(|(arg, long)| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let help = help.split(" (also -").next().unwrap_or_default().to_owned();
            format!("{:34} {help}\n", variable(&prefix, long))
        })
        .collect();
    lines.sort_unstable();
    let mut text = String::from(
        "A variable wins over the argument of the same name. Several values are separated by commas, such as\n\
         VARIABLE_RATE=100:60,1000:10. Flags are set by true.\n\n",
    );
    text.extend(lines);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{PREFIX} stands before all of these names if it is set.");
    text
}

/// Options that are read, with their long names.
fn known(command: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let options = command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    options.filter(|(_, long)| !NOT_READ.contains(long) && !OURS.contains(long))
}

fn prefix(lookup: Lookup<'_>) -> String {
    let prefix = lookup(PREFIX).and_then(|prefix| prefix.into_string().ok()).unwrap_or_default();
    if prefix.trim().is_empty() || prefix.ends_with('_') { prefix.trim().to_owned() } else { prefix + "_" }
}

fn variable(prefix: &str, long: &str) -> String {
    format!("{prefix}{}", long.trim_start_matches('-').replace('-', "_").to_uppercase())
}

fn is(value: &OsStr, word: &str) -> bool {
    value.to_str().is_some_and(|value| value.eq_ignore_ascii_case(word))
}

/// Arguments without the addresses of brokers.
pub(super) fn without_addresses(args: Vec<OsString>, command: &Command) -> Vec<OsString> {
    without(args, command, |arg| matches!(arg.get_long(), Some("uri" | "uris")))
}

/// Arguments without those that were given before, as PerfTest takes them, unless they may be given several times.
pub(super) fn firsts(args: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let mut given = Vec::new();
    without(args, command, |arg| {
        let was_given = given.contains(arg.get_id());
        given.push(arg.get_id().clone());
        was_given && !may_repeat(arg)
    })
}

/// Whether the values of an option that is given several times add up: those that are told one by one, and `--queue-args`.
fn may_repeat(arg: &Arg) -> bool {
    let one_by_one = arg.get_value_delimiter().is_none() || arg.get_long() == Some("queue-args");
    one_by_one && matches!(arg.get_action(), ArgAction::Append)
}

/// Arguments without certain options.
fn without(args: Vec<OsString>, command: &Command, mut goes: impl FnMut(&Arg) -> bool) -> Vec<OsString> {
    args.into_iter().filter(|word| !option_of(word, command).is_some_and(&mut goes)).collect()
}

/// The option that a word is, which begins with its long name.
fn option_of<'c>(word: &OsStr, command: &'c Command) -> Option<&'c Arg> {
    let name = word.to_str()?.strip_prefix("--")?.split('=').next()?;
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

/// Adds an option with the value of its variable.
fn spell(arg: &Arg, value: &OsStr, args: &mut Vec<OsString>) {
    let long = arg.get_long().unwrap_or_default();
    match value.to_str() {
        _ if !takes_value(arg) => {
            if is(value, "true") {
                args.push(OsString::from(format!("--{long}")));
            }
        }
        Some(text)
            if matches!(arg.get_action(), ArgAction::Append) && arg.get_value_delimiter().is_none() =>
        {
            args.extend(text.split(',').map(|one| with_value(long, OsStr::new(one.trim()))));
        }
        _ => args.push(with_value(long, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::Options;
    use crate::load::options::words::spelled_out;
    use clap::CommandFactory;

    fn words(line: &str, environment: &[(&str, &str)]) -> Result<(Vec<String>, Vec<String>), String> {
        let lookup = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let args = line.split_whitespace().map(OsString::from).collect();
        let args = spelled_out(args, &Options::command())?;
        let (args, names) = applied(args, &Options::command(), &lookup)?;
        Ok((args.into_iter().map(|word| word.into_string().unwrap()).collect(), names))
    }

    #[test]
    fn a_variable_wins_over_arguments_however_they_are_written() {
        for line in ["-r 5 -x 2", "--rate 5 -x 2", "--rate=5 -x 2", "-r5 -x 2", "-x 2"] {
            let (found, names) = words(line, &[("RATE", "7")]).unwrap();
            assert_eq!(
                (found.join(" "), names),
                ("--producers=2 --rate=7".to_owned(), vec!["RATE".to_owned()]),
                "{line}"
            );
        }
    }

    #[test]
    fn flags_are_set_by_true_and_several_values_are_separated() {
        let environment = [
            ("AUTOACK", "TRUE"),
            ("PREDECLARED", "1"),
            ("VARIABLE_RATE", "100:60,0:10"),
            ("FLAG", "persistent"),
        ];
        let (found, _) = words("-p -y 3", &environment).unwrap();
        let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        let expected = [
            "--autoack",
            "--consumers=3",
            "--flag=persistent",
            "--variable-rate=0:10",
            "--variable-rate=100:60",
        ];
        assert_eq!(found, expected);
        // A list that clap splits itself stays one word.
        assert_eq!(words("", &[("URIS", "amqp://a,amqp://b")]).unwrap().0, ["--uris=amqp://a,amqp://b"]);
    }

    #[test]
    fn a_prefix_keeps_other_peoples_variables_out() {
        for prefix in ["PT", "PT_"] {
            let environment = [(PREFIX, prefix), ("RATE", "7"), ("PT_QUEUE", "q")];
            assert_eq!(words("", &environment).unwrap().0, ["--queue=q"]);
        }
        assert!(words("", &[("JSON", "true"), ("THREADS", "9"), ("VERSION", "true")]).unwrap().0.is_empty());
    }

    #[test]
    fn what_is_not_in_this_build_is_refused_here_too() {
        assert!(words("", &[("SASL_EXTERNAL", "true")]).unwrap_err().contains("--sasl-external"));
        assert!(words("", &[("SASL_EXTERNAL", "false")]).unwrap().0.is_empty());
    }

    #[test]
    fn all_variables_are_listed_with_their_meaning() {
        let text = listing(&Options::command(), &|_| None);
        for name in ["MULTI_ACK_EVERY", "QUEUE_PATTERN_FROM", "METRICS_PROMETHEUS_PORT", "URI ", "ID "] {
            assert!(text.lines().any(|line| line.starts_with(name) && line.len() > 40), "{name}: {text}");
        }
        assert!(!text.contains("WATCH_PID") && !text.contains("(also"), "{text}");
    }
}
