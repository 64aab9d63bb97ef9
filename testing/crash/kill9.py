#!/usr/bin/env python3
"""Kills a broker at random points, again and again, and looks for anything that was promised and is gone.

Publishers with confirms and consumers with acks work on durable queues while the process dies by SIGKILL (or, now and then,
is stopped by SIGTERM) and comes back on the same data. Checked all along and at the end:

  1. every confirmed persistent message is delivered at least once, to every queue it was routed to;
  2. nothing is delivered that was not published, and bodies are intact;
  3. per publisher and queue, first deliveries come in the order of publishing;
  4. what was acked (and the ack known to have arrived) before a clean stop never comes again;
  5. durable exchanges, queues, bindings whose declaration was answered are there, deleted ones are not; the same for users, their
     passwords and tags, vhosts and permissions that an operator makes and deletes all the while (Warren only);
  6. with --power-cut: after some kills the tail of the newest log file is cut or zeroed as a power cut would, but only
     behind the last record that holds something confirmed: the broker must start, and 1 to 5 still hold.

A run is determined by its seed as far as timing allows; the seed is printed. Exit code 0: nothing was lost.

    kill9.py --warren target/release/warren [--cycles 50] [--seed N|random] [--power-cut] [--data DIR]
    kill9.py --command "some-broker --port {port}" ...       any broker that prints `ready amqp=HOST:PORT`
"""

import argparse
import os
import random
import re
import shlex
import shutil
import struct
import sys
import tempfile
import threading
import time
import zlib

import rawamqp as amqp
from accounts import Accounts, Disagreement
from broker import Broker, Failed
from powercut import cut
from seeds import add_seed

MARK = b"k9|%d|%d|"          # publisher, sequence number; then the checksum of the rest and filling
MARKS = re.compile(rb"k9\|(\d+)\|(\d+)\|")
BODY = 6                     # kind of the records of bodies that several queues share (docs/formats/queue-records.md)
WINDOW = 600                 # unconfirmed messages per publisher
DIRECT, FANOUT = "kill9.direct", "kill9.fanout"
QUEUES = ["kill9.q0", "kill9.q1"]
TYPES = ["classic", "quorum"]                  # of these queues
ROUTES = [(DIRECT, "q0", [0]), (DIRECT, "q1", [1]), (FANOUT, "", [0, 1])]      # publisher -> exchange, key, queues


class Violation(Exception):
    """Something that was promised does not hold."""


class Flags:
    """A growing set of small numbers."""

    def __init__(self):
        self.bytes = bytearray()

    def add(self, number):
        if number >= len(self.bytes):
            self.bytes.extend(bytes(number + 65536 - len(self.bytes)))
        self.bytes[number] = 1

    def __contains__(self, number):
        return number < len(self.bytes) and self.bytes[number] == 1

    def count(self):
        return self.bytes.count(1)

    def missing_from(self, other):
        """Numbers of this set that are not in the other."""
        size = len(self.bytes)
        theirs = other.bytes[:size].ljust(size, b"\0")
        if int.from_bytes(self.bytes, "big") & ~int.from_bytes(theirs, "big") == 0:
            return []
        return [number for number in range(size) if self.bytes[number] and not theirs[number]]


