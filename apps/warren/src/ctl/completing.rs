//! Words that may stand next on a command line, for shells: commands, options, and names of the server's objects. Refuses to know
//! shells; whatever goes wrong gives nothing.

use std::ffi::OsString;
use std::time::Duration;

use management::{Answer, Request};

use super::Called;
use super::arguments::{self, Arguments};
use super::catalogue;
use super::server::{Asking, Server};

/// The word that completion scripts call the program with, before those of the command line.
pub(super) const WORD: &str = "complete_words";

/// Longest wait for the server: somebody has pressed a key.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Names shown at most.
const NAMES_MAX: usize = 2_000;

/// Names of what a server has: the command that lists them and its column.
type Listed = (&'static str, &'static str);

const QUEUES: Listed = ("list_queues", "name");
const EXCHANGES: Listed = ("list_exchanges", "name");
const USERS: Listed = ("list_users", "");
const VHOSTS: Listed = ("list_vhosts", "name");

/// Takes no columns.
const SHOVELS: Listed = ("shovel_status", "");

/// The kind of an argument.
#[derive(Debug, PartialEq)]
enum Kind {
    /// The name of one of these, which the server knows.
    Name(Listed),
    /// One of these words.
    Words(Vec<String>),
    /// A file or a text: the shell goes on as it likes.
    Free,
}

/// Words that may stand where the last of these begins.
pub(super) fn candidates(called: Called, words: &[OsString]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    let (pending, before) = match before.split_last() {
        Some((word, rest)) => match arguments::value_of(called, before, word) {
            Some(option) => (Some(option), rest),
            None => (None, before),
        },
        None => (None, before),
    };
    let Ok(given) = arguments::parse_unchecked(called, before) else { return Vec::new() };
    let kind = match pending {
        Some(option) => of_option(option),
        None if last.starts_with('-') => Kind::Words(arguments::options_of(&given.request.command)),
        None => of_argument(called, &given.request),
    };
    let mut found = match kind {
        Kind::Words(words) => words,
        Kind::Name(listed) => names(&given, listed),
        Kind::Free => Vec::new(),
    };
    found.retain(|word| {
        word.starts_with(last.as_str()) && !word.contains(|c: char| c.is_control() || c == ' ')
    });
    found.sort_unstable();
    found.dedup();
    found.truncate(NAMES_MAX);
    found
}

fn words(of: &[&str]) -> Kind {
    Kind::Words(of.iter().map(|word| (*word).to_owned()).collect())
}

fn of_option(option: &str) -> Kind {
    match option {
        "vhost" => Kind::Name(VHOSTS),
        "user" => Kind::Name(USERS),
        "formatter" => words(&["table", "pretty_table", "json", "csv", "erlang"]),
        "object-type" => words(&["queue", "exchange"]),
        "apply-to" => words(&["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"]),
        _ => Kind::Free,
    }
}

fn of_argument(called: Called, request: &Request) -> Kind {
    if request.command.is_empty() {
        return Kind::Words(commands(called));
    }
    let Some(entry) = catalogue::find(&request.command) else { return Kind::Free };
    match placeholders(entry.usage).get(request.args.len()) {
        Some(name) if name.contains(" | ") => {
            Kind::Words(name.split(" | ").map(|word| word.trim().to_owned()).collect())
        }
        Some(&("queue" | "queue_name")) => Kind::Name(QUEUES),
        Some(&"exchange") => Kind::Name(EXCHANGES),
        Some(&"username") if entry.name != "add_user" => Kind::Name(USERS),
        Some(&"vhost") if entry.name != "add_vhost" => Kind::Name(VHOSTS),
        Some(&"command") => Kind::Words(commands(called)),
        Some(&"name") => match entry.name {
            "list_policies_that_match" => Kind::Name(QUEUES),
            "clear_policy" => Kind::Name(("list_policies", "name")),
            "clear_operator_policy" => Kind::Name(("list_operator_policies", "name")),
            "clear_global_parameter" => Kind::Name(("list_global_parameters", "name")),
            "restart_shovel" | "delete_shovel" => Kind::Name(SHOVELS),
            _ => Kind::Free,
        },
        _ => Kind::Free,
    }
}

