"""AMQP 0-9-1 as bytes: field tables of every type, properties, methods by name, frames.

It is a second, independent reading of the protocol, made for tests: it can write what no client library lets you write
(wrong channels, lying sizes, odd field types) and it keeps what arrives exactly as it arrived (raw header bytes, field
order, field types). It knows nothing of sockets, connections or any broker's habits.
"""

import struct
from typing import Any, NamedTuple

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


class T(NamedTuple):
    """A table value with its wire type spelled out, e.g. ``T("l", 5)`` for a signed 64-bit five."""

    kind: str
    value: Any


# ---------------------------------------------------------------------------------------------- field tables

_FIXED = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I",
    "l": ">q", "L": ">Q", "f": ">f", "d": ">d", "T": ">Q",
}  # fmt: skip


def short_string(text):
    """A shortstr: one length octet, at most 255 bytes."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">B", len(data)) + data


def long_string(text):
    """A longstr: four length octets."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">I", len(data)) + data


def guess(value):
    """The wire type that common clients choose for a Python value."""
    if isinstance(value, T):
        return value
    if value is None:
        return T("V", None)
    if isinstance(value, bool):
        return T("t", value)
    if isinstance(value, int):
        return T("I" if -(2**31) <= value < 2**31 else "l", value)
    if isinstance(value, float):
        return T("d", value)
    if isinstance(value, (str, bytes)):
        return T("S", value)
    if isinstance(value, dict):
        return T("F", value)
    if isinstance(value, list):
        return T("A", value)
    raise TypeError(f"no wire type for {value!r}")


def field(value):
    """One field value: type octet and payload."""
    kind, v = guess(value)
    tag = kind.encode()
    if kind == "t":
        return tag + (b"\x01" if v else b"\x00")
    if kind in _FIXED:
        return tag + struct.pack(_FIXED[kind], v)
    if kind in "Sx":
        return tag + long_string(v)
    if kind == "D":
        scale, unscaled = v
        return tag + struct.pack(">Bi", scale, unscaled)
    if kind == "F":
        return tag + table(v)
    if kind == "A":
        data = b"".join(field(item) for item in v)
        return tag + struct.pack(">I", len(data)) + data
    if kind == "V":
        return tag
    raise TypeError(f"unknown field type {kind!r}")


def table_body(pairs):
    """A table without its length prefix. Takes a dict, or a list of pairs when order or duplicates matter."""
    items = pairs.items() if isinstance(pairs, dict) else pairs
    return b"".join(short_string(key) + field(value) for key, value in items)


def table(pairs):
    """A table: four length octets and the pairs."""
    data = table_body(pairs or {})
    return struct.pack(">I", len(data)) + data


