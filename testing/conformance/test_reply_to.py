"""B153-B156: direct reply-to, the pseudo-queue amq.rabbitmq.reply-to."""

import re

import pytest

import client

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def server(ch2):
    """A queue served on another connection: (channel, queue)."""
    return ch2, ch2.queue()


def request(ch, server, body=b"question", **props):
    """Sends a request and returns the generated reply-to address that the server sees."""
    channel, queue = server
    ch.publish("", queue, body, reply_to=REPLY_TO, **props)
    return client.eventually(lambda: channel.get(queue, no_ack=True)).props["reply_to"]


def test_b154_reply_to_is_rewritten_and_the_reply_arrives(ch, server):
    tag = ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server, correlation_id="7")
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\..+", address)
    server[0].publish("", address, b"answer", correlation_id="7")
    reply = ch.deliver(b"answer")
    assert (reply.exchange, reply.routing_key, reply.consumer_tag) == ("", address, tag)
    assert (reply.redelivered, reply.props["correlation_id"]) == (False, "7")


def test_b154_many_requests_share_one_consumer(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    for number in range(20):
        server[0].publish("", request(ch, server), str(number))
        ch.deliver(str(number).encode())


def test_b154_address_serves_several_replies(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    for number in range(5):
        server[0].publish("", address, str(number))
    assert [ch.deliver().body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_b153_consuming_with_acks_is_406(ch):
    with ch.closes(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", "basic.consume"):
        ch.consume(REPLY_TO)


def test_b153_second_reply_consumer_is_406(ch):
    ch.consume(REPLY_TO, no_ack=True)
    with ch.closes(406, "PRECONDITION_FAILED - reply consumer already set", "basic.consume"):
        ch.consume(REPLY_TO, no_ack=True)


def test_b153_after_cancel_a_new_reply_consumer_is_possible(ch, server):
    tag = ch.consume(REPLY_TO, "one", no_ack=True)
    ch.call("basic.cancel", consumer_tag=tag)
    ch.consume(REPLY_TO, "two", no_ack=True)
    server[0].publish("", request(ch, server), b"answer")
    assert ch.deliver(b"answer").consumer_tag == "two"


def test_b153_server_generated_tag(ch):
    assert ch.consume(REPLY_TO, no_ack=True).startswith("amq.ctag-")


def test_b154_without_a_consumer_it_is_406(ch):
    with ch.closes(406, "PRECONDITION_FAILED - fast reply consumer does not exist", "basic.publish"):
        ch.publish("", "k", reply_to=REPLY_TO)


def test_b154_the_consumer_must_be_on_the_same_channel(conn, ch):
    ch.consume(REPLY_TO, no_ack=True)
    other = conn.channel()
    with other.closes(406, "PRECONDITION_FAILED - fast reply consumer does not exist", "basic.publish"):
        other.publish("", "k", reply_to=REPLY_TO)


def test_b154_other_reply_to_values_are_left_alone(ch, server):
    channel, queue = server
    ch.publish("", queue, reply_to="amq.rabbitmq.reply-to.made-up")
    ch.publish("", queue, reply_to="my-queue")
    got = [client.eventually(lambda: channel.get(queue)).props["reply_to"] for _ in range(2)]
    assert got == ["amq.rabbitmq.reply-to.made-up", "my-queue"]


def test_b154_a_reply_with_copies_goes_to_the_queues_too(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    other, queue = server
    other.call("confirm.select")
    for headers in ({"CC": [queue]}, {"BCC": [queue]}):
        other.confirmed("", address, b"answer", headers=headers, mandatory=True)
        for copy in (ch.deliver(b"answer"), other.get(queue, no_ack=True)):
            assert (copy.exchange, copy.routing_key, copy.body) == ("", address, b"answer")
            assert copy.props["headers"] == {name: keys for name, keys in headers.items() if name == "CC"}
    ch.nothing()


def test_b154_a_copy_may_go_to_a_requester(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    other, queue = server
    other.call("confirm.select")
    for header in ("CC", "BCC"):
        other.confirmed("", queue, header, headers={header: [address]})
        assert (ch.deliver().routing_key, other.get(queue, no_ack=True).body) == (queue, header.encode())
    other.confirmed("", client.fresh("missing"), b"not returned", headers={"CC": [address]}, mandatory=True)
    ch.deliver(b"not returned")
    other.confirmed("", address, b"once", headers={"CC": [address, address]})
    ch.deliver(b"once")
    ch.nothing()


def test_b154_a_dead_letter_may_go_to_a_requester(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    other, queue = server
    dies = {"x-message-ttl": 0, "x-dead-letter-exchange": ""}
    other.publish("", other.queue(arguments={**dies, "x-dead-letter-routing-key": address}), b"key of the queue")
    assert ch.deliver(b"key of the queue").props["headers"]["x-first-death-reason"] == "expired"
    topic = other.exchange("topic", auto_delete=True)
    other.bind(other.queue(arguments=dies), topic, "#")
    other.publish(topic, address, b"key of the message", headers={"CC": [queue]})
    ch.deliver(b"key of the message")
    assert client.eventually(lambda: other.get(queue, no_ack=True)).body == b"key of the message"
    ch.nothing()


def test_b155_what_is_lost_with_a_gone_requester_reaches_its_copies(broker, server):
    requester = broker.connect().channel()
    requester.consume(REPLY_TO, no_ack=True)
    address = request(requester, server)
    requester.connection.close()
    other, queue = server
    other.call("confirm.select")
    for key in (address, f"{REPLY_TO}.made-up"):
        other.confirmed("", key, b"copy", headers={"CC": [queue]}, mandatory=True)
        assert other.get(queue, no_ack=True).body == b"copy"


def test_b155_reply_to_a_gone_requester_is_lost_silently(broker, server):
    requester = broker.connect()
    channel = requester.channel()
    channel.consume(REPLY_TO, no_ack=True)
    address = request(channel, server)
    requester.close()
    server[0].publish("", address, b"too late")
    server[0].nothing()
    server[0].queue()


def test_b155_mandatory_reply_to_a_gone_requester_is_not_returned_since_4_2(broker, server):
    requester = broker.connect()
    channel = requester.channel()
    channel.consume(REPLY_TO, no_ack=True)
    address = request(channel, server)
    requester.close()
    client.eventually(lambda: not alive(broker, address))
    server[0].publish("", address, b"too late", mandatory=True)
    if broker.flavor == "rabbitmq3":
        server[0].next("basic.return")
    server[0].nothing(0.3)


def test_b155_mandatory_to_a_made_up_address(broker, ch):
    ch.publish("", REPLY_TO + ".nonsense", b"x", mandatory=True)
    assert ch.next("basic.return").reply_code == 312


def test_b155_replies_are_confirmed(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    server[0].call("confirm.select")
    assert server[0].confirmed("", address, b"answer")
    ch.deliver(b"answer")


def alive(broker, address):
    try:
        broker.connect().channel().ready(address)
    except client.ChannelClosed as closed:
        assert closed.code == 404
        return False
    return True


def test_b155_passive_declare_tells_whether_the_requester_lives(broker, server):
    requester = broker.connect()
    channel = requester.channel()
    channel.consume(REPLY_TO, no_ack=True)
    address = request(channel, server)
    assert alive(broker, address)
    requester.close()
    client.eventually(lambda: not alive(broker, address))


def test_b155_declaring_the_pseudo_queue(ch):
    ok = ch.call("queue.declare", queue=REPLY_TO, passive=True)
    assert (ok.queue, ok.message_count) == (REPLY_TO, 0)


def test_b156_the_pseudo_queue_itself_is_no_queue_to_bind_get_or_purge(conn):
    for method, args in (
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("basic.get", {}),
        ("queue.purge", {}),
    ):
        channel = conn.channel()
        with channel.closes(404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'", method):
            channel.send(method, queue=REPLY_TO, **args)


def test_b095_a_generated_address_is_not_bindable(broker, ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    with pytest.raises(client.ChannelClosed) as closed:
        server[0].bind(address, "amq.direct", "k")
    if broker.flavor == "rabbitmq3":
        assert closed.value.code == 404
    else:
        text = "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"
        client.same(closed.value, 403, text, "queue.bind")


def test_b156_not_listed(broker, ch):
    ch.consume(REPLY_TO, no_ack=True)
    assert "reply-to" not in broker.ctl("-q", "list_queues", "name")


def test_f020_reply_through_a_topic_exchange_request(ch, ch2):
    exchange, queue = ch2.exchange("topic"), ch2.queue()
    ch2.bind(queue, exchange, "#")
    ch.consume(REPLY_TO, no_ack=True)
    ch.publish(exchange, "some.key", b"q", reply_to=REPLY_TO, headers={"h": 1})
    event = client.eventually(lambda: ch2.get(queue))
    assert event.props["headers"] == {"h": 1}
    ch2.publish("", event.props["reply_to"], b"")
    assert ch.deliver(b"").size == 0


def test_f020_large_reply(ch, server):
    ch.consume(REPLY_TO, no_ack=True)
    address = request(ch, server)
    server[0].publish("", address, bytes(400_000))
    assert ch.deliver().body == bytes(400_000)
