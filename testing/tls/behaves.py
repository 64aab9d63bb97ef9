"""A broker's view of TLS and certificates, as JSON: run beside RabbitMQ once (seen.json), compared with Warren in test_behaves.py."""

import base64
import json
import re
import ssl
import time
import urllib.parse
import urllib.request

import pika

LISTED = ["ssl", "ssl_protocol", "ssl_hash", "peer_cert_subject", "peer_cert_issuer", "peer_cert_validity", "auth_mechanism", "user"]
SHOWN = ["ssl", "ssl_protocol", "ssl_hash", "peer_cert_subject", "peer_cert_issuer", "peer_cert_validity", "auth_mechanism", "user"]

# Subjects of client certificates in OpenSSL's notation, and their alternative names.
SUBJECTS = {
    "plain": ("/O=Acme/CN=plain", "DNS:one.example,DNS:two.example,email:plain@acme.example,URI:urn:example:plain,IP:192.0.2.1"),
    "several": ("/C=DE/ST=Berlin/L=Mitte/O=Acme/OU=Orders/OU=EU/CN=several", "DNS:several.example"),
    "escaped": ("/O=A, B \\+ C/CN=#hash <x>; \"q\" ", "email:escaped@acme.example"),
    "unicode": ("/O=Bücher/CN=Zoë", "DNS:unicode.example"),
    "twice": ("/CN=first/CN=second", "DNS:twice.example"),
    "odd": ("/DC=org/DC=example/UID=u17/serialNumber=42/emailAddress=o@x.example/CN=odd", "IP:2001:db8::1"),
    "nameless": ("/O=No common name", "DNS:nameless.example"),
}

# ssl_cert_login_from, ssl_cert_login_san_type, ssl_cert_login_san_index
LOGINS = {
    "distinguished_name": ("distinguished_name", "dns", 0),
    "common_name": ("common_name", "dns", 0),
    **{f"{kind} {nth}": ("subject_alternative_name", kind, nth) for kind in ("dns", "email", "uri", "ip") for nth in (0, 1)},
}


def make(certificates):
    """All client certificates, once."""
    for name, (subject, alternative) in SUBJECTS.items():
        if not (certificates.folder / f"{name}.pem").exists():
            certificates.make(name, subject, alternative)


def context(certificates, name=None, version=None):
    made = ssl.create_default_context(cafile=certificates.path("ca.pem"))
    if version:
        made.minimum_version = made.maximum_version = version
    if name:
        made.load_cert_chain(certificates.path(f"{name}.pem"), certificates.path(f"{name}.key"))
    return made


def connect(port, made, credentials=None):
    credentials = credentials or pika.PlainCredentials("guest", "guest")
    return pika.BlockingConnection(pika.ConnectionParameters(
        "localhost", port, ssl_options=pika.SSLOptions(made, "localhost"), credentials=credentials, connection_attempts=1))


def dateless(text):
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text) if isinstance(text, str) else text


def listings(broker, certificates):
    """Columns of `list_connections`, and fields of the HTTP API, of one connection each."""
    seen = {}
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for name in (None, "several"):
            connection = connect(broker.port, context(certificates, name, version))
            listed = broker.ctl("list_connections", *LISTED).strip().split("\n")[-1].split("\t")
            ends, shown = time.monotonic() + 20, []
            while not shown and time.monotonic() < ends:
                time.sleep(0.2)
                shown = [one for one in get(broker, "/api/connections") if one.get("ssl") and one.get("auth_mechanism")]
            seen[f"{version.name} {name}"] = {
                "listed": [dateless(value) for value in listed],
                "shown": {key: dateless(shown[0].get(key)) for key in SHOWN},
            }
            connection.close()
            while [one for one in get(broker, "/api/connections") if one.get("ssl")] and time.monotonic() < ends + 20:
                time.sleep(0.2)
    return seen


def get(broker, path):
    request = urllib.request.Request(f"http://localhost:{broker.http}{urllib.parse.quote(path)}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    return json.load(urllib.request.urlopen(request))


def names(broker, certificates):
    """The user name of each certificate, for each setting: taken from the log line of the refused login."""
    seen = {}
    for setting, (login_from, kind, nth) in LOGINS.items():
        with broker.configured(login_from, kind, nth) as (port, said):
            for name in SUBJECTS:
                before = len(said())
                try:
                    connect(port, context(certificates, name), pika.credentials.ExternalCredentials()).close()
                    seen[f"{setting}: {name}"] = "let in"
                    continue
                except pika.exceptions.AMQPConnectionError:
                    pass
                ends, found = time.monotonic() + 5, None
                while found is None and time.monotonic() < ends:
                    time.sleep(0.05)
                    found = broker.refused(said()[before:])
                seen[f"{setting}: {name}"] = found
    return seen


def refusals(broker, certificates, strangers):
    """The outcome of a login with each certificate: `in`, `login` for a refused login, `handshake` for a refused certificate."""
    external = pika.credentials.ExternalCredentials()
    foreign = context(certificates)
    foreign.load_cert_chain(strangers.path("eve.pem"), strangers.path("eve.key"))
    seen = {}
    for case, made, credentials in [
        ("no certificate, password", context(certificates), None),
        ("no certificate, EXTERNAL", context(certificates), external),
        ("good certificate, password", context(certificates, "plain"), None),
        ("good certificate without a user, EXTERNAL", context(certificates, "plain"), external),
        ("expired certificate, password", context(certificates, "old"), None),
        ("certificate of a foreign authority, password", foreign, None),
    ]:
        try:
            connect(broker.port, made, credentials).close()
            seen[case] = "in"
        except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError):
            seen[case] = "login"
        except (pika.exceptions.AMQPConnectionError, OSError):
            seen[case] = "handshake"
    return seen


def all_of(broker, certificates, strangers):
    return {"listings": listings(broker, certificates), "names": names(broker, certificates),
            "refusals": refusals(broker, certificates, strangers)}
