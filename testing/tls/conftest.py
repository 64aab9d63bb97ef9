"""Certificates made by openssl, and servers that use them. WARREN_BIN is the binary."""

import os
import pathlib
import signal
import subprocess

import pytest

BINARY = os.environ.get("WARREN_BIN", "warren")
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Certificates:
    """A folder with an authority and what it has signed."""

    def __init__(self, folder, name="Test CA"):
        self.folder = folder
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
                 "-out", "ca.pem", "-subj", f"/CN={name}", "-days", "30")

    def run(self, *arguments):
        return subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def path(self, name):
        return str(self.folder / name)

    def make(self, name, subject, alternative="DNS:localhost,IP:127.0.0.1", days=30):
        """NAME.pem and NAME.key, signed by the authority."""
        self.run("req", "-utf8", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                 "-out", f"{name}.csr", "-subj", subject)
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        dates = ["-days", str(days)] if days > 0 else ["-not_before", "20200101000000Z", "-not_after", "20210101000000Z"]
        if days > 0:
            self.run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                     "-out", f"{name}.pem", *dates, "-sha256", "-extfile", f"{name}.ext")
        else:
            self.expired(name)
        return self

    def expired(self, name):
        """Signs NAME.csr for days of the past: `openssl ca` can, `openssl x509` of this version cannot."""
        (self.folder / "index.txt").write_text("")
        (self.folder / "serial").write_text("1000\n")
        (self.folder / "ca.cnf").write_text(
            "[ca]\ndefault_ca=c\n[c]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n"
            "[p]\ncommonName=supplied\n")
        self.run("ca", "-batch", "-config", "ca.cnf", "-in", f"{name}.csr", "-out", f"{name}.pem", "-cert", "ca.pem",
                 "-keyfile", "ca.key", "-startdate", "20200101000000Z", "-enddate", "20210101000000Z", "-notext",
                 "-extfile", f"{name}.ext")


class Server:
    """A Warren with this configuration, on ports of its own."""

    def __init__(self, folder, configuration):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.configuration, self.data = folder, configuration, folder / "data"
        self.process = None

    def start(self):
        (self.folder / "warren.conf").write_text(self.configuration)
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            [BINARY, "server", "--config", str(self.folder / "warren.conf"), "--data-dir", str(self.data)],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={name: value for name, value in os.environ.items() if name != "WARREN_MANAGEMENT_LISTEN"})
        self.ready = self.process.stdout.readline()
        assert self.ready.startswith("ready "), self.said()
        found = dict(word.split("=", 1) for word in self.ready.split()[1:])
        self.port = int(found["amqps"].rsplit(":", 1)[1]) if "amqps" in found else None
        self.plain = int(found["amqp"].rsplit(":", 1)[1]) if found["amqp"] != "none" else None
        self.https = int(found["https"].rsplit(":", 1)[1]) if "https" in found else None
        self.http = int(found["http"].rsplit(":", 1)[1]) if found["http"] != "none" else None
        return self

    def refused(self):
        """The error of a server that does not start."""
        (self.folder / "warren.conf").write_text(self.configuration)
        done = subprocess.run(
            [BINARY, "server", "--config", str(self.folder / "warren.conf"), "--data-dir", str(self.data)],
            capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        return done.stderr

    def said(self):
        return (self.folder / "log").read_text()

    def ctl(self, *arguments):
        return subprocess.run([BINARY, "ctl", "--data-dir", str(self.data), "-q", *arguments], capture_output=True,
                              text=True, timeout=60)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        self.log.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make("server", "/O=Warren/CN=localhost")
    made.make("alice", "/O=Acme/CN=alice", "DNS:alice.example,email:alice@acme.example")
    made.make("old", "/CN=old", days=0)
    return made


def options(certificates, prefix="ssl_options", name="server"):
    return (f"{prefix}.cacertfile = {certificates.path('ca.pem')}\n{prefix}.certfile = {certificates.path(name + '.pem')}\n"
            f"{prefix}.keyfile = {certificates.path(name + '.key')}\n")


@pytest.fixture(scope="session")
def server(certificates, tmp_path_factory):
    """Both versions, client certificates checked when they are shown, everything encrypted."""
    configuration = (
        "listeners.tcp.default = 127.0.0.1:0\nlisteners.ssl.default = 127.0.0.1:0\n" + options(certificates)
        + "ssl_options.verify = verify_peer\nssl_cert_login_from = common_name\nssl_handshake_timeout = 2000\n"
        + "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n"
        + "management.ssl.port = 0\nmanagement.ssl.ip = 127.0.0.1\n" + options(certificates, "management.ssl")
        + "prometheus.tcp.listener = none\n")
    server = Server(tmp_path_factory.mktemp("server"), configuration).start()
    assert server.ctl("add_user", "alice", "secret").returncode == 0
    assert server.ctl("set_permissions", "alice", ".*", ".*", ".*").returncode == 0
    yield server
    server.end()
    assert "panicked" not in server.said()
