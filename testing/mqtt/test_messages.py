"""Messages: QoS, properties of version 5, retained messages, shared subscriptions, and the way to AMQP and back."""

import queue
import socket
import time

import pika
import pytest
from clients import V5, V31, V311, properties
from served import DEADLINE_S, until
from paho.mqtt.subscribeoptions import SubscribeOptions

VERSIONS = [V31, V311, V5]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_lower_qos_counts(broker, version, qos):
    reader = broker.client(f"r{version}{qos}", version)
    assert reader.subscribe(f"q/{version}/{qos}/#", qos) == [qos]
    sender = broker.client(f"s{version}{qos}", version)
    for sent in (0, 1, 2):
        sender.publish(f"q/{version}/{qos}/{sent}", b"%d" % sent, sent)
        message = reader.next()
        assert (message.payload, message.qos) == (b"%d" % sent, min(sent, qos))


@pytest.mark.parametrize("qos", [1, 2])
def test_b163_many_messages_come_once_and_in_order(broker, qos):
    reader = broker.client(f"many{qos}", V5)
    reader.subscribe(f"many/{qos}", qos)
    sender = broker.client(f"many sender{qos}", V5)
    for nth in range(300):
        sender.paho.publish(f"many/{qos}", b"%d" % nth, qos)
    assert reader.payloads(300) == [b"%d" % nth for nth in range(300)]
    reader.nothing()


def test_b167_topics_keep_their_dots_and_wildcards_their_rules(broker):
    reader = broker.client("dots", V5)
    reader.subscribe([("d/+/#", SubscribeOptions(1)), ("+/x.y", SubscribeOptions(0))])
    sender = broker.client("dots sender")
    for topic in ("d/1.5/x", "d/v1.0", "e/x.y"):
        sender.publish(topic, b"", 1)
        assert reader.next().topic == topic
    sender.publish("e/x/y", b"", 1)
    reader.nothing()
    everything = broker.client("everything")
    everything.subscribe("#")
    sender.publish("$private/x", b"hidden")
    sender.publish("public/x", b"seen")
    assert everything.next().payload == b"seen"


def test_properties_of_version_5_pass(broker):
    reader = broker.client("props", V5)
    reader.subscribe("p/5", 1)
    given = {
        "ContentType": "text/plain", "ResponseTopic": "re/ply", "CorrelationData": b"\x00\xff",
        "PayloadFormatIndicator": 1, "UserProperty": [("a", "1"), ("a", "2"), ("b", "3")], "MessageExpiryInterval": 100,
    }
    broker.client("props sender", V5).publish("p/5", b"x", 1, **given)
    found = reader.next().properties
    for name, value in given.items():
        if name != "MessageExpiryInterval":
            assert getattr(found, name) == value
    assert 98 <= found.MessageExpiryInterval <= 100


def test_messages_expire(broker):
    reader = broker.client("expiry", V5, clean=False, expiry_s=100)
    reader.subscribe("ex/piry", 1)
    reader.disconnect()
    sender = broker.client("expiry sender", V5)
    sender.publish("ex/piry", b"short", 1, MessageExpiryInterval=1)
    sender.publish("ex/piry", b"long", 1, MessageExpiryInterval=50)
    time.sleep(1.2)
    reader = broker.client("expiry", V5, clean=False, expiry_s=100)
    message = reader.next()
    assert message.payload == b"long" and 46 <= message.properties.MessageExpiryInterval <= 49
    reader.nothing()
    broker.client("expiry", V5).disconnect()


def test_subscription_options(broker):
    client = broker.client("options", V5)
    client.subscribe("o/local", options=SubscribeOptions(1, noLocal=True), properties=properties("SUBSCRIBE", SubscriptionIdentifier=7))
    client.subscribe("o/#", options=SubscribeOptions(1, retainAsPublished=True), properties=properties("SUBSCRIBE", SubscriptionIdentifier=8))
    other = broker.client("options other", V5)
    other.publish("o/local", b"from another", 1, retain=True)
    message = client.next()
    assert message.retain and sorted(message.properties.SubscriptionIdentifier) == [7, 8]
    assert client.unsubscribe("o/#") == [0] and client.unsubscribe("o/#") == [0x11]
    client.publish("o/local", b"own", 1)
    client.nothing()
    other.publish("o/local", b"", 1, retain=True)


def test_nobody_gets_it_is_said(broker):
    assert broker.client("lonely", V5).publish("nobody/listens", b"", 1) == 0x10


