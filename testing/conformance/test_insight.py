"""Warren's own: explain_delivery, stages and profiles, as a user at the command line sees them. RabbitMQ has none of them."""

import json
import time

import pytest


@pytest.fixture(autouse=True)
def only_warren(broker):
    if broker.flavor != "warren":
        pytest.skip("RabbitMQ has no such commands")


def explained(broker, queue):
    return json.loads(broker.ctl("-q", "explain_delivery", queue, "--formatter", "json"))


def batches(broker):
    rows = [line.split("\t") for line in broker.ctl("-q", "stages").splitlines()[1:]]
    # A stage inside queues has a row for each kind of queue.
    return {stage: sum(int(row[2]) for row in rows if row[0] == stage) for stage in {row[0] for row in rows}}


def test_a_consumer_that_does_not_ack_is_named_as_the_reason(broker, ch):
    queue = ch.queue()
    for _ in range(5):
        ch.publish("", queue, b"x")
    assert ch.queue(queue, passive=True) == queue
    assert "Nobody consumes" in explained(broker, queue)["verdict"]
    ch.call("basic.qos", prefetch_count=2)
    ch.consume(queue)
    ch.deliver(), ch.deliver()
    seen = explained(broker, queue)
    assert [one["reason"] for one in seen["consumers"]] == ["prefetch_full"]
    assert (seen["ready"], seen["unacked"], seen["consumers"][0]["is_served"]) == (3, 2, False)
    assert "must ack" in seen["verdict"]


def memory_of(broker, conn):
    rows = json.loads(broker.ctl("-q", "list_connections", "peer_port", "memory", "--formatter", "json"))
    return next(row["memory"] for row in rows if row["peer_port"] == conn.io.sock.getsockname()[1])


def test_a_connection_shows_the_memory_it_takes_with_what_is_not_acked(broker, conn):
    ch = conn.channel()
    queue = ch.queue()
    before = memory_of(broker, conn)
    assert 3000 < before < 20_000
    ch.consume(queue)
    for _ in range(2000):
        ch.publish("", queue, b"x")
        ch.deliver()
    assert before + 2000 < memory_of(broker, conn) < before + 400_000


def test_stages_count_what_was_published(broker, ch):
    before, queue = batches(broker), ch.queue()
    ch.publish("", queue, b"x")
    assert ch.queue(queue, passive=True) == queue
    after = batches(broker)
    assert after["enqueue"] > before["enqueue"] and after["parse"] > before["parse"]


def test_profiles_that_cannot_be_are_refused(broker):
    for words in (["cpu", "--seconds", "0"], ["cpu", "--by", "tenant"], ["captures", "999"], ["cpu", "-o", "x.png"], ["nonsense"]):
        with pytest.raises(AssertionError, match="Error"):
            broker.ctl("-q", "profile", *words)


def test_a_busy_broker_is_profiled_by_queue(broker, ch, tmp_path):
    queue, picture = ch.queue(), tmp_path / "cpu.svg"
    end = time.monotonic() + 20
    while not picture.exists() and time.monotonic() < end:
        for _ in range(20_000):
            ch.publish("", queue, b"x" * 100)
        try:
            # The broker still works off what was sent; were it too fast, there would be no samples.
            broker.ctl("-q", "profile", "cpu", "--seconds", "1", "--hz", "999", "--by", "queue", "-o", str(picture))
        except AssertionError as refused:
            assert "no samples" in str(refused) or "another profile" in str(refused)
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml") and "queue" in text


def test_two_profiles_are_compared(broker, tmp_path):
    first, second, picture = tmp_path / "a.folded", tmp_path / "b.folded", tmp_path / "d.svg"
    first.write_text("net::a;b 10\n")
    second.write_text("net::a;b 5\nnet::a;c 5\n")
    assert "+50.00%  c" in broker.ctl("-q", "profile", "diff", str(first), str(second))
    broker.ctl("-q", "profile", "diff", str(first), str(second), "-o", str(picture))
    assert "red: larger share" in picture.read_text(encoding="utf-8")
