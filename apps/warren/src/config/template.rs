//! A configuration file that sets nothing and has every key in a comment, made from the table. Packages install it.
//! Refuses to know where it is written.

use super::key::{Key, Take};
use super::keys;

/// Widest line of prose, columns.
const WIDTH: usize = 110;

const HEAD: &str = "\
## Warren's configuration, with RabbitMQ's key names. As it stands it sets nothing: every key has its default.
## To change one, remove the `# ` before it and write the value. Lines with two marks are explanations; where a key
## has no default, or is a list, its line is an example.
##
## Check before you restart:  warren config --check FILE
## The page of all keys:      docs/configuration.md, or `warren config`
##
## Flags and environment variables win over this file. The systemd unit and the container image of the packages give
## `--data-dir`, so that `warren.data_dir` has no effect there.
##
## Made from the table in apps/warren/src/config/keys by `cargo xtask config-reference`.
";

/// The whole file; its comments are lines that start with `##`, its keys with `# `.
pub fn template() -> String {
    let mut file = HEAD.to_owned();
    for section in keys::sections() {
        let rule = "=".repeat(WIDTH - 3);
        file.push_str(&format!("\n## {rule}\n## {}\n", section.title));
        file.push_str(&prose(section.about));
        file.push_str(&format!("## {rule}\n"));
        for key in section.keys {
            file.push('\n');
            file.push_str(&entry(key));
        }
    }
    file
}

fn entry(key: &Key) -> String {
    let alias = key.alias.map_or_else(String::new, |alias| format!(" Also `{alias}`."));
    let default = if key.default.is_empty() { "unset" } else { key.default };
    let value = format!("Value: {}. Default: {default}.{alias}", key.take.describe());
    format!("{}{}# {}\n", prose(key.doc), prose(&value), setting(key))
}

/// The line that sets a key: to its default where one line can say it, otherwise the example.
fn setting(key: &Key) -> String {
    match key.take {
        Take::List { .. } => key.example.to_owned(),
        _ if key.default.is_empty() => key.example.to_owned(),
        _ if key.default.contains('#') => format!("{} = '{}'", key.name, key.default),
        _ => format!("{} = {}", key.name, key.default),
    }
}

/// Lines of a comment, not wider than [`WIDTH`] unless a word is.
fn prose(text: &str) -> String {
    let mut lines = String::new();
    let mut line = "##".to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = "##".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Options, parse};

    #[test]
    fn the_packaged_file_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/rabbitmq.conf");
        let file = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            file == template(),
            "packaging/rabbitmq.conf is out of date: run `cargo xtask config-reference`"
        );
    }

    #[test]
    fn as_it_stands_it_changes_nothing() {
        assert_eq!(parse(&template(), &|_| None).unwrap(), Options::default());
    }

    #[test]
    fn it_has_each_key_once_and_each_line_works_when_its_mark_is_removed() {
        let file = template();
        let lines: Vec<&str> = file.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        assert_eq!(lines.len(), keys::all().count());
        for (key, line) in keys::all().zip(lines) {
            assert!(line.starts_with(key.name.split('$').next().unwrap()), "{}: {line}", key.name);
            let options = parse(line, &|_| Some("hare".to_owned()));
            let options = options.unwrap_or_else(|problems| panic!("{line}: {problems:?}"));
            if !key.default.is_empty() && !matches!(key.take, Take::List { .. }) {
                assert_eq!(options, Options::default(), "{line}");
            }
        }
    }

    #[test]
    fn no_line_is_wider_than_a_screen() {
        for line in template().lines().filter(|line| line.starts_with("##")) {
            assert!(line.chars().count() <= 120, "{line}");
        }
    }
}
