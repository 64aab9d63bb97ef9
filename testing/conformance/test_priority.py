"""Feature 70, B112, B142: priority queues."""

import time

import client


def declare(ch, maximum=10, **arguments):
    return ch.queue(arguments={"x-max-priority": maximum} | arguments)


def fill(ch, queue, priorities):
    for number, priority in enumerate(priorities):
        props = {} if priority is None else {"priority": priority}
        ch.publish("", queue, f"{priority}:{number}", **props)
    client.eventually(lambda: ch.ready(queue) == len(priorities))


def test_f070_higher_priority_comes_first_and_equal_ones_in_order(ch):
    queue = declare(ch)
    fill(ch, queue, [1, 5, 1, 9, 5, 0])
    assert ch.drain(queue) == [b"9:3", b"5:1", b"5:4", b"1:0", b"1:2", b"0:5"]


def test_b112_absent_priority_is_0(ch):
    queue = declare(ch)
    fill(ch, queue, [None, 0, 1, None])
    assert ch.drain(queue) == [b"1:2", b"None:0", b"0:1", b"None:3"]


def test_b112_priority_above_the_maximum_counts_as_the_maximum(ch):
    queue = declare(ch, 3)
    fill(ch, queue, [3, 200, 2, 4])
    events = [ch.get(queue) for _ in range(4)]
    assert [event.body for event in events] == [b"3:0", b"200:1", b"4:3", b"2:2"]
    assert events[1].props["priority"] == 200


def test_f070_consumers_get_the_highest_first(ch):
    queue = declare(ch)
    fill(ch, queue, [1, 2, 3])
    ch.consume(queue)
    assert [ch.deliver().body for _ in range(3)] == [b"3:2", b"2:1", b"1:0"]


def test_f070_requeue_returns_to_the_place_among_its_priority(ch):
    queue = declare(ch)
    fill(ch, queue, [5, 5, 1])
    ch.reject(ch.get(queue).delivery_tag)
    client.eventually(lambda: ch.ready(queue) == 3)
    assert ch.drain(queue) == [b"5:0", b"5:1", b"1:2"]


def test_f070_a_late_high_one_overtakes(ch):
    queue = declare(ch)
    ch.qos(1)
    fill(ch, queue, [1, 1])
    ch.consume(queue)
    first = ch.deliver(b"1:0")
    ch.put(queue, b"urgent", priority=9)
    ch.ack(first.delivery_tag)
    ch.deliver(b"urgent")


def test_b142_max_length_drops_from_the_head_which_is_the_highest_priority(ch):
    queue = declare(ch, 10, **{"x-max-length": 2})
    for priority in (1, 9, 5):
        ch.put(queue, str(priority), priority=priority)
    assert ch.drain(queue) == [b"5", b"1"]


def test_b142_a_dropped_newcomer_may_be_the_head_itself(ch):
    queue = declare(ch, 10, **{"x-max-length": 2})
    for priority in (5, 5, 5, 1, 9):
        ch.put(queue, str(priority), priority=priority)
    assert ch.drain(queue) == [b"5", b"1"]


def test_b139_expired_messages_hide_behind_a_higher_priority(ch):
    queue = declare(ch)
    ch.put(queue, b"high stays", priority=9)
    ch.put(queue, b"low is hidden", priority=1, expiration="60")
    time.sleep(0.3)
    assert ch.ready(queue) == 2
    assert ch.drain(queue) == [b"high stays"]


def test_b139_an_expired_message_at_the_head_is_not_delivered(broker, ch):
    queue = declare(ch)
    ch.put(queue, b"low stays", priority=1)
    ch.put(queue, b"high goes", priority=9, expiration="60")
    time.sleep(0.3)
    if broker.flavor == "warren":
        assert ch.drain(queue) == [b"low stays"]
    else:  # RabbitMQ looks at expiry only when a message becomes the sole one, and hands this one out all the same
        assert ch.drain(queue) == [b"high goes", b"low stays"]


def test_f070_counts_and_purge_cover_all_levels(ch):
    queue = declare(ch)
    fill(ch, queue, [0, 3, 7, 9])
    assert ch.call("queue.purge", queue=queue).message_count == 4
    assert ch.ready(queue) == 0


def test_f070_durable_priority_queue_confirms(ch):
    queue = ch.queue(durable=True, arguments={"x-max-priority": 255})
    ch.call("confirm.select")
    for priority in (0, 128, 255):
        assert ch.confirmed("", queue, str(priority), priority=priority, delivery_mode=2)
    assert ch.drain(queue) == [b"255", b"128", b"0"]


def test_f070_dead_letters_carry_their_priority(ch):
    sink = declare(ch)
    queue = declare(ch, 10, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    for priority in (2, 8):
        ch.put(queue, str(priority), priority=priority)
    for _ in range(2):
        ch.reject(ch.get(queue).delivery_tag, requeue=False)
    client.eventually(lambda: ch.ready(sink) == 2)
    assert ch.drain(sink) == [b"8", b"2"]
