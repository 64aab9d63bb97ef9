//! Everything that a report of a problem needs, in one text. Refuses to know what the listings hold.

use broker::Broker;

use crate::ctl::format::{Format, Headers, render};
use crate::ctl::protocol::{Answer, Request};
use crate::ctl::table;
use crate::resources::node::Node;

/// Commands about the node, ...
const OF_NODE: &[&str] =
    &["status", "environment", "os_env", "list_users", "list_vhosts", "list_connections", "list_channels"];

/// ... and about each vhost, with their columns.
const OF_VHOST: &[(&str, &[&str])] = &[
    (
        "list_queues",
        &[
            "name",
            "durable",
            "auto_delete",
            "exclusive",
            "arguments",
            "state",
            "messages_ready",
            "messages_unacknowledged",
            "consumers",
            "memory",
        ],
    ),
    ("list_exchanges", &["name", "type", "durable", "auto_delete", "internal", "arguments"]),
    ("list_bindings", &[]),
    ("list_consumers", &[]),
    ("list_permissions", &[]),
    ("list_topic_permissions", &[]),
];

/// All sections, one below the other; a section that fails says so in its place.
pub(crate) fn report(broker: &Broker, node: &Node) -> Answer {
    let mut ok = String::new();
    for command in OF_NODE {
        let request = Request { command: (*command).into(), ..Request::default() };
        section(&mut ok, command, broker, node, &request);
    }
    for vhost in broker.vhosts() {
        for (command, columns) in OF_VHOST {
            let mut request = Request { command: (*command).into(), ..Request::default() };
            request.args = columns.iter().map(|column| (*column).into()).collect();
            request.options.insert("vhost".into(), vhost.name().into());
            section(&mut ok, &format!("{command} of vhost {}", vhost.name()), broker, node, &request);
        }
    }
    Answer::Done { ok: ok.trim_end().into() }
}

fn section(text: &mut String, title: &str, broker: &Broker, node: &Node, request: &Request) {
    text.push_str(&format!("== {title}\n\n"));
    let said = match table::run(broker, node, request) {
        Answer::Rows(rows) => render(&rows, Format::Table, Headers::Shown),
        Answer::Facts { text, .. } => text,
        Answer::Done { ok } => ok,
        Answer::Failed(failure) => failure.error,
    };
    text.push_str(said.trim_end());
    text.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_every_section_and_none_fails() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), broker::BrokerOptions::default()).unwrap();
        let Answer::Done { ok } = report(&broker, &crate::resources::node::tests::sample()) else { panic!() };
        for title in OF_NODE.iter().chain(OF_VHOST.iter().map(|(command, _)| command)) {
            assert!(ok.contains(&format!("== {title}")), "{title}");
        }
        assert!(ok.contains("amq.topic") && !ok.contains("Error"), "{ok}");
    }
}
