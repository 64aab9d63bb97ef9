"""Warren beside RabbitMQ 4.3 with the same certificates. `record.py` writes seen.json."""

import contextlib
import json
import pathlib
import re

import pytest

import behaves
from conftest import Certificates, Server, options

SEEN = json.loads((pathlib.Path(__file__).parent / "seen.json").read_text())

# Where Warren differs: (Warren, RabbitMQ). RabbitMQ shows a UID as the Erlang term that it has not decoded, and takes an address as its bytes.
DIFFERS = {
    "distinguished_name: odd": (
        "CN=odd,EMAILADDRESS=o@x.example,SERIALNUMBER=42,UID=u17,DC=example,DC=org",
        "CN=odd,EMAILADDRESS=o@x.example,SERIALNUMBER=42,UID={asn1_OPENTYPE\\,\\<\\<12\\,3\\,117\\,49\\,55\\>\\>},DC=example,DC=org"),
    "ip 0: plain": ("192.0.2.1", SEEN["names"]["ip 0: plain"]),
    "ip 0: odd": ("2001:db8::1", SEEN["names"]["ip 0: odd"]),
}


class Broker:
    """The parts of a broker that behaves.py needs."""

    def __init__(self, certificates, folder):
        self.certificates, self.folder = certificates, folder
        self.server = self.started("common_name", "dns", 0)
        self.port, self.http = self.server.port, self.server.http

    def started(self, login_from, kind, nth):
        configuration = (
            "listeners.tcp = none\nlisteners.ssl.default = 127.0.0.1:0\nmanagement.tcp.port = 0\nprometheus.tcp.listener = none\n"
            + options(self.certificates) + "ssl_options.verify = verify_peer\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n"
            + f"ssl_cert_login_from = {login_from}\nssl_cert_login_san_type = {kind}\nssl_cert_login_san_index = {nth}\n")
        return Server(self.folder / f"{login_from}-{kind}-{nth}-{len(list(self.folder.iterdir()))}", configuration).start()

    def ctl(self, *arguments):
        return self.server.ctl(*arguments).stdout

    @contextlib.contextmanager
    def configured(self, login_from, kind, nth):
        server = self.started(login_from, kind, nth)
        yield server.port, server.said
        server.end()

    @staticmethod
    def refused(log):
        if "no such name in it" in log:
            return "no name found"
        found = re.search(r'login refused: no such user user=(".*")$', log, re.MULTILINE)
        return json.loads(found[1]) if found else None


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("behaves")
    for name in ("own", "foreign", "servers"):
        (folder / name).mkdir()
    certificates = Certificates(folder / "own").make("server", "/O=Warren/CN=localhost").make("old", "/CN=old", days=0)
    strangers = Certificates(folder / "foreign", "Other CA").make("eve", "/CN=eve")
    behaves.make(certificates)
    broker = Broker(certificates, folder / "servers")
    yield behaves.all_of(broker, certificates, strangers)
    broker.server.end()


@pytest.mark.parametrize("part", ["listings", "names", "refusals"])
def test_it_is_as_with_rabbitmq(seen, part):
    differs = {case: (seen[part].get(case), expected) for case, expected in SEEN[part].items() if seen[part].get(case) != expected}
    assert differs == {case: pair for case, pair in DIFFERS.items() if case in SEEN[part]}
