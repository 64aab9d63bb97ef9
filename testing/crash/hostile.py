#!/usr/bin/env python3
"""Attacks a broker on its AMQP port while a well-behaved publisher and consumer go on working beside it.

Each attack says which answer is right (reply code, or a closed socket) and fails on any other. All along: the well-behaved pair
loses nothing and no message takes longer than --latency-max seconds; the broker's resident memory stays below its size at the
start plus --rss-max-mb; and at the end the broker gives memory and connections back and still serves. Loopback only.

    hostile.py --url amqp://guest:guest@127.0.0.1:5672/%2F --pid PID [--rss-max-mb 512] [--flood-mb 2048] [ATTACK...]
    hostile.py --warren target/release/warren                    starts one with a handshake timeout of 2 s
"""

import argparse
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
import time

import rawamqp as amqp
from broker import Broker, Failed, rss_bytes

MB = 1 << 20


class Wrong(Exception):
    """The broker did something else than it should."""


class GoodCitizens(threading.Thread):
    """One publisher with confirms and one consumer with acks, message after message; remembers the slowest."""

    def __init__(self, url, pause_s=0.005):
        super().__init__(daemon=True)
        self.url, self.pause_s, self.stopping, self.trouble = url, pause_s, False, None
        self.count, self.slowest_s, self.latencies_s, self.busy_since = 0, 0.0, [], None

    def run(self):
        try:
            self.work()
        except (amqp.Closed, OSError, AssertionError, Wrong) as error:
            self.trouble = error

    def work(self):
        raw = amqp.Raw(self.url, timeout_s=1)
        name = f"hostile.good.{os.getpid()}"
        for channel in (1, 2):
            raw.open_channel(channel)
        raw.declare_queue(1, name)
        raw.confirm_select(1)
        raw.consume(2, name)
        while not self.stopping:
            self.busy_since = begin = time.monotonic()
            raw.send(amqp.publish(1, "", name, b"%d" % self.count))
            self.count += 1
            self.await_both(raw, b"%d" % (self.count - 1))
            took_s = time.monotonic() - begin
            self.busy_since = None
            self.slowest_s = max(self.slowest_s, took_s)
            self.latencies_s.append(took_s)
            time.sleep(self.pause_s)
        raw.delete_queue(1, name)
        raw.close()

    def await_both(self, raw, expected):
        """The confirm and the delivery of this one message."""
        confirmed = delivered = False
        while not (confirmed and delivered):
            if self.stopping:
                return
            for kind, channel, payload in raw.frames():
                if kind == amqp.METHOD:
                    ids = struct.unpack_from(">HH", payload)
                    if ids == amqp.ACK and channel == 1:
                        confirmed = True
                    elif ids == amqp.DELIVER:
                        raw.send(amqp.ack(2, struct.unpack_from(">Q", payload, 5 + payload[4])[0]))
                    else:
                        amqp.check_close(ids, channel, channel, payload)
                elif kind == amqp.BODY:
                    if payload != expected:
                        raise Wrong(f"got {payload!r} for {expected!r}")
                    delivered = True
            if not (confirmed and delivered):
                raw.receive()

    def waiting_s(self):
        since = self.busy_since
        return time.monotonic() - since if since else 0.0


