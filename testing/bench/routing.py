"""The routing workload of `make bench`: what declaring and binding by the ten thousand costs through the protocol, and what a
publisher feels while a queue with 100,000 topic bindings is deleted.

Exchanges, queues and bindings are durable, so each change is on disk before it counts. Three clients make them:

- `wire`   frames encoded beforehand, no-wait, written in one go, then one question whose answer ends the measurement: the broker alone
- `pika`   one call after another, each waiting for its answer
- `pika, no-wait`   the same library without waiting: a real client that pipelines

A client that is not through after its patience is counted as far as it got. Everything lies in a vhost of its own (for Warren: in a
broker of its own).
"""

import contextlib
import statistics
import threading
import time

from wireclient import Connection, Refused, frame, publish

VHOST = "bench-routing"
QUEUES = 10_000
TOPICS = 100_000
# A no-wait run may take so long before the broker is given up.
PATIENCE_S = 200
# One-by-one clients run so long, or until they are done.
TURN_S = 10
LATENCY_BEFORE_S = 2
LATENCY_AFTER_S = 1
# Clients that declare while the deletion goes on.
DECLARERS = 4
FANOUT_MESSAGES = 20
VICTIM = "bench-victim"


def topic(n):
    """Key of the n-th topic binding: a pattern, since those without wildcards are the easy half."""
    return f"devices.d{n}.*.state"


def declare_and_bind(prefix, n):
    """Name of a queue and the frames that declare it and bind it with the key that all share."""
    name = f"{prefix}-{n}"
    declared = frame("queue.declare", queue=name, durable=True, nowait=True)
    return declared + frame("queue.bind", queue=name, exchange="bench-same", routing_key="all", nowait=True)


def bind_topic(n):
    return frame("queue.bind", queue=VICTIM, exchange="bench-topic", routing_key=topic(n), nowait=True)


def poured(uri, frames, changes):
    """Changes per second when all is written at once. The last question is answered when all before it is done."""
    link = Connection(uri, PATIENCE_S)
    started = time.monotonic()
    link.pour(frames)
    link.ask("exchange.declare", exchange="bench-topic", type="topic", durable=True, passive=True)
    seconds = time.monotonic() - started
    link.close()
    return {"changes": changes, "seconds": seconds, "per_s": changes / seconds}


def set_up(uri):
    link = Connection(uri, PATIENCE_S)
    for exchange, kind in (("bench-same", "direct"), ("bench-topic", "topic"), ("bench-all", "fanout")):
        link.ask("exchange.declare", exchange=exchange, type=kind, durable=True)
    for queue in (VICTIM, "bench-slow", "bench-other"):
        link.ask("queue.declare", queue=queue, durable=True)
    link.ask("queue.bind", queue="bench-other", exchange="bench-topic", routing_key="others.#")
    link.close()


def pika_one_by_one(uri):
    """Declares and binds with waiting, for a while; then topic bindings for a while."""
    import pika

    link = pika.BlockingConnection(pika.URLParameters(uri))
    channel = link.channel()

    def turns(turn, count, changes_per_turn):
        started = time.monotonic()
        done = 0
        while done < count and time.monotonic() - started < TURN_S:
            turn(done)
            done += 1
        seconds = time.monotonic() - started
        return {"changes": done * changes_per_turn, "seconds": seconds, "per_s": done * changes_per_turn / seconds}

    def queue(n):
        channel.queue_declare(f"bench-p-{n}", durable=True)
        channel.queue_bind(f"bench-p-{n}", "bench-same", "others")

    figures = {
        "declare_bind": turns(queue, QUEUES, 2),
        "topics": turns(lambda n: channel.queue_bind("bench-slow", "bench-topic", topic(n)), TOPICS, 1),
    }
    link.close()
    return figures


