"""The pages of metrics against a Warren of their own: what RabbitMQ 4.3 has (seen/rabbitmq-4.3.json) is there with the same type and
labels, unless ABSENT says why not; the figures are those of the traffic; and a scraper can read every page. Needs no RabbitMQ."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.error

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "crash"))

import dashboards  # noqa: E402
import families  # noqa: E402
import traffic  # noqa: E402
from warren import Warren  # noqa: E402

SEEN = json.loads((HERE / "seen" / "rabbitmq-4.3.json").read_text())

# Metrics of RabbitMQ that Warren does not have, by the end of their names, and why.
ABSENT = {
    r".*process_reductions_total": "reductions are a measure of Erlang",
    r"erlang_(processes_used|processes_limit|gc_runs_total|gc_reclaimed_bytes_total|scheduler_context_switches_total|scheduler_run_queue|net_ticktime_seconds)":
        "there is no Erlang",
    r"raft_.*": "there is no Raft yet",
    r"(stream_(?!consumer_max_offset_lag|segments).*|global_stream_.*)": "refused commands of streams are not counted by their codes",
    r"io_(read_ops|write_ops|sync_ops|seek_ops|reopen_ops|read_time_seconds|write_time_seconds|sync_time_seconds|seek_time_seconds)_total":
        "always 0 in RabbitMQ 4; stages of Warren say more",
    r"(schema_db_.*|queue_index_.*)": "parts of RabbitMQ's storage",
    r"exchange_messages_confirmed_total": "confirms are counted per channel",
    r"queue_exchange_messages_published_total": "not counted per pair of exchange and queue",
    r"global_messages_dead_lettered_(confirmed|delivery_limit)_total": "of quorum queues, which are not there yet",
    r"memory_(quorum|stream|plugin|metrics|management_stats|classic_metadata|message_index|atom|runtime_reserved|client_connection_reader|modern_metadata_store_ets).*_bytes":
        "memory is divided otherwise",
}

# Labels that differ.
LABELS = {
    r"queue_messages_published_total": "counted per queue",
    r"channel_(get|messages_(published|confirmed|unroutable|delivered|redelivered|acked)).*": "counted per channel, not per channel and exchange or queue",
}


def missing(name):
    short = re.sub(r"^rabbitmq_(detailed_|cluster_)?", "", name)
    return next((why for pattern, why in ABSENT.items() if re.fullmatch(pattern, short)), None)


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Every page while there is traffic."""
    binary = os.environ.get("WARREN_BIN") or pytest.exit("WARREN_BIN names the binary to test", 2)
    folder = tmp_path_factory.mktemp("prometheus")
    server = Warren(binary, folder, "prometheus.tcp.port = 0\n")
    server.start()
    try:
        port = re.search(r"port: (\d+), protocol: http/prometheus", server.ctl("listeners")[1])[1]
        base = f"http://127.0.0.1:{port}"
        with traffic.traffic(server.url):
            texts = {page: families.fetch(base, page) for page in families.PAGES}
        for bad in ("metrics/nonsense", ""):
            with pytest.raises(urllib.error.HTTPError):
                families.fetch(base, bad)
    finally:
        server.stop()
    return texts


@pytest.mark.parametrize("page", families.PAGES)
def test_b181_a_page_has_what_rabbitmq_has(pages, page):
    ours = families.shape(pages[page])
    for name, (kind, labels) in SEEN[page].items():
        why = missing(name)
        if name not in ours:
            assert why, f"{page}: {name} is not there"
            continue
        assert ours[name][0] == kind, name
        differs = any(re.fullmatch(pattern, name.removeprefix("rabbitmq_").removeprefix("detailed_")) for pattern in LABELS)
        if labels is not None and ours[name][1] is not None and not differs:
            assert set(labels) <= set(ours[name][1]), f"{page}: {name} has labels {ours[name][1]}, RabbitMQ {labels}"


def value(pages, page, name, *labels):
    samples = families.parse(pages[page])[name.removesuffix("_count")]["samples"]
    found = [float(it) for known, of, it in samples if known == name and all(label in of for label in labels)]
    assert len(found) == 1, f"{name} {labels}: {samples}"
    return found[0]


def test_the_sums_are_those_of_the_traffic(pages):
    for name, wanted in {
        "rabbitmq_global_messages_received_total": 6, "rabbitmq_global_messages_received_confirm_total": 6,
        "rabbitmq_global_messages_routed_total": 4, "rabbitmq_global_messages_unroutable_returned_total": 1,
        "rabbitmq_global_messages_unroutable_dropped_total": 1, "rabbitmq_global_messages_confirmed_total": 6,
        "rabbitmq_global_messages_delivered_get_auto_ack_total": 1, "rabbitmq_global_messages_delivered_get_manual_ack_total": 2,
        "rabbitmq_global_messages_delivered_consume_manual_ack_total": 2, "rabbitmq_global_messages_redelivered_total": 1,
        "rabbitmq_global_messages_acknowledged_total": 2, "rabbitmq_global_publishers": 1, "rabbitmq_global_consumers": 1,
        "rabbitmq_queue_messages_persistent": 1, "rabbitmq_queue_messages_persistent_bytes": 200, "rabbitmq_queue_messages_ram": 1,
        "rabbitmq_queue_messages_unacked": 1, "rabbitmq_queue_messages_ready": 0, "rabbitmq_channels": 2, "rabbitmq_connections": 1,
        "rabbitmq_queues": 2, "rabbitmq_queue_disk_writes_total": 4, "rabbitmq_connections_opened_total": 1,
        "rabbitmq_message_size_bytes_count": 6, "rabbitmq_queue_messages_published_total": 4, "rabbitmq_exchange_messages_published_total": 6,
    }.items():
        assert value(pages, "metrics", name) == wanted, name


