"""RabbitMQ's own procedure makes a cluster of nodes that know nothing of each other, takes members out, and goes on without lost ones."""

import contextlib

import pika
import pytest
from faultproxy import FaultProxy
from nodes import COOKIE, MANAGEMENT, Node, eventually, free_port, ok, refused, start


@pytest.fixture
def loose(binary, tmp_path):
    """Three nodes, each a cluster of its own."""
    proxy, nodes = FaultProxy(), []
    for nth in (1, 2, 3):
        name, port = f"n{nth}@localhost", free_port()
        door = proxy.door(name, ("127.0.0.1", port))
        flags = ("--listen", f"127.0.0.1:{free_port()}", *MANAGEMENT)
        nodes.append(Node(binary, tmp_path / f"node{nth}", name, port, door, [], "", flags, COOKIE))
    start(nodes)
    yield nodes
    for node in nodes:
        if node.pid and node.alive():
            node.kill()
    proxy.close()


def join(node, member):
    ok(node, "stop_app")
    assert ok(node, "reset") == f"Resetting node {node.name} ...\n"
    clustering = ok(node, "join_cluster", member.name, "--address", member.door)
    assert clustering == f"Clustering node {node.name} with {member.name}\n"
    ok(node, "start_app")


def names(node):
    return node.status["disk_nodes"]


def all_run(nodes):
    wanted = sorted(node.name for node in nodes)
    eventually(lambda: all(sorted(node.running) == wanted for node in nodes), f"{wanted} run", 30)


@contextlib.contextmanager
def channel_at(node):
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        yield channel
    finally:
        connection.close()


def publish(channel, queue, body):
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)


def test_three_nodes_become_a_cluster_one_leaves_and_comes_again(loose):
    a, b, c = loose
    ok(a, "add_vhost", "shop")
    join(b, a)
    join(c, a)
    all_run(loose)
    assert "shop" in ok(c, "-q", "list_vhosts")
    with channel_at(c) as at_c, channel_at(a) as at_a:
        at_c.queue_declare("of-c", durable=True)
        at_a.queue_declare("of-a", durable=True)
        # A publish does not wait for a declaration on another node; a passive declaration does.
        at_a.queue_declare("of-c", durable=True, passive=True)
        at_c.queue_declare("of-a", durable=True, passive=True)
        publish(at_a, "of-c", b"1")
        publish(at_c, "of-a", b"2")
    assert refused(b, "forget_cluster_node", c.name) == (
        69,
        f"Error:\nRabbitMQ on node {c.name} must be stopped with 'rabbitmqctl -n {c.name} stop_app' before it can be removed\n",
    )
    assert refused(b, "forget_cluster_node", "x@y") == (
        69,
        'Error:\n{:not_a_cluster_node, ~c"The node selected is not in the cluster."}\n',
    )
    ok(c, "stop_app")
    ok(c, "join_cluster", a.name, "--address", a.door)
    ok(c, "reset")
    eventually(lambda: names(a) == names(b) == [a.name, b.name], "the others have forgotten it")
    ok(c, "start_app")
    assert names(c) == [c.name] and "shop" not in ok(c, "-q", "list_vhosts")
    join(c, b)
    all_run(loose)
    with channel_at(c) as at_c:
        assert at_c.basic_get("of-a", auto_ack=True)[2] == b"2"
        at_c.queue_declare("of-c", durable=True)
        assert at_c.basic_get("of-c", auto_ack=True)[2] is None, "its own queue went with it"


def test_members_that_joined_find_each_other_when_all_were_off(loose):
    a, b, c = loose
    join(b, a)
    join(c, a)
    all_run(loose)
    for node in loose:
        ok(node, "stop_app")
    for node in loose:
        node.kill()
    start(loose)
    all_run(loose)


def test_two_become_one_again_and_a_node_that_runs_is_joined_too(loose):
    a, b, _ = loose
    ok(b, "join_cluster", a.name, "--address", a.door)
    all_run([a, b])
    ok(a, "stop_app")
    ok(a, "reset")
    eventually(lambda: names(b) == [b.name], "it is alone")
    with channel_at(b) as at_b:
        at_b.queue_declare("still", durable=True)


def test_wrong_orders_are_refused(loose):
    a, b, c = loose
    assert refused(a, "join_cluster", a.name) == (70, f"Error:\nError: cannot cluster node with itself: {a.name}\n")
    assert refused(a, "join_cluster")[0] == 64
    ok(b, "stop_app")
    gone = "{:aborted_feature_flags_compat_check, {:error, {:erpc, :noconnection}}}"
    assert refused(b, "join_cluster", "x@localhost", "--address", f"127.0.0.1:{free_port()}") == (69, f"Error:\n{gone}\n")
    ok(b, "start_app")
    with channel_at(b) as at_b:
        at_b.queue_declare("kept", durable=True)
        publish(at_b, "kept", b"1")
    code, text = refused(b, "join_cluster", a.name, "--address", a.door)
    assert code == 69 and "run `reset` on it first" in text
    with channel_at(b) as at_b:
        assert at_b.basic_get("kept", auto_ack=True)[2] == b"1"
    join(c, a)
    all_run([a, c])
    a.kill()
    ok(c, "stop_app")
    nobody = '{:no_running_cluster_nodes, ~c"You cannot leave a cluster if no online nodes are present."}'
    assert refused(c, "reset") == (69, f"Error:\n{nobody}\n")
    ok(c, "force_reset")
    ok(c, "start_app")
    assert names(c) == [c.name]


def test_one_node_is_forced_to_go_on_when_the_others_are_gone(loose):
    a, b, c = loose
    join(b, a)
    join(c, a)
    all_run(loose)
    with channel_at(c) as at_c:
        at_c.queue_declare("of-c", durable=True)
        publish(at_c, "of-c", b"1")
    for node in loose:
        node.kill()
    c.launch()
    eventually(lambda: c.ctl("ping")[0] == 0, "it answers while it waits for the others")
    assert refused(c, "list_queues")[0] == 64
    ok(c, "stop_app")
    ok(c, "force_boot")
    ok(c, "start_app")
    with channel_at(c) as at_c:
        at_c.queue_declare("later", durable=True)
        assert at_c.basic_get("of-c", auto_ack=True)[2] == b"1"
    for gone in a, b:
        ok(c, "forget_cluster_node", gone.name)
    eventually(lambda: names(c) == [c.name], "the others are forgotten")
    c.kill()
    c.start()
    with channel_at(c) as at_c:
        at_c.queue_declare("later", durable=True, passive=True)
