//! Plugins of RabbitMQ that Warren has built in, for `rabbitmq-plugins`: listed, enabled, asked for. Nothing is loaded or unloaded here;
//! some things are switched by the configuration.

use broker::Broker;
use regex::Regex;
use serde_json::{Value, json};

use crate::ctl::commands::{Commands, Outcome, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::{
    HTTP_PROTOCOL, NODE_NAME, Node, PROMETHEUS_PROTOCOL, STREAM_LISTENER_PROTOCOL,
    STREAM_TLS_LISTENER_PROTOCOL,
};

/// Something that RabbitMQ has as a plugin.
struct Plugin {
    name: &'static str,
    about: &'static str,
    /// The switch that turns it on; `None` when it cannot be off.
    switch: Option<Switch>,
}

/// The setting that switches something on.
struct Switch {
    /// In words of the configuration.
    by: &'static str,
    is_on: fn(&Broker, &Node) -> bool,
}

const fn built_in(name: &'static str, about: &'static str) -> Plugin {
    Plugin { name, about, switch: None }
}

fn listens(node: &Node, protocol: &str) -> bool {
    node.listeners.iter().any(|listener| listener.protocol == protocol)
}

const PLUGINS: &[Plugin] = &[
    built_in("rabbitmq_consistent_hash_exchange", "Consistent Hash Exchange Type"),
    built_in("rabbitmq_delayed_message_exchange", "Delayed Message Exchange"),
    Plugin {
        name: "rabbitmq_event_exchange",
        about: "Event Exchange Type",
        switch: Some(Switch {
            by: "warren.event_exchange = true",
            is_on: |broker, _| broker.options().event_exchange_vhost.is_some(),
        }),
    },
    built_in("rabbitmq_jms_topic_exchange", "JMS topic selector exchange"),
    Plugin {
        name: "rabbitmq_management",
        about: "Management HTTP API",
        switch: Some(Switch {
            by: "management.tcp.port = 15672",
            is_on: |_, node| listens(node, HTTP_PROTOCOL),
        }),
    },
    built_in("rabbitmq_management_agent", "Management Agent"),
    built_in("rabbitmq_message_deduplication", "Message Deduplication"),
    Plugin {
        name: "rabbitmq_prometheus",
        about: "Prometheus metrics",
        switch: Some(Switch {
            by: "prometheus.tcp.port = 15692",
            is_on: |_, node| listens(node, PROMETHEUS_PROTOCOL),
        }),
    },
    built_in("rabbitmq_random_exchange", "Random Exchange"),
    built_in("rabbitmq_recent_history_exchange", "Recent History Exchange"),
    built_in("rabbitmq_sharding", "Modulus Hash Exchange"),
    built_in("rabbitmq_shovel", "Data Shovel"),
    built_in("rabbitmq_shovel_management", "Management extension for the Shovel plugin"),
    Plugin {
        name: "rabbitmq_shovel_prometheus",
        about: "Prometheus extension for the Shovel plugin",
        switch: Some(Switch {
            by: "prometheus.tcp.port = 15692",
            is_on: |_, node| listens(node, PROMETHEUS_PROTOCOL),
        }),
    },
    Plugin {
        name: "rabbitmq_stream",
        about: "RabbitMQ Stream",
        switch: Some(Switch {
            by: "stream.listeners.tcp.default = 5552",
            is_on: |_, node| {
                listens(node, STREAM_LISTENER_PROTOCOL) || listens(node, STREAM_TLS_LISTENER_PROTOCOL)
            },
        }),
    },
    built_in("rabbitmq_web_dispatch", "Web Dispatcher"),
];

impl Plugin {
    fn is_on(&self, broker: &Broker, node: &Node) -> bool {
        self.switch.as_ref().is_none_or(|switch| (switch.is_on)(broker, node))
    }
}

/// The commands of `rabbitmq-plugins`.
pub(crate) const COMMANDS: Commands = &[
    ("plugins_list", |it| list(it.broker, it.node, it.request)),
    ("plugins_enable", |it| enable(it.broker, it.node, it.request)),
    ("plugins_set", |it| enable(it.broker, it.node, it.request)),
    ("plugins_disable", |it| disable(it.broker, it.node, it.request)),
    ("plugins_is_enabled", |it| is_enabled(it.broker, it.node, it.request)),
    ("plugins_directories", |_| {
        let text = "Plugins are built in: there are no archives and no directories of them";
        Ok(Answer::Facts { text: text.into(), json: json!({"message": text}) })
    }),
];

/// With `--minimal` names only, with `--verbose` everything; `--enabled` and `--implicitly-enabled` leave out the rest.
fn list(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let text = request.args.first().map_or(".*", String::as_str);
    let pattern = Regex::new(text).map_err(|_| usage(&format!("'{text}' is no regular expression")))?;
    if request.has("minimal") && request.has("verbose") {
        let text = "Error (argument validation): Bad argument: Cannot set both verbose and minimal";
        return Err(Failure::new(Exit::DATA, text));
    }
    let only_on = request.has("enabled") || request.has("implicitly-enabled");
    let shown: Vec<(&Plugin, bool)> = PLUGINS
        .iter()
        .filter(|plugin| pattern.is_match(plugin.name))
        .map(|plugin| (plugin, plugin.is_on(broker, node)))
        .filter(|(_, is_on)| *is_on || !only_on)
        .collect();
    let version = &node.rabbitmq_version;
    let object = |(plugin, is_on): &(&Plugin, bool)| -> Value {
        json!({
            "name": plugin.name,
            "enabled": if *is_on { "enabled" } else { "not_enabled" },
            "running": is_on,
            "version": version,
            "running_version": if *is_on { version.as_str() } else { "" },
        })
    };
    let format = if request.has("minimal") {
        "minimal"
    } else if request.has("verbose") {
        "verbose"
    } else {
        "normal"
    };
    let legend = if format == "normal" && !request.has("quiet") && !request.has("silent") {
        format!("{LEGEND}\n | Status: * = running on {NODE_NAME}\n |/\n")
    } else {
        String::new()
    };
    let json = json!({"status": "running", "format": format, "plugins": shown.iter().map(object).collect::<Vec<_>>()});
    let text = legend + &listing(&shown, format, version);
    Ok(Answer::Facts { text: text.trim_end_matches('\n').into(), json })
}

/// The meaning of the first letter of each line.
const LEGEND: &str = " Configured: E = explicitly enabled; e = implicitly enabled";

fn listing(shown: &[(&Plugin, bool)], format: &str, version: &str) -> String {
    let widest = shown.iter().map(|(plugin, _)| plugin.name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (plugin, is_on) in shown {
        let mark = if *is_on { "[E*]" } else { "[  ]" };
        match format {
            "minimal" => lines.push(plugin.name.into()),
            "verbose" => {
                lines.push(format!("{mark} {}", plugin.name));
                lines.push(format!("     Version:     \t{version}"));
                lines.push(format!("     Description: \t{}", plugin.about));
                lines.extend(plugin.switch.as_ref().map(|it| format!("     Switched by: \t{}", it.by)));
            }
            _ => lines.push(format!("{mark} {:<widest$} {version}", plugin.name)),
        }
    }
    lines.join("\n")
}

fn named(name: &str) -> Result<&'static Plugin, Failure> {
    PLUGINS.iter().find(|plugin| plugin.name == name).ok_or_else(|| {
        let text = format!(
            "Error:\nWarren has no plugin '{name}'. Built in are: {}",
            PLUGINS.iter().map(|plugin| plugin.name).collect::<Vec<_>>().join(", ")
        );
        Failure::new(Exit::UNAVAILABLE, text)
    })
}

/// A built-in plugin is enabled already; the answer for a switch of the configuration says how to turn it on.
fn enable(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    for name in words(request) {
        let plugin = named(name)?;
        if let Some(switch) = plugin.switch.as_ref().filter(|_| !plugin.is_on(broker, node)) {
            let text = format!(
                "Error:\n{name} is switched off by the configuration: add '{}' to it and start the server again",
                switch.by
            );
            return Err(Failure::new(Exit::UNAVAILABLE, text));
        }
    }
    if request.has("all") || !request.args.is_empty() || request.command == "plugins_set" {
        return Ok(unchanged(broker, node));
    }
    Err(usage("not enough arguments."))
}

/// Nothing can be taken out of the program: said, and not refused, so that scripts go on.
fn disable(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    if request.args.is_empty() && !request.has("all") {
        return Err(usage("not enough arguments."));
    }
    for name in words(request) {
        named(name)?;
    }
    Ok(unchanged(broker, node))
}

fn words(request: &Request) -> impl Iterator<Item = &str> {
    request.args.iter().map(String::as_str)
}

/// Names of those that are on.
pub(crate) fn on<'a>(broker: &'a Broker, node: &'a Node) -> impl Iterator<Item = &'static str> + 'a {
    PLUGINS.iter().filter(|plugin| plugin.is_on(broker, node)).map(|plugin| plugin.name)
}

