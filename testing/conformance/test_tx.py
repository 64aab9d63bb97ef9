"""B109: transactions: what is held back until commit, what rollback forgets."""

import re

import pytest

import client
import wire

NOT_TRANSACTIONAL = "PRECONDITION_FAILED - channel is not transactional"


@pytest.fixture
def tx(ch):
    ch.call("tx.select")
    return ch


@pytest.fixture
def plain(conn):
    return conn.channel()


def test_b109_publishes_are_held_until_commit(tx, plain):
    queue = tx.queue()
    tx.publish("", queue, b"a")
    tx.publish("", queue, b"b")
    plain.nothing()
    assert plain.ready(queue) == 0
    tx.call("tx.commit")
    assert plain.drain(queue) == [b"a", b"b"]


def test_b109_rollback_forgets_publishes(tx, plain):
    queue = tx.queue()
    tx.publish("", queue, b"a")
    tx.call("tx.rollback")
    tx.call("tx.commit")
    assert plain.ready(queue) == 0


def test_b109_after_commit_a_new_transaction_begins(tx, plain):
    queue = tx.queue()
    tx.publish("", queue, b"a")
    tx.call("tx.commit")
    tx.publish("", queue, b"b")
    tx.call("tx.rollback")
    tx.publish("", queue, b"c")
    tx.call("tx.commit")
    assert plain.drain(queue) == [b"a", b"c"]


def test_b109_acks_are_held_until_commit(broker, tx, plain):
    queue = tx.queue(durable=True)
    tx.put(queue, b"a")
    tx.ack(tx.get(queue).delivery_tag)
    tx.connection.kill()
    other = broker.connect().channel()
    assert client.eventually(lambda: other.get(queue)).redelivered is True


def test_b109_committed_acks_are_final(broker, tx):
    queue = tx.queue(durable=True)
    tx.put(queue, b"a")
    tx.ack(tx.get(queue).delivery_tag)
    tx.call("tx.commit")
    tx.connection.close()
    other = broker.connect().channel()
    other.nothing()
    assert other.ready(queue) == 0


def test_b109_rollback_forgets_acks_without_requeueing(tx, plain):
    queue = tx.queue()
    tx.put(queue, b"a")
    delivery = tx.get(queue).delivery_tag
    tx.ack(delivery)
    tx.call("tx.rollback")
    tx.nothing()
    assert plain.ready(queue) == 0
    tx.ack(delivery)
    tx.call("tx.commit")
    tx.shut()
    assert plain.ready(queue) == 0


def test_b109_rejects_are_held_until_commit(tx, plain):
    queue = tx.queue()
    tx.put(queue, b"a")
    tx.reject(tx.get(queue).delivery_tag)
    tx.nothing()
    assert plain.ready(queue) == 0
    tx.call("tx.commit")
    assert client.eventually(lambda: plain.get(queue)).redelivered is True


def test_b109_closing_the_channel_rolls_back(tx, plain):
    queue = tx.queue()
    tx.put(queue, b"a")
    tx.publish("", queue, b"never")
    tx.ack(tx.get(queue).delivery_tag)
    tx.shut()
    client.eventually(lambda: plain.ready(queue) == 1)
    assert plain.get(queue).body == b"a"


def test_b109_select_again_is_fine(tx):
    tx.call("tx.select")
    tx.call("tx.commit")


@pytest.mark.parametrize("method", ["tx.commit", "tx.rollback"])
def test_b109_commit_and_rollback_need_select(ch, method):
    with ch.closes(406, NOT_TRANSACTIONAL, method):
        ch.call(method)


def test_b109_mandatory_returns_come_at_commit_before_commit_ok(tx):
    tx.publish("", client.fresh("missing"), b"x", mandatory=True)
    tx.send("tx.commit")
    assert [tx.next().name, tx.next().name] == ["basic.return", "tx.commit-ok"]


def test_b109_publish_to_a_missing_exchange_closes_at_once(tx):
    with tx.closes(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", "basic.publish"):
        tx.publish("nowhere", "k")


@pytest.mark.parametrize("bad", [dict(user_id="somebody else"), dict(expiration="abc"), dict(headers={"CC": "no list"})], ids=["user-id", "expiration", "CC"])
def test_b109_a_publish_that_is_refused_closes_at_once_and_nothing_of_its_transaction_is_there(tx, plain, bad):
    queue = plain.queue(exclusive=False)
    tx.publish("", queue, b"one")
    tx.publish("", queue, b"two")
    with tx.closes(406, re.compile("PRECONDITION_FAILED - .+"), "basic.publish"):
        tx.publish("", queue, b"bad", **bad)
    assert plain.ready(queue) == 0


def test_b109_declarations_are_not_part_of_it(tx, plain):
    queue = tx.queue()
    tx.call("tx.rollback")
    assert plain.ready(queue) == 0


def test_b109_persistent_messages_to_a_durable_queue(tx, plain):
    queue = tx.queue(durable=True)
    for number in range(100):
        tx.publish("", queue, str(number), delivery_mode=2)
    tx.call("tx.commit")
    assert plain.drain(queue) == [str(n).encode() for n in range(100)]


def test_b109_unknown_tag_in_a_transaction(tx):
    with tx.closes(406, "PRECONDITION_FAILED - unknown delivery tag 9", "basic.ack"):
        tx.ack(9)


def test_b109_empty_commit_and_rollback(tx):
    for _ in range(3):
        tx.call("tx.commit")
        tx.call("tx.rollback")


def test_b109_no_confirms_are_sent(tx):
    tx.publish("", tx.queue())
    tx.send("tx.commit")
    assert tx.next().name == "tx.commit-ok"
    tx.nothing()


def test_b109_commits_that_arrive_together_are_answered_one_after_the_other(conn, tx):
    """Each waits for the disk; the next one has been read meanwhile."""
    queue, commits = tx.queue(durable=True), 1000
    message = wire.content_frames(tx.number, {"exchange": "", "routing_key": queue}, {"delivery_mode": 2}, b"m", 0)
    conn.raw((message + wire.frame(1, tx.number, wire.method("tx.commit"))) * commits)
    for _ in range(commits):
        tx.next("tx.commit-ok")
    assert tx.ready(queue) == commits