class MemoryWatch(threading.Thread):
    """The highest resident memory, sampled often."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.start_bytes, self.peak_bytes, self.stopping = pid, rss_bytes(pid), 0, False

    def run(self):
        while not self.stopping:
            self.peak_bytes = max(self.peak_bytes, rss_bytes(self.pid))
            time.sleep(0.05)


def expect_close(raw, codes, deadline_s=10):
    """The broker must close with one of these codes; 0 stands for a socket that just ends."""
    closed = raw.wait_closed(deadline_s)
    raw.socket.close()
    if closed is None:
        raise Wrong(f"still open after {deadline_s} s, expected {codes}")
    if closed.code not in codes:
        raise Wrong(f"closed with {closed}, expected {codes}")
    return str(closed) if closed.code else "socket closed"


def connected(url, **more):
    raw = amqp.Raw(url, **more)
    raw.open_channel(1)
    return raw


# ---- the attacks: each takes (url, options) and returns a sentence


def consumer_that_never_reads(url, options):
    """Auto-ack, unlimited prefetch, a full queue, and a socket that is never read."""
    owner = connected(url)
    name, _, _ = owner.declare_queue(1, "", durable=False, exclusive=True)
    owner.confirm_select(1)
    body, count = b"x" * 10_000, 10_000
    for _ in range(count // 100):
        owner.send(amqp.publish(1, "", name, body, persistent=False) * 100)
        owner.socket.settimeout(0.001)
        owner.receive()
        owner.frames()
        owner.socket.settimeout(10)
    owner.open_channel(2)
    owner.declare_queue(2, name, passive=True)
    stuck = []
    for channel in (3, 4):
        owner.open_channel(channel)
    # several consumers on one connection that reads nothing from now on
    owner.send(b"".join(amqp.method(channel, amqp.CONSUME, b"\0\0" + amqp.short(name) + amqp.short("") + bytes([2]) + amqp.table())
                        for channel in (2, 3, 4)))
    stuck.append(owner)
    time.sleep(options.hold_s)
    owner.socket.close()
    return f"{count * len(body) // MB} MB stuck behind it for {options.hold_s:g} s"


def publisher_that_never_stops(url, options):
    """Transient 1 KiB messages as fast as the socket takes them, to a queue without a consumer."""
    owner = connected(url, timeout_s=60)
    name = f"hostile.flood.{os.getpid()}"
    owner.declare_queue(1, name)
    batch = amqp.publish(1, "", name, b"f" * 1024, persistent=False) * 1024
    begin = time.monotonic()
    for _ in range(options.flood_mb):
        owner.send(batch)
    owner.open_channel(2)
    end = time.monotonic() + 120
    while (messages := owner.declare_queue(2, name, passive=True)[1]) < options.flood_mb * 1024:
        if time.monotonic() > end:
            raise Wrong(f"{messages} of {options.flood_mb * 1024} messages are in the queue")
        time.sleep(0.05)
    took_s = time.monotonic() - begin
    owner.delete_queue(2, name, deadline_s=120)
    owner.close()
    return f"{options.flood_mb} MB in {took_s:.1f} s, {options.flood_mb * 1024 / took_s:.0f} msg/s"


def all_channels_and_one_more(url, _):
    raw = amqp.Raw(url, timeout_s=20)
    raw.send(b"".join(amqp.method(channel, amqp.CHANNEL_OPEN, b"\0") for channel in range(1, raw.channel_max + 1)))
    opened, end = set(), time.monotonic() + 30
    while len(opened) < raw.channel_max:
        for _, channel, payload in raw.frames():
            amqp.check_close(struct.unpack_from(">HH", payload), channel, channel, payload)
            opened.add(channel)
        if time.monotonic() > end:
            raise Wrong(f"{len(opened)} of {raw.channel_max} channels opened")
        if len(opened) < raw.channel_max:
            raw.receive()
    raw.send(amqp.method(raw.channel_max + 1, amqp.CHANNEL_OPEN, b"\0"))
    return f"{raw.channel_max} channels; one more: " + expect_close(raw, (504, 530))


def ten_thousand_bindings(url, _):
    """Pipelined without waiting, one queue; then all of them at once with the queue."""
    raw = connected(url, timeout_s=60)
    exchange, count = f"hostile.bindings.{os.getpid()}", 10_000
    raw.declare_exchange(1, exchange, "topic")
    name, _, _ = raw.declare_queue(1, "", durable=False, exclusive=True)
    begin = time.monotonic()
    raw.send(b"".join(amqp.method(1, amqp.QUEUE_BIND, b"\0\0" + amqp.short(name) + amqp.short(exchange) + amqp.short(f"a.{i}.*.c.#") + b"\1" + amqp.table())
                      for i in range(count)))
    raw.bind(1, name, exchange, "last")
    bound_s = time.monotonic() - begin
    raw.send(amqp.publish(1, exchange, "a.777.b.c", b"once", persistent=False))
    end = time.monotonic() + 10
    while raw.declare_queue(1, name, passive=True)[1] != 1:
        if time.monotonic() > end:
            raise Wrong("a message does not find its way through 10,000 bindings")
    begin = time.monotonic()
    raw.delete_queue(1, name)
    deleted_s = time.monotonic() - begin
    raw.delete_exchange(1, exchange)
    raw.close()
    return f"bound in {bound_s:.2f} s, gone with their queue in {deleted_s:.2f} s"


def frames_with_a_lying_size(url, _):
    said = []
    raw = connected(url)
    raw.send(struct.pack(">BHI", amqp.METHOD, 1, 0x7FFFFFFF) + b"x" * 100_000)
    said.append("2 GiB: " + expect_close(raw, (501,)))
    raw = connected(url)
    raw.send(struct.pack(">BHI", amqp.METHOD, 1, 20) + b"x" * 20 + b"\x00")
    said.append("no end octet: " + expect_close(raw, (501,)))
    raw = amqp.Raw(url, handshake=False)
    raw.send(amqp.PROTOCOL_HEADER)
    raw.expect(0, amqp.START)
    raw.send(struct.pack(">BHI", amqp.METHOD, 0, 1_000_000) + b"x" * 10_000)
    said.append("1 MB before login: " + expect_close(raw, (0, 501)))
    return "; ".join(said)


def half_handshakes(url, options):
    """200 connections that stop in the middle of introducing themselves."""
    begin, half = time.monotonic(), []
    for number in range(200):
        raw = amqp.Raw(url, handshake=False)
        if number % 4 > 0:
            raw.send(amqp.PROTOCOL_HEADER[:4] if number % 4 == 1 else amqp.PROTOCOL_HEADER)
        if number % 4 == 3:
            raw.send(amqp.method(0, amqp.START_OK, amqp.table({"a": "b"}))[:15])
        half.append(raw)
    time.sleep(max(0, options.handshake_timeout_s - 1.5 - (time.monotonic() - begin)))
    too_early = sum(not still_open(raw) for raw in half)
    for raw in half:
        left_s = begin + options.handshake_timeout_s + 8 - time.monotonic()
        if raw.wait_closed(max(0.1, left_s)) is None:
            raise Wrong(f"a half handshake is open {time.monotonic() - begin:.1f} s later")
        raw.socket.close()
    took_s = time.monotonic() - begin
    if too_early:
        raise Wrong(f"{too_early} of them were closed well before the timeout of {options.handshake_timeout_s:g} s")
    return f"all 200 closed after {took_s:.1f} s"


def still_open(raw):
    raw.socket.settimeout(0)
    try:
        while data := raw.socket.recv(65536):
            raw.input += data
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        try:
            raw.socket.settimeout(10)
        except OSError:
            pass


def tables_nested_ten_thousand_deep(url, _):
    """In a header and in a declare's arguments: taken as they are, or refused; never a crash."""
    nested = b""
    for _ in range(10_000):
        nested = amqp.long(b"\x01nF" + (nested or amqp.long(b"")))
    raw = connected(url)
    name, _, _ = raw.declare_queue(1, "", durable=False, exclusive=True)
    raw.send(amqp.publish(1, "", name, b"deep", headers=nested))
    said = []
    try:
        raw.open_channel(2)
        raw.consume(2, name, no_ack=True)
        raw.expect(2, amqp.DELIVER)
        said.append("header delivered")
        raw.close()
    except amqp.Closed as closed:
        if closed.code not in (501, 502, 406):
            raise Wrong(f"a deep header: {closed}") from closed
        said.append(f"header: {closed}")
    raw = connected(url)
    raw.send(amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + amqp.short("") + bytes([4]) + nested))
    try:
        raw.expect(1, amqp.QUEUE_DECLARE_OK)
        said.append("arguments accepted")
        raw.close()
    except amqp.Closed as closed:
        if closed.code not in (501, 502, 406):
            raise Wrong(f"deep arguments: {closed}") from closed
        said.append(f"arguments: {closed}")
    return "; ".join(said)


