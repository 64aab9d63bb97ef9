#!/usr/bin/env python3
"""Queues at scale: very many of them, and very long ones. `make bench` runs it after the workloads; alone: scale.py [TEST...]

    SCALE     factor for all counts (0.1; 1 is 100,000 queues and 10,000,000 messages, and takes 12 GB of disk)
    WARREN, PEER, BROKERS   as for run.sh

Every test starts a broker on an empty folder. Where RabbitMQ can do a test it is done there too, on objects whose names begin with
`bench`, which are deleted at the end; counts of objects and messages are a tenth there, because it takes too long otherwise, but for those of
large bodies (`fanout`, `large`). `shorten` sets a policy there, `flood` the memory watermark, `large` the largest body, and all three take it back.
Results: a table, and bench-results/scale-*.json, from which plot_scale.py makes the plots of docs/performance.md.
"""

import datetime
import json
import os
import signal
import sys
import time

import amqp
import brokers
from bench import machine, say, words
from bodies import fanout, flood, large
from brokers import ROOT, Missing
from node import RABBITMQ, SCALE, Probe, Publisher, confirms, counts_of, depth_of, fresh, in_ms, wait_for_depth


def objects(node):
    """Durable queues with a binding each: declared, listed, idle, restarted."""
    count = node.share(1_000_000 if os.environ.get("MILLION") else 100_000)
    names = [f"bench-q-{number:07}" for number in range(count)]
    before = node.rss()
    out = {"queues": count}
    with amqp.Connection(node.uri) as connection:
        began = time.monotonic()
        connection.pipeline(amqp.declare(name) for name in names)
        declared = time.monotonic()
        out["declared_per_s"] = count / (declared - began)
        out["bytes_per_queue"] = (node.rss() - before) / count
        connection.pipeline(amqp.bind(name, "amq.direct", name) for name in names)
        out["bound_per_s"] = count / (time.monotonic() - declared)
    text, out["list_queues_s"] = node.ctl("list_queues", "name", "messages")
    if text.count("bench-q-") != count:
        raise Missing("list_queues does not list all queues")
    time.sleep(1)
    cpu, began = node.use(), time.monotonic()
    time.sleep(10)
    out["idle_core_percent"] = 100 * (node.use() - cpu) / (time.monotonic() - began)
    if node.is_ours:
        out.update(objects_restarted(node, names))
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.publish(names[-1], b"x") + amqp.get(names[-1], no_ack=True), 60, 71)
        connection.next(), connection.next()
        connection.pipeline(map(amqp.delete, names))
    return out


