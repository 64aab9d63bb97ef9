"""B176: events on the exchange amq.rabbitmq.event. RabbitMQ needs its plugin rabbitmq_event_exchange; skipped without."""

import contextlib
import time

import pytest

import client
from client import fresh

EXCHANGE = "amq.rabbitmq.event"

# Names and types of the headers of each event, as RabbitMQ 4.3 sends them. All have timestamp_in_ms.
ACTOR = {"user_who_performed_action": "S"}
BINDING = dict.fromkeys(
    ["destination_kind", "destination_name", "routing_key", "source_kind", "source_name", "vhost"], "S"
) | {"arguments": "A", **ACTOR}
ENDS = {"host": "S", "peer_host": "S", "peer_port": "l", "protocol": "S", "ssl": "t"}
LOGIN = ENDS | dict.fromkeys(["auth_mechanism", "connection_name", "connection_type", "name"], "S")
TLS = dict.fromkeys(
    ["peer_cert_issuer", "peer_cert_serial_number", "peer_cert_subject", "peer_cert_validity", "ssl_cipher", "ssl_hash",
     "ssl_key_exchange", "ssl_protocol"], "S",
)  # fmt: skip
VHOST = ACTOR | {
    "cluster_state": "F", "default_queue_type": "S", "description": "S", "metadata": "S", "name": "S",
    "protected_from_deletion": "t", "tags": "A", "tracing": "t",
}  # fmt: skip
NAMED = {"name": "S", **ACTOR}
IN_VHOST = {"vhost": "S", **NAMED}
GRANT = {"user": "S", "vhost": "S", **ACTOR}
CONSUMER = {"channel": "S", "consumer_tag": "S", "queue": "S", "vhost": "S", **ACTOR}
KINDS = {
    "alarm.cleared": {"node": "S", "source": "S"},
    "alarm.set": {"node": "S", "source": "S"},
    "binding.created": BINDING,
    "binding.deleted": BINDING,
    "channel.closed": {"consumer_count": "l", "pid": "S", **ACTOR},
    "channel.created": {"connection": "S", "name": "S", "number": "l", "pid": "S", "user": "S", "vhost": "S", **ACTOR},
    "connection.closed": {"client_properties": "A", "name": "S", "node": "S", "pid": "S"},
    "connection.created": ENDS | TLS | ACTOR | {
        "auth_mechanism": "S", "channel_max": "l", "client_properties": "A", "connected_at": "l", "frame_max": "l",
        "name": "S", "node": "S", "pid": "S", "port": "l", "timeout": "l", "type": "S", "user": "S", "vhost": "S",
    },
    "consumer.created": CONSUMER | {"ack_required": "t", "arguments": "A", "exclusive": "t", "prefetch_count": "l"},
    "consumer.deleted": CONSUMER,
    "exchange.created": IN_VHOST | {
        "arguments": "A", "auto_delete": "t", "durable": "t", "internal": "t", "policy": "S", "type": "S",
    },
    "exchange.deleted": IN_VHOST,
    "parameter.cleared": {"component": "S", **IN_VHOST},
    "parameter.set": {"component": "S", "value": "F", **IN_VHOST},
    "permission.created": GRANT | {"configure": "S", "read": "S", "write": "S"},
    "permission.deleted": GRANT,
    "queue.created": IN_VHOST | {
        "arguments": "A", "auto_delete": "t", "durable": "t", "exclusive": "t", "leader": "S", "members": "A",
        "owner_pid": "S", "type": "S",
    },
    "queue.deleted": {"type": "S", **IN_VHOST},
    "topic.permission.created": GRANT | {"exchange": "S", "read": "S", "write": "S"},
    "topic.permission.deleted": GRANT,
    "user.authentication.failure": LOGIN | {"error": "A"},
    "user.authentication.success": LOGIN,
    "user.created": NAMED,
    "user.deleted": NAMED,
    "user.limits.cleared": {"username": "S", **NAMED},
    "user.limits.set": {"username": "S", "max-channels": "l", **NAMED},
    "user.password.changed": NAMED,
    "user.password.cleared": NAMED,
    "user.tags.set": {"tags": "A", **NAMED},
    "vhost.created": VHOST,
    "vhost.deleted": NAMED,
    "vhost.down": {"node": "S", **NAMED},
    "vhost.limits.cleared": IN_VHOST,
    "vhost.limits.set": {"max-queues": "l", **IN_VHOST},
    "vhost.updated": {"deletion_protection": "t", **VHOST},
}  # fmt: skip


