"""B46-B58: predeclared exchanges, declaring, redeclaring, deleting, life cycles, alternate-exchange arguments."""

import re

import pytest

import client

DEFAULT_REFUSED = "ACCESS_REFUSED - operation not permitted on the default exchange"


def declare(ch, name, kind="direct", **args):
    ch.call("exchange.declare", exchange=name, type=kind, **args)


def exists(ch, name):
    """Whether an exchange is there, by passive declare on a channel of its own."""
    channel = ch.connection.channel()
    try:
        channel.call("exchange.declare", exchange=name, passive=True)
    except client.ChannelClosed as closed:
        assert closed.code == 404
        return False
    channel.shut()
    return True


# ------------------------------------------------------------------------------------------ predeclared


@pytest.mark.parametrize(
    "name, kind",
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_b046_predeclared_exchanges_are_durable_and_can_be_redeclared(ch, name, kind):
    declare(ch, name, kind, durable=True)


def test_b046_trace_exchange_is_an_internal_durable_topic(ch):
    declare(ch, "amq.rabbitmq.trace", "topic", durable=True, internal=True)


def test_b046_default_exchange_can_be_declared_passively(ch):
    with ch.closes(403, DEFAULT_REFUSED, "exchange.declare"):
        declare(ch, "", passive=True)


# ------------------------------------------------------------------------------------------ redeclare


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_b047_equal_redeclare_succeeds(ch, kind):
    name = ch.exchange(kind, durable=True)
    declare(ch, name, kind, durable=True)


@pytest.mark.parametrize(
    "change, arg, received, current",
    [
        ({"kind": "fanout"}, "type", "fanout", "direct"),
        ({"durable": True}, "durable", "true", "false"),
        ({"auto_delete": True}, "auto_delete", "true", "false"),
        ({"internal": True}, "internal", "true", "false"),
    ],
    ids=["type", "durable", "auto_delete", "internal"],
)
def test_b047_unequal_redeclare_is_406_with_both_values(ch, change, arg, received, current):
    name = ch.exchange()
    text = (
        f"PRECONDITION_FAILED - inequivalent arg '{arg}' for exchange '{name}' in vhost '/': "
        f"received '{received}' but current is '{current}'"
    )
    with ch.closes(406, text, "exchange.declare"):
        declare(ch, name, **change)


def test_b047_type_is_compared_before_durable_before_auto_delete(ch, conn):
    name = ch.exchange()
    with pytest.raises(client.ChannelClosed) as closed:
        declare(ch, name, "fanout", durable=True, auto_delete=True, internal=True)
    assert "inequivalent arg 'type'" in closed.value.text
    ch = conn.channel()
    with pytest.raises(client.ChannelClosed) as closed:
        declare(ch, name, durable=True, auto_delete=True, internal=True)
    assert "inequivalent arg 'durable'" in closed.value.text
    ch = conn.channel()
    with pytest.raises(client.ChannelClosed) as closed:
        declare(ch, name, auto_delete=True, internal=True)
    assert "inequivalent arg 'auto_delete'" in closed.value.text


def test_b047_an_exchange_that_exists_is_compared_before_arguments_are_checked(ch):
    name = ch.exchange()
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/': "
        "received the value '5' of type 'signedint' but current is none"
    )
    with ch.closes(406, text, "exchange.declare"):
        declare(ch, name, arguments={"alternate-exchange": 5})


def test_b047_alternate_exchange_is_the_only_argument_compared(ch):
    name = ch.exchange(arguments={"alternate-exchange": "amq.fanout", "x-other": 1})
    declare(ch, name, arguments={"alternate-exchange": "amq.fanout"})
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/': "
        "received none but current is the value 'amq.fanout' of type 'longstr'"
    )
    with ch.closes(406, text, "exchange.declare"):
        declare(ch, name)


def test_b047_another_alternate_exchange_is_406(ch):
    name = ch.exchange(arguments={"alternate-exchange": "amq.fanout"})
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/': "
        "received 'amq.topic' but current is 'amq.fanout'"
    )
    with ch.closes(406, text, "exchange.declare"):
        declare(ch, name, arguments={"alternate-exchange": "amq.topic"})


def test_b048_unknown_type(broker, conn, ch):
    if broker.flavor == "rabbitmq3":
        with conn.closes(503, "COMMAND_INVALID - unknown exchange type 'x-foo'", "exchange.declare"):
            declare(ch, client.fresh("x"), "x-foo")
    else:
        with ch.closes(406, "PRECONDITION_FAILED - unknown exchange type 'x-foo'", "exchange.declare"):
            declare(ch, client.fresh("x"), "x-foo")


