"""Writes seen.json: what a running RabbitMQ shows. It has an AMQPS listener with the certificates in FOLDER (ca.pem, server.pem,
server.key), `verify_peer`, the mechanisms PLAIN and EXTERNAL, and the plugins rabbitmq_management and rabbitmq_auth_mechanism_ssl.

    record.py FOLDER AMQPS_PORT HTTP_PORT LOG_FILE RABBITMQCTL...
"""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import behaves
from conftest import Certificates


class Broker:
    """The parts of a broker that behaves.py needs."""

    def __init__(self, port, http, log, ctl):
        self.port, self.http, self.log, self.command = port, http, log, ctl

    def ctl(self, *arguments):
        return subprocess.run([*self.command, "-q", *arguments], capture_output=True, text=True, timeout=60, check=True).stdout

    @contextlib.contextmanager
    def configured(self, login_from, kind, nth):
        for key, value in (("from", login_from), ("san_type", kind), ("san_index", nth)):
            self.ctl("eval", f"application:set_env(rabbit, ssl_cert_login_{key}, {value}).")
        yield self.port, self.log.read_text

    @staticmethod
    def refused(log):
        found = re.search(r"EXTERNAL login refused: (.*)", log)
        name = found and re.match(r"user '(.*)' - invalid credentials", found[1])
        return name[1] if name else found and found[1]


class Existing(Certificates):
    """The certificates of a broker that runs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)


def main(folder, port, http, log, *ctl):
    certificates = Existing(folder)
    behaves.make(certificates)
    strangers = Certificates(pathlib.Path(tempfile.mkdtemp()), "Other CA").make("eve", "/CN=eve")
    seen = behaves.all_of(Broker(int(port), int(http), pathlib.Path(log), ctl), certificates, strangers)
    text = json.dumps(seen, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    (pathlib.Path(__file__).parent / "seen.json").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
