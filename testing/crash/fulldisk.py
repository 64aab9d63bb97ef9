#!/usr/bin/env python3
"""A broker on a real file system that becomes full: nothing confirmed is lost, nothing is damaged, and it goes on by itself.

The data folder is a tmpfs of a few hundred MB, mounted for the test; no other disk is touched. A publisher with confirms fills
it with persistent messages, with the threshold of the disk alarm at 0, so that only a write without room can raise it:

  1. the publisher is told connection.blocked (low on disk), none of its messages is refused;
  2. consumers make room: what they ack is dropped, the publisher is told connection.unblocked and all it sent is confirmed;
  3. somebody else fills the disk and makes room again: blocked, `check_alarms` fails, a new durable queue is refused with a text that says why, one
     that exists can be declared again, and messages are consumed and acked all the same; unblocked, all confirmed;
  4. the process is killed while the disk is full: on start (with room again) every confirmed message that was not acked is there,
     in order, and nothing that was not published.

Then, on file systems of 60 and 160 MB, six queues with messages of 2 to 200 kB: filled and drained three times. Each time what is
consumed makes room by itself, the publishers go on, and nothing is lost, out of order or there twice; also when the first
message of every queue is held back, and after a SIGKILL on the full disk.

Last, queues whose messages all expire, and go to a dead letter exchange. While the disk alarm is on none of them goes, and a queue without such an
exchange loses its expired messages as always. When the file system grows, every message goes to each of its queues, once and in order.

    fulldisk.py --warren target/release/warren [--mb 200]

Needs to mount: as root, or in a user namespace of its own (`unshare -rm`). Where neither is allowed it says so, does nothing, and
ends with code 0. Takes about a minute.
"""

import argparse
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import rawamqp as amqp
from broker import Broker, Failed

QUEUE = "fulldisk"
BODY_BYTES = 50_000
WINDOW = 100                 # unconfirmed messages, ...
PATIENCE_S = 0.5             # ... and one more whenever no confirm has come for so long: who sends nothing is not told of an alarm
DEADLINE_S = 60
CROWD = [(f"crowd.{nth}", size) for nth, size in enumerate([2_000, 20_000, 200_000] * 2)]
DYING, DEAD, TTL_MS = "fulldisk.dying", "fulldisk.dead", 8_000
APART = 1 << 40               # numbers of two publishers of the same test
QUIET_S = 2                  # a crowd that is not confirmed anything for so long has filled the disk


class Violation(Exception):
    """Something that must hold does not."""


class Publisher:
    """Numbered persistent messages with confirms, never blocking on its socket."""

    def __init__(self, url, first, queue=QUEUE, body_bytes=BODY_BYTES, window=WINDOW):
        self.queue, self.body_bytes, self.window = queue, body_bytes, window
        self.raw = amqp.Raw(url)
        self.raw.open_channel(1)
        self.raw.confirm_select(1)
        self.raw.socket.setblocking(False)
        self.first, self.sent, self.outgoing = first, 0, bytearray()
        self.acked, self.nacked, self.told = set(), set(), []
        self.answered_to = 0      # all tags up to this one
        self.moved = time.monotonic()

    def turn(self, more=True, wait_s=0.02):
        """Sends and receives for a moment."""
        while more and len(self.outgoing) < BODY_BYTES and self.may_send():
            body = struct.pack(">Q", self.first + self.sent).ljust(self.body_bytes, b"x")
            self.outgoing += amqp.publish(1, "", self.queue_of(self.sent), body)
            self.sent += 1
        readable, writable, _ = select.select([self.raw.socket], [self.raw.socket] if self.outgoing else [], [], wait_s)
        if writable:
            try:
                del self.outgoing[:self.raw.socket.send(self.outgoing)]
            except BlockingIOError:
                pass
        if readable:
            self.raw.receive()
        for kind, _, payload in self.raw.frames():
            if kind == amqp.METHOD:
                self.method(struct.unpack_from(">HH", payload), payload)

    def queue_of(self, nth):
        return self.queue

    def may_send(self):
        waited = time.monotonic() - self.moved > PATIENCE_S
        if waited:
            self.moved = time.monotonic()
        return waited or self.sent - len(self.acked) < self.window

    def method(self, ids, payload):
        if ids in (amqp.ACK, amqp.NACK):
            self.moved = time.monotonic()
            tag, multiple = struct.unpack_from(">QB", payload, 4)
            known = self.acked if ids == amqp.ACK else self.nacked
            tags = range(self.answered_to + 1, tag + 1) if multiple & 1 else [tag]
            known.update(tag for tag in tags if tag not in self.acked and tag not in self.nacked)
            self.answered_to = tag if multiple & 1 else self.answered_to
        elif ids == amqp.BLOCKED:
            self.told.append(payload[5:5 + payload[4]].decode())
        elif ids == amqp.UNBLOCKED:
            self.told.append("unblocked")
        else:
            amqp.check_close(ids, 0, 0, payload)

    def until(self, what, condition, more=True):
        end = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > end:
                raise Violation(f"not within {DEADLINE_S} s: {what} ({self.sent} sent, {len(self.acked)} acked, told {self.told})")
            self.turn(more)
        if self.nacked:
            raise Violation(f"{len(self.nacked)} messages were refused")

    def is_told(self, text):
        """The latest notice is this one. Between two steps a publisher may be blocked and unblocked by its own messages."""
        return self.told[-1:] == [text]

    def all_confirmed(self):
        return not self.outgoing and len(self.acked) == self.sent

    def confirmed(self):
        return {self.first + tag - 1 for tag in self.acked}


