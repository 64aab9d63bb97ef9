"""Monitors as they are installed: the checks of Debian's package nagios-plugins-rabbitmq, and the calls that the pages of Zabbix, Datadog and
Telegraf name. The checks are skipped where the package is not installed."""

import shutil
import socket
import subprocess
import urllib.parse

import pika
import pytest

QUEUE = "watched"


@pytest.fixture(scope="module")
def watched(broker):
    """The broker with a connection, a consumer and messages in a queue."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True)
    for _ in range(3):
        channel.basic_publish("", QUEUE, b"x")
    yield broker
    channel.queue_delete(QUEUE)
    connection.close()


@pytest.mark.parametrize("check, code, says", (
    ("aliveness", 0, "ALIVENESS OK - vhost: /"), ("connections", 0, "connections OK (1)"), ("objects", 0, "Gathered Object Counts"),
    ("overview", 0, "messages_ready OK (3)"), ("overview -w 1,1,1 -c 2,2,2", 2, "messages CRITICAL (3)"), (f"queue --queue {QUEUE}", 0, "messages OK (3)"),
    ("queue --queue nosuch", 2, "Not Found"), ("partition", 0, "No Partitions"), ("watermark", 0, "mem_alarm disk_free_alarm"),
    # These two ask for what RabbitMQ 4 has no more: the same comes of them there.
    ("server", 2, "Unable to get values for Sockets | Memory="), ("shovels", 2, "empty JSON"),
    ("overview -p wrong", 2, "Access Refused"),
))
def test_nagios_checks(watched, check, code, says):
    name, *words = check.split()
    program = shutil.which(f"check_rabbitmq_{name}")
    if not program:
        pytest.skip("NO NAGIOS CHECKS ON THIS MACHINE: not tested (apt-get install nagios-plugins-rabbitmq)")
    login = ["-u", "guest", *([] if "-p" in words else ["-p", "guest"])]
    ran = subprocess.run([program, "-H", "localhost", "--port", str(watched.address[1]), *login, *words], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, says in ran.stdout) == (code, True), ran.stdout + ran.stderr


# Paths and the fields that are read from their answers.
ZABBIX = {
    "/api/overview": ["management_version", "rabbitmq_version", "cluster_name", "object_totals.queues", "object_totals.connections",
                      "queue_totals.messages", "queue_totals.messages_ready", "message_stats.publish", "message_stats.publish_details.rate",
                      "listeners"],
    "/api/nodes": ["name", "running", "fd_used", "fd_total", "mem_used", "mem_limit", "mem_alarm", "disk_free", "disk_free_limit", "disk_free_alarm",
                   "proc_used", "proc_total", "run_queue", "sockets_used", "uptime", "partitions"],
    "/api/exchanges": ["name", "vhost", "type", "internal"],
    "/api/queues": ["name", "vhost", "messages", "messages_ready", "messages_unacknowledged", "consumers", "memory", "state", "node", "type"],
    "/api/health/checks/alarms": ["status"], "/api/health/checks/local-alarms": ["status"], "/api/health/checks/virtual-hosts": ["status"],
    "/api/health/checks/certificate-expiration/1/months": ["status"], "/api/health/checks/node-is-quorum-critical": ["status"],
}  # fmt: skip
DATADOG = {
    "/api/connections": ["name", "vhost", "state"], "/api/vhosts/": ["name"], "/api/aliveness-test/%2F": ["status"],
    "/api/queues?columns=name,vhost,messages,message_stats": ["name", "vhost", "messages"], "/api/exchanges?columns=name": ["name"],
    "/api/nodes/rabbit@localhost": ["name", "mem_used"], f"/api/nodes/rabbit@{socket.gethostname()}?memory=true": ["memory.total.rss"],
    "/api/queues/%2F/watched?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5": ["messages", "messages_details.rate"],
    "/api/federation-links": [],
}  # fmt: skip


@pytest.mark.parametrize("path, fields", [*ZABBIX.items(), *DATADOG.items()])
def test_what_zabbix_datadog_and_telegraf_read(watched, api, path, fields):
    if path == "/api/federation-links":
        assert api("GET", path).status in (200, 404)      # 404 with RabbitMQ without federation, which they expect
        return
    answer = api.get(urllib.parse.quote(path, safe="/?=&%,@"))
    for one in (answer if isinstance(answer, list) else [answer]):
        for field in fields:
            value = one
            for name in field.split("."):
                assert name in value, (field, one)
                value = value[name]
