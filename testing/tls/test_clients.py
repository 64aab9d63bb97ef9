"""Client libraries over both versions of TLS, with and without certificates of their own."""

import asyncio
import os
import pathlib
import ssl
import subprocess

import aio_pika
import pika
import pytest

from conftest import BINARY, ROOT, Server, options

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
CACHE = pathlib.Path(os.environ.get("CACHE", ROOT / ".cache"))


def context(certificates, version=None, name=None):
    made = ssl.create_default_context(cafile=certificates.path("ca.pem"))
    if version:
        made.minimum_version = made.maximum_version = VERSIONS[version]
    if name:
        made.load_cert_chain(certificates.path(f"{name}.pem"), certificates.path(f"{name}.key"))
    return made


def connected(server, made, credentials=None):
    more = {"credentials": credentials} if credentials else {}
    return pika.BlockingConnection(pika.ConnectionParameters(
        "localhost", server.port, ssl_options=pika.SSLOptions(made, "localhost"), **more))


def round_trip(connection, bytes_each=3_000_000):
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    body = os.urandom(1000) * (bytes_each // 1000)
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue, True)[2] == body


@pytest.mark.parametrize("name", [None, "alice"])
@pytest.mark.parametrize("version", VERSIONS)
def test_pika(server, certificates, version, name):
    connection = connected(server, context(certificates, version, name))
    round_trip(connection)
    columns = ["ssl", "ssl_protocol", "ssl_hash", "peer_cert_subject", "peer_cert_issuer"]
    listed = server.ctl("list_connections", *columns, "--no-table-headers").stdout.split("\n")[0].split("\t")
    subject = ["CN=alice,O=Acme", "CN=Test CA"] if name else ["", ""]
    assert listed == ["true", f"tlsv{version}", "aead", *subject]
    connection.close()


@pytest.mark.parametrize("name", [None, "alice"])
@pytest.mark.parametrize("version", VERSIONS)
def test_aio_pika(server, certificates, version, name):
    async def go():
        url = f"amqps://guest:guest@localhost:{server.port}/"
        connection = await aio_pika.connect(url, ssl_context=context(certificates, version, name))
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"x" * 200_000), queue.name)
            message = await queue.get(no_ack=True, timeout=5)
            assert len(message.body) == 200_000
    asyncio.run(go())


def outside(command, certificates, server, version, name, **more):
    """Runs a program that gets all it needs from its environment."""
    environment = {**os.environ, "TLS_PORT": str(server.port), "TLS_CA": certificates.path("ca.pem"), "TLS_VERSION": version, **more}
    if name:
        environment |= {"TLS_CERT": certificates.path(f"{name}.pem"), "TLS_KEY": certificates.path(f"{name}.key")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [None, "alice"])
@pytest.mark.parametrize("version", VERSIONS)
def test_amqplib(server, certificates, version, name):
    outside(["node", str(HERE / "node.js")], certificates, server, version, name, NODE_PATH=str(CACHE / "node/node_modules"))


@pytest.mark.parametrize("name", [None, "alice"])
@pytest.mark.parametrize("version", VERSIONS)
def test_amqp091_go(server, certificates, version, name):
    go = {"GOMODCACHE": str(CACHE / "go/mod"), "GOCACHE": str(CACHE / "go/build"), "GOFLAGS": "-mod=readonly -modcacherw",
          "GOTOOLCHAIN": "local"}
    outside(["go", "test", "-C", str(ROOT / "testing/clients/go"), "-count=1", "-run", "TestEncrypted", "./..."],
            certificates, server, version, name, **go)


@pytest.fixture(scope="module", params=VERSIONS)
def of_one_version(request, certificates, tmp_path_factory):
    """A server for clients whose version cannot be chosen."""
    configuration = ("listeners.tcp = none\nlisteners.ssl.default = 127.0.0.1:0\nprometheus.tcp.listener = none\nwarren.management = off\n"
                     + options(certificates) + f"ssl_options.versions.1 = tlsv{request.param}\nssl_options.verify = verify_peer\n"
                     + "ssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n")
    server = Server(tmp_path_factory.mktemp("one-version"), configuration).start()
    assert server.ctl("add_user", "alice", "secret").returncode == 0
    assert server.ctl("set_permissions", "alice", ".*", ".*", ".*").returncode == 0
    yield server, request.param
    server.end()


@pytest.mark.parametrize("name", [None, "alice"])
def test_lapin(of_one_version, certificates, name):
    server, version = of_one_version
    outside(["cargo", "test", "--quiet", "--manifest-path", str(ROOT / "Cargo.toml"), "--package", "client-tests", "--test", "lapin",
             "encrypted"], certificates, server, version, name)


@pytest.mark.parametrize("name", [None, "alice"])
@pytest.mark.parametrize("version", VERSIONS)
def test_java_client(server, certificates, tmp_path, version, name):
    trust = tmp_path / "trust.p12"
    subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", certificates.path("ca.pem"), "-keystore",
                    str(trust), "-storetype", "PKCS12", "-storepass", "changeit"], check=True, capture_output=True)
    properties = [f"-Djavax.net.ssl.trustStore={trust}", "-Djavax.net.ssl.trustStorePassword=changeit",
                  f"-Djdk.tls.client.protocols=TLSv{version}"]
    if name:
        store = tmp_path / "own.p12"
        certificates.run("pkcs12", "-export", "-in", f"{name}.pem", "-inkey", f"{name}.key", "-out", str(store), "-passout",
                         "pass:changeit")
        properties += [f"-Djavax.net.ssl.keyStore={store}", "-Djavax.net.ssl.keyStorePassword=changeit",
                       "-Djavax.net.ssl.keyStoreType=PKCS12"]
    done = subprocess.run(
        ["java", *properties, "-cp", str(CACHE / "java/*"), "com.rabbitmq.perf.PerfTest", "-h",
         f"amqps://localhost:{server.port}", "--use-default-ssl-context", "-C", "1000", "-D", "1000", "-c", "100"],
        capture_output=True, text=True, timeout=150)
    assert done.returncode == 0 and "receiving rate avg" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_load_generator(server):
    done = subprocess.run([BINARY, "perf", "-h", f"amqps://localhost:{server.port}", "-x", "1", "-y", "1", "-C", "20000", "-D",
                           "20000", "-c", "500", "-f", "persistent"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "receiving rate avg" in done.stdout, done.stdout + done.stderr


def test_the_user_is_the_name_in_the_certificate(server, certificates):
    external = pika.credentials.ExternalCredentials()
    connection = connected(server, context(certificates, name="alice"), external)
    round_trip(connection, 1000)
    assert "alice\tEXTERNAL" in server.ctl("list_connections", "user", "auth_mechanism").stdout
    connection.close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connected(server, context(certificates), external)
    plain = pika.ConnectionParameters("localhost", server.plain, credentials=external)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(plain)
