"""The damage that a power cut may do to the newest file of a Warren log (docs/formats/log.md), and no more than that.

A confirm or an answered declaration says that its record is on disk, so everything up to the end of the last *promised* record
stays as it is. The bytes behind it were perhaps never synced: their end may be missing, or zeros, or a sector inside the very last
write may be. Knows the format of log files; what a record means is the caller's.
"""

import glob
import os
import struct

MAGIC = b"WARRNLOG"
HEADER_BYTES = 32
SECTOR = 512


def records(data):
    """(begin, end, begin of its write, kind, payload) of the records of one file's bytes, up to the first that is not whole."""
    at = HEADER_BYTES
    while at + 32 <= len(data):
        length, _, _, _, back, kind = struct.unpack_from(">IIQQIB", data, at)
        if length > 1 << 30 or at + 32 + length > len(data) or data[at:at + 32] == bytes(32):
            return
        yield at, at + 32 + length, at - back, kind, data[at + 32:at + 32 + length]
        at += 32 + length


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == MAGIC, f"{path} is not a log file"
    return data


def cut(folder, promised, random, named_kinds=()):
    """Damages the newest file of a log; returns what was done in words, or "" where there was nothing to damage. `promised` tells of
    the kind and the payload of a record whether something was promised that it holds. It is asked about all records of the newest
    file, and before that about those in older files that later records may name: those of `named_kinds`."""
    files = sorted(glob.glob(os.path.join(folder, "*.log")))
    if not files:
        return ""
    for path in files[:-1] if named_kinds else ():
        for _, _, _, kind, payload in records(read(path)):
            if kind in named_kinds:
                promised(kind, payload)
    safe = end = HEADER_BYTES
    last_write = HEADER_BYTES
    for _, end, write, kind, payload in records(read(files[-1])):
        last_write = write
        if promised(kind, payload):
            safe = end
    if end <= safe:
        return ""
    name, behind = os.path.basename(folder), end - safe
    at = random.randrange(safe, end)
    how = random.choice(("truncate", "zero", "tear"))
    if how == "tear":                       # one sector of the last write did not make it
        first = max(safe, last_write)
        at = random.randrange(first, end)
        upto = min(end, (at // SECTOR + 1) * SECTOR)
        damage(files[-1], at, bytes(upto - at))
        return f"{name}: {upto - at} bytes inside the last write zeroed"
    if how == "zero":
        damage(files[-1], at, bytes(end - at))
        return f"{name}: last {end - at} of {behind} unconfirmed bytes zeroed"
    os.truncate(files[-1], at)
    return f"{name}: last {end - at} of {behind} unconfirmed bytes cut off"


def damage(path, at, zeros):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(zeros)
        file.flush()
        os.fsync(file.fileno())
