"""Three nodes on this machine for a person: `make cluster` starts them, and `testing/cluster/local WHAT` does things to them.

    local up [--warren BINARY] [--folder ./warren-cluster] [--nodes 3]     starts and stays until Ctrl-C or `local stop`
    local status                        what each node sees
    local ctl 1 list_queues ...         a command of rabbitmqctl for node 1
    local kill 2                        kill -9
    local start 2                       a new life
    local pause 2, local resume 2       SIGSTOP, SIGCONT
    local cut 1 2                       nothing of node 1 reaches node 2; node 2 still reaches node 1
    local partition 1 2,3               groups of nodes that reach nobody outside their group
    local heal                          everybody reaches everybody
    local stop                          stops all; the folders stay
"""

import argparse
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from nodes import Cluster  # noqa: E402

SOCKET = "control"
BASE_PORT = 5680


class Local:
    """The cluster, and what is asked of it."""

    def __init__(self, cluster):
        self.cluster, self.stopped = cluster, threading.Event()

    def node(self, number):
        return self.cluster.nodes[int(number) - 1]

    def do(self, what, *words):
        """One request; the answer is text."""
        if what == "status":
            return "\n".join(self.line(node) for node in self.cluster.nodes)
        if what == "ctl":
            code, out, err = self.node(words[0]).ctl(*words[1:])
            return out + err + (f"(exit {code})" if code else "")
        if what in ("kill", "pause", "resume"):
            getattr(self.node(words[0]), what)()
        elif what == "start":
            if self.node(words[0]).alive():
                return "it runs"
            self.node(words[0]).start()
        elif what == "cut":
            self.cluster.cut(self.node(words[0]), self.node(words[1]))
        elif what == "partition":
            self.cluster.partition(*([self.node(number) for number in side.split(",")] for side in words))
        elif what == "heal":
            self.cluster.heal()
        elif what == "stop":
            self.stopped.set()
        else:
            return __doc__
        return "done"

    @staticmethod
    def line(node):
        if not node.alive():
            return f"{node.name}: does not run"
        try:
            return f"{node.name}: sees {' '.join(node.running)}"
        except (AssertionError, subprocess.TimeoutExpired):
            return f"{node.name}: does not answer"


def up(options):
    folder = pathlib.Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with Cluster(options.warren, folder, options.nodes, base_port=options.port, cookie=secrets.token_hex(16)) as cluster:
        local = Local(cluster)
        path = folder / SOCKET
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            threading.Thread(target=serve, args=(listener, local), daemon=True).start()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: local.stopped.set())
            print(text_of(cluster, folder), flush=True)
            local.stopped.wait()
        path.unlink(missing_ok=True)
        cluster.heal()
        for node in cluster.nodes:
            if node.alive():
                node.resume()
                node.stop()


def text_of(cluster, folder):
    lines = ["", f"{len(cluster.nodes)} nodes run below {folder}. Ctrl-C stops them.", ""]
    for number, node in enumerate(cluster.nodes, 1):
        lines.append(f"  {number}  {node.name}  {node.url}  http://{node.http}/  log {node.log_path}  pid {node.pid}")
    command = "testing/cluster/local"
    lines += ["", "From another terminal:", ""]
    lines += [f"  {command} {line.strip().removeprefix('local ')}" for line in __doc__.splitlines()[3:] if line.strip()]
    return "\n".join(lines)


def serve(listener, local):
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(client, local), daemon=True).start()


def answer(client, local):
    with client, client.makefile("rw") as stream:
        try:
            text = local.do(*json.loads(stream.readline()))
        except Exception as error:      # whatever was typed wrong is told to whoever has typed it
            text = f"{type(error).__name__}: {error}"
        stream.write(text)


def ask(folder, words):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(os.path.relpath(pathlib.Path(folder) / SOCKET))
        except OSError:
            sys.exit(f"no cluster runs below {folder}: make cluster")
        with client.makefile("rw") as stream:
            stream.write(json.dumps(words) + "\n")
            stream.flush()
            client.shutdown(socket.SHUT_WR)
            print(stream.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="warren-cluster")
    parser.add_argument("--warren", default=os.environ.get("WARREN_BIN", "target/release/warren"))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--port", type=int, default=BASE_PORT, help="AMQP ports are this number and the number of the node")
    parser.add_argument("what")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.what == "up":
        # Options may stand behind the word, too.
        up(parser.parse_args([*options.words, "up"], options))
    else:
        ask(options.folder, [options.what, *options.words])


if __name__ == "__main__":
    main()
