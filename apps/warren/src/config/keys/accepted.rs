//! Keys of RabbitMQ that are about parts which do not exist here, and that a working configuration may have: read, so that it need
//! not be changed, and without effect. A key that would change the view of a client, or rights, does not belong here.

use crate::config::key::{Key, Section, Take};

pub(super) static SECTION: Section = Section {
    title: "Accepted, without effect",
    about: "Settings of the internals of RabbitMQ and Erlang. A configuration may have them. They have no effect, \
            and their values are not checked.",
    keys: KEYS,
};

/// The key of a line `KEY = VALUE`.
const fn key_of(line: &'static str) -> &'static str {
    let mut end = 0;
    while line.as_bytes()[end] != b' ' {
        end += 1;
    }
    line.split_at(end).0
}

const fn text(example: &'static str, doc: &'static str) -> Key {
    Key {
        name: key_of(example),
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
const fn of_http(example: &'static str, alias: Option<&'static str>) -> Key {
    let doc = "A setting of RabbitMQ's HTTP server. The page about the HTTP API lists Warren's bounds.";
    Key { alias, ..text(example, doc) }
}

const ONE_ACCEPTS: &str = "One task accepts all connections of a listener.";
const OF_REQUESTS: &str =
    "A setting of RabbitMQ's HTTP server. The request for a WebSocket has 5 s (`ssl_handshake_timeout`).";
const SIGNS_OF_LIFE: &str = "Nodes tell each other four times a second that they live.";
const NO_ERLANG: &str = "There is no Erlang to watch.";
const NOT_DEPRECATED: &str = "This feature is not there, and not deprecated.";
const NO_CATEGORIES: &str =
    "Lines of the log have no categories: `log.console.level` and `log.file.level` apply to all lines.";

const KEYS: &[Key] = &[
    text("collect_statistics = coarse", "Everything is counted where it happens; nothing is collected."),
    text("collect_statistics_interval = 5000", "Figures are always current."),
    list(
        "management.sample_retention_policies.$section.$interval",
        "Objects that you look at are sampled every five seconds, for ten minutes.",
        "management.sample_retention_policies.global.minute = 5",
    ),
    text("management.db_cache_multiplier = 5", "Answers are not cached."),
    text("management.delegate_count = 5", "There are no delegates."),
    text("management.login_session_timeout = 60", "The web UI forgets a login with its tab."),
    text(
        "management.http_log_dir = /var/log/rabbitmq/management",
        "Requests are not logged one by one; a proxy before the server can do that.",
    ),
    text(
        "http_dispatch.access_log_dir = /var/log/rabbitmq/http",
        "Requests are not logged one by one; a proxy before the server can do that.",
    ),
    of_http("management.tcp.compress = true", Some("management.listener.server.compress")),
    of_http("management.tcp.idle_timeout = 120000", Some("management.listener.server.idle_timeout")),
    of_http(
        "management.tcp.inactivity_timeout = 300000",
        Some("management.listener.server.inactivity_timeout"),
    ),
    of_http("management.tcp.max_connections = 1000", Some("management.listener.server.max_connections")),
    of_http("management.tcp.max_keepalive = 100", Some("management.listener.server.max_keepalive")),
    of_http("management.tcp.request_timeout = 10000", Some("management.listener.server.request_timeout")),
    of_http("management.tcp.shutdown_timeout = 5000", Some("management.listener.server.shutdown_timeout")),
    of_http("prometheus.tcp.compress = true", None),
    of_http("prometheus.tcp.idle_timeout = 120000", None),
    of_http("prometheus.tcp.inactivity_timeout = 300000", None),
    of_http("prometheus.tcp.max_connections = 1000", None),
    of_http("prometheus.tcp.max_keepalive = 100", None),
    of_http("prometheus.tcp.request_timeout = 10000", None),
    of_http("prometheus.tcp.shutdown_timeout = 5000", None),
    text("background_gc_enabled = false", "There is no garbage to collect."),
    text("background_gc_target_interval = 60000", "There is no garbage to collect."),
    text("delegate_count = 16", "There are no delegates."),
    text("distribution.listener.interface = 127.0.0.1", SIGNS_OF_LIFE),
    text("distribution.listener.port_range.min = 40000", SIGNS_OF_LIFE),
    text("distribution.listener.port_range.max = 40050", SIGNS_OF_LIFE),
    text("hipe_compile = false", "Nothing is compiled at a start."),
    text("memory_monitor_interval = 2500", "Memory is checked every second, and more often when it rises."),
    text("message_store_shutdown_timeout = 600000", "There is no message store of a vhost to wait for."),
    text("mirroring_sync_batch_size = 4096", "There are no mirrored queues, as in RabbitMQ 4."),
    text("mirroring_sync_max_throughput = 0", "There are no mirrored queues, as in RabbitMQ 4."),
    text("mnesia_table_loading_retry_limit = 10", "There is no Mnesia that loads tables."),
    text("mnesia_table_loading_retry_timeout = 30000", "There is no Mnesia that loads tables."),
    text(
        "metadata_store.khepri.default_timeout = 30000",
        "There is no Khepri; metadata have a log of their own.",
    ),
    text(
        "metadata_store.khepri.snapshot_interval = 50000",
        "There is no Khepri; metadata have a log of their own.",
    ),
    text("net_ticktime = 60", SIGNS_OF_LIFE),
    text("cluster_keepalive_interval = 10000", SIGNS_OF_LIFE),
    text("num_acceptors.tcp = 10", ONE_ACCEPTS),
    list("web_mqtt.num_acceptors.$kind", ONE_ACCEPTS, "web_mqtt.num_acceptors.tcp = 10"),
    list("web_stomp.num_acceptors.$kind", ONE_ACCEPTS, "web_stomp.num_acceptors.tcp = 10"),
    list("web_mqtt.cowboy_opts.$name", OF_REQUESTS, "web_mqtt.cowboy_opts.max_keepalive = 10"),
    list("web_stomp.cowboy_opts.$name", OF_REQUESTS, "web_stomp.cowboy_opts.max_keepalive = 10"),
    text("web_stomp.use_file_handle_cache = true", "There is no cache of file handles."),
    text("queue_index_embed_msgs_below = 4096", "There is no index to embed messages in."),
    text("classic_queue.default_version = 2", "There is one way to store queues."),
    text("socket_writer.gc_threshold = 1000000000", "There is no garbage to collect."),
    text("sysmon_handler.thresholds.busy_ports = 100", NO_ERLANG),
    text("sysmon_handler.thresholds.busy_processes = 100", NO_ERLANG),
    text("sysmon_handler.triggers.distribution_port = 100", NO_ERLANG),
    text("sysmon_handler.triggers.port = 100", NO_ERLANG),
    text("sysmon_handler.triggers.process.garbage_collection = 100", NO_ERLANG),
    text("sysmon_handler.triggers.process.heap_size = 100", NO_ERLANG),
    text("sysmon_handler.triggers.process.long_scheduled_execution = 100", NO_ERLANG),
    text(
        "vhost_restart_strategy = continue",
        "No vhost fails alone: a queue that cannot be read is taken out of service.",
    ),
    text(
        "cluster_partition_handling = pause_minority",
        "A minority of the nodes confirms nothing, and nobody is paused.",
    ),
    Key {
        name: "reverse_dns_lookups",
        alias: None,
        take: Take::Choice { of: &["false"], not_yet: &["true"], set: |_, _| {} },
        default: "false",
        doc: "Clients are known by their addresses.",
        example: "reverse_dns_lookups = false",
    },
    text("deprecated_features.permit.classic_queue_mirroring = false", NOT_DEPRECATED),
    text("deprecated_features.permit.ram_node_type = false", NOT_DEPRECATED),
    text("deprecated_features.permit.queue_master_locator = false", NOT_DEPRECATED),
    text("deprecated_features.permit.amqp_filter_set_bug = false", NOT_DEPRECATED),
    text("log.connection.level = info", NO_CATEGORIES),
    text("log.channel.level = info", NO_CATEGORIES),
    text("log.queue.level = info", NO_CATEGORIES),
    text("log.mirroring.level = info", NO_CATEGORIES),
    text("log.federation.level = info", NO_CATEGORIES),
    text("log.upgrade.level = info", NO_CATEGORIES),
    text("log.user.level = info", NO_CATEGORIES),
    text("log.ra.level = info", NO_CATEGORIES),
    text("log.default.level = info", NO_CATEGORIES),
];
