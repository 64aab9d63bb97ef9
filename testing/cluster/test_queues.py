"""Queues and declarations in a cluster of real nodes: used from every node, over kills, partitions and lost disks."""

import base64
import contextlib
import json
import threading
import time
import urllib.request

import pika
import pytest

from nodes import eventually

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@contextlib.contextmanager
def connected(node):
    """A connection to a node, closed at the end if it is still open."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, heartbeat=60, blocked_connection_timeout=60))
    try:
        yield connection
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def api(node, path):
    """The answer of the HTTP API of a node."""
    request = urllib.request.Request(f"http://{node.http}/api/{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def ready(node, queue):
    with connected(node) as connection:
        return connection.channel().queue_declare(queue, passive=True).method.message_count


def finds(node, queue, count):
    """Whether the node reaches the queue and it has so many messages: a node that has come back may need a moment."""
    try:
        return ready(node, queue) == count
    except pika.exceptions.ChannelClosedByBroker as closed:
        assert closed.reply_code == 404, closed
        return False


def refusal(node, method, *words, **options):
    """The code and text with which a node refuses a method of a channel."""
    with connected(node) as connection, pytest.raises((pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)) as closed:
        getattr(connection.channel(), method)(*words, **options)
    return closed.value.reply_code, closed.value.reply_text


def test_what_is_declared_on_one_node_is_used_from_all(three):
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(connected(node)).channel() for node in three.nodes]
        for nth, channel in enumerate(channels):
            channel.queue_declare(f"q{nth}", durable=True)
            # At once, on every node: who does not know it asks.
            for other in channels:
                other.queue_declare(f"q{nth}", passive=True)
        channels[0].exchange_declare("x", "topic", durable=True)
        for nth in range(3):
            channels[nth].queue_bind(f"q{nth}", "x", "a.#")
        for nth in range(3):
            eventually(lambda: all(f"q{nth}" in node.ctl("list_bindings")[1] for node in three.nodes), "bindings are everywhere")
        publisher = channels[2].connection.channel()
        publisher.confirm_delivery()
        bodies = [b"%d" % nth for nth in range(200)]
        for body in bodies:
            publisher.basic_publish("x", "a.b", body, PERSISTENT)
        for nth in range(3):
            got = []
            for method, _, body in channels[(nth + 1) % 3].consume(f"q{nth}", inactivity_timeout=10):
                assert method, f"{len(got)} of {len(bodies)} came"
                got.append(body)
                channels[(nth + 1) % 3].basic_ack(method.delivery_tag)
                if len(got) == len(bodies):
                    break
            channels[(nth + 1) % 3].cancel()
            assert got == bodies


def test_confirmed_messages_are_there_when_their_node_is_back_and_changes_go_on_without_it(three):
    a, b, c = three.nodes
    with connected(b) as connection:
        connection.channel().queue_declare("q", durable=True)
    sent, stopped = [], threading.Event()

    def publish():
        with connected(a) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not stopped.is_set():
                body = b"%d" % len(sent)
                try:
                    channel.basic_publish("", "q", body, PERSISTENT, mandatory=True)
                    sent.append(body)
                except pika.exceptions.NackError:
                    time.sleep(0.01)

    publisher = threading.Thread(target=publish)
    publisher.start()
    eventually(lambda: len(sent) > 100, "some are confirmed")
    b.kill()
    with connected(c) as connection:
        connection.channel().queue_declare("later", durable=True)
    assert refusal(c, "queue_declare", "q", passive=True) == (
        404,
        f"NOT_FOUND - home node '{b.name}' of durable queue 'q' in vhost '/' is down or inaccessible",
    )
    before = len(sent)
    b.start()
    eventually(lambda: len(sent) > before + 100, "publishing goes on")
    stopped.set()
    publisher.join()
    assert ready(b, "later") == 0
    with connected(c) as connection:
        channel, found = connection.channel(), set()
        for method, _, body in channel.consume("q", inactivity_timeout=2):
            if method is None:
                break
            found.add(body)
            channel.basic_ack(method.delivery_tag)
    assert set(sent) <= found


def test_nodes_are_killed_one_after_the_other_and_all_at_once(three):
    for nth, node in enumerate(three.nodes):
        other = three.nodes[(nth + 1) % 3]
        node.kill()
        with connected(other) as connection:
            connection.channel().queue_declare(f"k{nth}", durable=True)
        node.start()
        assert ready(node, f"k{nth}") == 0
    for node in three.nodes:
        node.kill()
    starts = [threading.Thread(target=node.start) for node in three.nodes]
    [start.start() for start in starts]
    [start.join() for start in starts]
    for node in three.nodes:
        assert [ready(node, f"k{nth}") for nth in range(3)] == [0, 0, 0]


def test_exclusive_queues_go_with_their_connection_on_all_nodes(three):
    a, b, _ = three.nodes
    with connected(a) as connection:
        connection.channel().queue_declare("own", exclusive=True)
        assert refusal(b, "queue_declare", "own", passive=True)[0] == 405
    # connection.close-ok comes when they are gone there; the others follow.
    gone = (404, "NOT_FOUND - no queue 'own' in vhost '/'")
    assert refusal(a, "queue_declare", "own", passive=True) == gone
    eventually(lambda: refusal(b, "queue_declare", "own", passive=True) == gone, "it is gone on all nodes")


def test_a_minority_refuses_changes_and_routes_and_heals(three):
    cluster = three
    a, b, c = cluster.nodes
    with connected(a) as connection:
        connection.channel().queue_declare("q", durable=True)
    cluster.partition([a], [b, c])
    cluster.wait([a], [a])
    cluster.wait([b, c], [b, c])
    code, text = refusal(a, "queue_declare", "new", durable=True)
    assert (code, text) == (
        541,
        f"INTERNAL_ERROR - Could not declare queue 'new' in vhost '/' on node '{a.name}' because the metadata store operation timed out",
    )
    with connected(a) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"routed", PERSISTENT)
    with connected(b) as connection:
        connection.channel().queue_declare("of the majority", durable=True)
    cluster.heal()
    cluster.wait(cluster.nodes)
    eventually(lambda: finds(a, "of the majority", 0), "the minority has what the majority declared")
    eventually(lambda: finds(c, "q", 1), "the majority reaches the queue of the minority")
    assert refusal(b, "queue_declare", "new", passive=True)[0] == 404, "what was refused does not come later"


def test_a_lost_disk_is_refused_until_the_node_is_forgotten(three):
    a, b, c = three.nodes
    with connected(c) as connection:
        connection.channel().queue_declare("lost", durable=True)
    code, _, err = a.ctl("forget_cluster_node", c.name)
    assert code != 0 and "stop" in err
    c.kill()
    for path in sorted(c.folder.glob("data/**/*"), reverse=True):
        if path.name != ".erlang.cookie":
            path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(Exception, match="forget_cluster_node"):
        c.start()
    code, out, err = a.ctl("forget_cluster_node", c.name)
    assert code == 0, out + err
    assert refusal(b, "queue_declare", "lost", passive=True)[0] == 404
    c.start()
    with connected(b) as connection:
        connection.channel().queue_declare("new", durable=True)
    eventually(lambda: finds(c, "new", 0), "the node takes part again")


def test_declarations_may_follow_each_other_without_waiting(three):
    a, b, _ = three.nodes
    with connected(a) as connection:
        channel = connection.channel()
        begin = time.monotonic()
        for nth in range(1000):
            # Not `channel.queue_declare`: that waits for each answer.
            channel._impl._send_method(pika.spec.Queue.Declare(queue=f"p{nth}", durable=True, nowait=True))
            channel._impl._send_method(pika.spec.Queue.Bind(queue=f"p{nth}", exchange="amq.direct", routing_key="k", nowait=True))
        channel.queue_declare("end", durable=True)
        took_s = time.monotonic() - begin
    assert ready(b, "p999") == 0
    assert took_s < 10, f"{took_s} s"


def test_pages_show_queues_of_all_nodes_with_what_is_in_them(three):
    a, b, c = three.nodes
    with connected(b) as connection:
        at_b = connection.channel()
        at_b.queue_declare("shown", durable=True)
        at_b.confirm_delivery()
        for _ in range(3):
            at_b.basic_publish("", "shown", b"12345", PERSISTENT)
    for node in three.nodes:
        [listed] = api(node, "queues/%2F")
        page = api(node, "queues/%2F/shown")
        for seen in listed, page:
            assert (seen["messages"], seen["messages_ready"], seen["message_bytes"], seen["node"]) == (3, 3, 15, b.name)
        eventually(lambda: api(node, "overview")["queue_totals"].get("messages") == 3, f"the overview of {node.name}")
        assert sorted(it["name"] for it in api(node, "nodes") if it["running"]) == sorted(it.name for it in three.nodes)
    b.kill()
    eventually(lambda: api(a, "queues/%2F/shown")["state"] == "down", "its node is down")
    assert [it["name"] for it in api(a, "nodes") if not it["running"]] == [b.name]


def test_lists_of_connections_and_pages_of_nodes_come_from_all_nodes(three):
    with contextlib.ExitStack() as stack:
        for node in three.nodes:
            stack.enter_context(connected(node)).channel()
        for node in three.nodes:
            code, out, err = node.ctl("-q", "list_connections", "pid", "user")
            assert code == 0 and len(out.splitlines()) == 4, out + err
            code, out, err = node.ctl("-q", "list_channels", "pid")
            assert code == 0 and len(out.splitlines()) == 4, out + err
            pages = {it["name"]: it for it in api(node, "nodes")}
            pids = {name: int(page["os_pid"]) for name, page in pages.items()}
            assert pids == {it.name: it.pid for it in three.nodes}
        other = three.nodes[1]
        assert api(three.nodes[0], f"nodes/{other.name}")["uptime"] > 0
        memory = api(three.nodes[0], f"nodes/{other.name}/memory")["memory"]
        assert memory["code"] > 0 and memory["total"]["rss"] > memory["code"]
