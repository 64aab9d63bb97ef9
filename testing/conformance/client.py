"""A small blocking AMQP 0-9-1 client for tests: one socket, any number of channels, every frame kept in order.

It never reconnects, retries or hides anything: a close from the broker becomes an exception that carries its code, text and
ids, and a wait that lasts longer than its deadline becomes ``Silence``. It knows no broker's habits.
"""

import contextlib
import socket
import time
import uuid
from collections import deque
from urllib.parse import unquote, urlsplit

import wire

DEADLINE_S = 8.0
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Closed(Exception):
    """The broker closed something: ``code``, ``text`` and the offending method's name (or "0.0", or "class.method" ids)."""

    def __init__(self, event):
        self.code, self.text = event.reply_code, event.reply_text
        ids = (event.class_id, event.method_id)
        self.method = wire.NAMES.get(ids, f"{ids[0]}.{ids[1]}")
        super().__init__(f"{self.code} {self.text!r} ({self.method})")


class ChannelClosed(Closed):
    """The broker sent channel.close."""


class ConnectionClosed(Closed):
    """The broker sent connection.close."""


class SocketClosed(Exception):
    """The broker closed the socket without (another) word."""


class Silence(AssertionError):
    """Nothing came before the deadline."""


class Event:
    """One method from the broker, with its content when it carries one."""

    def __init__(self, channel, name, args):
        self.channel, self.name, self.args = channel, name, args
        self.size = self.raw_properties = None
        self.props, self.body, self.frames = {}, b"", 0

    def __getattr__(self, key):
        try:
            return self.args[key]
        except KeyError:
            raise AttributeError(f"{self.name} has no {key}") from None

    def __repr__(self):
        return f"<{self.name} on {self.channel} {self.args} {self.body[:40]!r}>"


class Socket:
    """Frames over TCP with a deadline on every read."""

    def __init__(self, host, port):
        self.sock = socket.create_connection((host, port), timeout=DEADLINE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = bytearray()
        self.eof = False

    def send(self, data):
        self.sock.settimeout(DEADLINE_S)
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            if not self.pending and self.eof:
                raise SocketClosed() from error

    def _fill(self, until):
        left = until - time.monotonic()
        if left <= 0:
            raise Silence("nothing from the broker before the deadline")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 16)
        except TimeoutError:
            raise Silence("nothing from the broker before the deadline") from None
        except ConnectionError as error:
            self.eof = True
            raise SocketClosed() from error
        if not data:
            self.eof = True
            raise SocketClosed()
        self.pending += data

    def read(self, count, timeout=DEADLINE_S):
        """Exactly ``count`` bytes."""
        until = time.monotonic() + timeout
        while len(self.pending) < count:
            self._fill(until)
        out = bytes(self.pending[:count])
        del self.pending[:count]
        return out

    def frame(self, timeout=DEADLINE_S):
        """(type, channel, payload) of the next frame; a partial frame stays buffered when the deadline passes."""
        until = time.monotonic() + timeout
        while len(self.pending) < 7:
            self._fill(until)
        kind, channel, size = wire.struct.unpack(">BHI", self.pending[:7])
        while len(self.pending) < size + 8:
            self._fill(until)
        data = self.read(size + 8)
        assert data[-1] == wire.FRAME_END, f"the broker ended a frame with {data[-1]:#x}"
        return kind, channel, data[7:-1]

    def rest(self, timeout=DEADLINE_S):
        """Everything up to the end of the stream."""
        until = time.monotonic() + timeout
        with contextlib.suppress(SocketClosed):
            while True:
                self._fill(until)
        out = bytes(self.pending)
        self.pending.clear()
        return out

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.close()


def plain_response(user, password):
    return b"\x00" + user.encode() + b"\x00" + password.encode()


