"""Quorum queues on three real nodes: confirmed messages outlive the leader, consumers stay, a member that comes back gets what it lacks."""

import collections
import threading
import time

import pika
import pytest

from links10 import Link
from nodes import eventually, ok, rows
from test_queues import PERSISTENT, connected, ready

QUORUM = {"x-queue-type": "quorum"}


def declare(node, queue, **arguments):
    with connected(node) as connection:
        connection.channel().queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})


def publish(node, queue, bodies):
    """Publishes with confirms: each is confirmed before the next is sent."""
    with connected(node) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def drain(node, queue, deadline_s=20):
    """All messages of a queue, acked, in order; until none is left."""
    bodies = []
    with connected(node) as connection:
        channel = connection.channel()
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            method, _, body = channel.basic_get(queue)
            if method is None:
                return bodies
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)
    raise AssertionError("messages do not end")


def fact(node, queue, column):
    """One column of a queue, as a node lists it."""
    return next(row[column] for row in rows(node, "list_queues", "name", column) if row["name"] == queue)


def leader_of(three, queue):
    """The node that leads, by a question to a node that is alive."""
    asked = next(node for node in three.nodes if node.pid and node.alive())
    leader = fact(asked, queue, "leader")
    return next(node for node in three.nodes if node.name == leader)


def in_sync(three, queue):
    """Members that have every confirmed message."""
    return len(fact(three.nodes[2], queue, "in_sync"))


def unacked(node, queue):
    """Deliveries that nobody has settled."""
    return fact(node, queue, "messages_unacknowledged")


def numbered(count, start=0):
    return [str(nth).encode() for nth in range(start, start + count)]


