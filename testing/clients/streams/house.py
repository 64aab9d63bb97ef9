"""The place in which a client's own suite runs: a network namespace with a Warren on the usual ports.

The suites speak to localhost at 5552, 5551, 5672 and 15672, and cannot be told otherwise. The namespace needs root.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

INSIDE = "WARREN_STREAMS_INSIDE"
CONFIG = """
stream.listeners.tcp.default = 127.0.0.1:5552
stream.advertised_host = localhost
prometheus.tcp.listener = none
"""
TLS = """
stream.listeners.ssl.default = 127.0.0.1:5551
stream.advertised_tls_host = localhost
ssl_options.cacertfile = {folder}/ca_certificate.pem
ssl_options.certfile = {folder}/server_certificate.pem
ssl_options.keyfile = {folder}/server_key.pem
ssl_options.verify = verify_peer
"""

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "crash"))
import warren  # noqa: E402


def enter(prepare):
    """The folder of the run. Outside of the namespace: `prepare(folder)` fetches and builds, then the program runs again inside and this
    one ends with its exit code."""
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        # A suite compares the address that the broker tells with the name of the machine.
        subprocess.run(["hostname", "localhost"], check=True)
        return pathlib.Path(os.environ[INSIDE])
    folder = pathlib.Path(tempfile.mkdtemp())
    prepare(folder)
    done = subprocess.run(["unshare", "--net", "--uts", sys.executable, *sys.argv], env=os.environ | {INSIDE: str(folder)})
    sys.exit(done.returncode)


def server(binary, folder, config=CONFIG):
    """A Warren that runs."""
    started = warren.Warren(binary, folder, config, ("--listen", "127.0.0.1:5672", "--management-listen", "127.0.0.1:15672"))
    started.start()
    return started


def keep(logs, name, text):
    """Keeps what the suite said."""
    if logs:
        (pathlib.Path(logs) / name).write_text(text)
