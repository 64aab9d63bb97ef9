"""From the first byte to the last: who is let in, limits, heartbeats, what ends a connection."""

import struct
import time

import pytest

from frames import (CLOSE, CREATE, CREDIT, DECLARE_PUBLISHER, EXCHANGE_VERSIONS, HEARTBEAT, METADATA_UPDATE, OPEN, PEER_PROPERTIES,
                    SASL_AUTHENTICATE, TUNE, Closed, Reader, array, data, mapping, message, plain, text)


def test_the_handshake_tells_server_mechanisms_limits_and_address(broker):
    client = broker.client()
    assert client.server["product"] == "RabbitMQ" and client.server["version"].startswith("4.")
    assert {"cluster_name", "platform", "copyright", "information"} <= client.server.keys()
    assert "PLAIN" in client.mechanisms and "EXTERNAL" not in client.mechanisms
    assert client.proposed == (1 << 20, 60)
    assert client.properties["advertised_port"] == str(broker.port) and client.properties["advertised_host"]


@pytest.mark.parametrize("key, body", [
    (CREATE, struct.pack(">I", 1) + text("early") + mapping()),
    (DECLARE_PUBLISHER, struct.pack(">I", 1) + b"\1" + text("") + text("early")),
    (OPEN, struct.pack(">I", 1) + text("/")),
    (TUNE, struct.pack(">II", 0, 0)),
    (77, b"\0\0\0\1"),
])
def test_who_is_not_logged_in_can_do_nothing(broker, key, body):
    client = broker.client(opened=False)
    client.send(key, body)
    assert client.is_ended()


def test_wrong_credentials_are_refused(broker):
    for user, password, mechanism, code in [("guest", "wrong", "PLAIN", 8), ("nobody", "x", "PLAIN", 8), ("guest", "guest", "FOO", 7)]:
        client = broker.client(opened=False)
        client.handshake()
        assert client.login(user, password, mechanism) == code
        assert client.is_ended()


def test_a_vhost_that_is_not_there_is_refused(broker):
    client = broker.client(opened=False)
    client.handshake()
    client.login()
    client.tune()
    code, properties = client.open("nowhere")
    assert (code, properties) == (0x0C, {}) and client.is_ended()


def test_large_frames_are_refused_from_their_size(broker):
    client = broker.client(opened=False)
    client.socket.sendall(struct.pack(">IHH", 8193, PEER_PROPERTIES, 1))
    assert client.is_ended()
    client = broker.client(frame_max=4096)
    client.socket.sendall(struct.pack(">IHH", 4097, CREATE, 1))
    reader = Reader(client.next(CLOSE).body)
    assert (reader.number(4), reader.number(2), reader.text()) == (1, 0x0E, "frame too large")


@pytest.mark.parametrize("key, body", [(0x7777, b"\0\0\0\1"), (CREATE, b"\0\0\0\1\0"), (HEARTBEAT, b"\1")])
def test_unknown_frames_end_the_connection_with_a_word(broker, key, body):
    client = broker.client()
    client.send(key, body)
    reader = Reader(client.next(CLOSE).body)
    assert (reader.number(4), reader.number(2), reader.text()) == (1, 0x0D, "unknown frame")
    client.send(0x8000 | CLOSE, struct.pack(">IH", 1, 1))
    assert client.is_ended()


def test_a_client_that_closes_is_answered(broker):
    client = broker.client()
    assert client.code(CLOSE, struct.pack(">H", 1) + text("bye")) == 1
    assert client.is_ended()


def test_heartbeats_come_and_silence_ends_the_connection(broker):
    client, begin = broker.client(heartbeat=1), time.monotonic()
    client.next(HEARTBEAT, 3)
    client.next(HEARTBEAT, 3)
    assert client.is_ended(6) and 1 < time.monotonic() - begin < 6


