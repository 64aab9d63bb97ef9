"""B16, B25, B38, B58, B69, B77, B98, B136: what a configured server refuses, in the words of RabbitMQ 4.3.6."""

import re
import socket

import pytest

import client
import wire


def queue(channel, name, **args):
    return channel.queue(name, durable=True, **args)


def test_b058_cluster_exchange_limit_is_406(server):
    channel = server("cluster_exchange_limit = 8").connect().channel()
    channel.exchange("direct", "one")
    text = "PRECONDITION_FAILED - cannot declare exchange 'two' in vhost '/': exchange limit of 8 is reached"
    channel.exchange("direct", "one")
    with channel.closes(406, text, "exchange.declare"):
        channel.exchange("direct", "two")


def test_b077_cluster_queue_limit_is_406(server):
    channel = server("cluster_queue_limit = 1").connect().channel()
    queue(channel, "one")
    queue(channel, "one")
    text = "PRECONDITION_FAILED - cannot declare queue 'two': queue limit in cluster (1) is reached"
    with channel.closes(406, text, "queue.declare"):
        queue(channel, "two")


def test_vhost_max_refuses_one_more(server):
    server = server("vhost_max = 2")
    server.do("add_vhost", "second")
    code, _, error = server.ctl("add_vhost", "third")
    assert (code, error.strip()) == (64, "Error:\ncannot create vhost 'third': vhost limit of 2 is reached")
    server.do("add_vhost", "second")


@pytest.mark.parametrize("key", ["max_connections", "connection_max"])
def test_b025_node_connection_limit_is_530(server, key):
    server = server(f"{key} = 1")
    first = server.connect()
    second = server.connect(start=False)
    with second.closes(530, "NOT_ALLOWED - connection refused: node connection limit (1) is reached", "connection.open"):
        second.handshake()
    first.close()
    client.eventually(lambda: not server.listed("list_connections", "pid"))
    server.connect()


def test_b038_node_channel_limit_is_530(server):
    server = server("channel_max_per_node = 2")
    first, second = server.connect(), server.connect()
    first.channel()
    channel = second.channel()
    text = r"NOT_ALLOWED - number of channels opened on node '.+@.+' has reached the maximum allowed limit of 2"
    with first.closes(530, re.compile(text)):
        first.channel()
    second.channel().shut()
    channel.shut()
    second.channel()


@pytest.mark.parametrize("key", ["channel_max", "max_channels_per_connection"])
def test_b038_channels_of_a_connection(server, key):
    connection = server(f"{key} = 1").connect()
    assert connection.tune.channel_max == 1
    connection.channel()
    text = "NOT_ALLOWED - number of channels opened (1) has reached the negotiated channel_max (1)"
    with connection.closes(530, text):
        connection.channel()


def test_b136_consumers_of_a_channel(server):
    channel = server("consumer_max_per_channel = 1").connect().channel()
    queue(channel, "q")
    channel.consume("q")
    text = "NOT_ALLOWED - reached maximum (1) of consumers per channel"
    with channel.connection.closes(530, text, "basic.consume"):
        channel.consume("q")


def test_b098_configured_message_size(server):
    channel = server("max_message_size = 100").connect().channel()
    queue(channel, "q")
    channel.publish("", "q", b"x" * 100)
    text = "PRECONDITION_FAILED - message size 101 is larger than configured max size 100"
    with channel.closes(406, text, "basic.publish"):
        channel.publish("", "q", b"x" * 101)


def test_b069_transient_shared_queues_may_be_denied(server):
    channel = server("deprecated_features.permit.transient_nonexcl_queues = false").connect().channel()
    text = re.compile("INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.*", re.S)
    with channel.connection.closes(541, text, "queue.declare"):
        channel.queue("q", exclusive=False)


def test_limits_and_metadata_survive_a_kill(server):
    server = server()
    server.do("add_vhost", "v", "--description", "d", "--tags", "a,b")
    server.do("set_vhost_limits", "-p", "v", '{"max-queues": 0}')
    server.do("set_user_limits", "guest", '{"max-channels": 1}')
    server.do("set_global_parameter", "own", '{"a": [1, null]}')
    server.do("set_cluster_name", "shop")
    server.do("enable_vhost_deletion_protection", "v")
    server.do("set_permissions", "-p", "v", "guest", ".*", ".*", ".*")
    before = server.do("export_definitions", "-")
    server.restart()
    assert server.do("export_definitions", "-") == before
    connection = server.connect(vhost="v")
    assert wire.plain(connection.start.server_properties)["cluster_name"] == "shop"
    channel = connection.channel()
    text = "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost 'v' (0) is reached"
    with channel.closes(406, text, "queue.declare"):
        channel.queue("q", durable=True)
    text = "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of 1"
    connection = server.connect()
    connection.channel()
    with connection.closes(530, text):
        connection.channel()
    assert server.ctl("delete_vhost", "v")[0] == 65
    server.do("disable_vhost_deletion_protection", "v")
    server.do("delete_vhost", "v")


# ------------------------------------------------------------------------------------------ who comes from where


