#!/usr/bin/env python3
"""Messages from AMQP 0-9-1 to AMQP 1.0 and back, by Warren and by RabbitMQ 4.3: what arrives is compared.

    testing/amqp10/differ.py WARREN_PORT                    with what RabbitMQ was seen to do
    testing/amqp10/differ.py WARREN_PORT RABBITMQ_PORT      with a RabbitMQ
    testing/amqp10/differ.py --record RABBITMQ_PORT         writes what it does to seen/conversions.json

Needs pika and Qpid Proton. Differences that are documented stand in DIFFERS; any other one ends the program with status 1, and so does
one of those that is not there any more.
"""

import decimal
import json
import sys
import uuid
from pathlib import Path

import pika
import proton
from proton.utils import BlockingConnection

WAIT_S = 5
QUEUE = "differ"
SEEN = Path(__file__).parent / "seen" / "conversions.json"

# Case: why the brokers differ (docs/amqp-1.0.md).
DIFFERS = {
    **{f"{way}: header, decimal": "RabbitMQ ends the connection of the receiver" for way in ("forth", "round_trip")},
    **{f"back: property, {kind}": "RabbitMQ ends the connection of the receiver" for kind in ("uuid", "char")},
}

STAMP_S = 1_700_000_000
A_UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

# Properties of AMQP 0-9-1, each a message.
FORTH = {
    "nothing": {},
    "durable": {"delivery_mode": 2},
    "transient": {"delivery_mode": 1},
    "priority": {"priority": 5},
    "expiration": {"expiration": "60000"},
    "message id": {"message_id": "an id"},
    "message id, uuid": {"message_id": f"urn:uuid:{A_UUID}"},
    "message id, number": {"message_id": "12345"},
    "message id, long": {"message_id": "x" * 255},
    "correlation id": {"correlation_id": "another"},
    "correlation id, uuid": {"correlation_id": f"urn:uuid:{A_UUID}"},
    "reply to": {"reply_to": "a queue/with %"},
    "content": {"content_type": "text/plain", "content_encoding": "gzip"},
    "timestamp": {"timestamp": STAMP_S},
    "app and type": {"app_id": "app", "type": "kind"},
    "user": {"user_id": "guest"},
    "cluster id": {"cluster_id": "c"},
    "header, text": {"headers": {"a": "b"}},
    "header, numbers": {"headers": {"a": 1, "b": -1, "c": 1 << 40, "d": 0}},
    "header, flags": {"headers": {"a": True, "b": False}},
    "header, float": {"headers": {"a": 1.5}},
    "header, void": {"headers": {"a": None}},
    "header, bytes": {"headers": {"a": b"\x00\xff"}},
    "header, decimal": {"headers": {"a": decimal.Decimal("1.5")}},
    "header, table": {"headers": {"a": {"b": 1}}},
    "header, list": {"headers": {"a": [1, "b"]}},
    "x-header, text": {"headers": {"x-a": "b"}},
    "x-header, numbers": {"headers": {"x-a": 1, "x-b": 1 << 40, "x-c": 1.5, "x-d": True}},
    "x-header, table": {"headers": {"x-a": {"b": 1, "c": "d"}}},
    "x-header, list": {"headers": {"x-a": [1, "b", True]}},
    "x-opt header": {"headers": {"x-opt-a": "b"}},
    "cc": {"headers": {"CC": ["nowhere"]}},
    "bcc": {"headers": {"BCC": ["nowhere"]}},
    "header without a name": {"headers": {"": "b"}},
    "long header": {"headers": {"a": "b" * 1000}},
}

