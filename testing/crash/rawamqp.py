"""AMQP 0-9-1 straight on a socket, for tests that must be fast or rude. Knows frames and the few methods those tests use.

A `Raw` sends exactly the bytes that it is told to send; `call` is the only thing that waits for an answer. Numbers are
big-endian; frames are: type u8, channel u16, size u32, payload, 0xCE (AMQP 0-9-1 section 4.2.3).
"""

import socket
import struct
import time
from urllib.parse import unquote, urlparse

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

# (class, method) of what the tests speak
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41)
CLOSE, CLOSE_OK, BLOCKED, UNBLOCKED = (10, 50), (10, 51), (10, 60), (10, 61)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK, EXCHANGE_DELETE, EXCHANGE_DELETE_OK = (40, 10), (40, 11), (40, 20), (40, 21)
QUEUE_DECLARE, QUEUE_DECLARE_OK, QUEUE_BIND, QUEUE_BIND_OK, QUEUE_PURGE, QUEUE_PURGE_OK = (50, 10), (50, 11), (50, 20), (50, 21), (50, 30), (50, 31)
QUEUE_DELETE, QUEUE_DELETE_OK = (50, 40), (50, 41)
QOS, QOS_OK, CONSUME, CONSUME_OK, CANCEL = (60, 10), (60, 11), (60, 20), (60, 21), (60, 30)
PUBLISH, RETURN, DELIVER, ACK, NACK = (60, 40), (60, 50), (60, 60), (60, 80), (60, 120)
CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)


class Closed(Exception):
    """The broker closed the channel or the connection, or the socket ended (code 0)."""

    def __init__(self, code, text, class_id=0, method_id=0):
        super().__init__(f"{code} {text} ({class_id}, {method_id})")
        self.code, self.text, self.class_id, self.method_id = code, text, class_id, method_id


def short(text):
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def long(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(data)) + data


def table(pairs=None):
    """str -> longstr, bool, int -> signed 32 or 64 bit, dict -> table; with its own length."""
    body = b""
    for key, value in (pairs or {}).items():
        body += short(key)
        if isinstance(value, bool):
            body += b"t" + bytes([value])
        elif isinstance(value, int):
            body += b"I" + struct.pack(">i", value) if -2**31 <= value < 2**31 else b"l" + struct.pack(">q", value)
        elif isinstance(value, dict):
            body += b"F" + table(value)
        else:
            body += b"S" + long(value)
    return long(body)


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel, ids, arguments=b""):
    return frame(METHOD, channel, struct.pack(">HH", *ids) + arguments)


def publish(channel, exchange, key, body, persistent=True, mandatory=False, frame_max=131072, headers=None):
    """basic.publish with its header and body frames, as bytes."""
    flags, properties = 0, b""
    if headers is not None:
        flags |= 0x2000
        properties += headers
    flags |= 0x1000
    properties += b"\x02" if persistent else b"\x01"
    out = method(channel, PUBLISH, b"\x00\x00" + short(exchange) + short(key) + bytes([mandatory]))
    out += frame(HEADER, channel, struct.pack(">HHQH", 60, 0, len(body), flags) + properties)
    for at in range(0, len(body), frame_max - 8):
        out += frame(BODY, channel, body[at:at + frame_max - 8])
    return out


def ack(channel, tag, multiple=True):
    return method(channel, ACK, struct.pack(">QB", tag, multiple))


def place(url):
    """(host, port, user, password, vhost) of an AMQP URL."""
    parts = urlparse(url)
    vhost = unquote(parts.path[1:]) if parts.path else "/"
    return parts.hostname or "127.0.0.1", parts.port or 5672, unquote(parts.username or "guest"), unquote(parts.password or "guest"), vhost


