"""STOMP over WebSocket: whole sessions, messages and frames that do not match, what is refused, and who comes over TLS."""

import base64
import importlib.util
import os
import pathlib
import socket
import ssl
import subprocess

import pytest
import stomp
import websocket

from clients import CONNECT, Frame, frame
from served import DEADLINE_S, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("tls_certificates", ROOT / "testing" / "tls" / "conftest.py")
_TLS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_TLS)

TEXT, BINARY, CLOSE = 1, 2, 8


def received(web):
    """The next message: its kind, and its frame."""
    kind, data = web.recv_data()
    return kind, data if kind == CLOSE else Frame(data.rstrip(b"\n")[:-1].decode(errors="surrogateescape"))


@pytest.mark.parametrize("binary_mode", [False, True])
def test_a_client_over_websocket_does_what_others_do(broker, binary_mode):
    client, name = broker.web_client(binary_mode=binary_mode), f"/queue/web-{binary_mode}"
    client.subscribe(name, ack="client-individual", prefetch_count=2)
    broker.client().send(name, "from a socket")
    client.send(name, "gr\u00fc\u00dfe", receipt="sent", headers={"persistent": "true"})
    assert client.receipt() == "sent"
    first, second = client.message(), client.message()
    assert {first.body, second.body} == {"from a socket", "gr\u00fc\u00dfe"}
    client.send(name, "x" * 3_000_000)
    client.ack(second.headers["ack"], receipt="acked")
    assert client.receipt() == "acked"
    third = client.message()
    assert len(third.body) == 3_000_000
    client.nack(first.headers["ack"])
    assert client.message().headers["redelivered"] == "true"


def test_messages_that_come_fast_come_whole(broker):
    client = broker.web_client()
    client.subscribe("/queue/web-fast")
    for number in range(3_000):
        client.send("/queue/web-fast", f"{number} " + "y" * (number * 37 % 3_000))
    assert [client.message().body.split()[0] for _ in range(3_000)] == [str(number) for number in range(3_000)]


def test_each_frame_goes_out_in_a_message_and_bytes_in_a_binary_one(broker):
    web = broker.web(CONNECT, frame("SUBSCRIBE", destination="/queue/web-frames", id=1, receipt="on"))
    assert [received(web)[1].command for _ in range(2)] == ["CONNECTED", "RECEIPT"]
    # One frame in three messages, then three in one, and what is no text.
    one = frame("SEND", "ab", destination="/queue/web-frames").encode()
    for part in one[:7], one[7:20]:
        web.send(part)
    web.send_binary(one[20:] + one + one + frame("SEND", "", destination="/queue/web-frames").encode()[:-1] + b"\xff\xfe\0")
    found = [received(web) for _ in range(4)]
    assert [(kind, it.command, it.body) for kind, it in found[:3]] == [(TEXT, "MESSAGE", "ab")] * 3
    assert (found[3][0], found[3][1].body.encode(errors="surrogateescape")) == (BINARY, b"\xff\xfe")


def test_large_frames_are_one_message_in_fragments(broker):
    web = broker.web(CONNECT, frame("SUBSCRIBE", destination="/queue/web-large", id=1))
    received(web)
    body = "\u20ac" * 500_000
    broker.client().send("/queue/web-large", body)
    kind, message = received(web)
    assert (kind, message.body) == (TEXT, body)


def test_names_of_the_protocol_are_negotiated(broker):
    for offered, answered in [(["v10.stomp", "v12.stomp", "v11.stomp"], "v12.stomp"), (["x", "v10.stomp"], "v10.stomp")]:
        assert broker.web(subprotocols=offered).getsubprotocol() == answered
    # The library wants an answer to what it offers itself, so another name goes in by hand.
    for header in {}, {"Sec-WebSocket-Protocol": "mqtt"}:
        web = broker.web(CONNECT, header=header)
        assert web.getsubprotocol() is None and received(web)[1].command == "CONNECTED"


def status_of(broker, **options):
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        broker.web(**options)
    return refused.value.status_code