fn unchanged(broker: &Broker, node: &Node) -> Answer {
    let enabled: Vec<&str> = on(broker, node).collect();
    let text = format!(
        "The following plugins have been configured:\n  {}\nApplying plugin configuration to {NODE_NAME}...\nPlugin \
         configuration unchanged.",
        enabled.join("\n  ")
    );
    let json = json!({"mode": "online", "enabled": enabled, "set": enabled, "started": [], "stopped": []});
    Answer::Facts { text, json }
}

fn is_enabled(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let enabled: Vec<&str> = on(broker, node).collect();
    let (asked, missing): (Vec<&str>, Vec<&str>) =
        (words(request).collect(), words(request).filter(|name| !enabled.contains(name)).collect());
    let told = |names: &[&str], all: &str| match names {
        [one] => format!("Plugin {one} is {all} on node {NODE_NAME}"),
        many => format!("Plugins {} are {all} on node {NODE_NAME}", many.join(", ")),
    };
    if missing.is_empty() {
        let text = told(&asked, "enabled");
        return Ok(Answer::Facts { json: json!({"message": text, "result": "ok"}), text });
    }
    let text = format!(
        "Error:\n{}. Enabled plugins and dependencies: {}",
        told(&missing, "not enabled"),
        enabled.join(", ")
    );
    Err(Failure::new(Exit::UNAVAILABLE, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::commands::Call;
    use crate::resources::node::tests::sample;

    fn ask(command: &str, args: &[&str], flags: &[&str]) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), broker::BrokerOptions::default()).unwrap();
        let request = Request {
            command: command.into(),
            args: args.iter().map(|word| (*word).into()).collect(),
            options: flags.iter().map(|flag| ((*flag).into(), String::new())).collect(),
        };
        let (_, run) = COMMANDS.iter().find(|(name, _)| *name == command).unwrap();
        let outcome = run(&Call { broker: &broker, node: &sample(), request: &request });
        broker.shutdown();
        outcome
    }

    fn text(outcome: Outcome) -> String {
        match outcome {
            Ok(Answer::Facts { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_built_in_is_listed_and_what_is_off_is_marked() {
        let all = text(ask("plugins_list", &[], &[]));
        assert!(all.contains("[E*] rabbitmq_delayed_message_exchange 4.3.6"), "{all}");
        assert!(all.contains("[  ] rabbitmq_event_exchange"), "{all}");
        assert_eq!(
            text(ask("plugins_list", &["event|sharding"], &["minimal", "enabled"])),
            "rabbitmq_sharding"
        );
        assert_eq!(ask("plugins_list", &["("], &[]).unwrap_err().exit, Exit::USAGE);
        assert_eq!(ask("plugins_list", &[], &["minimal", "verbose"]).unwrap_err().exit, Exit::DATA);
    }

    #[test]
    fn enabling_says_what_is_missing() {
        assert!(
            text(ask("plugins_enable", &["rabbitmq_sharding"], &[])).ends_with("configuration unchanged.")
        );
        let off = ask("plugins_enable", &["rabbitmq_event_exchange"], &[]).unwrap_err();
        assert!(off.error.contains("warren.event_exchange = true"), "{}", off.error);
        let none = ask("plugins_enable", &["rabbitmq_ldap"], &[]).unwrap_err();
        assert!(none.exit == Exit::UNAVAILABLE && none.error.contains("rabbitmq_sharding"));
        assert_eq!(ask("plugins_disable", &[], &[]).unwrap_err().exit, Exit::USAGE);
        assert!(ask("plugins_disable", &["rabbitmq_sharding"], &[]).is_ok());
    }

    #[test]
    fn many_plugins_may_be_asked_for_at_once() {
        let two = ["rabbitmq_sharding", "rabbitmq_random_exchange"];
        assert!(text(ask("plugins_is_enabled", &two, &[])).starts_with("Plugins rabbitmq_sharding, "));
        let off = ask("plugins_is_enabled", &["rabbitmq_sharding", "x"], &[]).unwrap_err();
        assert!(off.error.starts_with("Error:\nPlugin x is not enabled on node"), "{}", off.error);
    }
}
