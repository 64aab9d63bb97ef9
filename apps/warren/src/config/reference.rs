//! The reference of all keys, made from the table: Markdown for the documentation, plain text for a terminal.
//! Refuses to know where it is printed.

use super::key::Key;
use super::keys;
use std::fmt::Write;

const HEAD: &str = "\
<!-- Made from the table in apps/warren/src/config/keys by `cargo xtask config-reference`; edit that table. -->

# Configuration

Warren reads RabbitMQ's `rabbitmq.conf` with RabbitMQ's key names: `warren server --config rabbitmq.conf`. Without a file it
runs with the defaults below. A flag of the command line wins over an environment variable, that wins over the file, and the
file wins over the default.

`--config-dir DIR` reads a folder as RabbitMQ reads `/etc/rabbitmq`: `rabbitmq.conf`, then `conf.d/*.conf` in order of their names, and
imports `definitions.json` at every start unless `load_definitions` says otherwise. Each may be missing. The packages use
`/etc/warren`, the container image `/etc/rabbitmq`.

| flag | environment variable | meaning |
|---|---|---|
| `--config FILE` | `WARREN_CONFIG` | the configuration file |
| `--config-dir DIR` | `WARREN_CONFIG_DIR` | a folder of configuration files and definitions |
| `--data-dir DIR` | `WARREN_DATA_DIR` | `warren.data_dir` |
| `--listen ADDR:PORT` (repeatable) | `WARREN_LISTEN` (commas between several) | replaces all `listeners.tcp.*` |
| `--all-interfaces` | `WARREN_ALL_INTERFACES=true` | AMQP, HTTP API and metrics listen on all interfaces where nothing says otherwise |
| `--node NAME` | `WARREN_NODE` | name of the node: `warren@localhost`, or `warren@HOST` in a cluster |
| `--cluster-listen ADDR:PORT` | `WARREN_CLUSTER_LISTEN` | `warren.cluster.listen` |
| `--cluster-advertise HOST:PORT` | `WARREN_CLUSTER_ADVERTISE` | `warren.cluster.advertise` |
| `--cluster-seeds HOST:PORT,...` | `WARREN_CLUSTER_SEEDS` | nodes of the cluster to dial; the node itself may be among them |
| `--log LEVEL` | `WARREN_LOG` | level of the console log, or a filter such as `info,net=debug` |
| `--log-format human` or `json` | `WARREN_LOG_FORMAT` | shape of the console log |

Of RabbitMQ's variables these have an effect. Any other `RABBITMQ_...` that is set is named in a warning at the start, with what to use instead.

| variable | meaning |
|---|---|
| `RABBITMQ_CONFIG_FILE` | the configuration file, with or without `.conf` |
| `RABBITMQ_CONFIG_FILES` | a folder, or a pattern such as `/etc/x/*.conf`, of further files |
| `RABBITMQ_DEFAULT_USER`, `RABBITMQ_DEFAULT_PASS`, `RABBITMQ_DEFAULT_VHOST` | first user and vhost of a new data folder; they win over the files |
| `RABBITMQ_NODE_PORT`, `RABBITMQ_NODE_IP_ADDRESS` | where AMQP listens, if the files have no `listeners.tcp` |
| `RABBITMQ_LOG` | level of the console log |
| `RABBITMQ_LOGS` | the log file, or `-` for the console |
| `RABBITMQ_NODENAME` | `--node` |
| `RABBITMQ_USE_LONGNAME` | `true`: a name without a host gets the whole name of the machine |
| `RABBITMQ_ERLANG_COOKIE` | the secret that all nodes of a cluster share |
| `RABBITMQ_DIST_PORT` | the port of links between nodes |
| `RABBITMQ_PID_FILE` | a file that gets the number of the process |

How the file reads:

- One `key = value` per line. `#` starts a comment, also behind a value. Of two lines for one key the later one wins.
- A value that holds a `#`, or that is empty, goes between single quotes: `default_pass = 'a#b'`.
- A dot inside one word of a key is written `\\.`: `loopback_users.first\\.last = true`.
- `$(NAME)` in a value is replaced by the value of the key NAME in the same file, or else by the environment variable NAME. A
  name that is neither is an error.
- Sizes in bytes may end in `KB`, `MB` or `GB` (powers of 1024).
- A key that Warren does not know is an error, with its line and the nearest key it does know. So is a bad value. Nothing is
  ignored silently, and a file with any problem starts nothing.

`warren config --check FILE` reads a file and reports its problems without starting anything; `warren config` prints this list, and
`warren config --template` a file with every key in a comment, to start from.
";

/// The whole reference page.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for section in keys::sections() {
        page.push_str(&format!("\n## {}\n\n{}\n", section.title, section.about));
        for key in section.keys {
            page.push_str(&entry(key));
        }
    }
    page
}

fn entry(key: &Key) -> String {
    let alias = key.alias.map_or_else(String::new, |alias| format!(" (also `{alias}`)"));
    let default = if key.default.is_empty() { "unset".to_owned() } else { format!("`{}`", key.default) };
    format!(
        "\n### `{}`{alias}\n\n{}\n\n- value: {}\n- default: {default}\n- example: `{}`\n",
        key.name,
        key.doc,
        key.take.describe(),
        key.example
    )
}

/// The same in plain text, one block per key.
pub fn plain() -> String {
    let mut text = String::new();
    for section in keys::sections() {
        let _ = writeln!(text, "{}\n  {}\n", section.title.to_uppercase(), section.about);
        for key in section.keys {
            let alias = key.alias.map_or_else(String::new, |alias| format!(" (also {alias})"));
            let default = if key.default.is_empty() { "unset" } else { key.default };
            let value = key.take.describe().replace('`', "");
            let _ = writeln!(
                text,
                "  {}{alias}\n      {}\n      value: {value}; default: {default}",
                key.name, key.doc
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/configuration.md is out of date: run `cargo xtask config-reference`"
        );
    }

    #[test]
    fn both_references_name_every_key() {
        let (markdown, plain) = (markdown(), plain());
        for key in keys::all() {
            assert!(markdown.contains(key.name) && plain.contains(key.name), "{}", key.name);
            assert!(markdown.contains(key.example), "{}", key.name);
        }
    }
}
