"""Options and fixtures of the conformance suite: which broker, which flavour, and who cleans up."""

import contextlib
import os
import shlex
import subprocess

import pytest

import client


def pytest_addoption(parser):
    parser.addoption("--url", default="amqp://guest:guest@127.0.0.1:5672/%2F", help="the broker under test")
    parser.addoption("--flavor", default="warren", choices=["warren", "rabbitmq4", "rabbitmq3"], help="what it is")
    parser.addoption("--ctl", default="", help="a rabbitmqctl-compatible command prefix, for users, vhosts, permissions")


class Broker:
    """The broker under test: connects, and knows which flavour's answers to expect."""

    def __init__(self, url, flavor, ctl):
        self.url, self.flavor, self.ctl_prefix = url, flavor, shlex.split(ctl)
        self.opened, self.track = [], []

    def pick(self, default, **by_flavor):
        """The expectation of this flavour. ``default`` is RabbitMQ 4.3's, which Warren shares unless named."""
        return by_flavor.get(self.flavor, default)

    def connect(self, **options):
        """A tuned and open connection (or only the socket with ``start=False``), closed after the test."""
        user, password = options.pop("user", None), options.pop("password", None)
        url = self.url
        if user is not None:
            url = url.replace(url.split("//")[1].split("@")[0], f"{user}:{password}")
        connection = client.Connection(url, track=self.track, **options)
        self.opened.append(connection)
        return connection

    def ctl(self, *args, check=True):
        """Runs a control command quietly and returns its output."""
        if not self.ctl_prefix:
            pytest.skip("needs --ctl")
        result = subprocess.run([*self.ctl_prefix, *args], capture_output=True, text=True, timeout=30)
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def clean(self):
        """Deletes what was declared, by a fresh connection per virtual host, then closes all connections."""
        for connection in self.opened:
            connection.close()
        self.opened.clear()
        todo, self.track[:] = list(dict.fromkeys((c.vhost, kind, name) for kind, c, name in self.track)), []
        for vhost in {vhost for vhost, _, _ in todo}:
            with contextlib.suppress(client.Closed, client.SocketClosed):
                self._delete(vhost, [(kind, name) for v, kind, name in todo if v == vhost])

    def _delete(self, vhost, names):
        connection = client.Connection(self.url, vhost=vhost)
        channel = connection.channel()
        for kind, name in names:
            if not name or name.startswith("amq."):
                continue
            try:
                channel.call(f"{kind}.delete", **{kind: name})
            except client.ChannelClosed:
                channel = connection.channel()
        connection.close()


def _broker(request):
    option = request.config.getoption
    return Broker(option("--url"), option("--flavor"), option("--ctl") or os.environ.get("CONFORMANCE_CTL", ""))


@pytest.fixture
def broker(request):
    broker = _broker(request)
    yield broker
    broker.clean()


@pytest.fixture(scope="session")
def session_broker(request):
    """A broker handle that outlives tests, for users and virtual hosts."""
    broker = _broker(request)
    yield broker
    broker.clean()


@pytest.fixture
def conn(broker):
    return broker.connect()


@pytest.fixture
def ch(conn):
    return conn.channel()


@pytest.fixture
def ch2(broker):
    """A channel on a second connection."""
    return broker.connect().channel()
