"""Requests of the Grafana dashboards that RabbitMQ publishes: names of metrics and, of each, the labels that a panel or a legend
uses. Collected from their queries, of the versions for 3.8 to 4.x. Knows no panel."""

# All panels join with the labels of rabbitmq_identity_info; what else a panel needs stands here.
IDENTITY = {"rabbitmq_node", "rabbitmq_cluster"}
BUILD = {"rabbitmq_version", "erlang_version", "prometheus_client_version", "prometheus_plugin_version"}

NODE = ["alarms_memory_used_watermark", "alarms_free_disk_space_watermark", "resident_memory_limit_bytes", "process_resident_memory_bytes",
        "disk_space_available_bytes", "disk_space_available_limit_bytes", "process_max_fds", "process_open_fds", "process_max_tcp_sockets",
        "process_open_tcp_sockets", "erlang_uptime_seconds"]
TOTALS = ["connections", "channels", "consumers", "queues"]
CHURN = ["queues_declared_total", "queues_created_total", "queues_deleted_total", "channels_opened_total", "channels_closed_total",
         "connections_opened_total", "connections_closed_total"]
QUEUES = ["queue_messages_ready", "queue_messages_unacked", "queue_messages_published_total"]
CHANNELS = ["channel_consumers", "channel_messages_published_total", "channel_messages_confirmed_total", "channel_messages_unconfirmed",
            "channel_messages_unroutable_dropped_total", "channel_messages_unroutable_returned_total", "channel_messages_redelivered_total",
            "channel_messages_delivered_total", "channel_messages_delivered_ack_total", "channel_messages_acked_total", "channel_get_total",
            "channel_get_ack_total", "channel_get_empty_total"]
# The dashboard of 3.9 and later asks for these instead of those of channels.
GLOBAL = ["messages_received_total", "messages_received_confirm_total", "messages_confirmed_total", "messages_routed_total",
          "messages_unroutable_dropped_total", "messages_unroutable_returned_total", "messages_redelivered_total", "messages_delivered_total",
          "messages_delivered_consume_auto_ack_total", "messages_delivered_consume_manual_ack_total", "messages_delivered_get_auto_ack_total",
          "messages_delivered_get_manual_ack_total", "messages_get_empty_total", "messages_acknowledged_total", "publishers", "consumers"]

OVERVIEW = {f"rabbitmq_{name}": set() for name in [*NODE, *TOTALS, *CHURN, *QUEUES, *CHANNELS]}
OVERVIEW |= {f"rabbitmq_global_{name}": {"protocol"} for name in GLOBAL}
OVERVIEW |= {"rabbitmq_build_info": BUILD, "rabbitmq_identity_info": IDENTITY}

# RabbitMQ-PerfTest asks the load generator only, and lets its reader choose among the quantiles.
PERF_TEST = {f"perftest_{name}": set() for name in ["published", "consumed", "confirmed", "nacked", "returned"]}
PERF_TEST |= {f"perftest_{name}_seconds": {"quantile"} for name in ["latency", "confirm_latency"]}

# Dashboards of what a broker without Erlang, Raft and streams has not, with the beginnings of the names that they ask for.
NOT_HERE = {
    "Erlang-BEAM": ["erlang_vm"],
    "Erlang-Memory-Allocators": ["erlang_vm"],
    "Erlang-Distribution": ["erlang_vm"],
    "Erlang-Distributions-Compare": ["erlang_vm"],
    "inet_tcp_metrics": ["inet_tcp_metrics"],
    "RabbitMQ-Quorum-Queues-Raft": ["rabbitmq_raft"],
    "RabbitMQ-Raft": ["rabbitmq_raft"],
    # Beside these it asks for the names of the overview with protocol="stream", which are there once such a client has come.
    "RabbitMQ-Stream": ["rabbitmq_global_stream"],
}