def test_confirmed_messages_outlive_the_leader(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(b, "q", numbered(200))
    a.kill()
    eventually(lambda: answers(lambda: ready(b, "q") == 200 and ready(c, "q") == 200), "the queue is used without its first leader")
    publish(c, "q", numbered(100, 200))
    a.start()
    assert drain(b, "q") == numbered(300)


def test_a_member_that_comes_back_gets_what_it_lacks(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(50))
    c.kill()
    publish(a, "q", numbered(300, 50))
    c.start()
    three.wait(three.nodes)
    eventually(lambda: answers(lambda: ready(c, "q") == 350), "it is a member again")
    time.sleep(3)
    # Now c counts: without a it is one of the two that have everything.
    a.kill()
    eventually(lambda: answers(lambda: ready(c, "q") == 350), "others lead")
    publish(c, "q", numbered(10, 350))
    b.kill()
    a.start()
    eventually(lambda: answers(lambda: ready(c, "q") == 360), "c or a leads")
    assert drain(a, "q") == numbered(360)


def answers(question):
    """Whether a question to a node was answered with yes: refusals are no."""
    try:
        return question()
    except (pika.exceptions.AMQPError, AssertionError, OSError):
        return False


def test_consumers_stay_while_the_leader_is_killed(three):
    a, b, c = three.nodes
    declare(a, "q")
    seen, stop = [], threading.Event()
    cancelled = []

    def consume():
        with connected(b) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            channel.add_on_cancel_callback(cancelled.append)

            def take(channel, method, _, body):
                seen.append(body)
                channel.basic_ack(method.delivery_tag)

            channel.basic_consume("q", take)
            while not stop.is_set():
                connection.process_data_events(time_limit=0.1)

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        publish(c, "q", numbered(200))
        eventually(lambda: len(set(seen)) == 200, "all are delivered")
        a.kill()
        publish(c, "q", numbered(200, 200))
        eventually(lambda: len(set(seen)) == 400, "the consumer goes on with the next leader")
        assert not cancelled
    finally:
        stop.set()
        consumer.join()


def test_publishes_through_kills_of_leaders_are_in_the_queue_once(three):
    """Publishers on one node, each message published once, while leaders on other nodes are killed under them."""
    a, b, c = three.nodes
    declare(a, "q")
    confirmed, nacked, stop = [], [], threading.Event()

    def load(publisher):
        with connected(c) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            nth = 0
            while not stop.is_set():
                body = f"{publisher}.{nth}".encode()
                nth += 1
                try:
                    channel.basic_publish("", "q", body, PERSISTENT, mandatory=True)
                    confirmed.append(body)
                except pika.exceptions.NackError:
                    nacked.append(body)

    publishers = [threading.Thread(target=load, args=(nth,)) for nth in range(6)]
    [publisher.start() for publisher in publishers]
    kills = 0
    try:
        while kills < 4:
            leader = leader_of(three, "q")
            if leader is c:
                # Its own publishers are nacked when it hands over; nothing of theirs is there twice all the same.
                c.ctl("transfer_leadership", "q", (a, b)[kills % 2].name)
                time.sleep(0.5)
                continue
            time.sleep(0.7)
            leader.kill()
            kills += 1
            before = len(confirmed)
            eventually(lambda: len(confirmed) > before + 20, "publishes are confirmed again")
            leader.start()
            three.wait(three.nodes)
            eventually(lambda: in_sync(three, "q") == 3, "all have everything")
    finally:
        stop.set()
        [publisher.join() for publisher in publishers]
    left = []
    with connected(c) as connection:
        channel = connection.channel()
        for method, _, body in channel.consume("q", inactivity_timeout=3):
            if method is None:
                break
            left.append(body)
    print(len(confirmed), "confirmed", len(nacked), "nacked", len(left), "in the queue")
    twice = sorted(body for body, times in collections.Counter(left).items() if times > 1)
    assert not twice, "these are in the queue twice"
    assert not set(confirmed) - set(left), "confirmed and lost"
    assert not set(left) - set(confirmed) - set(nacked)


def test_a_leader_that_is_cut_off_confirms_nothing_and_follows_when_it_is_back(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(20))
    with connected(a) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        three.partition([a], [b, c])
        outcome = []

        def try_it():
            try:
                channel.basic_publish("", "q", b"cut off", PERSISTENT, mandatory=True)
                outcome.append("confirmed")
            except (pika.exceptions.AMQPError, OSError) as error:
                outcome.append(type(error).__name__)

        attempt = threading.Thread(target=try_it, daemon=True)
        attempt.start()
        eventually(lambda: answers(lambda: ready(b, "q") == 20), "the others have a leader")
        publish(b, "q", numbered(20, 20))
        assert "confirmed" not in outcome
        three.heal()
        three.wait(three.nodes)
        attempt.join(40)
        assert outcome, "the publisher is answered"
    eventually(lambda: answers(lambda: ready(a, "q") in (40, 41)), "the old leader sees what the others have")
    left = drain(a, "q")
    assert [body for body in left if body != b"cut off"] == numbered(40)
    assert outcome == ["confirmed"] if b"cut off" in left else outcome


def test_a_paused_leader_is_replaced(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(c, "q", numbered(20))
    a.pause()
    begin = time.monotonic()
    publish(c, "q", numbered(20, 20))
    print("confirmed again after", round(time.monotonic() - begin, 2), "s")
    a.resume()
    three.wait(three.nodes)
    assert drain(b, "q") == numbered(40)


def test_all_nodes_off_and_on_again_keep_everything(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(b, "q", numbered(200))
    for node in three.nodes:
        node.kill()
    for node in (c, b, a):
        node.launch()
    eventually(lambda: all(answers(lambda: ready(node, "q") == 200) for node in three.nodes), "all nodes have the queue", 60)
    assert drain(c, "q") == numbered(200)


def test_settled_messages_stay_settled_with_the_next_leader(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(100))
    with connected(b) as connection:
        channel = connection.channel()
        for _ in range(60):
            method, _, _ = channel.basic_get("q")
            channel.basic_ack(method.delivery_tag)
        eventually(lambda: ready(a, "q") == 40, "acks have arrived")
    time.sleep(0.5)
    a.kill()
    eventually(lambda: answers(lambda: ready(c, "q") == 40), "another one leads")
    assert drain(c, "q") == numbered(40, 60)


def test_priorities_expiry_and_returned_messages_are_alike_on_the_next_leader(three):
    a, b, c = three.nodes
    declare(a, "q", **{"x-delivery-limit": 3})
    with connected(a) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for nth in range(10):
            channel.basic_publish("", "q", str(nth).encode(), pika.BasicProperties(delivery_mode=2, priority=9 if nth == 7 else 0))
        channel.basic_publish("", "q", b"brief", pika.BasicProperties(delivery_mode=2, expiration="4000"))
        method, _, body = channel.basic_get("q")
        assert body == b"7"
        channel.basic_nack(method.delivery_tag)
        eventually(lambda: ready(a, "q") == 11, "it is back")
        method, before, body = channel.basic_get("q")
        assert body == b"7"
        channel.basic_nack(method.delivery_tag)
        eventually(lambda: ready(a, "q") == 11, "it is back again")
    time.sleep(0.5)
    a.kill()
    eventually(lambda: answers(lambda: ready(b, "q") in (10, 11)), "another one leads")
    with connected(b) as connection:
        method, properties, body = connection.channel().basic_get("q")
        assert body == b"7"
        print(before.headers, properties.headers)
        assert {key: count - 1 for key, count in properties.headers.items()} == before.headers
    time.sleep(4)
    assert drain(c, "q") == [b"7", *(str(nth).encode() for nth in range(10) if nth != 7)]


def test_large_messages_and_fanout_are_on_all_members(three):
    a, b, c = three.nodes
    for queue in ("q1", "q2"):
        declare(a, queue)
    with connected(a) as connection:
        channel = connection.channel()
        for queue in ("q1", "q2"):
            channel.queue_bind(queue, "amq.fanout")
        channel.confirm_delivery()
        for nth in range(5):
            channel.basic_publish("amq.fanout", "", bytes([nth]) * (2 << 20), PERSISTENT)
        for nth in range(50):
            channel.basic_publish("amq.fanout", "", bytes([nth]) * 5000, PERSISTENT)
    a.kill()
    for queue in ("q1", "q2"):
        eventually(lambda: answers(lambda: ready(b, queue) == 55), "another one leads")
        assert drain(c, queue) == [bytes([nth]) * (2 << 20) for nth in range(5)] + [bytes([nth]) * 5000 for nth in range(50)]


def test_a_long_backlog_on_disk_is_sent_to_a_member_that_was_away(three):
    a, b, c = three.nodes
    declare(a, "q")
    c.kill()
    with connected(a) as connection:
        channel = connection.channel()
        for nth in range(6000):
            channel.basic_publish("", "q", str(nth).encode() + b"." * 20_000, PERSISTENT)
    eventually(lambda: ready(a, "q") == 6000, "all are there", 60)
    c.start()
    three.wait(three.nodes)
    publish(a, "q", [b"6000."])
    eventually(lambda: c.name in fact(a, "q", "in_sync"), "it has everything", 60)
    ok(c, "transfer_leadership", "q", c.name)
    a.kill()
    eventually(lambda: answers(lambda: ready(c, "q") == 6001), "it leads with all of them")
    assert [body.split(b".")[0] for body in drain(c, "q", 60)] == numbered(6001)


class Holder:
    """A consumer that keeps what it gets until it is told to ack."""

    def __init__(self, node, queue, prefetch):
        self.got, self.cancelled = [], []
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.add_on_cancel_callback(self.cancelled.append)
        self.channel.basic_consume(queue, lambda _, method, __, body: self.got.append((method.delivery_tag, method.redelivered, body)))

    def wait(self, count):
        end = time.monotonic() + 20
        while len(self.got) < count and time.monotonic() < end:
            self.connection.process_data_events(time_limit=0.05)
        assert len(self.got) == count, self.got

    def stay(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.connection.process_data_events(time_limit=0.05)

    def bodies(self):
        return [body for _, _, body in self.got]


def test_a_leader_that_is_cut_off_stops_delivering_and_the_next_one_serves_the_single_active_consumer(three):
    a, b, c = three.nodes
    declare(a, "q", **{"x-single-active-consumer": True})
    assert leader_of(three, "q") is a
    first = Holder(a, "q", 100)
    publish(a, "q", numbered(5))
    first.wait(5)
    second = Holder(b, "q", 100)
    three.partition([a], [b, c])
    wanted = "Nothing is delivered for now: the leader is linked with 1 of 3 nodes of the cluster"
    eventually(lambda: wanted in a.ctl("explain_delivery", "q")[1], "the leader says that it waits")
    first.channel.basic_publish("", "q", b"cut off", PERSISTENT)
    eventually(lambda: (second.stay(0.1), len(second.got) == 5)[-1], "the next leader serves the other consumer")
    assert all(redelivered for _, redelivered, _ in second.got)
    publish(b, "q", numbered(5, 5))
    second.wait(10)
    first.stay(0.5)
    assert len(first.got) == 5, "the old leader delivers nothing"
    three.heal()
    three.wait(three.nodes)
    publish(c, "q", numbered(5, 10))
    last = numbered(15)[-1]
    eventually(lambda: (first.stay(0.1), second.stay(0.1), last in first.bodies() + second.bodies())[-1], "it goes on")
    eventually(lambda: "Nothing is delivered for now" not in a.ctl("explain_delivery", "q")[1], "the old leader waits no more")
    first.connection.close()
    second.connection.close()


def test_acks_after_a_failover_settle_what_was_delivered_before_it(three):
    """Two consumers on two nodes hold deliveries while the leader dies: nobody gets them again, and their acks count."""
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(30))
    one, other = Holder(b, "q", 10), Holder(c, "q", 10)
    one.wait(10)
    other.wait(10)
    with connected(b) as getter:
        got = getter.channel()
        tag = got.basic_get("q")[0].delivery_tag
        a.kill()
        eventually(lambda: answers(lambda: ready(b, "q") == 9), "the next leader knows who has what")
        publish(c, "q", numbered(5, 30))
        one.stay(1)
        other.stay(1)
        assert len(one.got) == len(other.got) == 10, "a full window gets nothing"
        one.channel.basic_ack(one.got[-1][0], multiple=True)
        other.channel.basic_nack(other.got[0][0])
        other.channel.basic_ack(other.got[-1][0], multiple=True)
        got.basic_ack(tag)
        end = time.monotonic() + 20
        while len(one.got) + len(other.got) < 35 and time.monotonic() < end:
            one.stay(0.1)
            other.stay(0.1)
        again = other.got[0][2]
        bodies = one.bodies() + other.bodies()
        assert sorted(bodies, key=int) == sorted([*(body for body in numbered(35) if body != numbered(35)[20]), again], key=int)
        assert [body for _, redelivered, body in one.got + other.got if redelivered] == [again]
    assert not one.cancelled and not other.cancelled
    one.connection.close()
    other.connection.close()


def test_what_a_dead_node_s_client_had_comes_again(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(10))
    held = Holder(a, "q", 10)
    held.wait(10)
    publish(a, "q", numbered(5, 10))
    a.kill()
    after = Holder(b, "q", 20)
    after.wait(15)
    assert sorted(after.bodies(), key=int) == numbered(15)
    again = [body for _, redelivered, body in after.got if redelivered]
    assert sorted(again, key=int) == numbered(10), "what nobody had before has no mark"
    after.channel.basic_ack(0, multiple=True)
    publish(c, "q", numbered(5, 15))
    after.wait(20)
    after.channel.basic_ack(0, multiple=True)
    after.connection.close()
    eventually(lambda: answers(lambda: ready(c, "q") == 0), "all are settled")


def test_acks_while_nobody_leads_settle_with_the_next_leader(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(20))
    held = Holder(b, "q", 20)
    held.wait(20)
    a.kill()
    held.stay(0.2)
    held.channel.basic_ack(held.got[9][0], multiple=True)
    held.stay(0.1)
    eventually(lambda: answers(lambda: ready(c, "q") == 0), "another one leads")
    held.connection.close()
    eventually(lambda: answers(lambda: ready(c, "q") == 10), "what was not acked comes back")
    assert sorted(drain(c, "q"), key=int) == numbered(10, 10)


def test_consumers_keep_what_they_have_while_leadership_moves(three):
    """The leader moves to each node in turn; a consumer on each node acks afterwards."""
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(30))
    holders = [Holder(node, "q", 10) for node in three.nodes]
    for holder in holders:
        holder.wait(10)
    for node in (b, c, a, b):
        if leader_of(three, "q") is not node:
            ok(node, "transfer_leadership", "q", node.name)
    for holder in holders:
        holder.channel.basic_ack(0, multiple=True)
        holder.stay(0.5)
    assert [len(holder.got) for holder in holders] == [10, 10, 10]
    publish(c, "q", numbered(30, 30))
    for holder in holders:
        holder.stay(0.5)
    assert sorted((body for holder in holders for body in holder.bodies()), key=int) == numbered(60)
    assert not any(holder.cancelled for holder in holders)
    for holder in holders:
        holder.connection.close()


def test_fifty_unacked_messages_are_acked_after_the_leader_is_killed(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(50))
    held = Holder(b, "q", 100)
    held.wait(50)
    a.kill()
    eventually(lambda: answers(lambda: ready(c, "q") == 0), "another one leads")
    held.stay(0.5)
    held.channel.basic_ack(0, multiple=True)
    held.stay(0.5)
    assert len(held.got) == 50 and not held.cancelled, "nothing comes again"
    held.connection.close()
    time.sleep(0.5)
    assert ready(c, "q") == 0, "closing the connection brings nothing back"
    a.start()
    eventually(lambda: answers(lambda: ready(a, "q") == 0), "the member that was away has none either")


def test_links_of_amqp_1_0_stay_attached_while_the_leader_is_killed(three):
    """Unsettled deliveries settle with the next leader, and the credit that the link has left is the credit that it has there."""
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(10))
    link = Link(b, "q", 15)
    link.wait(10)
    link.say("accept 4")
    eventually(lambda: answers(lambda: unacked(b, "q") == 6), "the leader knows what is settled")
    a.kill()
    publish(c, "q", numbered(20, 10))
    link.wait(15)
    link.say("accept 11")
    link.wait(15)
    link.say("credit 10")
    link.wait(25)
    assert link.bodies() == numbered(25)
    assert not any(event["again"] for event in link.got)
    link.say("accept 5")
    eventually(lambda: answers(lambda: unacked(c, "q") == 5), "the next leader settles")
    link.close()
    eventually(lambda: answers(lambda: ready(c, "q") == 10), "what was not settled comes back")
    assert sorted(drain(c, "q"), key=int) == numbered(10, 20)


def test_a_link_of_amqp_1_0_stays_while_leadership_moves_to_its_node_and_away(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(5))
    link = Link(b, "q", 8)
    link.wait(5)
    for node in (b, c):
        ok(node, "transfer_leadership", "q", node.name)
        eventually(lambda: answers(lambda: leader_of(three, "q") is node), "it leads")
    publish(a, "q", numbered(10, 5))
    link.wait(8)
    link.say("accept 8")
    link.say("credit 7")
    link.wait(15)
    link.say("accept 7")
    assert link.bodies() == numbered(15)
    eventually(lambda: answers(lambda: unacked(a, "q") == 0), "all are settled")
    link.close()
    assert drain(c, "q") == []


def test_a_consumer_whose_node_is_cut_off_for_a_moment_keeps_what_it_has(three):
    """Nobody else gets its messages, and its acks count when the node is back."""
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(20))
    held = Holder(b, "q", 10)
    held.wait(10)
    three.partition([a, c], [b])
    eventually(lambda: b.name not in a.running, "it is gone for the others")
    eventually(lambda: a.name not in b.running, "and they for it: an ack on a link that is thought to be up is lost")
    other = Holder(c, "q", 30)
    other.wait(10)
    assert other.bodies() == numbered(10, 10)
    held.channel.basic_ack(held.got[3][0], multiple=True)
    held.stay(0.2)
    three.heal()
    three.wait(three.nodes)
    eventually(lambda: answers(lambda: unacked(a, "q") == 16), "the acks of the other side count")
    held.channel.basic_ack(0, multiple=True)
    other.channel.basic_ack(0, multiple=True)
    eventually(lambda: (held.stay(0.05), other.stay(0.05), answers(lambda: unacked(a, "q") == 0))[-1], "all are settled")
    assert len(held.got) == len(other.got) == 10 and not held.cancelled, "nothing comes again"
    publish(a, "q", numbered(6, 20))
    eventually(lambda: (held.stay(0.05), other.stay(0.05), len(held.got) + len(other.got) == 26)[-1], "both are served")
    assert len(held.got) > 10, "it consumes again"
    held.connection.close()
    other.connection.close()