def test_topic_aliases(broker):
    reader = broker.client("alias", V5, TopicAliasMaximum=5)
    reader.subscribe("al/#", 1)
    sender = broker.client("alias sender", V5)
    assert sender.given.TopicAliasMaximum == 16
    sender.publish("al/ias", b"1", 1, TopicAlias=3)
    sender.publish("", b"2", 1, TopicAlias=3)
    assert [(m.topic, m.payload) for m in (reader.next(), reader.next())][0] == ("al/ias", b"1")


def test_b166_receive_maximum_bounds_what_is_on_the_way(broker):
    reader = broker.client("window", V5, manual_ack=True, ReceiveMaximum=2)
    reader.subscribe("win/dow", 1)
    sender = broker.client("window sender")
    for nth in range(5):
        sender.publish("win/dow", b"%d" % nth, 1)
    first = [reader.next(), reader.next()]
    reader.nothing()
    reader.paho.ack(first[0].mid, 1)
    assert reader.next().payload == b"2"
    reader.nothing()


def test_packets_that_are_too_large_do_not_come(broker):
    reader = broker.client("small", V5, MaximumPacketSize=200)
    reader.subscribe("si/ze", 1)
    sender = broker.client("small sender")
    sender.publish("si/ze", b"x" * 300, 1)
    sender.publish("si/ze", b"small", 1)
    assert reader.next().payload == b"small"


@pytest.mark.parametrize("version", VERSIONS)
def test_retained_messages(broker, version):
    sender = broker.client(f"retains{version}", version)
    base = f"ret/{version}"
    for topic, qos in (("a", 0), ("a/b", 1), ("c", 2)):
        sender.publish(f"{base}/{topic}", b"old", qos, retain=True)
        sender.publish(f"{base}/{topic}", topic.encode(), qos, retain=True)
    reader = broker.client(f"finds{version}", version)
    reader.subscribe(f"{base}/#", 1)
    found = {(m.topic, m.payload, m.qos, m.retain) for m in (reader.next() for _ in range(3))}
    assert found == {(f"{base}/a", b"a", 0, True), (f"{base}/a/b", b"a/b", 1, True), (f"{base}/c", b"c", 1, True)}
    sender.publish(f"{base}/c", b"live", 1, retain=True)
    message = reader.next()
    assert (message.payload, message.retain) == (b"live", False)
    for topic in ("a", "a/b", "c"):
        sender.publish(f"{base}/{topic}", b"", 1, retain=True)
    late = broker.client(f"late{version}", version)
    late.subscribe(f"{base}/#", 1)
    late.nothing()


def test_many_filters_over_many_retained_messages_bring_each_once(broker):
    sender = broker.client("many kept")
    for nth in range(2000):
        sender.paho.publish(f"heap/{nth % 50}/{nth}", b"%d" % nth, 0, retain=True)
    sender.publish("heap", b"2000", 1, retain=True)
    reader = broker.client("many filters", V5)
    filters = [(f"heap/{nth}/#", SubscribeOptions(1)) for nth in range(50)] + [(f"heap/+/{nth}", SubscribeOptions(1)) for nth in range(2000)]
    reader.subscribe([*filters, ("heap", SubscribeOptions(1))])
    assert sorted(map(int, reader.payloads(2001))) == list(range(2001))
    reader.nothing()


def test_retain_handling(broker):
    broker.client("handling sender").publish("han/dling", b"kept", 1, retain=True)
    reader = broker.client("handling", V5)
    reader.subscribe("han/dling", options=SubscribeOptions(1, retainHandling=2))
    reader.nothing()
    reader.subscribe("han/dling", options=SubscribeOptions(1, retainHandling=1))
    reader.nothing()
    reader.subscribe("han/dling", options=SubscribeOptions(1, retainHandling=0))
    assert reader.next().payload == b"kept"


def test_b164_shared_subscriptions(broker):
    members = [broker.client(f"member{nth}", V5) for nth in range(3)]
    for member in members:
        assert member.subscribe("$share/group/work/#", 1) == [1]
    alone = broker.client("alone", V5)
    alone.subscribe("work/#", 1)
    sender = broker.client("work sender")
    for nth in range(60):
        sender.publish("work/x", b"%d" % nth, 1)
    assert len(alone.payloads(60)) == 60
    taken = lambda: [member.messages.qsize() for member in members]
    until("all are taken", lambda: sum(taken()) == 60)
    assert all(taken()), taken()
    members[0].unsubscribe("$share/group/work/#")
    members[1].disconnect()
    sender.publish("work/x", b"last", 1)
    until("the last member has it", lambda: members[2].messages.queue[-1].payload == b"last")


