//! Keys of queue behaviour that is not set per queue.

use crate::config::key::{Key, Section, Take, Unit};
use crate::config::values::QueueType;
use broker::Placement;

fn placement(word: &str) -> Placement {
    if word == "client-local" { Placement::ClientLocal } else { Placement::Balanced }
}

pub(super) static SECTION: Section = Section {
    title: "Queues",
    about: "Queue behaviour that is not set per queue, and client patterns that RabbitMQ 4.3 no longer allows.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "consumer_timeout",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: u64::MAX,
            unit: Unit::Milliseconds,
            set: |options, n| options.queues.consumer_timeout_ms = n,
        },
        default: "1800000",
        doc: "How long a delivery may stay without ack, nack or reject before its consumer is cut off and the message \
              goes back to the queue.",
        example: "consumer_timeout = 3600000",
    },
    Key {
        name: "consumer_disconnected_timeout",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: u64::MAX,
            unit: Unit::Milliseconds,
            set: |options, n| options.queues.consumer_disconnected_timeout_ms = n,
        },
        default: "60000",
        doc: "How long unacked messages of a quorum queue stay with a consumer whose node cannot be reached. Then others get them. With 0 they \
              get them at once.",
        example: "consumer_disconnected_timeout = 10000",
    },
    Key {
        name: "default_queue_type",
        alias: None,
        take: Take::Choice {
            of: &["classic", "quorum", "stream"],
            not_yet: &[],
            set: |options, word| {
                options.queues.default_queue_type = match word {
                    "quorum" => QueueType::Quorum,
                    "stream" => QueueType::Stream,
                    _ => QueueType::Classic,
                };
            },
        },
        default: "classic",
        doc: "Type of a queue that is declared without `x-queue-type`, in a virtual host without a default of its own.",
        example: "default_queue_type = quorum",
    },
    Key {
        name: "queue_leader_locator",
        alias: None,
        take: Take::Choice {
            of: &["client-local", "balanced"],
            not_yet: &[],
            set: |options, word| options.queues.placement = placement(word),
        },
        default: "client-local",
        doc: "The node where a new queue of a cluster lives, unless its arguments or a policy say otherwise: the one that declares it, or the one with \
              the fewest queues of its type. With 1,000 queues and more, new ones go around the nodes.",
        example: "queue_leader_locator = balanced",
    },
    Key {
        name: "queue_master_locator",
        alias: None,
        take: Take::Choice {
            of: &["client-local", "min-masters", "random"],
            not_yet: &[],
            set: |options, word| options.queues.placement = placement(word),
        },
        default: "client-local",
        doc: "As `queue_leader_locator`, by the words of older versions; `min-masters` and `random` balance.",
        example: "queue_master_locator = min-masters",
    },
    Key {
        name: "deprecated_features.permit.transient_nonexcl_queues",
        alias: None,
        take: Take::Boolean {
            set: |options, permitted| options.queues.transient_nonexclusive = permitted.into(),
        },
        default: "true",
        doc: "Allows queues that are neither durable nor exclusive. Warren allows them unless told otherwise; `false` \
              refuses them as RabbitMQ 4.3 does.",
        example: "deprecated_features.permit.transient_nonexcl_queues = false",
    },
    Key {
        name: "deprecated_features.permit.global_qos",
        alias: None,
        take: Take::Boolean { set: |options, permitted| options.queues.global_qos = permitted.into() },
        default: "true",
        doc: "Allows `basic.qos` with `global=true`, one prefetch for the whole channel. Warren allows it unless told \
              otherwise; `false` refuses it as RabbitMQ 4.3 does.",
        example: "deprecated_features.permit.global_qos = false",
    },
    Key {
        name: "deprecated_features.permit.amqp_address_v1",
        alias: None,
        take: Take::Boolean { set: |options, permitted| options.queues.amqp_address_v1 = permitted.into() },
        default: "false",
        doc: "Allows addresses of version 1 over AMQP 1.0, such as `/queue/q`. They are refused unless told otherwise, as in \
              RabbitMQ 4.3.",
        example: "deprecated_features.permit.amqp_address_v1 = true",
    },
    Key {
        name: "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration",
        alias: None,
        take: Take::Boolean {
            set: |options, permitted| options.queues.relaxed_redeclaration = permitted.into(),
        },
        default: "false",
        doc: "Lets clients that ask for a classic queue, or for no type, declare a quorum queue that exists. Whether it is durable, exclusive \
              or deleted with its last consumer is then not compared; the arguments are.",
        example: "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = true",
    },
    Key {
        name: "quorum_queue.continuous_membership_reconciliation.enabled",
        alias: None,
        take: Take::Boolean { set: |options, on| options.queues.reconciliation.enabled = on },
        default: "false",
        doc: "Gives quorum queues more members when they have fewer than the policy `target-group-size` or the key `target_group_size` says and \
              there are nodes for them.",
        example: "quorum_queue.continuous_membership_reconciliation.enabled = true",
    },
    Key {
        name: "quorum_queue.continuous_membership_reconciliation.target_group_size",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 7,
            unit: Unit::Count,
            set: |options, n| options.queues.reconciliation.target_group_size = u16::try_from(n).ok(),
        },
        default: "",
        doc: "How many members a quorum queue gets by reconciliation, without the policy `target-group-size` and the argument `x-quorum-target-group-size`. Queues that have more keep them.",
        example: "quorum_queue.continuous_membership_reconciliation.target_group_size = 3",
    },
    Key {
        name: "quorum_queue.continuous_membership_reconciliation.auto_remove",
        alias: None,
        take: Take::Boolean { set: |options, on| options.queues.reconciliation.auto_remove = on },
        default: "false",
        doc: "Removes members on nodes that are not in the cluster any more. `forget_cluster_node` does so in any case.",
        example: "quorum_queue.continuous_membership_reconciliation.auto_remove = true",
    },
    Key {
        name: "quorum_queue.continuous_membership_reconciliation.interval",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: u64::MAX,
            unit: Unit::Milliseconds,
            set: |options, n| options.queues.reconciliation.interval_ms = n,
        },
        default: "3600000",
        doc: "How often each node looks at the members of the quorum queues that it leads.",
        example: "quorum_queue.continuous_membership_reconciliation.interval = 600000",
    },
    Key {
        name: "quorum_queue.continuous_membership_reconciliation.trigger_interval",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: u64::MAX,
            unit: Unit::Milliseconds,
            set: |options, n| options.queues.reconciliation.trigger_interval_ms = n,
        },
        default: "10000",
        doc: "How long after a node has joined or left, or policies of queues have changed, they are looked at.",
        example: "quorum_queue.continuous_membership_reconciliation.trigger_interval = 5000",
    },
];
