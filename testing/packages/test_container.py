"""A broker that is told all it is to know by RabbitMQ's variables and files, as in a container."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from base64 import b64encode

import pytest

METRICS_OFF = "prometheus.tcp.listener = none\n"


class Container:
    """A server with an environment of its own. Listens on free ports of the loopback."""

    def __init__(self, binary, folder, variables, config_dir=None):
        self.binary, self.folder, self.data = binary, folder, folder / "data"
        self.environment = {
            "PATH": os.environ["PATH"],
            "WARREN_DATA_DIR": str(self.data),
            "WARREN_LISTEN": "127.0.0.1:0",
            "WARREN_MANAGEMENT_LISTEN": "127.0.0.1:0",
            **({"WARREN_CONFIG_DIR": str(config_dir)} if config_dir else {}),
            **variables,
        }

    def __enter__(self):
        self.log = self.folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([self.binary, "server"], env=self.environment, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            ready = re.search(r"^ready amqp=(\S+) http=(\S+)", self.log.read_text(), re.MULTILINE)
            if ready:
                self.amqp, self.http = ready.groups()
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def warnings(self):
        return [line for line in self.log.read_text().splitlines() if "WARN" in line or "warning" in line]

    def get(self, path, user, password):
        request = urllib.request.Request(f"http://{self.http}/api/{path}")
        request.add_header("Authorization", "Basic " + b64encode(f"{user}:{password}".encode()).decode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


@pytest.fixture
def config_dir(tmp_path):
    folder = tmp_path / "etc"
    (folder / "conf.d").mkdir(parents=True)
    (folder / "rabbitmq.conf").write_text(METRICS_OFF + "default_user = of_file\nheartbeat = 7\n")
    return folder


def test_the_first_user_and_vhost_are_those_of_the_variables(binary, tmp_path, config_dir):
    login = {"RABBITMQ_DEFAULT_USER": "shop", "RABBITMQ_DEFAULT_PASS": "hare#1", "RABBITMQ_DEFAULT_VHOST": "orders"}
    with Container(binary, tmp_path, login, config_dir) as one:
        assert one.get("whoami", "shop", "hare#1")["tags"] == ["administrator"]
        assert [vhost["name"] for vhost in one.get("vhosts", "shop", "hare#1")] == ["orders"]
        assert [user["name"] for user in one.get("users", "shop", "hare#1")] == ["shop"]
        assert one.warnings() == []
    # The same again: nothing to say. Another password: it would have no effect.
    with Container(binary, tmp_path, login, config_dir) as one:
        assert one.get("whoami", "shop", "hare#1")["name"] == "shop"
        assert one.warnings() == []
    with Container(binary, tmp_path, {**login, "RABBITMQ_DEFAULT_PASS": "other"}, config_dir) as one:
        assert one.get("whoami", "shop", "hare#1")["name"] == "shop"
        assert any("RABBITMQ_DEFAULT_PASS have no effect" in line for line in one.warnings()), one.warnings()


def test_the_files_of_the_folder_are_read_in_order_and_definitions_are_imported(binary, tmp_path, config_dir):
    (config_dir / "conf.d" / "10-defaults.conf").write_text("loopback_users.guest = false\ncluster_name = ten\n")
    (config_dir / "conf.d" / "20-local.conf").write_text("cluster_name = twenty\n")
    (config_dir / "definitions.json").write_text(json.dumps({
        "vhosts": [{"name": "orders"}],
        "users": [{"name": "shop", "password": "hare", "tags": ["administrator"]}],
        "permissions": [{"user": "shop", "vhost": "orders", "configure": ".*", "write": ".*", "read": ".*"}],
        "queues": [{"vhost": "orders", "name": "kept", "durable": True, "auto_delete": False, "arguments": {}}],
    }))
    with Container(binary, tmp_path, {}, config_dir) as one:
        assert one.get("overview", "shop", "hare")["cluster_name"] == "twenty"
        assert [queue["name"] for queue in one.get("queues", "shop", "hare")] == ["kept"]
        assert one.warnings() == []


def test_a_file_named_by_a_variable_counts_and_one_that_is_missing_is_said(binary, tmp_path):
    other = tmp_path / "other.conf"
    other.write_text(METRICS_OFF + "cluster_name = other\n")
    with Container(binary, tmp_path, {"RABBITMQ_CONFIG_FILE": str(other)[: -len(".conf")]}) as one:
        assert one.get("overview", "guest", "guest")["cluster_name"] == "other"
        assert one.warnings() == []
    variables = {"RABBITMQ_CONFIG_FILE": str(other), "RABBITMQ_CONFIG_FILES": str(tmp_path / "none" / "*.conf")}
    with Container(binary, tmp_path, variables) as one:
        assert len(one.warnings()) == 1 and "names no file and has no effect" in one.warnings()[0], one.warnings()


def test_a_variable_without_effect_is_named_and_its_value_is_not(binary, tmp_path, config_dir):
    variables = {
        "RABBITMQ_ERLANG_COOKIE": "topsecret",
        "RABBITMQ_DEFAULT_USR": "shop",
        "RABBITMQ_NODENAME": "rabbit@shop",
        "RABBITMQ_SERVICE_HOST": "10.0.0.1",
        "RABBITMQ_NODE_PORT": "5673",
    }
    with Container(binary, tmp_path, variables, config_dir) as one:
        text = "\n".join(one.warnings())
        assert "RABBITMQ_DEFAULT_USR has no effect; did you mean RABBITMQ_DEFAULT_USER?" in text
        assert "--listen or WARREN_LISTEN counts" in text
        assert len(one.warnings()) == 2, text
        assert "topsecret" not in one.log.read_text()


def test_a_variable_with_a_bad_value_ends_the_start(binary, tmp_path):
    with pytest.raises(AssertionError, match="environment variable RABBITMQ_NODE_PORT: expected a port"):
        with Container(binary, tmp_path, {"RABBITMQ_NODE_PORT": "http"}):
            pass


def test_problems_of_several_files_name_their_files(binary, tmp_path, config_dir):
    (config_dir / "conf.d" / "10.conf").write_text("heartbeat = x\n")
    (config_dir / "conf.d" / "20.conf").write_text("\nheartbeet = 1\n")
    with pytest.raises(AssertionError) as refused:
        with Container(binary, tmp_path, {}, config_dir):
            pass
    assert re.search(r"10\.conf: 1 problem in the configuration\n  line 1: ", str(refused.value))
    assert re.search(r"20\.conf: 1 problem in the configuration\n  line 2: .*did you mean \"heartbeat\"", str(refused.value))
