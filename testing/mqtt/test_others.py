"""Clients that others wrote: mosquitto's programs and MQTT.js, over TCP and over WebSocket."""

import os
import pathlib
import subprocess

import pytest
from served import until

HERE = pathlib.Path(__file__).resolve().parent
LOGIN = ["-u", "guest", "-P", "guest"]
VERSIONS = ["mqttv31", "mqttv311", "mqttv5"]


def mosquitto(broker, program, version, *words):
    return [f"mosquitto_{program}", "-h", "127.0.0.1", "-p", str(broker.port), "-V", version, *LOGIN, *words]


def done(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def listening(broker, queue):
    until(f"{queue} is bound", lambda: [row for row in broker.rows("list_bindings", "destination_name") if queue in row[0]])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquitto_sends_and_receives(broker, version, qos):
    name = f"m{version}{qos}"
    words = ["-i", name, "-t", f"mosquitto/{version}/{qos}/#", "-q", qos, "-C", "3", "-W", "15", "-F", "%t %q %p"]
    reader = subprocess.Popen(mosquitto(broker, "sub", version, *words), stdout=subprocess.PIPE, text=True)
    listening(broker, name)
    for nth in range(3):
        done(mosquitto(broker, "pub", version, "-t", f"mosquitto/{version}/{qos}/{nth}", "-q", qos, "-m", f"body {nth}"))
    found = reader.communicate(timeout=20)[0].splitlines()
    assert found == [f"mosquitto/{version}/{qos}/{nth} {qos} body {nth}" for nth in range(3)]


def test_mosquitto_finds_retained_messages_and_wills(broker):
    for topic in ("a", "b/c"):
        done(mosquitto(broker, "pub", "mqttv5", "-t", f"kept/{topic}", "-m", topic, "-r", "-q", "1"))
    found = done(mosquitto(broker, "sub", "mqttv5", "-t", "kept/#", "-C", "2", "-W", "15", "-F", "%t %r"))
    assert sorted(found.splitlines()) == ["kept/a 1", "kept/b/c 1"]
    # Its exit status says that the time was over.
    removing = mosquitto(broker, "sub", "mqttv5", "-t", "kept/#", "--remove-retained", "-W", "1")
    assert subprocess.run(removing, timeout=20).returncode == 27
    left = subprocess.run(mosquitto(broker, "sub", "mqttv5", "-t", "kept/#", "-W", "1"), timeout=20, capture_output=True)
    assert (left.returncode, left.stdout) == (27, b"")
    reader = subprocess.Popen(mosquitto(broker, "sub", "mqttv5", "-i", "heir", "-t", "last/words", "-C", "1", "-W", "15"), stdout=subprocess.PIPE)
    listening(broker, "heir")
    will = ["--will-topic", "last/words", "--will-payload", "farewell", "--will-qos", "1"]
    dying = subprocess.Popen(mosquitto(broker, "sub", "mqttv5", "-i", "dying", "-t", "none", *will))
    listening(broker, "dying")
    dying.kill()
    assert reader.communicate(timeout=20)[0] == b"farewell\n"
    dying.wait()


def test_mosquitto_asks_and_is_answered(broker):
    words = ["-i", "answerer", "-t", "ask", "-C", "1", "-W", "15", "-F", "%R %D"]
    answerer = subprocess.Popen(mosquitto(broker, "sub", "mqttv5", *words), stdout=subprocess.PIPE, text=True)
    listening(broker, "answerer")
    asked = mosquitto(broker, "rr", "mqttv5", "-t", "ask", "-e", "answers/1", "-m", "?", "-W", "15", "-D", "publish", "correlation-data", "cd")
    asker = subprocess.Popen(asked, stdout=subprocess.PIPE)
    assert answerer.communicate(timeout=20)[0].split() == ["answers/1", "cd"]
    done(mosquitto(broker, "pub", "mqttv5", "-t", "answers/1", "-m", "an answer"))
    assert asker.communicate(timeout=20)[0] == b"an answer\n"


@pytest.mark.parametrize("url, versions", [("mqtt://127.0.0.1:{port}", "345"), ("ws://127.0.0.1:{web_port}/ws", "45")])
def test_mqttjs(broker, url, versions):
    """Version 3.1 over WebSocket asks for another subprotocol, which RabbitMQ refuses, too."""
    modules = pathlib.Path(os.environ.get("CACHE", HERE.parents[1] / ".cache")) / "mqtt" / "node_modules"
    url = url.format(port=broker.port, web_port=broker.web_port)
    command = ["node", str(HERE / "others" / "mqttjs.cjs"), url, *versions]
    ended = subprocess.run(command, env=os.environ | {"NODE_PATH": str(modules)}, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