def drain(url, keep=0, queue=QUEUE, body_bytes=BODY_BYTES):
    """Takes and acks all messages but the newest `keep`; returns their numbers."""
    raw = amqp.Raw(url, timeout_s=DEADLINE_S)
    raw.open_channel(1)
    taken = []
    while True:
        number, left = get(raw, queue, body_bytes)
        if number is None:
            raw.socket.close()
            return taken
        taken.append(number)
        if left <= keep and keep:
            raw.declare_queue(1, queue, passive=True)     # the ack has arrived
            raw.socket.close()
            return taken


def get(raw, queue, body_bytes, ack=True):
    """Takes a message; returns its number and how many are left, or None and 0 when there is none."""
    raw.send(amqp.method(1, (60, 70), b"\0\0" + amqp.short(queue) + b"\0"))
    tag = left = None
    size, body = None, b""
    while size is None or len(body) < size:
        frames = raw.frames()
        if not frames and not raw.receive():
            raise Violation("basic.get was not answered")
        for kind, _, payload in frames:
            ids = struct.unpack_from(">HH", payload) if kind == amqp.METHOD else None
            if ids == (60, 72):
                return None, 0
            if ids == (60, 71):
                tag, left = struct.unpack_from(">Q", payload, 4)[0], struct.unpack(">I", payload[-4:])[0]
            elif kind == amqp.METHOD:
                amqp.check_close(ids, 0, 1, payload)
            elif kind == amqp.HEADER:
                size = struct.unpack_from(">Q", payload, 4)[0]
            else:
                body += payload
    if len(body) != body_bytes or body[8:] != b"x" * (body_bytes - 8):
        raise Violation("a body came back changed")
    if ack:
        raw.send(amqp.ack(1, tag, multiple=False))
    return struct.unpack_from(">Q", body)[0], left


class Consumer:
    """Takes and acks what a queue has, and puts its numbers on a list."""

    def __init__(self, url, queue, taken):
        self.raw = amqp.Raw(url, timeout_s=0.02)
        self.raw.open_channel(1)
        self.raw.qos(1, 1000)
        self.raw.consume(1, queue)
        self.taken, self.is_begun = taken, False

    def turn(self):
        self.raw.receive()
        latest = None
        for kind, _, payload in self.raw.frames():
            if kind == amqp.METHOD:
                if struct.unpack_from(">HH", payload) == (60, 60):
                    latest, self.is_begun = struct.unpack_from(">Q", payload, 5 + payload[4])[0], True
                else:
                    amqp.check_close(struct.unpack_from(">HH", payload), 0, 1, payload)
            elif kind == amqp.BODY and self.is_begun:
                self.taken.append(int.from_bytes(payload[:8], "big"))
                self.is_begun = False
        if latest is not None:
            self.raw.send(amqp.ack(1, latest, True))


