//! Keys of the node itself: data folder, durability, names.

use crate::config::key::{Key, Section, Take, Unit};
use crate::config::options::Durability;
use std::path::PathBuf;

pub(super) static SECTION: Section = Section {
    title: "Node and storage",
    about: "Where data lies and what a confirm promises. Keys that start with `warren.` are Warren's own.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "warren.data_dir",
        alias: None,
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                options.node.data_dir = path(value)?;
                Ok(())
            },
        },
        default: "warren-data",
        doc: "Folder for all data. It is made if it does not exist. One server at a time may use it.",
        example: "warren.data_dir = /var/lib/warren",
    },
    Key {
        name: "warren.durability",
        alias: None,
        take: Take::Choice {
            of: &["fsync", "os"],
            not_yet: &[],
            set: |options, value| {
                options.node.durability = if value == "os" { Durability::Os } else { Durability::Fsync };
            },
        },
        default: "fsync",
        doc: "The promise of the confirm of a persistent message in a durable queue. `fsync`: it is on disk and \
              survives a power cut. `os`: the operating system has it, so that it survives the process but not a \
              power cut. RabbitMQ's classic queues promise `os`.",
        example: "warren.durability = os",
    },
    Key {
        name: "cluster_name",
        alias: None,
        take: Take::Text {
            shape: "text",
            set: |options, value| {
                options.node.cluster_name = (!value.is_empty()).then(|| value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "Name that clients see in the server properties; unset lets the node choose one.",
        example: "cluster_name = shop-production",
    },
    Key {
        name: "cluster_tags.$tag",
        alias: None,
        take: Take::List {
            shape: "text",
            clear: |options| options.node.tags.cluster.clear(),
            add: |options, tag, value| {
                options.node.tags.cluster.insert(tag.to_owned(), value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "A tag of the cluster, shown in the overview of the HTTP API.",
        example: "cluster_tags.region = eu-north",
    },
    Key {
        name: "node_tags.$tag",
        alias: None,
        take: Take::List {
            shape: "text",
            clear: |options| options.node.tags.node.clear(),
            add: |options, tag, value| {
                options.node.tags.node.insert(tag.to_owned(), value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "A tag of the node, shown in the overview of the HTTP API.",
        example: "node_tags.rack = r12",
    },
    Key {
        name: "load_definitions",
        alias: Some("management.load_definitions"),
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                options.node.load_definitions = Some(path(value)?);
                Ok(())
            },
        },
        default: "",
        doc: "A definitions file (JSON, as `export_definitions` writes it) to import at every start, before \
              clients connect. A folder stands for its `.json` files, in order of their names. The import adds and \
              changes, and never deletes. With it, the first start makes no default user and virtual host. A \
              mistake in it stops the start.",
        example: "load_definitions = /etc/warren/definitions.json",
    },
    Key {
        name: "definitions.import_backend",
        alias: None,
        take: Take::Choice { of: &["local_filesystem"], not_yet: &["https"], set: |_, _| {} },
        default: "local_filesystem",
        doc: "Kind of place that `definitions.local.path` names.",
        example: "definitions.import_backend = local_filesystem",
    },
    Key {
        name: "definitions.local.path",
        alias: None,
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                options.node.definitions_path = Some(path(value)?);
                Ok(())
            },
        },
        default: "",
        doc: "The same as `load_definitions`; it wins if both are set.",
        example: "definitions.local.path = /etc/warren/definitions.d",
    },
    Key {
        name: "definitions.skip_if_unchanged",
        alias: None,
        take: Take::Boolean { set: |options, skip| options.node.definitions_skip_unchanged = skip.into() },
        default: "false",
        doc: "Imports definitions only if they have changed since the last start that imported any.",
        example: "definitions.skip_if_unchanged = true",
    },
    Key {
        name: "warren.definitions.skip_unsupported",
        alias: None,
        take: Take::Boolean { set: |options, skip| options.node.definitions_unsupported = skip.into() },
        default: "false",
        doc: "Leaves out parts that Warren does not have yet (streams) and names them in the log, \
              instead of refusing to start.",
        example: "warren.definitions.skip_unsupported = true",
    },
    Key {
        name: "warren.profile.continuous",
        alias: None,
        take: Take::Boolean { set: |options, on| options.node.profile_continuous = on.into() },
        default: "false",
        doc: "Keeps a history of CPU profiles of the last two hours (`warren ctl profile history`). Also keeps a copy \
              of the last minute whenever something is slow or memory is nearly used up (`warren ctl profile \
              captures`). Costs less than a hundredth of the CPU time.",
        example: "warren.profile.continuous = true",
    },
    Key {
        name: "warren.profile.slow_ms",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 600_000,
            unit: Unit::Milliseconds,
            set: |options, slow_ms| options.node.profile_slow_ms = slow_ms,
        },
        default: "250",
        doc: "A copy is kept when one batch in a hundred takes longer than this to be enqueued, acknowledged, \
              synced or confirmed.",
        example: "warren.profile.slow_ms = 50",
    },
    Key {
        name: "warren.event_exchange",
        alias: None,
        take: Take::Boolean { set: |options, on| options.node.event_exchange = on.into() },
        default: "false",
        doc: "Declares the topic exchange `amq.rabbitmq.event` at start and publishes events there, such as \
              `queue.created` and `connection.closed`, as RabbitMQ's plugin `rabbitmq_event_exchange` does. Costs \
              nothing while no queue is bound to it. A user who may bind queues to it learns what happens in all \
              virtual hosts.",
        example: "warren.event_exchange = true",
    },
    Key {
        name: "event_exchange.vhost",
        alias: None,
        take: Take::Text {
            shape: "virtual host",
            set: |options, value| {
                options.node.event_exchange_vhost = value.to_owned();
                Ok(())
            },
        },
        default: "/",
        doc: "Virtual host of `amq.rabbitmq.event`; it must exist at start.",
        example: "event_exchange.vhost = operations",
    },
    Key {
        name: "event_exchange.protocol",
        alias: None,
        take: Take::Choice { of: &["amqp_0_9_1"], not_yet: &["amqp_1_0"], set: |_, _| {} },
        default: "amqp_0_9_1",
        doc: "Shape of events: messages of AMQP 0-9-1 with headers.",
        example: "event_exchange.protocol = amqp_0_9_1",
    },
];

fn path(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("expected a path".to_owned()) } else { Ok(PathBuf::from(value)) }
}