def pika_no_wait(uri):
    """Topic bindings without waiting, written as fast as the library does; ended by one that is answered."""
    import pika

    found = {}

    def opened(channel):
        found["started"] = time.monotonic()
        for n in range(TOPICS):
            channel.queue_bind("bench-slow", "bench-topic", "p." + topic(n))
        channel.queue_bind("bench-slow", "bench-topic", "last", callback=answered)

    def answered(_):
        found["seconds"] = time.monotonic() - found["started"]
        link.close()

    def stop(*_):
        link.ioloop.stop()

    link = pika.SelectConnection(
        pika.URLParameters(uri + "?heartbeat=0"), on_open_callback=lambda link: link.channel(on_open_callback=opened), on_close_callback=stop,
        on_open_error_callback=stop)
    link.ioloop.call_later(PATIENCE_S, stop)
    link.ioloop.start()
    if "seconds" not in found:
        raise Refused("pika was not done in time")
    return {"topics": {"changes": TOPICS, "seconds": found["seconds"], "per_s": TOPICS / found["seconds"]}}


def large_fanout(uri):
    """Messages to one key that leads to all queues, confirmed one by one: places in queues per second."""
    link = Connection(uri, PATIENCE_S)
    link.ask("confirm.select")
    message = publish("bench-same", "all", b"12 bytes....", persistent=False)
    started = time.monotonic()
    for _ in range(FANOUT_MESSAGES):
        link.pour(message)
        link.expect("basic.ack")
    seconds = time.monotonic() - started
    link.close()
    return {"messages": FANOUT_MESSAGES, "seconds": seconds, "per_s": FANOUT_MESSAGES * QUEUES / seconds}


class Publisher:
    """Publishes and waits for the confirm, again and again, to a queue that nothing happens to, through the topic exchange."""

    def __init__(self, uri, persistent):
        self.link = Connection(uri, PATIENCE_S)
        self.link.ask("confirm.select")
        self.message = publish("bench-topic", "others.x", b"12 bytes....", persistent)
        self.taken = []
        self.failed = None
        self.going = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while self.going:
                started = time.monotonic()
                self.link.pour(self.message)
                self.link.expect("basic.ack")
                self.taken.append((started, time.monotonic() - started))
                time.sleep(0.0005)
        except Refused as reason:
            self.failed = str(reason)

    def stop(self):
        self.going = False
        self.thread.join(PATIENCE_S)
        self.link.close()

    def between(self, start, end):
        """Milliseconds of the confirms that were awaited at some time between the two."""
        taken = sorted(1e3 * seconds for at, seconds in self.taken if at + seconds >= start and at < end)
        if not taken:
            return None
        return {"count": len(taken), "p50_ms": statistics.median(taken), "p99_ms": taken[int(len(taken) * 0.99)], "worst_ms": taken[-1]}


class Declarer:
    """Declares an existing queue again and again: such requests need what the deletion has, and their connections share threads with
    publishers."""

    def __init__(self, uri):
        self.link = Connection(uri, PATIENCE_S)
        self.going = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        with contextlib.suppress(Refused):
            while self.going:
                self.link.ask("queue.declare", queue=f"{VICTIM}-bystander", durable=True)
                time.sleep(0.002)

    def stop(self):
        self.going = False
        self.thread.join(PATIENCE_S)
        self.link.close()


def delete(uri):
    """Deletes the queue with all the topic bindings; what others felt before and meanwhile, with clients that declare."""
    publishers = {"transient": Publisher(uri, False), "persistent": Publisher(uri, True)}
    declarers = [Declarer(uri) for _ in range(DECLARERS)]
    begun = time.monotonic()
    time.sleep(LATENCY_BEFORE_S)
    link = Connection(uri, PATIENCE_S)
    started = time.monotonic()
    answer = "ok"
    try:
        link.ask("queue.delete", queue=VICTIM)
    except Refused as reason:
        answer = str(reason)
    seconds = time.monotonic() - started
    time.sleep(LATENCY_AFTER_S)
    ended = time.monotonic()
    for other in [*publishers.values(), *declarers]:
        other.stop()
    link.close()
    return {
        "seconds": seconds, "answer": answer,
        "before": {name: publisher.between(begun, started) for name, publisher in publishers.items()},
        "meanwhile": {name: publisher.between(started, ended) for name, publisher in publishers.items()},
    }


