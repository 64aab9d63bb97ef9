"""What has to be so for the cluster as a whole: limits count the clients of all nodes, and definitions that are read at one node are everywhere."""

import base64
import contextlib
import json
import threading
import urllib.error
import urllib.request

import pika
import pytest
from nodes import Cluster, eventually, ok
from test_queues import api


@contextlib.contextmanager
def connected(node, vhost="/", user="guest"):
    """A connection, closed at the end if it is still open."""
    credentials = pika.PlainCredentials(user, user)
    connection = pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, vhost, credentials=credentials, heartbeat=60, connection_attempts=1))
    try:
        yield connection
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def refusal(node, vhost="/", user="guest"):
    """Why a node does not let a client in; None when it does."""
    try:
        with connected(node, vhost, user):
            pass
    except (pika.exceptions.ConnectionClosedByBroker, pika.exceptions.ProbableAccessDeniedError) as closed:
        return str(closed)
    return None


def refuses(node, text, **who):
    eventually(lambda: text in (refusal(node, **who) or ""), f"{node.name} says {text}")


def admits(node, **who):
    eventually(lambda: refusal(node, **who) is None, f"{node.name} lets {who} in")


def test_a_limit_of_a_vhost_counts_the_connections_of_all_nodes(three):
    a, b, c = three.nodes
    text = "connection limit (2) is reached"
    with contextlib.ExitStack() as stack:
        # One comes before there is a limit.
        first = stack.enter_context(connected(a))
        ok(b, "set_vhost_limits", '{"max-connections": 2}')
        second = stack.enter_context(connected(b))
        for node in three.nodes:
            refuses(node, text)
        second.close()
        for node in three.nodes:
            admits(node)
        stack.enter_context(connected(c))
        refuses(a, text)
        # Who was connected to a node that is gone does not count.
        c.kill()
        admits(a)
        admits(b)
        c.start()
        stack.enter_context(connected(c))
        for node in three.nodes:
            refuses(node, text)
        first.close()
        admits(c)


def test_limits_of_a_user_count_connections_and_channels_of_all_nodes(three):
    a, b, _ = three.nodes
    ok(a, "add_user", "ann", "ann")
    ok(a, "set_permissions", "ann", ".*", ".*", ".*")
    ok(a, "set_user_limits", "ann", '{"max-connections": 2, "max-channels": 3}')
    with connected(a, user="ann") as at_a, connected(b, user="ann") as at_b:
        for node in three.nodes:
            refuses(node, "user connection limit (2) is reached", user="ann")
        assert refusal(a) is None, "another user has no limit"
        first, _ = at_a.channel(), at_a.channel()
        at_b.channel()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="number of channels opened for user 'ann' has reached the maximum allowed user limit of 3"):
            while True:
                at_b.channel()
        first.close()
    with connected(b, user="ann") as at_b:
        eventually(lambda: api(a, "users/ann") and not [it for it in api(a, "channels") if it["user"] == "ann"], "channels are gone")
        for _ in range(3):
            at_b.channel()


DEFINITIONS = {
    "vhosts": [{"name": "shop"}],
    "users": [{"name": "seller", "password": "seller", "tags": "administrator"}],
    "permissions": [{"user": "seller", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}],
    "exchanges": [{"name": "orders", "vhost": "shop", "type": "topic", "durable": True, "auto_delete": False, "arguments": {}}],
    "queues": [
        *({"name": f"spread.{nth}", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {"x-queue-leader-locator": "balanced"}} for nth in range(6)),
        {"name": "copied", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}},
        {"name": "plain", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "bindings": [{"source": "orders", "vhost": "shop", "destination": "copied", "destination_type": "queue", "routing_key": "paid.#", "arguments": {}}],
    "policies": [{"name": "short", "vhost": "shop", "pattern": "^plain", "apply-to": "queues", "priority": 1, "definition": {"max-length": 5}}],
}


def imported_by_http(node, folder):
    request = urllib.request.Request(f"http://{node.http}/api/definitions", json.dumps(DEFINITIONS).encode(), method="POST")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status in (200, 204)


def imported_by_command(node, folder):
    path = folder / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS))
    ok(node, "import_definitions", str(path))


