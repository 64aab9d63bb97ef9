"""State after a kill: sessions, their messages, retained messages."""

import socket
import struct

import differ
from clients import V5, V311
from served import DEADLINE_S


def test_a_kill_leaves_what_was_acknowledged(fresh):
    sessions = {version: {"clean": False, "expiry_s": 1000 if version == V5 else None} for version in (V311, V5)}
    for version, options in sessions.items():
        client = fresh.client(f"kept{version}", version, **options)
        client.subscribe("kill/#", 2)
        client.subscribe("dot.ted/+", 1)
        client.disconnect()
    sender = fresh.client("sender", V5)
    for nth in range(50):
        assert sender.publish("kill/x", b"%d" % nth, 1 + nth % 2) == 0
    sender.publish("dot.ted/x", b"dots", 1)
    for nth in range(20):
        sender.publish(f"retained/{nth}", b"old", 1, retain=True)
        sender.publish(f"retained/{nth}", b"%d" % nth, nth % 2, retain=True)
    sender.publish("retained/3", b"", 1, retain=True)
    fresh.kill()
    fresh.start()
    for version, options in sessions.items():
        client = fresh.client(f"kept{version}", version, **options)
        assert client.session_present
        # Messages of QoS 2 are given out later: when they are released.
        count = 51 if version == V311 else 52
        found = [client.next() for _ in range(count)]
        assert sorted(int(it.payload) for it in found if it.topic == "kill/x") == list(range(50))
        assert [it.topic for it in found if it.payload == b"dots"] == ["dot.ted/x"]
        fresh.client(f"again{version}").publish("kill/y", b"goes on", 1)
        assert client.next().payload == b"goes on"
    reader = fresh.client("reader")
    reader.subscribe("retained/#", 1)
    found = {message.topic: message.payload for message in (reader.next() for _ in range(19))}
    assert found == {f"retained/{nth}": b"%d" % nth for nth in range(20) if nth != 3}
    reader.nothing()


class Raw:
    """A client of version 3.1.1 that says only what it is told to, with a session that stays."""

    def __init__(self, server, name):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
        self.bytes = b""
        self.send(differ.connect(4, name, clean=False))
        head, body = self.next()
        assert (head, body[1]) == (0x20, 0)

    def send(self, packet):
        self.socket.sendall(packet)

    def ack(self, head, number):
        self.send(differ.packet(head, struct.pack(">H", number)))

    def next(self):
        """Type and flags, and the body, of the next packet; all are short."""
        while len(self.bytes) < 2 or len(self.bytes) < 2 + self.bytes[1]:
            more = self.socket.recv(4096)
            assert more, "the broker ends the connection"
            self.bytes += more
        end = 2 + self.bytes[1]
        packet, self.bytes = self.bytes[:end], self.bytes[end:]
        return packet[0], packet[2:]

    def message(self):
        """Packet id and payload."""
        head, body = self.next()
        assert head & 0xF6 == 0x34, "a message of QoS 2"
        length = struct.unpack(">H", body[:2])[0]
        return struct.unpack(">H", body[2 + length:4 + length])[0], body[4 + length:]


PUBREC, PUBREL, PUBCOMP = 0x50, 0x62, 0x70


def test_a_message_of_qos_2_that_is_half_done_is_finished_after_a_kill(fresh):
    reader = Raw(fresh, "half")
    reader.send(differ.subscribe(4, "half/#", 2))
    assert reader.next()[0] == 0x90
    fresh.client("sender").publish("half/x", b"once", 2)
    number, payload = reader.message()
    assert payload == b"once"
    reader.ack(PUBREC, number)
    assert reader.next() == (PUBREL, struct.pack(">H", number))
    fresh.kill()
    fresh.leave()
    fresh.start()
    reader = Raw(fresh, "half")
    # The packet id tells the client that it is the same message.
    assert reader.message() == (number, b"once")
    reader.ack(PUBREC, number)
    assert reader.next() == (PUBREL, struct.pack(">H", number))
    reader.ack(PUBCOMP, number)
    sender = fresh.client("sender")
    sender.publish("half/x", b"next", 2)
    second, payload = reader.message()
    assert (payload, second != number) == (b"next", True)
    # Without a crash a message that was received is released, and does not come again.
    reader.ack(PUBREC, second)
    assert reader.next() == (PUBREL, struct.pack(">H", second))
    reader = Raw(fresh, "half")
    assert reader.next() == (PUBREL, struct.pack(">H", second))
    reader.ack(PUBCOMP, second)
    sender.publish("half/x", b"last", 2)
    assert reader.message()[1] == b"last"


def test_a_publish_of_qos_2_that_has_its_pubrec_is_there_once_after_a_kill(fresh):
    reader = fresh.client("reader", clean=False)
    reader.subscribe("taken/#", 2)
    reader.disconnect()
    sender = Raw(fresh, "taken")
    field = lambda text: struct.pack(">H", len(text)) + text
    sender.send(differ.packet(0x34, field(b"taken/x") + struct.pack(">H", 7) + b"once"))
    assert sender.next() == (PUBREC, struct.pack(">H", 7))
    fresh.kill()
    fresh.leave()
    fresh.start()
    # The sender does not repeat what has its PUBREC: it goes on with PUBREL.
    sender = Raw(fresh, "taken")
    sender.ack(PUBREL, 7)
    assert sender.next() == (PUBCOMP, struct.pack(">H", 7))
    reader = fresh.client("reader", clean=False)
    assert reader.session_present and reader.next().payload == b"once"
    reader.nothing()