class FullDisk:
    LIMIT = "disk_free_limit.absolute = 0\n"

    def __init__(self, warren, folder):
        self.warren, self.folder, self.data = warren, folder, os.path.join(folder, "data")
        config = os.path.join(tempfile.gettempdir(), f"fulldisk-{os.getpid()}.conf")
        with open(config, "w") as file:
            file.write(self.LIMIT)
        self.config = config
        command = [warren, "server", "--config", config, "--listen", "127.0.0.1:{port}", "--data-dir", self.data]
        self.broker = Broker(command, os.path.join(tempfile.gettempdir(), f"fulldisk-{os.getpid()}.log"))

    def ctl(self, *words):
        done = subprocess.run([self.warren, "ctl", "--data-dir", self.data, *words], capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout + done.stderr

    def say(self, text):
        free = shutil.disk_usage(self.folder).free >> 20
        print(f"{time.monotonic() - self.begin:5.1f} s, {free:4d} MB free: {text}", flush=True)

    def works_while_full(self):
        """Small writes have room: a reserve."""
        code, text = self.ctl("check_alarms")
        if code != 69 or "disk space alarm" not in text:
            raise Violation(f"check_alarms says {code}: {text}")
        raw = amqp.Raw(self.broker.url)
        raw.open_channel(1)
        raw.declare_queue(1, QUEUE)
        try:
            raw.declare_queue(1, "fulldisk.new")
        except amqp.Closed as closed:
            if closed.code == 541 and "the disk is full" in closed.text:
                return
            raise Violation(f"a new durable queue was refused with {closed}") from closed
        raise Violation("a new durable queue was declared on a full disk")

    def finish(self):
        """Stops the broker and reads its log."""
        self.broker.stop()
        if "panicked" in open(self.broker.log_path, errors="replace").read():
            raise Violation("the broker's log speaks of a panic")

    def fill(self):
        """Takes what is free."""
        with open(os.path.join(self.folder, "ballast"), "ab") as file:
            try:
                while True:
                    os.write(file.fileno(), b"b" * 65536)
            except OSError:
                pass

    def settle(self):
        """Waits until the broker makes no more room: files of messages that were consumed go some time later."""
        end, last = time.monotonic() + DEADLINE_S, -1
        while time.monotonic() < end:
            free = shutil.disk_usage(self.folder).free
            if free == last:
                return
            last = free
            time.sleep(QUIET_S)
        raise Violation("what is free on the disk changes though nobody publishes")

    def empty(self):
        os.remove(os.path.join(self.folder, "ballast"))

    def start_with_queue(self):
        self.begin = time.monotonic()
        self.broker.start()
        setup = amqp.Raw(self.broker.url)
        setup.open_channel(1)
        setup.declare_queue(1, QUEUE)

    def run(self):
        self.start_with_queue()
        publisher = Publisher(self.broker.url, 0)
        publisher.until("blocked", lambda: publisher.told == ["low on disk"])
        held = publisher.sent - len(publisher.acked)
        self.say(f"blocked after {publisher.sent} messages, {held} of them not confirmed")
        taken = drain(self.broker.url)
        self.say(f"{len(taken)} messages consumed")
        publisher.until("unblocked by consumers", lambda: publisher.is_told("unblocked"), more=False)
        publisher.until("all confirmed", publisher.all_confirmed, more=False)
        taken += drain(self.broker.url)
        if taken != list(range(publisher.sent)):
            raise Violation(f"{publisher.sent} were sent, {len(taken)} came, or not in order")
        self.say("unblocked, and all is confirmed and consumed")

        self.settle()
        self.fill()
        publisher.until("blocked by ballast", lambda: publisher.is_told("low on disk"))
        self.works_while_full()
        taken += drain(self.broker.url, keep=1)
        self.say("blocked by somebody else's file")
        self.empty()
        publisher.until("unblocked by hand", lambda: publisher.is_told("unblocked"), more=False)
        publisher.until("all confirmed again", publisher.all_confirmed, more=False)
        self.say("unblocked, and all is confirmed")

        drained = set(taken) | set(drain(self.broker.url))
        publisher.until("some more", lambda: len(publisher.acked) > len(drained) + 300)
        self.fill()
        publisher.until("blocked again", lambda: publisher.is_told("low on disk"))
        self.broker.kill()
        self.empty()
        self.broker.start()
        self.say("killed while the disk was full, and started again")
        found = drain(self.broker.url)
        missing = publisher.confirmed() - drained - set(found)
        if missing:
            raise Violation(f"{len(missing)} confirmed messages are gone, e.g. {sorted(missing)[:5]}")
        if found != sorted(set(found)) or found[-1] >= publisher.sent:
            raise Violation(f"{len(found)} messages came back, not as they were published")
        self.finish()
        print(f"{len(publisher.acked)} confirmed messages, none lost, with the disk full three times")


class Crowd(FullDisk):
    """Several queues whose backlogs fill the disk together."""

    def run(self, is_held):
        self.begin = time.monotonic()
        self.broker.start()
        setup = amqp.Raw(self.broker.url)
        setup.open_channel(1)
        for queue, _ in CROWD:
            setup.declare_queue(1, queue)
        self.publishers = [Publisher(self.broker.url, 0, queue, size) for queue, size in CROWD]
        self.taken = {queue: [] for queue, _ in CROWD}
        self.held = {}
        holder = amqp.Raw(self.broker.url)
        holder.open_channel(1)
        for nth in range(3):
            self.fill_by_all()
            if is_held and nth == 0:
                self.held = {queue: get(holder, queue, size, ack=False)[0] for queue, size in CROWD}
            self.drain_all()
            self.until_confirmed()
            self.say(f"drained, and all of {sum(len(publisher.acked) for publisher in self.publishers)} messages are confirmed")
        self.fill_by_all()
        self.broker.kill()
        self.broker.start()
        self.say("killed while the disk was full, and started again")
        acked_last = {queue: set(taken) for queue, taken in self.taken.items()}
        self.drain_all()
        self.check(acked_last)
        self.finish()
        print(f"{sum(len(publisher.acked) for publisher in self.publishers)} confirmed messages of {len(CROWD)} queues, none lost, with the disk full four times")

    def turn_all(self, more):
        for publisher in self.publishers:
            publisher.turn(more, wait_s=0)

    def confirmed(self):
        return sum(len(publisher.acked) for publisher in self.publishers)

    def fill_by_all(self):
        before, end = self.confirmed(), time.monotonic() + DEADLINE_S
        while True:
            confirmed, moved = self.confirmed(), time.monotonic()
            while time.monotonic() - moved < QUIET_S:
                self.turn_all(more=True)
                if self.confirmed() > confirmed:
                    confirmed, moved = self.confirmed(), time.monotonic()
            if "disk space alarm" in self.ctl("check_alarms")[1]:
                break
            # Room may have been made just now; then they go on.
            if time.monotonic() > end:
                raise Violation("nothing is confirmed, and there is no alarm")
        self.say(f"no more is confirmed, {confirmed - before} messages")

    def drain_all(self):
        for queue, size in CROWD:
            self.taken[queue] += drain(self.broker.url, queue=queue, body_bytes=size)

    def until_confirmed(self):
        """Unconfirmed messages are confirmed once there is room; then they are consumed."""
        end = time.monotonic() + DEADLINE_S
        while not all(publisher.all_confirmed() for publisher in self.publishers):
            if time.monotonic() > end:
                missing = sum(publisher.sent - len(publisher.acked) for publisher in self.publishers)
                raise Violation(f"all was consumed, and after {DEADLINE_S} s {missing} messages are not confirmed: the disk does not become empty")
            self.turn_all(more=False)
            time.sleep(0.01)
        self.drain_all()
        for publisher in self.publishers:
            expected = [number for number in range(publisher.sent) if number != self.held.get(publisher.queue)]
            if self.taken[publisher.queue] != expected:
                raise Violation(f"{publisher.queue}: {publisher.sent} were sent, {len(self.taken[publisher.queue])} came, or not in order")

    def check(self, acked_before):
        """After the kill: what was confirmed and not acked is there, in order; what was acked just before may come again."""
        for publisher in self.publishers:
            found = self.taken[publisher.queue][len(acked_before[publisher.queue]):]
            missing = publisher.confirmed() - acked_before[publisher.queue] - set(found)
            if missing or found != sorted(set(found)) or found[-1] >= publisher.sent:
                raise Violation(f"{publisher.queue}: {len(missing)} of {len(publisher.acked)} confirmed messages are gone, or not in order")


class Dying(FullDisk):
    """All that fills the disk expires. It waits for the disk alarm to clear, then it goes to some queues."""

    def until_still(self, depths):
        """The depths that no longer change. A checkpoint may clear the alarm for a moment, and some messages die then."""
        end, last = time.monotonic() + DEADLINE_S, depths()
        while time.monotonic() < end:
            time.sleep(TTL_MS / 1000 + 1)
            now = depths()
            if now == last:
                return now
            last = now
        raise Violation("messages are dead-lettered while the disk alarm is on")

    def run(self, copies, body_bytes, sources=1):
        self.begin = time.monotonic()
        self.broker.start()
        setup = amqp.Raw(self.broker.url)
        setup.open_channel(1)
        setup.declare_exchange(1, DEAD, "fanout")
        taken = {f"{DEAD}.{nth}": [] for nth in range(copies)}
        for queue in taken:
            setup.declare_queue(1, queue)
            setup.bind(1, queue, DEAD, "")
        queues = [f"{DYING}.{nth}" for nth in range(sources)]
        for queue in queues:
            setup.declare_queue(1, queue, arguments={"x-message-ttl": TTL_MS, "x-dead-letter-exchange": DEAD})
        setup.declare_queue(1, QUEUE, arguments={"x-message-ttl": TTL_MS})
        plain = Publisher(self.broker.url, 0, QUEUE, 100, 10)
        plain.until("confirmed", lambda: len(plain.acked) >= 50)
        self.publishers = [Publisher(self.broker.url, nth * APART, queue, body_bytes) for nth, queue in enumerate(queues)]
        self.fill()
        before = self.until_still(lambda: [self.depth(queue) for queue in [*queues, *taken]])[:sources]
        if not any(before):
            raise Violation("messages were dead-lettered while the disk alarm was on")
        if self.depth(QUEUE) != 0:
            raise Violation("expired messages stay though they leave no dead letter")
        code, text = self.ctl("alarms")
        if "wait for the disk alarm" not in text or "purge" not in text:
            raise Violation(f"alarms does not say what waits: {code}, {text}")
        self.say(f"{sum(before)} messages wait")
        subprocess.run(["mount", "-o", "remount,size=4g", self.folder], check=True)
        self.take(taken)
        for queue, letters in taken.items():
            for publisher in self.publishers:
                own = [letter for letter in letters if letter // APART == publisher.first // APART]
                if own != list(range(publisher.first, publisher.first + publisher.sent)):
                    raise Violation(f"{queue}: {publisher.sent} were sent, {len(own)} came, {len(set(own))} of them different, or not in order")
        self.finish()
        print(f"{self.sent()} messages of {sources} queues expired on a full disk, and came once to each of {copies} queues when there was room")

    def depth(self, queue):
        code, text = self.ctl("list_queues", "name", "messages")
        rows = dict(line.split("\t") for line in text.splitlines() if line.count("\t") == 1)
        if code != 0 or queue not in rows:
            raise Violation(f"list_queues says {code}: {text}")
        return int(rows[queue])

    def sent(self):
        return sum(publisher.sent for publisher in self.publishers)

    def fill(self):
        end = time.monotonic() + DEADLINE_S
        while not all(publisher.told for publisher in self.publishers):
            if time.monotonic() > end:
                raise Violation(f"{self.sent()} messages were sent in {DEADLINE_S} s, and not every publisher was told that the disk is low")
            for publisher in self.publishers:
                publisher.turn(wait_s=0.02 / len(self.publishers))
        self.say(f"the disk is full after {sum(len(publisher.acked) for publisher in self.publishers)} messages")

    def take(self, taken):
        """Consumes all dead letters; all that was sent is confirmed then."""
        consumers = [Consumer(self.broker.url, queue, taken[queue]) for queue in taken]
        end = time.monotonic() + DEADLINE_S
        while any(len(letters) < self.sent() for letters in taken.values()) or not all(it.all_confirmed() for it in self.publishers):
            if time.monotonic() > end:
                come, confirmed = [len(letters) for letters in taken.values()], sum(len(it.acked) for it in self.publishers)
                raise Violation(f"after {DEADLINE_S} s {come} letters of {self.sent()} messages have come, {confirmed} are confirmed")
            for consumer in consumers:
                consumer.turn()
            for publisher in self.publishers:
                publisher.turn(more=False, wait_s=0)


class Squeezed(FullDisk):
    """Something else takes what the limit keeps free, again and again, and the broker is killed meanwhile: its reserve must outlive that."""

    LIMIT = ""

    def run(self):
        self.start_with_queue()
        publisher = Publisher(self.broker.url, 0, body_bytes=500, window=5_000)
        publisher.until("blocked", lambda: publisher.told == ["low on disk"])
        for life in range(3):
            for _ in range(4):
                self.fill()
                time.sleep(0.3)
            self.broker.kill()
            self.broker.start()
            # The look at the disk that a start begins with, and the one after it.
            time.sleep(1.5)
            self.say(f"start {life}, with {self.reserve()} bytes in reserve")
        self.fill()
        taken = []
        consumer = Consumer(self.broker.url, QUEUE, taken)
        end = time.monotonic() + DEADLINE_S
        while not publisher.confirmed() <= set(taken):
            if time.monotonic() > end:
                raise Violation(f"{len(taken)} of {len(publisher.acked)} confirmed messages came in {DEADLINE_S} s")
            for _ in range(100):
                consumer.turn()
        if taken != list(range(len(taken))):
            raise Violation(f"{len(taken)} came, {len(set(taken))} of them different, or not in order")
        while self.log_bytes() > 8 << 20 or shutil.disk_usage(self.folder).free == 0:
            if time.monotonic() > end:
                raise Violation(f"the log has {self.log_bytes()} bytes of nothing, {self.reserve()} are in reserve")
            time.sleep(0.2)
        self.leave_more_than_the_limit()
        self.broker.kill()
        self.broker.start()
        code, text = self.ctl("list_queues", "name", "messages")
        if code != 0 or f"{QUEUE}\t" not in text:
            raise Violation(f"after all was acknowledged and a kill: {text}")
        self.finish()
        print(f"{len(taken)} messages were consumed from a disk that others filled, after 3 kills, and their files went")

    def leave_more_than_the_limit(self):
        """Of what is free, all but 16 MB above the limit is somebody else's for good: publishers go on, because the reserve counts as free."""
        publisher = Publisher(self.broker.url, APART, body_bytes=500)
        publisher.until("blocked below the limit", lambda: publisher.told == ["low on disk"])
        lacking = (66 << 20) - shutil.disk_usage(self.folder).free - self.reserve()
        ballast = os.path.join(self.folder, "ballast")
        os.truncate(ballast, os.path.getsize(ballast) - lacking)
        publisher.until("unblocked above the limit", lambda: publisher.told[1:] == ["unblocked"], more=False)
        self.say(f"publishers go on, with {self.reserve()} bytes in reserve")

    def reserve(self):
        path = os.path.join(self.data, "warren.reserve")
        return os.path.getsize(path) if os.path.exists(path) else 0

    def log_bytes(self):
        return sum(file.stat().st_size for file in os.scandir(os.path.join(self.data, "log")))


def mounted(mb):
    """A folder with its own file system of so many MB; None where mounting is not allowed."""
    folder = tempfile.mkdtemp(prefix="warren-fulldisk.")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode == 0:
        return folder
    os.rmdir(folder)
    if os.environ.get("FULLDISK_INSIDE") is None and shutil.which("unshare"):
        probe = subprocess.run(["unshare", "-rm", "true"], capture_output=True)
        if probe.returncode == 0:
            os.execvpe("unshare", ["unshare", "-rm", sys.executable, *sys.argv], os.environ | {"FULLDISK_INSIDE": "1"})
    print(f"SKIPPED: no file system can be mounted here ({done.stderr.strip()}); the full disk was NOT tested")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warren", required=True)
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--all", action="store_true", help="six kinds of full disks instead of three")
    options = parser.parse_args()
    warren = os.path.abspath(options.warren)
    cases = [(FullDisk, options.mb, ()), (Crowd, 160, (True,)), (Dying, 60, (3, 5_000, 10))]
    if options.all:
        cases += [(Squeezed, 150, ()), (Crowd, 60, (False,)), (Dying, 120, (1, 20_000))]
    for kind, mb, arguments in cases:
        folder = mounted(mb)
        if folder is None:
            return 0
        print(f"{kind.__name__} on {mb} MB {arguments or ''}")
        code = on_disk(kind(warren, folder), arguments)
        if code != 0:
            return code
    return 0


def on_disk(test, arguments):
    try:
        test.run(*arguments)
        return 0
    except (Violation, Failed, amqp.Closed, OSError) as error:
        print(f"FAILED: {type(error).__name__}: {error}\n{test.broker.log_tail()}")
        return 1
    finally:
        if test.broker.pid and test.broker.alive():
            test.broker.kill()
        subprocess.run(["umount", test.folder], check=False)
        os.rmdir(test.folder)
        for path in (test.config, test.broker.log_path):
            os.remove(path)


if __name__ == "__main__":
    sys.exit(main())
