"""What servers refuse, survive and exchange."""

import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.request

import pika
import pytest

from conftest import BINARY, Certificates, Server, options
from test_clients import connected, context, round_trip

LISTEN = "listeners.tcp = none\nlisteners.ssl.default = 127.0.0.1:0\nprometheus.tcp.listener = none\nwarren.management = off\n"


def until(check, seconds=15):
    ends = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < ends, "not in time"
        time.sleep(0.1)


def test_clients_of_foreign_authorities_and_expired_ones_are_refused(server, certificates, tmp_path):
    strangers = Certificates(tmp_path, "Other CA").make("eve", "/CN=eve")
    made = context(certificates)
    made.load_cert_chain(strangers.path("eve.pem"), strangers.path("eve.key"))
    for refused in (made, context(certificates, name="old")):
        with pytest.raises(Exception):
            connected(server, refused)
    with pytest.raises(Exception):
        connected(server, ssl.create_default_context(cafile=strangers.path("ca.pem")))


def test_garbage_and_clients_that_say_nothing_are_closed_and_others_go_on(server, certificates):
    connection = connected(server, context(certificates))
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for garbage in (b"AMQP\0\0\x09\x01", os.urandom(4000), b"\x16\x03\x01\xff\xff" + os.urandom(3000), b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as broken:
            broken.settimeout(10)
            try:
                broken.sendall(garbage)
                while broken.recv(4096):
                    pass
            except ConnectionError:
                pass
    round_trip(connection, 100_000)
    started = time.monotonic()
    for one in silent:
        one.settimeout(10)
        assert one.recv(1) == b""
    assert time.monotonic() - started < 8
    connection.close()


def test_a_flood_of_handshakes_leaves_established_connections_alone(server, certificates):
    connection = connected(server, context(certificates))
    stop = threading.Event()
    made = context(certificates)
    done = [0]

    def flood():
        while not stop.is_set():
            with socket.create_connection(("localhost", server.port)) as raw, made.wrap_socket(raw, server_hostname="localhost"):
                done[0] += 1

    threads = [threading.Thread(target=flood) for _ in range(4)]
    [thread.start() for thread in threads]
    try:
        for _ in range(50):
            round_trip(connection, 1000)
    finally:
        stop.set()
        [thread.join() for thread in threads]
    assert done[0] > 20
    connection.close()


def test_https_serves_the_api(server, certificates):
    request = urllib.request.Request(f"https://localhost:{server.https}/api/overview")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    made = ssl.create_default_context(cafile=certificates.path("ca.pem"))
    listeners = json.load(urllib.request.urlopen(request, context=made))["listeners"]
    assert {"amqp", "amqp/ssl", "https"} <= {one["protocol"] for one in listeners}
    ctl = [BINARY, "ctl", "--url", f"https://guest:guest@localhost:{server.https}"]
    done = subprocess.run([*ctl, "--tls-ca-cert-file", certificates.path("ca.pem"), "list_users"], capture_output=True, text=True)
    assert done.returncode == 0 and "alice" in done.stdout
    assert subprocess.run([*ctl, "--insecure", "list_users"], capture_output=True).returncode == 0
    done = subprocess.run([*ctl, "list_users"], capture_output=True, text=True)
    assert done.returncode != 0 and "certificate" in done.stderr + done.stdout


@pytest.mark.parametrize("asked", ["SIGHUP", "an unusable file"])
def test_a_certificate_is_exchanged_under_load_and_nobody_is_cut_off(certificates, tmp_path, asked):
    own = Certificates(tmp_path, "Test CA")
    own.make("server", "/CN=first").make("other", "/CN=second")
    server = Server(tmp_path / "server", LISTEN + options(own)).start()
    made = ssl.create_default_context(cafile=own.path("ca.pem"))
    connections = [connected(server, made) for _ in range(5)]
    stop, errors, counts = threading.Event(), [], [0] * 5

    def load(index):
        try:
            while not stop.is_set():
                round_trip(connections[index], 20_000)
                counts[index] += 1
        except Exception as error:
            errors.append(error)

    def subject():
        with socket.create_connection(("localhost", server.port)) as raw, made.wrap_socket(raw, server_hostname="localhost") as shown:
            return dict(part[0] for part in shown.getpeercert()["subject"])["commonName"]

    threads = [threading.Thread(target=load, args=(index,)) for index in range(5)]
    [thread.start() for thread in threads]
    try:
        assert subject() == "first"
        if asked == "SIGHUP":
            shutil.copy(own.path("other.pem"), own.path("server.pem"))
            shutil.copy(own.path("other.key"), own.path("server.key"))
            server.process.send_signal(signal.SIGHUP)
            until(lambda: subject() == "second")
        else:
            shutil.copy(own.path("other.key"), own.path("server.key"))
            server.process.send_signal(signal.SIGHUP)
            until(lambda: "the old one stays" in server.said() and "server.key" in server.said())
            assert subject() == "first"
        before = list(counts)
        until(lambda: all(now > then for now, then in zip(counts, before)))
    finally:
        stop.set()
        [thread.join() for thread in threads]
        [connection.close() for connection in connections]
        server.end()
    assert not errors


def test_a_start_with_files_that_do_not_fit_says_which(certificates, tmp_path):
    foreign = Certificates(tmp_path).make("other", "/CN=other")
    lines = LISTEN + options(certificates) + f"ssl_options.keyfile = {foreign.path('other.key')}\n"
    assert "other.key" in Server(tmp_path / "a", lines).refused()
    assert "certfile" in Server(tmp_path / "b", LISTEN).refused()
    assert "tlsv1.1" in Server(tmp_path / "c", LISTEN + options(certificates) + "ssl_options.versions.1 = tlsv1.1\n").refused()
    weak = LISTEN + options(certificates) + "ssl_options.ciphers.1 = DES-CBC3-SHA\n"
    assert "DES-CBC3-SHA" in Server(tmp_path / "d", weak).refused()


def test_a_proxy_says_whose_connection_it_is(certificates, tmp_path):
    configuration = (LISTEN.replace("listeners.tcp = none", "listeners.tcp.default = 127.0.0.1:0") + options(certificates)
                     + "proxy_protocol = true\nssl_handshake_timeout = 2000\nloopback_users = none\n")
    server = Server(tmp_path, configuration).start()
    try:
        first = b"PROXY TCP4 203.0.113.7 10.0.0.1 40000 5672\r\n"
        second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + socket.inet_aton("203.0.113.8") + socket.inet_aton("10.0.0.1") + struct.pack(">HH", 40001, 5671)
        for header, port in ((first, server.plain), (second, server.plain), (first, server.port), (second, server.port)):
            raw = socket.create_connection(("localhost", port))
            raw.sendall(header)
            if port == server.port:
                raw = context(certificates).wrap_socket(raw, server_hostname="localhost")
            raw.sendall(b"AMQP\0\0\x09\x01")
            assert raw.recv(1) == b"\x01", header
            raw.close()
        with socket.create_connection(("localhost", server.plain)) as raw:
            raw.settimeout(10)
            raw.sendall(b"AMQP\0\0\x09\x01" + b"\0" * 8)
            try:
                assert raw.recv(100) == b""
            except ConnectionError:
                pass
        until(lambda: "PROXY" in server.said())
    finally:
        server.end()


def test_a_shovel_dials_over_tls_and_checks_the_certificate(server, certificates, tmp_path):
    strangers = Certificates(tmp_path, "Other CA")

    def shovel(name, authority):
        uri = f"amqps://guest:guest@localhost:{server.port}?cacertfile={authority}&verify=verify_peer"
        value = {"src-uri": "amqp://", "src-queue": f"from-{name}", "dest-uri": uri, "dest-queue": f"to-{name}", "src-delete-after": "never"}
        assert server.ctl("set_parameter", "shovel", name, json.dumps(value)).returncode == 0

    connection = connected(server, context(certificates))
    channel = connection.channel()
    for name in ("good", "bad"):
        channel.queue_declare(f"from-{name}", durable=True)
        channel.queue_declare(f"to-{name}", durable=True)
        channel.basic_publish("", f"from-{name}", b"moved")
    shovel("good", certificates.path("ca.pem"))
    shovel("bad", strangers.path("ca.pem"))
    until(lambda: channel.basic_get("to-good", True)[2] == b"moved", 30)
    until(lambda: "certificate" in server.said(), 30)
    assert channel.basic_get("to-bad", True)[0] is None
    for name in ("good", "bad"):
        server.ctl("clear_parameter", "shovel", name)
        channel.queue_delete(f"from-{name}")
        channel.queue_delete(f"to-{name}")
    connection.close()