class Listener:
    """A consumer of all events of the broker."""

    def __init__(self, broker):
        self.broker, self.channel = broker, broker.connect(vhost="/").channel()
        try:
            self.channel.call("exchange.declare", exchange=EXCHANGE, type="topic", passive=True)
        except client.ChannelClosed:
            pytest.skip("needs the event exchange")
        self.queue = self.channel.queue(exclusive=True)
        self.channel.bind(self.queue, EXCHANGE, "#")
        self.channel.consume(self.queue, no_ack=True)

    def hears(self, key, timeout=client.DEADLINE_S, **expected):
        """The next event of that key with these values; all others are passed over. Its shape is checked."""
        until = time.monotonic() + timeout
        while True:
            try:
                event = self.channel.deliver(timeout=max(0.01, until - time.monotonic()))
            except client.Silence:
                raise AssertionError(f"no {key} with {expected}") from None
            said = event.props["headers"]
            if event.routing_key == key and all(said.get(name) == value for name, value in expected.items()):
                break
        assert event.exchange == EXCHANGE and event.body == b""
        assert set(event.props) == {"headers", "typed_headers", "delivery_mode", "timestamp"}
        assert event.props["delivery_mode"] == 2
        assert event.props["timestamp"] == said["timestamp_in_ms"] // 1000
        kinds = {name: value.kind for name, value in event.props["typed_headers"]}
        assert list(kinds) == sorted(kinds)
        assert kinds == {"timestamp_in_ms": "l", **KINDS[key]}
        return said


@pytest.fixture
def listener(broker):
    return Listener(broker)


def own_name(connection):
    host, port = connection.io.sock.getsockname()
    return f"{host}:{port} -> {host}:{connection.port}"


def test_b176_the_event_exchange_is_a_durable_internal_topic(listener):
    ch = listener.broker.connect(vhost="/").channel()
    ch.call("exchange.declare", exchange=EXCHANGE, type="topic", durable=True, internal=True)
    with ch.closes(403, f"ACCESS_REFUSED - cannot publish to internal exchange '{EXCHANGE}' in vhost '/'", "basic.publish"):
        ch.publish(EXCHANGE, "made.up")


def test_b176_the_binding_that_listens_is_the_first_event(listener):
    said = listener.hears("binding.created", destination_name=listener.queue)
    assert (said["source_name"], said["routing_key"], said["arguments"]) == (EXCHANGE, "#", [])
    assert (said["destination_kind"], said["source_kind"], said["vhost"]) == ("queue", "exchange", "/")
    listener.hears("consumer.created", queue=listener.queue)


def test_b176_connections_and_channels(listener):
    other = listener.broker.connect(vhost="/")
    name = own_name(other)
    said = listener.hears("user.authentication.success", connection_name=name)
    assert (said["name"], said["auth_mechanism"], said["connection_type"]) == ("guest", "PLAIN", "network")
    assert (said["host"], said["peer_host"], said["protocol"]) == ("{127,0,0,1}", "{127,0,0,1}", "{0,9,1}")
    opened = listener.hears("connection.created", name=name)
    assert (opened["user"], opened["vhost"], opened["type"], opened["port"]) == ("guest", "/", "network", other.port)
    assert opened["frame_max"] == other.frame_max
    assert opened["client_properties"][0] == '{<<"product">>,longstr,<<"conformance">>}'
    assert '{<<"basic.nack">>,bool,true}' in opened["client_properties"][1]
    channel = other.channel()
    created = listener.hears("channel.created", name=f"{name} (1)")
    assert (created["number"], created["connection"]) == (1, opened["pid"])
    channel.shut()
    assert listener.hears("channel.closed", pid=created["pid"])["consumer_count"] == 0
    other.close()
    assert listener.hears("connection.closed", name=name)["pid"] == opened["pid"]


def test_b176_a_login_that_is_refused(listener):
    user = fresh("nobody")
    with contextlib.suppress(client.Closed, client.SocketClosed):
        listener.broker.connect(user=user, password="wrong")
    said = listener.hears("user.authentication.failure", name=user)
    assert "".join(map(chr, said["error"])).startswith(f"user '{user}' - invalid credentials")


def test_b176_exchanges_queues_bindings_and_consumers(listener):
    ch = listener.broker.connect(vhost="/").channel()
    exchange, queue = fresh("x"), fresh("q")
    ch.exchange("topic", exchange, auto_delete=True, arguments={"foo": "bar"})
    said = listener.hears("exchange.created", name=exchange)
    assert said["arguments"] == ['{<<"foo">>,longstr,<<"bar">>}']
    assert (said["auto_delete"], said["durable"], said["internal"], said["type"]) == (True, False, False, "topic")
    ch.declare(queue, durable=True, exclusive=False, arguments={"x-max-length": 10})
    said = listener.hears("queue.created", name=queue)
    assert said["arguments"] == ['{<<"x-max-length">>,signedint,10}', '{<<"x-queue-type">>,longstr,<<"classic">>}']
    assert (said["type"], said["exclusive"], said["owner_pid"]) == ("rabbit_classic_queue", False, "")
    assert said["members"] == [said["leader"]] and said["user_who_performed_action"] == "guest"
    ch.bind(queue, exchange, "a.*", {"z": 1})
    said = listener.hears("binding.created", destination_name=queue)
    assert (said["routing_key"], said["source_name"]) == ("a.*", exchange)
    assert said["arguments"] == ['{<<"z">>,signedint,1}']
    ch.consume(queue, "tag", arguments={"x-priority": 3})
    said = listener.hears("consumer.created", queue=queue)
    assert (said["consumer_tag"], said["ack_required"], said["prefetch_count"]) == ("tag", True, 0)
    assert said["arguments"] == ['{<<"x-priority">>,signedint,3}']
    ch.call("basic.cancel", consumer_tag="tag")
    assert listener.hears("consumer.deleted", queue=queue)["channel"] == said["channel"]
    ch.bind(queue, "amq.direct", "k")
    ch.call("queue.unbind", queue=queue, exchange="amq.direct", routing_key="k")
    assert listener.hears("binding.deleted", destination_name=queue)["source_name"] == "amq.direct"
    ch.call("queue.unbind", queue=queue, exchange=exchange, routing_key="a.*", arguments={"z": 1})
    listener.hears("exchange.deleted", name=exchange)
    ch.call("queue.delete", queue=queue)
    assert listener.hears("queue.deleted", name=queue)["user_who_performed_action"] == "guest"


