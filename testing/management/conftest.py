"""A Warren of our own on free ports, and clients of its HTTP API. WARREN_BIN is the binary."""

import os
import re
import subprocess

import pytest

from api import Api


class Broker:
    def __init__(self, folder):
        self.binary, self.data = os.environ.get("WARREN_BIN", "warren"), str(folder / "data")
        (folder / "conf").write_text("prometheus.tcp.port = 0\nwarren.event_exchange = true\n")
        command = [self.binary, "server", "--config", str(folder / "conf"), "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--data-dir", self.data]
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        found = re.match(r"ready amqp=(\S+) http=(\S+)", line)
        assert found, f"no ready line but {line!r}; see {folder / 'log'}"
        self.amqp, self.http = f"amqp://guest:guest@{found[1]}/", f"http://{found[2]}"
        host, port = found[2].rsplit(":", 1)
        self.address = (host, int(port))

    def memory_kib(self):
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

    def ctl(self, *words):
        return subprocess.run([self.binary, "ctl", "--data-dir", self.data, *words], capture_output=True, text=True, check=True).stdout

    def metrics(self):
        """Address of the pages of metrics."""
        return ("127.0.0.1", int(re.search(r"port: (\d+), protocol: http/prometheus", self.ctl("listeners"))[1]))

    def log_text(self, begin=0):
        self.log.flush()
        with open(self.log.name) as log:
            log.seek(begin)
            return log.read()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.log.close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("warren"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def vhost_with_q(api, request):
    """The vhost that the module calls V, with a durable queue `q`."""
    vhost = request.module.V
    api("PUT", f"/api/vhosts/{vhost}")
    assert api("PUT", f"/api/queues/{vhost}/q", {"durable": True}).status == 201
    yield
    api("DELETE", f"/api/vhosts/{vhost}")


@pytest.fixture(scope="session")
def api(broker):
    return Api(broker.http)
