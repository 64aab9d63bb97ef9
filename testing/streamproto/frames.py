"""The stream protocol byte by byte: frames as a client writes and reads them, without a library that hides them.

    client = Client(port); client.request(CREATE, text("s") + mapping()) -> (code, rest of the body)
"""

import collections
import socket
import struct
import zlib

DEADLINE_S = 15

(DECLARE_PUBLISHER, PUBLISH, PUBLISH_CONFIRM, PUBLISH_ERROR, QUERY_SEQUENCE, DELETE_PUBLISHER, SUBSCRIBE, DELIVER, CREDIT,
 STORE_OFFSET, QUERY_OFFSET, UNSUBSCRIBE, CREATE, DELETE, METADATA, METADATA_UPDATE, PEER_PROPERTIES, SASL_HANDSHAKE,
 SASL_AUTHENTICATE, TUNE, OPEN, CLOSE, HEARTBEAT, ROUTE, PARTITIONS, CONSUMER_UPDATE, EXCHANGE_VERSIONS, STREAM_STATS,
 CREATE_SUPER_STREAM, DELETE_SUPER_STREAM, RESOLVE_OFFSET) = range(1, 32)

FIRST, LAST, NEXT = (struct.pack(">H", kind) for kind in (1, 2, 3))


def at_offset(offset):
    return struct.pack(">HQ", 4, offset)


def at_time(ms):
    return struct.pack(">Hq", 5, ms)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(value)) + value


def data(value):
    return struct.pack(">I", len(value)) + value


def array(*items):
    return struct.pack(">I", len(items)) + b"".join(items)


def mapping(**values):
    return pairs(*((name.replace("_", "-"), value) for name, value in values.items()))


def pairs(*items):
    return array(*(text(name) + text(value) for name, value in items))


def plain(user="guest", password="guest"):
    return f"\0{user}\0{password}".encode()


def message(body):
    """An entry: a message with one data section."""
    section = b"\x00\x53\x75\xb0" + data(body)
    return data(section)


def body_of(sections):
    """The body of a message whose last section is data."""
    for head, size in ((b"\x00\x53\x75\xb0", 4), (b"\x00\x53\x75\xa0", 1)):
        at = sections.find(head)
        if at >= 0:
            start = at + len(head) + size
            return sections[start:start + int.from_bytes(sections[start - size:start], "big")]
    raise AssertionError(f"no data in {sections!r}")


def batch(bodies, compression=0, records=None, uncompressed=None, packed=None):
    """A sub-batch; what it says of itself may be a lie."""
    inner = b"".join(message(body) for body in bodies)
    packed = inner if packed is None else packed
    records = len(bodies) if records is None else records
    uncompressed = len(inner) if uncompressed is None else uncompressed
    return struct.pack(">BHII", 0x80 | compression << 4, records, uncompressed, len(packed)) + packed


class Reader:
    def __init__(self, body):
        self.body = body

    def take(self, count):
        assert len(self.body) >= count, self.body
        taken, self.body = self.body[:count], self.body[count:]
        return taken

    def number(self, bytes_, signed=False):
        return int.from_bytes(self.take(bytes_), "big", signed=signed)

    def text(self):
        return self.take(self.number(2)).decode()

    def texts(self):
        return [self.text() for _ in range(self.number(4))]

    def pairs(self):
        return {self.text(): self.text() for _ in range(self.number(4))}


class Chunk:
    """A delivered chunk."""

    def __init__(self, reader):
        head = reader.take(48)
        (self.magic, self.kind, self.entries, self.records, self.time, self.epoch, self.id, self.crc, size, _, _) = struct.unpack(
            ">BBHIqQQIIII", head)
        self.data = reader.take(size)
        assert zlib.crc32(self.data) == self.crc

    def messages(self):
        """Offset and sections of each message; the whole entry of a compressed batch."""
        reader, offset, found = Reader(self.data), self.id, []
        for _ in range(self.entries):
            first = reader.body[0]
            if first & 0x80 == 0:
                found.append((offset, reader.take(reader.number(4))))
                offset += 1
                continue
            reader.take(1)
            count, _, size = reader.number(2), reader.number(4), reader.number(4)
            inner = Reader(reader.take(size))
            if first >> 4 & 7:
                found.append((offset, inner.body))
            else:
                found.extend((offset + nth, inner.take(inner.number(4))) for nth in range(count))
            offset += count
        return found

    def bodies(self):
        return [body_of(sections) for _, sections in self.messages()]