def test_b176_an_exclusive_queue_goes_with_its_connection(listener):
    other = listener.broker.connect(vhost="/")
    queue = other.channel().queue(exclusive=True)
    said = listener.hears("queue.created", name=queue)
    assert (said["exclusive"], said["durable"]) == (True, False) and said["owner_pid"].startswith("<")
    other.close()
    assert listener.hears("queue.deleted", name=queue)["user_who_performed_action"] == "rmq-internal"


def test_b176_users_and_vhosts(listener):
    ctl, user, vhost = listener.broker.ctl, fresh("u"), fresh("v")
    ctl("add_user", user, "secret")
    assert listener.hears("user.created", name=user)["user_who_performed_action"] == "rmq-cli"
    try:
        ctl("change_password", user, "other")
        listener.hears("user.password.changed", name=user)
        ctl("clear_password", user)
        listener.hears("user.password.cleared", name=user)
        ctl("set_user_tags", user, "management", "monitoring")
        assert listener.hears("user.tags.set", name=user)["tags"] == ["management", "monitoring"]
        ctl("set_user_limits", user, '{"max-channels":5}')
        assert listener.hears("user.limits.set", username=user)["max-channels"] == 5
        ctl("clear_user_limits", user, "max-channels")
        listener.hears("user.limits.cleared", username=user)
        ctl("add_vhost", vhost, "--description", "D", "--tags", "a,b")
        assert listener.hears("exchange.created", vhost=vhost, name="amq.topic")["durable"]
        said = listener.hears("vhost.created", name=vhost)
        assert (said["description"], said["tags"], said["tracing"]) == ("D", ["a", "b"], False)
        assert said["metadata"] == '#{description => <<"D">>,tags => [a,b],default_queue_type => <<"classic">>}'
        permissions(listener, user, vhost)
    finally:
        ctl("delete_vhost", vhost, check=False)
        ctl("delete_user", user, check=False)
    listener.hears("vhost.deleted", name=vhost)
    listener.hears("vhost.down", name=vhost)
    listener.hears("user.deleted", name=user)


def permissions(listener, user, vhost):
    ctl = listener.broker.ctl
    ctl("set_permissions", "-p", vhost, user, "a", "b", "c")
    said = listener.hears("permission.created", user=user)
    assert (said["configure"], said["write"], said["read"], said["vhost"]) == ("a", "b", "c", vhost)
    ctl("set_topic_permissions", "-p", vhost, user, "amq.topic", "w", "r")
    said = listener.hears("topic.permission.created", user=user)
    assert (said["exchange"], said["write"], said["read"]) == ("amq.topic", "w", "r")
    ctl("clear_topic_permissions", "-p", vhost, user)
    listener.hears("topic.permission.deleted", user=user)
    ctl("clear_permissions", "-p", vhost, user)
    listener.hears("permission.deleted", user=user)
    ctl("set_vhost_limits", "-p", vhost, '{"max-queues":5}')
    assert listener.hears("parameter.set", vhost=vhost)["value"] == {"max-queues": 5}
    assert listener.hears("vhost.limits.set", vhost=vhost)["max-queues"] == 5
    ctl("clear_vhost_limits", "-p", vhost)
    assert listener.hears("parameter.cleared", vhost=vhost)["component"] == "vhost-limits"
    listener.hears("vhost.limits.cleared", vhost=vhost)
    ctl("update_vhost_metadata", vhost, "--description", "new")
    assert listener.hears("vhost.updated", name=vhost)["description"] == "new"


@pytest.mark.alone
def test_b176_alarms(listener):
    listener.broker.ctl("set_disk_free_limit", "9999GB")
    try:
        listener.hears("alarm.set", source="disk")
    finally:
        listener.broker.ctl("set_disk_free_limit", "50MB")
    listener.hears("alarm.cleared", timeout=20, source="disk")
