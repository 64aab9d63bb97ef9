"""F229, B176: what a configured server says through exchanges of its own, and what it does not."""

import re

import pytest

import client

LOG, EVENT = "amq.rabbitmq.log", "amq.rabbitmq.event"


def listen(server, key):
    """A consumer of log lines."""
    channel = server.connect().channel()
    queue = channel.queue(exclusive=True)
    channel.bind(queue, LOG, key)
    channel.consume(queue, no_ack=True)
    return channel


def refused(server):
    with pytest.raises(client.Closed):
        server.connect(password="wrong")


def test_f229_log_lines_are_published_with_their_level_as_the_key(server):
    server = server("log.exchange = true")
    channel = listen(server, "warning")
    refused(server)
    line = channel.deliver()
    assert (line.exchange, line.routing_key) == (LOG, "warning")
    assert re.fullmatch(rb"\S+Z +WARN .*login refused.*\n", line.body)
    assert line.props["content_type"] == "text/plain" and line.props["headers"] == {"node": "warren@localhost"}


def test_f229_lines_below_the_level_are_not_published(server):
    server = server("log.exchange = true\nlog.exchange.level = error")
    channel = listen(server, "#")
    server.connect().close()     # three lines, none of them an error
    channel.nothing()


def test_f229_lines_about_lines_come_to_an_end(server):
    server = server("log.exchange = true\nlog.exchange.level = debug")
    channel = listen(server, "#")
    server.connect().close()
    seen = 0
    while True:
        try:
            channel.deliver(timeout=0.5)
        except client.Silence:
            break
        seen += 1
    assert 0 < seen < 100


@pytest.mark.parametrize("config", ["", "warren.event_exchange = true\nevent_exchange.vhost = nowhere"])
def test_b176_without_an_event_exchange(server, config):
    channel = server(config).connect().channel()
    for name in (EVENT, LOG):
        with channel.closes(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", "exchange.declare"):
            channel.call("exchange.declare", exchange=name, type="topic", passive=True)
        channel = channel.connection.channel()


def test_exchanges_of_events_that_are_silent_by_a_new_configuration_are_told_of_at_start(prepared):
    """Their bindings stay, as in RabbitMQ with the plugin off: what waits for messages there would wait without a word."""
    server = prepared("warren.event_exchange = true\nlog.exchange = true\n").start()
    channel = server.connect().channel()
    channel.call("queue.declare", queue="waits", durable=True)
    for exchange in (EVENT, LOG):
        channel.bind("waits", exchange, "#")
    silent = lambda: re.findall(r"exchange '(\S+)' in vhost '/' has 1 binding\(s\).*: (\S+) is off", (server.folder / "log").read_text())
    assert silent() == []
    server.config.write_text("log.exchange = true\n")
    server.restart()
    assert silent() == [(EVENT, "warren.event_exchange")]
    server.config.write_text("warren.event_exchange = true\nevent_exchange.vhost = elsewhere\n")
    server.restart()
    assert silent()[1:] == [(EVENT, "warren.event_exchange"), (LOG, "log.exchange")]
