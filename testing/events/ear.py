"""Hears all events of a broker and writes them down so that two brokers can be compared. Knows no event.

An event becomes [routing key, {header: [type, value]}]; ports, times, process ids and generated names become words.
"""

import re
import time

import client

EXCHANGE = "amq.rabbitmq.event"
TIMES = {"timestamp_in_ms", "connected_at"}
PORTS = {"port", "peer_port"}


class Ear:
    """A consumer of every event. Its own ones are over when it is made."""

    def __init__(self, url, node):
        self.node, self.marks, self.waiting = node, 0, []
        self.connection = client.Connection(url, vhost="/")
        self.channel = self.connection.channel()
        self.queue = self.channel.queue(exclusive=True)
        self.channel.bind(self.queue, EXCHANGE, "#")
        self.channel.consume(self.queue, no_ack=True)
        self.heard()

    def close(self):
        self.connection.close()

    def heard(self, expected=0, awaited=(), quiet_s=0.0, deadline_s=10.0):
        """The events since the last call: at least `expected` and those `awaited` unless time is over, then until `quiet_s` pass without one."""
        end = time.monotonic() + deadline_s
        found, awaited = [], list(awaited)

        def is_complete():
            return len(found) >= expected and not awaited

        while not is_complete() and (event := self._next(end - time.monotonic())):
            found.append(event)
            if awaited and is_like(event, *awaited[0]):
                awaited.pop(0)
        assert not awaited, f"not told: {awaited}; but {[key for key, _ in found]}"
        while quiet_s and (event := self._next(quiet_s)):
            found.append(event)
        # Earlier events come before the event of this binding.
        self.marks += 1
        mark = f"mark-{self.marks}"
        self.channel.bind(self.queue, EXCHANGE, mark)
        while True:
            event = self.written(self.channel.deliver(timeout=10))
            if event[0] == "binding.created" and event[1]["routing_key"] == ["S", mark]:
                return found
            found.append(event)

    def _next(self, timeout_s):
        try:
            return self.written(self.channel.deliver(timeout=max(timeout_s, 0.01)))
        except client.Silence:
            return None

    def written(self, event):
        """The event in comparable form; what all events have in common is checked here."""
        assert event.exchange == EXCHANGE and event.body == b""
        assert set(event.props) == {"headers", "typed_headers", "delivery_mode", "timestamp"}, event.props
        headers = event.props["typed_headers"]
        assert event.props["delivery_mode"] == 2
        assert event.props["timestamp"] == dict(headers)["timestamp_in_ms"].value // 1000
        return [event.routing_key, {name: [value.kind, self.value(name, value)] for name, value in headers}]

    def value(self, name, field):
        if name in TIMES:
            return "TIME"
        if name in PORTS:
            return "PORT"
        return self.plain(field)

    def plain(self, field):
        value = getattr(field, "value", field)
        if isinstance(value, bytes):
            value = value.decode()
        if isinstance(value, str):
            return self.text(value)
        if getattr(field, "kind", None) == "F":
            return {self.text(name): [of.kind, self.plain(of)] for name, of in value}
        if getattr(field, "kind", None) == "A":
            if value and all(of.kind in "lI" for of in value):     # an Erlang text that was taken for a list of numbers
                return self.text("".join(chr(of.value) for of in value))
            return [[of.kind, self.plain(of)] for of in value]
        return value

    def text(self, text):
        text = re.sub(r"<[^<>\s]*\.\d+\.\d+\.\d+>|<\d+\.\d+\.\d+>", "PID", text)
        text = text.replace(self.node, "NODE")
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
        return re.sub(r"amq\.(gen|ctag)-[\w-]+", r"amq.\1-X", text)


def is_like(event, key, headers):
    return event[0] == key and all(event[1].get(name, [None, None])[1] == value for name, value in headers.items())
