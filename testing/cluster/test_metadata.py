"""One broker of several nodes: what is declared on one is on all, any client uses any queue, a minority refuses changes."""

import contextlib

import pika
from nodes import eventually
from test_queues import api


@contextlib.contextmanager
def channel_at(node):
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    try:
        yield connection.channel()
    finally:
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
    assert homes("ruled") == sorted(node.name for node in three.nodes)
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
