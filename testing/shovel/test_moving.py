"""Messages that shovels move: ack modes, sources, destinations, and the end of a shovel."""

import time

import pytest

from servers import until

MODES = ("on-confirm", "on-publish", "no-ack")


def numbered(count):
    return [b"%d" % nth for nth in range(count)]


@pytest.mark.parametrize("mode", MODES)
def test_a_queue_is_moved_in_order_within_a_node_and_between_nodes(warren, mode):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    one.publish("q1", numbered(3000))
    assert one.shovel("within", src_queue="q1", dest_queue="q2", ack_mode=mode).status == 201
    until("all moved within", lambda: one.count("q2") == 3000)
    assert one.shovel("between", src_queue="q2", dest_queue="q3", dest_uri=other.url, ack_mode=mode).status == 201
    until("all moved between", lambda: other.count("q3") == 3000)
    assert other.bodies("q3") == numbered(3000)
    assert until("nothing is left", lambda: one.count("q1") == 0 and one.count("q2") == 0)
    running = one.state("between")
    assert (running["state"], running["forwarded"], running["src_queue"]) == ("running", 3000, "q2")
    assert running["dest_uri"] == f"amqp://127.0.0.1:{other.process.port}/%2F", "credentials are not shown"


@pytest.mark.parametrize("mode", MODES)
def test_queue_length_moves_what_is_there_and_deletes_the_shovel(warren, mode):
    one = warren()
    one.declare("q1")
    one.publish("q1", numbered(2500))
    one.shovel("once", src_queue="q1", dest_queue="q2", src_delete_after="queue-length", ack_mode=mode)
    until("the shovel is gone", lambda: not one.has_parameter("once") and one.state("once") == {})
    one.publish("q1", [b"later"])
    assert one.bodies("q2") == numbered(2500)
    assert one.bodies("q1") == [b"later"]


def test_queue_length_of_an_empty_queue_ends_at_once(warren):
    one = warren()
    one.shovel("once", src_queue="q1", dest_queue="q2", src_delete_after="queue-length")
    until("the shovel is gone", lambda: not one.has_parameter("once"))


@pytest.mark.parametrize("mode", ("on-confirm", "on-publish"))
def test_a_number_of_messages_is_moved_and_the_rest_stays(warren, mode):
    one = warren()
    one.declare("q1")
    one.publish("q1", numbered(50))
    one.shovel("some", src_queue="q1", dest_queue="q2", src_delete_after=30, ack_mode=mode, src_prefetch_count=7)
    until("the shovel is gone", lambda: not one.has_parameter("some"))
    assert one.bodies("q2") == numbered(30)
    assert one.bodies("q1") == numbered(50)[30:]


def test_exchanges_at_both_ends(warren):
    one, other = warren("one"), warren("other")
    one.shovel("x", src_exchange="amq.topic", src_exchange_key="a.#", dest_uri=other.url, dest_exchange="amq.fanout")
    other.shovel("same", src_uri=one.url, src_exchange="amq.topic", src_exchange_key="b.#", dest_uri="amqp://")
    channel = other.channel()
    channel.queue_declare("f")
    channel.queue_bind("f", "amq.fanout")
    channel.queue_declare("t")
    channel.queue_bind("t", "amq.topic", "b.*")
    one.until_state("x", "running")
    other.until_state("same", "running")
    for key in ("a.1", "b.1", "c.1"):
        one.publish(key, [key.encode()], exchange="amq.topic")
    until("one came to each", lambda: other.count("f") == 1 and other.count("t") == 1)
    (method, _, body), = other.read("f")
    assert (method.routing_key, body) == ("a.1", b"a.1")
    (method, _, body), = other.read("t")
    assert (method.exchange, method.routing_key, body) == ("amq.topic", "b.1", b"b.1")


def test_keys_properties_and_headers_are_replaced_and_added(warren):
    one = warren()
    one.declare("q1")
    channel = one.channel()
    channel.queue_declare("f")
    channel.queue_bind("f", "amq.fanout")
    one.shovel("s", src_queue="q1", dest_exchange="amq.fanout", dest_exchange_key="k", dest_add_forward_headers=True,
               dest_add_timestamp_header=True, dest_publish_properties={"delivery_mode": 1, "app_id": "moved", "priority": 3})
    one.publish("q1", [b"m"], headers={"a": 1}, message_id="id", app_id="mine")
    until("it came", lambda: one.count("f") == 1)
    (method, properties, _), = one.read("f")
    assert (method.routing_key, properties.delivery_mode, properties.app_id, properties.priority) == ("k", 1, "moved", 3)
    assert properties.message_id == "id" and properties.headers["a"] == 1
    assert abs(properties.headers["x-shovelled-timestamp"] - time.time()) < 60
    passage, = properties.headers["x-shovelled"]
    assert passage == {"dest-exchange": "amq.fanout", "dest-exchange-key": "k", "dest-uri": "amqp://", "shovel-name": "s",
                       "shovel-type": "dynamic", "shovel-vhost": "/", "shovelled-by": "warren@localhost", "src-queue": "q1",
                       "src-uri": "amqp://"}


def test_a_second_shovel_prepends_its_passage(warren):
    one = warren()
    for name, source, destination in (("first", "q1", "q2"), ("second", "q2", "q3")):
        one.shovel(name, src_queue=source, dest_queue=destination, dest_add_forward_headers=True)
        one.until_state(name, "running")
    one.publish("q1", [b"m"])
    until("it came", lambda: one.count("q3") == 1)
    (_, properties, _), = one.read("q3")
    assert [it["shovel-name"] for it in properties.headers["x-shovelled"]] == ["second", "first"]


def test_bodies_of_any_size_pass(warren):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    sizes = (0, 1, 131_064, 131_065, 5_000_000)
    one.publish("q1", [b"x" * size for size in sizes])
    one.shovel("s", src_queue="q1", dest_queue="q2", dest_uri=other.url)
    until("all came", lambda: other.count("q2") == len(sizes))
    assert [len(body) for body in other.bodies("q2")] == list(sizes)


def test_fifty_thousand_messages(warren):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    one.publish("q1", [b"x" * 200] * 50_000)
    begin = time.monotonic()
    one.shovel("s", src_queue="q1", dest_queue="q2", dest_uri=other.url, src_delete_after="queue-length")
    until("the shovel is gone", lambda: not one.has_parameter("s"))
    took = time.monotonic() - begin
    assert other.count("q2") == 50_000
    print(f"50000 messages of 200 bytes, on-confirm, from node to node: {took:.1f} s, {50_000 / took:.0f}/s")


def test_a_shovel_whose_time_is_over_deletes_itself(warren):
    one = warren(config="shovel.delete_after_duration_floor = 15\n")
    one.declare("q1")
    one.publish("q1", [b"1"])
    assert one.shovel("zz", src_queue="q1", dest_queue="q2", src_delete_after_duration=1, ack_mode="on-confirm").status == 201
    until("it came", lambda: one.count("q2") == 1)
    began = time.monotonic()
    until("its time is over", lambda: not one.has_parameter("zz"))
    assert time.monotonic() - began > 10 and one.state("zz") == {}