def run(uri, process_use, say):
    """All steps against one broker, in order. `process_use()` gives CPU seconds and resident KiB so far."""
    pools = {
        "declare_bind": (b"".join(declare_and_bind("bench-q", n) for n in range(QUEUES)), 2 * QUEUES),
        "topics": (b"".join(bind_topic(n) for n in range(TOPICS)), TOPICS),
    }
    steps = {f"wire.{name}": lambda pool=pool: poured(uri, *pool) for name, pool in pools.items()}
    steps |= {
        "fanout": lambda: large_fanout(uri), "pika": lambda: pika_one_by_one(uri), "pika_no_wait": lambda: pika_no_wait(uri),
        "delete": lambda: delete(uri),
    }
    set_up(uri)
    figures = {}
    for name, step in steps.items():
        cpu, rss = process_use()
        try:
            found = step()
        except ImportError:
            found = {"failed": "pika is not installed for this Python"}
        except (Refused, OSError) as reason:
            found = {"failed": str(reason)}
        after, rss_after = process_use()
        figures[name] = found | {"cpu_s": after - cpu, "rss_grown_kib": rss_after - rss}
        say(f"    {name:18} {brief(found)}, CPU {after - cpu:.2f} s")
    return figures


def brief(found):
    """A step's figures in a line."""
    if "failed" in found:
        return f"failed: {found['failed']}"
    if "answer" in found:
        worst = {name: felt and round(felt["worst_ms"], 1) for name, felt in found["meanwhile"].items()}
        return f"{found['seconds']:.3f} s, answer {found['answer']}; worst confirm of others, ms: {worst}"
    parts = {"": found} if "per_s" in found else found
    return ", ".join(f"{name} {part['per_s']:,.0f}/s ({part['seconds']:.2f} s)".strip() for name, part in parts.items())


ROWS = [
    ("declare and bind 10,000 queues, frames without waiting", "changes/s", "wire.declare_bind", "per_s"),
    ("100,000 topic bindings of one queue, frames without waiting", "changes/s", "wire.topics", "per_s"),
    ("the same, pika without waiting", "changes/s", "pika_no_wait", "topics", "per_s"),
    ("declare and bind, pika, one by one", "changes/s", "pika", "declare_bind", "per_s"),
    ("topic bindings, pika, one by one", "changes/s", "pika", "topics", "per_s"),
    ("messages to one key of 10,000 queues, into queues", "/s", "fanout", "per_s"),
    ("delete the queue with 100,000 topic bindings", "s", "delete", "seconds"),
    ("confirms of a transient message meanwhile, p50", "ms", "delete", "meanwhile", "transient", "p50_ms"),
    ("p99", "ms", "delete", "meanwhile", "transient", "p99_ms"),
    ("worst", "ms", "delete", "meanwhile", "transient", "worst_ms"),
    ("confirms of a persistent message meanwhile, p50", "ms", "delete", "meanwhile", "persistent", "p50_ms"),
    ("p99", "ms", "delete", "meanwhile", "persistent", "p99_ms"),
    ("worst", "ms", "delete", "meanwhile", "persistent", "worst_ms"),
]


def cell(figures, path):
    """One figure as text; why there is none, if it is so."""
    found = figures
    for key in path:
        found = found.get(key) if found is not None else None
        if isinstance(found, dict) and "failed" in found:
            return "failed"
    if found is None:
        return "-"
    text = f"{found:,.0f}" if found >= 100 else f"{found:.2f}"
    answer = figures["delete"].get("answer", "ok") if path == ("delete", "seconds") else "ok"
    return text if answer == "ok" else f"{text}: {answer.partition(': ')[2] or answer}"


def table(figures):
    """All figures as a Markdown table."""
    names = list(figures)
    lines = [f"| routing over the protocol | unit | {' | '.join(names)} |", f"|---|---|{'---:|' * len(names)}"]
    for what, unit, *path in ROWS:
        lines.append(f"| {what} | {unit} | {' | '.join(cell(figures[name], tuple(path)) for name in names)} |")
    return "\n".join(lines)


@contextlib.contextmanager
def vhost_of(ctl):
    """A vhost of its own for the length of a block; `ctl` runs a control command of the broker."""
    ctl("add_vhost", VHOST)
    ctl("set_permissions", "-p", VHOST, "guest", ".*", ".*", ".*")
    try:
        yield
    finally:
        ctl("delete_vhost", VHOST)
