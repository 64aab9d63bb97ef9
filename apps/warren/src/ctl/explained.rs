//! The arguments, options and columns of a command, in words. Refuses to know how the command is done.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::catalogue::Entry;
use super::completing::placeholders;
use super::guide::wrap;

/// Width of the column of names.
const NAMES_WIDTH: usize = 24;

/// Placeholders of usage lines and options, and what each means.
static WORDS: LazyLock<HashMap<&'static str, &'static str>> =
    LazyLock::new(|| include_str!("words.txt").lines().filter_map(|line| line.split_once(" : ")).collect());

/// The parts of the help that say what stands where; nothing for a command without arguments.
pub(super) fn of(entry: &Entry) -> String {
    let mut text = String::new();
    let arguments: Vec<(String, &str)> =
        named(entry).into_iter().filter_map(|name| Some((format!("<{name}>"), meaning(name)?))).collect();
    part(&mut text, "Arguments", &arguments);
    let options: Vec<(String, &str)> =
        own_options(entry).into_iter().map(|name| (name.clone(), option(&name))).collect();
    part(&mut text, "Options of this command", &options);
    if let Some(columns) = management::columns_of(entry.name) {
        text.push_str("\nColumns\n\n   ");
        wrap(&mut text, &columns.names.join(", "), 3);
        text.push_str("\n   without any: ");
        wrap(&mut text, &columns.defaults.join(", "), 16);
    }
    text
}

fn part(text: &mut String, heading: &str, lines: &[(String, &str)]) {
    if lines.is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}\n\n"));
    for (name, meaning) in lines {
        let indent = 3 + NAMES_WIDTH.max(name.chars().count() + 1);
        text.push_str(&format!("   {name:<NAMES_WIDTH$}"));
        if name.chars().count() >= NAMES_WIDTH {
            text.push(' ');
        }
        wrap(text, meaning, indent);
    }
}

/// Its arguments, each once; those of the form `a | b` say themselves what they may be.
fn named(entry: &Entry) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for name in placeholders(entry.usage) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn meaning(name: &str) -> Option<&'static str> {
    let found = WORDS.get(name).copied();
    found.or_else(|| name.contains('|').then_some("one of these words"))
}

fn own_options(entry: &Entry) -> Vec<String> {
    entry.options.iter().map(|option| format!("--{}", option.trim_end_matches('='))).collect()
}

fn option(name: &str) -> &'static str {
    WORDS.get(name).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::Called;
    use super::super::arguments::parse;
    use super::super::catalogue;
    use super::*;

    /// As a shell takes a line apart that has single quotes only.
    fn split(line: &str) -> Vec<OsString> {
        let (mut words, mut word, mut is_quoted, mut has_begun) = (Vec::new(), String::new(), false, false);
        for letter in line.chars() {
            match letter {
                '\'' => (is_quoted, has_begun) = (!is_quoted, true),
                ' ' if !is_quoted => {
                    if has_begun {
                        words.push(OsString::from(std::mem::take(&mut word)));
                    }
                    has_begun = false;
                }
                other => {
                    word.push(other);
                    has_begun = true;
                }
            }
        }
        assert!(!is_quoted, "{line}");
        words.extend(has_begun.then(|| OsString::from(word)));
        words
    }

    #[test]
    fn every_argument_and_option_has_its_words() {
        for entry in catalogue::all() {
            for name in named(entry) {
                assert!(meaning(name).is_some(), "words.txt lacks {name} of {}", entry.name);
            }
            for name in own_options(entry) {
                assert!(!option(&name).is_empty(), "words.txt lacks {name} of {}", entry.name);
            }
        }
    }

    #[test]
    fn every_example_is_a_command_line_that_is_taken() {
        for entry in catalogue::all()
            .iter()
            .filter(|entry| entry.section != "Encryption of values in configuration files")
        {
            let read = parse(Called::Warren, split(entry.example));
            assert_eq!(read.map(|read| read.request.command).map_err(|it| it.problem), Ok(entry.name.into()));
        }
    }

    #[test]
    fn a_listing_names_its_columns() {
        let text = of(catalogue::find("list_queues").unwrap());
        assert!(text.contains("messages_ready") && text.contains("without any: name, messages"), "{text}");
        assert_eq!(of(catalogue::find("ping").unwrap()), "");
        for line in text.lines() {
            assert!(line.chars().count() <= 118, "{line}");
        }
    }
}