class Connection:
    """An AMQP connection, open and tuned after construction unless ``start=False``."""

    def __init__(self, url, start=True, track=None, vhost=None, **options):
        parts = urlsplit(url)
        self.host, self.port = parts.hostname, parts.port or 5672
        self.user, self.password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        self.vhost = vhost if vhost is not None else unquote(parts.path[1:]) if len(parts.path) > 1 else "/"
        self.track = track
        self.io = Socket(self.host, self.port)
        self.channels, self.events, self.partial = {}, deque(), {}
        self.heartbeats_seen, self.frame_max, self.closed = 0, 131072, False
        if start:
            self.handshake(**options)

    # -- handshake

    def handshake(self, capabilities=None, properties=None, mechanism="PLAIN", response=None, **tune):
        """Everything from the protocol header to open-ok. Options that are None take what a good client would send."""
        self.io.send(wire.PROTOCOL_HEADER)
        self.start = self.wait("connection.start")
        self.start_ok(capabilities, properties, mechanism, response)
        self.tune = self.wait("connection.tune")
        self.tune_ok(**tune)
        return self.open()

    def start_ok(self, capabilities=None, properties=None, mechanism="PLAIN", response=None):
        client = {"product": "conformance", "capabilities": CAPABILITIES if capabilities is None else capabilities}
        client.update(properties or {})
        response = plain_response(self.user, self.password) if response is None else response
        self.send(
            0, "connection.start-ok", client_properties=client, mechanism=mechanism, response=response, locale="en_US"
        )

    def tune_ok(self, channel_max=None, frame_max=None, heartbeat=0):
        channel_max = self.tune.channel_max if channel_max is None else channel_max
        self.frame_max = self.tune.frame_max if frame_max is None else frame_max
        self.send(0, "connection.tune-ok", channel_max=channel_max, frame_max=self.frame_max, heartbeat=heartbeat)

    def open(self, vhost=None):
        self.send(0, "connection.open", virtual_host=self.vhost if vhost is None else vhost)
        return self.wait("connection.open-ok")

    def handshake_to_open(self, vhost):
        """The whole handshake as this user, step by step, so that a refusal of any step is seen as it comes."""
        self.vhost = vhost
        return self.handshake()

    # -- sending

    def send(self, channel, name, **args):
        self.io.send(wire.frame(wire.METHOD, channel, wire.method(name, **args)))

    def raw(self, data):
        self.io.send(data)

    # -- receiving

    def read_event(self, timeout=DEADLINE_S):
        """The next complete method (with its content), in the order of arrival."""
        until = time.monotonic() + timeout
        while True:
            kind, channel, payload = self.io.frame(max(0.0, until - time.monotonic()))
            if kind == wire.HEARTBEAT:
                assert channel == 0 and payload == b""
                self.heartbeats_seen += 1
            elif kind == wire.METHOD:
                assert channel not in self.partial, "a method in the middle of a content"
                event = Event(channel, *wire.read_method(payload))
                if event.name not in wire.CONTENT:
                    return event
                self.partial[channel] = event
            elif self._content(kind, channel, payload):
                return self.partial.pop(channel)

    def _content(self, kind, channel, payload):
        event = self.partial[channel]
        if kind == wire.HEADER:
            assert event.size is None, "two headers for one method"
            class_id, weight, event.size = wire.struct.unpack(">HHQ", payload[:12])
            assert (class_id, weight) == (60, 0)
            event.raw_properties = payload[12:]
            event.props = wire.read_properties(event.raw_properties)
        else:
            assert kind == wire.BODY and event.size is not None, "a body without its header"
            assert payload, "an empty body frame"
            assert len(payload) + 8 <= self.frame_max or not self.frame_max, "a frame above the negotiated size"
            event.body, event.frames = event.body + payload, event.frames + 1
        assert len(event.body) <= event.size, "more body than announced"
        return len(event.body) == event.size

    def _pump(self, timeout):
        """Reads one event and files it with its channel (or here, for channel 0)."""
        event = self.read_event(timeout)
        if event.name == "connection.close":
            self.closed = True
            self.send(0, "connection.close-ok")
            raise ConnectionClosed(event)
        channel = self.channels.get(event.channel)
        if channel is None:
            self.events.append(event)
        else:
            channel.incoming(event)

    def wait(self, name=None, timeout=DEADLINE_S):
        """The next event of channel 0, which must be ``name``."""
        until = time.monotonic() + timeout
        while not self.events:
            self._pump(until - time.monotonic())
        event = self.events.popleft()
        assert name is None or event.name == name, f"wanted {name}, got {event}"
        return event

    def call(self, name, **args):
        self.send(0, name, **args)
        return self.wait(name + "-ok")

    def channel(self, number=None):
        """A new open channel; the lowest free number unless one is given."""
        number = number or next(n for n in range(1, 1 << 16) if n not in self.channels)
        channel = Channel(self, number)
        self.channels[number] = channel
        channel.call("channel.open")
        return channel

    @contextlib.contextmanager
    def closes(self, code, text, method="0.0"):
        """The block, or the broker's next words after it, must be exactly this connection.close, then end of stream."""
        try:
            yield
            while True:
                self._pump(DEADLINE_S)
        except ConnectionClosed as closed:
            same(closed, code, text, method)
        assert self.io.rest() == b""

    @contextlib.contextmanager
    def drops(self):
        """The block, or the wait after it, must end with the socket closed and no connection.close."""
        try:
            yield
            while True:
                self._pump(DEADLINE_S)
        except SocketClosed:
            pass

    def close(self):
        """connection.close and its answer; nothing if the broker closed first."""
        if self.closed or self.io.eof:
            return self.io.close()
        self.closed = True
        with contextlib.suppress(OSError, SocketClosed, Silence):
            self.send(0, "connection.close", reply_code=200, reply_text="bye")
            while self.read_event(5).name != "connection.close-ok":
                pass
        self.io.close()

    def kill(self):
        """The socket goes away without a word, as when a client crashes."""
        self.closed = True
        self.io.close()


