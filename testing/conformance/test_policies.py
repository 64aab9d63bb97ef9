"""B143, B172, F130-F133: policies and operator policies, which apply to queues and exchanges that live (needs --ctl)."""

import json
import time

import pytest

from client import eventually, fresh


class Policies:
    """Policies of the vhost under test, cleared afterwards. Each is for names that begin with its own name."""

    def __init__(self, broker):
        self.broker, self.names = broker, []

    def set(self, pattern, definition, name=None, apply_to="all", priority=0, operator=False):
        name, kind = name or fresh("p"), "operator_policy" if operator else "policy"
        self.broker.ctl(
            f"set_{kind}", "--priority", str(priority), "--apply-to", apply_to, name, pattern, json.dumps(definition)
        )
        self.names.append((kind, name))
        return name

    def clear(self, name, operator=False):
        kind = "operator_policy" if operator else "policy"
        self.names.remove((kind, name))
        self.broker.ctl(f"clear_{kind}", name)

    def clean(self):
        for kind, name in self.names:
            self.broker.ctl(f"clear_{kind}", name, check=False)

    def shown(self, queue):
        """Policy, operator policy and effective definition of a queue."""
        columns = ["name", "policy", "operator_policy", "effective_policy_definition"]
        rows = json.loads(self.broker.ctl("-q", "list_queues", *columns, "--formatter", "json"))
        (row,) = (row for row in rows if row["name"] == queue)
        return row["policy"], row["operator_policy"], row["effective_policy_definition"]


@pytest.fixture
def policies(broker):
    policies = Policies(broker)
    yield policies
    policies.clean()


def test_b143_a_length_limit_comes_to_a_queue_that_is_there_and_goes_again(ch, policies):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c", b"d")
    name = policies.set(f"^{queue}$", {"max-length": 2}, apply_to="queues")
    eventually(lambda: ch.ready(queue) == 2)
    ch.put(queue, b"e")
    eventually(lambda: ch.ready(queue) == 2)
    policies.clear(name)
    ch.put(queue, b"f", b"g")
    eventually(lambda: ch.ready(queue) == 4)
    assert ch.drain(queue) == [b"d", b"e", b"f", b"g"]


def test_b143_the_lower_of_argument_and_policy_counts(ch, policies):
    low, high = ch.queue(arguments={"x-max-length": 2}), ch.queue(arguments={"x-max-length": 50})
    policies.set(f"^({low}|{high})$", {"max-length": 4})
    ch.put(low, *[b"m"] * 6)
    ch.put(high, *[b"m"] * 6)
    eventually(lambda: (ch.ready(low), ch.ready(high)) == (2, 4))


def test_b143_an_operator_policy_lowers_further(ch, policies):
    queue = ch.queue()
    policies.set(f"^{queue}$", {"max-length": 5, "overflow": "reject-publish"})
    operator = policies.set(f"^{queue}$", {"max-length": 3, "overflow": "drop-head"}, operator=True)
    ch.put(queue, b"a", b"b", b"c", b"d")
    eventually(lambda: ch.ready(queue) == 3)
    assert ch.drain(queue) == [b"b", b"c", b"d"]
    policies.clear(operator, operator=True)
    eventually(lambda: policies.shown(queue)[2] == {"max-length": 5, "overflow": "reject-publish"})
    ch.call("confirm.select")
    assert [ch.confirmed(key=queue) for _ in range(6)] == [True] * 5 + [False]


def test_b143_a_time_to_live_is_for_messages_that_come_later(ch, policies):
    queue = ch.queue()
    ch.put(queue, b"old")
    name = policies.set(f"^{queue}$", {"message-ttl": 100})
    eventually(lambda: policies.shown(queue)[0] == name)
    time.sleep(0.3)
    assert ch.ready(queue) == 1
    assert ch.get(queue, no_ack=True).body == b"old"
    ch.put(queue, b"new")
    eventually(lambda: ch.ready(queue) == 0)
    policies.clear(name)
    eventually(lambda: policies.shown(queue)[0] == "")
    ch.put(queue, b"lasting")
    time.sleep(0.3)
    assert ch.ready(queue) == 1