def test_heartbeats_keep_a_connection(broker):
    client = broker.client(heartbeat=1)
    for _ in range(7):
        client.send(HEARTBEAT)
        time.sleep(0.5)
    assert client.create(broker.name()) == 1


def test_commands_and_their_versions(broker):
    client = broker.client()
    code, reader = client.request(EXCHANGE_VERSIONS, array())
    versions = {reader.number(2): (reader.number(2), reader.number(2)) for _ in range(reader.number(4))}
    known = {1, 2, 5, 6, 7, 9, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x16, 0x17, 0x18, 0x19, 0x1C, 0x1D, 0x1E, 0x1F}
    assert code == 1 and versions.keys() == known
    assert versions.pop(2) == (1, 2) and set(versions.values()) == {(1, 1)}


def test_a_login_may_be_repeated_as_the_same_user_only(broker):
    client = broker.client()
    assert client.login() == 1
    assert client.create(broker.name()) == 1
    assert client.login(mechanism="AMQPLAIN") == 0x14
    assert client.is_ended()
    client = broker.client()
    assert client.code(SASL_AUTHENTICATE, text("PLAIN") + data(plain("guest", "wrong"))) == 8
    assert client.is_ended()


def test_frames_may_come_in_pieces_and_together(broker):
    client, name = broker.client(), broker.name()
    frames = b""
    for number, (key, body) in enumerate([(CREATE, text(name) + mapping()), (CREATE, text(name) + mapping())]):
        body = struct.pack(">I", 100 + number) + body
        frames += struct.pack(">IHH", len(body) + 4, key, 1) + body
    for at in range(0, len(frames), 7):
        client.socket.sendall(frames[at:at + 7])
        time.sleep(0.002)
    codes = [struct.unpack(">IH", client.next(CREATE, is_response=True).body) for _ in range(2)]
    assert codes == [(100, 1), (101, 5)]


def test_arbitrary_bytes_never_harm_others(broker):
    import random
    draw = random.Random(7)
    watcher = broker.client()
    for _ in range(40):
        client = broker.client()
        try:
            for _ in range(20):
                key = draw.choice([draw.randrange(1, 33), draw.randrange(1, 33) | 0x8000, draw.randrange(65536)])
                client.send(key, draw.randbytes(draw.randrange(60)), draw.choice([1, 1, 1, 2, 9]))
        except OSError:
            pass
        client.close()
    assert watcher.create(broker.name()) == 1


def test_closed_is_an_error_for_the_reader(broker):
    client = broker.client(opened=False)
    client.send(TUNE, struct.pack(">II", 0, 0))
    with pytest.raises(Closed):
        client.receive()


def test_a_new_login_takes_away_what_is_no_longer_permitted(own):
    user = own.name()
    own.ctl("add_user", user, "one")
    own.ctl("set_permissions", user, ".*", ".*", ".*")
    client = own.client(user=user, password="one")
    both, read, kept = own.name(), own.name(), own.name()
    for nth, name in enumerate((both, read, kept)):
        assert client.create(name) == 1
        assert client.declare(name, nth) == 1
        assert client.subscribe(name, nth) == 1
    own.ctl("change_password", user, "two")
    own.ctl("set_permissions", user, ".*", kept, f"{kept}|{read}")
    assert client.login(user, "two") == 1
    told = [client.next(METADATA_UPDATE).body for _ in range(2)]
    assert told == [struct.pack(">H", 6) + text(both), struct.pack(">H", 6) + text(read)]
    client.publish([message(b"refused")], publisher=0)
    assert client.errors() == (0, [(0, 18)])
    client.credit(1, subscription=0)
    assert client.next(CREDIT, is_response=True).body == struct.pack(">HB", 4, 0)
    client.publish([message(b"taken")], publisher=2)
    client.confirmed(1, publisher=2)
    assert client.bodies(1, subscription=2) == [b"taken"]
    other = own.client()
    assert other.declare(read) == 1
    other.publish([message(b"read")])
    assert client.bodies(1, subscription=1) == [b"read"]
