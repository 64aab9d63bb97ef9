#!/usr/bin/env python3
"""The same packets to Warren and to RabbitMQ with its MQTT plugin: what comes back is compared.

    testing/mqtt/differ.py WARREN_PORT RABBITMQ_PORT

Each scenario is a list of steps: a packet to send, or a number of packets to wait for. Differences that are documented stand in DIFFERS;
any other one ends the program with status 1, and so does one of those that is not there any more.
"""

import socket
import struct
import sys

WAIT_S = 1.0

# Scenario: why the brokers differ (docs/mqtt.md, docs/known-limits.md).
DIFFERS = {
    "subscribe qos 2, 5": "RabbitMQ grants QoS 1",
    "subscribe qos 2, 4": "RabbitMQ grants QoS 1",
    "publish qos 2, 4": "RabbitMQ ends the connection",
    "publish qos 2, 5": "RabbitMQ ends the connection",
    **{f"wrong password {level}": "RabbitMQ says nothing within the wait" for level in (3, 4, 5)},
    "retained, wildcard": "RabbitMQ does not find it",
    "properties pass": "the order of properties",
    "second connect 5": "Warren says why the connection ends",
    "clients do not send CONNACK 5": "Warren says why the connection ends",
    "level 6": "Warren says why the connection ends",
    "receive maximum 0": "Warren says why the connection ends",
    "topic alias 0": "0x94 in RabbitMQ, 0x82 here",
    **{f"wildcard in topic {level}": "RabbitMQ takes it" for level in (3, 4, 5)},
    **{f"bad filter {level}": "RabbitMQ takes it" for level in (3, 4, 5)},
}


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">H", len(value)) + value


def packet(head, body=b""):
    length, size = b"", len(body)
    while True:
        length += bytes([size % 128 | (0x80 if size > 127 else 0)])
        size //= 128
        if not size:
            return bytes([head]) + length + body


def connect(level, name, clean=True, properties=b"", login=("guest", "guest"), keep_alive=60):
    flags = (2 if clean else 0) | (0xC0 if login else 0)
    v5 = bytes([len(properties)]) + properties if level == 5 else b""
    head = text("MQIsdp" if level == 3 else "MQTT") + bytes([level, flags]) + struct.pack(">H", keep_alive)
    return packet(0x10, head + v5 + text(name) + b"".join(map(text, login or ())))


def subscribe(level, topic, options=0, number=1, properties=b""):
    v5 = bytes([len(properties)]) + properties if level == 5 else b""
    return packet(0x82, struct.pack(">H", number) + v5 + text(topic) + bytes([options]))


def unsubscribe(level, topic, number=2):
    return packet(0xA2, struct.pack(">H", number) + (b"\0" if level == 5 else b"") + text(topic))


def publish(level, topic, body, qos=0, retain=0, number=7, properties=b""):
    v5 = bytes([len(properties)]) + properties if level == 5 else b""
    number = struct.pack(">H", number) if qos else b""
    return packet(0x30 | qos << 1 | retain, text(topic) + number + v5 + body)


PING, BYE = packet(0xC0), packet(0xE0)


