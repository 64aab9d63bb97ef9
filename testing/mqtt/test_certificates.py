"""Users, client ids and vhosts by certificate and by port, as RabbitMQ has them."""

import importlib.util
import json
import os
import pathlib

import pytest

from clients import V5, V311, Server
from served import until

_PATH = pathlib.Path(__file__).resolve().parent.parent / "tls" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("tls_certificates", _PATH)
_TLS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_TLS)

BAD_LOGIN, BAD_CLIENT_ID = 0x86, 0x85
VHOSTS = ("by-port", "by-certificate", "by-name")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = _TLS.Certificates(tmp_path_factory.mktemp("certificates"))
    return made.make("server", "/CN=localhost").make("device", "/O=fleet/CN=dev", "DNS:first,DNS:second,URI:urn:dev:7")


@pytest.fixture
def start(certificates, tmp_path):
    """Starts a server that knows the user in the certificate; more lines of configuration are welcome."""
    servers = []

    def begin(config=""):
        path = certificates.path
        lines = f"mqtt.listeners.ssl.default = 127.0.0.1:0\nssl_options.cacertfile = {path('ca.pem')}\n"
        lines += f"ssl_options.certfile = {path('server.pem')}\nssl_options.keyfile = {path('server.key')}\n"
        lines += "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\n"
        lines += "ssl_cert_login_from = common_name\nmqtt.ssl_cert_login = true\n" + config
        server = Server(os.environ.get("WARREN_BIN", "warren"), tmp_path, lines).start()
        servers.append(server)
        server.tls_port = server.port_of("mqtts")
        server.ctl("add_user", "dev", "pw-of-dev")
        for vhost in ("/", *VHOSTS):
            if vhost != "/":
                server.ctl("add_vhost", vhost)
            for user in "dev", "guest":
                server.ctl("set_permissions", "-p", vhost, user, ".*", ".*", ".*")
        return server

    yield begin
    for server in servers:
        server.end()


def device(server, certificates, name="x", certificate="device", login=None, version=V5):
    """A client over TLS. Without login it says nothing of a user."""
    return server.client(name, version, port=server.tls_port, login=login or (None, None), authority=certificates.path("ca.pem"),
                         certificate=certificate and (certificates.path(certificate + ".pem"), certificates.path(certificate + ".key")))


def who(server, client):
    """User and vhost of a client that is connected; it leaves."""
    assert not client.refused, client.reason
    rows = server.rows("list_mqtt_connections", "user", "vhost")
    client.disconnect()
    until("it has left", lambda: not server.rows("list_mqtt_connections", "user"))
    return tuple(rows[0])


def test_a_client_without_a_login_is_the_user_of_its_certificate(start, certificates):
    server = start()
    for version in V311, V5:
        assert who(server, device(server, certificates, version=version)) == ("dev", "/")
    # A password counts more than the certificate, and half a login is none.
    assert who(server, device(server, certificates, login=("guest", "guest"))) == ("guest", "/")
    assert device(server, certificates, login=("guest", "wrong")).reason.value == BAD_LOGIN
    assert device(server, certificates, login=("guest", None)).reason.value == BAD_LOGIN
    # Without a certificate the client is the anonymous one.
    assert who(server, device(server, certificates, certificate=None)) == ("guest", "/")


@pytest.mark.parametrize("part, client_id", [
    ("distinguished_name", "CN=dev,O=fleet"),
    ("subject_alternative_name", "first"),
    ("subject_alternative_name\nmqtt.ssl_cert_login_san_type = dns\nmqtt.ssl_cert_login_san_index = 1", "second"),
    ("subject_alternative_name\nmqtt.ssl_cert_login_san_type = uri", "urn:dev:7"),
])
def test_the_client_id_is_the_one_in_the_certificate(start, certificates, part, client_id):
    server = start(f"mqtt.ssl_cert_client_id_from = {part}\n")
    assert who(server, device(server, certificates, client_id)) == ("dev", "/")
    for name in "other", "":
        assert device(server, certificates, name).reason.value == BAD_CLIENT_ID
        assert device(server, certificates, name, login=("guest", "guest")).refused
    assert device(server, certificates, "other", version=V311).refused
    # The rule is for clients with a certificate that has such a part.
    assert who(server, device(server, certificates, "other", certificate=None)) == ("guest", "/")


def test_a_certificate_without_that_part_leaves_the_client_id_alone(start, certificates):
    server = start("mqtt.ssl_cert_client_id_from = subject_alternative_name\nmqtt.ssl_cert_login_san_type = email\n")
    assert who(server, device(server, certificates, "any")) == ("dev", "/")


def test_vhosts_come_from_ports_and_certificates(start, certificates):
    server = start()

    def put(name, value):
        code, _, errors = server.ctl("set_global_parameter", name, json.dumps(value))
        assert code == 0, errors

    def plain(login=("guest", "guest")):
        return server.client("x", V311, login=login)

    named = ("by-name:guest", "guest")
    put("mqtt_port_to_vhost_mapping", {str(server.port): "by-port", str(server.tls_port): "by-port"})
    assert who(server, plain()) == ("guest", "by-port")
    assert who(server, plain((None, None))) == ("guest", "by-port")
    # A name in the login counts more than the port, unless there is a certificate.
    assert who(server, plain(named)) == ("guest", "by-name")
    assert who(server, device(server, certificates, certificate=None, login=named)) == ("guest", "by-name")
    assert who(server, device(server, certificates)) == ("dev", "by-port")
    assert device(server, certificates, login=named).reason.value == BAD_LOGIN
    # The certificate counts more than the port.
    put("mqtt_default_vhosts", {"dev": "by-certificate"})
    assert who(server, device(server, certificates)) == ("dev", "by-certificate")
    assert who(server, device(server, certificates, login=("guest", "guest"))) == ("guest", "by-certificate")
    # A map without an entry leaves the choice to the login. A vhost that is not there is refused.
    put("mqtt_default_vhosts", {"another": "by-certificate"})
    put("mqtt_port_to_vhost_mapping", {str(server.port): "nowhere"})
    assert who(server, device(server, certificates, login=named)) == ("guest", "by-name")
    assert plain().refused
    put("mqtt_port_to_vhost_mapping", {str(server.port): 7})
    assert plain().refused
    for name in "mqtt_port_to_vhost_mapping", "mqtt_default_vhosts":
        assert server.ctl("clear_global_parameter", name)[0] == 0
    assert who(server, plain()) == ("guest", "/")


def test_the_maps_survive_a_restart(start, certificates):
    server = start()
    server.ctl("set_global_parameter", "mqtt_default_vhosts", json.dumps({"dev": "by-certificate"}))
    server.leave()
    server.process.stop()
    server.start()
    server.tls_port = server.port_of("mqtts")
    assert who(server, device(server, certificates)) == ("dev", "by-certificate")