def own_address():
    """An address of this machine that is no loopback address; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = probe.getsockname()[0]
    return None if address.startswith("127.") else address


@pytest.fixture
def outside():
    return own_address() or pytest.skip("this machine has loopback addresses only")


EVERYWHERE = "listeners.tcp.1 = 0.0.0.0:0\n"
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
)


def test_b016_guest_from_outside_is_refused(server, outside):
    server = server(EVERYWHERE)
    server.connect()
    connection = server.connect(host=outside, start=False)
    with connection.closes(403, REFUSED):
        connection.handshake()
    server.do("add_user", "u", "pw")
    server.do("set_permissions", "u", ".*", ".*", ".*")
    server.connect(host=outside, user="u", password="pw")


@pytest.mark.parametrize("line", ["loopback_users = none", "loopback_users.guest = false"])
def test_b016_guest_from_outside_may_be_allowed(server, outside, line):
    server(EVERYWHERE + line).connect(host=outside).channel()


def test_b016_other_users_may_be_kept_inside(server, outside):
    server = server(EVERYWHERE + "loopback_users.u = true")
    server.do("add_user", "u", "pw")
    server.do("set_permissions", "u", ".*", ".*", ".*")
    server.connect(host=outside)
    connection = server.connect(host=outside, user="u", password="pw", start=False)
    with connection.closes(403, REFUSED):
        connection.handshake()


# ------------------------------------------------------------------------------------------ default queue types


def test_b064_the_default_type_of_a_vhost_stands_in_the_arguments(server):
    server = server()
    channel = server.connect().channel()
    channel.queue("q", durable=True, arguments={"zz": "a", "aa": "b"})
    channel.queue("empty", durable=True, arguments={"x-queue-type": "", "b": 1})
    lines = {line["name"]: line["arguments"] for line in server.listed("list_queues", "name", "arguments")}
    assert "classic" in str(lines["q"]) and "classic" not in str(lines["empty"])
    channel.queue("q", durable=True, arguments={"zz": "a", "aa": "b"})


def test_b064_every_type_can_be_the_default(server):
    server = server()
    server.do("add_vhost", "v", "--default-queue-type", "stream")
    server.do("update_vhost_metadata", "v", "--default-queue-type", "quorum")
    server.do("update_vhost_metadata", "v", "--default-queue-type", "classic")


# ------------------------------------------------------------------------------------------ what is there at the start


def test_b017_the_first_user_and_vhost_are_those_configured(server):
    lines = """
        default_vhost = first
        default_user = shop
        default_pass = secret
        default_user_tags.monitoring = true
        default_permissions.configure = ^a
        cluster_name = shop-cluster
        heartbeat = 7
    """
    server = server("\n".join(line.strip() for line in lines.splitlines()))
    connection = server.connect(user="shop", password="secret", vhost="first")
    assert wire.plain(connection.start.server_properties)["cluster_name"] == "shop-cluster"
    assert connection.tune.heartbeat == 7
    assert server.listed("list_users") == [{"user": "shop", "tags": ["monitoring"]}]
    channel = connection.channel()
    channel.queue("a", durable=True)
    text = "ACCESS_REFUSED - configure access to queue 'b' in vhost 'first' refused for user 'shop'"
    with channel.closes(403, text, "queue.declare"):
        channel.queue("b", durable=True)


def test_b025_the_node_is_looked_at_before_the_vhost_before_the_user(server):
    server = server("max_connections = 1")
    server.do("set_vhost_limits", '{"max-connections": 0}')
    server.do("set_user_limits", "guest", '{"max-connections": 0}')

    def refused(text, vhost="/"):
        connection = server.connect(start=False)
        with connection.closes(530, "NOT_ALLOWED - " + text, "connection.open"):
            connection.handshake_to_open(vhost)

    refused("vhost nowhere not found", "nowhere")
    refused("access to vhost '/' refused for user 'guest': connection limit (0) is reached")
    server.do("clear_vhost_limits")
    refused("connection refused for user 'guest': user connection limit (0) is reached")
    server.do("clear_user_limits", "guest", "all")
    server.connect()
    refused("connection refused: node connection limit (1) is reached", "nowhere")


def test_f092_a_quorum_queue_may_be_declared_again_as_a_classic_one(server):
    server = server("quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = true")
    connection = server.connect()
    connection.channel().queue("orders", durable=True, arguments={"x-queue-type": "quorum", "x-max-length": 10})
    length = {"x-max-length": 10}
    for args in (length, {**length, "x-queue-type": "classic"}, {**length, "x-max-priority": 3}):
        for properties in ({}, {"durable": True}, {"durable": True, "auto_delete": True}, {"exclusive": True}):
            connection.channel().queue("orders", arguments=args, **properties)
    assert server.listed("list_queues", "name", "type", "durable") == [{"name": "orders", "type": "quorum", "durable": True}]
    refused = [
        ({**length, "x-queue-type": "stream"}, {}, "inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received 'stream' but current is 'quorum'"),
        ({"x-max-length": 11}, {}, "inequivalent arg 'x-max-length' for queue 'orders' in vhost '/': received '11' but current is '10'"),
        ({**length, "x-queue-type": "quorum"}, {"auto_delete": True},
         "inequivalent arg 'auto_delete' for queue 'orders' in vhost '/': received 'true' but current is 'false'"),
    ]
    for args, properties, text in refused:
        channel = connection.channel()
        with channel.closes(406, f"PRECONDITION_FAILED - {text}", "queue.declare"):
            channel.queue("orders", durable=True, arguments=args, **properties)
