"""What any node of a cluster tells of all: its status page, its name, its long lists, and rates."""

import json

import pytest

from nodes import eventually, ok
from test_links import api

NAMES = ["n1@localhost", "n2@localhost", "n3@localhost"]


def test_the_status_of_the_cluster_has_what_all_nodes_say(three):
    a, b, c = three.nodes
    for node in three.nodes:
        status = node.status
        for part in ("listeners", "versions", "maintenance_status", "cpu_cores"):
            assert sorted(status[part]) == NAMES, part
        for other in three.nodes:
            ports = {it["port"]: it for it in status["listeners"][other.name]}
            assert other.port in ports and ports[other.port]["node"] == other.name
            assert status["versions"][other.name]["rabbitmq_name"] == "Warren"
            assert status["cpu_cores"][other.name] > 0
        assert {it["state"] for it in status["feature_flags"]} == {"enabled"}
    ok(b, "drain")
    status = a.status
    assert status["maintenance_status"] == {a.name: "not under maintenance", b.name: "marked for maintenance", c.name: "not under maintenance"}
    text = ok(c, "cluster_status")
    assert f"Node: {b.name}, status: marked for maintenance" in text
    assert f"Node: {b.name}, interface: 127.0.0.1, port: {b.port}, protocol: amqp, purpose: AMQP 0-9-1" in text
    assert "Flag: replicated_metadata, state: enabled" in text
    ok(b, "revive")
    ok(b, "set_disk_free_limit", "1000TB")
    alarm = {"type": "resource_limit", "resource": "disk", "node": b.name}
    eventually(lambda: a.status["alarms"] == [alarm], "the alarm of another node is shown")
    assert f"Free disk space alarm on node {b.name}" in ok(c, "cluster_status")
    c.kill()
    eventually(lambda: sorted(a.status["versions"]) == NAMES[:2], "a node that is down has no part but its name")
    assert a.status["disk_nodes"] == NAMES


def test_the_name_of_the_cluster_is_that_of_all_nodes_and_stays(three):
    a, b, c = three.nodes

    def named(node):
        return node.status["cluster_name"], api(node, "/api/cluster-name")["name"]

    for setter, name in ((a, "shop \"north\""), (c, "bakery")):
        ok(setter, "set_cluster_name", name)
        assert [named(node) for node in three.nodes] == [(name, name)] * 3
    b.stop()
    ok(a, "set_cluster_name", "while it is away")
    b.start()
    assert named(b) == ("while it is away", "while it is away")
    ok(b, "clear_global_parameter", "cluster_name")
    assert all("while it is away" not in named(node) for node in three.nodes)


@pytest.mark.timeout(240)
def test_a_long_answer_and_a_long_question_go_from_node_to_node(three):
    a, b, _ = three.nodes
    values = {f"long{nth:03}": "x" * 120_000 for nth in range(160)}
    document = b.folder / "definitions.json"
    # Eight changes, the first in a long question: one change of 19 MB takes a slow machine more than a second.
    for first in range(0, len(values), 20):
        part = [{"name": name, "value": values[name]} for name in list(values)[first : first + 20]]
        document.write_text(json.dumps({"global_parameters": part}).ljust(0 if first else 17 << 20))
        ok(a, "-n", b.name, "import_definitions", str(document))
    out = ok(a, "-n", b.name, "list_global_parameters", "--formatter", "json")
    assert len(out) > 16 << 20
    listed = {it["name"]: json.loads(it["value"]) for it in json.loads(out) if it["name"] in values}
    assert listed == values
    assert three.nodes[2].running == NAMES


def test_pages_of_other_nodes_have_rates(three):
    a, b, _ = three.nodes
    own = api(b, f"/api/nodes/{b.name}")

    def theirs():
        return [api(a, f"/api/nodes/{b.name}"), next(it for it in api(a, "/api/nodes") if it["name"] == b.name)]

    for page in theirs():
        assert set(page) == set(own)
        assert page["os_pid"] == own["os_pid"]
        assert {"rate"} <= set(page["mem_used_details"])
    assert "memory" in api(a, f"/api/nodes/{b.name}?memory=true")