# Fields of AMQP 1.0, each a message.
BACK = {
    "nothing": {},
    "durable": {"durable": True},
    "priority": {"priority": 7},
    "priority 0": {"priority": 0},
    "ttl": {"ttl": 60},
    "id, text": {"id": "an id"},
    "id, uuid": {"id": A_UUID},
    "id, number": {"id": proton.ulong(7)},
    "id, bytes": {"id": b"\x01\x02"},
    "id, long": {"id": "x" * 300},
    "correlation id, text": {"correlation_id": "another"},
    "correlation id, uuid": {"correlation_id": A_UUID},
    "correlation id, number": {"correlation_id": proton.ulong(9)},
    "correlation id, bytes": {"correlation_id": b"\x01"},
    "to": {"address": "/queues/other"},
    "subject": {"subject": "a subject"},
    "reply to, queue": {"reply_to": "/queues/replies%2F"},
    "reply to, other": {"reply_to": "anything"},
    "content": {"content_type": "text/plain", "content_encoding": "gzip"},
    "creation": {"creation_time": STAMP_S},
    "expiry": {"expiry_time": STAMP_S * 2},
    "group": {"group_id": "group", "group_sequence": 3},
    "reply group": {"reply_to_group_id": "group"},
    "user": {"user_id": b"guest"},
    "property, text": {"properties": {"a": "b"}},
    "property, numbers": {"properties": {"a": 1, "b": proton.ulong(1 << 63), "c": proton.ubyte(3), "d": proton.short(-3), "e": proton.int32(5)}},
    "property, flags": {"properties": {"a": True, "b": False}},
    "property, floats": {"properties": {"a": 1.5, "b": proton.float32(1.5)}},
    "property, nothing": {"properties": {"a": None}},
    "property, uuid": {"properties": {"a": A_UUID}},
    "property, bytes": {"properties": {"a": b"\x00\xff"}},
    "property, symbol": {"properties": {"a": proton.symbol("s")}},
    "property, timestamp": {"properties": {"a": proton.timestamp(STAMP_S * 1000)}},
    "property, char": {"properties": {"a": proton.char("c")}},
    "property, decimal": {"properties": {"a": proton.decimal32(5)}},
    "property, x": {"properties": {"x-a": "b"}},
    "property, long name": {"properties": {"n" * 300: "b"}},
    "annotation, text": {"annotations": {proton.symbol("x-a"): "b"}},
    "annotation, numbers": {"annotations": {proton.symbol("x-a"): 1, proton.symbol("x-b"): 1.5, proton.symbol("x-c"): True}},
    "annotation, list": {"annotations": {proton.symbol("x-a"): [1, "b"]}},
    "annotation, map": {"annotations": {proton.symbol("x-a"): {"b": 1}}},
    "annotation, type": {"annotations": {proton.symbol("x-basic-type"): "kind"}},
    "annotation, cc": {"annotations": {proton.symbol("x-cc"): ["nowhere"]}},
    "body, text": {"body": "text"},
    "body, number": {"body": 5},
    "body, map": {"body": {"a": 1}},
    "body, list": {"body": [1, 2]},
    "body, nothing": {"body": None},
    "body, sequence": {"body": [1], "inferred": True},
    "body, no bytes": {"body": b"", "inferred": True},
}


def shortened(found, most=600):
    text = str(found)
    return text if len(text) <= most else f"{text[:most]} ..."


def exact(value):
    """A value with the type it has on the wire."""
    if isinstance(value, dict):
        return {f"{type(key).__name__}:{key}": exact(item) for key, item in sorted(value.items(), key=str)}
    if isinstance(value, memoryview):
        return exact(bytes(value))
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    return f"{type(value).__name__}:{value!r}"


def fields_of(message):
    """The parts of a message of AMQP 1.0."""
    names = "durable priority ttl first_acquirer delivery_count id user_id address subject reply_to correlation_id content_type content_encoding expiry_time creation_time group_id group_sequence reply_to_group_id annotations properties body inferred"
    found = {name: getattr(message, name) for name in names.split()}
    return {name: exact(value) for name, value in found.items() if value not in (None, "", {}, b"")}


def fields_of_0_9_1(method, properties, body):
    """The parts of a message of AMQP 0-9-1."""
    found = {name: exact(value) for name, value in vars(properties).items() if value is not None}
    return {"exchange": method.exchange, "key": method.routing_key, "redelivered": method.redelivered, "body": exact(body), **found}


