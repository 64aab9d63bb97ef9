"""Clients of three languages at any node while all nodes are restarted one after the other: nothing that was confirmed is lost."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pika
import pytest

from nodes import ok

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


@pytest.mark.timeout(240)
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_nothing_confirmed_is_lost_while_nodes_are_restarted_and_killed_in_turn(three, commands, queue_type):
    clients = {}
    for node, (name, command) in zip(three.nodes, commands.items()):
        declare(node, name, queue_type)
        others = [it for it in three.nodes if it is not node]
        addresses = [f"{it.host}:{it.port}" for it in (*others, node)]
        clients[name] = subprocess.Popen([*command, name, *addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(3)
        for node in three.nodes:
            restart(three, node, node.stop)
            time.sleep(1)
        for node in three.nodes:
            restart(three, node, node.kill)
            time.sleep(1)
        said = {name: json.loads(client.communicate(timeout=120)[0].splitlines()[-1]) for name, client in clients.items()}
    finally:
        [client.kill() for client in clients.values()]
    print(queue_type, said)
    for name, figures in said.items():
        assert not figures["lost"], (name, figures)
        assert figures["confirmed"] > 100, (name, figures)
        assert figures["connects"] > 2, (name, figures)
