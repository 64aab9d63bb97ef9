"""A cluster of real nodes on this machine, with a proxy between them. Knows no test.

    with Cluster(binary, folder, 3) as cluster:
        a, b, c = cluster.nodes
        a.kill(); a.start()                          kill -9, and a new life on the same ports
        b.pause(); b.resume()                        SIGSTOP, SIGCONT
        cluster.cut(a, b); cluster.heal()            nothing of a reaches b
        cluster.partition([a], [b, c])
        a.running                                    names of nodes that run, as a sees them
"""

import concurrent.futures
import json
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))

from faultproxy import FaultProxy  # noqa: E402
from broker import Failed  # noqa: E402
from warren import LISTEN, MANAGEMENT, Warren  # noqa: E402

COOKIE = "SECRETOFTHETESTS"
# Ports that free_port has given.
GIVEN = set()


def free_port():
    """A port that nobody listens on and that was not given before. The system gives no such port to a client, so it stays free while its node is down."""
    # Tests that run side by side choose among different ports.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4
    while True:
        port = 12_000 + 4 * random.randrange(5_000) + worker
        if port in GIVEN:
            continue
        try:
            with socket.create_server(("127.0.0.1", port)):
                GIVEN.add(port)
                return port
        except OSError:
            pass


class Node(Warren):
    """Not started yet. `door` is where the others dial it."""

    def __init__(self, binary, folder, name, port, door, seeds, config="", flags=(*LISTEN, *MANAGEMENT), cookie=COOKIE):
        self.name, self.cluster_port, self.door = name, port, door
        folder = pathlib.Path(folder)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        if cookie is not None:
            secret = folder / "data" / ".erlang.cookie"
            secret.write_text(cookie)
            secret.chmod(0o600)
        links = ["--node", name, "--cluster-listen", f"127.0.0.1:{port}", "--cluster-advertise", door]
        if seeds:
            links += ["--cluster-seeds", ",".join(seeds)]
        super().__init__(binary, folder, "prometheus.tcp.listener = none\n" + config, (*flags, *links))
        # Clients' own ports are others: none of them takes this one while the node is down.
        self.port = free_port()

    def launch(self):
        """Starts it without waiting until it is ready, which may be never."""
        threading.Thread(target=self._start_or_fail, daemon=True).start()
        eventually(lambda: self.pid is not None, "it has begun")

    def _start_or_fail(self):
        try:
            self.start()
        except (Failed, FileNotFoundError):
            pass

    def pause(self):
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.pid, signal.SIGCONT)

    @property
    def status(self):
        """What `cluster_status` says."""
        code, out, err = self.ctl("cluster_status", "--formatter", "json", timeout_s=20)
        assert code == 0, out + err
        return json.loads(out)

    @property
    def running(self):
        return self.status["running_nodes"]


class Cluster:
    """`count` nodes n1@localhost and so on; each knows the doors of all."""

    def __init__(self, binary, folder, count, config="", base_port=None, cookie=COOKIE):
        self.proxy, folder = FaultProxy(), pathlib.Path(folder)
        names = [f"n{nth}@localhost" for nth in range(1, count + 1)]
        ports = [free_port() for _ in names]
        doors = [self.proxy.door(name, ("127.0.0.1", port)) for name, port in zip(names, ports)]
        self.nodes = []
        for nth, (name, port, door) in enumerate(zip(names, ports, doors), 1):
            flags = (*LISTEN, *MANAGEMENT)
            if base_port:
                flags = ("--listen", f"127.0.0.1:{base_port + nth}", "--management-listen", f"127.0.0.1:{base_port + 10000 + nth}")
            self.nodes.append(Node(binary, folder / f"node{nth}", name, port, door, doors, config, flags, cookie))
        start(self.nodes)
        self.wait(self.nodes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.pid and node.alive():
                node.resume()
                node.kill()
        self.proxy.close()

    def cut(self, sender, receiver):
        self.proxy.cut(sender.name, receiver.name)

    def partition(self, *sides):
        self.proxy.partition(*([node.name for node in side] for side in sides))

    def heal(self):
        self.proxy.heal()

    def wait(self, nodes, wanted=None, deadline_s=20):
        """Until each of these sees exactly these running; tells how long it took."""
        wanted = sorted(node.name for node in wanted or nodes)
        return eventually(lambda: all(sees(node) == wanted for node in nodes), f"{wanted} run", deadline_s)


def ok(node, *words):
    """The output of a command that has to work."""
    code, out, err = node.ctl(*words)
    assert code == 0, out + err
    return out


def rows(node, *words):
    """The output of a command that has to work, as data."""
    return json.loads(ok(node, *words, "--formatter", "json"))


def refused(node, *words):
    """The exit code and the error of a command that has to fail."""
    code, out, err = node.ctl(*words)
    assert code != 0, out
    return code, err.split("\nArguments given:")[0]


def sees(node):
    """The running nodes, as a node sees them; nothing of one that is not ready to say."""
    try:
        return node.running
    except AssertionError:
        return None


def start(nodes):
    """Starts them side by side: the first start of a cluster waits for all of them."""
    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
        for started in concurrent.futures.as_completed([pool.submit(node.start) for node in nodes]):
            if started.exception():
                # The others would wait for this one.
                for node in nodes:
                    if node.pid and node.alive():
                        node.kill()
                raise started.exception()


def eventually(is_so, what, deadline_s=20):
    """Waits until something is so; tells the seconds."""
    begin = time.monotonic()
    while not is_so():
        assert time.monotonic() - begin < deadline_s, f"not within {deadline_s} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - begin
