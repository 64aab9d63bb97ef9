//! Keys of RabbitMQ that are about parts which do not exist here, and that a working configuration may have: read, so that it need
//! not be changed, and without effect. What would change what a client sees, or who may do what, does not belong here.

use crate::config::key::{Key, Section, Take};

pub(super) static SECTION: Section = Section {
    title: "Accepted, without effect",
    about: "Settings of RabbitMQ's and Erlang's insides. A configuration may have them; they change nothing, and their values are \
            not looked at.",
    keys: KEYS,
};

const fn text(name: &'static str, doc: &'static str, example: &'static str) -> Key {
    Key {
        name,
        alias: None,
        take: Take::Text { shape: "anything", set: |_, _| Ok(()) },
        default: "",
        doc,
        example,
    }
}

const fn list(name: &'static str, doc: &'static str, example: &'static str) -> Key {
    let take = Take::List { shape: "anything", clear: |_| {}, add: |_, _, _| Ok(()) };
    Key { name, alias: None, take, default: "", doc, example }
}

/// A setting of RabbitMQ's HTTP server.
const fn of_http(name: &'static str, alias: Option<&'static str>, example: &'static str) -> Key {
    let doc = "A setting of RabbitMQ's HTTP server. Bounds of this one stand in the page about the HTTP API.";
    Key { name, alias, take: Take::Text { shape: "anything", set: |_, _| Ok(()) }, default: "", doc, example }
}

