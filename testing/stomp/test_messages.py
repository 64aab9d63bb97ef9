"""Messages of stomp.py: destinations, acknowledgements, transactions, receipts, and AMQP 0-9-1 beside it."""

import time

import pika
import pytest

from served import until

VERSIONS = ["1.0", "1.1", "1.2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_queue_is_declared_by_its_first_use(broker, version):
    name = f"first-{version}"
    client = broker.client(version)
    client.send(f"/queue/{name}", "hello", content_type="text/plain", headers={"foo": "a:b\nc" if version != "1.0" else "a"})
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert message.body == "hello"
    assert message.headers["destination"] == f"/queue/{name}"
    assert message.headers["foo"] == ("a:b\nc" if version != "1.0" else "a")
    assert message.headers["content-type"] == "text/plain"
    assert message.headers["redelivered"] == "false"
    assert message.headers["message-id"].startswith("T_1@@session-")
    queue = broker.api(f"queues/%2F/{name}")
    assert (queue["durable"], queue["auto_delete"], queue["exclusive"]) == (True, False, False)


def test_properties_are_those_of_amqp(broker):
    client, channel = broker.client(), broker.channel()
    channel.queue_declare("properties", durable=True)
    client.send("/amq/queue/properties", "x", headers={
        "content-type": "text/plain", "correlation-id": "c", "reply-to": "/queue/r", "expiration": "60000", "priority": "3",
        "persistent": "true", "content-encoding": "utf8", "amqp-message-id": "m", "timestamp": "1234", "type": "t",
        "user-id": "guest", "app-id": "a", "x-own": "5", "receipt": "sent"})
    assert client.receipt() == "sent"
    _, properties, body = channel.basic_get("properties", auto_ack=True)
    assert body == b"x"
    assert (properties.content_type, properties.correlation_id, properties.reply_to) == ("text/plain", "c", "/queue/r")
    assert (properties.expiration, properties.priority, properties.delivery_mode) == ("60000", 3, 2)
    assert (properties.content_encoding, properties.message_id, properties.timestamp) == ("utf8", "m", 1234)
    assert (properties.type, properties.user_id, properties.app_id) == ("t", "guest", "a")
    assert properties.headers == {"x-own": "5", "receipt": "sent"}


def test_messages_of_amqp_arrive_with_their_properties(broker):
    client, channel = broker.client(), broker.channel()
    client.subscribe("/queue/from-amqp")
    properties = pika.BasicProperties(content_type="a/b", headers={"n": 7, "t": "x", "b": True, "deep": {"a": 1}}, reply_to="back",
                                      message_id="m", delivery_mode=2, priority=1)
    channel.basic_publish("", "from-amqp", b"z", properties)
    headers = client.message().headers
    wanted = {"content-type": "a/b", "n": "7", "t": "x", "b": "true", "reply-to": "/reply-queue/back", "amqp-message-id": "m",
              "persistent": "true", "priority": "1"}
    assert {name: headers.get(name) for name in wanted} == wanted
    assert "deep" not in headers


def test_topics_and_exchanges(broker):
    client = broker.client()
    client.subscribe("/topic/a.*", id="topic")
    client.subscribe("/exchange/amq.fanout", id="fanout")
    client.subscribe("/exchange/amq.direct/k%2F1", id="direct")
    for destination in ["/topic/a.b", "/exchange/amq.fanout", "/exchange/amq.direct/k%2F1", "/topic/c"]:
        client.send(destination, destination)
    got = {client.message().headers["subscription"] for _ in range(3)}
    assert got == {"topic", "fanout", "direct"}
    queues = [it for it in broker.api("queues") if it["exclusive"]]
    assert len(queues) == 3 and all(it["auto_delete"] and not it["durable"] for it in queues)
    client.unsubscribe("topic")
    until("the queue goes with its subscription", lambda: sum(it["exclusive"] for it in broker.api("queues")) == 2)


def test_replies_come_to_a_temporary_queue(broker):
    asking, answering = broker.client(), broker.client()
    asking.send("/queue/requests", "question", headers={"reply-to": "/temp-queue/mine"})
    answering.subscribe("/queue/requests")
    reply_to = answering.message().headers["reply-to"]
    assert reply_to.startswith("/reply-queue/amq.gen-")
    answering.send(reply_to, "answer")
    answer = asking.message()
    assert (answer.body, answer.headers["subscription"]) == ("answer", "/temp-queue/mine")


def test_client_acknowledges_all_before(broker):
    client = broker.client()
    client.subscribe("/queue/cumulative", ack="client")
    for number in range(4):
        client.send("/queue/cumulative", str(number))
    messages = [client.message() for _ in range(4)]
    client.ack(messages[2].headers["ack"], receipt="acked")
    assert client.receipt() == "acked"
    client.close()
    again = broker.client()
    again.subscribe("/queue/cumulative")
    left = again.message()
    assert (left.body, left.headers["redelivered"]) == ("3", "true")
    assert again.messages.empty()


def test_each_message_is_acknowledged_by_itself(broker):
    client = broker.client()
    client.subscribe("/queue/individual", ack="client-individual", prefetch_count=2)
    for number in range(3):
        client.send("/queue/individual", str(number))
    first, second = client.message(), client.message()
    assert client.messages.empty()
    client.ack(second.headers["ack"])
    assert client.message().body == "2"
    client.nack(first.headers["ack"])
    again = client.message()
    assert (again.body, again.headers["redelivered"]) == ("0", "true")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_older_versions_acknowledge_by_message_id(broker, version):
    client, name = broker.client(version), f"old-acks-{version}"
    client.subscribe(f"/queue/{name}", ack="client")
    client.send(f"/queue/{name}", "x")
    headers = client.message().headers
    if version == "1.0":
        client.ack(headers["message-id"], receipt="acked")
    else:
        client.ack(headers["message-id"], "1", receipt="acked")
    assert client.receipt() == "acked"
    until("the queue is empty", lambda: broker.rows("list_queues", "name", "messages").count([name, "0"]))


def test_nack_without_requeue_goes_to_the_dead_letters(broker):
    client = broker.client()
    client.subscribe("/exchange/amq.direct/dead", id="dead")
    client.subscribe("/queue/dying", ack="client", x_dead_letter_exchange="amq.direct", x_dead_letter_routing_key="dead")
    client.send("/queue/dying", "x")
    client.nack(client.message().headers["ack"], requeue="false")
    letter = client.message()
    assert (letter.headers["subscription"], letter.body) == ("dead", "x")


def test_a_persistent_message_with_a_receipt_survives_a_crash(configured):
    broker = configured()
    client = broker.client()
    for number in range(20):
        client.send("/queue/kept", str(number), headers={"persistent": "true", "receipt": str(number)})
    assert {client.receipt() for _ in range(20)} == {str(number) for number in range(20)}
    client = broker.restart().client()
    client.subscribe("/queue/kept")
    assert [client.message().body for _ in range(20)] == [str(number) for number in range(20)]


def test_transactions(broker):
    client = broker.client()
    client.subscribe("/queue/transacted", ack="client-individual")
    transaction = client.begin()
    client.send("/queue/transacted", "in", headers={"transaction": transaction})
    client.send("/queue/transacted", "out", headers={"receipt": "sent"})
    assert client.receipt() == "sent" and client.message().body == "out"
    client.commit(transaction, receipt="committed")
    assert client.receipt() == "committed"
    assert client.message().body == "in"
    transaction = client.begin()
    client.send("/queue/transacted", "never", headers={"transaction": transaction})
    client.abort(transaction)
    client.send("/queue/transacted", "last")
    assert client.message().body == "last"


def test_a_durable_subscription_gets_what_came_meanwhile(broker):
    options = {"id": "mine", "durable": "true", "auto_delete": "false"}
    client = broker.client()
    client.subscribe("/topic/news", **options)
    client.close()
    other = broker.client()
    other.send("/topic/news", "missed", receipt="sent")
    assert other.receipt() == "sent"
    client = broker.client()
    client.subscribe("/topic/news", **options)
    assert client.message().body == "missed"
    client.unsubscribe("mine", durable="true", receipt="gone")
    assert client.receipt() == "gone"
    assert not [it for it in broker.api("queues") if it["name"].startswith("stomp-subscription-")]


def test_a_stream_is_read_from_an_offset(broker):
    client = broker.client()
    client.send("/queue/stream", "0", headers={"x-queue-type": "stream"})
    client.send("/queue/stream", "1")
    client.send("/queue/stream", "2", receipt="sent")
    assert client.receipt() == "sent"
    client.subscribe("/amq/queue/stream", ack="client", prefetch_count=10, x_stream_offset="offset=1")
    assert [client.message().body for _ in range(2)] == ["1", "2"]


def test_large_messages_and_many(broker):
    client = broker.client()
    client.subscribe("/queue/large")
    client.send("/queue/large", "x" * 3_000_000)
    assert len(client.message().body) == 3_000_000
    for number in range(5_000):
        client.send("/queue/large", str(number))
    assert [client.message().body for _ in range(5_000)] == [str(number) for number in range(5_000)]


def test_heart_beats_keep_a_connection(broker):
    client = broker.client(heartbeats=(1000, 1000))
    client.subscribe("/queue/beats")
    time.sleep(3.5)
    client.send("/queue/beats", "still here")
    assert client.message().body == "still here"


def test_a_deleted_queue_is_told(broker):
    client = broker.client()
    client.subscribe("/queue/deleted", id="d")
    broker.channel().queue_delete("deleted")
    assert client.error().headers["message"] == "Server cancelled subscription"
    client.subscribe("/queue/deleted", id="d")


def test_listings_show_the_connection(broker):
    client = broker.client()
    client.subscribe("/queue/shown", ack="client")
    client.send("/queue/shown", "x")
    client.message()
    wanted = [["{'STOMP', 1.2}", "guest", "/"]]
    until("others are gone", lambda: broker.rows("list_stomp_connections", "protocol", "user", "vhost") == wanted)
    assert broker.rows("list_stomp_connections")[0][0].startswith("session-")
    assert ["{'STOMP', \"1.2\"}"] in broker.rows("list_connections", "protocol")
    [connection] = [it for it in broker.api("connections") if "STOMP" in it["protocol"]]
    assert connection["protocol"] == "STOMP 1.2"
    [channel] = [it for it in broker.api("channels") if it["name"].startswith(connection["name"])]
    assert (channel["number"], channel["consumer_count"], channel["messages_unacknowledged"]) == (1, 1, 1)
    listeners = {it["protocol"]: it["port"] for it in broker.api("overview")["listeners"]}
    assert listeners["stomp"] == broker.port
    broker.ctl("close_all_connections", "--vhost", "/", "enough")
    assert client.error().headers["message"] == "connection_forced"
