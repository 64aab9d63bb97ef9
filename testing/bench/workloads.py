"""The workloads of `make bench`: what each one is, and the arguments of `warren perf` that make it.

All names begin with `bench`, and the load generator deletes what it declared. Rates are per publisher.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """One workload. `deliver` is how the null broker has to forward for it to do the same work."""

    name: str
    what: str
    args: tuple[str, ...]
    deliver: str = "round-robin"
    tool: str = "perf"
    # What `warren perf --topology-only` declares before PerfTest runs and deletes after it.
    topology: tuple[str, ...] = ()


def _workload(name, what, args, **more):
    return Workload(name, what, tuple(args.split()), **more)


MANY = "-qpf 1 -qpt"

WORKLOADS = [
    _workload("fanout", "fanout exchange, transient, 5 bytes, autoack, 1x1",
              "-e amq.fanout -u bench-q1 -s 5 -a"),
    _workload("direct", "direct exchange, 12 bytes, prefetch 1000, ack every 200, 1x1",
              "-e bench-direct -u bench-q1 -q 1000 -A 200"),
    _workload("durable", "persistent, confirms in a window of 2000, prefetch 1000, ack every 200, 1x1",
              "-e bench-direct -u bench-q1 -f persistent -c 2000 -q 1000 -A 200"),
    _workload("fanout-10", "fanout exchange to 10 queues, 5 bytes, autoack, 1x10",
              f"-e amq.fanout -qp bench-f-%d {MANY} 10 -y 10 -s 5 -a", deliver="all"),
    _workload("fan-in", "1000 publishing connections with 10 unconfirmed each, one queue, autoack",
              "-e bench-direct -u bench-q1 -x 1000 -c 10 -a"),
    _workload("queues-1000", "1000 queues with a publisher and a consumer each, 2 msg/s per queue: latency",
              f"-e bench-direct -qp bench-q-%d {MANY} 1000 -x 1000 -y 1000 -r 2 -a"),
    _workload("rate-1000", "1000 msg/s through one queue: latency",
              "-e bench-direct -u bench-q1 -r 1000 -a"),
    _workload("perf-test", "PerfTest -p -e amq.fanout -u bench-q1 -s 5 --autoack",
              "-p -e amq.fanout -u bench-q1 -s 5 --autoack", tool="perf-test", topology=("-e", "amq.fanout", "-u", "bench-q1")),
    _workload("perf-test-direct", "PerfTest -x 1 -y 1 -p -e bench-direct -u bench-q1 -k bench-q1: direct exchange, 12 bytes, acks one by one",
              "-x 1 -y 1 -p -e bench-direct -u bench-q1 -k bench-q1", tool="perf-test",
              topology=("-e", "bench-direct", "-u", "bench-q1", "-k", "bench-q1")),
    _workload("routing", "declare and bind 10,000 queues and 100,000 topics, delete a queue with all of them (RabbitMQ: ten minutes)",
              "", tool="routing"),
]


def named(names):
    """The workloads of these names, in their own order; without names all but the routing one, which takes RabbitMQ ten minutes.
    Exits with the list if one is unknown."""
    known = {workload.name for workload in WORKLOADS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such workload: {', '.join(unknown)}. There are: {', '.join(sorted(known))}")
    return [workload for workload in WORKLOADS if workload.name in names or (not names and workload.tool != "routing")]