def bodies_that_lie_about_their_size(url, _):
    def content(size, *bodies):
        out = amqp.method(1, amqp.PUBLISH, b"\0\0" + amqp.short("") + amqp.short("hostile.nowhere") + b"\0")
        out += amqp.frame(amqp.HEADER, 1, struct.pack(">HHQH", 60, 0, size, 0))
        return out + b"".join(amqp.frame(amqp.BODY, 1, body) for body in bodies)

    said = []
    raw = connected(url)
    raw.send(content(1 << 62, b"x" * 1000))
    try:
        raw.expect(1, amqp.CHANNEL_OPEN_OK, 10)
    except amqp.Closed as closed:
        if closed.code not in (406, 501, 502):
            raise Wrong(f"a body of 4 EiB: {closed}") from closed
        said.append(f"4 EiB: {closed}")
    raw.socket.close()
    raw = connected(url)
    raw.send(content(10, b"x" * 1000))
    said.append("too much: " + expect_close(raw, (501, 505)))
    # 300 channels announce 16 MB each and send one byte: nothing may be set aside for what has not come
    raw = amqp.Raw(url, timeout_s=20)
    for channel in range(1, 301):
        raw.send(amqp.method(channel, amqp.CHANNEL_OPEN, b"\0") + content(16_000_000, b"x").replace(b"\x01\x00\x01", b"\x01" + struct.pack(">H", channel), 1)
                 .replace(b"\x02\x00\x01", b"\x02" + struct.pack(">H", channel), 1).replace(b"\x03\x00\x01", b"\x03" + struct.pack(">H", channel), 1))
    raw.expect(300, amqp.CHANNEL_OPEN_OK, 20)
    raw.socket.close()
    return "; ".join(said)