class Raw:
    """One connection. `handshake=False` leaves it at a bare TCP connection."""

    def __init__(self, url, handshake=True, timeout_s=10, heartbeat=0, vhost=None, receive_buffer=None, user=None, password=None):
        host, port, self.user, self.password, self.vhost = place(url)
        self.user, self.password, self.vhost = user or self.user, password or self.password, vhost or self.vhost
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = bytearray()
        self.frame_max, self.channel_max = 131072, 2047
        if handshake:
            self._handshake(heartbeat)

    def _handshake(self, heartbeat):
        self.send(PROTOCOL_HEADER)
        self.expect(0, START)
        capabilities = {"publisher_confirms": True, "consumer_cancel_notify": True, "basic.nack": True, "authentication_failure_close": True,
                        "connection.blocked": True}
        properties = table({"product": "warren crash tests", "capabilities": capabilities})
        self.send(method(0, START_OK, properties + short("PLAIN") + long(f"\0{self.user}\0{self.password}") + short("en_US")))
        self.channel_max, self.frame_max, _ = struct.unpack(">HIH", self.expect(0, TUNE)[:8])
        self.send(method(0, TUNE_OK, struct.pack(">HIH", self.channel_max, self.frame_max, heartbeat)))
        self.send(method(0, OPEN, short(self.vhost) + b"\0\0"))
        self.expect(0, OPEN_OK)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """Reads once from the socket; False when nothing came in its time."""
        try:
            data = self.socket.recv(262144)
        except TimeoutError:
            return False
        if not data:
            raise Closed(0, "the socket was closed")
        self.input += data
        return True

    def frames(self):
        """(type, channel, payload) of the whole frames that are there; payloads are memoryviews valid until the next call."""
        data, at, found = self.input, 0, []
        end = len(data)
        while end - at >= 8:
            kind, channel, size = struct.unpack_from(">BHI", data, at)
            if end - at < size + 8:
                break
            if data[at + 7 + size] != 0xCE:
                raise AssertionError(f"the broker sent a frame without its end: {bytes(data[at:at + 16])!r}")
            found.append((kind, channel, bytes(data[at + 7:at + 7 + size])))
            at += size + 8
        del data[:at]
        return found

    def expect(self, channel, ids, deadline_s=10):
        """The arguments of the next method `ids` on that channel; other frames are dropped. Raises Closed."""
        end = time.monotonic() + deadline_s
        while True:
            found = self.frames()
            for position, (kind, on, payload) in enumerate(found):
                if kind != METHOD:
                    continue
                got = struct.unpack_from(">HH", payload)
                if got == ids and on == channel:
                    for left in reversed(found[position + 1:]):
                        self.input[:0] = frame(*left)
                    return payload[4:]
                check_close(got, on, channel, payload)
            if time.monotonic() > end:
                raise Closed(0, f"no answer {ids} within {deadline_s} s")
            self.receive()

    def call(self, channel, ids, arguments, answer, deadline_s=10):
        self.send(method(channel, ids, arguments))
        return self.expect(channel, answer, deadline_s)

    def wait_closed(self, deadline_s=10):
        """Waits for the broker's connection.close, answers it, and returns it as a Closed; code 0 for a bare end of the socket."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            try:
                for kind, channel, payload in self.frames():
                    if kind == METHOD:
                        check_close(struct.unpack_from(">HH", payload), channel, channel, payload)
                self.receive()
            except Closed as closed:
                if closed.code:
                    try:
                        self.send(method(0, CLOSE_OK))
                    except OSError:
                        pass
                return closed
            except OSError as error:
                return Closed(0, f"the socket broke: {error}")
        return None

    def open_channel(self, channel):
        self.call(channel, CHANNEL_OPEN, b"\0", CHANNEL_OPEN_OK)

    def declare_queue(self, channel, name, durable=True, passive=False, arguments=None, exclusive=False):
        """(name, messages, consumers)"""
        flags = passive | durable << 1 | exclusive << 2
        answer = self.call(channel, QUEUE_DECLARE, b"\0\0" + short(name) + bytes([flags]) + table(arguments), QUEUE_DECLARE_OK)
        size = answer[0]
        return answer[1:1 + size].decode(), *struct.unpack_from(">II", answer, 1 + size)

    def declare_exchange(self, channel, name, kind, durable=True, passive=False, arguments=None):
        flags = bytes([passive | durable << 1])
        self.call(channel, EXCHANGE_DECLARE, b"\0\0" + short(name) + short(kind) + flags + table(arguments), EXCHANGE_DECLARE_OK)

    def bind(self, channel, queue, exchange, key):
        self.call(channel, QUEUE_BIND, b"\0\0" + short(queue) + short(exchange) + short(key) + b"\0" + table(), QUEUE_BIND_OK)

    def delete_queue(self, channel, name, deadline_s=60):
        return struct.unpack(">I", self.call(channel, QUEUE_DELETE, b"\0\0" + short(name) + b"\0", QUEUE_DELETE_OK, deadline_s))[0]

    def delete_exchange(self, channel, name):
        self.call(channel, EXCHANGE_DELETE, b"\0\0" + short(name) + b"\0", EXCHANGE_DELETE_OK)

    def confirm_select(self, channel):
        self.call(channel, CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)

    def qos(self, channel, count):
        self.call(channel, QOS, struct.pack(">IHB", 0, count, 0), QOS_OK)

    def consume(self, channel, queue, no_ack=False):
        self.call(channel, CONSUME, b"\0\0" + short(queue) + short("") + bytes([no_ack << 1]) + table(), CONSUME_OK)

    def close(self):
        try:
            self.call(0, CLOSE, struct.pack(">H", 200) + short("bye") + b"\0\0\0\0", CLOSE_OK, 5)
        except (Closed, OSError):
            pass
        self.socket.close()


def check_close(ids, on, channel, payload):
    if ids == CLOSE or (ids == CHANNEL_CLOSE and on == channel):
        code, = struct.unpack_from(">H", payload, 4)
        size = payload[6]
        text = payload[7:7 + size].decode(errors="replace")
        class_id, method_id = struct.unpack_from(">HH", payload, 7 + size)
        raise Closed(code, text, class_id, method_id)
