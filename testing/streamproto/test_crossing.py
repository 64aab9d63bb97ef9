"""Messages cross between AMQP 0-9-1 and the stream protocol as sections of AMQP 1.0."""

import pika

from frames import body_of, message


def test_what_amqp_publishes_a_stream_client_reads(broker, stream):
    client, name = stream
    channel = broker.channel()
    channel.confirm_delivery()
    given = pika.BasicProperties(content_type="text/plain", message_id="id-1", headers={"color": "blue", "x-tag": "t"}, delivery_mode=2)
    channel.basic_publish("", name, b"from amqp", given)
    client.subscribe(name)
    ((offset, sections),) = client.chunk().messages()
    assert offset == 0 and body_of(sections) == b"from amqp"
    for section in (0x70, 0x72, 0x73, 0x74, 0x75):
        assert bytes([0, 0x53, section]) in sections, hex(section)
    for word in (b"x-exchange", b"x-routing-key", name.encode(), b"text/plain", b"id-1", b"color", b"blue", b"x-tag"):
        assert word in sections, word


def test_what_a_stream_client_publishes_amqp_reads(broker, stream):
    client, name = stream
    client.declare(name)
    # Properties with a message id, application properties, data.
    sections = (b"\x00\x53\x73\xc0\x06\x01\xa1\x03abc" + b"\x00\x53\x74\xc1\x0d\x02\xa1\x05color\xa1\x03red" +
                b"\x00\x53\x75\xa0\x05hello")
    client.publish([len(sections).to_bytes(4, "big") + sections, message(b"plain")])
    client.confirmed(2)
    channel = broker.channel()
    channel.basic_qos(prefetch_count=10)
    found = []
    for method, properties, body in channel.consume(name, arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
        assert method is not None, "no message in time"
        found.append((properties, body))
        assert (method.exchange, method.routing_key) == ("", name)
        channel.basic_ack(method.delivery_tag)
        if len(found) == 2:
            break
    (first, body), (second, other) = found
    assert (body, other) == (b"hello", b"plain")
    assert first.message_id == "abc" and first.headers["color"] == "red"
    assert (first.headers["x-stream-offset"], second.headers["x-stream-offset"]) == (0, 1)


def test_filter_values_cross(broker, stream):
    client, name = stream
    channel = broker.channel()
    channel.confirm_delivery()
    for value in ("a", "b"):
        channel.basic_publish("", name, value.encode(), pika.BasicProperties(headers={"x-stream-filter-value": value}))
    client.subscribe(name, filter_0="b")
    assert client.bodies(1) == [b"b"]