def garbage(url, _):
    """Random bytes: instead of the header, instead of the login, instead of frames."""
    dice, counts, noisy = random.Random(4711), {}, []
    for number in range(90):
        stage = number % 3
        raw = connected(url) if stage == 2 else amqp.Raw(url, handshake=False)
        if stage == 1:
            raw.send(amqp.PROTOCOL_HEADER)
            raw.expect(0, amqp.START)
        noise = dice.randbytes(dice.choice((8, 9, 100, 5000, 100_000)))
        try:
            raw.send(b"\xff" + noise)
            raw.send(bytes(10_000))
        except OSError:
            pass
        noisy.append(raw)
    for raw in noisy:
        said = expect_close(raw, (0, 501, 502, 503, 505, 540))
        code = said.split(" ", 1)[0]
        counts[code] = counts.get(code, 0) + 1
    return ", ".join(f"{code}: {count}" for code, count in sorted(counts.items()))


def flood_of_connections(url, _):
    """500 that stay for a while, then 1000 that come and go without a word."""
    held = [amqp.Raw(url, timeout_s=30) for _ in range(500)]
    for raw in held:
        raw.open_channel(1)
    for raw in held[::2]:
        raw.socket.close()            # without goodbye
    for raw in held[1::2]:
        raw.close()
    for number in range(1000):
        raw = amqp.Raw(url, handshake=False)
        if number % 2:
            raw.send(amqp.PROTOCOL_HEADER)
        raw.socket.close()
    return "500 held, 1000 fleeting"