def test_objects_are_told_apart(pages):
    of = ('vhost="/"', f'queue="{traffic.QUEUE}"')
    assert value(pages, "metrics/per-object", "rabbitmq_queue_messages", *of) == 1
    assert value(pages, "metrics/detailed?family=queue_delivery_metrics", "rabbitmq_detailed_queue_messages_delivered_ack_total", *of) == 2
    exchange = ('vhost="/"', f'exchange="{traffic.EXCHANGE}"')
    assert value(pages, "metrics/detailed?family=exchange_metrics", "rabbitmq_detailed_exchange_messages_unroutable_returned_total", *exchange) == 1
    assert value(pages, "metrics/detailed?family=exchange_bindings", "rabbitmq_cluster_exchange_bindings", *exchange, 'type="direct"') == 1


@pytest.mark.parametrize("page", ["metrics", "metrics/per-object"])
@pytest.mark.parametrize("metric", sorted(dashboards.OVERVIEW))
def test_a_panel_of_the_overview_dashboard_has_its_metric(pages, page, metric):
    """Whichever version of the dashboard somebody has imported, and whichever page is scraped."""
    found = families.parse(pages[page])[metric]
    assert found["samples"], metric
    assert (found["type"] == "counter") == metric.endswith("_total"), metric
    assert found["labels"] >= dashboards.OVERVIEW[metric], metric


def test_the_dashboard_of_the_load_generator_has_its_metrics(tmp_path):
    """RabbitMQ-PerfTest asks nothing of the broker."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Warren(os.environ["WARREN_BIN"], tmp_path, "prometheus.tcp.listener = none\n")
    server.start()
    words = ["--uri", server.url, "--rate", "100", "--confirm", "10", "--metrics-prometheus", "--metrics-prometheus-port", str(port), "--time", "60"]
    load = subprocess.Popen([server.binary, "perf", *words], stdout=subprocess.DEVNULL)
    try:
        found, end = {}, time.monotonic() + 30
        while not found.keys() >= dashboards.PERF_TEST.keys() and time.monotonic() < end:
            time.sleep(0.2)
            try:
                found = families.parse(families.fetch(f"http://127.0.0.1:{port}", "metrics"))
            except OSError:                      # not there yet
                pass
        for metric, labels in dashboards.PERF_TEST.items():
            assert found[metric]["samples"] and found[metric]["labels"] >= labels, metric
    finally:
        load.kill()
        load.wait()
        server.stop()


def test_no_series_of_streams_is_there_without_streams(pages):
    """The dashboard of streams asks for the names of the overview with this label; a zero would look like a stream that is idle."""
    assert not [line for text in pages.values() for line in text.splitlines() if 'protocol="stream"' in line]


def test_a_label_that_a_join_adds_is_on_no_metric_before(pages):
    """PromQL refuses `group_left(rabbitmq_node)` where the metric has a label of that name already, and a sum of what is told twice lies."""
    for name, metric in families.parse(pages["metrics"]).items():
        if name != "rabbitmq_identity_info":
            assert not metric["labels"] & {"rabbitmq_cluster", "rabbitmq_node", "instance", "job", "namespace"}, name


def test_what_dashboards_of_erlang_raft_and_streams_ask_for_is_documented_as_missing(pages):
    """Nothing has a name of theirs and another meaning, and the page for operators says so."""
    told = (HERE.parent.parent / "docs" / "monitoring.md").read_text()
    shown = {name for page in pages.values() for name in families.parse(page)}
    for dashboard, prefixes in dashboards.NOT_HERE.items():
        assert dashboard in told, dashboard
        for prefix in prefixes:
            assert not [name for name in shown if name.startswith(prefix)], prefix


def test_b181_the_dashboard_finds_its_node(pages):
    """The queries of RabbitMQ's dashboards join everything with these two."""
    for page, endpoint in (("metrics", "aggregated"), ("metrics/per-object", "per-object"), ("metrics/detailed", "detailed")):
        assert value(pages, page, "rabbitmq_identity_info", f'rabbitmq_endpoint="{endpoint}"', "rabbitmq_cluster=", "rabbitmq_node=") == 1
        assert value(pages, page, "rabbitmq_build_info", "rabbitmq_version=", "erlang_version=") == 1
