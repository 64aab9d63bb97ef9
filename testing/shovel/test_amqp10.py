"""Shovels with sides that speak AMQP 1.0: to and from queues, exchanges and streams, between the protocols, with failures on the way."""

import pytest

from servers import until

MODES = ("on-confirm", "on-publish", "no-ack")


def numbered(count):
    return [b"%d" % nth for nth in range(count)]


def source(server, queue):
    return {"src_protocol": "amqp10", "src_uri": server.url, "src_address": f"/queues/{queue}"}


def destination(server, address):
    return {"dest_protocol": "amqp10", "dest_uri": server.url, "dest_address": address}


@pytest.mark.parametrize("mode", MODES)
def test_a_queue_is_moved_in_order_by_amqp_1_0_at_both_ends(warren, mode):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    one.publish("q1", numbered(3000))
    shovel = one.shovel("s", **source(one, "q1"), **destination(other, "/queues/q2"), ack_mode=mode)
    assert shovel.status == 201, shovel
    until("all moved", lambda: other.count("q2") == 3000)
    assert other.bodies("q2") == numbered(3000)
    until("nothing is left", lambda: one.count("q1") == 0)
    running = one.state("s")
    assert (running["state"], running["forwarded"]) == ("running", 3000)
    assert (running["src_protocol"], running["src_address"]) == ("amqp10", "/queues/q1")
    assert (running["dest_protocol"], running["dest_address"]) == ("amqp10", "/queues/q2")


def test_messages_cross_the_protocols_both_ways(warren):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    other.declare("q3")
    channel = one.channel()
    import pika

    properties = pika.BasicProperties(headers={"x-mine": "yes", "plain": 5}, message_id="id", delivery_mode=2)
    channel.basic_publish("", "q1", b"body", properties)
    assert one.shovel("there", **source(one, "q1"), dest_uri=other.url, dest_queue="q2").status == 201
    until("moved there", lambda: other.count("q2") == 1)
    assert other.shovel("back", src_uri=other.url, src_queue="q2", **destination(other, "/queues/q3")).status == 201
    until("moved back", lambda: other.count("q3") == 1)
    (_, properties, body), = other.read("q3")
    assert (body, properties.message_id, properties.delivery_mode) == (b"body", "id", 2)
    assert (properties.headers["x-mine"], properties.headers["plain"]) == ("yes", 5)


def test_a_number_of_messages_is_moved_with_annotations_and_the_shovel_goes(warren):
    one = warren()
    one.declare("q1")
    one.publish("q1", numbered(20))
    marks = {"dest_add_forward_headers": True, "dest_add_timestamp_header": True}
    one.shovel("some", **source(one, "q1"), **destination(one, "/queues/q2"), src_delete_after=15, src_prefetch_count=4, **marks)
    until("the shovel is gone", lambda: not one.has_parameter("some"))
    assert one.bodies("q1") == numbered(20)[15:]
    read = one.read("q2")
    assert [body for _, _, body in read] == numbered(15)
    headers = read[0][1].headers
    assert (headers["x-opt-shovel-name"], headers["x-opt-shovel-type"]) == ("some", "dynamic")
    assert headers["x-opt-shovelled-by"] and headers["x-opt-shovelled-timestamp"] > 1_700_000_000_000


def test_large_messages_and_an_exchange_at_the_end(warren):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    bodies = [b"x" * 3_000_000, b"", b"y" * 15_000_000]
    one.publish("q1", bodies)
    channel = other.channel()
    channel.queue_declare("f")
    channel.queue_bind("f", "amq.direct", "k")
    one.shovel("large", **source(one, "q1"), **destination(other, "/exchanges/amq.direct/k"))
    until("all moved", lambda: other.count("f") == 3)
    assert [body for _, _, body in other.read("f")] == bodies


def test_a_stream_is_read_from_its_first_message(warren):
    one = warren()
    channel = one.channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    one.publish("s", numbered(100))
    arguments = {"src_consumer_args": {"x-stream-offset": "first"}, "src_predeclared": True}
    one.shovel("stream", **source(one, "s"), **destination(one, "/queues/q"), **arguments)
    until("all moved", lambda: one.count("q") == 100)
    assert one.bodies("q") == numbered(100)


def test_nothing_is_lost_when_the_destination_is_killed(warren):
    one, other = warren("one"), warren("other")
    one.declare("q1")
    other.declare("q2")
    one.publish("q1", numbered(5000))
    one.shovel("s", **source(one, "q1"), **destination(other, "/queues/q2"), reconnect_delay=1, src_prefetch_count=100)
    until("some moved", lambda: one.state("s").get("forwarded", 0) > 500)
    other.kill()
    other.start()
    until("nothing is left", lambda: one.count("q1") == 0 and one.state("s").get("state") == "running")
    assert set(numbered(5000)) <= set(other.bodies("q2"))


def test_what_is_wrong_is_said(warren):
    one = warren()
    one.declare("q1")
    one.shovel("none", src_protocol="amqp10", src_uri=one.url, src_address="/queues/none", src_predeclared=True, dest_uri=one.url, dest_queue="q1", reconnect_delay=1)
    until("it says so", lambda: "no queue 'none'" in one.state("none").get("reason", ""))
    refused = one.shovel("bad", src_protocol="amqp10", src_uri="amqp://", src_address="/queues/q1", dest_uri=one.url, dest_queue="q2")
    assert refused.status == 400 and "needs a host" in refused.json["reason"], refused