def test_f022_a_queue_expires_by_policy(broker, ch, policies):
    queue = ch.queue(durable=True)
    policies.set(f"^{queue}$", {"expires": 300})

    def is_gone():
        rows = json.loads(broker.ctl("-q", "list_queues", "name", "--formatter", "json"))
        return all(row["name"] != queue for row in rows)

    eventually(is_gone)


def test_b143_dead_letters_go_where_a_policy_says_and_arguments_win(ch, policies):
    exchange, dead = ch.exchange("topic"), ch.queue()
    ch.bind(dead, exchange, "#")
    plain = ch.queue()
    own = ch.queue(arguments={"x-dead-letter-routing-key": "own", "x-dead-letter-exchange": exchange})
    ch.put(plain, b"a")
    policies.set(f"^({plain}|{own})$", {"dead-letter-exchange": exchange, "dead-letter-routing-key": "by.policy"})
    ch.put(own, b"b")
    for queue, key in [(plain, "by.policy"), (own, "own")]:
        ch.reject(eventually(lambda queue=queue: ch.get(queue)).delivery_tag, requeue=False)
        letter = eventually(lambda: ch.get(dead, no_ack=True))
        assert (letter.routing_key, letter.exchange) == (key, exchange)


def test_b143_without_its_policy_a_queue_drops_its_dead(ch, policies):
    exchange, dead = ch.exchange("fanout"), ch.queue()
    ch.bind(dead, exchange)
    queue = ch.queue()
    name = policies.set(f"^{queue}$", {"dead-letter-exchange": exchange, "max-length": 1})
    ch.put(queue, b"a", b"b")
    assert eventually(lambda: ch.get(dead, no_ack=True)).body == b"a"
    policies.clear(name)
    eventually(lambda: policies.shown(queue)[0] == "")
    ch.reject(eventually(lambda: ch.get(queue)).delivery_tag, requeue=False)
    ch.nothing()
    assert ch.ready(dead) == 0


def test_f015_an_alternate_exchange_by_policy(broker, ch, policies):
    main, other, queue = ch.exchange("direct"), ch.exchange("fanout"), ch.queue()
    ch.bind(queue, other)
    ch.publish(main, "k", b"lost")
    name = policies.set(f"^{main}$", {"alternate-exchange": other}, apply_to="exchanges")
    eventually(lambda: f"{main}\t{name}" in broker.ctl("-q", "list_exchanges", "name", "policy"))
    ch.publish(main, "k", b"found")
    assert eventually(lambda: ch.get(queue, no_ack=True)).body == b"found"
    policies.clear(name)
    eventually(lambda: f"{main}\t{name}" not in broker.ctl("-q", "list_exchanges", "name", "policy"))
    ch.publish(main, "k", b"lost", mandatory=True)
    assert ch.answer("basic.return").reply_code == 312
    assert ch.ready(queue) == 0


def test_f015_the_argument_beats_the_policy(ch, policies):
    right, wrong, queue = ch.exchange("fanout"), ch.exchange("fanout"), ch.queue()
    main = ch.exchange("direct", arguments={"alternate-exchange": right})
    ch.bind(queue, right)
    policies.set(f"^{main}$", {"alternate-exchange": wrong})
    ch.publish(main, "k", b"m")
    assert eventually(lambda: ch.get(queue, no_ack=True)).body == b"m"