def test_b048_a_word_that_is_no_type(broker, conn, ch):
    text = "invalid exchange type 'queue'"
    if broker.flavor == "rabbitmq3":
        with conn.closes(503, f"COMMAND_INVALID - {text}", "exchange.declare"):
            declare(ch, client.fresh("x"), "queue")
    else:
        expected = re.compile("PRECONDITION_FAILED - (invalid|unknown) exchange type 'queue'")
        with ch.closes(406, expected, "exchange.declare"):
            declare(ch, client.fresh("x"), "queue")


def test_b048_an_empty_type(broker, conn, ch):
    if broker.flavor == "rabbitmq3":
        with conn.closes(503, "COMMAND_INVALID - invalid exchange type ''", "exchange.declare"):
            declare(ch, client.fresh("x"), "")
    else:
        with ch.closes(406, "PRECONDITION_FAILED - invalid exchange type ''", "exchange.declare"):
            declare(ch, client.fresh("x"), "")


def test_b048_type_of_an_existing_exchange_is_still_checked(broker, conn, ch):
    name = ch.exchange()
    with pytest.raises(client.Closed) as closed:
        declare(ch, name, "x-foo")
    assert closed.value.code == broker.pick(406, rabbitmq3=503)
    assert "unknown exchange type 'x-foo'" in closed.value.text


# ------------------------------------------------------------------------------------------ names


def test_b049_reserved_prefix_is_refused_on_creation(ch):
    text = "ACCESS_REFUSED - exchange name 'amq.conf' contains reserved prefix 'amq.*'"
    with ch.closes(403, text, "exchange.declare"):
        declare(ch, "amq.conf")


def test_b049_reserved_prefix_is_not_checked_on_redeclare_or_passive(ch):
    declare(ch, "amq.direct", durable=True)
    declare(ch, "amq.direct", passive=True)
    with ch.closes(404, "NOT_FOUND - no exchange 'amq.conf' in vhost '/'", "exchange.declare"):
        declare(ch, "amq.conf", passive=True)


def test_b050_line_ends_are_stripped_from_exchange_names(ch):
    name = ch.exchange()
    declare(ch, name[:5] + "\r\n" + name[5:] + "\n", passive=True)


def test_b081_255_byte_names_are_fine(ch):
    name = client.fresh("x").ljust(255, "n")
    ch.exchange(name=name)
    assert exists(ch, name)


def test_b081_names_may_be_any_utf8(ch):
    name = client.fresh("x") + " äöü/漢字 %$'\""
    ch.exchange(name=name)
    assert exists(ch, name)


# ------------------------------------------------------------------------------------------ default exchange


def test_b051_declaring_the_default_exchange_is_403(ch):
    with ch.closes(403, DEFAULT_REFUSED, "exchange.declare"):
        declare(ch, "", durable=True)


def test_b051_deleting_the_default_exchange_is_403(ch):
    with ch.closes(403, DEFAULT_REFUSED, "exchange.delete"):
        ch.call("exchange.delete", exchange="")


def test_b051_binding_a_queue_to_the_default_exchange_is_403(ch):
    queue = ch.queue()
    with ch.closes(403, DEFAULT_REFUSED, "queue.bind"):
        ch.bind(queue, "", "k")


def test_b051_unbinding_from_the_default_exchange_is_403(ch):
    queue = ch.queue()
    with ch.closes(403, DEFAULT_REFUSED, "queue.unbind"):
        ch.call("queue.unbind", queue=queue, exchange="", routing_key=queue)


@pytest.mark.parametrize("ends", [{"source": ""}, {"destination": ""}], ids=["source", "destination"])
def test_b051_exchange_bindings_with_the_default_exchange_are_403(ch, ends):
    args = {"source": "amq.fanout", "destination": "amq.direct"} | ends
    with ch.closes(403, DEFAULT_REFUSED, "exchange.bind"):
        ch.call("exchange.bind", routing_key="k", **args)


# ------------------------------------------------------------------------------------------ delete


def test_b052_deleting_a_system_exchange_is_403(ch):
    text = "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    with ch.closes(403, text, "exchange.delete"):
        ch.call("exchange.delete", exchange="amq.direct")


def test_b053_deleting_a_missing_exchange_succeeds(ch):
    ch.call("exchange.delete", exchange=client.fresh("x"))


def test_b053_delete_if_unused_of_a_bound_source_is_406(ch):
    name = ch.exchange()
    ch.bind(ch.queue(), name, "k")
    text = f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"
    with ch.closes(406, text, "exchange.delete"):
        ch.call("exchange.delete", exchange=name, if_unused=True)


def test_b053_being_only_a_destination_is_not_use(ch):
    name = ch.exchange("fanout")
    ch.call("exchange.bind", destination=name, source="amq.fanout", routing_key=name)
    ch.call("exchange.delete", exchange=name, if_unused=True)
    assert not exists(ch, name)


