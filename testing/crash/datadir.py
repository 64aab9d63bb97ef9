#!/usr/bin/env python3
"""Data directories from which something is missing or in which a bit is flipped: the broker refuses them and says why, `warren diag`
finds it, and what `warren diag salvage` copies starts and holds what the damage left.

A broker gets persistent messages until its log has two files, and is stopped. Each damage is done to a copy of its folder:

  1. `warren server` refuses, with a text that names the folder or file, and removes nothing; damage that does no harm starts;
  2. `warren diag --verify` ends with 1; on the copy without damage with 0;
  3. `warren diag salvage` makes a folder that verifies, starts, and has the number of messages that it told.

    datadir.py --warren target/release/warren [--keep]

Takes about 15 s.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pika

from broker import Broker, Failed

QUEUES = 4
MESSAGES = 7600
BODY = b"x" * 9000


class Violation(Exception):
    """Something that must hold does not."""


def fill(url):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for nth in range(QUEUES):
        channel.queue_declare(f"q{nth}", durable=True)
    channel.tx_select()
    persistent = pika.BasicProperties(delivery_mode=2)
    for nth in range(MESSAGES):
        channel.basic_publish("", f"q{nth % QUEUES}", b"%06d" % nth + BODY, persistent)
        if nth % 200 == 199:
            channel.tx_commit()
    channel.tx_commit()
    connection.close()


def files(folder):
    found = [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]
    return sorted(os.path.relpath(path, folder) for path in found if not path.endswith(".sock"))


def flip(path, part):
    with open(path, "r+b") as file:
        at = int(os.path.getsize(path) * part)
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 16]))


def overwrite(path, count):
    """Changes so many of the last bytes that are not filling."""
    with open(path, "r+b") as file:
        data = file.read()
        end = len(data.rstrip(b"\0"))
        file.seek(end - count)
        file.write(bytes(byte ^ 16 for byte in data[end - count:end]))


def messages_in(segment):
    """How many messages a segment file holds (docs/formats/queue-records.md)."""
    with open(segment, "rb") as file:
        data = file.read()
    count, at = 0, 32
    while at + 8 <= len(data):
        end = at + 8 + int.from_bytes(data[at:at + 4])
        at += 8
        while at < end:
            count, at = count + 1, at + 4 + int.from_bytes(data[at:at + 4])
    return count


def damages(folder):
    """Name, what to do to a copy, what the refusal names (None: it starts), messages at least and at most after a salvage."""
    logs = [name for name in files(folder) if name.startswith("log/")]
    segments = [name for name in files(folder) if name.endswith(".seg")]
    oldest, newest, meta = logs[0], logs[-1], "meta"
    remove = lambda name: lambda copy: os.remove(os.path.join(copy, name))
    tree = lambda name: lambda copy: shutil.rmtree(os.path.join(copy, name))
    inside = lambda name, part: lambda copy: flip(os.path.join(copy, name), part)
    last = lambda name, count: lambda copy: overwrite(os.path.join(copy, name), count)
    stored = sum(messages_in(os.path.join(folder, name)) for name in segments)
    cut = lambda name: lambda copy: os.truncate(os.path.join(copy, name), os.path.getsize(os.path.join(copy, name)) - 100)
    def exchange(copy):
        one, other = (os.path.join(copy, name) for name in (oldest, newest))
        os.rename(one, one + "x")
        os.rename(other, one)
        os.rename(one + "x", other)

    rotten = lambda copy: open(next(os.path.join(copy, name) for name in files(copy) if "epoch-" in name), "wb").write(b"rotten")
    some = (1, MESSAGES)
    return [
        ("nothing", lambda copy: None, None, (MESSAGES, MESSAGES)),
        ("oldest log file missing", remove(oldest), "files are missing", some),
        ("newest log file missing", remove(newest), "files are missing", some),
        ("end of the newest log file missing", cut(newest), os.path.basename(newest), some),
        ("bit flipped in the oldest log file", inside(oldest, 0.4), os.path.basename(oldest), (MESSAGES, MESSAGES)),
        ("bit flipped in the newest log file", inside(newest, 0.4), os.path.basename(newest), (MESSAGES, MESSAGES)),
        ("bit flipped in the last record", last(newest, 1), os.path.basename(newest), (MESSAGES, MESSAGES)),
        ("end of the last record overwritten", last(newest, 40), os.path.basename(newest), some),
        ("bit flipped in the header of a log file", inside(newest, 0.0), os.path.basename(newest), (MESSAGES, MESSAGES)),
        ("log files under each other's names", exchange, "name does not match", (MESSAGES, MESSAGES)),
        ("log/ missing", tree("log"), "folder log/", (stored, stored)),
        ("meta/ missing", tree(meta), "folder meta/", (MESSAGES, MESSAGES)),
        ("segments/ missing", tree("segments"), "folder segments/", (MESSAGES, MESSAGES)),
        ("epoch file damaged", rotten, None, None),
        ("segment missing that no queue needs", remove(segments[0]) if segments else lambda copy: None, None, None),
    ]


def server(warren, folder, log):
    return Broker([warren, "server", "--listen", "127.0.0.1:0", "--data-dir", folder], log)


def messages(warren, folder):
    listed = subprocess.run([warren, "ctl", "--data-dir", folder, "-q", "list_queues", "messages"],
                            capture_output=True, text=True, check=True).stdout
    return sum(int(line) for line in listed.split() if line.isdigit())


def starts(warren, folder, log):
    """The messages that it has, once it is ready."""
    broker = server(warren, folder, log)
    broker.start()
    try:
        return messages(warren, folder)
    finally:
        broker.stop()


def refused(warren, folder, log, named):
    before = files(folder)
    done = subprocess.run([warren, "server", "--listen", "127.0.0.1:0", "--data-dir", folder],
                          capture_output=True, text=True, timeout=60)
    if done.returncode == 0 or named not in done.stderr or "warren diag" not in done.stderr:
        raise Violation(f"not refused with a text that says '{named}' (code {done.returncode}):\n{done.stderr}")
    gone = set(before) - set(files(folder))
    if gone:
        raise Violation(f"refused, but it removed {sorted(gone)}")


def diag(warren, *words):
    done = subprocess.run([warren, "diag", *words], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1) or "panicked" in done.stderr:
        raise Violation(f"warren diag {words}: code {done.returncode}\n{done.stderr}")
    return done.returncode, done.stdout


def trial(warren, base, work, damage):
    name, do, named, salvaged = damage
    copy, new, log = os.path.join(work, "copy"), os.path.join(work, "new"), os.path.join(work, "log.txt")
    for folder in (copy, new):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, copy, ignore=lambda _, names: [one for one in names if one.endswith(".sock")])
    do(copy)
    if named is None:
        found = starts(warren, copy, log)
        if found != MESSAGES:
            raise Violation(f"it has {found} of {MESSAGES} messages")
    else:
        refused(warren, copy, log, named)
        if diag(warren, "--verify", copy)[0] != 1:
            raise Violation("warren diag --verify finds nothing wrong")
    told = "started" if named is None else "nothing salvaged"
    if salvaged is not None:
        _, text = diag(warren, "salvage", copy, "--to", new)
        code, problems = diag(warren, "--verify", new)
        if code != 0:
            raise Violation(f"what was salvaged has problems:\n{problems}")
        said = int(re.search(r": (\d+) messages, \d+ segment files", text).group(1))
        found = starts(warren, new, log)
        if found != said or not salvaged[0] <= found <= salvaged[1]:
            raise Violation(f"salvaged {said}, it has {found}, between {salvaged[0]} and {salvaged[1]} should be there\n{text}")
        told = f"{found} of {MESSAGES} messages salvaged"
    print(f"ok    {name}: {'refused, ' if named else ''}{told}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--warren", required=True)
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="warren-datadir-")
    base, failed = os.path.join(work, "base"), 0
    try:
        broker = server(options.warren, base, os.path.join(work, "base.log"))
        broker.start()
        fill(broker.url)
        broker.stop()
        all_damages = damages(base)
        for damage in all_damages:
            try:
                trial(options.warren, base, work, damage)
            except (Violation, Failed) as problem:
                failed += 1
                print(f"FAIL  {damage[0]}: {problem}", flush=True)
        print(f"{len(all_damages) - failed} passed, {failed} failed")
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