class Closed(Exception):
    """The server has ended the connection."""


Frame = collections.namedtuple("Frame", "key is_response version body")


class Client:
    """A connection; open when made unless `opened` is false."""

    def __init__(self, port, user="guest", password="guest", vhost="/", opened=True, frame_max=None, heartbeat=0, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.socket.settimeout(DEADLINE_S)
        self.buffer, self.kept, self.number = b"", collections.deque(), 0
        if opened:
            self.handshake()
            assert self.login(user, password) == 1
            self.proposed = self.tune(frame_max, heartbeat)
            code, self.properties = self.open(vhost)
            assert code == 1, code

    # The handshake, step by step.
    def handshake(self):
        code, reader = self.request(PEER_PROPERTIES, pairs(("product", "tests"), ("connection_name", "by frames")))
        self.server = reader.pairs()
        assert code == 1
        code, reader = self.request(SASL_HANDSHAKE)
        self.mechanisms = reader.texts()
        assert code == 1

    def login(self, user="guest", password="guest", mechanism="PLAIN"):
        return self.request(SASL_AUTHENTICATE, text(mechanism) + data(plain(user, password)))[0]

    def tune(self, frame_max=None, heartbeat=0):
        proposed = struct.unpack(">II", self.next(TUNE).body)
        self.send(TUNE, struct.pack(">II", proposed[0] if frame_max is None else frame_max, heartbeat))
        return proposed

    def open(self, vhost="/"):
        code, reader = self.request(OPEN, text(vhost))
        return code, reader.pairs() if reader.body else {}

    # Frames.
    def send(self, key, body=b"", version=1):
        self.socket.sendall(struct.pack(">IHH", len(body) + 4, key, version) + body)

    def receive(self, deadline_s=DEADLINE_S):
        """The next frame, whatever it is."""
        self.socket.settimeout(deadline_s)
        while len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4], "big"):
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError as error:
                raise Closed from error
            if not more:
                raise Closed
            self.buffer += more
        size = int.from_bytes(self.buffer[:4], "big")
        frame, self.buffer = self.buffer[4:4 + size], self.buffer[4 + size:]
        key, version = struct.unpack(">HH", frame[:4])
        return Frame(key & 0x7FFF, key >> 15 == 1, version, frame[4:])

    def next(self, key, deadline_s=DEADLINE_S, is_response=False):
        """The next frame of that command; others are kept for later."""
        for frame in list(self.kept):
            if frame.key == key and frame.is_response == is_response:
                self.kept.remove(frame)
                return frame
        while True:
            frame = self.receive(deadline_s)
            if frame.key == key and frame.is_response == is_response:
                return frame
            self.kept.append(frame)

    def request(self, key, body=b"", version=1):
        """The code of the answer, and a reader of what follows it."""
        self.number += 1
        self.send(key, struct.pack(">I", self.number) + body, version)
        while True:
            frame = self.next(key, is_response=True)
            reader = Reader(frame.body)
            if reader.number(4) == self.number:
                return reader.number(2), reader

    def code(self, key, body=b""):
        return self.request(key, body)[0]

    def is_ended(self, deadline_s=DEADLINE_S):
        """Whether the server ends the connection; what it still says is dropped."""
        try:
            while True:
                self.receive(deadline_s)
        except Closed:
            return True
        except TimeoutError:
            return False

    # Steps that tests do often.
    def create(self, name, **arguments):
        return self.code(CREATE, text(name) + mapping(**arguments))

    def delete(self, name):
        return self.code(DELETE, text(name))

    def declare(self, stream, publisher=1, reference=""):
        return self.code(DECLARE_PUBLISHER, bytes([publisher]) + text(reference) + text(stream))

    def publish(self, entries, publisher=1, first=0, filters=None):
        """Publishes under ids from `first` on."""
        items = []
        for nth, entry in enumerate(entries):
            value = b"" if filters is None else b"\xff\xff" if filters[nth] is None else text(filters[nth])
            items.append(struct.pack(">Q", first + nth) + value + entry)
        self.send(PUBLISH, bytes([publisher]) + array(*items), 1 if filters is None else 2)

    def confirmed(self, count, publisher=1):
        """The ids of so many confirms."""
        ids = []
        while len(ids) < count:
            reader = Reader(self.next(PUBLISH_CONFIRM).body)
            assert reader.number(1) == publisher
            ids += [reader.number(8) for _ in range(reader.number(4))]
        return ids

    def errors(self):
        """Publisher, and ids with codes, of the next refusal of messages."""
        reader = Reader(self.next(PUBLISH_ERROR).body)
        publisher = reader.number(1)
        return publisher, [(reader.number(8), reader.number(2)) for _ in range(reader.number(4))]

    def sequence(self, reference, stream):
        code, reader = self.request(QUERY_SEQUENCE, text(reference) + text(stream))
        return code, reader.number(8)

    def subscribe(self, stream, subscription=1, offset=FIRST, credit=10, **properties):
        named = {name.replace("filter_", "filter."): value for name, value in properties.items()}
        return self.code(SUBSCRIBE, bytes([subscription]) + text(stream) + offset + struct.pack(">H", credit) + mapping(**named))

    def credit(self, count, subscription=1):
        self.send(CREDIT, struct.pack(">BH", subscription, count))

    def chunk(self, subscription=1, deadline_s=DEADLINE_S):
        frame = self.next(DELIVER, deadline_s)
        reader = Reader(frame.body)
        assert reader.number(1) == subscription
        committed = reader.number(8) if frame.version == 2 else None
        chunk = Chunk(reader)
        assert not reader.body
        chunk.committed, chunk.bytes = committed, len(frame.body) + 4
        return chunk

    def bodies(self, count, subscription=1):
        """Bodies of the next messages; a credit is given back for each chunk."""
        found = []
        while len(found) < count:
            found += self.chunk(subscription).bodies()
            self.credit(1, subscription)
        return found

    def is_quiet(self, key, for_s=0.4):
        """Whether no such frame comes."""
        try:
            self.kept.appendleft(self.next(key, for_s))
        except TimeoutError:
            return True
        return False

    def topology(self, *names):
        """Code, host and port of the leader, and replicas of each stream."""
        self.number += 1
        self.send(METADATA, struct.pack(">I", self.number) + array(*map(text, names)))
        reader = Reader(self.next(METADATA, is_response=True).body)
        assert reader.number(4) == self.number
        brokers = {reader.number(2): (reader.text(), reader.number(4)) for _ in range(reader.number(4))}
        streams = {}
        for _ in range(reader.number(4)):
            name, code, leader = reader.text(), reader.number(2), reader.number(2)
            streams[name] = (code, brokers.get(leader), [reader.number(2) for _ in range(reader.number(4))])
        return streams

    def updated(self):
        """Code and stream of the next metadata update."""
        reader = Reader(self.next(METADATA_UPDATE).body)
        return reader.number(2), reader.text()

    def consumer_update(self, answer=b"\0\0", deadline_s=DEADLINE_S):
        """Answers the next consumer update; its subscription, and whether that is active now."""
        reader = Reader(self.next(CONSUMER_UPDATE, deadline_s).body)
        number, subscription, active = reader.number(4), reader.number(1), reader.number(1)
        self.send(0x8000 | CONSUMER_UPDATE, struct.pack(">IH", number, 1) + answer)
        return subscription, bool(active)

    def close(self):
        self.socket.close()
