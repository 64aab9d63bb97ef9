#!/usr/bin/env python3
"""Writes the Grafana dashboards in packaging/grafana: what stands on them is the table below. `--check` says whether they are current.

    packaging/dashboards.py [--check]

Overview, node and latency read `/metrics`. The queue dashboard needs `/metrics/per-object`, or `/metrics/detailed` under the names of
`/metrics/per-object`, and is for hundreds of queues, not for thousands.
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "grafana"
BY_NODE = '{job=~"$job",instance=~"$instance"}'
BY_QUEUE = '{job=~"$job",instance=~"$instance",vhost=~"$vhost",queue=~"$queue"}'


def sums(metric, labels=BY_NODE):
    return f"sum({metric}{labels})"


def rates(metric, labels=BY_NODE):
    return f"sum(rate({metric}{labels}[$__rate_interval]))"


def quantile(part, labels='{job=~"$job",instance=~"$instance",stage=~"$stage"}'):
    return f"histogram_quantile({part}, sum by (le, stage) (rate(warren_stage_seconds_bucket{labels}[$__rate_interval])))"


def number(title, expression, unit="short", red=None, about=""):
    """A number now; red from `red` on."""
    return {"kind": "stat", "title": title, "series": [("", expression)], "unit": unit, "red": red, "about": about}


def lines(title, *series, unit="short", about="", width=12):
    return {"kind": "timeseries", "title": title, "series": series, "unit": unit, "about": about, "width": width}


OVERVIEW = ("warren-overview", "Warren: overview", [], [
    ("Now", [
        number("Ready messages", sums("rabbitmq_queue_messages_ready")),
        number("Unacked messages", sums("rabbitmq_queue_messages_unacked")),
        number("Connections", sums("rabbitmq_connections")),
        number("Channels", sums("rabbitmq_channels")),
        number("Consumers", sums("rabbitmq_consumers")),
        number("Queues", sums("rabbitmq_queues")),
        number("Alarms", f"{sums('rabbitmq_alarms_memory_used_watermark')} + {sums('rabbitmq_alarms_free_disk_space_watermark')}",
               red=1, about="1 or 2: publishers are stopped, because memory or disk is short."),
        number("Storage failed", sums("warren_storage_failed"), red=1,
               about="A sync has failed: nothing durable is accepted before a restart."),
    ]),
    ("Messages", [
        lines("Messages in queues", ("ready", sums("rabbitmq_queue_messages_ready")),
              ("unacked", sums("rabbitmq_queue_messages_unacked"))),
        lines("In and out", ("received", rates("rabbitmq_global_messages_received_total")),
              ("delivered", rates("rabbitmq_global_messages_delivered_total")),
              ("acknowledged", rates("rabbitmq_global_messages_acknowledged_total")),
              ("confirmed", rates("rabbitmq_global_messages_confirmed_total")), unit="cps"),
        lines("Going nowhere", ("dropped, no route", rates("rabbitmq_global_messages_unroutable_dropped_total")),
              ("returned, no route", rates("rabbitmq_global_messages_unroutable_returned_total")), unit="cps",
              about="`warren ctl explain_route EXCHANGE KEY` says why."),
        lines("Redelivered and dead-lettered", ("redelivered", rates("rabbitmq_global_messages_redelivered_total")),
              ("expired", rates("rabbitmq_global_messages_dead_lettered_expired_total")),
              ("rejected", rates("rabbitmq_global_messages_dead_lettered_rejected_total")),
              ("over a length limit", rates("rabbitmq_global_messages_dead_lettered_maxlen_total")), unit="cps"),
        lines("Left without being acked", ("expired", rates("warren_queue_messages_expired_total")),
              ("rejected", rates("warren_queue_messages_rejected_total")),
              ("dropped", rates("warren_queue_messages_dropped_total")), unit="cps"),
        lines("Message size, median", ("bytes", "histogram_quantile(0.5, sum by (le) (rate(rabbitmq_message_size_bytes_bucket"
              f"{BY_NODE}[$__rate_interval])))"), unit="bytes"),
    ]),
    ("Clients", [
        lines("Connections", ("opened", rates("rabbitmq_connections_opened_total")),
              ("closed", rates("rabbitmq_connections_closed_total")), unit="cps",
              about="Many of both: clients that connect for each message."),
        lines("Channels", ("opened", rates("rabbitmq_channels_opened_total")),
              ("closed", rates("rabbitmq_channels_closed_total")), unit="cps"),
        lines("Logins", ("succeeded", rates("rabbitmq_auth_attempts_succeeded_total")),
              ("failed", rates("rabbitmq_auth_attempts_failed_total")), unit="cps"),
        lines("Publishers and consumers", ("publishers", sums("rabbitmq_global_publishers")),
              ("consumers", sums("rabbitmq_global_consumers"))),
    ]),
])

NODE = ("warren-node", "Warren: node", [], [
    ("Now", [
        number("Up for", f"max(rabbitmq_erlang_uptime_seconds{BY_NODE})", unit="s"),
        number("Memory", sums("rabbitmq_process_resident_memory_bytes"), unit="bytes"),
        number("Free disk", f"min(rabbitmq_disk_space_available_bytes{BY_NODE})", unit="bytes"),
        number("Stalls", f"sum(increase(warren_delivery_stalls_total{BY_NODE}[1h]))", red=1,
               about="Times in the last hour that a queue delivered nothing for 30 s although it could."),
    ]),
    ("Resources", [
        lines("Memory", ("used", sums("rabbitmq_process_resident_memory_bytes")),
              ("limit", sums("rabbitmq_resident_memory_limit_bytes")), unit="bytes"),
        lines("Disk", ("free", f"min(rabbitmq_disk_space_available_bytes{BY_NODE})"),
              ("limit", f"max(rabbitmq_disk_space_available_limit_bytes{BY_NODE})"), unit="bytes",
              about="Below the limit publishers are stopped."),
        lines("CPU", ("cores", rates("process_cpu_seconds_total"))),
        lines("Threads", ("threads", sums("process_threads"))),
        lines("Open files", ("open", sums("rabbitmq_process_open_fds")), ("limit", sums("rabbitmq_process_max_fds"))),
        lines("Sockets", ("open", sums("rabbitmq_process_open_tcp_sockets"))),
    ]),
    ("Storage", [
        lines("Disk traffic", ("read", rates("rabbitmq_io_read_bytes_total")),
              ("written", rates("rabbitmq_io_write_bytes_total")), unit="Bps"),
        lines("Segments", ("unsettled", sums("warren_segments_live_bytes")),
              ("settled", sums("warren_segments_dead_bytes")), unit="bytes",
              about="Settled bytes are at most as many as unsettled ones, or 256 MiB."),
        lines("Backlogs on disk", ("all", sums("warren_queue_disk_bytes")),
              ("unsettled", sums("warren_queue_disk_live_bytes")), unit="bytes"),
        lines("Messages to and from disk", ("read", rates("rabbitmq_queue_disk_reads_total")),
              ("written", rates("rabbitmq_queue_disk_writes_total")), unit="cps"),
    ]),
])

LATENCY = ("warren-latency", "Warren: latency by stage", ["stage"], [
    ("Where the time goes, per batch of messages", [
        lines("Median", ("{{stage}}", quantile(0.5)), unit="s"),
        lines("99 of 100", ("{{stage}}", quantile(0.99)), unit="s"),
        lines("999 of 1000", ("{{stage}}", quantile(0.999)), unit="s"),
        lines("Batches", ("{{stage}}", "sum by (stage) (rate(warren_stage_seconds_count"
              '{job=~"$job",instance=~"$instance",stage=~"$stage"}[$__rate_interval]))'), unit="cps"),
        lines("Time in each stage, of each second", ("{{stage}}", "sum by (stage) (rate(warren_stage_seconds_sum"
              '{job=~"$job",instance=~"$instance",stage=~"$stage"}[$__rate_interval]))'), unit="s", width=24,
              about="`warren ctl profile cpu` says what the time is spent on."),
    ]),
    ("The disk, for which confirms wait", [
        lines("Sync", ("median", quantile(0.5, '{job=~"$job",instance=~"$instance",stage="fsync"}')),
              ("99 of 100", quantile(0.99, '{job=~"$job",instance=~"$instance",stage="fsync"}')), unit="s"),
        lines("Confirm", ("median", quantile(0.5, '{job=~"$job",instance=~"$instance",stage="confirm"}')),
              ("99 of 100", quantile(0.99, '{job=~"$job",instance=~"$instance",stage="confirm"}')), unit="s"),
    ]),
])


def of_queues(metric):
    return f"sum by (vhost, queue) ({metric}{BY_QUEUE})"


def queue_rates(metric):
    return f"sum by (vhost, queue) (rate({metric}{BY_QUEUE}[$__rate_interval]))"


NAME = "{{vhost}} {{queue}}"
QUEUE = ("warren-queue", "Warren: queues", ["vhost", "queue"], [
    ("Depth", [
        lines("Ready", (NAME, of_queues("rabbitmq_queue_messages_ready"))),
        lines("Unacked", (NAME, of_queues("rabbitmq_queue_messages_unacked"))),
        lines("Bytes", (NAME, of_queues("rabbitmq_queue_messages_bytes")), unit="bytes"),
        lines("Bytes on disk", (NAME, of_queues("warren_queue_disk_bytes")), unit="bytes"),
    ]),
    ("Traffic", [
        # This metric has RabbitMQ's other name for the vhost.
        lines("Published", ("{{queue_vhost}} {{queue}}", "sum by (queue_vhost, queue) (rate(rabbitmq_queue_messages_published_total"
              '{job=~"$job",instance=~"$instance",queue_vhost=~"$vhost",queue=~"$queue"}[$__rate_interval]))'), unit="cps"),
        lines("Delivered, to be acked", (NAME, queue_rates("rabbitmq_queue_messages_delivered_ack_total")), unit="cps"),
        lines("Acked", (NAME, queue_rates("rabbitmq_queue_messages_acked_total")), unit="cps"),
        lines("Redelivered", (NAME, queue_rates("rabbitmq_queue_messages_redelivered_total")), unit="cps"),
    ]),
    ("Consumers", [
        lines("Consumers", (NAME, of_queues("rabbitmq_queue_consumers"))),
        lines("Capacity", (NAME, f"min by (vhost, queue) (rabbitmq_queue_consumer_capacity{BY_QUEUE})"), unit="percentunit",
              about="Part of the time that a consumer could take a message at once. Low: consumers are slow, or prefetch is small."),
    ]),
    ("Left without being acked", [
        lines("Expired", (NAME, queue_rates("warren_queue_messages_expired_total")), unit="cps", width=8),
        lines("Rejected", (NAME, queue_rates("warren_queue_messages_rejected_total")), unit="cps", width=8),
        lines("Dropped", (NAME, queue_rates("warren_queue_messages_dropped_total")), unit="cps", width=8),
    ]),
])

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
VARIABLES = {
    "job": "label_values(rabbitmq_identity_info, job)",
    "instance": 'label_values(rabbitmq_identity_info{job=~"$job"}, instance)',
    "stage": "label_values(warren_stage_seconds_count, stage)",
    "vhost": "label_values(rabbitmq_queue_messages_ready, vhost)",
    "queue": 'label_values(rabbitmq_queue_messages_ready{vhost=~"$vhost"}, queue)',
}


def variables(more):
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}
    queries = [
        {
            "name": name,
            "label": name,
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": VARIABLES[name], "refId": name},
            "definition": VARIABLES[name],
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }
        for name in ["job", "instance", *more]
    ]
    return {"list": [source, *queries]}


def panel(number_, spec, x, y, width, height):
    red = spec.get("red")
    steps = [{"color": "green", "value": None}] + ([{"color": "red", "value": red}] if red is not None else [])
    result = {
        "id": number_,
        "type": spec["kind"],
        "title": spec["title"],
        "description": spec["about"],
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": height},
        "targets": [
            {"refId": chr(65 + i), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend or spec["title"]}
            for i, (legend, expression) in enumerate(spec["series"])
        ],
        "fieldConfig": {
            "defaults": {"unit": spec["unit"], "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
    }
    if spec["kind"] == "stat":
        result["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
        result["fieldConfig"]["defaults"].pop("min")
    else:
        result["options"] = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                             "tooltip": {"mode": "multi", "sort": "desc"}}
    return result


def dashboard(uid, title, more, rows):
    panels, y = [], 0
    for row, specs in rows:
        panels.append({"id": len(panels) + 1, "type": "row", "title": row, "collapsed": False,
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []})
        y += 1
        x, height = 0, 0
        for spec in specs:
            width, tall = (24 // len(specs), 4) if spec["kind"] == "stat" else (spec["width"], 8)
            if x + width > 24:
                x, y = 0, y + height
            panels.append(panel(len(panels) + 1, spec, x, y, width, tall))
            x, height = x + width, tall
        y += height
    return {
        "uid": uid,
        "title": title,
        "tags": ["warren", "rabbitmq"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": variables(more),
        "annotations": {"list": []},
        "panels": panels,
    }


def main():
    wrong = []
    for uid, title, more, rows in (OVERVIEW, NODE, LATENCY, QUEUE):
        path = FOLDER / f"{uid.split('-', 1)[1]}.json"
        text = json.dumps(dashboard(uid, title, more, rows), indent=1) + "\n"
        if "--check" in sys.argv:
            wrong += [path] if not path.exists() or path.read_text() != text else []
        else:
            path.write_text(text)
    if wrong:
        sys.exit(f"not current: {', '.join(map(str, wrong))}; run packaging/dashboards.py")


if __name__ == "__main__":
    main()