def test_paths_and_origins_that_are_not_allowed_are_refused(broker, configured):
    assert status_of(broker, path="/other") == 404
    assert received(broker.web(CONNECT, origin="https://example.org"))[1].command == "CONNECTED"
    other = configured("web_stomp.ws_path = /stomp\nweb_stomp.allow_origins.1 = https://example.com\nweb_stomp.ws_frame = binary\n")
    assert status_of(other, path="/ws") == 404
    assert status_of(other, path="/stomp", origin="https://example.org") == 403
    assert received(other.web(CONNECT, path="/stomp", origin="https://example.com"))[0] == BINARY
    assert received(other.web(CONNECT, path="/stomp", suppress_origin=True))[0] == BINARY


def test_a_login_that_is_refused_is_told_before_the_end(broker):
    web = broker.web(CONNECT.replace("passcode:guest", "passcode:x"))
    kind, error = received(web)
    assert (kind, error.command, error.body) == (TEXT, "ERROR", "Access refused for user 'guest'")
    assert received(web)[0] == CLOSE


def test_disconnect_is_answered_and_then_the_websocket_is_closed(broker):
    web = broker.web(CONNECT, frame("DISCONNECT", receipt="bye"))
    assert [received(web)[1].command for _ in range(2)] == ["CONNECTED", "RECEIPT"]
    assert received(web)[0] == CLOSE


def test_the_request_gives_the_login_where_that_is_wanted(configured):
    broker = configured("web_stomp.use_http_auth = true\n")
    broker.ctl("add_user", "kit", "secret")
    broker.ctl("set_permissions", "kit", ".*", ".*", ".*")

    def user(login, frames=CONNECT):
        header = {"Authorization": "Basic " + base64.b64encode(login).decode()} if login else {}
        web = broker.web(frames, header=header)
        answer = received(web)[1]
        if answer.command == "ERROR":
            return answer.body
        rows = broker.rows("list_stomp_connections", "user")
        web.close()
        until("it has left", lambda: not broker.rows("list_stomp_connections", "user"))
        return rows[0][0]

    # CONNECT says guest, and does not count.
    assert user(b"kit:secret") == "kit"
    assert user(b"kit:wrong") == "Access refused for user 'kit'"
    assert user(None, CONNECT.replace("login:guest", "login:kit")) == "guest"
    assert status_of(broker, header={"Authorization": "Bearer x"}) == 400


def test_frames_and_messages_have_bounds(broker, configured):
    other = configured("web_stomp.ws_opts.max_frame_size = 1000\nstomp.implicit_connect = true\n")
    web = other.web(CONNECT)
    received(web)
    web.send(frame("SEND", "x" * 2000, destination="/queue/a"))
    with pytest.raises((websocket.WebSocketException, OSError)):
        while received(web)[0] != CLOSE:
            pass
        raise websocket.WebSocketException("closed in order")
    until("it is gone", lambda: not other.rows("list_stomp_connections", "conn_name"))
    # Over WebSocket the first frame is always CONNECT.
    error = received(other.web(frame("SEND", "x", destination="/queue/a")))[1]
    assert error.body == "You must log in using CONNECT first"
    # Little is read before the login, and frames are small then.
    assert received(broker.web("CONNECT\na:" + "b" * 70_000))[1].headers["message"] == "Malformed frame"


def test_connections_beyond_the_bound_wait(configured):
    broker = configured("stomp.max_connections = 1\nweb_stomp.max_connections = 1\n")
    first, second = broker.socket(CONNECT), broker.socket(CONNECT)
    assert first.read().command == "CONNECTED"
    second.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        second.read()
    # The bound is one of each listener.
    assert received(broker.web(CONNECT))[1].command == "CONNECTED"
    first.close()
    second.socket.settimeout(DEADLINE_S)
    assert second.read().command == "CONNECTED"


def test_heart_beats_have_messages_of_their_own(broker):
    web = broker.web(CONNECT.replace("host:/", "host:/\nheart-beat:0,1000"))
    received(web)
    assert web.recv_data() == (TEXT, b"\n")


