"""MQTT over WebSocket: whole sessions, what is refused before a session begins, and bounds on frames."""

import base64
import os
import socket
import struct
import subprocess

import pytest
from clients import V5, V31, V311, Server
from served import until

LARGE = 300_000


@pytest.mark.parametrize("version", [V31, V311, V5])
def test_a_client_over_websocket_does_what_others_do(broker, version):
    reader = broker.client(f"web{version}", version, web=True)
    reader.subscribe(f"web/{version}", 1)
    broker.client(f"tcp{version}", version).publish(f"web/{version}", b"x" * LARGE, 1)
    assert reader.next().payload == b"x" * LARGE
    reader.publish(f"web/{version}", b"y" * LARGE, 2)
    assert reader.next().payload == b"y" * LARGE
    words = {V31: "3,1,0", V311: "3,1,1", V5: "5, 0"}
    row = [f"web{version}", f"{{'Web MQTT', {{{words[version]}}}}}"]
    assert row in broker.rows("list_web_mqtt_connections", "client_id", "protocol")
    assert row[:1] not in broker.rows("list_mqtt_connections", "client_id")


def test_messages_that_come_fast_come_whole(broker):
    reader = broker.client("web many", V5, web=True)
    reader.subscribe("web/many", 1)
    sender = broker.client("web many sender", V5, web=True)
    sent = [os.urandom(nth * 37 % 9000) for nth in range(300)]
    for body in sent:
        sender.paho.publish("web/many", body, 1)
    assert reader.payloads(300) == sent


def request(broker, path="/ws", protocol="mqtt", **headers):
    """A socket, and what was answered to a request for a WebSocket."""
    client = socket.create_connection(("127.0.0.1", broker.web_port), timeout=10)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             f"Sec-WebSocket-Key: {key}", *(f"{name}: {value}" for name, value in headers.items())]
    if protocol:
        lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = client.recv(4096)
        if not part:
            break
        answer += part
    return client, answer.decode()


def frame(opcode, body, length=None):
    """A masked frame."""
    length = len(body) if length is None else length
    head = bytes([0x80 | opcode, 0x80 | length]) if length < 126 else bytes([0x80 | opcode, 0xFF]) + struct.pack(">Q", length)
    return head + bytes(4) + body


def to_the_end(client):
    found = b""
    while part := client.recv(4096):
        found += part
    return found


def test_requests_that_are_refused(broker):
    assert "101 Switching" in request(broker)[1] and "sec-websocket-protocol: mqtt\r\n" in request(broker)[1].lower()
    assert "101" in request(broker, protocol="mqttv3.1, mqtt")[1]
    for wanted, given in [("404", {"path": "/other"}), ("400", {"protocol": None}), ("400", {"protocol": "amqp"})]:
        client, answer = request(broker, **given)
        assert answer.startswith(f"HTTP/1.1 {wanted} "), answer
    client = socket.create_connection(("127.0.0.1", broker.web_port), timeout=10)
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    # Not asked to upgrade: closed, with an answer or without one.
    assert b" 101 " not in to_the_end(client)


def test_pings_are_answered_and_texts_end_the_connection(broker):
    client, _ = request(broker)
    client.sendall(frame(9, b"there?"))
    assert client.recv(100) == b"\x8a\x06there?"
    client.sendall(frame(1, b"text"))
    found = to_the_end(client)
    assert found[0] == 0x88 and struct.unpack(">H", found[2:4]) == (1003,)


def test_frames_and_origins_have_bounds(tmp_path):
    config = "web_mqtt.ws_opts.max_frame_size = 1000\nweb_mqtt.allow_origins.1 = https://example.com\nweb_mqtt.ws_path = /mqtt\n"
    server = Server(os.environ.get("WARREN_BIN", "warren"), tmp_path, config).start()
    try:
        assert "101" in request(server, "/mqtt")[1] and "101" in request(server, "/mqtt", Origin="https://example.com")[1]
        assert request(server, "/mqtt", Origin="https://example.org")[1].startswith("HTTP/1.1 403 ")
        client, _ = request(server, "/mqtt")
        # The length alone is enough: nothing is waited for.
        client.sendall(frame(2, b"", length=1 << 40))
        to_the_end(client)
        until("it is gone", lambda: not server.rows("list_web_mqtt_connections", "conn_name"))
    finally:
        server.end()


def connect(name):
    """CONNECT of version 3.1.1, in a frame."""
    payload = struct.pack(">H", len(name)) + name
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + payload
    return frame(2, bytes([0x10, len(body)]) + body)


def sent_until_it_blocks(client, block, most):
    """Bytes that the server and the socket between take within a second, at most so many."""
    client.settimeout(1)
    sent = 0
    try:
        while sent < most:
            sent += client.send(block)
    except TimeoutError:
        pass
    return sent


def test_little_is_read_before_the_login(broker):
    client, _ = request(broker)
    before = broker.process_memory()
    client.sendall(frame(2, b"", length=16 << 20))
    # The buffers of the operating system take some of it, the server no more than a CONNECT.
    assert sent_until_it_blocks(client, bytes(1 << 20), 15 << 20) < 15 << 20
    assert broker.process_memory() - before < 4 << 20
    client.close()


def test_what_comes_with_connect_is_read_after_the_login(broker):
    body = b"\x00\x05web/l" + bytes(1_000_000)
    publish = b"\x30" + bytes([0x80 | len(body) & 127, 0x80 | len(body) >> 7 & 127, len(body) >> 14]) + body
    client, _ = request(broker)
    client.sendall(connect(b"large") + frame(2, publish, length=len(publish)) + frame(2, b"\xc0\x00"))
    wanted = b"\x82\x04\x20\x02\x00\x00" + b"\x82\x02\xd0\x00"
    found = b""
    while len(found) < len(wanted):
        part = client.recv(100)
        assert part, found
        found += part
    assert found == wanted
    client.close()


@pytest.fixture
def encrypted(tmp_path):
    """A server with MQTT over TLS, bare and in WebSockets; its certificate is its own authority."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    config = f"web_mqtt.ssl.listener = 127.0.0.1:0\nweb_mqtt.ssl.certfile = {certificate}\nweb_mqtt.ssl.keyfile = {key}\n"
    config += f"mqtt.listeners.ssl.default = 127.0.0.1:0\nssl_options.certfile = {certificate}\nssl_options.keyfile = {key}\n"
    server = Server(os.environ.get("WARREN_BIN", "warren"), tmp_path, config).start()
    server.authority = certificate
    yield server
    server.end()


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("listener", ["mqtts", "mqtt-wss"])
def test_encrypted_clients_do_what_others_do(encrypted, listener, version):
    port, web = encrypted.port_of(listener), listener == "mqtt-wss"
    reader = encrypted.client("reader", version, web=web, port=port, authority=encrypted.authority)
    reader.subscribe("tls/#", 1)
    reader.publish("tls/own", b"x" * LARGE, 2)
    encrypted.client("sender", version).publish("tls/other", b"y" * LARGE, 1)
    assert sorted(reader.payloads(2)) == [b"x" * LARGE, b"y" * LARGE]
    listing = "list_web_mqtt_connections" if web else "list_mqtt_connections"
    assert ["reader", "true"] in encrypted.rows(listing, "client_id", "ssl")
