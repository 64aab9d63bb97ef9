"""Content of a Prometheus page: names, types and labels of its metrics. Knows no broker."""

import re
import urllib.request

# The words that /metrics/detailed?family= takes in RabbitMQ 4.3.
FAMILIES = [
    "auth_attempt_detailed_metrics", "auth_attempt_metrics", "channel_exchange_metrics", "channel_metrics", "channel_process_metrics",
    "channel_queue_exchange_metrics", "channel_queue_metrics", "connection_churn_metrics", "connection_coarse_metrics",
    "connection_metrics", "exchange_bindings", "exchange_metrics", "exchange_names", "node_coarse_metrics", "node_memory",
    "node_metrics", "node_persister_metrics", "queue_coarse_metrics", "queue_consumer_count", "queue_delivery_metrics",
    "queue_exchange_metrics", "queue_metrics", "ra_metrics", "stream_consumer_metrics", "vhost_status",
]

PAGES = ["metrics", "metrics/per-object", "metrics/memory-breakdown", "metrics/detailed"]
PAGES += [f"metrics/detailed?family={family}" for family in FAMILIES]

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*",?')


def fetch(base, page, timeout_s=120):
    with urllib.request.urlopen(f"{base}/{page}", timeout=timeout_s) as answer:
        return answer.read().decode()


def parse(text):
    """Metrics by name: type, labels of its samples, and the samples themselves. Refuses what a scraper would refuse."""
    metrics, current = {}, None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in metrics or not metrics[name]["samples"], f"{name} comes twice"
            current = metrics.setdefault(name, {"type": kind, "labels": set(), "samples": []})
        elif line.startswith("# HELP ") or not line:
            continue
        else:
            found = SAMPLE.fullmatch(line)
            assert found, f"no sample: {line!r}"
            name, labels, value = found.groups()
            owner = next(owner for owner in (name, *(name.removesuffix(end) for end in ("_bucket", "_sum", "_count"))) if owner in metrics)
            assert metrics[owner] is current, f"{name} stands among the samples of another metric"
            labels = labels or ""
            assert LABEL.sub("", labels) == "", f"no labels: {line!r}"
            float(value)
            current["labels"] |= {label for label in LABEL.findall(labels) if label != "le"}
            current["samples"].append((name, labels, value))
    return metrics


def shape(text, keep=lambda name: True):
    """The recorded and compared part: name -> [type, labels]; no labels are known of a metric without samples."""
    metrics = parse(text).items()
    return {name: [it["type"], sorted(it["labels"]) if it["samples"] else None] for name, it in metrics if keep(name)}
