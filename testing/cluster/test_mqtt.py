"""Sessions of MQTT on two nodes that are one broker."""

import pathlib
import re
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mqtt"))

import differ  # noqa: E402
from nodes import Cluster, eventually, rows  # noqa: E402

CONFIG = "mqtt.listeners.tcp.default = 127.0.0.1:0\n"
CONNACK, SUBACK = 0x20, 0x90


def session(node, expiry_s):
    """A connection of version 5 to a session that stays so long, and whether it was there."""
    port = int(re.findall(r"^ready .* mqtt=127.0.0.1:(\d+)", node.log_text(), re.MULTILINE)[-1])
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.sendall(differ.connect(5, "moves", clean=False, properties=b"\x11" + expiry_s.to_bytes(4, "big")))
    answer = client.recv(4096)
    assert answer[0] == CONNACK and answer[3] == 0, answer
    assert b"\x11" + expiry_s.to_bytes(4, "big") in answer, "CONNACK tells the expiry"
    return client, answer[2] == 1


def test_a_client_that_comes_to_another_node_changes_the_expiry_of_its_session(binary, tmp_path):
    with Cluster(binary, tmp_path, 2, CONFIG) as cluster:
        one, other = cluster.nodes

        def told(seconds):
            def expiry(node):
                listed = {row["name"]: row["arguments"] for row in rows(node, "list_queues", "name", "arguments")}
                return str(seconds * 1000) in str(listed.get("mqtt-subscription-movesqos1"))

            return lambda: all(expiry(node) for node in cluster.nodes)

        client, present = session(one, 100)
        assert not present
        client.sendall(differ.subscribe(5, "moves/#", 1))
        assert client.recv(4096)[0] == SUBACK
        client.close()
        client, present = session(other, 3600)
        assert present
        eventually(told(3600), "both nodes have the new expiry")
        client.close()
        one.kill()
        one.start()
        cluster.wait(cluster.nodes)
        eventually(told(3600), "a node that starts has it, too")