class Broker:
    """A queue, with a client of each protocol."""

    def __init__(self, port):
        self.blocking = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{port}"))
        self.channel = self.blocking.channel()
        self.channel.queue_declare(QUEUE, durable=True)
        self.channel.queue_purge(QUEUE)
        self.connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{port}", allowed_mechs="PLAIN", timeout=WAIT_S)

    def forth(self, properties):
        """From 0-9-1 to 1.0."""
        self.channel.basic_publish("", QUEUE, b"body", pika.BasicProperties(**properties))
        receiver = self.connection.create_receiver(f"/queues/{QUEUE}", credit=1)
        try:
            message = receiver.receive(timeout=WAIT_S)
            receiver.accept()
            return fields_of(message)
        finally:
            receiver.close()

    def back(self, fields):
        """From 1.0 to 0-9-1."""
        sender = self.connection.create_sender(f"/queues/{QUEUE}")
        try:
            sender.send(proton.Message(**{"body": b"body", "inferred": True, **fields}), timeout=WAIT_S)
        finally:
            sender.close()
        for _ in range(100):
            method, properties, body = self.channel.basic_get(QUEUE, auto_ack=True)
            if method:
                return fields_of_0_9_1(method, properties, body)
            self.blocking.sleep(0.02)
        return "nothing comes"

    def round_trip(self, properties):
        """From 0-9-1 to 1.0, sent on as it came, and back."""
        self.channel.basic_publish("", QUEUE, b"body", pika.BasicProperties(**properties))
        receiver = self.connection.create_receiver(f"/queues/{QUEUE}", credit=1)
        message = receiver.receive(timeout=WAIT_S)
        receiver.accept()
        receiver.close()
        sender = self.connection.create_sender(f"/queues/{QUEUE}")
        sender.send(message, timeout=WAIT_S)
        sender.close()
        for _ in range(100):
            method, properties, body = self.channel.basic_get(QUEUE, auto_ack=True)
            if method:
                return fields_of_0_9_1(method, properties, body)
            self.blocking.sleep(0.02)
        return "nothing comes"


def seen(port, way, case):
    """The answer of a broker to a case: clients are new for each, because a refusal ends them."""
    broker = Broker(port)
    try:
        return getattr(broker, way)(case)
    except Exception as refusal:  # noqa: BLE001: what is refused is compared, too
        return f"{type(refusal).__name__}"
    finally:
        for connection in (broker.connection, broker.blocking):
            try:
                connection.close()
            except Exception:  # noqa: BLE001, S110: it may be at its end
                pass


def cases():
    """Every case: which way, its name, and what is sent."""
    return [(way, name, case) for way, named in (("forth", FORTH), ("back", BACK), ("round_trip", FORTH)) for name, case in named.items()]


def all_seen(port):
    """The answers of a broker to all cases."""
    return {f"{way}: {name}": seen(port, way, case) for way, name, case in cases()}


def record(port):
    """Keeps what RabbitMQ does."""
    SEEN.parent.mkdir(exist_ok=True)
    SEEN.write_text(json.dumps(all_seen(port), indent=1, sort_keys=True) + "\n")


def compare(ours, theirs):
    """How many cases are alike, and the text of each difference that is not documented."""
    wrong, alike = [], 0
    for key in sorted(ours.keys() | theirs.keys()):
        of_warren, of_rabbitmq = ours.get(key, "no such case"), theirs.get(key, "not recorded")
        if of_warren == of_rabbitmq:
            alike += 1
            if key in DIFFERS:
                wrong.append(f"{key}: differs no more")
        elif key not in DIFFERS:
            wrong.append(f"{key}\n    Warren   {shortened(of_warren)}\n    RabbitMQ {shortened(of_rabbitmq)}")
    return alike, wrong


def main():
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    if arguments[0] == "--record":
        return record(arguments[1])
    ours = all_seen(arguments[0])
    theirs = all_seen(arguments[1]) if arguments[1:] else json.loads(SEEN.read_text())
    alike, wrong = compare(ours, theirs)
    print(f"{len(ours)} cases, {alike} alike, {len(DIFFERS)} documented differences, {len(wrong)} unexpected")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