def test_b053_delete_without_if_unused_removes_the_bindings(ch):
    name = ch.exchange()
    queue = ch.queue()
    ch.bind(queue, name, "k")
    ch.call("exchange.delete", exchange=name)
    ch.exchange(name=name)
    ch.call("confirm.select")
    ch.publish(name, "k", mandatory=True)
    assert ch.next("basic.return").reply_code == 312


def test_b053_nowait_delete_and_declare_answer_nothing(ch):
    name = client.fresh("x")
    ch.send("exchange.declare", exchange=name, type="direct", nowait=True)
    declare(ch, name, passive=True)
    ch.send("exchange.delete", exchange=name, nowait=True)
    with ch.closes(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", "exchange.declare"):
        declare(ch, name, passive=True)


# ------------------------------------------------------------------------------------------ auto-delete


def test_b054_auto_delete_exchange_goes_with_its_last_binding(ch):
    name = ch.exchange("fanout", auto_delete=True)
    first, second = ch.queue(), ch.queue()
    ch.bind(first, name)
    ch.bind(second, name)
    ch.call("queue.unbind", queue=first, exchange=name)
    assert exists(ch, name)
    ch.call("queue.unbind", queue=second, exchange=name)
    assert not exists(ch, name)


def test_b054_auto_delete_exchange_goes_when_its_last_bound_queue_is_deleted(ch):
    name = ch.exchange("fanout", auto_delete=True)
    queue = ch.queue()
    ch.bind(queue, name)
    ch.call("queue.delete", queue=queue)
    client.eventually(lambda: not exists(ch, name))


def test_b054_never_bound_auto_delete_exchange_stays(ch):
    name = ch.exchange("fanout", auto_delete=True)
    ch.call("exchange.bind", destination=name, source="amq.fanout", routing_key=name)
    ch.call("exchange.unbind", destination=name, source="amq.fanout", routing_key=name)
    assert exists(ch, name)


def test_b054_auto_delete_goes_when_the_last_exchange_to_exchange_binding_goes(ch):
    name, sink = ch.exchange("fanout", auto_delete=True), ch.exchange("fanout")
    ch.call("exchange.bind", destination=sink, source=name)
    ch.call("exchange.unbind", destination=sink, source=name)
    assert not exists(ch, name)


def test_b054_auto_delete_cascades_along_exchange_bindings(ch):
    upper, lower = ch.exchange("fanout", auto_delete=True), ch.exchange("fanout", auto_delete=True)
    queue = ch.queue()
    ch.call("exchange.bind", destination=lower, source=upper)
    ch.bind(queue, lower)
    ch.call("queue.delete", queue=queue)
    client.eventually(lambda: not exists(ch, lower))
    client.eventually(lambda: not exists(ch, upper))


# ------------------------------------------------------------------------------------------ arguments, passive, internal


def test_b055_alternate_exchange_of_a_wrong_type_is_406(broker, ch):
    name = client.fresh("x")
    with pytest.raises(client.ChannelClosed) as closed:
        ch.exchange(name=name, arguments={"alternate-exchange": 5})
    text = "PRECONDITION_FAILED - invalid type '{}' for arg 'alternate-exchange' in exchange '" + name + "' in vhost '/'"
    client.same(closed.value, 406, text.format("signedint"), "exchange.declare")


def test_b055_alternate_exchange_need_not_exist(ch):
    ch.exchange(arguments={"alternate-exchange": client.fresh("missing")})


def test_b055_unknown_arguments_are_ignored(ch):
    ch.exchange(arguments={"x-nonsense": {"a": [1, 2, None]}, "x-expires": -5})


def test_b056_passive_declare_of_a_missing_exchange_is_404(ch):
    with ch.closes(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", "exchange.declare"):
        declare(ch, "nowhere", passive=True)


def test_b056_passive_declare_ignores_type_and_flags(ch):
    name = ch.exchange("topic", durable=True)
    declare(ch, name, "x-foo-is-no-type", passive=True, auto_delete=True, internal=True)


def test_b057_publishing_to_an_internal_exchange_is_403(ch):
    name = ch.exchange("fanout", internal=True)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    with ch.closes(403, text, "basic.publish"):
        ch.publish(name, "k")


def test_b057_internal_exchanges_route_what_other_exchanges_send(ch):
    internal, source = ch.exchange("fanout", internal=True), ch.exchange("fanout")
    queue = ch.queue()
    ch.bind(queue, internal)
    ch.call("exchange.bind", destination=internal, source=source)
    ch.publish(source, "k", b"through")
    assert client.eventually(lambda: ch.get(queue)).exchange == source


def test_declared_exchanges_outlive_their_connection(broker, ch):
    other = broker.connect()
    name = other.channel().exchange("fanout", auto_delete=True)
    other.close()
    assert exists(ch, name)
