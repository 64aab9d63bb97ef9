"""An AMQP 0-9-1 client that pipelines: it writes thousands of requests before it reads the answers. Blocking, one channel.

For what `warren perf` is not made for: very many objects, and settling very many deliveries at once. Refuses to be a client for
applications: whatever it does not expect is an exception.
"""

import select
import socket
import struct
from urllib.parse import urlsplit

PIPELINED = 2000
HEADER = struct.Struct(">BHI")
CLOSES = {(10, 50), (20, 40)}


def short(text):
    data = text.encode()
    return bytes([len(data)]) + data


def long(data):
    return struct.pack(">I", len(data)) + data


def table(**arguments):
    """A field table of integers, booleans, texts and tables of booleans; underscores in names become hyphens."""
    out = b""
    for name, value in arguments.items():
        out += short(name.replace("_", "-"))
        if isinstance(value, bool):
            out += b"t" + bytes([value])
        elif isinstance(value, int):
            out += b"l" + struct.pack(">q", value)
        elif isinstance(value, dict):
            out += b"F" + long(b"".join(short(key) + b"t" + bytes([is_set]) for key, is_set in value.items()))
        else:
            out += b"S" + long(value.encode())
    return long(out)


def frame(kind, payload, channel=1):
    return HEADER.pack(kind, channel, len(payload)) + payload + b"\xce"


def method(class_id, method_id, arguments=b"", channel=1):
    return frame(1, struct.pack(">HH", class_id, method_id) + arguments, channel)


def declare(name, **arguments):
    """Bytes that declare a durable queue."""
    return method(50, 10, b"\0\0" + short(name) + b"\x02" + table(**arguments))


def declare_exchange(name, kind):
    """Bytes that declare a durable exchange."""
    return method(40, 10, b"\0\0" + short(name) + short(kind) + b"\x02" + table())


def delete_exchange(name):
    """Bytes that delete it."""
    return method(40, 20, b"\0\0" + short(name) + b"\0")


def bind(queue, exchange, key):
    """Bytes that bind it."""
    return method(50, 20, b"\0\0" + short(queue) + short(exchange) + short(key) + b"\0" + table())


def delete(queue):
    """Bytes that delete it."""
    return method(50, 40, b"\0\0" + short(queue) + b"\0")


def publish(queue, body, persistent=False, ttl_ms=None):
    """Bytes that publish through the default exchange."""
    flags = (0x1000 if persistent else 0) | (0x0100 if ttl_ms is not None else 0)
    properties = struct.pack(">H", flags) + (b"\x02" if persistent else b"") + (short(str(ttl_ms)) if ttl_ms is not None else b"")
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties
    return method(60, 40, b"\0\0" + short("") + short(queue) + b"\0") + frame(2, header) + frame(3, body)


def get(queue, no_ack):
    """Bytes that fetch a message."""
    return method(60, 70, b"\0\0" + short(queue) + bytes([no_ack]))


class Connection:
    """A connection with channel 1 open, and what it says it is capable of."""

    def __init__(self, uri, **capabilities):
        parts = urlsplit(uri)
        user, password = parts.username or "guest", parts.password or "guest"
        self.socket = socket.create_connection((parts.hostname, parts.port or 5672), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.expect(10, 10)
        response = f"\0{user}\0{password}".encode()
        self.send(method(10, 11, table(capabilities=capabilities) + short("PLAIN") + long(response) + short("en_US"), 0))
        tune = self.expect(10, 30)[4:12]
        self.send(method(10, 31, tune[:6] + b"\0\0", 0) + method(10, 40, short("/") + short("") + b"\0", 0))
        self.expect(10, 41)
        self.call(method(20, 10, short("")), 20, 11)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def next(self):
        """Kind and payload of the next frame."""
        while True:
            if len(self.rest) >= 7:
                kind, _, size = HEADER.unpack_from(self.rest)
                if len(self.rest) >= size + 8:
                    payload, self.rest = self.rest[7:7 + size], self.rest[size + 8:]
                    return kind, payload
            more = self.socket.recv(1 << 16)
            if not more:
                raise EOFError("the broker has closed the connection")
            self.rest += more

    def method_within(self, seconds):
        """The payload of the next method, or None if none comes within so many seconds."""
        while True:
            if len(self.rest) < 7 or len(self.rest) < HEADER.unpack_from(self.rest)[2] + 8:
                if not select.select([self.socket], [], [], seconds)[0]:
                    return None
                more = self.socket.recv(1 << 16)
                if not more:
                    raise EOFError("the broker has closed the connection")
                self.rest += more
                continue
            kind, payload = self.next()
            if kind == 1:
                return payload

    def expect(self, class_id, method_id):
        """The payload of the next method, which must be this one."""
        kind, payload = self.next()
        found = struct.unpack_from(">HH", payload) if kind == 1 else kind
        if found != (class_id, method_id):
            raise RuntimeError(f"{found} instead of {(class_id, method_id)}: {payload[4:]!r}")
        return payload

    def call(self, request, class_id, method_id):
        self.send(request)
        return self.expect(class_id, method_id)

    def count(self, wanted, kind=1):
        """Reads until so many frames of a kind have come, quickly: the bytes are walked, not copied."""
        data, at = bytearray(self.rest), 0
        unpack = HEADER.unpack_from
        while True:
            end = len(data)
            while end - at >= 7:
                found, _, size = unpack(data, at)
                if end - at < size + 8:
                    break
                if found == 1 and tuple(struct.unpack_from(">HH", data, at + 7)) in CLOSES:
                    raise RuntimeError(f"closed: {bytes(data[at + 7:at + 7 + size])!r}")
                at += size + 8
                if found == kind:
                    wanted -= 1
                    if wanted == 0:
                        self.rest = bytes(data[at:])
                        return
            del data[:at]
            at = 0
            more = self.socket.recv(1 << 20)
            if not more:
                raise EOFError("the broker has closed the connection")
            data += more

    def publish_confirmed(self, messages):
        """Publishes on a channel without confirms so far and waits for all of them, some hundred at a time."""
        self.call(method(85, 10, b"\0"), 85, 11)
        for first in range(0, len(messages), 500):
            part = messages[first:first + 500]
            self.send(b"".join(part))
            waiting = set(range(first + 1, first + len(part) + 1))
            while waiting:
                confirm = self.expect(60, 80)
                tag = int.from_bytes(confirm[4:12], "big")
                waiting -= {one for one in waiting if one <= tag} if confirm[12] & 1 else {tag}

    def pipeline(self, requests):
        """Sends requests, each answered by one method, many at a time."""
        batch = []
        for request in requests:
            batch.append(request)
            if len(batch) == PIPELINED:
                self._flush(batch)
                batch = []
        if batch:
            self._flush(batch)

    def _flush(self, batch):
        self.send(b"".join(batch))
        self.count(len(batch))
