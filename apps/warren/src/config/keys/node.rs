//! Keys of the node itself: data folder, durability, names.

use crate::config::key::{Key, Section, Take};
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
        doc: "Folder of everything that lasts; made if it does not exist. One server at a time may use it.",
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
        doc: "What the confirm of a persistent message in a durable queue promises: `fsync`, it is on disk and survives a \
              power cut; `os`, the operating system has it, so that it survives the process but not a power cut. \
              RabbitMQ's classic queues promise the latter.",
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
        name: "load_definitions",
        alias: None,
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                options.node.load_definitions = Some(path(value)?);
                Ok(())
            },
        },
        default: "",
        doc: "A definitions file (JSON, as `export_definitions` writes it) to import at every start. It adds and \
              changes; it never deletes.",
        example: "load_definitions = /etc/warren/definitions.json",
    },
];

fn path(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("expected a path".to_owned()) } else { Ok(PathBuf::from(value)) }
}