class Journal:
    """The confirmed messages and the received ones. Each (publisher, queue) entry is written by one thread only."""

    def __init__(self):
        self.published = [0] * len(ROUTES)                      # next sequence number
        self.confirmed = [Flags() for _ in ROUTES]
        self.nacked = 0
        pairs = [(p, q) for p, (_, _, queues) in enumerate(ROUTES) for q in queues]
        self.delivered = {pair: Flags() for pair in pairs}
        self.settled = {pair: Flags() for pair in pairs}        # acked, and the ack arrived before a clean stop
        self.highest = {pair: -1 for pair in pairs}             # of the first deliveries
        self.repeated = 0

    def deliver(self, queue, body, redelivered):
        match = MARKS.match(body)
        if not match:
            raise Violation(f"{QUEUES[queue]} delivered what nobody published: {body[:60]!r}")
        publisher, number = int(match.group(1)), int(match.group(2))
        at = match.end()
        if zlib.crc32(body[at + 4:]) != struct.unpack_from(">I", body, at)[0]:
            raise Violation(f"body of publisher {publisher} number {number} came back changed")
        pair = (publisher, queue)
        if pair not in self.delivered or number >= self.published[publisher]:
            raise Violation(f"{QUEUES[queue]} delivered publisher {publisher} number {number}, which was never sent there")
        if number in self.settled[pair]:
            raise Violation(f"{QUEUES[queue]}: publisher {publisher} number {number} was acked before a clean stop and comes again")
        if number in self.delivered[pair]:
            self.repeated += 1
        else:
            # Messages that come back to a quorum queue stand in a line of their own, in the order in which they came back.
            if not (redelivered and TYPES[queue] == "quorum"):
                if number < self.highest[pair]:
                    raise Violation(f"{QUEUES[queue]}: first delivery of publisher {publisher} number {number} after number {self.highest[pair]}")
                self.highest[pair] = number
            self.delivered[pair].add(number)
        return pair, number

    def lost(self):
        return [f"publisher {p}, {QUEUES[q]}: {len(missing)} confirmed messages never came, e.g. {missing[:5]}"
                for (p, q), delivered in self.delivered.items() if (missing := self.confirmed[p].missing_from(delivered))]


