//! Texts for people who ask for help or have made a mistake. Refuses to know how a command is done.

use super::Called;
use super::catalogue::{self, Entry};
use super::explained;

/// Widest line of the guide, columns.
const WIDTH: usize = 118;

/// Widest column of names; a longer name has a line of its own.
const NAMES_WIDTH: usize = 36;

/// Options of every command.
const OPTIONS: &str = "\
Options of every command:

   -p, --vhost VHOST        virtual host of the command [default: /]
   -q, --quiet              print only the answer, without a line about the command
   -s, --silent             as --quiet, and without names of columns
   --formatter FORMAT       table, pretty_table, json, csv, erlang
   --no-table-headers       without names of columns
   -t, --timeout SECONDS    how long to wait for an answer [default: 60]
   --data-dir DIR           data folder of the server [default: $WARREN_DATA_DIR, ./warren-data or /var/lib/warren]
   --url URL                a server elsewhere, through its HTTP API: http://USER@HOST:15672 [default: $WARREN_URL]
   --tls-ca-cert-file FILE  the authority of an https:// server's certificate [default: those of the system]
   --tls-cert-file FILE     the own certificate, for an https:// server that asks for one
   --tls-key-file FILE      the key of that certificate [default: in the same file]
   --insecure               do not check the certificate of an https:// server
   --password-file FILE     the first line is the password for the URL [default: asks on the terminal]
   --dry-run                check the command line, do nothing
   -n, --node NODE          name of the node, or of another one in its cluster [default: $RABBITMQ_NODENAME]
";

/// How one command is used, in one line.
pub(super) fn usage(called: Called, entry: &Entry) -> String {
    let options = match called {
        Called::Warren => "[--data-dir <dir> | --url <url>] [--quiet]",
        _ => "[--node <node>] [--longnames] [--quiet]",
    };
    let space = if entry.usage.is_empty() { "" } else { " " };
    let timeout = if entry.shows_timeout { " [--timeout <timeout>]" } else { "" };
    format!("{} {options} {}{space}{}{timeout}", called.name(), called.word(entry.name), entry.usage)
}

/// All about one command: how it is used, an example, what its arguments, options and columns are.
pub(super) fn of(called: Called, entry: &Entry) -> String {
    let (name, word) = (called.name(), called.word(entry.name));
    let example = entry.example.strip_prefix(entry.name).unwrap_or_default();
    format!(
        "\nUsage\n\n{}\n\n{word} {}.\n\nExample\n\n   {name} {word}{example}\n{}\n{OPTIONS}",
        usage(called, entry),
        entry.about,
        explained::of(entry)
    )
}

/// All commands by section, with what they do.
pub(super) fn all(called: Called) -> String {
    let name = called.name();
    let start = match called {
        Called::RabbitmqPlugins => format!("{name} list · {name} is_enabled rabbitmq_prometheus"),
        Called::RabbitmqStreams => "a stream has one member: the commands about members say so".to_owned(),
        _ => format!(
            "{name} status · {name} list_queues name messages consumers · {name} add_user NAME PASSWORD"
        ),
    };
    let mut text = format!(
        "\nUsage\n\n{name} [<options>] <command> [<command options>]\n\nFor a start: {start}\n\nCommands:\n"
    );
    let mut section = "";
    for entry in catalogue::all().iter().filter(|entry| called.shows(entry.section)) {
        if entry.section != section {
            section = entry.section;
            text.push_str(&format!("\n{section}:\n\n"));
        }
        let (word, indent) = (called.word(entry.name), NAMES_WIDTH + 5);
        if word.len() > NAMES_WIDTH {
            text.push_str(&format!("   {word}\n{:indent$}", ""));
        } else {
            text.push_str(&format!("   {word:<NAMES_WIDTH$}  "));
        }
        wrap(&mut text, entry.about, indent);
    }
    text.push_str(&format!("\n{OPTIONS}\nUse '{name} help <command>' to learn more about a command.\n"));
    text
}

/// Appends words, in lines that begin so far to the right; the first one has begun.
pub(super) fn wrap(text: &mut String, words: &str, indent: usize) {
    let mut column = indent;
    for word in words.split(' ') {
        if column > indent && column + word.chars().count() >= WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        }
        if column > indent {
            text.push(' ');
        }
        text.push_str(word);
        column += word.chars().count() + 1;
    }
    text.push('\n');
}

/// For a command that there is not: the one that was meant, if that is clear, and otherwise all of them.
pub(super) fn not_found(called: Called, command: &str) -> String {
    let advice = meant(command).unwrap_or_else(|| format!("\n{}", all(called)));
    format!("\nCommand '{command}' not found. {advice}")
}

/// The command that was meant, as a question on a line of its own, if that is clear.
pub(super) fn meant(command: &str) -> Option<String> {
    catalogue::nearest(command).map(|nearest| format!("\nDid you mean '{nearest}'? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_every_command_and_no_line_is_too_long() {
        let guide = all(Called::Warren);
        for entry in catalogue::all() {
            assert!(
                guide.lines().any(|line| line.split(' ').any(|word| word == entry.name)),
                "{}",
                entry.name
            );
        }
        for line in guide.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn usage_is_rabbitmqs_when_called_by_its_name() {
        let entry = catalogue::find("purge_queue").unwrap();
        let text = usage(Called::Rabbitmqctl, entry);
        assert_eq!(
            text,
            "rabbitmqctl [--node <node>] [--longnames] [--quiet] purge_queue <queue> [--timeout <timeout>]"
        );
    }
}