def test_a_consumer_whose_node_stays_away_loses_its_messages_after_the_timeout_of_the_queue(three):
    a, b, c = three.nodes
    declare(a, "q", **{"x-consumer-disconnected-timeout": 3000})
    publish(a, "q", numbered(10))
    held = Holder(b, "q", 10)
    held.wait(10)
    three.partition([a, c], [b])
    eventually(lambda: b.name not in a.running, "it is gone for the others")
    assert ready(c, "q") == 0, "they are still its own"
    eventually(lambda: answers(lambda: ready(c, "q") == 10), "they come back")
    other = Holder(c, "q", 30)
    other.wait(10)
    assert all(redelivered for _, redelivered, _ in other.got)
    three.heal()
    three.wait(three.nodes)
    held.channel.basic_ack(0, multiple=True)
    held.stay(0.5)
    other.channel.basic_ack(0, multiple=True)
    other.stay(0.5)
    eventually(lambda: answers(lambda: unacked(a, "q") == 0), "the ones who have them settle them")
    assert len(held.got) == 10
    held.connection.close()
    other.connection.close()


def test_a_leader_that_waits_for_a_majority_says_so(three):
    a, b, c = three.nodes
    declare(a, "q")
    publish(a, "q", numbered(1))
    b.kill()
    eventually(lambda: "not in sync: node " + b.name + ", which is down" in a.ctl("explain_delivery", "q")[1], "it says who lacks messages")
    c.pause()
    publisher = threading.Thread(target=publish, args=(a, "q", [b"1"]))
    publisher.start()
    wanted = f"confirms wait for node {c.name}, which is down, and without which there is no majority"
    eventually(lambda: wanted in a.ctl("explain_delivery", "q")[1], "it says who is missing")
    eventually(lambda: f"the queue has confirmed nothing for 10 s: it waits for node {c.name}" in a.log_text(), "so does the log", 30)
    c.resume()
    eventually(lambda: "the queue confirms again" in a.log_text(), "it goes on")
    publisher.join(20)
    assert not publisher.is_alive()


def test_consumers_go_on_when_the_leader_comes_back_before_it_is_missed(three):
    a, b, c = three.nodes
    declare(a, "q")
    leader = leader_of(three, "q")
    other = next(node for node in three.nodes if node is not leader)
    with connected(other) as connection:
        channel = connection.channel()
        taken = []
        channel.basic_consume("q", lambda _channel, _method, _properties, body: taken.append(body), auto_ack=True)
        publish(other, "q", numbered(5))
        eventually(lambda: connection.process_data_events(0.1) or len(taken) == 5, "the first messages have come")
        leader.kill()
        leader.start()
        publish(other, "q", numbered(5, 5))
        eventually(lambda: connection.process_data_events(0.1) or len(taken) == 10, "the later messages have come", 20)