const KEYS: &[Key] = &[
    text(
        "collect_statistics",
        "Everything is counted where it happens; nothing is collected.",
        "collect_statistics = coarse",
    ),
    text(
        "collect_statistics_interval",
        "Figures are those of the moment in which somebody asks.",
        "collect_statistics_interval = 5000",
    ),
    list(
        "management.sample_retention_policies.$section.$interval",
        "What somebody looks at is remembered for ten minutes, a sample every five seconds.",
        "management.sample_retention_policies.global.minute = 5",
    ),
    text("management.db_cache_multiplier", "Answers are not cached.", "management.db_cache_multiplier = 5"),
    text("management.delegate_count", "There are no delegates.", "management.delegate_count = 5"),
    text(
        "management.login_session_timeout",
        "The web UI forgets a login with its tab.",
        "management.login_session_timeout = 60",
    ),
    text(
        "management.http_log_dir",
        "Requests are not logged one by one; a proxy before the server can do that.",
        "management.http_log_dir = /var/log/rabbitmq/management",
    ),
    text(
        "http_dispatch.access_log_dir",
        "Requests are not logged one by one; a proxy before the server can do that.",
        "http_dispatch.access_log_dir = /var/log/rabbitmq/http",
    ),
    of_http(
        "management.tcp.compress",
        Some("management.listener.server.compress"),
        "management.tcp.compress = true",
    ),
    of_http(
        "management.tcp.idle_timeout",
        Some("management.listener.server.idle_timeout"),
        "management.tcp.idle_timeout = 120000",
    ),
    of_http(
        "management.tcp.inactivity_timeout",
        Some("management.listener.server.inactivity_timeout"),
        "management.tcp.inactivity_timeout = 300000",
    ),
    of_http(
        "management.tcp.max_connections",
        Some("management.listener.server.max_connections"),
        "management.tcp.max_connections = 1000",
    ),
    of_http(
        "management.tcp.max_keepalive",
        Some("management.listener.server.max_keepalive"),
        "management.tcp.max_keepalive = 100",
    ),
    of_http(
        "management.tcp.request_timeout",
        Some("management.listener.server.request_timeout"),
        "management.tcp.request_timeout = 10000",
    ),
    of_http(
        "management.tcp.shutdown_timeout",
        Some("management.listener.server.shutdown_timeout"),
        "management.tcp.shutdown_timeout = 5000",
    ),
    of_http("prometheus.tcp.compress", None, "prometheus.tcp.compress = true"),
    of_http("prometheus.tcp.idle_timeout", None, "prometheus.tcp.idle_timeout = 120000"),
    of_http("prometheus.tcp.inactivity_timeout", None, "prometheus.tcp.inactivity_timeout = 300000"),
    of_http("prometheus.tcp.max_connections", None, "prometheus.tcp.max_connections = 1000"),
    of_http("prometheus.tcp.max_keepalive", None, "prometheus.tcp.max_keepalive = 100"),
    of_http("prometheus.tcp.request_timeout", None, "prometheus.tcp.request_timeout = 10000"),
    of_http("prometheus.tcp.shutdown_timeout", None, "prometheus.tcp.shutdown_timeout = 5000"),
    text("background_gc_enabled", "There is no garbage to collect.", "background_gc_enabled = false"),
    text(
        "background_gc_target_interval",
        "There is no garbage to collect.",
        "background_gc_target_interval = 60000",
    ),
    text("delegate_count", "There are no delegates.", "delegate_count = 16"),
    text(
        "distribution.listener.interface",
        "The node speaks to no other node.",
        "distribution.listener.interface = 127.0.0.1",
    ),
    text(
        "distribution.listener.port_range.min",
        "The node speaks to no other node.",
        "distribution.listener.port_range.min = 40000",
    ),
    text(
        "distribution.listener.port_range.max",
        "The node speaks to no other node.",
        "distribution.listener.port_range.max = 40050",
    ),
    text("hipe_compile", "There is nothing to compile.", "hipe_compile = false"),
    text(
        "memory_monitor_interval",
        "Memory is looked at every second, and more often when it rises.",
        "memory_monitor_interval = 2500",
    ),
    text(
        "message_store_shutdown_timeout",
        "There is no message store of a vhost to wait for.",
        "message_store_shutdown_timeout = 600000",
    ),
    text(
        "mirroring_sync_batch_size",
        "There are no mirrored queues, as in RabbitMQ 4.",
        "mirroring_sync_batch_size = 4096",
    ),
    text(
        "mirroring_sync_max_throughput",
        "There are no mirrored queues, as in RabbitMQ 4.",
        "mirroring_sync_max_throughput = 0",
    ),
    text(
        "mnesia_table_loading_retry_limit",
        "There is no Mnesia that loads tables.",
        "mnesia_table_loading_retry_limit = 10",
    ),
    text(
        "mnesia_table_loading_retry_timeout",
        "There is no Mnesia that loads tables.",
        "mnesia_table_loading_retry_timeout = 30000",
    ),
    text(
        "metadata_store.khepri.default_timeout",
        "There is no Khepri; metadata have a log of their own.",
        "metadata_store.khepri.default_timeout = 30000",
    ),
    text(
        "metadata_store.khepri.snapshot_interval",
        "There is no Khepri; metadata have a log of their own.",
        "metadata_store.khepri.snapshot_interval = 50000",
    ),
    text("net_ticktime", "The node speaks to no other node.", "net_ticktime = 60"),
    text(
        "cluster_keepalive_interval",
        "The node speaks to no other node.",
        "cluster_keepalive_interval = 10000",
    ),
    text("num_acceptors.tcp", "One task accepts all connections of a listener.", "num_acceptors.tcp = 10"),
    text(
        "queue_index_embed_msgs_below",
        "There is no index to embed messages in.",
        "queue_index_embed_msgs_below = 4096",
    ),
    text(
        "classic_queue.default_version",
        "There is one way to store queues.",
        "classic_queue.default_version = 2",
    ),
    text("queue_leader_locator", "Queues are on the one node.", "queue_leader_locator = balanced"),
    text("queue_master_locator", "Queues are on the one node.", "queue_master_locator = min-masters"),
    text(
        "socket_writer.gc_threshold",
        "There is no garbage to collect.",
        "socket_writer.gc_threshold = 1000000000",
    ),
    text(
        "sysmon_handler.thresholds.busy_ports",
        "There is no Erlang to watch.",
        "sysmon_handler.thresholds.busy_ports = 100",
    ),
    text(
        "sysmon_handler.thresholds.busy_processes",
        "There is no Erlang to watch.",
        "sysmon_handler.thresholds.busy_processes = 100",
    ),
    text(
        "sysmon_handler.triggers.distribution_port",
        "There is no Erlang to watch.",
        "sysmon_handler.triggers.distribution_port = 100",
    ),
    text(
        "sysmon_handler.triggers.port",
        "There is no Erlang to watch.",
        "sysmon_handler.triggers.port = 100",
    ),
    text(
        "sysmon_handler.triggers.process.garbage_collection",
        "There is no Erlang to watch.",
        "sysmon_handler.triggers.process.garbage_collection = 100",
    ),
    text(
        "sysmon_handler.triggers.process.heap_size",
        "There is no Erlang to watch.",
        "sysmon_handler.triggers.process.heap_size = 100",
    ),
    text(
        "sysmon_handler.triggers.process.long_scheduled_execution",
        "There is no Erlang to watch.",
        "sysmon_handler.triggers.process.long_scheduled_execution = 100",
    ),
    text(
        "vhost_restart_strategy",
        "No vhost fails alone: a queue that cannot be read is taken out of service.",
        "vhost_restart_strategy = continue",
    ),
    text(
        "cluster_partition_handling",
        "A node is a cluster of its own: nothing parts it.",
        "cluster_partition_handling = pause_minority",
    ),
    Key {
        name: "cluster_formation.peer_discovery_backend",
        alias: None,
        take: Take::Choice {
            of: &["classic_config", "rabbit_peer_discovery_classic_config"],
            not_yet: &["aws", "consul", "dns", "etcd", "k8s", "kubernetes"],
            set: |_, _| {},
        },
        default: "classic_config",
        doc: "A node is a cluster of its own: there are no peers to find.",
        example: "cluster_formation.peer_discovery_backend = classic_config",
    },
    Key {
        name: "reverse_dns_lookups",
        alias: None,
        take: Take::Choice { of: &["false"], not_yet: &["true"], set: |_, _| {} },
        default: "false",
        doc: "Clients are known by their addresses.",
        example: "reverse_dns_lookups = false",
    },
    text(
        "deprecated_features.permit.classic_queue_mirroring",
        "Neither there nor deprecated here.",
        "deprecated_features.permit.classic_queue_mirroring = false",
    ),
    text(
        "deprecated_features.permit.ram_node_type",
        "Neither there nor deprecated here.",
        "deprecated_features.permit.ram_node_type = false",
    ),
    text(
        "deprecated_features.permit.queue_master_locator",
        "Neither there nor deprecated here.",
        "deprecated_features.permit.queue_master_locator = false",
    ),
    text(
        "deprecated_features.permit.amqp_address_v1",
        "Neither there nor deprecated here.",
        "deprecated_features.permit.amqp_address_v1 = false",
    ),
    text(
        "deprecated_features.permit.amqp_filter_set_bug",
        "Neither there nor deprecated here.",
        "deprecated_features.permit.amqp_filter_set_bug = false",
    ),
    text(
        "log.connection.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.connection.level = info",
    ),
    text(
        "log.channel.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.channel.level = info",
    ),
    text(
        "log.queue.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.queue.level = info",
    ),
    text(
        "log.mirroring.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.mirroring.level = info",
    ),
    text(
        "log.federation.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.federation.level = info",
    ),
    text(
        "log.upgrade.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.upgrade.level = info",
    ),
    text(
        "log.user.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.user.level = info",
    ),
    text(
        "log.ra.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.ra.level = info",
    ),
    text(
        "log.default.level",
        "Lines of the log have no categories: `log.console.level` and `log.file.level` are for all of them.",
        "log.default.level = info",
    ),
];
