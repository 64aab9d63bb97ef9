"""Operators' view of streams: lag, credit and skipped messages, in explanations and metrics."""

import json
import socket
import threading
import time
import urllib.request

from frames import FIRST, NEXT, batch, message


def explained(broker, stream):
    return json.loads(broker.ctl("-q", "explain_delivery", stream, "--formatter", "json"))


def until(check, seconds=10):
    ends = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < ends, "not in time"
        time.sleep(0.1)
    return found


def test_a_consumer_without_credit_is_explained_with_its_lag(own):
    client, name = own.client(), own.name()
    client.create(name)
    client.declare(name)
    for nth in range(10):
        client.publish([message(b"x")] * 10, first=nth * 10)
        client.confirmed(10)
    client.subscribe(name, 7, FIRST, credit=1, name="app")
    seen = len(client.chunk(7).bodies())

    def found():
        consumers = explained(own, name)["consumers"]
        return consumers and consumers[0]["credits"] == 0 and consumers[0]
    consumer = until(found)
    assert (consumer["tag"], consumer["subscription"], consumer["reason"], consumer["is_served"]) == ("app", 7, "no_credit", False)
    assert consumer["offset_lag"] == 100 - seen
    assert f"{100 - seen} messages behind" in own.ctl("-q", "explain_delivery", name)
    client.credit(100, 7)
    until(lambda: explained(own, name)["consumers"][0]["offset_lag"] == 0)
    assert explained(own, name)["verdict"] == "The active consumer is at the end of the stream."


def test_a_consumer_of_amqp_0_9_1_is_explained_with_what_it_passed_over(own):
    client, name = own.client(), own.name()
    client.create(name)
    client.declare(name)
    client.publish([batch([b"a"] * 5, compression=1, packed=b"packed", uncompressed=50), message(b"one"), message(b"two")])
    client.confirmed(3)
    channel = own.channel()
    channel.basic_qos(prefetch_count=1)
    got = []
    channel.basic_consume(name, lambda ch, method, *_: got.append(method.delivery_tag), arguments={"x-stream-offset": "first"})
    channel.connection.process_data_events(1)
    consumer = explained(own, name)["consumers"][0]
    assert (consumer["reason"], consumer["offset_lag"], consumer["skipped"]) == ("prefetch_full", 1, 5), consumer
    channel.basic_ack(got[0])
    channel.connection.process_data_events(1)
    assert explained(own, name)["consumers"][0]["offset_lag"] == 0


def test_members_of_a_group_that_wait_are_told_apart(own):
    first, second, name = own.client(), own.client(), own.name()
    first.create(name)
    for client in (first, second):
        assert client.subscribe(name, 1, NEXT, single_active_consumer="true", name="g") == 1
    assert sorted(it["reason"] for it in explained(own, name)["consumers"]) == ["in_line", "inactive"]


def test_lag_files_and_traffic_are_metrics(fresh):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = "127.0.0.1:%d" % free.getsockname()[1]
    config = fresh.process.config
    config.write_text(config.read_text().replace("tcp.listener = none", "tcp.ip = 127.0.0.1\nprometheus.tcp.port = " + where.split(":")[1]))
    fresh.restart()

    def metrics(path):
        return urllib.request.urlopen(f"http://{where}{path}").read().decode()
    client = fresh.client()
    client.create("s")
    client.declare("s")
    for nth in range(5):
        client.publish([message(b"x")], first=nth)
        client.confirmed(1)
    assert "\nrabbitmq_stream_consumer_max_offset_lag 0\n" in metrics("/metrics")
    assert client.delete("gone") == 2
    assert client.subscribe("gone", 2) == 2
    client.publish([message(b"x")], publisher=7)
    assert client.errors()
    client.subscribe("s", 1, FIRST, credit=0)
    assert "\nrabbitmq_stream_consumer_max_offset_lag 4\n" in metrics("/metrics")
    line = 'rabbitmq_detailed_stream_consumer_max_offset_lag{vhost="/",queue="s"} 4'
    assert line in metrics("/metrics/detailed?family=stream_consumer_metrics")
    page = metrics("/metrics")
    for line in ("rabbitmq_stream_segments 1", 'rabbitmq_global_publishers{protocol="stream"} 1',
                 'rabbitmq_global_consumers{protocol="stream"} 1', 'rabbitmq_global_messages_received_total{protocol="stream"} 5',
                 'rabbitmq_global_messages_confirmed_total{protocol="stream"} 5'):
        assert f"\n{line}\n" in page, line
    assert 'rabbitmq_detailed_stream_segments{vhost="/",queue="s"} 1\n' in metrics("/metrics/detailed?family=queue_metrics")
    assert 'rabbitmq_global_messages_delivered_total{protocol="stream",queue_type="rabbit_stream_queue"} 0\n' in page
    line = 'rabbitmq_detailed_queue_info{vhost="/",queue="s",queue_type="rabbit_stream_queue",membership="leader"} 1\n'
    assert line in metrics("/metrics/detailed?family=queue_metrics")
    for line in ('rabbitmq_global_stream_error_stream_does_not_exist_total{protocol="stream"} 2',
                 'rabbitmq_global_stream_error_publisher_does_not_exist_total{protocol="stream"} 1',
                 'rabbitmq_global_stream_error_access_refused_total{protocol="stream"} 0', "warren_stream_damages 0", "warren_stream_cut_tails 0",
                 'warren_stage_seconds_count{stage="log",queue_kind="stream"} 5',
                 'warren_stage_seconds_count{stage="fsync",queue_kind="stream"} 5',
                 'warren_stage_seconds_count{stage="enqueue",queue_kind="stream"} 5',
                 'warren_stage_seconds_count{stage="confirm",queue_kind="stream"} 5'):
        assert f"\n{line}\n" in page, line


def test_profiles_name_the_stream_that_is_written(own):
    client, name = own.client(), own.name()
    client.create(name)
    client.declare(name)
    stop, first = threading.Event(), 0

    def publish():
        nonlocal first
        while not stop.is_set():
            client.publish([message(b"x" * 100)] * 1000, first=first)
            client.confirmed(1000)
            first += 1000
    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        until(lambda: f"queue {name}" in own.ctl("profile", "cpu", "--seconds", "1", "--by", "queue", "--as", "table"), seconds=30)
    finally:
        stop.set()
        publisher.join()
