"""One broker of several nodes: what is declared on one is on all, any client uses any queue, a minority refuses changes."""

import contextlib
import urllib.parse
import urllib.request

import pika
from nodes import eventually
from test_queues import api


@contextlib.contextmanager
def channel_at(node):
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()


def names(node, command, *words):
    """First column of a listing."""
    code, out, err = node.ctl("-q", command, *words)
    assert code == 0, out + err
    return [line.split("\t")[0] for line in out.splitlines()[1:]]


def test_what_is_declared_on_one_node_is_used_from_every_node(three):
    a, b, c = three.nodes
    with channel_at(a) as at_a, channel_at(b) as at_b, channel_at(c) as at_c:
        at_a.exchange_declare("orders", "topic", durable=True)
        at_b.queue_declare("paid", durable=True)
        at_c.queue_bind("paid", "orders", "paid.#")
        at_a.confirm_delivery()
        for nth in range(50):
            at_a.basic_publish("orders", "paid.x", b"%d" % nth, pika.BasicProperties(delivery_mode=2), mandatory=True)
        found = []
        for method, _, body in at_c.consume("paid", inactivity_timeout=10):
            assert method is not None, f"{len(found)} of 50 came"
            found.append(int(body))
            at_c.basic_ack(method.delivery_tag)
            if len(found) == 50:
                break
        at_c.cancel()
        assert found == list(range(50))
        assert at_a.queue_declare("paid", passive=True).method.message_count == 0


def test_whoever_has_the_answer_may_publish_on_another_node_at_once(three):
    a, b, c = three.nodes
    with channel_at(a) as at_a, channel_at(b) as at_b, channel_at(c) as at_c:
        at_b.confirm_delivery()
        at_c.confirm_delivery()
        for nth in range(200):
            name = f"answered.{nth}"
            at_a.exchange_declare(name, "direct")
            at_a.queue_declare(name, durable=True)
            at_a.queue_bind(name, name, "key")
            # An unroutable or a missing exchange would raise here.
            (at_b, at_c)[nth % 2].basic_publish(name, "key", b"x", mandatory=True)
        for nth in range(200):
            at_a.queue_delete(f"answered.{nth}")
            at_a.exchange_delete(f"answered.{nth}")


def test_a_balanced_queue_lives_where_the_fewest_are(three):
    a, b, _ = three.nodes
    with channel_at(a) as at_a, channel_at(b) as at_b:
        at_a.confirm_delivery()
        for nth in range(6):
            at_a.queue_declare(f"spread.{nth}", durable=True, arguments={"x-queue-leader-locator": "balanced"})
            at_a.basic_publish("", f"spread.{nth}", b"x", mandatory=True)
        at_a.queue_declare("own", durable=True)
        assert b.ctl("set_policy", "spread", "^ruled", '{"queue-leader-locator":"balanced"}')[0] == 0
        for nth in range(3):
            at_b.queue_declare(f"ruled.{nth}", durable=True)
    queues = {queue["name"]: queue["node"] for queue in api(a, "queues")}
    homes = lambda prefix: sorted({node for name, node in queues.items() if name.startswith(prefix)})
    assert homes("spread") == sorted(node.name for node in three.nodes)
    assert homes("ruled") == [b.name, three.nodes[2].name], "the first node has one more"
    assert homes("own") == [a.name]


def test_users_and_vhosts_are_on_all_nodes_and_a_restarted_node_catches_up(three):
    a, b, c = three.nodes
    assert a.ctl("add_vhost", "shop")[0] == 0 and b.ctl("add_user", "ann", "secret")[0] == 0
    for node in three.nodes:
        eventually(lambda: "shop" in names(node, "list_vhosts") and "ann" in names(node, "list_users"), node.name)
    c.kill()
    three.wait([a, b])
    assert b.ctl("add_vhost", "later")[0] == 0
    c.start()
    assert "later" in names(c, "list_vhosts"), "it is ready when it has all that was committed"
    three.wait(three.nodes)


def test_a_minority_refuses_changes_and_the_others_go_on(three):
    a, b, c = three.nodes
    three.partition([a], [b, c])
    three.wait([a], [a])
    three.wait([b, c], [b, c])
    assert a.ctl("add_vhost", "minority", "--timeout", "3")[0] != 0
    eventually(lambda: b.ctl("add_vhost", "majority", "--timeout", "3")[0] == 0 or "majority" in names(b, "list_vhosts"), "they have a leader")
    assert "majority" not in names(a, "list_vhosts")
    three.heal()
    three.wait(three.nodes)
    eventually(lambda: "majority" in names(a, "list_vhosts"), "it has caught up")


def test_a_lost_node_is_forgotten(three):
    a, b, c = three.nodes
    assert a.ctl("forget_cluster_node", "n3@localhost")[0] != 0, "it runs"
    c.kill()
    three.wait([a, b])
    code, out, err = a.ctl("forget_cluster_node", "n3@localhost")
    assert code == 0, out + err
    eventually(lambda: b.status["disk_nodes"] == ["n1@localhost", "n2@localhost"], "it is no member")


def test_a_reply_reaches_a_requester_of_another_node(three):
    a, b, _ = three.nodes
    with channel_at(a) as at_a, channel_at(b) as at_b:
        at_b.queue_declare("asked", exclusive=True)
        replies = []
        at_a.basic_consume("amq.rabbitmq.reply-to", lambda *it: replies.append(it[3]), auto_ack=True)
        for nth in range(20):
            at_a.basic_publish("", "asked", b"%d" % nth, pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        for method, properties, body in at_b.consume("asked", inactivity_timeout=10):
            at_b.basic_publish("", properties.reply_to, body + b" answered")
            at_b.basic_ack(method.delivery_tag)
            if body == b"19":
                break
        eventually(lambda: at_a.connection.process_data_events(0.05) or len(replies) == 20, "all replies are here")
        assert replies == [b"%d answered" % nth for nth in range(20)]


def test_connections_and_channels_of_all_nodes_are_shown_and_closed_by_any(three):
    a, b, _ = three.nodes
    with channel_at(a), channel_at(b) as at_b:
        all_nodes = lambda what: sorted({it["node"] for it in api(a, what)})
        eventually(lambda: all_nodes("connections") == [a.name, b.name], "connections of both")
        assert all_nodes("channels") == [a.name, b.name]
        assert api(a, "connections?page=1")["total_count"] == 2
        far = next(it for it in api(a, "connections") if it["node"] == b.name)
        path = "connections/" + urllib.parse.quote(far["name"], safe="")
        assert api(a, path)["name"] == far["name"]
        assert len(api(a, path + "/channels")) == 1
        request = urllib.request.Request(f"http://{a.http}/api/{path}", method="DELETE")
        request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
        assert urllib.request.urlopen(request, timeout=20).status == 204
        eventually(lambda: all_nodes("connections") == [a.name], "it is closed")


def test_totals_of_the_overview_are_those_of_all_nodes(three):
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(channel_at(node)) for node in three.nodes]
        for nth, channel in enumerate(channels):
            channel.queue_declare(f"totals {nth}", durable=True)
            channel.basic_publish("", f"totals {nth}", b"m")

        def totals(node):
            said = api(node, "overview")
            objects, counted = said["object_totals"], said.get("message_stats", {})
            return objects["connections"], objects["channels"], objects["queues"], said["queue_totals"]["messages"], counted.get("publish")

        eventually(lambda: all(totals(node) == (3, 3, 3, 3, 3) for node in three.nodes), "every node shows the sums")
        listeners = api(three.nodes[0], "overview")["listeners"]
        assert {it["node"] for it in listeners} == {node.name for node in three.nodes}
