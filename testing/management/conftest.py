"""A Warren of our own on free ports, and clients of its HTTP API. WARREN_BIN is the binary.

`test_void.py` also runs against a broker that runs already: PEER_AMQP=amqp://guest:guest@127.0.0.1:5674/ PEER_HTTP=http://127.0.0.1:15674.
"""

import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))

from api import Api  # noqa: E402
from warren import Warren  # noqa: E402


class Broker:
    """A server that runs."""

    is_peer = False

    def __init__(self, folder):
        self.process = Warren(os.environ.get("WARREN_BIN", "warren"), folder, "prometheus.tcp.port = 0\nwarren.event_exchange = true\n")
        self.process.start()
        self.pid, self.log_text = self.process.pid, self.process.log_text
        place = self.process.http
        self.amqp, self.http = self.process.url.removesuffix("%2F"), f"http://{place}"
        host, port = place.rsplit(":", 1)
        self.address = (host, int(port))

    def memory_kib(self):
        return self.process.rss_bytes() >> 10

    def ctl(self, *words):
        code, out, error = self.process.ctl(*words)
        assert code == 0, error
        return out

    def metrics(self):
        """Address of the pages of metrics."""
        return ("127.0.0.1", int(re.search(r"port: (\d+), protocol: http/prometheus", self.ctl("listeners"))[1]))

    def stop(self):
        self.process.stop()
        assert self.process.child.returncode == 0


class Peer:
    """A RabbitMQ that runs."""

    is_peer = True
    amqp, http = os.environ.get("PEER_AMQP"), os.environ.get("PEER_HTTP")


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    if Peer.http:
        yield Peer
        return
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