fn commands(called: Called) -> Vec<String> {
    let shown = catalogue::all().iter().filter(|entry| called.shows(entry.section));
    shown.map(|entry| called.word(entry.name).to_owned()).collect()
}

/// The arguments of a usage line in their order, without those of options: `<name>` each, perhaps in brackets.
pub(super) fn placeholders(usage: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = usage;
    while let Some(at) = rest.find(['[', '<']) {
        let (opening, closing) = if rest.as_bytes()[at] == b'[' { ('[', ']') } else { ('<', '>') };
        let inner = &rest[at + 1..];
        let mut depth = 1;
        let end = inner.find(|letter| {
            depth += i32::from(letter == opening) - i32::from(letter == closing);
            depth == 0
        });
        let Some(end) = end else { return found };
        let inside = inner[..end].trim();
        match opening {
            '<' => found.push(inside),
            _ if inside.starts_with('-') => (),
            _ => found.extend(placeholders(inside)),
        }
        rest = &inner[end + 1..];
    }
    found
}

/// Asks the server that the command is for, unless that would ask for a password.
fn names(given: &Arguments, (command, column): Listed) -> Vec<String> {
    let Ok(server) = Server::meant(given, Asking::Never) else { return Vec::new() };
    let mut request = Request { command: command.into(), ..Request::default() };
    request.args.extend((!column.is_empty()).then(|| column.to_owned()));
    let vhost = given.request.options.get("vhost");
    request.options.extend(vhost.map(|vhost| ("vhost".to_owned(), vhost.clone())));
    match server.call(&request, TIMEOUT) {
        Ok(Answer::Rows(rows)) => {
            let at = rows.columns.iter().position(|name| name == "name" || name == "user").unwrap_or(0);
            rows.rows.iter().filter_map(|row| row.get(at)?.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        candidates(Called::Warren, &words)
    }

    #[test]
    fn arguments_are_told_from_the_values_of_options() {
        assert_eq!(placeholders("[--vhost <vhost>] <queue_name> [--if-empty|-e]"), ["queue_name"]);
        assert_eq!(
            placeholders("<username> [<password>] [<hash> --pre-hashed]"),
            ["username", "password", "hash"]
        );
        assert_eq!(
            placeholders("[--tags \"<a>,<b>\"] <cpu | heap> [<argument> ...]"),
            ["cpu | heap", "argument"]
        );
        assert_eq!(placeholders("<broken"), [""; 0]);
    }

    #[test]
    fn commands_options_and_fixed_words_need_no_server() {
        assert!(after("list_us").contains(&"list_users".to_owned()));
        assert!(after("-q -p / purge_").contains(&"purge_queue".to_owned()));
        assert_eq!(after("list_queues --formatter pr"), ["pretty_table"]);
        assert_eq!(after("delete_queue --if"), ["--if-empty", "--if-unused"]);
        assert!(after("help list_queu").contains(&"list_queues".to_owned()));
        assert_eq!(after("completion z"), ["zsh"]);
        assert!(after("profile h").contains(&"heap".to_owned()));
        assert_eq!(after("--data-dir /none purge_queue "), [""; 0]);
        assert_eq!(after("no_such_command x"), [""; 0]);
    }

    #[test]
    fn of_each_argument_it_is_known_what_it_names() {
        let kind = |command: &str, args: &[&str]| {
            let args = args.iter().map(|word| (*word).to_owned()).collect();
            of_argument(Called::Warren, &Request { command: command.into(), args, ..Request::default() })
        };
        assert_eq!(kind("purge_queue", &[]), Kind::Name(QUEUES));
        assert_eq!(kind("purge_queue", &["q"]), Kind::Free);
        assert_eq!(kind("set_topic_permissions", &["u"]), Kind::Name(EXCHANGES));
        assert_eq!(kind("add_user", &[]), Kind::Free);
        assert_eq!(kind("delete_vhost", &[]), Kind::Name(VHOSTS));
        assert_eq!(of_option("vhost"), Kind::Name(VHOSTS));
    }
}