def test_messages_cross_to_amqp_and_back(broker):
    channel = broker.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", "cross.#")
    reader = broker.client("cross", V5)
    reader.subscribe("cross/+/x", 1)
    sender = broker.client("cross sender", V5)
    sender.publish("cross/mqtt/x", b"m", 1, ContentType="t/p", CorrelationData=b"c", ResponseTopic="r/t",
                   UserProperty=[("k", "v")], MessageExpiryInterval=9)
    assert reader.next().payload == b"m"
    method, given, body = until("it is there", lambda: (got := channel.basic_get(queue, True))[0] and got)
    assert (method.exchange, method.routing_key, body) == ("amq.topic", "cross.mqtt.x", b"m")
    assert (given.content_type, given.correlation_id, given.expiration, given.delivery_mode) == ("t/p", "c", "9000", 2)
    assert given.headers == {"k": "v", "x-reply-to-topic": "r.t"}
    sent = pika.BasicProperties(headers={"n": 5, "s": "t"}, delivery_mode=2, content_type="a/b", correlation_id="id")
    channel.basic_publish("amq.topic", "cross.amqp.x", b"a", sent)
    message = reader.next()
    assert (message.topic, message.payload, message.qos) == ("cross/amqp/x", b"a", 1)
    assert sorted(message.properties.UserProperty) == [("n", "5"), ("s", "t")]
    assert (message.properties.ContentType, message.properties.CorrelationData) == ("a/b", b"id")
    channel.connection.close()


def test_a_message_that_makes_no_topic_is_rejected_and_the_session_goes_on(broker):
    channel = broker.channel()
    channel.queue_declare("untold")
    broker.ctl("set_policy", "untold", "^mqtt-subscription-untold", '{"dead-letter-exchange": "", "dead-letter-routing-key": "untold"}')
    reader = broker.client("untold reader", V5, clean=False, expiry_s=60)
    reader.subscribe([("un/#", SubscribeOptions(1)), ("un/+", SubscribeOptions(0))])
    for key in ("un.\0x", "un.#.x", "un.*+", "un.told"):
        channel.basic_publish("amq.topic", key, key.encode(), pika.BasicProperties(delivery_mode=2))
    assert {message.topic for message in (reader.next(), reader.next())} == {"un/told"}
    reader.nothing()
    dead = lambda: channel.basic_get("untold", True)
    found = [until("it is dead-lettered", lambda: (got := dead())[0] and got) for _ in range(3)]
    assert [(body, given.headers["x-death"][0]["reason"]) for _, given, body in found] == [
        (b"un.\0x", "rejected"), (b"un.#.x", "rejected"), (b"un.*+", "rejected")]
    reader.disconnect()
    again = broker.client("untold reader", V5, clean=False, expiry_s=60)
    again.nothing()
    channel.queue_delete("untold")


def test_permissions(broker):
    broker.ctl("add_user", "limited", "pw")
    broker.ctl("set_permissions", "limited", "^mqtt-subscription-.*", "^(mqtt-subscription-.*|amq[.]topic)$", ".*")
    broker.ctl("set_topic_permissions", "limited", "amq.topic", "^mine[.].*", "^mine[.].*")
    client = broker.client("limited", V5, login=("limited", "pw"))
    assert client.subscribe("mine/#", 1) == [1]
    assert client.subscribe("others/#", 1) == [0x87]
    assert client.publish("mine/x", b"ok", 1) == 0
    assert client.next().payload == b"ok"
    client.paho.publish("others/x", b"no", 1)
    assert client.event("disconnect")[1].value == 0x87
    old = broker.client("limited3", V311, login=("limited", "pw"))
    assert old.subscribe("others/#", 1) == [0x80]


def test_topic_permissions_may_name_the_client_and_are_looked_at_again(broker):
    broker.ctl("add_user", "device", "pw")
    broker.ctl("set_permissions", "device", ".*", ".*", ".*")
    grant = lambda of: broker.ctl("set_topic_permissions", "device", "amq.topic", "^{client_id}[.]{username}$", f"^{of}[.]")
    grant("{client_id}")
    device = lambda name: broker.client(name, V5, clean=False, expiry_s=60, login=("device", "pw"))
    client = device("d.1")
    assert client.subscribe([("d.1/#", SubscribeOptions(1)), ("dx1/#", SubscribeOptions(1))]) == [1, 0x87]
    assert client.publish("d.1/device", b"own", 1) == 0
    assert client.next().payload == b"own"
    client.disconnect()
    grant("other")
    again = device("d.1")
    assert again.session_present
    broker.client("device sender").publish("d.1/x", b"for it", 1)
    again.nothing()
    again.paho.publish("d.2/device", b"no", 1)
    assert again.event("disconnect")[1].value == 0x87
    broker.ctl("delete_user", "device")


