//! Keys that bound how much of each thing may exist.

use crate::config::key::{Key, Section, Take, Unit};

const U32_MAX: u64 = u32::MAX as u64;

pub(super) static SECTION: Section = Section {
    title: "Limits",
    about: "Limits of the whole node. At a limit, clients get the error that RabbitMQ sends.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "max_connections",
        alias: Some("connection_max"),
        take: Take::Limit {
            min: 0,
            max: U32_MAX,
            unit: Unit::Count,
            set: |options, n| options.limits.connections_max = n,
        },
        default: "infinity",
        doc: "Client connections of this node.",
        example: "max_connections = 10000",
    },
    Key {
        name: "channel_max_per_node",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: U32_MAX,
            unit: Unit::Count,
            set: |options, n| options.limits.channels_max = n,
        },
        default: "infinity",
        doc: "Channels of all connections of this node; opening one more closes the connection.",
        example: "channel_max_per_node = 50000",
    },
    Key {
        name: "consumer_max_per_channel",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: U32_MAX,
            unit: Unit::Count,
            set: |options, n| options.limits.consumers_per_channel_max = n,
        },
        default: "infinity",
        doc: "Consumers of one channel.",
        example: "consumer_max_per_channel = 100",
    },
    Key {
        name: "max_message_size",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 536_870_912,
            unit: Unit::Bytes,
            set: |options, n| options.limits.message_bytes_max = n,
        },
        default: "16777216",
        doc: "Largest message body. A larger one closes the channel with 406 (PRECONDITION_FAILED).",
        example: "max_message_size = 134217728",
    },
    Key {
        name: "vhost_max",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: U32_MAX,
            unit: Unit::Count,
            set: |options, n| options.limits.vhosts_max = n,
        },
        default: "infinity",
        doc: "Virtual hosts; creating one more is refused.",
        example: "vhost_max = 50",
    },
    Key {
        name: "cluster_queue_limit",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: U32_MAX,
            unit: Unit::Count,
            set: |options, n| options.limits.queues_max = n,
        },
        default: "infinity",
        doc: "Queues of all virtual hosts together; declaring one more is refused.",
        example: "cluster_queue_limit = 100000",
    },
    Key {
        name: "cluster_exchange_limit",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: U32_MAX,
            unit: Unit::Count,
            set: |options, n| options.limits.exchanges_max = n,
        },
        default: "infinity",
        doc: "Exchanges of all virtual hosts together; declaring one more is refused.",
        example: "cluster_exchange_limit = 1000",
    },
];
