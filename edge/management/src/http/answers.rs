//! Answers of routes, for the description of the API: each shape once, in the notation of `notation`. Refuses to know how answers
//! are made; `testing/management/test_openapi.py` compares what is written here with real answers of every route.

use serde_json::{Map, Value, json};

use super::notation::{Shape, schema, shape};
use super::route::{Method, Route};
use super::schemas;

/// The answer of a route when all is well.
#[derive(Clone, Copy)]
pub(super) enum Told {
    /// One thing, as JSON.
    One(&'static str),
    /// A list of these, or a page of the list when one is asked for.
    Many(&'static str),
    /// Something that is not JSON: its media type.
    Other(&'static str),
}

use Told::{Many, One, Other};

/// The answers of reads, by path.
const OF_GET: &[(&str, Told)] = &[
    ("/api", Other("text/html")),
    ("/api/", Other("text/html")),
    ("/api/alarms", One("{alarms: [string]}")),
    ("/api/aliveness-test/{vhost}", One("Check")),
    ("/api/all-configuration", One("Definitions")),
    ("/api/auth", One("{oauth_enabled: boolean}")),
    ("/api/auth/attempts/{node}", One("[LoginAttempts]")),
    ("/api/auth/attempts/{node}/source", One("[LoginAttempts]")),
    ("/api/auth/hash_password/{password}", One("{ok: string}")),
    ("/api/bindings", Many("Binding")),
    ("/api/bindings/{vhost}", Many("Binding")),
    ("/api/bindings/{vhost}/e/{source}/{kind}/{destination}", Many("Binding")),
    ("/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}", One("Binding")),
    ("/api/channels", Many("Channel")),
    ("/api/channels/{name}", One("Channel")),
    ("/api/cluster-name", One("{name: string}")),
    ("/api/config/effective", Other("text/plain")),
    ("/api/connections", Many("Connection")),
    ("/api/connections/username/{user}", Many("{name: string, node: string, user: string, vhost: string}")),
    ("/api/connections/{connection}/channels", Many("Channel")),
    ("/api/connections/{name}", One("Connection")),
    ("/api/connections/{name}/sessions", Many("object")),
    ("/api/consumers", Many("Consumer")),
    ("/api/consumers/{vhost}", Many("Consumer")),
    ("/api/definitions", One("Definitions")),
    ("/api/definitions/{vhost}", One("Definitions")),
    ("/api/deprecated-features", Many("DeprecatedFeature")),
    ("/api/deprecated-features/used", Many("DeprecatedFeature")),
    ("/api/exchanges", Many("Exchange")),
    ("/api/exchanges/{vhost}", Many("Exchange")),
    ("/api/exchanges/{vhost}/{name}", One("Exchange")),
    ("/api/exchanges/{vhost}/{name}/bindings/destination", Many("Binding")),
    ("/api/exchanges/{vhost}/{name}/bindings/source", Many("Binding")),
    ("/api/explain/delivery", One("ExplainedDelivery")),
    ("/api/explain/route", One("ExplainedRoute")),
    ("/api/extensions", One("[object]")),
    ("/api/feature-flags", Many("FeatureFlag")),
    ("/api/global-parameters", Many("GlobalParameter")),
    ("/api/global-parameters/{name}", One("GlobalParameter")),
    ("/api/health/checks/alarms", One("Check")),
    ("/api/health/checks/below-node-connection-limit", One("Check")),
    ("/api/health/checks/certificate-expiration/{within}/{unit}", One("Check")),
    ("/api/health/checks/is-in-service", One("Check")),
    ("/api/health/checks/local-alarms", One("Check")),
    ("/api/health/checks/metadata-store/initialized", One("Check")),
    ("/api/health/checks/metadata-store/initialized/with-data", One("Check")),
    ("/api/health/checks/node-is-quorum-critical", One("Check")),
    ("/api/health/checks/port-listener/{port}", One("Check")),
    ("/api/health/checks/protocol-listener/{protocols}", One("Check")),
    ("/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts", One("Check")),
    ("/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}", One("Check")),
    ("/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}", One("Check")),
    (
        "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
        One("Check"),
    ),
    ("/api/health/checks/reached-target-cluster-size", One("Check")),
    ("/api/health/checks/ready-to-serve-clients", One("Check")),
    ("/api/health/checks/virtual-hosts", One("Check")),
    ("/api/healthchecks/node", One("Check")),
    ("/api/healthchecks/node/{node}", One("Check")),
    ("/api/index.html", Other("text/html")),
    ("/api/logs", One("{lines: [{at: integer, level: string, message: string, seq: integer}]}")),
    ("/api/nodes", Many("Node")),
    ("/api/nodes/{node}", One("Node")),
    ("/api/nodes/{node}/memory", One("{memory: Memory}")),
    ("/api/nodes/{node}/memory/ets", One("{ets_tables_memory: string}")),
    ("/api/nodes/{node}/memory/ets/relative", One("{ets_tables_memory: string}")),
    ("/api/nodes/{node}/memory/ets/{filter}", One("{ets_tables_memory: string}")),
    ("/api/nodes/{node}/memory/ets/{filter}/relative", One("{ets_tables_memory: string}")),
    ("/api/nodes/{node}/memory/relative", One("{memory: <integer>}")),
    ("/api/openapi.json", One("object")),
    ("/api/operator-policies", Many("Policy")),
    ("/api/operator-policies/{vhost}", Many("Policy")),
    ("/api/operator-policies/{vhost}/{name}", One("Policy")),
    ("/api/overview", One("Overview")),
    ("/api/parameters", Many("Parameter")),
    ("/api/parameters/{component}", Many("Parameter")),
    ("/api/parameters/{component}/{vhost}", Many("Parameter")),
    ("/api/parameters/{component}/{vhost}/{name}", One("Parameter")),
    ("/api/permissions", Many("Permissions")),
    ("/api/permissions/{vhost}/{user}", One("Permissions")),
    ("/api/policies", Many("Policy")),
    ("/api/policies/{vhost}", Many("Policy")),
    ("/api/policies/{vhost}/{name}", One("Policy")),
    ("/api/profile/captures", One("[object]")),
    ("/api/profile/captures/{number}", One("Profile")),
    ("/api/profile/cpu", One("Profile")),
    ("/api/profile/faults", One("Profile")),
    ("/api/profile/heap", One("Profile")),
    ("/api/profile/history", One("Profile")),
    ("/api/profile/state", One("{continuous: boolean, heap: boolean, lost: integer, minutes: integer}")),
    ("/api/profile/threads", One("[ThreadTimes]")),
    ("/api/profile/waits", One("Profile")),
    ("/api/queues", Many("Queue")),
    ("/api/queues/detailed", Many("Queue")),
    ("/api/queues/quorum/{vhost}/{name}/status", One("[object]")),
    ("/api/queues/{vhost}", Many("Queue")),
    ("/api/queues/{vhost}/{name}", One("Queue")),
    ("/api/queues/{vhost}/{name}/bindings", Many("Binding")),
    ("/api/shovels", Many("Shovel")),
    ("/api/shovels/vhost/{vhost}/{name}", One("Parameter")),
    ("/api/shovels/{vhost}", Many("Shovel")),
    ("/api/shovels/{vhost}/{name}", One("Shovel")),
    ("/api/stages", One("[Stage]")),
    ("/api/stream/connections", Many("Connection")),
    ("/api/stream/connections/{vhost}", Many("Connection")),
    ("/api/stream/connections/{vhost}/{name}", One("Connection")),
    ("/api/stream/connections/{vhost}/{name}/consumers", Many("StreamConsumer")),
    ("/api/stream/connections/{vhost}/{name}/publishers", Many("StreamPublisher")),
    ("/api/stream/consumers", Many("StreamConsumer")),
    ("/api/stream/consumers/{vhost}", Many("StreamConsumer")),
    ("/api/stream/publishers", Many("StreamPublisher")),
    ("/api/stream/publishers/{vhost}", Many("StreamPublisher")),
    ("/api/stream/publishers/{vhost}/{name}", Many("StreamPublisher")),
    ("/api/stream/{vhost}/{name}/tracking", One("{offsets?: <integer>, writers?: <integer>}")),
    ("/api/topic-permissions", Many("TopicPermissions")),
    ("/api/topic-permissions/{vhost}/{user}", Many("TopicPermissions")),
    ("/api/topic-permissions/{vhost}/{user}/{exchange}", Many("TopicPermissions")),
    ("/api/user-limits", Many("{user: string, value: <integer>}")),
    ("/api/user-limits/{user}", Many("{user: string, value: <integer>}")),
    ("/api/users", Many("User")),
    ("/api/users/without-permissions", Many("User")),
    ("/api/users/{user}", One("User")),
    ("/api/users/{user}/permissions", Many("Permissions")),
    ("/api/users/{user}/queues", Many("Queue")),
    ("/api/users/{user}/topic-permissions", Many("TopicPermissions")),
    ("/api/version", One("string")),
    ("/api/vhost-limits", Many("{value: <integer>, vhost: string}")),
    ("/api/vhost-limits/{vhost}", Many("{value: <integer>, vhost: string}")),
    ("/api/vhosts", Many("Vhost")),
    ("/api/vhosts/{vhost}", One("Vhost")),
    ("/api/vhosts/{vhost}/channels", Many("Channel")),
    ("/api/vhosts/{vhost}/connections", Many("Connection")),
    ("/api/vhosts/{vhost}/permissions", Many("Permissions")),
    ("/api/vhosts/{vhost}/topic-permissions", Many("TopicPermissions")),
    ("/api/whoami", One("Who")),
    ("/debug/flamegraph/cpu", Other("image/svg+xml")),
    ("/debug/flamegraph/faults", Other("image/svg+xml")),
    ("/debug/flamegraph/heap", Other("image/svg+xml")),
    ("/debug/flamegraph/waits", Other("image/svg+xml")),
    ("/debug/pprof/heap", Other("application/octet-stream")),
    ("/debug/pprof/profile", Other("application/octet-stream")),
];

/// The content of answers of posts, by path; others have nothing.
const OF_POST: &[(&str, Told)] = &[
    ("/api/ctl", One("{ok: string} | {columns: [string], rows: [[any]]} | {text: string, json: any}")),
    ("/api/exchanges/{vhost}/{name}/publish", One("{routed: boolean}")),
    ("/api/login", One("{user: Who, token: {type: 'basic', value: string}}")),
    ("/api/queues/{vhost}/{name}/get", One("[Message]")),
];

/// Shapes with names, in the order of those.
const SHAPES: &[Shape] = &[
    shape(
        "Binding",
        "{arguments: <any>, destination: string, destination_type: 'queue' | 'exchange', properties_key: string,
        routing_key: string, source: string, vhost: string}",
    ),
    shape(
        "Channel",
        "{acks_uncommitted: integer, confirm: boolean, connection_details: ConnectionName, consumer_count: integer,
        consumer_details?: [Consumer], deliveries?: [object], global_prefetch_count: integer, idle_since?: string,
        message_stats?: MessageStats, messages_unacknowledged: integer, messages_uncommitted: integer,
        messages_unconfirmed: integer, name: string, node: string, number: integer, prefetch_count: integer,
        publishes?: [object], state: string, transactional: boolean, user: string, user_who_performed_action: string,
        vhost: string}",
    ),
    shape(
        "Check",
        "{missing?: any, port?: integer, ports?: [integer], protocols?: [string], reason?: string, status: 'ok' | 'failed'}",
    ),
    shape(
        "Connection",
        "{auth_mechanism: string, channel_max: integer, channels: integer, client_properties: <any>, connected_at: integer, container_id?: string,
        frame_max: integer, host: string, name: string, node: string, peer_cert_issuer: string | null,
        peer_cert_serial_number?: string | null, peer_cert_subject: string | null, peer_cert_validity: string | null,
        peer_host: string, peer_port: integer, port: integer, protocol: string, recv_cnt: integer, recv_oct*: integer,
        send_cnt: integer, send_oct*: integer, send_pend: integer, ssl: boolean, ssl_cipher: string | null,
        ssl_hash: string | null, ssl_key_exchange: string | null, ssl_protocol: string | null, state: string,
        timeout: integer, type: string, user: string, user_provided_name?: string, user_who_performed_action: string,
        vhost: string}",
    ),
    shape("ConnectionName", "{name: string, peer_host: string, peer_port: integer}"),
    shape(
        "Consumer",
        "{ack_required: boolean, active: boolean, activity_status: 'up' | 'single_active' | 'waiting', arguments: <any>,
        channel_details: {connection_name?: string, name?: string, node?: string, number?: integer, peer_host?: string,
        peer_port?: integer, user?: string}, consumer_tag: string, consumer_timeout: integer | null, exclusive: boolean,
        prefetch_count: integer, queue: {name: string, vhost: string}}",
    ),
    shape(
        "Definitions",
        "{bindings: [{arguments: <any>, destination: string, destination_type: 'queue' | 'exchange', routing_key: string,
        source: string, vhost?: string}], description?: string, exchanges: [{arguments: <any>, auto_delete: boolean,
        durable: boolean, internal: boolean, name: string, type: string, vhost?: string}], explanation: string,
        global_parameters?: [GlobalParameter], limits?: <integer>, metadata?: VhostMetadata, original_cluster_name?: string,
        original_vhost_name?: string, parameters: [{component: string, name: string, value: any, vhost?: string}],
        permissions?: [Permissions], policies: [{apply-to: AppliesTo, definition: <any>, name: string, pattern: string,
        priority: integer, vhost?: string}], product_name: string, product_version: string,
        queues: [{arguments: <any>, auto_delete: boolean, durable: boolean, name: string, type: string, vhost?: string}],
        rabbit_version: string, rabbitmq_definition_format: 'cluster' | 'single_virtual_host', rabbitmq_version: string,
        topic_permissions?: [TopicPermissions], users?: [User],
        vhosts?: [{limits: <integer>, metadata: VhostMetadata, name: string}]}",
    ),
    shape("AppliesTo", "'all' | 'exchanges' | 'queues' | 'classic_queues' | 'quorum_queues' | 'streams'"),
    shape(
        "DeprecatedFeature",
        "{deprecation_phase: string, desc: string, doc_url: string, name: string, provided_by: string, state?: string}",
    ),
    shape(
        "FeatureFlag",
        "{desc: string, doc_url: string, name: string, provided_by: string, stability: string, state: string}",
    ),
    shape("Described", "{description: string, enabled: boolean, name: string}"),
    shape(
        "Exchange",
        "{arguments: <any>, auto_delete: boolean, durable: boolean, incoming?: [object], internal: boolean,
        message_stats?: MessageStats, name: string, outgoing?: [object], policy?: string, type: string,
        user_who_performed_action: string, vhost: string}",
    ),
    shape(
        "ExplainedDelivery",
        "{acked_total: integer, alarms: [string], confirms_wait_for: [string], consumers: [{ack_required: boolean, channel: integer, connection: string,
        credits?: integer, is_served: boolean, offset_lag?: integer, prefetch: integer, reason: string, skipped?: integer,
        subscription?: integer, tag: string, text: string, unacked: integer}],
        delivered_total: integer, delivery_waits_for: string | null, disk_requests: integer, dropped_total: integer, expired_total: integer, head: string,
        letters_await_room: boolean, log: {confirms_after: string, pending_bytes: integer,
        problem: string | null, segment_pending_bytes: integer}, message_ttl_ms: integer | null, published_total: integer, publishers_held_by: [string],
        members_behind: [string], queue: string, ready: integer, room_held_by: [string], stalled_ms: integer, state: string, still_ms: integer, unacked: integer, verdict: string, vhost: string}",
    ),
    shape("GlobalParameter", "{name: string, value: any}"),
    shape("Listener", "{ip_address: string, node: string, port: integer, protocol: string, socket_opts: <any>, tls: boolean}"),
    shape(
        "LoginAttempts",
        "{auth_attempts: integer, auth_attempts_failed: integer, auth_attempts_succeeded: integer, protocol: string,
        remote_address?: string, username?: string}",
    ),
    shape(
        "Memory",
        "{allocated_unused: integer, atom: integer, binary: integer, code: integer, connection_channels: integer,
        connection_other: integer, connection_readers: integer, connection_writers: integer, metadata_store: integer,
        metadata_store_ets: integer, metrics: integer, mgmt_db: integer, mnesia: integer, msg_index: integer, other_ets: integer,
        other_proc: integer, other_system: integer, plugins: integer, queue_procs: integer, quorum_ets: integer,
        quorum_queue_dlx_procs: integer, quorum_queue_procs: integer, reserved_unallocated: integer, strategy: string,
        stream_queue_coordinator_procs: integer, stream_queue_procs: integer, stream_queue_replica_reader_procs: integer,
        total: {allocated: integer, erlang: integer, rss: integer}}",
    ),
    shape(
        "Message",
        "{exchange: string, message_count: integer, payload: string, payload_bytes: integer,
        payload_encoding: 'string' | 'base64', properties: {app_id?: string, cluster_id?: string, content_encoding?: string,
        content_type?: string, correlation_id?: string, delivery_mode?: integer, expiration?: string, headers?: <any>,
        message_id?: string, priority?: integer, reply_to?: string, timestamp?: integer, type?: string, user_id?: string} | [any],
        redelivered: boolean, routing_key: string}",
    ),
    shape(
        "MessageStats",
        "{ack*?: integer, confirm*?: integer, deliver*?: integer, deliver_get*?: integer, deliver_no_ack*?: integer,
        disk_reads*?: integer, disk_writes*?: integer, drop_unroutable*?: integer, get*?: integer, get_empty*?: integer,
        get_no_ack*?: integer, publish*?: integer, publish_in*?: integer, publish_out*?: integer, redeliver*?: integer,
        return_unroutable*?: integer}",
    ),
    shape(
        "Node",
        "{applications: [{description: string, name: string, version: string}], auth_mechanisms: [Described],
        being_drained: boolean, channel_closed*: integer, channel_created*: integer, cluster_links: [object],
        config_files: [string], connection_closed*: integer, connection_created*: integer, context_switches*: integer,
        contexts: [Web], crypto_lib_version: string, db_dir: string, disk_free*: integer, disk_free_alarm: boolean,
        disk_free_limit: integer, enabled_plugins: [string], erlang_full_version: string, erlang_version: string,
        exchange_types: [Described], fd_total: integer, fd_used*: integer, gc_bytes_reclaimed*: integer, gc_num*: integer,
        io_read_avg_time*: number, io_read_bytes*: integer, io_read_count*: integer, io_reopen_count*: integer,
        io_seek_avg_time*: number, io_seek_count*: integer, io_sync_avg_time*: number, io_sync_count*: integer,
        io_write_avg_time*: number, io_write_bytes*: integer, io_write_count*: integer, log_files: [string], mem_alarm: boolean,
        mem_calculation_strategy: string, mem_limit: integer, mem_used*: integer, memory?: Memory,
        metrics_gc_queue_length: object, mnesia_disk_tx_count*: integer, mnesia_ram_tx_count*: integer,
        msg_store_read_count*: integer, msg_store_write_count*: integer, name: string, net_ticktime: integer, os_pid: string,
        partitions: [string], proc_total: integer, proc_used*: integer, processors: integer, queue_created*: integer,
        queue_declared*: integer, queue_deleted*: integer, queue_index_read_count*: integer, queue_index_write_count*: integer,
        ra_open_file_metrics: object, rabbitmq_version: string, rates_mode: string, run_queue: integer, running: boolean,
        sockets_total: integer, sockets_used*: integer, type: string, uptime: integer, warren_version: string}",
    ),
    shape(
        "Overview",
        "{churn_rates?: {channel_closed*: integer, channel_created*: integer, connection_closed*: integer,
        connection_created*: integer, queue_created*: integer, queue_declared*: integer, queue_deleted*: integer},
        cluster_name: string, cluster_tags: <any>, contexts?: [Web], crypto_lib_version: string, default_queue_type: string,
        disable_stats: boolean, enable_queue_totals: boolean, erlang_full_version: string, erlang_version: string,
        exchange_types: [Described], is_op_policy_updating_enabled: boolean, listeners?: [Listener], management_version: string,
        message_stats?: MessageStats, node?: string, node_tags: <any>, object_totals: {channels: integer, connections: integer,
        consumers?: integer, exchanges: integer, queues: integer}, product_name: string, product_version: string,
        queue_totals?: {messages*?: integer, messages_ready*?: integer, messages_unacknowledged*?: integer},
        rabbitmq_version: string, rates_mode: string, require_definition_json_extension: boolean,
        sample_retention_policies: <[integer]>, statistics_db_event_queue: integer, warren_version: string}",
    ),
    shape("Parameter", "{component: string, name: string, value: any, vhost: string}"),
    shape("Permissions", "{configure: string, read: string, user: string, vhost: string, write: string}"),
    shape(
        "Policy",
        "{apply-to: AppliesTo, definition: <any>, name: string, pattern: string, priority: integer, vhost: string}",
    ),
    shape(
        "Profile",
        "{began_ms: integer, dropped: integer, label_names: [string], names: [string], samples: integer, stacks: [any], unit: string,
        wall_ms: integer}",
    ),
    shape(
        "Queue",
        "{arguments: <any>, auto_delete: boolean, consumer_capacity?: number, consumer_details?: [Consumer],
        consumer_utilisation?: number, consumers?: integer, deliveries?: [object], disk_bytes?: integer,
        disk_live_ratio?: number | null, durable: boolean, effective_policy_definition?: <any>, exclusive: boolean,
        exclusive_consumer_tag?: string | null, head_message_timestamp?: integer | null, idle_since?: string, incoming?: [object],
        internal?: boolean, internal_owner?: any, memory?: integer, message_bytes?: integer, message_bytes_on_disk?: integer,
        message_bytes_persistent?: integer, message_bytes_ram?: integer, message_bytes_ready?: integer,
        message_bytes_unacknowledged?: integer, message_stats?: MessageStats, messages?: integer, messages_details?: Rate,
        messages_persistent?: integer, messages_ram?: integer, messages_ready?: integer, messages_ready_details?: Rate,
        messages_ready_ram?: integer, messages_unacknowledged?: integer, messages_unacknowledged_details?: Rate,
        messages_unacknowledged_ram?: integer, name: string, node: string, online?: any, operator_policy?: string | null,
        owner_pid_details?: ConnectionName, policy?: string | null, single_active_consumer_tag?: string | null, state: string,
        storage_version?: integer, type: string, vhost: string}",
    ),
    shape(
        "Rate",
        "{avg?: number, avg_rate?: number, rate: number, samples?: [{sample: integer, timestamp: integer}], seen_since?: integer}",
    ),
    shape(
        "Shovel",
        "{ack_mode?: string, blocked_status?: string, dest_exchange?: string, dest_exchange_key?: string, dest_protocol?: string,
        dest_queue?: string, dest_uri?: string, forwarded?: integer, name: string, node: string, pending?: integer,
        reason?: string, remaining?: integer | string, remaining_unacked?: integer | string, src_exchange?: string,
        src_exchange_key?: string, src_protocol?: string, src_queue?: string, src_uri?: string, state: string, timestamp: string,
        type: string, vhost: string}",
    ),
    shape(
        "Stage",
        "{batches: integer, max_us: number, mean_us: number, p50_us: number, p90_us: number, p99.9_us: number, p99_us: number,
        queue_kind: string | null, stage: string}",
    ),
    shape(
        "StreamConsumer",
        "{active: boolean, activity_status: 'up' | 'single_active' | 'waiting', connection_details: <any>, consumed: integer,
        credits: integer, offset: integer, offset_lag: integer, properties: <string>, queue: {name: string, vhost: string},
        subscription_id: integer}",
    ),
    shape(
        "StreamPublisher",
        "{confirmed: integer, connection_details: <any>, errored: integer, published: integer, publisher_id: integer,
        queue: {name: string, vhost: string}, reference: string}",
    ),
    shape(
        "ThreadTimes",
        "{asleep_ns: integer, faults_major: integer, faults_minor: integer, name: string, running_ns: integer, threads: integer,
        turns: integer, waiting_ns: integer}",
    ),
    shape("TopicPermissions", "{exchange: string, read: string, user: string, vhost: string, write: string}"),
    shape(
        "User",
        "{hashing_algorithm: string | null, limits: <integer>, name: string, password_hash: string, tags: [string]}",
    ),
    shape(
        "Vhost",
        "{cluster_state: <string>, default_queue_type: string, description: string, message_stats?: MessageStats,
        messages*?: integer, messages_ready*?: integer, messages_unacknowledged*?: integer, metadata: VhostMetadata, name: string,
        protected_from_deletion: boolean, recv_oct*?: integer, send_oct*?: integer, tags: [string], tracing: boolean}",
    ),
    shape(
        "VhostMetadata",
        "{default_queue_type: string, description: string, protected_from_deletion?: boolean, tags: [string]}",
    ),
    shape("Web", "{cowboy_opts: string, description: string, ip: string, node: string, path: string, port: string, ssl_opts: [any]}"),
    shape(
        "Who",
        "{is_internal_user: boolean, name: string, permissions?: [Permissions], tags: [string]}",
    ),
];

