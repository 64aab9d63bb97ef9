"""Dashboards and alert rules ask for metrics that a running broker has, with labels that they have there."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "testing" / "crash"))
from warren import Warren  # noqa: E402

# Words of the query language, and what Prometheus itself makes.
WORDS = set("sum by le rate increase deriv predict_linear histogram_quantile max min and on label_values stage vhost queue_vhost queue job instance up".split())
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@pytest.fixture(scope="module")
def pages(binary, tmp_path_factory):
    server = Warren(binary, tmp_path_factory.mktemp("metrics"), "prometheus.tcp.port = 0\n")
    server.start()
    try:
        subprocess.run([binary, "perf", "--uri", server.url, "-x", "1", "-y", "1", "-u", "q", "-ad", "false", "-f", "persistent", "-c", "10",
                        "-C", "200", "-D", "200"], check=True, stdout=subprocess.DEVNULL, timeout=60)
        code, text, _ = server.ctl("listeners")
        assert code == 0
        port = re.search(r"port: (\d+), protocol: http/prometheus", text).group(1)
        yield {page: samples(f"http://127.0.0.1:{port}/{page}") for page in ("metrics", "metrics/per-object")}
    finally:
        server.stop()


def samples(url):
    """Names of samples, each with all labels it has somewhere."""
    found = {}
    with urllib.request.urlopen(url, timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line and not line.startswith("#"):
                name, labels = re.match(r"([^{ ]+)(?:\{(.*)\})? ", line).groups()
                found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


def used(expression):
    """Metrics of an expression, with the labels that it selects by."""
    text = re.sub(r"\$__rate_interval|\[[^\]]*\]", "", expression)
    found = {}
    for match in re.finditer(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}", text):
        found.setdefault(match.group(1), set()).update(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", match.group(2)))
    for name in NAME.findall(re.sub(r"\{[^}]*\}|\"[^\"]*\"", "", text)):
        if name not in WORDS:
            found.setdefault(name, set())
    return {name: labels - {"job", "instance"} for name, labels in found.items() if name not in WORDS}


def missing(expression, page):
    for name, labels in used(expression).items():
        if name not in page:
            yield f"{name} in {expression}"
        elif not labels <= page[name]:
            yield f"labels {sorted(labels - page[name])} of {name} in {expression}"


def test_the_reader_of_expressions_finds_metrics_and_labels():
    text = 'histogram_quantile(0.99, sum by (le) (rate(a_bucket{stage="fsync",job=~"x"}[5m]))) > 2 * b_total and on (queue) c == 0'
    assert used(text) == {"a_bucket": {"stage"}, "b_total": set(), "c": set()}
    assert list(missing("a{x=\"1\"} + b", {"a": {"y"}})) == ['labels [\'x\'] of a in a{x="1"} + b', 'b in a{x="1"} + b']


def dashboards():
    return sorted((ROOT / "packaging" / "grafana").glob("*.json"))


def test_the_dashboards_are_those_of_the_table():
    subprocess.run([sys.executable, ROOT / "packaging" / "dashboards.py", "--check"], check=True)
    assert [path.stem for path in dashboards()] == ["latency", "node", "overview", "queue"]


@pytest.mark.parametrize("path", dashboards(), ids=lambda path: path.stem)
def test_dashboards_ask_for_metrics_that_are_there(path, pages):
    board = json.loads(path.read_text())
    page = pages["metrics/per-object" if path.stem == "queue" else "metrics"]
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 8
    variables = [one["definition"] for one in board["templating"]["list"] if "definition" in one]
    asked = expressions + [re.match(r"label_values\((.*), \w+\)$", one).group(1) for one in variables]
    assert [problem for one in asked for problem in missing(one, page)] == []
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    inside = [panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in board["panels"]]
    assert max(inside) <= 24


def test_alerts_ask_for_metrics_that_are_there(pages):
    yaml = pytest.importorskip("yaml")
    groups = yaml.safe_load((ROOT / "packaging" / "prometheus" / "alerts.yml").read_text())["groups"]
    assert [group["name"] for group in groups] == ["warren", "warren-queues"]
    names = []
    for group in groups:
        page = pages["metrics/per-object" if group["name"] == "warren-queues" else "metrics"]
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
            assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule
            assert rule["annotations"]["summary"] and rule["annotations"]["action"], rule
            assert list(missing(rule["expr"], page)) == []
            names.append(rule["alert"])
    assert len(set(names)) == len(names) >= 12
