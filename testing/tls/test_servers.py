"""Servers: refusals, faults that they survive, and exchange of certificates."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pika
import pytest

from conftest import BINARY, Certificates, Server, options
from test_clients import CACHE, connected, context, round_trip

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


@pytest.mark.parametrize("asked", ["SIGHUP", "reload_certificates", "RabbitMQ's code", "an unusable file"])
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
        shutil.copy(own.path("other.key"), own.path("server.key"))
        if asked == "an unusable file":
            server.process.send_signal(signal.SIGHUP)
            until(lambda: "the old one stays" in server.said() and "server.key" in server.said())
            refused = server.ctl("reload_certificates")
            assert refused.returncode == 65 and own.path("server.key") in refused.stderr
            assert f"{own.path('server.pem')}: CN=first, valid until" in refused.stderr
            assert subject() == "first"
        else:
            shutil.copy(own.path("other.pem"), own.path("server.pem"))
            if asked == "SIGHUP":
                server.process.send_signal(signal.SIGHUP)
                until(lambda: subject() == "second")
            else:
                command = ["reload_certificates"] if asked == "reload_certificates" else ["eval", "ssl:clear_pem_cache()."]
                done = server.ctl(*command)
                assert done.returncode == 0 and "ssl_options.certfile: CN=second" in done.stdout
                assert subject() == "second"
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


def test_a_certificate_that_ends_soon_is_told_everywhere(certificates, tmp_path):
    own = Certificates(tmp_path, "Test CA").make("server", "/CN=soon", days=10)
    configuration = ("listeners.tcp.default = 127.0.0.1:0\nlisteners.ssl.default = 127.0.0.1:0\nmanagement.tcp.port = 0\n"
                     "prometheus.tcp.listener = none\nwarren.event_exchange = true\n" + options(own))
    server = Server(tmp_path / "server", configuration).start()
    end = int(ssl.cert_time_to_seconds(own.run("x509", "-in", "server.pem", "-noout", "-enddate").strip().split("=", 1)[1]))
    try:
        assert "ssl_options.certfile: CN=soon, valid until" in server.ctl("status").stdout
        listed = json.loads(server.ctl("status", "--formatter", "json").stdout)["certificates"]
        assert [(one["file"], one["not_after"]) for one in listed if one["subject"] == "CN=soon"] == [("certfile", end)]
        assert server.ctl("check_certificate_expiration", "--unit", "days", "--within", "9").returncode == 0
        assert server.ctl("check_certificate_expiration", "--unit", "days", "--within", "11").returncode != 0

        def get(path):
            request = urllib.request.Request(f"http://localhost:{server.http}{path}", headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
            return urllib.request.urlopen(request).read().decode()

        assert json.loads(get("/api/health/checks/certificate-expiration/9/days")) == {"status": "ok"}
        with pytest.raises(urllib.error.HTTPError) as failed:
            get("/api/health/checks/certificate-expiration/11/days")
        (told,) = json.load(failed.value)["expired"]
        day = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(end))
        assert failed.value.code == 503
        assert (told["protocol"], told["port"], told["certfile_expires_on"], told["cacertfile_expires_on"]) == ("amqp/ssl", server.port, [day], [])

        connection = pika.BlockingConnection(pika.ConnectionParameters("localhost", server.plain))
        channel = connection.channel()
        channel.queue_declare("events")
        channel.queue_bind("events", "amq.rabbitmq.event", "tls.certificate.#")
        assert server.ctl("reload_certificates").returncode == 0
        events = []
        until(lambda: events.append(channel.basic_get("events", True)) or events[-1][0])
        method, properties, _ = events[-1]
        assert method.routing_key == "tls.certificate.expires"
        headers = properties.headers
        assert (headers["key"], headers["subject"], headers["issuer"]) == ("ssl_options.certfile", "CN=soon", "CN=Test CA")
        assert (headers["file"], headers["not_after"], headers["has_expired"]) == (own.path("server.pem"), end, False)
        connection.close()
        assert re.search(r"CN=soon \(ssl_options.certfile\) expires in (9|10) days; replace " + own.path("server.pem"), server.said())
    finally:
        server.end()


def test_metrics_say_when_certificates_end(certificates, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = LISTEN.replace("prometheus.tcp.listener = none", f"prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {port}")
    server = Server(tmp_path, configuration + options(certificates)).start()
    end = int(ssl.cert_time_to_seconds(certificates.run("x509", "-in", "server.pem", "-noout", "-enddate").strip().split("=", 1)[1]))
    try:
        page = urllib.request.urlopen(f"http://localhost:{port}/metrics").read().decode()
        (own,) = [line for line in page.split("\n") if line.startswith("warren_tls_") and 'key="ssl_options.certfile"' in line]
        assert f'file="{certificates.path("server.pem")}",subject="CN=localhost,O=Warren"' in own and own.endswith(f" {end}")
    finally:
        server.end()


def test_a_client_gets_the_certificate_for_the_name_that_it_asks_for(tmp_path):
    own = Certificates(tmp_path).make("server", "/CN=own").make("shop", "/CN=shop", "DNS:shop.example,DNS:*.shops.example")
    own.make("other", "/CN=other shop", "DNS:shop.example")
    named = "".join(f"{keys}.sni.shop.certfile = {own.path('shop.pem')}\n{keys}.sni.shop.keyfile = {own.path('shop.key')}\n"
                    for keys in ("ssl_options", "management.ssl"))
    configuration = ("listeners.tcp = none\nlisteners.ssl.default = 127.0.0.1:0\nprometheus.tcp.listener = none\nmanagement.ssl.port = 0\n"
                     + options(own) + options(own, "management.ssl") + named)
    server = Server(tmp_path / "server", configuration).start()
    made = ssl.create_default_context(cafile=own.path("ca.pem"))
    made.check_hostname = False

    def subject(port, asked):
        with socket.create_connection(("localhost", port)) as raw, made.wrap_socket(raw, server_hostname=asked) as shown:
            return dict(part[0] for part in shown.getpeercert()["subject"])["commonName"]

    try:
        for port in (server.port, server.https):
            assert [subject(port, asked) for asked in ("shop.example", "a.shops.example", "elsewhere.example", "localhost", None)] == [
                "shop", "shop", "own", "own", "own"]
        assert "ssl_options.sni.shop.certfile: CN=shop" in server.ctl("status").stdout
        shutil.copy(own.path("other.pem"), own.path("shop.pem"))
        refused = server.ctl("reload_certificates")
        assert refused.returncode == 65 and own.path("shop.key") in refused.stderr and subject(server.port, "shop.example") == "shop"
        shutil.copy(own.path("other.key"), own.path("shop.key"))
        assert server.ctl("reload_certificates").returncode == 0
        assert (subject(server.port, "shop.example"), subject(server.port, "a.shops.example")) == ("other shop", "own")
    finally:
        server.end()


@pytest.mark.skipif(not (CACHE / "rabbitmqadmin/bin/rabbitmqadmin").exists(), reason="rabbitmqadmin is not installed")
def test_rabbitmqadmin_works_over_https(certificates, tmp_path):
    configuration = (LISTEN.replace("warren.management = off\n", "management.ssl.port = 0\n") + options(certificates)
                     + options(certificates, "management.ssl") + "management.ssl.verify = verify_peer\n"
                     + "management.ssl.fail_if_no_peer_cert = true\n")
    server = Server(tmp_path, configuration).start()
    tool = [str(CACHE / "rabbitmqadmin/bin/rabbitmqadmin"), "--host", "localhost", "--port", str(server.https), "--use-tls"]
    trusts = ["--tls-ca-cert-file", certificates.path("ca.pem")]
    shows = ["--tls-cert-file", certificates.path("alice.pem"), "--tls-key-file", certificates.path("alice.key")]

    def run(*words):
        return subprocess.run([*tool, *words], capture_output=True, text=True, timeout=60)

    try:
        done = run(*trusts, *shows, "queues", "declare", "--name", "over.https", "--type", "classic")
        assert done.returncode == 0, done.stdout + done.stderr
        done = run(*trusts, *shows, "queues", "list")
        assert done.returncode == 0 and "over.https" in done.stdout
        assert run("--insecure", *shows, "queues", "list").returncode == 0
        assert run(*trusts, "queues", "list").returncode != 0, "no certificate is shown"
        assert run(*shows, "queues", "list").returncode != 0, "the authority is not trusted"
    finally:
        server.end()