def same(closed, code, text, method):
    got = (closed.code, closed.text, closed.method)
    if hasattr(text, "fullmatch"):
        assert text.fullmatch(closed.text), got
        text = closed.text
    assert got == (code, text, method)


class Channel:
    """An AMQP channel. Names of methods are the protocol's; ``call`` waits for the -ok, ``send`` does not."""

    def __init__(self, connection, number):
        self.connection, self.number = connection, number
        self.events, self.error, self.close_ok, self.published = deque(), None, True, 0
        self.confirming = False

    def incoming(self, event):
        if event.name == "channel.close":
            if self.close_ok:
                self.connection.send(self.number, "channel.close-ok")
            self.connection.channels.pop(self.number, None)
            self.error = ChannelClosed(event)
        else:
            self.events.append(event)

    # -- primitives

    def send(self, name, **args):
        if name == "confirm.select" and not self.confirming:
            self.confirming, self.published = True, 0  # publish numbers start here
        self.connection.send(self.number, name, **args)

    def _next(self, timeout):
        until = time.monotonic() + timeout
        while not self.events:
            if self.error:
                raise self.error
            self.connection._pump(until - time.monotonic())
        return self.events.popleft()

    def next(self, name=None, timeout=DEADLINE_S):
        """The next event of this channel, which must be ``name``."""
        event = self._next(timeout)
        assert name is None or event.name == name, f"wanted {name}, got {event}"
        return event

    def call(self, name, **args):
        """Sends and waits for the answer; what else arrives meanwhile stays queued in order."""
        self.send(name, **args)
        return self.answer("access.request-ok" if name == "access.request" else name + "-ok")

    def answer(self, *names, timeout=DEADLINE_S):
        until = time.monotonic() + timeout
        others = []
        try:
            while True:
                event = self._next(until - time.monotonic())
                if event.name in names:
                    return event
                others.append(event)
        finally:
            self.events.extendleft(reversed(others))

    def nothing(self, seconds=0.12):
        """Nothing may be waiting, or arrive within ``seconds``."""
        assert not self.events, list(self.events)
        try:
            event = self._next(seconds)
        except Silence:
            return
        raise AssertionError(f"unexpected {event}")

    @contextlib.contextmanager
    def closes(self, code, text, method="0.0"):
        """The block, or what follows it, must be exactly this channel.close. Other events before it stay queued."""
        try:
            yield
            while not self.error:
                self.connection._pump(DEADLINE_S)
            raise self.error
        except ChannelClosed as closed:
            assert closed is self.error
            same(closed, code, text, method)

    # -- the everyday methods

    def queue(self, name=None, **args):
        """Declares a queue and returns its name. A fresh exclusive one unless told otherwise."""
        return self.declare(name, **args).queue

    def declare(self, name=None, durable=None, exclusive=None, arguments=None, **flags):
        name = fresh("q") if name is None else name
        if exclusive is None:
            exclusive = not durable
        if self.connection.track is not None and not exclusive and not flags.get("passive"):
            self.connection.track.append(("queue", self.connection, name))
        return self.call(
            "queue.declare", queue=name, durable=bool(durable), exclusive=exclusive, arguments=arguments or {}, **flags
        )

    def exchange(self, kind="direct", name=None, durable=False, arguments=None, **flags):
        """Declares an exchange and returns its name."""
        name = fresh("x") if name is None else name
        if self.connection.track is not None and not flags.get("passive"):
            self.connection.track.append(("exchange", self.connection, name))
        self.call("exchange.declare", exchange=name, type=kind, durable=durable, arguments=arguments or {}, **flags)
        return name

    def bind(self, queue, exchange, key="", arguments=None):
        self.call("queue.bind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments or {})

    def publish(self, exchange="", key="", body=b"m", mandatory=False, immediate=False, raw=None, **props):
        """Publishes; returns the publish sequence number on this channel."""
        body = body.encode() if isinstance(body, str) else body
        args = dict(exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate)
        frames = wire.content_frames(self.number, args, props, body, self.connection.frame_max, raw)
        self.connection.raw(frames)
        self.published += 1
        return self.published

    def confirmed(self, exchange="", key="", body=b"m", **props):
        """Publishes on a confirming channel and waits: True for ack, False for nack."""
        number = self.publish(exchange, key, body, **props)
        event = self.answer("basic.ack", "basic.nack")
        assert event.delivery_tag == number
        return event.name == "basic.ack"

    def put(self, queue, *bodies, **props):
        """Publishes through the default exchange and returns when all are enqueued (own confirming channel)."""
        channel = self.connection.channel()
        channel.call("confirm.select")
        for body in bodies:
            channel.publish("", queue, body, **props)
        channel.confirms(len(bodies))
        channel.shut()

    def confirms(self, count):
        """Waits until the first ``count`` publishes are settled; returns {number: acked}."""
        out = {}
        while len(out) < count:
            event = self.next()
            assert event.name in ("basic.ack", "basic.nack"), event
            last = event.delivery_tag
            if event.multiple:
                last = last or count
                settled = [n for n in range(1, last + 1) if n not in out]
            else:
                settled = [last]
            for number in settled:
                assert number not in out and number >= 1, f"{number} settled twice"
                out[number] = event.name == "basic.ack"
        return out

    def get(self, queue="", no_ack=False):
        """basic.get: the get-ok event, or None when the queue is empty."""
        self.send("basic.get", queue=queue, no_ack=no_ack)
        event = self.answer("basic.get-ok", "basic.get-empty")
        return event if event.name == "basic.get-ok" else None

    def drain(self, queue):
        """All bodies that are ready, taken with no-ack."""
        out = []
        while (event := self.get(queue, no_ack=True)) is not None:
            out.append(event.body)
        return out

    def consume(self, queue, tag="", **args):
        """basic.consume; returns the consumer tag."""
        return self.call("basic.consume", queue=queue, consumer_tag=tag, **args).consumer_tag

    def deliver(self, body=None, timeout=DEADLINE_S):
        """The next event, which must be a delivery (with this body)."""
        event = self.next("basic.deliver", timeout)
        assert body is None or event.body == body, event
        return event

    def qos(self, count, global_=False):
        self.call("basic.qos", prefetch_count=count, global_=global_)

    def ack(self, tag, multiple=False):
        self.send("basic.ack", delivery_tag=tag, multiple=multiple)

    def nack(self, tag, multiple=False, requeue=True):
        self.send("basic.nack", delivery_tag=tag, multiple=multiple, requeue=requeue)

    def reject(self, tag, requeue=True):
        self.send("basic.reject", delivery_tag=tag, requeue=requeue)

    def ready(self, queue):
        """The ready message count by passive declare."""
        return self.call("queue.declare", queue=queue, passive=True).message_count

    def consumers(self, queue):
        return self.call("queue.declare", queue=queue, passive=True).consumer_count

    def shut(self):
        """channel.close by the client."""
        self.call("channel.close", reply_code=200, reply_text="bye")
        self.connection.channels.pop(self.number, None)


def fresh(kind):
    """A name nobody else uses."""
    return f"conf.{kind}.{uuid.uuid4().hex[:16]}"


def eventually(check, what="condition", timeout=DEADLINE_S):
    """Polls until ``check()`` is true and returns its value; the only place that sleeps."""
    until = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < until, f"not in {timeout} s: {what}"
        time.sleep(0.02)
