"""Links between real nodes: who is let in, what each node knows of the others, and how it notices that one has gone."""

import json
import re
import socket
import struct
import time
import urllib.request
import zlib

from nodes import COOKIE, Cluster, Node, eventually, free_port


def api(node, path):
    """An answer of the HTTP API."""
    request = urllib.request.Request(f"http://{node.http}{path}")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_three_nodes_know_each_other(three):
    a, _, c = three.nodes
    names = ["n1@localhost", "n2@localhost", "n3@localhost"]
    for node in three.nodes:
        status = node.status
        assert (status["disk_nodes"], status["running_nodes"]) == (names, names)
        assert [(it["name"], it["running"]) for it in api(node, "/api/nodes")] == [(name, True) for name in names]
        assert api(node, "/api/overview")["node"] == node.name
        assert [it["protocol"] for it in status["listeners"][node.name]].count("clustering") == 1
    code, out, _ = a.ctl("cluster_status")
    assert code == 0 and re.search(r"Cluster status of node n1@localhost .*Running Nodes\n\nn1@localhost\nn2@localhost\nn3@localhost\n", out, re.DOTALL)
    assert a.ctl("check_if_node_is_quorum_critical")[0] == 0
    assert c.ctl("await_online_nodes", "3")[0] == 0
    assert c.ctl("await_online_nodes", "4", "--timeout", "1")[0] != 0


def test_a_killed_node_is_noticed_at_once_and_found_again(three):
    a, b, c = three.nodes
    c.kill()
    took_s = three.wait([a, b])
    assert took_s < 3, took_s
    assert [(it["name"], it["running"]) for it in api(a, "/api/nodes")][2] == ("n3@localhost", False)
    assert api(a, "/api/nodes/n3@localhost")["running"] is False
    assert a.status["disk_nodes"][2] == "n3@localhost"
    code, _, err = a.ctl("check_if_node_is_quorum_critical")
    assert code != 0 and "would lose quorum" in err
    c.start()
    three.wait(three.nodes)
    assert "node down: the connection was closed" in _plain(a)
    assert "Node name: n1@localhost" in a.ctl("status")[1]


def test_a_node_that_stands_still_is_silent_and_comes_back(three):
    a, b, c = three.nodes
    time.sleep(1.5)
    assert "node down" not in _plain(a), "signs of life are enough"
    b.pause()
    took_s = three.wait([a, c])
    assert 0.5 < took_s < 5, took_s
    assert "node down: it was silent for a second" in _plain(a)
    b.resume()
    three.wait(three.nodes)


def test_a_cut_in_one_direction_is_noticed_on_both_sides_and_heals_by_itself(three):
    a, b, c = three.nodes
    three.cut(a, b)
    three.wait([a], [a, c])
    three.wait([b], [b, c])
    three.wait([c], [a, b, c])
    three.heal()
    three.wait(three.nodes)
    three.partition([a], [b, c])
    three.wait([a], [a])
    three.wait([b, c], [b, c])
    three.heal()
    three.wait(three.nodes)


def test_another_secret_and_a_name_that_is_taken_are_refused(binary, tmp_path):
    with Cluster(binary, tmp_path, 2) as cluster:
        a, b = cluster.nodes

        def launch(folder, name, cookie):
            port = free_port()
            node = Node(binary, tmp_path / folder, name, port, f"127.0.0.1:{port}", [a.door], cookie=cookie)
            cluster.nodes.append(node)
            node.launch()
            return node

        stranger = launch("stranger", "stranger@localhost", COOKIE + "X")
        twin = launch("twin", "n1@localhost", COOKIE)
        eventually(lambda: "have different secrets" in _plain(stranger) and "have different secrets" in _plain(a), "it is said on both sides")
        eventually(lambda: "two nodes have the same name" in _plain(twin), "it is said")
        assert "ready amqp" not in _plain(stranger) + _plain(twin), "they serve nobody"
        assert a.running == b.running == ["n1@localhost", "n2@localhost"]
        assert COOKIE not in _plain(a) + _plain(stranger)


def test_a_node_that_knows_one_other_finds_all(binary, tmp_path):
    with Cluster(binary, tmp_path, 2) as cluster:
        a, b = cluster.nodes
        port = free_port()
        door = cluster.proxy.door("n3@localhost", ("127.0.0.1", port))
        c = Node(binary, tmp_path / "node3", "n3@localhost", port, door, [b.door])
        cluster.nodes.append(c)
        c.start()
        cluster.wait([a, b, c])


def test_who_proves_nothing_is_closed(three):
    a = three.nodes[0]
    hello = b"WarrenLk" + struct.pack(">HHBQ16sIQ32s", 1, 1, 0, 7, b"f" * 16, 1, 9, b"n" * 32) + b"\x0bx@localhost\x00"
    for first in (b"GET / HTTP/1.1\r\n\r\n", _frame(1, b"x" * 1025), _frame(16, b"of the broker"), _frame(1, hello) + _frame(2, b"p" * 32)):
        with socket.create_connection(("127.0.0.1", a.cluster_port), 5) as link:
            link.sendall(first)
            answer = b""
            while more := link.recv(65536):
                answer += more
        # Only a whole hello is answered: with a hello, and with the verdict that the secret is wrong.
        assert (len(answer) > 0) == (first.startswith(_frame(1, hello))), first
    assert a.running == ["n1@localhost", "n2@localhost", "n3@localhost"]


def test_a_node_alone_listens_for_no_other(binary, tmp_path):
    from warren import Warren

    server = Warren(binary, tmp_path, "prometheus.tcp.listener = none\n")
    server.start()
    try:
        code, out, _ = server.ctl("cluster_status", "--formatter", "json")
        status = json.loads(out)
        assert code == 0 and status["running_nodes"] == ["warren@localhost"]
        assert not any(it["protocol"] == "clustering" for it in status["listeners"]["warren@localhost"])
        assert not (tmp_path / "data" / ".erlang.cookie").exists() and not (tmp_path / "data" / "node.id").exists()
    finally:
        server.stop()


def _frame(kind, payload):
    rest = struct.pack(">BBH", kind, 0, 0) + payload
    return struct.pack(">II", len(payload), zlib.crc32(rest)) + rest


def _plain(node):
    return re.sub(r"\x1b\[[0-9;]*m", "", node.log_text())