def test_f130_the_highest_priority_wins_and_among_equals_the_first_name(broker, ch, policies):
    queue, stem = ch.queue(), fresh("p")
    either = [stem + "-m", stem + "-z"]  # RabbitMQ takes any of them
    equals = broker.pick(either, warren=[stem + "-m"])
    policies.set(f"^{queue}$", {"max-length": 1}, name=stem + "-z")
    policies.set(f"^{queue}$", {"max-length": 2}, name=stem + "-m")
    policies.set(f"^{queue}$", {"max-length": 3}, name=stem + "-a", apply_to="exchanges")
    eventually(lambda: policies.shown(queue)[0] in equals)
    policies.set(f"^{queue}$", {"max-length": 4}, name=stem + "-x", priority=7)
    eventually(lambda: policies.shown(queue) == (stem + "-x", "", {"max-length": 4}))
    policies.set("^(?!amq\\.)(?=" + queue + ")", {"max-length": 5}, name=stem + "-y", priority=8)
    eventually(lambda: policies.shown(queue) == (stem + "-y", "", {"max-length": 5}))
    policies.clear(stem + "-x")
    policies.clear(stem + "-y")
    eventually(lambda: policies.shown(queue)[0] in equals)


def test_f130_what_a_policy_applies_to(ch, policies):
    queue = ch.queue()
    for apply_to in ["exchanges", "quorum_queues", "streams"]:
        policies.set(f"^{queue}$", {"max-length": 1}, apply_to=apply_to, priority=9)
    assert policies.shown(queue) == ("", "", {})
    for apply_to in ["queues", "classic_queues", "all"]:
        name = policies.set(f"^{queue}$", {"max-length": 1}, apply_to=apply_to)
        eventually(lambda name=name: policies.shown(queue)[0] == name)
        policies.clear(name)


def test_f130_a_policy_that_is_not_for_classic_queues_is_passed_over_whole(broker, ch, policies):
    if broker.flavor == "rabbitmq3":
        pytest.skip("3.10 has it otherwise")
    queue = ch.queue()
    policies.set(f"^{queue}$", {"delivery-limit": 5, "max-length": 1}, priority=9)
    name = policies.set(f"^{queue}$", {"max-length": 2})
    eventually(lambda: policies.shown(queue) == (name, "", {"max-length": 2}))


def test_f133_both_kinds_give_the_effective_definition(ch, policies):
    queue = ch.queue()
    user = policies.set(f"^{queue}$", {"max-length": 3, "message-ttl": 60000, "queue-mode": "lazy", "expires": 900000})
    operator = policies.set(f"^{queue}$", {"max-length": 5, "message-ttl": 50000, "max-length-bytes": 9}, operator=True)
    wanted = {"expires": 900000, "max-length": 3, "max-length-bytes": 9, "message-ttl": 50000, "queue-mode": "lazy"}
    eventually(lambda: policies.shown(queue) == (user, operator, wanted))


def test_f130_policies_apply_to_queues_declared_later(ch, policies):
    queue = fresh("q")
    name = policies.set(f"^{queue}$", {"max-length": 1})
    ch.queue(queue)
    assert policies.shown(queue)[0] == name
    ch.put(queue, b"a", b"b")
    eventually(lambda: ch.ready(queue) == 1)
    listed = json.loads(policies.broker.ctl("-q", "list_policies", "--formatter", "json"))
    (row,) = (row for row in listed if row["name"] == name)
    assert (row["pattern"], row["apply-to"], row["priority"]) == (f"^{queue}$", "all", 0)
    assert json.loads(row["definition"]) == {"max-length": 1}


def test_f130_consumers_go_on_while_policies_come_and_go(ch, ch2, policies):
    queue = ch.queue(durable=True)
    ch2.consume(queue, no_ack=True)
    names = []
    for limit in range(1, 4):
        names.append(policies.set(f"^{queue}$", {"max-length": limit, "message-ttl": 600000}, priority=limit))
        ch.publish(key=queue, body=b"%d" % limit)
        assert ch2.deliver().body == b"%d" % limit
    for name in names:
        policies.clear(name)
        ch.publish(key=queue, body=name.encode())
        assert ch2.deliver().body == name.encode()