# One of the three leads the metadata, the others do not.
@pytest.mark.parametrize("load, nth", [(imported_by_http, 0), (imported_by_http, 1), (imported_by_http, 2), (imported_by_command, 1), (imported_by_command, 2)])
def test_definitions_that_one_node_reads_are_on_all(three, load, nth, tmp_path):
    load(three.nodes[nth], tmp_path)
    names = sorted(node.name for node in three.nodes)
    for node in three.nodes:
        queues = {queue["name"]: queue for queue in api(node, "queues/shop")}
        assert sorted(queues) == sorted(queue["name"] for queue in DEFINITIONS["queues"])
        assert sorted({queues[f"spread.{spread}"]["node"] for spread in range(6)}) == names, "queues go to all nodes"
        assert queues["plain"]["node"] == three.nodes[nth].name
        assert queues["plain"]["policy"] == "short"
        assert sorted(queues["copied"]["members"]) == names
        with connected(node, "shop", "seller") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("orders", "paid.x", b"x", mandatory=True)
            for spread in range(6):
                channel.basic_publish("", f"spread.{spread}", b"x", mandatory=True)
    with connected(three.nodes[nth], "shop", "seller") as connection:
        assert connection.channel().queue_declare("copied", passive=True).method.message_count == 3
    # The same again changes nothing.
    load(three.nodes[nth - 1], tmp_path)
    assert {queue["name"]: queue["node"] for queue in api(three.nodes[0], "queues/shop")} == {
        name: queue["node"] for name, queue in queues.items()}


def test_rates_of_a_queue_are_on_every_node(three):
    a, b, _ = three.nodes
    with connected(a) as connection:
        channel = connection.channel()
        channel.queue_declare("busy", durable=True)
        channel.queue_declare("copied", durable=True, arguments={"x-queue-type": "quorum"})
    with connected(b) as connection:
        channel = connection.channel()
        channel.confirm_delivery()

        def is_moving(node, name):
            channel.basic_publish("", name, b"x" * 100)
            channel.basic_get(name, auto_ack=True)
            shown = api(node, f"queues/%2F/{name}")
            listed = next(queue for queue in api(node, "queues") if queue["name"] == name)
            return all(
                it.get("message_stats", {}).get("publish", 0) > 0 and it["message_stats"]["publish_details"]["rate"] > 0
                and it["message_stats"]["deliver_get_details"]["rate"] > 0 for it in (shown, listed))

        for name in ("busy", "copied"):
            for node in three.nodes:
                eventually(lambda: is_moving(node, name), f"{node.name} shows rates of {name}", 40)
    a.kill()
    shown = api(b, "queues/%2F/busy")
    assert shown["state"] == "down" and shown["node"] == a.name


def test_a_command_for_another_node_is_done_there(three):
    a, b, c = three.nodes
    for node in three.nodes:
        assert json.loads(ok(a, "status", "-n", node.name, "--formatter", "json"))["pid"] == node.pid
    code, _, err = a.ctl("-n", "n9@elsewhere", "list_queues")
    assert code == 69 and "unable to perform an operation on node 'n9@elsewhere'" in err
    for words in (["stop_app"], ["stop"]):
        code, _, err = a.ctl("-n", b.name, *words)
        assert code == 69 and "on the machine of node" in err, err
    assert a.alive() and b.alive()
    c.kill()
    eventually(lambda: "does not run" in a.ctl("-n", c.name, "status")[2], "it says that the node does not run")