def test_listings_show_connections_and_listeners(broker):
    client = broker.web_client()
    client.subscribe("/queue/web-shown")
    wanted = [["{'Web STOMP', 1.2}", "1.2", "guest"]]
    until("others are gone", lambda: broker.rows("list_stomp_connections", "protocol", "version", "user") == wanted)
    assert ["{'Web STOMP', \"1.2\"}"] in broker.rows("list_connections", "protocol")
    assert [it["protocol"] for it in broker.api("connections") if "STOMP" in it["protocol"]] == ["Web STOMP 1.2"]
    listeners = {it["protocol"]: it["port"] for it in broker.api("overview")["listeners"]}
    assert listeners["http/web-stomp"] == broker.port_of("stomp-ws")
    code, status, _ = broker.ctl("status")
    assert code == 0 and "protocol: http/web-stomp, purpose: STOMP over WebSockets (HTTP)" in status


def test_other_clients_over_websocket(broker):
    modules = ROOT / ".cache" / "stomp" / "node_modules"
    script = ROOT / "testing" / "stomp" / "others" / "stompjs.cjs"
    command = ["node", str(script), f"ws://127.0.0.1:{broker.port_of('stomp-ws')}/ws"]
    done = subprocess.run(command, env={**os.environ, "NODE_PATH": str(modules)}, capture_output=True, text=True, timeout=40)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = _TLS.Certificates(tmp_path_factory.mktemp("certificates"))
    return made.make("server", "/CN=localhost").make("device", "/O=fleet/CN=dev")


@pytest.fixture
def encrypted(configured, certificates):
    """A server with STOMP over TLS, bare and in WebSockets, that knows the user in a client's certificate."""
    path = certificates.path
    of = "".join(f"{{0}}.{key} = {path(name)}\n" for key, name in
                 [("cacertfile", "ca.pem"), ("certfile", "server.pem"), ("keyfile", "server.key")]) + "{0}.verify = verify_peer\n"
    server = configured("stomp.listeners.ssl.default = 127.0.0.1:0\nweb_stomp.ssl.listener = 127.0.0.1:0\nstomp.ssl_cert_login = true\n"
                     "ssl_cert_login_from = common_name\n" + of.format("ssl_options") + of.format("web_stomp.ssl"))
    server.ctl("add_user", "dev", "pw-of-dev")
    server.ctl("set_permissions", "dev", ".*", ".*", ".*")
    return server


def shown(server, protocol):
    assert [protocol, "dev", "true"] in server.rows("list_stomp_connections", "protocol", "user", "ssl")


def test_a_client_over_tls_checks_the_server_and_is_the_user_of_its_certificate(encrypted, certificates):
    port, path = encrypted.port_of("stomps"), certificates.path
    client = stomp.Connection12([("127.0.0.1", port)], vhost="/", reconnect_attempts_max=1)
    client.set_ssl([("127.0.0.1", port)], key_file=path("device.key"), cert_file=path("device.pem"), ca_certs=path("ca.pem"))
    client.connect(wait=True)
    shown(encrypted, "{'STOMP', 1.2}")
    client.disconnect()
    # An authority that did not sign the server's certificate is none for the client.
    context = ssl.create_default_context(cafile=path("device.pem"))
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(("127.0.0.1", port)) as plain:
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_websocket_over_tls_has_the_user_of_its_certificate(encrypted, certificates):
    path = certificates.path
    options = {"ca_certs": path("ca.pem"), "certfile": path("device.pem"), "keyfile": path("device.key")}
    without = "CONNECT\naccept-version:1.2\nhost:/\n\n\0"
    web = encrypted.web(without, name="stomp-wss", scheme="wss", sslopt=options)
    assert received(web)[1].command == "CONNECTED"
    shown(encrypted, "{'Web STOMP', 1.2}")
    with pytest.raises(ssl.SSLCertVerificationError):
        encrypted.web(name="stomp-wss", scheme="wss", sslopt={"ca_certs": path("device.pem")})
    listeners = {it["protocol"] for it in encrypted.api("overview")["listeners"]}
    assert {"https/web-stomp", "stomp/ssl"} <= listeners