def objects_restarted(node, names):
    """Warren stops and starts; a tenth as many queues and bindings again, and a persistent message for each queue, are what is to be
    replayed when it is killed then."""
    out, count = {"stop_s": node.stop(signal.SIGTERM), "restart_clean_s": node.start()}, len(names)
    out["restart_clean_read_mib"] = node.io("rchar") / 2**20
    since = [f"bench-q-{number:07}" for number in range(count, count + max(count // 10, 1))]
    with amqp.Connection(node.uri) as connection:
        connection.pipeline(amqp.declare(name) for name in since)
        connection.pipeline(amqp.bind(name, "amq.direct", name) for name in since)
        names.extend(since)
        connection.publish_confirmed([amqp.publish(name, b"replayed", persistent=True) for name in names])
    node.stop(signal.SIGKILL)
    out["restart_after_kill_s"] = node.start()
    out.update({"replayed_queues": len(since), "replayed_messages": len(names), "restart_after_kill_read_mib": node.io("rchar") / 2**20,
                "rss_mib_after_restart": node.rss() / 2**20})
    told = node.ctl("list_queues", "name", "messages", "--silent")[0].split()
    if sum(word.startswith("bench-q-") for word in told) != len(names) or told.count("1") != len(names):
        raise Missing("queues or messages are missing after the restart")
    with amqp.Connection(node.uri) as connection:
        connection.pipeline(amqp.method(50, 30, b"\0\0" + amqp.short(name) + b"\0") for name in names)
    return out


def backlog(node):
    """One queue fills with messages of 1 KB and is drained; persistent, confirms. Rates of its tenths should be alike, and so should
    what a calm publisher waits for its confirms in front of the empty and of the long queue."""
    count = node.share(10_000_000)
    queue = ("-u", "bench-backlog", "-ad", "false", "-s", 1000)
    calm = lambda *more: confirms(node.perf(*queue, "-c", 100, "-f", "persistent", "-y", 0, "-r", 1000, "-z", 10, *more)[0])
    baseline, _ = node.perf(*queue, "-c", 2000, "-f", "persistent", "-q", 1000, "-A", 200, "-z", 10)
    calm_before = calm()
    disk_before, rss_before = node.disk(), node.rss()
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-backlog"), 50, 11)
    filled, series = node.perf(*queue, "-c", 2000, "-f", "persistent", "-y", 0, "-C", count, "-p")
    out = {"messages": count, "empty_queue_per_s": baseline["received_per_s"], "fill_per_s": filled["sent_per_s"]}
    out.update(tenths(series, count))
    out["rss_mib"], out["rss_max_mib"] = node.rss() / 2**20, filled["broker"]["rss_max_kib"] / 1024
    out["bytes_per_message"] = (node.rss() - rss_before) / count
    out["disk_bytes_per_message"] = (node.disk() - disk_before) / count
    out.update({f"calm_empty_{name}": ms for name, ms in calm_before.items()})
    out.update({f"calm_long_{name}": ms for name, ms in calm("-p").items()})
    if node.is_ours:
        out.update(backlog_restarted(node, queue, count // 10))
        count += count // 10
    drained, series = node.perf(*queue, "-x", 0, "-q", 1000, "-A", 200, "-D", count, "-p")
    out["drain_per_s"] = drained["received_per_s"]
    out["drain_share"] = drained["received_per_s"] / baseline["received_per_s"]
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.delete("bench-backlog"), 50, 41)
    return out


def backlog_restarted(node, queue, more):
    """Warren stops and starts; so many messages more are what is to be replayed when it is killed then."""
    node.stop(signal.SIGTERM)
    out = {"restart_clean_s": node.start(), "restart_clean_read_mib": node.io("rchar") / 2**20}
    with amqp.Connection(node.uri) as connection:
        count = depth_of(connection, "bench-backlog") + more
    node.perf(*queue, "-c", 2000, "-f", "persistent", "-y", 0, "-C", more, "-p")
    node.stop(signal.SIGKILL)
    out.update({"restart_after_kill_s": node.start(), "replayed_messages": more, "restart_after_kill_read_mib": node.io("rchar") / 2**20})
    with amqp.Connection(node.uri) as connection:
        if depth_of(connection, "bench-backlog") != count:
            raise Missing("messages are missing after the restart")
    return out


def tenths(series, count):
    """Rate and worst p99 of each tenth of a run."""
    parts, sent = [[] for _ in range(10)], 0
    for line in series:
        parts[min(int(10 * sent / count), 9)].append(line)
        sent += line["sent"]
    rates = [sum(line["sent"] for line in part) / len(part) for part in parts if part]
    p99 = [max(line["confirm_p99_us"] or 0 for line in part) / 1000 for part in parts if part]
    return {"fill_tenths_per_s": [round(rate) for rate in rates], "fill_tenths_p99_ms": [round(one, 1) for one in p99]}


def fifty(node):
    """Fifty consumers join a long queue at once, while somebody publishes to it with confirms."""
    return joined(node, {})


def fifty_single(node):
    """The same with a single active consumer."""
    return joined(node, {"x_single_active_consumer": True})


def joined(node, arguments):
    # With SCALE=0.1 so many that fifty consumers take five seconds; more than ten million are too many for a disk.
    count = min(node.share(70_000_000), 10_000_000)
    queue = ("-u", "bench-joined", "-ad", "false", "-s", 1000, "-p")
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-joined", **arguments), 50, 11)
        node.perf(*queue, "-c", 2000, "-y", 0, "-C", count)
        with Publisher(node.uri, "bench-joined", 1000) as publisher, Probe(node.uri) as probe:
            alone = in_ms(publisher.waits_of(3))
            with node.perf_meanwhile(*queue, "-x", 0, "-y", 50, "-q", 100, "-A", 20):
                wait_until(lambda: counts_of(connection, "bench-joined")[1] > 0)
                publisher.waits, probe.waits, began = [], [], time.monotonic()
                wait_until(lambda: depth_of(connection, "bench-joined") < 100)
                seconds, waits = time.monotonic() - began, publisher.waits[:]
                out = {"messages": count, "drain_s": seconds, "drain_per_s": count / seconds, **probe.figures()}
        connection.call(amqp.delete("bench-joined"), 50, 41)
    out.update({f"publisher_{name}": ms for name, ms in in_ms(waits).items()})
    return {**out, **{f"publisher_alone_{name}": ms for name, ms in alone.items()}}


def wait_until(holds, seconds=600):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise Missing(f"it takes longer than {seconds} s")
        time.sleep(0.005)


def expiry(node):
    """All messages of a long queue expire at once, while somebody else is served."""
    return dying(node, "queue", {})


def expiry_each(node):
    """The same where each message has a time to live of its own, and all of them end in the same moment."""
    return dying(node, "message", {})


def dead_letters(node):
    """The messages of a queue that expire at once go to another queue."""
    return dying(node, "queue", {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "bench-dead"})


def dying(node, whose_ttl, arguments):
    count = node.share(1_000_000)
    ttl_ms = 15_000
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-dead"), 50, 11)
        if whose_ttl == "queue":
            connection.call(amqp.declare("bench-dying", x_message_ttl=ttl_ms, **arguments), 50, 11)
            node.perf("-u", "bench-dying", "-ad", "false", "-p", "-s", 100, "-c", 2000, "-y", 0, "-C", count, "-f", "persistent")
        else:
            connection.call(amqp.declare("bench-dying", **arguments), 50, 11)
            fill_until(connection, count, time.monotonic() + ttl_ms / 1000)
        with Probe(node.uri) as probe:
            began, used = time.monotonic(), node.use()
            deadline, depth = began + 300, count
            while depth > 0 and time.monotonic() < deadline:
                time.sleep(0.005)
                depth = depth_of(connection, "bench-dying")
                if depth == count:
                    probe.waits.clear()
                    began, used = time.monotonic(), node.use()
        out = {"messages": count, "expired_per_s": count / (time.monotonic() - began), **probe.figures()}
        if arguments:
            wait_for_depth(connection, "bench-dead", count)
        # The requests of the probe meanwhile are in it; ticks of the clock are 10 ms.
        out["cpu_us_per_message"] = (node.use() - used) * 1e6 / count
        connection.pipeline(map(amqp.delete, ("bench-dying", "bench-dead")))
    return out


def fill_until(connection, count, end):
    """Persistent messages whose times to live end at the same moment."""
    for first in range(0, count, 1000):
        ttl_ms = int((end - time.monotonic()) * 1000)
        connection.send(amqp.publish("bench-dying", b"d" * 100, persistent=True, ttl_ms=ttl_ms) * min(1000, count - first))
    wait_for_depth(connection, "bench-dying", count)


def stuck(node):
    """A message at the head of a long queue is never acked, while all behind it, and then 20 seconds of others, are consumed."""
    count = node.share(3_000_000)
    queue = ("-u", "bench-stuck", "-ad", "false", "-s", 1000, "-p")
    empty = node.disk()
    mib = lambda: (node.disk() - empty) / 2**20
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-stuck"), 50, 11)
        node.perf(*queue, "-c", 2000, "-y", 0, "-C", count, "-f", "persistent")
        connection.call(amqp.get("bench-stuck", no_ack=False), 60, 71)
        connection.next(), connection.next()
        out = {"messages": count, "disk_mib_full": mib()}
        drained, _ = node.perf(*queue, "-x", 0, "-q", 1000, "-A", 200, "-D", count - 1)
        out.update({"drain_per_s": drained["received_per_s"], "disk_mib_drained": mib()})
        flowed, _ = node.perf(*queue, "-c", 200, "-q", 1000, "-A", 200, "-z", 20, "-f", "persistent")
        out.update({"flow_per_s": flowed["received_per_s"], "disk_mib_after_flow": mib()})
        time.sleep(60)
        out.update({"disk_mib_a_minute_later": mib(), "live_mib": 1000 / 2**20})
        connection.call(amqp.delete("bench-stuck"), 50, 41)
    return out


def purge(node):
    """A long queue is purged while somebody else is served."""
    return shrinking(node, lambda connection: connection.call(amqp.method(50, 30, b"\0\0" + amqp.short("bench-shrinks") + b"\0"), 50, 31))


def shorten(node):
    """A policy makes a long queue a short one, and what is dropped goes to another queue."""
    policy = '{"max-length":0,"dead-letter-exchange":"","dead-letter-routing-key":"bench-dead"}'
    return shrinking(node, lambda _: node.ctl("set_policy", "--apply-to", "queues", "bench-short", "^bench-shrinks$", policy))


def delete(node):
    """A long queue is deleted."""
    def act(connection):
        connection.call(amqp.delete("bench-shrinks"), 50, 41)
        connection.call(amqp.declare("bench-shrinks"), 50, 11)
    return shrinking(node, act)


def shrinking(node, act):
    """A queue becomes empty at once."""
    count = node.share(1_000_000)
    with amqp.Connection(node.uri) as connection:
        connection.pipeline(map(amqp.declare, ("bench-shrinks", "bench-dead")))
        node.perf("-u", "bench-shrinks", "-ad", "false", "-p", "-s", 100, "-c", 2000, "-y", 0, "-C", count, "-f", "persistent")
        with Probe(node.uri) as probe:
            time.sleep(0.2)
            probe.waits.clear()
            began = time.monotonic()
            act(connection)
            while depth_of(connection, "bench-shrinks") > 0 and time.monotonic() - began < 300:
                time.sleep(0.02)
            seconds = time.monotonic() - began
        if "bench-short" in node.ctl("list_policies")[0]:
            node.ctl("clear_policy", "bench-short")
        connection.pipeline(map(amqp.delete, ("bench-shrinks", "bench-dead")))
    return {"messages": count, "empty_s": seconds, **probe.figures()}


def requeue(node):
    """All deliveries of a consumer come back at once, and are delivered again in their order."""
    count = node.share(1_000_000)
    with amqp.Connection(node.uri) as connection:
        connection.call(amqp.declare("bench-requeue"), 50, 11)
        for first in range(0, count, 1000):
            connection.send(b"".join(amqp.publish("bench-requeue", b"%012d" % number) for number in range(first, min(first + 1000, count))))
        wait_for_depth(connection, "bench-requeue", count)
        with amqp.Connection(node.uri) as consumer:
            consume(consumer)
            consumer.count(count, kind=3)
            consumer.call(amqp.method(60, 30, amqp.short("c") + b"\0"), 60, 31)
            with Probe(node.uri) as probe:
                began = time.monotonic()
                # basic.nack of the latest tag, multiple and requeue.
                consumer.send(amqp.method(60, 120, count.to_bytes(8, "big") + b"\x03"))
                while depth_of(connection, "bench-requeue") < count:
                    time.sleep(0.002)
                seconds = time.monotonic() - began
        with amqp.Connection(node.uri) as consumer:
            consume(consumer)
            bodies = []
            while len(bodies) < min(count, 20_000):
                kind, payload = consumer.next()
                if kind == 3:
                    bodies.append(payload)
        if bodies != sorted(bodies):
            raise Missing("the order is lost")
        connection.call(amqp.delete("bench-requeue"), 50, 41)
    return {"messages": count, "all_back_s": seconds, **probe.figures()}


def consume(connection):
    connection.send(amqp.method(60, 20, b"\0\0" + amqp.short("bench-requeue") + amqp.short("c") + b"\0" + amqp.table()))
    connection.expect(60, 21)


def curves(node):
    """Memory and restart time against the number of queues, and of messages in one queue: what docs/storage.svg draws."""
    points = {"queues": [], "messages": []}
    for part in (0.01, 0.1, 0.3, 1):
        node.restart_empty()
        empty, count = node.rss(), node.share(100_000 * part)
        with amqp.Connection(node.uri) as connection:
            connection.pipeline(amqp.declare(f"bench-q-{number:07}") for number in range(count))
        points["queues"].append(point(node, count, empty))
        node.restart_empty()
        empty, count = node.rss(), node.share(3_000_000 * part)
        with amqp.Connection(node.uri) as connection:
            connection.call(amqp.declare("bench-backlog"), 50, 11)
        node.perf("-u", "bench-backlog", "-ad", "false", "-p", "-s", 1000, "-c", 2000, "-f", "persistent", "-y", 0, "-C", count)
        points["messages"].append(point(node, count, empty))
    return points


def point(node, count, empty):
    """The state now: the number of objects, resident bytes beyond those of an empty broker, seconds until clients are accepted after a kill."""
    rss = node.rss() - empty
    node.stop(signal.SIGKILL)
    return {"count": count, "rss_bytes": rss, "restart_s": node.start()}


TESTS = {"objects": objects, "backlog": backlog, "fifty": fifty, "fifty-single": fifty_single, "expiry": expiry, "expiry-each": expiry_each,
         "dead-letters": dead_letters, "requeue": requeue, "purge": purge, "shorten": shorten, "delete": delete, "stuck": stuck,
         "fanout": fanout, "large": large, "flood": flood, "curves": curves}
# Workloads that take too long or leave too much in a broker that is not ours.
OURS_ONLY = {"curves"}


def shown(value):
    if isinstance(value, list):
        return " ".join(f"{one:,}" if isinstance(one, (int, float)) else str(one) for one in value)
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def main():
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")] or list(TESTS)
    unknown = set(wanted) - set(TESTS)
    if unknown or "--list" in sys.argv:
        print("\n".join(f"{name:13} {test.__doc__.splitlines()[0]}" for name, test in TESTS.items()))
        raise SystemExit(f"no such test: {', '.join(sorted(unknown))}" if unknown else 0)
    tools = brokers.tools()
    (ROOT / "bench-results").mkdir(exist_ok=True)
    names = [name for name in (words("BROKERS") or ["warren", "rabbitmq"]) if name in ("warren", "rabbitmq")]
    results = {"machine": machine(), "scale": SCALE, "tests": {}}
    for test in wanted:
        say(f"{test}: {TESTS[test].__doc__}")
        for name in names if test not in OURS_ONLY else names[:1]:
            try:
                with fresh(name, tools) as node:
                    found = TESTS[test](node)
            except Missing as reason:
                say(f"  {name:9} skipped: {reason}")
                continue
            results["tests"].setdefault(test, {})[name] = found
            say("\n".join(f"  {name:9} {what:24} {shown(value)}" for what, value in found.items()))
    RABBITMQ.stop()
    stem = datetime.datetime.now().strftime("scale-%Y%m%d-%H%M%S.json")
    (ROOT / "bench-results" / stem).write_text(json.dumps(results, indent=1) + "\n")
    say(f"kept in bench-results/{stem}")


if __name__ == "__main__":
    main()
