"""Links between nodes with TLS: a cluster of three, a node without it, and a node with a certificate of somebody else."""

import importlib.util
import pathlib

import pika
import pytest

from nodes import Node, eventually, free_port, ok, sees, start

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["n1@localhost", "n2@localhost", "n3@localhost"]


@pytest.fixture(scope="module")
def authority():
    """The class that makes certificates for the suite of TLS."""
    spec = importlib.util.spec_from_file_location("tls_certificates", ROOT / "testing" / "tls" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def configuration(module, certificates):
    return "warren.cluster.tls = true\n" + module.options(certificates)


@pytest.fixture
def nodes(binary, tmp_path, authority):
    """Three nodes, not started; the third has whatever a test gives it."""
    made = authority.Certificates(tmp_path).make("server", "/CN=localhost")
    ports = [free_port() for _ in NAMES]
    seeds = [f"127.0.0.1:{port}" for port in ports]
    nodes = []
    for name, port, door in zip(NAMES, ports, seeds):
        nodes.append(Node(binary, tmp_path / name, name, port, door, seeds, configuration(authority, made)))
    yield nodes
    for node in nodes:
        if node.pid and node.alive():
            node.kill()


def test_a_cluster_whose_links_are_encrypted_serves_all_and_comes_back_after_a_kill(nodes):
    start(nodes)
    assert all(sees(node) == NAMES for node in nodes)
    a, b, c = nodes
    connections = [pika.BlockingConnection(pika.URLParameters(node.url)) for node in nodes]
    channel = connections[0].channel()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    far = connections[2].channel()
    far.confirm_delivery()
    for nth in range(100):
        far.basic_publish("", "q", b"%d" % nth, pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert connections[1].channel().queue_declare("q", passive=True).method.message_count == 100
    [connection.close() for connection in connections]
    c.kill()
    c.start()
    eventually(lambda: all(sees(node) == NAMES for node in nodes), "all run again")
    eventually(lambda: "100" in ok(c, "-q", "list_queues", "messages"), "the queue is there")


@pytest.mark.parametrize("of_third", ["no TLS", "another authority"])
def test_a_node_that_does_not_prove_itself_is_refused(nodes, authority, tmp_path, of_third):
    a, b, c = nodes
    if of_third == "no TLS":
        c.config.write_text("prometheus.tcp.listener = none\n")
    else:
        (tmp_path / "other").mkdir()
        made = authority.Certificates(tmp_path / "other", "Other CA").make("server", "/CN=localhost")
        c.config.write_text("prometheus.tcp.listener = none\n" + configuration(authority, made))
    # A first start waits for all seeds: nobody gets further without the third.
    for node in nodes:
        node.launch()
    for node in nodes:
        eventually(lambda: "no link to this node" in node.log_text(), f"{node.name} says that it has no link")
    eventually(lambda: all("node up" in node.log_text() for node in (a, b)), "the two that prove themselves are linked")
    assert "node up" not in c.log_text()
