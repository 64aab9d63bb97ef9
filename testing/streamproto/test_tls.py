"""The stream protocol over TLS: RabbitMQ's client for Python, logins by certificate, the address that clients are told."""

import asyncio
import importlib.util
import os
import pathlib
import re
import ssl
import struct
import time

import pytest

from conftest import Server
from frames import FIRST, METADATA, Closed, array, data, message, text

rstream = pytest.importorskip("rstream")

CERTIFICATES = pathlib.Path(__file__).resolve().parent.parent / "tls" / "conftest.py"
CONFIG = """
prometheus.tcp.listener = none
stream.listeners.tcp.default = 127.0.0.1:0
stream.listeners.ssl.default = 127.0.0.1:0
stream.advertised_host = in-clear.example
stream.advertised_tls_host = localhost
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
ssl_cert_login_from = common_name
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/server.pem
ssl_options.keyfile = {folder}/server.key
ssl_options.verify = verify_peer
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("certificates_of_tls", CERTIFICATES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.Certificates(tmp_path_factory.mktemp("certificates"))
    made.make("server", "/O=Warren/CN=localhost").make("alice", "/O=Acme/CN=alice")
    made.make("nobody", "/CN=nobody").make("old", "/CN=alice", days=0)
    return made


@pytest.fixture(scope="module")
def secure(certificates, tmp_path_factory):
    if "STREAM_PORT" in os.environ:
        pytest.skip("needs a broker of its own")
    server = Server.start(tmp_path_factory.mktemp("secure"), CONFIG.format(folder=certificates.folder))
    server.tls_port = int(re.findall(r"^ready .* streams=127.0.0.1:(\d+)", server.process.log_text(), re.MULTILINE)[-1])
    server.ctl("add_user", "alice", "secret")
    server.ctl("set_permissions", "alice", ".*", ".*", ".*")
    yield server
    server.end()


def context(certificates, name=None):
    made = ssl.create_default_context(cafile=certificates.path("ca.pem"))
    if name:
        made.load_cert_chain(certificates.path(f"{name}.pem"), certificates.path(f"{name}.key"))
    return made


def by_certificate(server, certificates, name="alice", response=b""):
    """A client that shows a certificate, and the code of its login without a password."""
    client = server.client(opened=False, port=server.tls_port, tls=context(certificates, name))
    client.handshake()
    return client, client.code(0x13, text("EXTERNAL") + data(response))


def test_rabbitmqs_client_publishes_and_consumes_over_tls(secure, certificates):
    name = secure.name()
    at = {"host": "localhost", "port": secure.tls_port, "username": "guest", "password": "guest", "ssl_context": context(certificates)}

    async def run():
        got = []
        async with rstream.Producer(**at) as producer:
            await producer.create_stream(name)
            await producer.send_batch(name, [rstream.AMQPMessage(body=b"%d" % nth) for nth in range(1000)])
            await producer.send_wait(name, rstream.AMQPMessage(body=b"x" * 900_000))
        async with rstream.Consumer(**at) as consumer:
            async def take(it, _):
                got.append(bytes(it.body))
            first = rstream.ConsumerOffsetSpecification(rstream.OffsetType.FIRST, None)
            await consumer.subscribe(name, take, decoder=rstream.amqp_decoder, offset_specification=first)
            for _ in range(1500):
                if len(got) == 1001:
                    break
                await asyncio.sleep(0.01)
        assert got == [b"%d" % nth for nth in range(1000)] + [b"x" * 900_000]
    asyncio.run(run())


def test_rabbitmqs_client_logs_in_by_its_certificate(secure, certificates):
    name = secure.name()
    at = {"host": "localhost", "port": secure.tls_port, "username": "", "password": "", "ssl_context": context(certificates, "alice"),
          "sasl_configuration_mechanism": rstream.SlasMechanism.MechanismExternal}

    async def run():
        async with rstream.Producer(**at) as producer:
            await producer.create_stream(name)
            await producer.send_wait(name, rstream.AMQPMessage(body=b"one"))
            lines = secure.ctl("-q", "list_stream_connections", "user", "auth_mechanism", "ssl", "peer_cert_subject")
            assert any(line.split("\t") == ["alice", "EXTERNAL", "true", "CN=alice,O=Acme"] for line in lines.splitlines()), lines
    asyncio.run(run())


def test_a_certificate_logs_in_only_whom_it_names(secure, certificates):
    client, code = by_certificate(secure, certificates)
    assert "EXTERNAL" in client.mechanisms and code == 1
    client.tune()
    assert client.open()[0] == 1
    # Once more, as the protocol allows: the certificate is the same.
    assert client.code(0x13, text("EXTERNAL") + data(b"")) == 1
    client, code = by_certificate(secure, certificates, "nobody")
    assert code == 8 and client.is_ended()


def test_external_is_not_taken_without_a_certificate(secure, certificates):
    for options in ({"port": secure.port}, {"port": secure.tls_port, "tls": context(certificates)}):
        client = secure.client(opened=False, **options)
        client.handshake()
        assert client.code(0x13, text("EXTERNAL") + data(b"alice")) != 1
        assert client.is_ended()


def test_expired_certificates_and_clear_text_are_refused(secure, certificates):
    with pytest.raises((ssl.SSLError, ConnectionError, Closed)):
        by_certificate(secure, certificates, "old")
    clear = secure.client(opened=False, port=secure.tls_port)
    clear.send(0x11, struct.pack(">I", 1) + array())
    assert clear.is_ended()


def test_clients_are_told_the_address_of_their_kind(secure, certificates):
    name = secure.name()
    told = {}
    for kind, options in {"clear": {}, "tls": {"port": secure.tls_port, "tls": context(certificates)}}.items():
        client = secure.client(**options)
        client.create(name)
        _, reader = client.request(METADATA, array(text(name)))
        # The answer has no code: a count of brokers begins where other answers have theirs.
        assert (reader.number(2), reader.number(2)) == (1, 0)
        told[kind] = (reader.text(), reader.number(4))
        assert client.properties["advertised_host"] == told[kind][0]
    assert told == {"clear": ("in-clear.example", secure.port), "tls": ("localhost", secure.tls_port)}


def test_large_chunks_and_a_slow_reader_over_tls(secure, certificates):
    client, name = secure.client(port=secure.tls_port, tls=context(certificates)), secure.name()
    client.create(name)
    client.declare(name)
    bodies = [bytes([nth % 251]) * 50_000 for nth in range(200)]
    for at in range(0, 200, 10):
        client.publish([message(body) for body in bodies[at:at + 10]], first=at)
    client.confirmed(200)
    client.subscribe(name, offset=FIRST, credit=100)
    time.sleep(1)
    assert client.bodies(200) == bodies