class Reader:
    """Reads wire types one after another from a byte string."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        out = self.data[self.at : self.at + count]
        assert len(out) == count, f"wanted {count} bytes at {self.at}, the broker sent {len(out)}"
        self.at += count
        return out

    def number(self, fmt):
        return struct.unpack(fmt, self.take(struct.calcsize(fmt)))[0]

    def short_string(self):
        return self.take(self.number(">B")).decode("utf-8", "surrogateescape")

    def long_string(self):
        return self.take(self.number(">I"))

    def field(self):
        kind = chr(self.number(">B"))
        if kind == "t":
            return T(kind, self.number(">B") != 0)
        if kind in _FIXED:
            return T(kind, self.number(_FIXED[kind]))
        if kind == "S":
            return T(kind, self.long_string().decode("utf-8", "surrogateescape"))
        if kind == "x":
            return T(kind, self.long_string())
        if kind == "D":
            return T(kind, (self.number(">B"), self.number(">i")))
        if kind == "F":
            return T(kind, self.table())
        if kind == "A":
            inner, out = Reader(self.long_string()), []
            while inner.at < len(inner.data):
                out.append(inner.field())
            return T(kind, out)
        if kind == "V":
            return T(kind, None)
        raise AssertionError(f"the broker sent a field of unknown type {kind!r}")

    def table(self):
        """A list of (key, T): order, duplicates and types kept."""
        inner, out = Reader(self.long_string()), []
        while inner.at < len(inner.data):
            out.append((inner.short_string(), inner.field()))
        return out


def plain(value):
    """Typed values as ordinary Python ones: tables become dicts, arrays lists."""
    if isinstance(value, T):
        if value.kind == "F":
            return plain(value.value)
        if value.kind == "A":
            return [plain(item) for item in value.value]
        return value.value
    if isinstance(value, list):
        return {key: plain(item) for key, item in value}
    return value


# ---------------------------------------------------------------------------------------------- properties

PROPERTIES = [
    ("content_type", "s"), ("content_encoding", "s"), ("headers", "F"), ("delivery_mode", "B"), ("priority", "B"),
    ("correlation_id", "s"), ("reply_to", "s"), ("expiration", "s"), ("message_id", "s"), ("timestamp", "T"),
    ("type", "s"), ("user_id", "s"), ("app_id", "s"), ("cluster_id", "s"),
]  # fmt: skip


def properties(values):
    """Property flags and list, as they follow the body size in a content header."""
    flags, out = 0, b""
    for bit, (name, kind) in enumerate(PROPERTIES):
        if values.get(name) is None:
            continue
        flags |= 1 << (15 - bit)
        value = values[name]
        if kind == "s":
            out += short_string(value)
        elif kind == "F":
            out += table(value)
        else:
            out += struct.pack(">B" if kind == "B" else ">Q", value)
    unknown = set(values) - {name for name, _ in PROPERTIES}
    assert not unknown, f"no such properties: {unknown}"
    return struct.pack(">H", flags) + out


def read_properties(data):
    """Property flags and list as a dict; ``headers`` keeps its typed pairs under ``typed_headers`` too."""
    reader, out = Reader(data), {}
    flags = reader.number(">H")
    for bit, (name, kind) in enumerate(PROPERTIES):
        if not flags & (1 << (15 - bit)):
            continue
        if kind == "s":
            out[name] = reader.short_string()
        elif kind == "F":
            out["typed_headers"] = reader.table()
            out["headers"] = plain(out["typed_headers"])
        else:
            out[name] = reader.number(">B" if kind == "B" else ">Q")
    assert reader.at == len(data), f"{len(data) - reader.at} bytes after the properties"
    return out


# ---------------------------------------------------------------------------------------------- methods

_SPEC = """
10 10 connection.start version_major:B version_minor:B server_properties:F mechanisms:S locales:S
10 11 connection.start-ok client_properties:F mechanism:s response:S locale:s
10 20 connection.secure challenge:S
10 21 connection.secure-ok response:S
10 30 connection.tune channel_max:H frame_max:I heartbeat:H
10 31 connection.tune-ok channel_max:H frame_max:I heartbeat:H
10 40 connection.open virtual_host:s capabilities:s insist:t
10 41 connection.open-ok known_hosts:s
10 50 connection.close reply_code:H reply_text:s class_id:H method_id:H
10 51 connection.close-ok
10 60 connection.blocked reason:s
10 61 connection.unblocked
10 70 connection.update-secret new_secret:S reason:s
10 71 connection.update-secret-ok
20 10 channel.open out_of_band:s
20 11 channel.open-ok channel_id:S
20 20 channel.flow active:t
20 21 channel.flow-ok active:t
20 40 channel.close reply_code:H reply_text:s class_id:H method_id:H
20 41 channel.close-ok
30 10 access.request realm:s exclusive:t passive:t active:t write:t read:t
30 11 access.request-ok ticket:H
40 10 exchange.declare ticket:H exchange:s type:s passive:t durable:t auto_delete:t internal:t nowait:t arguments:F
40 11 exchange.declare-ok
40 20 exchange.delete ticket:H exchange:s if_unused:t nowait:t
40 21 exchange.delete-ok
40 30 exchange.bind ticket:H destination:s source:s routing_key:s nowait:t arguments:F
40 31 exchange.bind-ok
40 40 exchange.unbind ticket:H destination:s source:s routing_key:s nowait:t arguments:F
40 51 exchange.unbind-ok
50 10 queue.declare ticket:H queue:s passive:t durable:t exclusive:t auto_delete:t nowait:t arguments:F
50 11 queue.declare-ok queue:s message_count:I consumer_count:I
50 20 queue.bind ticket:H queue:s exchange:s routing_key:s nowait:t arguments:F
50 21 queue.bind-ok
50 30 queue.purge ticket:H queue:s nowait:t
50 31 queue.purge-ok message_count:I
50 40 queue.delete ticket:H queue:s if_unused:t if_empty:t nowait:t
50 41 queue.delete-ok message_count:I
50 50 queue.unbind ticket:H queue:s exchange:s routing_key:s arguments:F
50 51 queue.unbind-ok
60 10 basic.qos prefetch_size:I prefetch_count:H global_:t
60 11 basic.qos-ok
60 20 basic.consume ticket:H queue:s consumer_tag:s no_local:t no_ack:t exclusive:t nowait:t arguments:F
60 21 basic.consume-ok consumer_tag:s
60 30 basic.cancel consumer_tag:s nowait:t
60 31 basic.cancel-ok consumer_tag:s
60 40 basic.publish ticket:H exchange:s routing_key:s mandatory:t immediate:t
60 50 basic.return reply_code:H reply_text:s exchange:s routing_key:s
60 60 basic.deliver consumer_tag:s delivery_tag:Q redelivered:t exchange:s routing_key:s
60 70 basic.get ticket:H queue:s no_ack:t
60 71 basic.get-ok delivery_tag:Q redelivered:t exchange:s routing_key:s message_count:I
60 72 basic.get-empty cluster_id:s
60 80 basic.ack delivery_tag:Q multiple:t
60 90 basic.reject delivery_tag:Q requeue:t
60 100 basic.recover-async requeue:t
60 110 basic.recover requeue:t
60 111 basic.recover-ok
60 120 basic.nack delivery_tag:Q multiple:t requeue:t
85 10 confirm.select nowait:t
85 11 confirm.select-ok
90 10 tx.select
90 11 tx.select-ok
90 20 tx.commit
90 21 tx.commit-ok
90 30 tx.rollback
90 31 tx.rollback-ok
"""


def _parse_spec():
    ids, fields = {}, {}
    for line in _SPEC.strip().splitlines():
        class_id, method_id, name, *args = line.split()
        ids[name] = (int(class_id), int(method_id))
        fields[name] = [tuple(arg.split(":")) for arg in args]
    return ids, fields


IDS, FIELDS = _parse_spec()
NAMES = {ids: name for name, ids in IDS.items()}
CONTENT = {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}
_EMPTY = {"s": "", "S": b"", "F": {}}


def method(name, /, **args):
    """The payload of a method frame; fields left out are zero, empty or false."""
    spec = FIELDS[name]
    unknown = set(args) - {key for key, _ in spec}
    assert not unknown, f"{name} has no {unknown}"
    out, bits, bit_count = struct.pack(">HH", *IDS[name]), 0, 0
    for key, kind in spec:
        value = args.get(key, _EMPTY.get(kind, 0))
        if kind == "t":
            bits, bit_count = bits | bool(value) << bit_count, bit_count + 1
            continue
        if bit_count:
            out, bits, bit_count = out + struct.pack(">B", bits), 0, 0
        if kind == "s":
            out += short_string(value)
        elif kind == "S":
            out += long_string(value)
        elif kind == "F":
            out += table(value)
        else:
            out += struct.pack(">" + kind, value)
    return out + struct.pack(">B", bits) if bit_count else out


def read_method(payload):
    """(name, args) of a method frame; tables are lists of typed pairs."""
    reader = Reader(payload)
    name = NAMES[reader.number(">H"), reader.number(">H")]
    args, bits, bit = {}, 0, 8
    for key, kind in FIELDS[name]:
        if kind == "t":
            if bit > 7:
                bits, bit = reader.number(">B"), 0
            args[key], bit = bool(bits >> bit & 1), bit + 1
            continue
        bit = 8
        if kind == "s":
            args[key] = reader.short_string()
        elif kind == "S":
            args[key] = reader.long_string()
        elif kind == "F":
            args[key] = reader.table()
        else:
            args[key] = reader.number(">" + kind)
    assert reader.at == len(payload), f"{len(payload) - reader.at} bytes after {name}"
    return name, args


# ---------------------------------------------------------------------------------------------- frames


def frame(kind, channel, payload):
    """A whole frame: type, channel, size, payload, end octet."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([FRAME_END])


def header_payload(size, raw_properties, class_id=60):
    """The payload of a content header frame."""
    return struct.pack(">HHQ", class_id, 0, size) + raw_properties


def content_frames(channel, publish_args, props, body, frame_max, raw_properties=None):
    """All frames of one published message, body cut to fit ``frame_max`` (0: not cut)."""
    raw = properties(props) if raw_properties is None else raw_properties
    out = frame(METHOD, channel, method("basic.publish", **publish_args))
    out += frame(HEADER, channel, header_payload(len(body), raw))
    step = frame_max - 8 if frame_max else len(body) or 1
    for at in range(0, len(body), step):
        out += frame(BODY, channel, body[at : at + step])
    return out
