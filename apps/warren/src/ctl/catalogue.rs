//! Catalogue of the commands, how each is used and its purpose, read from `commands.txt`; and which commands of RabbitMQ's
//! tools there are not. Refuses to know how a command is done.

use std::sync::LazyLock;

use crate::config::nearest_of;

/// One command.
#[derive(Debug)]
pub(super) struct Entry {
    /// RabbitMQ's name of it.
    pub(super) name: &'static str,
    /// Arguments and options in RabbitMQ's notation.
    pub(super) usage: &'static str,
    /// Fewest positional arguments.
    pub(super) arguments_min: usize,
    /// Most positional arguments.
    pub(super) arguments_max: usize,
    /// Options besides those of all commands, by long name; a trailing `=` says that a value follows.
    pub(super) options: Vec<&'static str>,
    /// Whether its usage mentions the timeout, which every command takes.
    pub(super) shows_timeout: bool,
    /// Its effect.
    pub(super) about: &'static str,
    /// A line to try, without the name of the program; the name alone where there is nothing to choose.
    pub(super) example: &'static str,
    /// Heading in the guide.
    pub(super) section: &'static str,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| read(include_str!("commands.txt")));

/// Commands of RabbitMQ's tools that are not here, and why.
const ABSENT: &[(&str, &[&str])] = &[
    (
        "there is no Erlang to run code in",
        &[
            "eval",
            "eval_file",
            "exec",
            "remote_shell",
            "observer",
            "runtime_thread_stats",
            "erlang_cookie_hash",
            "erlang_cookie_sources",
            "resolver_info",
        ],
    ),
    (
        "a node keeps its name and knows the others by their links",
        &["rename_cluster_node", "update_cluster_nodes"],
    ),
    ("`force_boot` does it", &["force_standalone_khepri_boot"]),
    ("`cipher_suites` lists what there is", &["list_ciphers", "list_hashes"]),
    ("disk space is always watched", &["deactivate_free_disk_space_monitoring"]),
    ("messages are not intercepted", &["list_channel_interceptors", "set_channel_interceptor_priorities"]),
    ("a group of stream consumers always has an active one", &["activate_stream_consumer"]),
    (
        "a stream has one member, and no coordinator",
        &["stream_status", "coordinator_status", "add_replica", "delete_replica", "restart_stream"],
    ),
    (
        "queues are not mirrored, and no policy can say so; nor in RabbitMQ 4, where these fail",
        &[
            "list_policies_with_classic_queue_mirroring",
            "list_operator_policies_with_classic_queue_mirroring",
            "check_if_cluster_has_classic_queue_mirroring_policy",
            "remove_classic_queue_mirroring_from_policies",
        ],
    ),
    ("the metrics `warren_metadata_...` of each node show it", &["metadata_store_status"]),
    ("values in configuration files are not encrypted", &["encrypt_conf_value", "decrypt_conf_value"]),
];

/// All commands, section by section.
pub(super) fn all() -> &'static [Entry] {
    &ENTRIES
}

/// The command of that name.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// Why RabbitMQ's command of that name is not here.
pub(super) fn absent(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why)
}

/// Shortest part of a name that stands for the whole.
const PART_CHARS_MIN: usize = 6;

/// The command that a slip of the keyboard or half a name may have meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let close_enough = (name.chars().count() / 4).max(1);
    nearest_of(name, close_enough, ENTRIES.iter().map(|entry| entry.name)).or_else(|| {
        let part = |entry: &&Entry| name.len() >= PART_CHARS_MIN && entry.name.contains(name);
        ENTRIES.iter().find(part).map(|entry| entry.name)
    })
}

/// `# Heading`, then per command a line `name arguments` and an indented one `MIN-MAX options : about`.
fn read(text: &'static str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = "";
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            section = heading;
        } else if let Some(example) = line.strip_prefix("    $ ") {
            entries.last_mut().expect("an example stands below its command").example = example;
        } else if let Some(meta) = line.strip_prefix("    ") {
            let entry = entries.last_mut().expect("a line of commands.txt describes the command above it");
            describe(entry, meta);
        } else {
            let (name, usage) = line.split_once(' ').unwrap_or((line, ""));
            entries.push(Entry {
                name,
                usage,
                arguments_min: 0,
                arguments_max: 0,
                options: Vec::new(),
                shows_timeout: false,
                about: "",
                example: name,
                section,
            });
        }
    }
    entries
}

fn describe(entry: &mut Entry, meta: &'static str) {
    let (words, about) =
        meta.split_once(" : ").expect("commands.txt says behind a colon what a command does");
    entry.about = about;
    for word in words.split(' ') {
        if let Some(option) = word.strip_prefix("--") {
            entry.options.push(option);
        } else if word == "timeout" {
            entry.shows_timeout = true;
        } else {
            let (min, max) = word.split_once('-').expect("commands.txt holds a range of arguments");
            entry.arguments_min = min.parse().expect("the least number of arguments is one");
            entry.arguments_max = if max == "*" {
                usize::MAX
            } else {
                max.parse().expect("the most arguments are a number or *")
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_described_once() {
        let mut names: Vec<&str> = all().iter().map(|entry| entry.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for entry in all() {
            assert!(entry.arguments_min <= entry.arguments_max && !entry.section.is_empty(), "{entry:?}");
            assert!(absent(entry.name).is_none(), "{entry:?}");
        }
        for entry in all() {
            assert_eq!(entry.example.split(' ').next(), Some(entry.name), "the example of another command");
        }
        let add_user = find("add_user").unwrap();
        assert_eq!((add_user.arguments_min, add_user.arguments_max), (1, 2));
        assert_eq!(add_user.options, ["pre-hashed-password"]);
    }

    /// Commands that no server is asked for.
    const OF_THIS_SIDE: [&str; 9] = [
        "autocomplete",
        "await_online_nodes",
        "await_startup",
        "completion",
        "hash_password",
        "help",
        "list_commands",
        "version",
        "wait",
    ];

    /// Commands that are described only so that this side can say why they are not there.
    const REFUSED: [&str; 2] = ["decode", "encode"];

    #[test]
    fn every_command_that_is_described_is_run_by_somebody_and_every_one_that_is_run_is_described() {
        let described: BTreeSet<&str> = all().iter().map(|entry| entry.name).collect();
        let run: BTreeSet<&str> = management::command_names().chain(OF_THIS_SIDE).chain(REFUSED).collect();
        let nobody_runs: Vec<_> = described.difference(&run).collect();
        let nobody_describes: Vec<_> = run.difference(&described).collect();
        assert_eq!((nobody_runs, nobody_describes), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_slip_of_the_keyboard_is_understood_and_a_guess_is_not_made() {
        assert_eq!(nearest("list_user"), Some("list_users"));
        assert_eq!(nearest("delete_usr"), Some("delete_user"));
        assert_eq!(nearest("feature_flags"), Some("list_feature_flags"));
        assert_eq!((nearest("nonsense"), nearest("list")), (None, None));
        assert!(absent("eval").unwrap().contains("Erlang"));
    }

    #[test]
    fn the_page_about_compatibility_names_every_command_that_is_not_here() {
        let page = include_str!("../../../../docs/compatibility.md");
        let section = page.split("## Commands that are refused").nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        for name in ABSENT.iter().flat_map(|(_, names)| names.iter()) {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
    }
}