class Worker(threading.Thread):
    """A client that works until its connection ends, or it is told to stop; violations are kept for the main thread."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.stopping, self.violation, self.ended = url, False, None, None

    def run(self):
        try:
            self.work()
        except Violation as violation:
            self.violation = violation
        except (amqp.Closed, OSError) as error:
            self.ended = error
            if getattr(error, "code", 0) not in (0, 320):
                self.violation = Violation(f"{type(self).__name__} was refused: {error}")


class Publisher(Worker):
    """Keeps up to WINDOW messages unconfirmed; what is unconfirmed when the connection ends is never sent again."""

    def __init__(self, url, journal, index, seed):
        super().__init__(url)
        self.journal, self.index, self.random = journal, index, random.Random(seed)

    def work(self):
        exchange, key, _ = ROUTES[self.index]
        raw = amqp.Raw(self.url)
        raw.open_channel(1)
        raw.confirm_select(1)
        raw.socket.settimeout(0.02)
        base, tag, lowest, outstanding = self.journal.published[self.index], 0, 1, set()
        while not (self.stopping and not outstanding):
            room = 0 if self.stopping else min(self.random.randint(1, 120), WINDOW - len(outstanding))
            batch = bytearray()
            for _ in range(room):
                number = base + tag
                tag += 1
                batch += amqp.publish(1, exchange, key, self._body(number), mandatory=True)
                outstanding.add(tag)
            self.journal.published[self.index] = base + tag
            if batch:
                raw.socket.settimeout(10)
                raw.send(batch)
                raw.socket.settimeout(0.02)
            raw.receive()
            lowest = self._confirms(raw, base, lowest, outstanding)

    def _body(self, number):
        size = self.random.choice((0, 10, 10, 100, 100, 1000, 5000)) if number % 500 else 200_000
        filling = bytes([number & 255]) * size
        return MARK % (self.index, number) + struct.pack(">I", zlib.crc32(filling)) + filling

    def _confirms(self, raw, base, lowest, outstanding):
        confirmed = self.journal.confirmed[self.index]
        for kind, _, payload in raw.frames():
            if kind != amqp.METHOD:
                continue
            ids = struct.unpack_from(">HH", payload)
            if ids == amqp.RETURN:
                raise Violation(f"a message for {ROUTES[self.index]} was returned: a binding is gone")
            if ids in (amqp.ACK, amqp.NACK):
                tag, multiple = struct.unpack_from(">QB", payload, 4)
                for one in range(lowest, tag + 1) if multiple & 1 else (tag,):
                    if one in outstanding:
                        outstanding.discard(one)
                        if ids == amqp.ACK:
                            confirmed.add(base + one - 1)
                        else:
                            self.journal.nacked += 1
                if multiple & 1:
                    lowest = tag + 1
            else:
                amqp.check_close(ids, 0, 0, payload)
        return lowest


class Consumer(Worker):
    """Acks everything it gets, in batches. `settle()` makes sure that the acks arrived."""

    def __init__(self, url, journal, queue, seed):
        super().__init__(url)
        self.journal, self.queue, self.random = journal, queue, random.Random(seed)
        self.settling, self.settle_done, self.idle_since = threading.Event(), threading.Event(), time.monotonic()

    def work(self):
        raw = amqp.Raw(self.url)
        raw.open_channel(1)
        raw.qos(1, 400)
        raw.consume(1, QUEUES[self.queue])
        raw.socket.settimeout(0.02)
        acked, pending, body, want, tag, redelivered = [], [], b"", None, 0, 0
        while not self.stopping:
            came = raw.receive()
            for kind, _, payload in raw.frames():
                if kind == amqp.METHOD:
                    ids = struct.unpack_from(">HH", payload)
                    if ids == amqp.DELIVER:
                        tag, redelivered = struct.unpack_from(">QB", payload, 5 + payload[4])
                    elif ids == amqp.CANCEL:
                        raise Violation(f"the consumer of {QUEUES[self.queue]} was cancelled")
                    else:
                        amqp.check_close(ids, 0, 0, payload)
                elif kind == amqp.HEADER:
                    want, body = struct.unpack_from(">Q", payload, 4)[0], bytearray()
                elif kind == amqp.BODY:
                    body += payload
                    if len(body) == want:
                        pending.append((tag, self.journal.deliver(self.queue, bytes(body), redelivered)))
            if came:
                self.idle_since = time.monotonic()
            if pending and (len(pending) >= self.random.randint(1, 100) or not came):
                raw.send(amqp.ack(1, pending[-1][0]))
                acked.extend(where for _, where in pending)
                pending.clear()
            if self.settling.is_set():
                self._settle(raw, pending, acked)
                return

    def _settle(self, raw, pending, acked):
        """Acks what is pending, then a round trip on the same channel: the broker has seen the acks."""
        if pending:
            raw.send(amqp.ack(1, pending[-1][0]))
            acked.extend(where for _, where in pending)
        raw.socket.settimeout(5)
        raw.qos(1, 1)
        for pair, number in acked:
            self.journal.settled[pair].add(number)
        self.settle_done.set()


class Definer(Worker):
    """Declares, binds and deletes durable things without a pause; `there` and `gone` hold what the broker answered."""

    def __init__(self, url, cycle, there, gone):
        super().__init__(url)
        self.cycle, self.there, self.gone, self.mentioned = cycle, there, gone, []

    def work(self):
        raw = amqp.Raw(self.url)
        raw.open_channel(1)
        for number in range(300):
            if self.stopping:
                break
            name = f"k9def.{self.cycle}.{number}."
            raw.declare_queue(1, name)
            raw.bind(1, name, DIRECT, name)
            self.mentioned.append(name)
            self.there.add(name)
            if number % 3 == 2:
                victim = f"k9def.{self.cycle}.{number - 1}."
                self.there.discard(victim)        # whether it is gone is unknown until the answer
                raw.delete_queue(1, victim)
                self.gone.add(victim)
        while not self.stopping:
            raw.receive()
            for kind, _, payload in raw.frames():
                if kind == amqp.METHOD:
                    amqp.check_close(struct.unpack_from(">HH", payload), 0, 0, payload)


class Operator(Worker):
    """Makes and deletes users, vhosts and permissions without a pause."""

    def __init__(self, url, cycle, accounts):
        super().__init__(url)
        self.cycle, self.accounts = cycle, accounts

    def work(self):
        try:
            self.accounts.work(self.cycle, lambda: self.stopping)
        except Disagreement as refusal:
            raise Violation(str(refusal)) from refusal


class Run:
    """The loop of lives of one broker."""

    def __init__(self, options, broker, data):
        self.accounts = Accounts([options.warren, "ctl", "--data-dir", data]) if options.warren else None
        self.options, self.broker, self.data = options, broker, data
        self.random = random.Random(options.seed)
        self.journal, self.there, self.gone = Journal(), set(), set()
        self.workers, self.consumers = [], []
        self.kills = self.stops = self.cuts = 0

    def declare(self):
        raw = amqp.Raw(self.broker.url)
        raw.open_channel(1)
        raw.declare_exchange(1, DIRECT, "direct")
        raw.declare_exchange(1, FANOUT, "fanout")
        for index, queue in enumerate(QUEUES):
            raw.declare_queue(1, queue, arguments={"x-queue-type": TYPES[index]})
            raw.bind(1, queue, DIRECT, f"q{index}")
            raw.bind(1, queue, FANOUT, "")
        raw.close()

    def life(self, cycle):
        """One life: work, then death. Returns a line about it."""
        consuming = self.random.random() < 0.8              # sometimes a backlog builds up
        self.publishers = [Publisher(self.broker.url, self.journal, i, self.random.random()) for i in range(len(ROUTES))]
        self.consumers = [Consumer(self.broker.url, self.journal, i, self.random.random()) for i in range(len(QUEUES)) if consuming]
        definer = Definer(self.broker.url, cycle, self.there, self.gone)
        self.workers = [*self.publishers, *self.consumers, definer]
        if self.accounts:
            self.workers.append(Operator(self.broker.url, cycle, self.accounts))
        for worker in self.workers:
            worker.start()
        lasts_s = self.random.choice((0.02, 0.1, 0.3, 0.6, 1.0, 1.5)) * self.random.uniform(0.5, 1.5)
        self.watch(lasts_s)
        clean = self.random.random() < 0.2
        cut_text = ""
        if clean:
            self.stop_cleanly()
        else:
            self.broker.kill()
            self.kills += 1
            self.join()
            if self.options.power_cut and self.random.random() < 0.5:
                cut_text = self.power_cut(definer)
        self.check_workers()
        return f"{'stopped' if clean else 'killed '} after {lasts_s:4.2f} s{'' if consuming else ', no consumers'}{cut_text}"

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.broker.alive():
                raise Violation(f"the broker ended by itself\n{self.broker.log_tail()}")
            self.check_workers()
            time.sleep(0.01)

    def check_workers(self):
        for worker in self.workers:
            if worker.violation:
                raise worker.violation

    def stop_cleanly(self):
        for consumer in self.consumers:
            consumer.settling.set()
        for consumer in self.consumers:
            consumer.settle_done.wait(10)
            if not consumer.settle_done.is_set() and not consumer.violation:
                raise Violation("acks before a clean stop were not answered")
        self.broker.stop()
        self.stops += 1
        self.join()

    def join(self):
        for worker in self.workers:
            worker.stopping = True
        for worker in self.workers:
            worker.join(20)
            if worker.is_alive():
                raise Violation(f"{type(worker).__name__} still has a connection to a broker that is dead")

    def power_cut(self, definer):
        """Cuts the tails of the newest files behind the last record that anyone was promised."""
        bodies = set()                                      # of promised messages: records of queues name them

        def promised_message(kind, payload):
            is_promised = any(int(n) in self.journal.confirmed[int(p)] for p, n in MARKS.findall(payload) if int(p) < len(ROUTES))
            if kind == BODY and is_promised:
                bodies.add(payload[:8])
            return is_promised or kind != BODY and any(body in payload for body in bodies)

        operator = self.accounts.answered if self.accounts else ()
        answered = [name.encode() for name in [*definer.mentioned, *self.gone, *operator]]

        def promised_definition(_, payload):
            return any(name in payload for name in answered)

        said = [cut(os.path.join(self.data, "log"), promised_message, self.random, (BODY,)),
                cut(os.path.join(self.data, "meta"), promised_definition, self.random)]
        said = [text for text in said if text]
        self.cuts += len(said)
        return "; power cut: " + ", ".join(said) if said else ""

    def restart(self):
        try:
            return self.broker.start()
        except Failed as failure:
            raise Violation(f"it does not start again: {failure}") from failure

    def check_accounts(self):
        if self.accounts:
            try:
                self.accounts.check()
            except Disagreement as disagreement:
                raise Violation(str(disagreement)) from disagreement

    def check_definitions(self):
        """All that this run knows of, newest first, at most 400 of them."""
        raw = amqp.Raw(self.broker.url)
        raw.open_channel(1)
        raw.confirm_select(1)
        for queue in sorted(self.there, reverse=True)[:200]:
            try:
                raw.declare_queue(1, queue, passive=True)
            except amqp.Closed as closed:
                raise Violation(f"queue {queue} was declared and is gone: {closed}") from closed
            raw.send(amqp.publish(1, DIRECT, queue, b"", persistent=False, mandatory=True))
            kind = None
            while kind is None:
                for frame_kind, _, payload in raw.frames():
                    ids = struct.unpack_from(">HH", payload)
                    if frame_kind == amqp.METHOD and ids in (amqp.RETURN, amqp.ACK):
                        kind = kind or ids
                if kind is None and not raw.receive():
                    raise Violation(f"no confirm of a message for {queue}")
            if kind == amqp.RETURN:
                raise Violation(f"queue {queue} is there and its binding is gone")
        channel = 1
        for queue in sorted(self.gone, reverse=True)[:200]:
            channel += 1
            raw.open_channel(channel)
            try:
                raw.declare_queue(channel, queue, passive=True)
            except amqp.Closed as closed:
                if closed.code != 404:
                    raise
                continue
            raise Violation(f"queue {queue} was deleted and is there again")
        raw.close()

    def drain(self):
        """Until nothing comes any more; then the journal has to be complete, and stay so over a clean restart."""
        self.workers = self.consumers = [Consumer(self.broker.url, self.journal, i, 0) for i in range(len(QUEUES))]
        for worker in self.workers:
            worker.start()
        end = time.monotonic() + 120
        while any(time.monotonic() - worker.idle_since < 1 for worker in self.workers):
            self.check_workers()
            if time.monotonic() > end:
                raise Violation("draining does not come to an end: messages circulate")
            time.sleep(0.05)
        self.check_workers()
        if lost := self.journal.lost():
            raise Violation("LOST: " + "; ".join(lost))
        self.stop_cleanly()
        self.check_workers()
        self.restart()
        self.check_accounts()
        raw = amqp.Raw(self.broker.url)
        raw.open_channel(1)
        for queue in QUEUES:
            messages = raw.declare_queue(1, queue, passive=True)[1]
            if messages:
                raise Violation(f"{queue}: {messages} messages came back after all were acked and the broker was stopped cleanly")
        for queue in QUEUES + sorted(self.there):
            raw.delete_queue(1, queue)
        raw.close()

    def run(self):
        self.restart()
        self.declare()
        for cycle in range(self.options.cycles):
            line = self.life(cycle)
            took_s = self.restart()
            self.check_definitions()
            self.check_accounts()
            confirmed = sum(flags.count() for flags in self.journal.confirmed)
            delivered = sum(flags.count() for flags in self.journal.delivered.values())
            print(f"  {cycle + 1:3}/{self.options.cycles} {line}; back in {took_s:.2f} s; so far {confirmed} confirmed, {delivered} delivered, "
                  f"{self.journal.repeated} again, {len(self.there)} definitions", flush=True)
        self.drain()
        confirmed = sum(flags.count() for flags in self.journal.confirmed)
        if self.kills and not confirmed:
            raise Violation("nothing was ever confirmed: this run proves nothing")
        print(f"kill9: {self.kills} kills, {self.stops} clean stops, {self.cuts} power cuts, {confirmed} confirmed messages, none lost; "
              f"{self.journal.repeated} redeliveries, {self.journal.nacked} nacks, {len(self.there)} definitions kept, {len(self.gone)} stay deleted"
              + (f", {self.accounts.summary()}" if self.accounts else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", help="the binary")
    parser.add_argument("--command", help="another broker's command, {port} and {data} in it")
    parser.add_argument("--cycles", type=int, default=50)
    add_seed(parser)
    parser.add_argument("--data", help="data folder, kept; default: a temporary one, removed after success")
    parser.add_argument("--power-cut", action="store_true")
    options = parser.parse_args()
    if bool(options.warren) == bool(options.command):
        parser.error("one of --warren and --command is needed")
    folder = options.data or tempfile.mkdtemp(prefix="kill9-")
    data = os.path.join(folder, "data")
    os.makedirs(data, exist_ok=True)
    command = shlex.split(options.command) if options.command else [options.warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", "{data}"]
    broker = Broker([word.replace("{data}", data) for word in command], os.path.join(folder, "broker.log"))
    print(f"kill9: seed {options.seed}, {options.cycles} cycles, data {folder}", flush=True)
    try:
        Run(options, broker, data).run()
        broker.stop()
    except (Violation, Failed, AssertionError) as trouble:
        print(f"kill9: FAILED (seed {options.seed}): {trouble}\nbroker's log ends with:\n{broker.log_tail()}\ndata kept in {folder}", flush=True)
        return 1
    finally:
        if broker.pid:
            broker.kill()
    if not options.data:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
