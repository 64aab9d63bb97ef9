//! The words of a command line, read as PerfTest reads them, which is not how clap does: short names of several letters,
//! long names behind one dash, beginnings of long names, negative numbers as values.
//!
//! Refuses to know what the options mean.

use super::spelling::{LONG_FORMS, OURS, refusal, short_form};
use clap::{Arg, ArgAction, Command};
use std::ffi::{OsStr, OsString};

/// Long names of the options that a word is, and the value of the last of them if it is part of the word.
type Found<'w> = (Vec<String>, Option<&'w str>);

/// The command line with each option as one word that clap understands: `--long`, or `--long=VALUE`.
///
/// # Errors
/// A beginning that several options have, an option without its value, or one that is not in this build; the text says which.
pub(super) fn spelled_out(args: Vec<OsString>, command: &Command) -> Result<Vec<OsString>, String> {
    let (mut spelled, mut words) = (Vec::new(), args.into_iter().peekable());
    while let Some(word) = words.next() {
        let Some((mut names, value)) = word.to_str().map(|text| found(text, command)).transpose()?.flatten()
        else {
            spelled.push(word);
            continue;
        };
        let name = names.pop().unwrap_or_default();
        spelled.extend(names.iter().map(|name| OsString::from(format!("--{name}"))));
        if let Some(why) = refusal(OsStr::new(&format!("--{name}"))) {
            return Err(why);
        }
        let option = command.get_arguments().find(|arg| arg.get_long() == Some(&name));
        let values_max = option.map_or(0, values_max);
        let mut values: Vec<OsString> = value.into_iter().map(OsString::from).collect();
        while values.len() < values_max {
            let Some(next) = words.next_if(|next| is_value(next, command)) else { break };
            values.push(next);
        }
        if values.is_empty() && option.is_some_and(needs_value) {
            return Err(format!("--{name} has no value"));
        }
        if values.is_empty() {
            spelled.push(OsString::from(format!("--{name}")));
        }
        spelled.extend(values.iter().map(|value| with_value(&name, value)));
    }
    Ok(spelled)
}

/// An option and its value as one word.
pub(super) fn with_value(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}

/// Whether an option has a value at all.
pub(super) fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Whether an option cannot be without a value, as `-e` can.
fn needs_value(arg: &Arg) -> bool {
    takes_value(arg) && arg.get_num_args().is_none_or(|range| range.min_values() > 0)
}

/// How many of the words that follow are values of an option: several if it may be given several times, unless commas
/// separate its values.
fn values_max(arg: &Arg) -> usize {
    let repeats = matches!(arg.get_action(), ArgAction::Append) && arg.get_value_delimiter().is_none();
    if repeats { usize::MAX } else { usize::from(takes_value(arg)) }
}

/// Whether a word is no option: `-1` and `-` are none.
fn is_value(word: &OsStr, command: &Command) -> bool {
    let option = |text| found(text, command).is_ok_and(|found| found.is_none());
    word.to_str().is_none_or(|text| text != "--" && option(text))
}

/// The options that a word is; `None` if it is none.
fn found<'w>(word: &'w str, command: &Command) -> Result<Option<Found<'w>>, String> {
    let is_long = word.starts_with("--");
    let Some(body) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { return Ok(None) };
    let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
    if !is_long && let Some(long) = short_form(name) {
        return Ok(Some((vec![long.to_owned()], value)));
    }
    let of_one_letter = !is_long && name.chars().nth(1).is_none();
    let long = if name.is_empty() || of_one_letter { None } else { long_name(name, command)? };
    Ok(match long {
        Some(long) => Some((vec![long], value)),
        None if is_long => None,
        None => letters(body, command),
    })
}

/// The long name that this is, or that alone begins like this among PerfTest's.
fn long_name(name: &str, command: &Command) -> Result<Option<String>, String> {
    let ours = command.get_arguments().filter_map(Arg::get_long);
    let of_others = LONG_FORMS.iter().map(|form| form.trim_start_matches('-'));
    let mut names: Vec<&str> = ours.chain(of_others).filter(|long| long.starts_with(name)).collect();
    names.sort_unstable();
    names.dedup();
    if names.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    names.retain(|name| !OURS.contains(name));
    match names.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).to_owned())),
        several => Err(format!("{name} is the beginning of several options: --{}", several.join(", --"))),
    }
}

/// Options of one letter each, the last one with its value.
fn letters<'w>(body: &'w str, command: &Command) -> Option<Found<'w>> {
    let (mut names, mut rest) = (Vec::new(), body.chars());
    while let Some(letter) = rest.next() {
        let option = command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
        names.push(option.get_long()?.to_owned());
        if takes_value(option) {
            let value = rest.as_str();
            let value = value.strip_prefix('=').or((!value.is_empty()).then_some(value));
            return Some((names, value));
        }
    }
    (!names.is_empty()).then_some((names, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::Options;
    use clap::CommandFactory;

    fn spelled(line: &str) -> Result<String, String> {
        let args = line.split_whitespace().map(OsString::from).collect();
        let words = spelled_out(args, &Options::command())?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_are_found_by_all_names_that_perf_test_knows() {
        for (line, expected) in [
            (
                "-x 2 -x2 -x=2 --producers 2 --producers=2",
                "--producers=2 --producers=2 --producers=2 --producers=2 --producers=2",
            ),
            (
                "-qpf 3 -qpf=3 --queue-pattern-f 3",
                "--queue-pattern-from=3 --queue-pattern-from=3 --queue-pattern-from=3",
            ),
            ("-queue q -autoack", "--queue=q --autoack"),
            ("-producers=2 --ti 5", "--producers=2 --time=5"),
            ("-ap -ax 2 -az5", "--autoack --predeclared --autoack --producers=2 --autoack --time=5"),
            ("-?", "--help"),
            // Names of ours are whole ones.
            ("--json --quiet", "--json --quiet"),
            ("--threa 5", "--threa 5"),
        ] {
            assert_eq!(spelled(line).as_deref(), Ok(expected), "{line}");
        }
        let several = spelled("--que q").unwrap_err();
        assert!(several.contains("--queue-args") && !several.contains("--quiet"), "{several}");
    }

    #[test]
    fn values_are_what_follows_and_is_no_option() {
        for (line, expected) in [
            ("-q -1 -r -0.5", "--qos=-1 --rate=-0.5"),
            ("-e -u q", "--exchange --queue=q"),
            ("-e topic -e", "--exchange=topic --exchange"),
            ("-f persistent mandatory -a", "--flag=persistent --flag=mandatory --autoack"),
            ("-vr 5:1 6:1", "--variable-rate=5:1 --variable-rate=6:1"),
            ("-a true -u a b", "--autoack true --queue=a b"),
            ("-k=", "--routing-key="),
            ("-k - -a", "--routing-key=- --autoack"),
            ("- -9", "- -9"),
            ("-- -x 3", "-- --producers=3"),
        ] {
            assert_eq!(spelled(line).as_deref(), Ok(expected), "{line}");
        }
        for line in ["-C 10 -C", "-u -x 3", "-f -a", "-u --"] {
            assert!(spelled(line).unwrap_err().ends_with("has no value"), "{line}");
        }
    }

    #[test]
    fn what_is_not_in_this_build_is_refused_however_it_is_written() {
        for line in ["-se", "--sasl", "-sasl-external", "-o2id=x", "-ei 3", "--expected-instances=3"] {
            assert!(spelled(line).is_err(), "{line}");
        }
    }
}
