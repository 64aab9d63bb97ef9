"""Tests of scale.py about many bytes: large bodies, one body for many queues, and more than the memory that a node may use."""

import contextlib
import re
import time

import amqp
from node import Blocked, Resident

QUEUES = 50
MIB = 2**20


def fanout(node):
    """A large persistent body goes to fifty queues that nobody consumes: what one costs, and what one of its copies, of disk, memory and CPU."""
    out = {}
    for size, count in ((64 << 10, node.whole(20_000)), (MIB, node.whole(2_000))):
        out.update({f"{size >> 10}_kib_{name}": figure for name, figure in fanned(node, size, count).items()})
    return out


def fanned(node, size, count):
    names = [f"bench-fan-{number}" for number in range(1, QUEUES + 1)]
    topology = ("-e", "bench-fan", "-t", "fanout", "-qp", "bench-fan-%d", "-qpf", 1, "-qpt", QUEUES, "-k", "x", "-ad", "false")
    stored = size * count
    with amqp.Connection(node.uri) as connection:
        connection.pipeline(map(amqp.declare, names))
        connection.call(amqp.declare_exchange("bench-fan", "fanout"), 40, 11)
        connection.pipeline(amqp.bind(name, "bench-fan", "x") for name in names)
        disk, written, rss, cpu = node.disk(), node.io("write_bytes"), node.rss(), node.use()
        loaded, _ = node.perf(*topology, "-p", "-y", 0, "-s", size, "-C", count, "-c", 20, "-f", "persistent")
        cpu = node.use() - cpu
        settle(node)
        out = {"bodies": count, "bodies_per_s": loaded["sent_per_s"], "stored_mib": stored / MIB,
               "disk_bytes_per_byte_of_body": (node.disk() - disk) / stored, "written_per_byte_of_body": (node.io("write_bytes") - written) / stored,
               "written_per_byte_of_copy": (node.io("write_bytes") - written) / stored / QUEUES,
               "rss_mib": (node.rss() - rss) / MIB, "rss_bytes_per_copy": (node.rss() - rss) / count / QUEUES,
               "cpu_us_per_copy": cpu * 1e6 / count / QUEUES}
        connection.pipeline(map(amqp.delete, names))
        connection.call(amqp.delete_exchange("bench-fan"), 40, 21)
    return out


def settle(node, seconds_max=20):
    """Until nothing was written for two seconds."""
    deadline, before = time.monotonic() + seconds_max, -1
    while time.monotonic() < deadline and node.io("write_bytes") != before:
        before = node.io("write_bytes")
        time.sleep(2)


def large(node):
    """Persistent bodies of 16 and 64 MiB through one queue, one at a time: MB/s, and the memory that one takes at most."""
    out = {}
    with large_allowed(node):
        for size in (16 * MIB, 64 * MIB):
            count = node.whole(16e9 / size)
            settle(node)
            node.forget_rss_max()
            rss, cpu = node.rss(), node.use()
            loaded, _ = node.perf("-u", "bench-large", "-s", size, "-f", "persistent", "-c", 1, "-q", 1, "-C", count, "-D", count, "-ct", 300)
            megabytes = size * count / 1e6
            found = {"messages": count, "mb_per_s": loaded["received_per_s"] * size / 1e6, "cpu_ms_per_mb": (node.use() - cpu) * 1000 / megabytes,
                     "rss_peak_mib": node.rss_max() / MIB, "rss_peak_over_body": (node.rss_max() - rss) / size}
            out.update({f"{size // MIB}_mib_{name}": figure for name, figure in found.items()})
    return out


@contextlib.contextmanager
def large_allowed(node):
    """RabbitMQ takes bodies of 16 MiB at most unless it is told more; Warren was started so."""
    if node.is_ours:
        yield
        return
    before = node.ctl("eval", "persistent_term:get(max_message_size).")[0].strip()
    node.ctl("eval", "persistent_term:put(max_message_size, 134217728).")
    try:
        yield
    finally:
        node.ctl("eval", f"persistent_term:put(max_message_size, {before}).")


def flood(node):
    """A hundred publishers at full speed, nobody consumes, with bodies of 1 KB and of 1 MB and watermarks near and far above what the idle node
    occupies: who reaches them, and by how much memory is above."""
    out, idle = {}, node.rss()
    for size, above in ((1000, 24), (1000, 192), (1_000_000, 64), (1_000_000, 192)):
        with watermark(node, idle + above * MIB) as watermark_bytes:
            name = f"{size // 1000}_kb_{above}_mib_above"
            out.update({f"{name}_{what}": figure for what, figure in flooded(node, size, watermark_bytes).items()})
    return out


def flooded(node, size, watermark_bytes):
    names = [f"bench-f-{number}" for number in range(1, 101)]
    with amqp.Connection(node.uri) as connection:
        node.forget_rss_max()
        with Blocked(node.uri) as blocked, Resident(node) as resident:
            loaded, _ = node.perf("-qp", "bench-f-%d", "-qpf", 1, "-qpt", 100, "-x", 100, "-y", 0, "-s", size, "-z", 20, "-e", "amq.direct", "-ad", "false")
        out = {"sent_mb_per_s": loaded["sent_per_s"] * size / 1e6, "watermark_mib": watermark_bytes / MIB, "rss_peak_mib": node.rss_max() / MIB,
               "rss_peak_over_watermark": node.rss_max() / watermark_bytes, "rss_median_mib": resident.median() / MIB,
               "blocked_times": blocked.times, "blocked_s": blocked.seconds}
        connection.pipeline(map(amqp.delete, names))
    return out


@contextlib.contextmanager
def watermark(node, wanted):
    """The memory threshold is so many bytes for as long as the block. Warren is started with it on an empty folder."""
    if node.is_ours:
        usual, node.configuration = node.configuration, f"{node.configuration}vm_memory_high_watermark.absolute = {wanted}\n"
        node.restart_empty()
        yield wanted
        node.configuration = usual
        return
    told = re.search(r"Memory high watermark setting: ([\d.]+) of", node.ctl("status")[0])
    node.ctl("set_vm_memory_high_watermark", "absolute", str(wanted))
    try:
        yield wanted
    finally:
        node.ctl("set_vm_memory_high_watermark", told[1] if told else "0.6")
