"""Clients of three languages at any node while all nodes are restarted one after the other: nothing that was confirmed is lost."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pika
import pytest

from nodes import Cluster, eventually, ok

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "testing" / "clients"
CACHE = pathlib.Path(os.environ.get("CACHE", ROOT / ".cache"))


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """How each client is started."""
    built = tmp_path_factory.mktemp("through")
    environment = {**os.environ, "GOMODCACHE": f"{CACHE}/go/mod", "GOCACHE": f"{CACHE}/go/build", "GOFLAGS": "-mod=readonly -modcacherw", "GOTOOLCHAIN": "local"}
    subprocess.run(["go", "build", "-o", str(built / "through"), "./through"], cwd=CLIENTS / "go", env=environment, check=True)
    jars = ":".join(str(jar) for name in ("amqp-client", "slf4j-api") for jar in (CACHE / "java").glob(f"{name}-*.jar"))
    subprocess.run(["javac", "-cp", jars, "-d", str(built), str(CLIENTS / "java" / "Through.java")], check=True)
    return {
        "pika": [sys.executable, str(CLIENTS / "python" / "through.py")],
        "go": [str(built / "through")],
        "java": ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}:{built}", "Through"],
    }


def declare(node, queue, queue_type):
    connection = pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port))
    connection.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": queue_type})
    connection.close()


def restart(cluster, node, end):
    """As the page about clusters says: the node ends when the others can do without it, and has its next life."""
    ok(node, "await_online_quorum_plus_one")
    end()
    time.sleep(1)
    node.start()
    cluster.wait(cluster.nodes)
    ok(node, "await_online_nodes", "3")


def show_what_is_left(cluster, clients):
    """Clients wait a minute for their last messages. What they still wait for after half of it is printed."""
    until = time.monotonic() + 30
    while any(client.poll() is None for client in clients.values()) and time.monotonic() < until:
        time.sleep(0.2)
    for node in cluster.nodes if time.monotonic() >= until else ():
        for words in ("list_queues name pid messages_ready messages_unacknowledged consumers", "list_consumers", "list_channels pid user consumer_count messages_unacknowledged"):
            print(node.name, words, node.ctl(*words.split()), sep="\n")


def check_through(cluster, commands, queue_type, restarts):
    """Clients work at all nodes until `restarts` is through; nothing that was confirmed is lost."""
    clients = {}
    for node, (name, command) in zip(cluster.nodes, commands.items()):
        declare(node, name, queue_type)
        others = [it for it in cluster.nodes if it is not node]
        addresses = [f"{it.host}:{it.port}" for it in (*others, node)]
        clients[name] = subprocess.Popen([*command, name, *addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(3)
        restarts()
        [client.stdin.close() for client in clients.values()]
        show_what_is_left(cluster, clients)
        said = {name: json.loads(client.stdout.read().splitlines()[-1]) for name, client in clients.items()}
    finally:
        [client.kill() for client in clients.values()]
    print(queue_type, said)
    for name, figures in said.items():
        assert not figures["lost"], (name, figures)
        assert figures["confirmed"] > 100, (name, figures)
    return said


@pytest.mark.timeout(240)
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_nothing_confirmed_is_lost_while_nodes_are_restarted_and_killed_in_turn(three, commands, queue_type):
    def restarts():
        for end in ("stop", "kill"):
            for node in three.nodes:
                restart(three, node, getattr(node, end))
                time.sleep(1)

    for name, figures in check_through(three, commands, queue_type, restarts).items():
        assert figures["connects"] > 2, (name, figures)


@pytest.mark.timeout(240)
@pytest.mark.skipif("WARREN_BIN_BEFORE" not in os.environ, reason="WARREN_BIN_BEFORE is the binary of the release before")
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_nothing_confirmed_is_lost_while_nodes_are_upgraded_in_turn(binary, tmp_path, commands, queue_type):
    with Cluster(os.environ["WARREN_BIN_BEFORE"], tmp_path, 3) as cluster:

        def upgrades():
            """The steps of docs/upgrading.md."""
            for nth, node in enumerate(cluster.nodes):
                ok(node, "await_online_quorum_plus_one")
                ok(node, "drain")
                node.stop()
                node.binary = node.command[0] = binary
                node.start()
                cluster.wait(cluster.nodes)
                ok(node, "await_online_nodes", "3")
                if queue_type == "quorum":
                    eventually(lambda node=node: ok(node, "list_queues", "name", "in_sync").count(node.name) == len(commands), "the node is in sync again", 60)
                # Changes of metadata through a node of each release.
                for other in cluster.nodes:
                    ok(other, "add_vhost", f"v{nth}-{other.name}")
            status = cluster.nodes[0].status
            assert {it["state"] for it in status["feature_flags"]} == {"enabled"}
            assert sorted(status["versions"]) == [node.name for node in cluster.nodes], status

        check_through(cluster, commands, queue_type, upgrades)
        vhosts = [set(ok(node, "list_vhosts", "--no-table-headers", "--silent").split()) for node in cluster.nodes]
        assert vhosts[0] == vhosts[1] == vhosts[2] and len(vhosts[0]) == 10