/// The answer of a route; `None` for nothing.
pub(super) fn of(route: &Route) -> Option<Told> {
    let table = match route.method {
        Method::Get => OF_GET,
        Method::Post => OF_POST,
        Method::Put | Method::Delete => return None,
    };
    table.iter().find(|(path, _)| *path == route.path).map(|(_, told)| *told)
}

/// The content of an answer, by its media type.
pub(super) fn content(told: Told) -> Value {
    match told {
        Told::One(text) => json!({"application/json": {"schema": schema(text)}}),
        Told::Many(item) => {
            json!({"application/json": {"schema": {"anyOf": [schema(&format!("[{item}]")), page(item)]}}})
        }
        Told::Other(media_type) => json!({media_type: {}}),
    }
}

fn page(item: &str) -> Value {
    schema(&format!(
        "{{filtered_count: integer, item_count: integer, items: [{item}], page: integer, page_count: integer, page_size: integer,
        total_count: integer}}"
    ))
}

/// All shapes with names, and what is refused.
pub(super) fn shapes() -> Value {
    let mut all: Map<String, Value> =
        SHAPES.iter().map(|Shape { name, text }| ((*name).to_owned(), schema(text))).collect();
    all.insert("ExplainedRoute".into(), schemas::route());
    let reason = json!({"description": "A text, or a list"});
    all.insert(
        "Problem".into(),
        json!({"type": "object", "required": ["error", "reason"], "properties": {"error": {"type": "string"}, "reason": reason}}),
    );
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    fn names_in(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                names.extend(
                    object
                        .get("$ref")
                        .and_then(Value::as_str)
                        .map(|name| name.rsplit('/').next().unwrap().to_owned()),
                );
                object.values().for_each(|inner| names_in(inner, names));
            }
            Value::Array(list) => list.iter().for_each(|inner| names_in(inner, names)),
            _ => {}
        }
    }

    #[test]
    fn every_read_says_what_it_answers_and_nothing_is_said_of_routes_that_are_not_there() {
        for route in table::all().filter(|route| route.method == Method::Get) {
            assert!(of(route).is_some(), "{}", route.path);
        }
        let is_there = |method, path| table::all().any(|route| route.method == method && route.path == path);
        assert!(OF_GET.iter().all(|(path, _)| is_there(Method::Get, *path)));
        assert!(OF_POST.iter().all(|(path, _)| is_there(Method::Post, *path)));
    }

    #[test]
    fn every_shape_that_is_named_is_there_and_every_shape_is_used() {
        let shapes = shapes();
        let mut names = vec!["Problem".to_owned()];
        names_in(&shapes, &mut names);
        OF_GET.iter().chain(OF_POST).for_each(|(_, told)| names_in(&content(*told), &mut names));
        names.iter().for_each(|name| assert!(shapes.get(name).is_some(), "{name}"));
        shapes.as_object().unwrap().keys().for_each(|name| assert!(names.contains(name), "{name}"));
    }
}
