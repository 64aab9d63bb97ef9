"""Operators see and change the nodes that have a quorum queue, on three real nodes and from every one of them."""

import base64
import json
import urllib.request

from nodes import Cluster, eventually, ok, rows
from test_queues import ready
from test_replicas import answers, declare, drain, numbered, publish


def asked(node, method, path, body=None):
    """The status and the JSON of a request to the HTTP API of a node."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://{node.http}{path}", data, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read() or b"null")


def listed(node, queue="q"):
    """The row of list_queues for a queue on a node."""
    lines = rows(node, "list_queues", "name", "leader", "members", "online", "in_sync")
    return next(line for line in lines if line["name"] == queue)


def names(nodes):
    return sorted(node.name for node in nodes)


def status(node, queue="q"):
    return {line["Node Name"]: line for line in rows(node, "quorum_status", queue)}


def test_every_node_shows_the_members_and_what_they_have(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(20))
    for node in three.nodes:
        line = listed(node)
        assert line["leader"] == a.name
        assert sorted(line["members"]) == sorted(line["online"]) == sorted(line["in_sync"]) == names(three.nodes)
        lines = status(node)
        assert {name: line["Raft State"] for name, line in lines.items()} == {a.name: "leader", b.name: "follower", c.name: "follower"}
        assert len({line["Last Log Index"] for line in lines.values()}) == 1 and lines[a.name]["Commit Index"] > 20
        _, queue = asked(node, "GET", "/api/queues/%2F/q")
        assert (queue["node"], queue["leader"], queue["messages"], queue["state"]) == (a.name, a.name, 20, "running")
        assert sorted(queue["members"]) == sorted(queue["online"]) == names(three.nodes)
        _, (queue,) = asked(node, "GET", "/api/queues")
        assert (queue["node"], queue["messages"]) == (a.name, 20)


def test_members_go_come_back_and_lead(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(100))
    # From a node that does not lead.
    assert b.ctl("delete_member", "q", c.name)[0] == 0
    eventually(lambda: all(sorted(listed(node)["members"]) == names([a, b]) for node in three.nodes), "c has left")
    assert b.ctl("delete_member", "q", c.name)[0] == 0, "it is done already"
    publish(a, "q", numbered(50, 100))
    assert c.ctl("add_member", "q", c.name)[0] == 0
    eventually(lambda: c.name in listed(a)["in_sync"], "c has everything")
    assert c.ctl("transfer_leadership", "q", c.name)[0] == 0
    assert listed(c)["leader"] == c.name
    code, _, err = c.ctl("transfer_leadership", "q", c.name)
    assert (code, err) == (69, "Error:\nThe target node is already the leader of this queue\n")
    assert c.ctl("add_member", "q", "warren@elsewhere")[0] == 64
    # The leader itself goes.
    assert a.ctl("delete_member", "q", c.name)[0] == 0
    eventually(lambda: listed(a)["leader"] in (a.name, b.name), "another one leads")
    assert drain(c, "q") == numbered(150)


def test_a_member_that_was_added_takes_over(three):
    a, b, c = three.nodes
    declare(a, "q", **{"x-quorum-initial-group-size": 1})
    publish(a, "q", numbered(30))
    assert listed(b)["members"] == [a.name]
    assert asked(b, "POST", "/api/queues/quorum/%2F/q/replicas/add", {"node": b.name})[0] == 204
    assert asked(b, "POST", "/api/queues/quorum/%2F/q/replicas/add", {"node": c.name})[0] == 204
    eventually(lambda: sorted(listed(a)["in_sync"]) == names(three.nodes), "all have everything")
    assert asked(a, "DELETE", "/api/queues/quorum/%2F/q/replicas/delete", {"node": a.name})[0] == 204
    assert asked(a, "DELETE", "/api/queues/quorum/%2F/q/replicas/delete", {"node": b.name})[0] == 204
    code, why = asked(a, "DELETE", "/api/queues/quorum/%2F/q/replicas/delete", {"node": c.name})
    assert (code, why["reason"]) == (503, "last_node")
    assert listed(a)["members"] == [c.name]
    assert drain(b, "q") == numbered(30)


def test_queues_grow_shrink_and_are_balanced(three):
    a, b, c = three.nodes
    for nth in range(6):
        declare(a, f"q{nth}", **{"x-quorum-initial-group-size": 2})
    without_c = [line["name"] for line in rows(a, "list_queues", "name", "members") if c.name not in line["members"]]
    grown = rows(b, "grow", c.name, "even")
    assert sorted(line["name"] for line in grown) == sorted(without_c)
    assert all((line["size"], line["result"]) == (3, "ok") for line in grown)
    assert asked(c, "POST", f"/api/queues/quorum/replicas/on/{b.name}/grow", {"vhost_pattern": ".*", "queue_pattern": ".*", "strategy": "all"})[0] == 204
    eventually(lambda: all(len(line["in_sync"]) == 3 for line in rows(a, "list_queues", "in_sync")), "all are in sync")
    counts = {line["Node name"]: line["Number of quorum queues"] for line in rows(b, "rebalance", "quorum")}
    assert counts == {node.name: 2 for node in three.nodes}
    shrunk = rows(c, "shrink", a.name)
    assert len(shrunk) == 6 and all((line["size"], line["result"]) == (2, "ok") for line in shrunk)
    assert all(a.name not in line["members"] for line in rows(b, "list_queues", "members"))


def test_who_is_needed_is_said(three):
    a, b, c = three.nodes
    declare(a, "q")
    assert a.ctl("check_if_node_is_quorum_critical")[0] == 0
    c.kill()
    eventually(lambda: listed(a)["online"] == [name for name in listed(a)["members"] if name != c.name], "c is down")
    code, _, err = a.ctl("check_if_node_is_quorum_critical")
    assert code == 69 and "queue 'q' in vhost '/' would lose quorum" in err
    assert status(a)[c.name]["Raft State"] == "nodedown"
    a.kill()
    assert b.ctl("check_for_quorum_queues_without_an_elected_leader", "--across-all-vhosts", ".*")[0] in (0, 69)
    a.start()
    eventually(lambda: answers(lambda: ready(b, "q") == 0), "the queue is used again")


def test_a_node_in_maintenance_leads_no_quorum_queue(three):
    a, b, c = three.nodes
    for nth in range(4):
        declare(a, f"q{nth}")
    eventually(lambda: all(len(line["in_sync"]) == 3 for line in rows(b, "list_queues", "in_sync")), "all are in sync")
    leaders = lambda: [line["leader"] for line in rows(b, "list_queues", "leader")]
    assert a.name in leaders()
    assert a.ctl("drain")[0] == 0
    assert sorted(leaders()) == sorted([b.name, c.name] * 2)
    ok(b, "drain")
    ok(b, "rebalance", "all")
    assert leaders() == [c.name] * 4, "a node in maintenance is not chosen"
    ok(a, "revive")
    ok(c, "rebalance", "all")
    assert sorted(leaders()) == sorted([a.name, c.name] * 2)


def test_members_follow_the_nodes_of_the_cluster(binary, tmp_path):
    """A queue with one member gets more: those that the key wants, and more with a policy."""
    key = "quorum_queue.continuous_membership_reconciliation"
    config = "\n".join(f"{key}.{words}" for words in ("enabled = true", "target_group_size = 2", "interval = 3600000", "trigger_interval = 300")) + "\n"
    with Cluster(binary, tmp_path, 3, config) as three:
        a, b, c = three.nodes
        declare(a, "small", **{"x-quorum-initial-group-size": 1})
        publish(a, "small", numbered(30))
        assert len(listed(a, "small")["members"]) == 1
        ok(a, "set_policy", "other", "^other$", '{"delivery-limit": 5}')
        declare(a, "other", **{"x-quorum-initial-group-size": 1})
        declare(a, "asked", **{"x-quorum-initial-group-size": 1, "x-quorum-target-group-size": 3})
        ok(a, "set_policy", "more", "^small$", '{"target-group-size": 3}', "--apply-to", "quorum_queues")
        eventually(lambda: sorted(listed(b, "small")["in_sync"]) == names(three.nodes), "a policy wants three")
        eventually(lambda: len(listed(b, "other")["members"]) == 2, "the key wants two")
        eventually(lambda: sorted(listed(b, "asked")["in_sync"]) == names(three.nodes), "the argument wants three")
        a.kill()
        eventually(lambda: answers(lambda: ready(b, "small") == 30), "another member leads with all messages")


def test_a_message_is_looked_at_from_every_node_and_stays(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", [b"first", b"x" * 100])
    for node in three.nodes:
        code, out, err = node.ctl("peek", "q", "2", "--formatter", "json")
        assert code == 0, out + err
        said = json.loads(out)
        assert said["result"] == "ok"
        message = said["message"]
        assert (message["payload (max 64 bytes)"], message["routing_keys"], message["exchange"]) == ("x" * 64, ["q"], "")
        assert (message["delivery_mode"], message["header.x-delivery-count"]) == (2, 0)
        code, out, err = node.ctl("peek", "q", "3")
        assert code == 69 and "Target queue does not have a message at that position" in err
        assert node.ctl("peek", "q", "0")[0] == 64
        code, out, err = node.ctl("peek", "none", "1")
        assert code == 69 and "Target queue was not found in virtual host '/'" in err
    assert ready(b, "q") == 2
    assert "payload (max 64 bytes)\tfirst" in b.ctl("peek", "q", "1")[1]