def test_listings(broker):
    client = broker.client("listed", V5)
    client.subscribe("li/sted", 1)
    rows = broker.rows("list_mqtt_connections", "client_id", "protocol", "clean_sess", "exchange", "prefetch", "user")
    assert ["listed", "{'MQTT', {5, 0}}", "true", "amq.topic", "10", "guest"] in rows, rows
    assert [row for row in broker.rows("list_bindings", "source_name", "destination_name", "routing_key")
            if row == ["amq.topic", "mqtt-subscription-listedqos1", "li.sted"]]
    (shown,) = [it for it in broker.api("connections") if it["client_properties"].get("client_id") == "listed"]
    assert (shown["protocol"], shown["auth_mechanism"], shown["timeout"]) == ("MQTT 5-0", "none", 60)


def test_metrics_tell_protocols_apart(broker):
    client = broker.client("counted", V5)
    client.subscribe("cou/nted", 1)
    client.publish("cou/nted", b"", 1)
    client.next()
    assert broker.client("wrong", V311, login=("guest", "wrong")).refused
    values = broker.metrics()
    for name, least in [("auth_attempts_succeeded_total", 1), ("auth_attempts_failed_total", 1)]:
        assert values[f'rabbitmq_{name}{{protocol="mqtt"}}'] >= least
    assert values['rabbitmq_auth_attempts_failed_total{protocol="amqp091"}'] == 0
    for name, further in [("received_total", ""), ("confirmed_total", ""), ("delivered_total", ',queue_type="rabbit_classic_queue"')]:
        assert values[f'rabbitmq_global_messages_{name}{{protocol="mqtt50"{further}}}'] >= 1


def test_a_queue_that_is_full_is_said(broker):
    """Version 5 hears 0x97; before, such a publish is not acknowledged."""
    channel = broker.channel()
    channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_bind("full", "amq.topic", "fu.ll")
    client = broker.client("fills", V5)
    assert client.publish("fu/ll", b"fits", 1) == 0
    assert client.publish("fu/ll", b"too much", 1) == 0x97
    old = broker.client("fills3", V311)
    old.paho.publish("fu/ll", b"too much", 1)
    old.publish("other/topic", b"goes on", 0)
    with pytest.raises(queue.Empty):
        old.event("publish", 0.5)
    # paho would wait for the acknowledgement.
    old.disconnect()
    channel.queue_delete("full")


def test_a_reader_that_is_slow_loses_what_is_of_qos_0_and_the_rest_goes_on(broker):
    """64 MiB for a client that reads nothing: what waits for it is bounded, and nobody else waits."""
    slow = raw(broker, "slow reader", "slow/#")
    reader = broker.client("quick reader", V5)
    reader.subscribe("slow/last", 1)
    sender = broker.client("slow sender", V5)
    before = int(broker.process_memory())
    for _ in range(640):
        sender.paho.publish("slow/x", bytes(100_000), 0)
    assert sender.publish("slow/last", b"the end", 1) == 0
    assert reader.next().payload == b"the end"
    assert broker.process_memory() - before < 40 << 20
    slow.close()


def raw(broker, name, topic):
    """A socket of a client of version 3.1.1 that has subscribed with QoS 0 and reads nothing more."""
    field = lambda text: len(text).to_bytes(2, "big") + text.encode()
    body = field("MQTT") + bytes([4, 0xC2, 0, 0]) + field(name) + field("guest") + field("guest")
    filters = b"\0\1" + field(topic) + b"\0"
    client = socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE_S)
    client.sendall(bytes([0x10, len(body)]) + body)
    assert client.recv(4) == bytes([0x20, 2, 0, 0])
    client.sendall(bytes([0x82, len(filters)]) + filters)
    assert client.recv(5) == bytes([0x90, 3, 0, 1, 0])
    return client


def test_authentication_packets_are_refused(broker):
    refused = broker.client("auth", V5, AuthenticationMethod="SCRAM-SHA-1")
    assert refused.refused and refused.reason.value == 0x8C
    client = broker.client("auth later", V5)
    client.paho.socket().sendall(bytes([0xF0, 0]))
    assert client.event("disconnect")[1].value == 0x82