def profile(node, path, method="GET", body=None):
    request = urllib.request.Request(f"http://{node.http}{path}", body, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read()


def test_profiles_of_every_node_come_from_every_node(three):
    a, b, _ = three.nodes
    # The history of one node is that node's alone.
    profile(a, f"/api/profile/state?node={b.name}", "PUT", b'{"continuous": true}')
    state = lambda node, of: json.loads(profile(node, f"/api/profile/state?node={of.name}")[1])["continuous"]
    assert [state(a, node) for node in three.nodes] == [False, True, False]
    assert [state(b, node) for node in three.nodes] == [False, True, False]
    ok(a, "profile", "continuous", "off", "-n", b.name)
    assert not state(b, b)
    with connected(b) as connection:
        channel = connection.channel()
        channel.queue_declare("there")
        stop = threading.Event()

        def work():
            while not stop.is_set():
                channel.basic_publish("", "there", b"x" * 1000)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            kind, picture = profile(a, f"/debug/flamegraph/cpu?seconds=2&node={b.name}")
            assert kind.startswith("image/svg+xml") and b"<svg" in picture
            taken = json.loads(profile(a, f"/api/profile/cpu?seconds=2&node={b.name}")[1])
            assert any("there" in json.dumps(stack) for stack in taken["stacks"]), "the queue of the other node is named"
            assert "there" in ok(a, "profile", "cpu", "--seconds", "2", "--by", "queue", "--as", "folded", "-n", b.name)
        finally:
            stop.set()
            thread.join()
    with pytest.raises(urllib.error.HTTPError, match="400"):
        profile(a, "/api/profile/state?node=n9@localhost")


def test_events_of_all_nodes_come_to_every_node_once(binary, tmp_path):
    with Cluster(binary, tmp_path, 3, "warren.event_exchange = true\n") as cluster:
        a, b, c = cluster.nodes
        with connected(a) as connection:
            channel = connection.channel()
            channel.queue_declare("heard", durable=True)
            for key in ("node.*", "queue.created", "vhost.created", "connection.created"):
                channel.queue_bind("heard", "amq.rabbitmq.event", key)
            heard = []

            def hears(key, times=1, **headers):
                def is_there():
                    method, properties, _ = channel.basic_get("heard", auto_ack=True)
                    if method:
                        heard.append((method.routing_key, properties.headers))
                    return sum(name == key and headers.items() <= said.items() for name, said in heard) >= times
                eventually(is_there, f"{key} with {headers}, not only {heard}")

            with connected(b) as at_b:
                at_b.channel().queue_declare("made", durable=True)
            ok(c, "add_vhost", "new")
            hears("connection.created", vhost="/")
            hears("queue.created", name="made")
            hears("vhost.created", name="new")
            c.kill()
            hears("node.down", node=c.name)
            c.start()
            hears("node.up", node=c.name)
            c.stop()
            hears("node.down", 2, node=c.name)
            ok(b, "forget_cluster_node", c.name)
            hears("node.deleted", node=c.name)
            for key in ("node.down", "node.up", "node.deleted", "queue.created"):
                of_key = [said for name, said in heard if name == key and said.get("name") != "heard"]
                assert len(of_key) == (2 if key == "node.down" else 1), (key, heard)


def test_vhosts_and_exchanges_have_what_all_nodes_have_counted(three):
    a, b, _ = three.nodes
    for node in (a, b):
        with connected(node) as connection:
            channel = connection.channel()
            channel.queue_declare(f"at {node.name}", durable=True)
            channel.queue_bind(f"at {node.name}", "amq.topic", node.name)
            for _ in range(5):
                channel.basic_publish("amq.topic", node.name, b"x")
    for node in three.nodes:
        def counted():
            [listed], shown, exchange = api(node, "vhosts"), api(node, "vhosts/%2F"), api(node, "exchanges/%2F/amq.topic")
            whole = all(it["messages"] == 10 and it["message_stats"]["publish"] == 10 for it in (listed, shown))
            return whole and exchange["message_stats"]["publish_in"] == 10
        eventually(counted, f"{node.name} counts the messages of all nodes")
        assert api(node, "vhosts/%2F")["cluster_state"] == {it.name: "running" for it in three.nodes}