def unacked_for_ever(url, _):
    """A consumer without prefetch that takes all and acks nothing, then leaves: everything is there again."""
    raw = connected(url, timeout_s=30)
    name, count = f"hostile.unacked.{os.getpid()}", 50_000
    raw.declare_queue(1, name)
    for _ in range(count // 500):
        raw.send(amqp.publish(1, "", name, b"u" * 100, persistent=False) * 500)
    raw.declare_queue(1, name, passive=True)
    taker = connected(url, timeout_s=30)
    taker.consume(1, name)
    seen, end = 0, time.monotonic() + 60
    while seen < count and time.monotonic() < end:
        taker.receive()
        seen += sum(kind == amqp.HEADER for kind, _, _ in taker.frames())
    taker.socket.close()
    while (messages := raw.declare_queue(1, name, passive=True)[1]) < count:
        if time.monotonic() > end:
            raise Wrong(f"{messages} of {count} messages came back")
        time.sleep(0.02)
    raw.delete_queue(1, name)
    raw.close()
    return f"{seen} taken, {messages} back"


ATTACKS = [garbage, half_handshakes, frames_with_a_lying_size, bodies_that_lie_about_their_size, tables_nested_ten_thousand_deep,
           all_channels_and_one_more, ten_thousand_bindings, flood_of_connections, unacked_for_ever, consumer_that_never_reads,
           publisher_that_never_stops]


def attack_all(url, pid, options):
    citizens, memory = GoodCitizens(url), MemoryWatch(pid) if pid else None
    citizens.start()
    if memory:
        memory.start()
    failed = 0
    for attack in ATTACKS:
        if options.attacks and attack.__name__ not in options.attacks:
            continue
        begin, before = time.monotonic(), citizens.count
        citizens.slowest_s, said, trouble = 0.0, "", None
        if memory:
            memory.peak_bytes = 0
        try:
            said = attack(url, options)
        except (Wrong, amqp.Closed, OSError, AssertionError) as error:
            trouble = f"{type(error).__name__}: {error}"
        end = time.monotonic() + 5
        while citizens.count < before + 3 and time.monotonic() < end and not citizens.trouble:
            time.sleep(0.01)
        slowest_s = max(citizens.slowest_s, citizens.waiting_s())
        trouble = trouble or judge(citizens, memory, slowest_s, before, options)
        failed += trouble is not None
        figures = f"{time.monotonic() - begin:5.1f} s  others' slowest {slowest_s * 1000:5.0f} ms"
        if memory:
            figures += f"  RSS peak {memory.peak_bytes // MB} MB"
        print(f"{'FAIL' if trouble else 'ok  '} {attack.__name__:36} {figures}  {trouble or said}", flush=True)
        if citizens.trouble:
            break
    if citizens.trouble is None:
        citizens.stopping = True
        citizens.join(10)
    if memory:
        memory.stopping = True
        print(f"     resident memory: {memory.start_bytes // MB} MB at first, {rss_bytes(pid) // MB} MB now; "
              f"well-behaved messages: {citizens.count}", flush=True)
    return failed


def judge(citizens, memory, slowest_s, before, options):
    if citizens.trouble:
        return f"the well-behaved pair failed: {citizens.trouble}"
    if slowest_s > options.latency_max or citizens.count < before + 3:
        return f"a well-behaved message took {slowest_s:.1f} s"
    if memory and memory.peak_bytes > memory.start_bytes + options.rss_max_mb * MB:
        return f"resident memory rose from {memory.start_bytes // MB} MB to {memory.peak_bytes // MB} MB"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("AMQP_URL"))
    parser.add_argument("--pid", type=int, help="the broker's process, whose memory is watched")
    parser.add_argument("--warren", help="the binary: starts one of its own")
    parser.add_argument("--rss-max-mb", type=int, default=512, help="how much resident memory may rise during any attack")
    parser.add_argument("--latency-max", type=float, default=5.0, help="seconds that a well-behaved message may take")
    parser.add_argument("--flood-mb", type=int, default=2048)
    parser.add_argument("--hold-s", type=float, default=3.0)
    parser.add_argument("--handshake-timeout-s", type=float, default=10.0, help="what the broker is set to")
    parser.add_argument("attacks", nargs="*")
    options = parser.parse_args()
    unknown = set(options.attacks) - {attack.__name__ for attack in ATTACKS}
    if unknown or not (options.url or options.warren):
        parser.error(f"unknown attacks: {unknown}; known: {', '.join(a.__name__ for a in ATTACKS)}" if unknown else "--url or --warren is needed")
    broker = folder = None
    try:
        if options.warren:
            folder = tempfile.mkdtemp(prefix="hostile-")
            options.handshake_timeout_s = 2.0
            with open(os.path.join(folder, "warren.conf"), "w") as config:
                config.write("handshake_timeout = 2000\n")
            broker = Broker([options.warren, "server", "--listen", "127.0.0.1:{port}", "--data-dir", os.path.join(folder, "data"),
                             "--config", os.path.join(folder, "warren.conf")], os.path.join(folder, "broker.log"))
            broker.start()
            options.url, options.pid = broker.url, broker.pid
        failed = attack_all(options.url, options.pid, options)
        if broker:
            if not broker.alive():
                print(f"hostile: the broker ended by itself\n{broker.log_tail()}")
                failed += 1
            else:
                broker.stop()
    except Failed as failure:
        print(f"hostile: {failure}")
        failed = 1
    finally:
        if broker and broker.pid:
            broker.kill()
    ran = len(options.attacks or ATTACKS)
    print(f"hostile: {ran - failed} passed, {failed} failed" + (f" (broker's folder: {folder})" if failed and folder else ""))
    if folder and not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