def scenarios():
    """Name and steps."""
    for level in (3, 4, 5):
        opened = [connect(level, f"d{level}"), 1]
        yield f"connect {level}", opened
        yield f"ping {level}", [connect(level, "ping"), 1, PING, 1]
        yield f"wrong password {level}", [connect(level, "w", login=("guest", "wrong")), 1]
        for qos in (0, 1):
            yield f"subscribe qos {qos}, {level}", [*opened, subscribe(level, "d/x", qos), 1]
            own = [subscribe(level, f"d/{level}/+", qos), 1, publish(level, f"d/{level}/own", b"own", qos), 1 + qos]
            yield f"to itself qos {qos}, {level}", [*opened, *own]
        yield f"unsubscribe {level}", [*opened, subscribe(level, "d/u"), 1, unsubscribe(level, "d/u"), 1]
        yield f"unsubscribe nothing {level}", [*opened, unsubscribe(level, "never"), 1]
        yield f"second connect {level}", [*opened, connect(level, "d"), 1]
        yield f"wildcard in topic {level}", [*opened, publish(level, "a/#", b"x"), 1]
        yield f"bad filter {level}", [*opened, subscribe(level, "a/#/b"), 1]
        yield f"clients do not send CONNACK {level}", [*opened, packet(0x20, b"\0\0"), 1]
        yield f"retained {level}", [*opened, publish(level, f"r/{level}", b"kept", 1, 1), 1, subscribe(level, f"r/{level}", 1), 2,
                                    publish(level, f"r/{level}", b"", 1, 1), 2]
    for level in (4, 5):
        yield f"subscribe qos 2, {level}", [connect(level, "q2"), 1, subscribe(level, "d/2", 2), 1]
        yield f"publish qos 2, {level}", [connect(level, "q2"), 1, publish(level, "d/2", b"x", 2), 1]
    five = [connect(5, "five"), 1]
    yield "level 6", [connect(6, "x"), 1]
    yield "properties pass", [*five, subscribe(5, "p", 1), 1, publish(5, "p", b"x", 0, properties=b"\x03\0\x01t\x08\0\x01r\x09\0\x01c\x26\0\x01a\0\x01b"), 1]
    yield "nobody listens", [*five, publish(5, "nobody", b"x", 1), 1]
    yield "subscription identifier", [*five, subscribe(5, "si", 1, properties=b"\x0b\x05"), 1, publish(5, "si", b"x"), 1]
    yield "retain as published", [*five, subscribe(5, "rap", 8), 1, publish(5, "rap", b"x", 0, 1), 1, publish(5, "rap", b"", 0, 1), 1]
    yield "no local", [*five, subscribe(5, "nl", 4), 1, publish(5, "nl", b"x"), PING, 1]
    yield "topic alias", [*five, subscribe(5, "ta"), 1, publish(5, "ta", b"1", properties=b"\x23\0\x01"), publish(5, "", b"2", properties=b"\x23\0\x01"), 2]
    yield "topic alias 0", [*five, publish(5, "ta", b"1", properties=b"\x23\0\0"), 1]
    yield "topic alias too large", [*five, publish(5, "ta", b"1", properties=b"\x23\0\x11"), 1]
    yield "authentication method", [connect(5, "auth", properties=b"\x15\0\x01m"), 1]
    yield "receive maximum 0", [connect(5, "rm", properties=b"\x21\0\0"), 1]
    yield "shared subscription", [*five, subscribe(5, "$share/g/x"), 1]
    yield "retained, wildcard", [*five, publish(5, "rw/1", b"kept", 1, 1), 1, subscribe(5, "rw/+", 1), 2]


def packets(client, count):
    """So many packets, or fewer if no more come; `end` for the end of the stream."""
    found, buffer = [], b""
    client.settimeout(WAIT_S)
    while len(found) < count:
        try:
            part = client.recv(65536)
        except TimeoutError:
            return found
        except ConnectionResetError:
            part = b""
        if not part:
            return [*found, "end"]
        buffer += part
        while len(buffer) >= 2:
            size, place, at = 0, 1, 1
            while at < len(buffer):
                size, place, at = size + (buffer[at] & 127) * place, place * 128, at + 1
                if not buffer[at - 1] & 0x80:
                    break
            if len(buffer) < at + size:
                break
            found.append(shown(buffer[0], buffer[at:at + size]))
            buffer = buffer[at + size:]
    return found


def shown(head, body):
    """A packet without what may be said in two ways: reason strings, announcements in CONNACK, acknowledgements without properties."""
    kind = head >> 4
    if kind == 2:
        return f"{head:02x} {body[:2].hex()}"
    if kind == 14:
        return f"{head:02x} {body[:1].hex()}"
    if kind in (4, 5, 6, 7):
        return f"{head:02x} {body[:2].hex()} {body[2] if len(body) > 2 else 0:02x}"
    return f"{head:02x} {body.hex()}"


def run(port, steps):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        found = []
        for step in steps:
            if isinstance(step, bytes):
                try:
                    client.sendall(step)
                except OSError:
                    break
            else:
                found += packets(client, step)
        return found


def main():
    warren, rabbitmq = map(int, sys.argv[1:3])
    failed = same = 0
    for name, steps in scenarios():
        ours, theirs = run(warren, steps), run(rabbitmq, steps)
        is_known = name in DIFFERS
        same += ours == theirs
        if (ours != theirs) != is_known:
            failed += 1
            print(f"{'NO LONGER DIFFERENT' if is_known else 'DIFFERENT'}: {name}\n  warren   {ours}\n  rabbitmq {theirs}")
    print(f"{same} scenarios alike, {len(DIFFERS)} differences are documented, {failed} unexpected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
