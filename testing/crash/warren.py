"""A Warren server of a suite's own: its configuration, data and log in one folder, on free ports. Knows no test.

    server = Warren(binary, folder, "prometheus.tcp.listener = none")
    server.start()
    server.url, server.http          amqp://guest:guest@HOST:PORT/%2F, HOST:PORT of the HTTP API
    server.ctl("list_queues")        exit code, output, errors
    server.stop()
"""

import pathlib
import re
import subprocess

from broker import Broker

LISTEN = ("--listen", "127.0.0.1:{port}")
MANAGEMENT = ("--management-listen", "127.0.0.1:0")


class Warren(Broker):
    """Not started yet. `flags` say where it listens; its port stays the same over restarts."""

    def __init__(self, binary, folder, config="", flags=(*LISTEN, *MANAGEMENT)):
        self.binary, self.folder, self.data = str(binary), pathlib.Path(folder), pathlib.Path(folder) / "data"
        self.config = self.folder / "warren.conf"
        self.config.write_text(config)
        command = [self.binary, "server", *flags, "--config", str(self.config), "--data-dir", str(self.data)]
        super().__init__(command, str(self.folder / "log"))

    @property
    def http(self):
        """HOST:PORT of the HTTP API since the latest start."""
        return re.findall(r"^ready amqp=\S+ http=(\S+)", self.log_text(), re.MULTILINE)[-1]

    def log_text(self, begin=0):
        """The log from that byte on."""
        with open(self.log_path) as log:
            log.seek(begin)
            return log.read()

    def ctl(self, *words, timeout_s=60):
        """Exit code, standard output and standard error of a command."""
        command = [self.binary, "ctl", "--data-dir", str(self.data), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        return done.returncode, done.stdout, done.stderr
