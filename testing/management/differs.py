"""Differences from RabbitMQ 4.3 on purpose, and parts of 3.10 that are gone: (part of the request, expression over the difference, why)."""

import re

ANY = ""

DIFFERS = [
    (ANY, r"garbage_collection|reductions|cached_segments|pending_raft_commands", "figures of Erlang processes"),
    (ANY, r"peer-rabbitmq4@localhost|warren@localhost", "the node's name is a key"),
    (ANY, r"warren_version|message_bytes_on_disk|disk_bytes|disk_live_ratio|global_prefetch_count|seen_since", "Warren shows more"),
    ("/channels", r"idle_since", "depends on how long the channel was not used"),
    ("/api/queues", r"idle_since", "depends on traffic and its time: Warren counts a queue as used since a message came or went"),
    (ANY, r"socket_opts|cowboy|contexts|listeners", "listeners of other protocols and their socket options"),
    ("/api/nodes", r"config_files|metrics_gc_queue_length|ra_open_file_metrics|applications", "parts of RabbitMQ that do not exist here"),
    ("/api/extensions", r".", "extensions of RabbitMQ's own pages"),
    ("GET /api/policies$", r".", "depends on what else is on the broker that was recorded"),
    ("GET /api/operator-policies$", r".", "depends on what else is on the broker that was recorded"),
    ("/api/parameters", r".", "depends on what else is on the broker that was recorded"),
    ("/api/global-parameters", r"value list", "cluster tags"),
    ("GET /api/definitions", r"internal bool", "Warren also writes `internal`, as RabbitMQ does for all vhosts"),
    ("GET /api/definitions", r"arguments", "depends on the arguments of queues"),
    ("/api/overview", r"message_stats|queue_totals|churn_rates", "depends on what else was on the broker"),
    ("/api/overview as", r"statistics|churn", "depends on what else was on the broker"),
    ("/api/queues", r"message_stats|arguments|owner_pid|consumer_(capacity|utilisation)|policy", "depends on traffic and its time, and which queue is first"),
    ("/api/vhosts", r"message_stats", "depends on traffic"),
    ("PUT /api/permissions", r"invalid_regexp.*missing closing parenthesis", "a text, where RabbitMQ has a list of numbers"),
    ("POST /api/definitions", r"prior to importing", "Warren names the entry, and imports the others"),
    ("/api/health/checks/p", r"refusal|shape|ports|protocols", "listeners differ"),
    ("/api/nodes/NODE/memory", r".", "parts of memory differ"),
]

GONE_SINCE_310 = [
    (ANY, r"backing_queue_status|paged_out|recoverable_slaves|queue_slave_procs", "of queues as they were stored and mirrored; not in 4.3 either"),
    (ANY, r"release_series_support_status|peer-rabbitmq3@localhost|javascript", "not in 4.3 either"),
    (ANY, r"\.arguments object", "a queue's arguments have its type, as in 4.3"),
    (ANY, r"(operator_)?policy NoneType|effective_policy_definition object|_consumer_tag NoneType|head_message_timestamp NoneType", "lists are shorter, as in 4.3"),
    ("/api/health/checks/protocol-listener", r"protocol str|missing str", "a list, as in 4.3"),
    ("/api/overview as", r"queue_totals object", "has totals, as there is something in its queues"),
    ("POST /api/queues/httpshapes/q1/actions", r"204 -> 400", "`sync` is an action of mirrored queues, which are gone in 4.3"),
    ("/api/topic-permissions", r"204 -> 40", "exchanges that do not exist are refused, as in 4.3"),
    ("DELETE /api/vhosts/httpshapes", r"204 -> 412", "3.10 cannot protect vhosts"),
    ("/api/policies", r"missing:  list", "depends on what else is on the broker that was recorded"),
    ("/api/operator-policies", r"missing:  list", "depends on what else is on the broker that was recorded"),
    ("/api/connections/username", r"missing:  list", "3.10 had closed the connection by then"),
]


def differs_on_purpose(request, difference):
    return is_listed(DIFFERS, request, difference)


def gone_since_310(request, difference):
    return is_listed(GONE_SINCE_310 + DIFFERS, request, difference)


def is_listed(differences, request, difference):
    return any(is_about(part, request) and re.search(expression, difference) for part, expression, _ in differences)


def is_about(part, request):
    """A part that ends with `$` is all of the request."""
    return request == part[:-1] if part.endswith("$") else part in request
