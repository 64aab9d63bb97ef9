#!/usr/bin/env python3
"""Stops a broker by SIGSTOP while clients work and lets it go on by SIGCONT, three times a cycle; half of the cycles end with a kill while it
is stopped once more, the others with a clean stop.

A paused virtual machine, a debugger or a swapping host looks like that. Checked, beside all that kill9.py checks of messages:

  1. nobody's connection ends by a stop: clients that kept sending heartbeats into the socket meanwhile are not taken for dead;
  2. who is silent for longer than twice its heartbeat is closed, stops or no stops, soon after the broker runs again;
  3. publishes and acks that came while it stood are done when it goes on, in order, once.

Exit code 0: nothing was lost, nobody was closed who was alive.

    freeze.py --warren target/release/warren [--cycles 2] [--seed N|random]
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from types import SimpleNamespace

import rawamqp as amqp
from broker import Broker, Failed
from kill9 import QUEUES, ROUTES, Consumer, Publisher, Run, Violation, Worker
from seeds import add_seed

HEARTBEAT_S = 1
SILENT_CLOSED_S = 2 * HEARTBEAT_S + 3     # after that much running time a silent connection has to be closed


class Beating(Worker):
    """Sends a heartbeat twice in each interval, whatever the broker does, and wants to stay connected."""

    def work(self):
        raw = amqp.Raw(self.url, heartbeat=HEARTBEAT_S)
        raw.socket.settimeout(HEARTBEAT_S / 2)
        while not self.stopping:
            raw.send(amqp.frame(amqp.HEARTBEAT, 0, b""))
            raw.receive()
            raw.frames()
            time.sleep(HEARTBEAT_S / 4)


class Silent(Worker):
    """Sends nothing and notes when it is closed."""

    def work(self):
        raw = amqp.Raw(self.url, heartbeat=HEARTBEAT_S)
        raw.socket.settimeout(0.2)
        while not self.stopping:
            raw.receive()
            raw.frames()


class Frozen(Run):
    """Lives with stops in them."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.freezes = self.frozen_s = 0

    def life(self, cycle):
        url = self.broker.url
        self.publishers = [Publisher(url, self.journal, i, self.random.random()) for i in range(len(ROUTES))]
        self.consumers = [Consumer(url, self.journal, i, self.random.random()) for i in range(len(QUEUES))]
        beating = [Beating(url) for _ in range(3)]
        self.workers = [*self.publishers, *self.consumers, *beating]
        for worker in self.workers:
            worker.start()
        self.watch(0.5)
        for _ in range(3):
            silent = Silent(url)
            silent.start()
            self.watch(self.random.uniform(0.1, 0.6))
            self.freeze(self.random.choice((0.05, 0.5, 3 * HEARTBEAT_S, 5 * HEARTBEAT_S)))
            self.check_connected("a stop")
            confirmed = self.confirmed()
            self.watch(SILENT_CLOSED_S)
            if self.confirmed() == confirmed:
                raise Violation("nothing is confirmed after a stop")
            if silent.ended is None:
                raise Violation(f"a connection is open that said nothing for {SILENT_CLOSED_S} s, with heartbeats of {HEARTBEAT_S} s")
            self.check_connected("the time after a stop")
        if self.random.random() < 0.5:
            self.stop_cleanly()
            return "stopped"
        self.freeze(0.3, goes_on=False)
        self.broker.kill()
        self.kills += 1
        self.join()
        self.check_workers()
        return "killed while it stood"

    def freeze(self, seconds, goes_on=True):
        os.kill(self.broker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        if goes_on:
            os.kill(self.broker.pid, signal.SIGCONT)
        self.freezes += 1
        self.frozen_s += seconds

    def confirmed(self):
        return sum(flags.count() for flags in self.journal.confirmed)

    def check_connected(self, what):
        self.check_workers()
        for worker in self.workers:
            if worker.ended is not None:
                raise Violation(f"{what} of the broker ended the connection of a {type(worker).__name__}: {worker.ended}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True, help="the binary")
    parser.add_argument("--cycles", type=int, default=2)
    add_seed(parser)
    options = parser.parse_args()
    seed = options.seed
    folder = tempfile.mkdtemp(prefix="freeze-")
    data = os.path.join(folder, "data")
    os.makedirs(data)
    command = [options.warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", data]
    broker = Broker(command, os.path.join(folder, "broker.log"))
    print(f"freeze: seed {seed}, {options.cycles} cycles, data {folder}", flush=True)
    run = Frozen(SimpleNamespace(warren=None, seed=seed, cycles=options.cycles, power_cut=False), broker, data)
    try:
        run.run()
        broker.stop()
    except (Violation, Failed, AssertionError) as trouble:
        print(f"freeze: FAILED (seed {seed}): {trouble}\nbroker's log ends with:\n{broker.log_tail()}\ndata kept in {folder}", flush=True)
        return 1
    finally:
        if broker.pid:
            broker.kill()
    print(f"freeze: {run.freezes} stops of {run.frozen_s:.1f} s in all, {run.kills} kills, {run.confirmed()} confirmed messages, none lost")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
